#!/usr/bin/env python3
"""`lockstep gallery` from outside: test_gallery.py LOCKSTEP LOCKSTEP_GALLERY [README]

With the project's README every fault in every layout: all must be found and named, and the last
lines are those that the README shows. Else the command's face: its
options, its last line, JSON, what it leaves behind, what it says when its program is missing.
"""
import json
import os
import shutil
import stat
import struct
import sys
import tempfile

from program import Checks, Program, parse_safetensors

LAST = "gallery: {} in {}, {} found, {} named right, 0 false alarms"


def whole(checks, program, readme):
    result = program.run("gallery", "--json", timeout=600)
    checks.that(result.status == 0, f"the whole gallery\n{result}")
    facts = json.loads(result.out)
    faults, layouts = facts["faults"], facts["layouts"]
    expected = LAST.format(f"{faults} faults", f"{layouts} layouts", faults, faults)
    checks.that(result.err.splitlines()[-1] == expected, result.err.splitlines()[-1])
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    shown = "".join(f"    {line}\n" for line in result.err.splitlines()[-5:])
    checks.that(shown in text, f"the README does not show\n{shown}")
    checks.that(f"makes {faults} known mistakes" in text, f"the README does not say {faults}")
    rows = facts["rows"]
    right = [row for row in rows if row["fault"] is None]
    checks.that(len(right) == layouts and all(row["different"] == 0 for row in right),
                "runs without a fault")
    causes = {row["cause"] for row in rows if row["cause"]}
    checks.that(len(causes) >= 20, f"{len(causes)} causes named")
    # A tolerance lets some pass: that is what the gallery is there to show.
    for index, at_least in ((0, 10), (1, 5), (2, 1)):
        passed = sum(row["allclose_losses"][index]["passes"] for row in rows if row["fault"])
        checks.that(passed >= at_least, f"tolerance {index}: {passed} runs pass by their losses")
    checks.that(all(row["allclose_gradients"][2]["passes"] and row["allclose_losses"][2]["passes"]
                    for row in right), "a right run must pass every tolerance")


def floats(program, path):
    """Tensors of a file in binary32, by name."""
    return {name: struct.unpack(f"<{len(data) // 4}f", data)
            for name, (dtype, _, data) in parse_safetensors(program.read(path))[1].items()
            if dtype == "F32"}


