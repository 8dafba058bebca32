#!/usr/bin/env python3
"""From nothing to a verdict: dumps a golden directory, trains on it with PyTorch on several
processes, and lets `lockstep check` judge what came out. Its exit status is check's: 0 right,
1 something differs, 2 bad input.

    run_pytorch.py [--tp T] [--dp D] [--sp] [--micro-batches M] [--dtype f32|f64]
                   [--mistake NAME]... [--mistakes NAME,NAME...] [-- OPTIONS OF DUMP]

    run_pytorch.py --tp 4 --sp                        everything right
    run_pytorch.py --tp 2 --mistake bias-per-rank     and what check says of that
    run_pytorch.py --each                             every mistake alone, and its name, as a table

With --each the status is 0 when check named every mistake as what it is, and nothing else.
PyTorch 1.13 or newer and NumPy: a python3 that has them is looked for ($LOCKSTEP_PYTHON, this one,
/usr/bin/python3).
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77


def start_with_torch():
    """Begins again in a python3 that has PyTorch, when this one has not."""
    question = "import sys; from importlib.util import find_spec; " \
        "sys.exit(None in map(find_spec, ('torch', 'numpy')))"
    for python in (os.environ.get("LOCKSTEP_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and shutil.which(python) and subprocess.run(
                [python, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            if python != sys.executable:
                os.execve(python, [python, *sys.argv],
                          {**os.environ, "LOCKSTEP_PYTHON": python})
            return
    print("no python3 with torch and numpy is here")
    sys.exit(SKIPPED)


def find_lockstep(named):
    built = os.path.join(HERE, "..", "..", "..", "build", "tools", "lockstep", "lockstep")
    for program in (named, built, "lockstep"):
        found = shutil.which(program) if program else None
        if found:
            return os.path.abspath(found)
        if program and program is named:
            break
    sys.exit("run_pytorch.py: %s: no such program; build it (tools/run) or name it with --lockstep"
             % (named or os.path.normpath(built)))


class Runs:
    """One golden directory, and candidates for it."""

    def __init__(self, options, folder):
        self.options, self.program = options, find_lockstep(options.lockstep)
        self.golden = options.golden or os.path.join(folder, "golden")
        self.candidate = os.path.join(folder, "candidate")

    def dump(self):
        """0, or dump's exit status."""
        if self.options.golden:
            return 0
        words = [self.program, "dump", self.golden, *self.options.dump]
        return subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode

    def train(self, mistakes, quiet=False):
        import train_gpt  # pylint: disable=import-outside-toplevel
        o = self.options
        words = [self.golden, self.candidate, "--tp", str(o.tp), "--dp", str(o.dp), "--dtype",
                 o.dtype, "--micro-batches", str(o.micro_batches), "--mistakes",
                 ",".join(mistakes)] + ["--sp"] * o.sp + ["--quiet"] * quiet
        shutil.rmtree(self.candidate, ignore_errors=True)
        status = train_gpt.main(words)
        if status:
            sys.exit(status)

    def check(self, *words):
        return subprocess.run([self.program, "check", self.golden, self.candidate, *words],
                              stdout=subprocess.PIPE if words else None,
                              stderr=subprocess.DEVNULL if words else None, check=False)


def can_make(needs, options, model):
    """Whether a mistake shows in these processes."""
    import gpt  # pylint: disable=import-outside-toplevel
    return {"": True, "tp": options.tp > 1, "tp 1": options.tp == 1, "dp": options.dp > 1,
            "sp": options.sp and options.tp > 1, "dropout": model["dropout"] > 0,
            "padding": model["vocab"] % (gpt.PADDING * options.tp) != 0}[needs]


def each(runs, names):
    """Makes the mistakes one by one; 0 when all were named."""
    from mistakes import MISTAKES  # pylint: disable=import-outside-toplevel
    from recording import lockstep  # pylint: disable=import-outside-toplevel
    model, unnamed = lockstep.Golden(runs.golden).model, 0
    print("%-18s %-40s %s" % ("mistake", "first different tensor", "named"))
    for name in ["", *(names or MISTAKES)]:
        if name and not can_make(MISTAKES[name][1], runs.options, model):
            if names:
                sys.exit("run_pytorch.py: %s cannot show in these processes: it needs %s"
                         % (name, MISTAKES[name][1]))
            continue
        runs.train([name] if name else [], quiet=True)
        done = runs.check("--json")
        if done.returncode > 1:
            return done.returncode
        found = json.loads(done.stdout.decode())
        causes = [finding["cause"] for finding in found["findings"]]
        expected = MISTAKES[name][2].split() if name else []
        known = [cause for cause in causes if cause or "*" not in expected]
        right = done.returncode == bool(expected) and causes[:1] == expected[:1] and \
            set(known) == set(expected) - {"*"}
        unnamed += not right
        print("%-18s %-40s %s%s" % (name or "(none)", found["blame"] or found["first"] or "-",
                                    " ".join(cause or "?" for cause in causes) or "-",
                                    "" if right else "  <- expected " + " ".join(expected)),
              flush=True)
    return 1 if unnamed else 0


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, "%s: %s\n" % (self.prog, message))


def main():
    start_with_torch()
    sys.path.insert(0, HERE)
    parser = Parser(description="Golden directory, PyTorch, verdict.")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser.add_argument("--tp", type=int, default=2, help="tensor-parallel processes (2)")
    parser.add_argument("--dp", type=int, default=1, help="data-parallel processes (1)")
    parser.add_argument("--sp", action="store_true", help="sequence parallelism too")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--mistake", action="append", default=[], metavar="NAME")
    parser.add_argument("--mistakes", default="", metavar="NAME,NAME", help="several at once")
    parser.add_argument("--each", nargs="?", const="", metavar="NAME,NAME",
                        help="these mistakes, or all, one after the other")
    parser.add_argument("--lockstep", metavar="PROGRAM")
    parser.add_argument("--golden", metavar="DIR", help="instead of dumping one")
    parser.add_argument("--keep", metavar="DIR", help="where golden and candidate are left")
    options = parser.parse_args(words[:split])
    options.dump = words[split + 1:]
    mistakes = options.mistake + [name for name in options.mistakes.split(",") if name]
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, options.keep or folder)
        status = runs.dump()
        if status == 0 and options.each is not None:
            return each(runs, [name for name in options.each.split(",") if name])
        if status == 0:
            runs.train(mistakes)
            status = runs.check().returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
