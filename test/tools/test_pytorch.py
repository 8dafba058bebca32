#!/usr/bin/env python3
"""The client on torch.distributed, run end to end: test_pytorch.py ROOT PROGRAM

Right, on several processes: check says so. With its own mistakes switched on, one by one and three
at a time: check names each as what it is. Skipped where PyTorch is missing.
"""
import os
import subprocess
import sys
import tempfile

from program import Checks, Result, start_with

start_with("torch", "numpy")
ROOT, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SCRIPT = os.path.join(ROOT, "tools", "clients", "pytorch", "run_pytorch.py")
# Mistakes of tensor and sequence parallelism; all others are tried without this program.
SHARDED = ["bias-per-rank", "partial-sum", "input-gradient", "norm-gradient", "positions",
           "sequence-order", "query-key", "causal-mask", "target-shift", "clip-per-rank",
           "update-twice"]
SMALL = ["--", "--layers", "1", "--steps", "2"]


def run(*words):
    done = subprocess.run([sys.executable, "-B", SCRIPT, "--lockstep", PROGRAM, *words],
                          capture_output=True, text=True, timeout=250, check=False)
    return Result(done.returncode, done.stdout, done.stderr, set())


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as golden:
        done = run("--keep", golden, "--tp", "4", "--sp", "--dtype", "f64", *SMALL)
        checks.that(done.status == 0 and ", 0 different" in done.out, f"tp 4 x sp, f64\n{done}")
        golden = os.path.join(golden, "golden")
        done = run("--golden", golden, "--tp", "2", "--sp", "--each", ",".join(SHARDED))
        checks.that(done.status == 0 and len(done.out.splitlines()) == 2 + len(SHARDED),
                    f"tp 2 x sp\n{done}")
        done = run("--golden", golden, "--tp", "2", "--sp", "--mistakes",
                   "bias-per-rank,score-scale,update-twice")
        checks.that(done.status == 1 and all(
            name in done.out for name in ("bias added once per rank", "update applied twice",
                                          "another scale of the attention scores")),
                    f"three mistakes\n{done}")
    # 130 words: the second rank has padded ones. 7 sequences for 2 ranks and 2 micro-batches.
    done = run("--tp", "2", "--dp", "2", "--micro-batches", "2", "--each",
               "mean-of-means,averaged-gradient,tied-embedding,unsynchronised,padded-vocabulary",
               *SMALL, "--batch", "7", "--vocab", "130")
    checks.that(done.status == 0 and len(done.out.splitlines()) == 7, f"tp 2 x dp 2\n{done}")
    for words, status, text in ((["--tp", "5", *SMALL], 2, "--tp 5 does not divide heads 12"),
                                (["--mistake", "nonsense", *SMALL], 2, "nonsense"),
                                (["--tp", "0", *SMALL], 2, "--tp"),
                                (["--", "--model", "nonsense"], 2, "nonsense"),
                                (["--", "--model", "llama-nano"], 2, "rmsnorm"),
                                (["--golden", "nowhere"], 2, "nowhere")):
        done = run(*words)
        checks.that(done.status == status and text in done.err and
                    len(done.err.splitlines()) == 1, f"{words}\n{done}")
    checks.finish()


if __name__ == "__main__":
    main()