def rounded(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def nothing_else(checks, program):
    """Two faults do what they say and leave right what is next to it."""
    result = program.run("gallery", "--only", "dropout-mask,local-statistics",
                         "--keep", "two")
    checks.that(result.status == 0, f"two faults, kept\n{result}")
    files = sorted(os.fsdecode(name) for name in result.left if b"/ranks/rank-" in name)
    masks = sums = 0
    for path in files:
        wrong = floats(program, path)
        if "/dropout-mask/" in path:  # of layers: the embedding's is the one that forward drew
            right = floats(program, path.replace("/dropout-mask/", "/right/"))
            for name in (name for name in wrong if name.endswith("/d.embedding")):
                zeros = [[value == 0 for value in of[name]] for of in (wrong, right)]
                checks.that(any(zeros[0]) and zeros[0] == zeros[1], f"{path}: mask of {name}")
                masks += 1
        elif "/local-statistics/" in path:  # a gradient is the sum of own parts, not scaled
            for name in ("step0/grad.norm1.weight", "step0/grad.norm1.bias"):
                parts = [wrong[f"{name}.{i}.partial"] for i in range(len(wrong))
                         if f"{name}.{i}.partial" in wrong]
                total = parts[0]
                for part in parts[1:]:
                    total = tuple(rounded(x + y) for x, y in zip(total, part))
                checks.that(total == wrong[name], f"{path}: {name} is {wrong[name]}, not {total}")
                sums += 1
    checks.that(masks >= 4 and sums == 24, f"{masks} masks and {sums} sums looked at in {files}")


def some(checks, program, gallery):
    result = program.run("gallery", "--only", "bias-per-rank,gelu*")
    checks.that(result.status == 0 and not result.left, f"two faults\n{result}")
    checks.that(result.out.splitlines()[-1] == LAST.format("2 faults", "7 layouts", 2, 2),
                result.out.splitlines()[-1])
    checks.that("step0/layers.0.attention" in result.out and "bias added once per rank" in result.out,
                f"place and name\n{result}")

    result = program.run("gallery", "--only=kv-not-reduced", "--seeds=2", "--seed=7", "--json")
    facts = json.loads(result.out)
    checks.that(result.status == 0 and [facts[key] for key in
                ("faults", "layouts", "runs", "found", "named_right", "false_alarms")]
                == [1, 1, 4, 1, 1, 0], f"seeds\n{result}")
    checks.that({row["seed"] for row in facts["rows"]} == {7, 8}, f"seeds\n{result}")
    checks.that(result.err.splitlines()[-1] == LAST.format("1 fault", "1 layout", 1, 1), result.err)

    # What is kept can be judged again.
    result = program.run("gallery", "--only", "mean-of-means", "--keep", "kept")
    golden = sorted(name for name in result.left if name.endswith(b"/golden"))
    wrong = sorted(name for name in result.left if name.endswith(b"/mean-of-means"))
    checks.that(result.status == 0 and len(golden) == len(wrong) == 3, f"kept\n{result}")
    for one, other in zip(golden, wrong):
        again = program.run("check", one, other)
        checks.that(again.status == 1 and "mean of micro-batch" in again.out, f"again\n{again}")
        right = program.run("check", one, os.path.dirname(other) + b"/right")
        checks.that(right.status == 0, f"the right run\n{right}")

    result = program.run("gallery", "--only", "transposed", "--evidence")
    checks.that(result.status == 0 and "layers.0.attention.output.weight gives transposed" in result.out,
                f"evidence\n{result}")
    result = program.run("gallery", "--list")
    checks.that(result.status == 0 and len(result.out.splitlines()) >= 35, f"--list\n{result}")
    result = program.run("gallery", "--help")
    checks.that(result.status == 0 and "--keep" in result.out, f"--help\n{result}")
    for words, part in ((["--only", "bias-per-rnk"], "bias-per-rank"), (["--keep", "kept"], "kept"),
                        (["--seeds", "0"], "--seeds 0"), (["--onyl", "x"], "--only"),
                        (["--keep", "no/such/folder"], "no/such/folder"), (["word"], "word")):
        result = program.run("gallery", *words)
        checks.that(result.status == 2 and result.out == "" and part in result.err and
                    result.err.count("\n") == 1 and not result.left, f"{words}\n{result}")

    # Installed: beside the program's folder, or nowhere.
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "libexec"))
        moved = os.path.join(folder, "bin", "lockstep")
        shutil.copy(program.path, moved)
        alone = Program(moved, folder)
        result = alone.run("gallery", "--list")
        checks.that(result.status in (0, 2), f"alone\n{result}")  # 0: installed on this machine
        other = os.path.join(folder, "libexec", "lockstep-gallery")
        with open(other, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "started with: $*"\n')
        os.chmod(other, 0o700)
        result = alone.run("gallery", "--only", "x")
        checks.that(result.status == 0 and result.out == "started with: gallery --only x\n",
                    f"in libexec\n{result}")
        if os.geteuid() != 0:
            os.chmod(other, stat.S_IRUSR)
            result = alone.run("gallery")
            checks.that(result.status == 2 and "cannot be run" in result.err, f"closed\n{result}")
    result = Program(gallery, program.folder).run("gallery", "--list")
    checks.that(result.status == 0, f"lockstep-gallery itself\n{result}")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        program = Program(os.path.abspath(sys.argv[1]), folder)
        if len(sys.argv) > 3:
            whole(checks, program, sys.argv[3])
        else:
            some(checks, program, os.path.abspath(sys.argv[2]))
            nothing_else(checks, program)
    checks.finish()


if __name__ == "__main__":
    main()
