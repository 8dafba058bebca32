#!/usr/bin/env python3
"""What somebody meets who begins: test_first_steps.py PROGRAM ROOT

The digest that README.md prints of the first run; help in every spelling; words in the wrong order;
other programs' names of options; options that change nothing; files that are not overwritten; a
busy machine.
"""
import os
import re
import signal
import subprocess
import sys
import time

import program as p

COMMANDS = ("train", "verify", "dump", "check", "replay", "plan", "images", "gallery", "bench")
ROOT = os.path.abspath(sys.argv[2])


def first_run(program, checks):
    """tools/run trains on a text that stays: README.md prints what everybody gets."""
    def read(name):
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            return file.read()
    script = read("tools/run")
    steps = re.search(r"--steps (\d+) ", script)
    shown = re.search(r"^    serial +portable +loss (\S+) to (\S+) +([0-9a-f]{16}) ", read("README.md"),
                      re.MULTILINE)
    if not checks.that(steps and shown and "tools/first_text.txt" in script, "tools/run or README.md"):
        return
    done = program.run("train", "--serial", "--steps", steps[1], "--text",
                       os.path.join(ROOT, "tools", "first_text.txt"))
    losses = [f"{float(loss):.6g}" for loss in re.findall(r"loss (\S+)", done.out)]
    checks.that((losses[0], losses[-1], p.digest(done)[:16]) == shown.groups(),
                f"README.md prints {shown.groups()}\n{done}")
    for line in re.findall(r"^    .* portable +bit-exact +(\S+)", read("README.md"), re.MULTILINE):
        checks.that(line == shown[3], f"README.md: {line} is not {shown[3]}")


def helps(program, checks):
    general = program.run("--help")
    checks.that(general.status == 0 and "apps/README.md" in general.out and "Examples:" in general.out,
                f"--help\n{general}")
    for words in (["-h"], ["help"]):
        checks.that(program.run(*words).out == general.out, f"{words}")
    done = program.run()
    checks.that(done.status == 2 and done.out == "" and done.err.startswith(general.out) and
                done.err.endswith("lockstep: a command is missing\n"), f"no words\n{done}")
    for word in ("-v", "-V"):
        checks.that(program.run(word).out == program.run("--version").out, word)
    for command in COMMANDS:
        long = program.run(command, "--help")
        checks.that(long.status == 0 and long.err == "" and "Examples:\n  lockstep " + command in
                    long.out and "Chapters of apps/" in long.out and
                    f"usage: lockstep {command}" in long.out, f"{command} --help\n{long}")
        for words in ([command, "-h"], ["help", command], ["-h", command], ["--help", command]):
            done = program.run(*words)
            checks.that(done.status == 0 and done.out == long.out, f"{words}\n{done}")
    done = program.run("help", "trian")
    checks.that(done.status == 2 and "is train meant?" in done.err, f"help trian\n{done}")


def refusals(program, checks):
    program.write("notes.txt", "# Mine\n")
    program.write("drawing.svg", "not a drawing\n")
    os.mkdir(os.path.join(program.folder, "page"))
    program.write("page/index.html", "<!DOCTYPE html><title>Mine</title>\n")
    for words, *texts in (
            (["--tp", "4", "train"], "the command comes first: lockstep train --tp"),
            (["--tp=4", "verify"], "the command comes first: lockstep verify --tp=4"),
            (["train", "--", "--tp", "4"], "--tp", "leave the -- out"),
            (["train", "--tp=4", "--tp=2"], "--tp: was given before"),
            (["train", "--sp", "--tp=2", "--sp=1"], "--sp: was given before"),
            (["verify", "--sweep", "0"], "from 1 to 4096"),
            (["dump"], "DIR (the folder to write) is missing; usage: lockstep dump DIR"),
            (["images"], "DIR (the folder to write) is missing; usage: lockstep images DIR"),
            (["replay"], "TRACE (", "is missing; usage: lockstep replay TRACE"),
            (["verify", "--layouts", "tp 4, dp 2"], "tp 4 x dp 2 for one layout", "tp 4; dp 2 for two"),
            (["train", "--save", "notes.txt"], "--save: notes.txt", "not overwritten"),
            (["train", "--trace", "notes.txt"], "--trace: notes.txt", "not overwritten"),
            (["plan", "--draw", "drawing.svg"], "--draw: drawing.svg", "not overwritten"),
            (["train", "--report", "page"], "page/index.html", "not overwritten"),
            *((["train", "--" + other, "1"], f"--{other}: unknown option; here it is --{ours}")
              for other, ours in (
                  ("batch-size", "batch"), ("learning-rate", "lr"), ("tensor-parallel", "tp"),
                  ("tensor-parallel-size", "tp"), ("pipeline-parallel", "pp"),
                  ("pipeline_parallel_size", "pp"), ("data", "text"), ("output", "save"),
                  ("epochs", "steps"), ("threads", "tp"), ("num-layers", "layers"),
                  ("hidden-size", "d-model"), ("seq-length", "seq"),
                  ("checkpoint", "save, and --load FILE to go on from one"), ("out", "save, a file"),
                  ("fp16", "dtype, f32 or f64"),
                  *((word, "tp, with --pp and --dp: a rank is a thread, no GPU is used")
                    for word in ("gpus", "device", "devices")))),
            (["check", "nosuch", "nosuch2"], "nosuch: No such file or directory; a golden directory is"),
            (["train", "--nope"], "--nope: unknown option; --help lists"),
            (["check", "--tensor-parallel", "2"], "--tensor-parallel: unknown option; --help lists"),
            (["check", "--thread", "2"], "is --threads meant?")):
        done = program.run(*words)
        checks.that(done.status == 2 and done.err.count("\n") == 1 and
                    all(text in done.err for text in texts), f"{words}: {texts}\n{done}")
    checks.that(program.read("notes.txt") == b"# Mine\n", "notes.txt was written over")


def what_has_no_effect(program, checks):
    run = ["train", "--steps", "1", "--layers", "1"]
    for words, option in ((["--sp"], "--sp"), (["--schedule", "1f1b"], "--schedule"),
                          (["--pp", "1", "--schedule", "gpipe"], "--schedule"),
                          (["--gathered-loss"], "--gathered-loss")):
        done = program.run(*run, *words)
        checks.that(done.status == 0 and done.err.count("\n") == 1 and
                    done.err.startswith(f"lockstep: note: {option} has no effect: "), f"{words}\n{done}")
    for words in (["--tp", "2", "--sp"], ["--schedule", "1f1b", "--micro-batches", "2"],
                  ["--tp", "2", "--gathered-loss"]):
        done = program.run(*run, *words)
        checks.that(done.status == 0 and done.err == "", f"{words} have an effect\n{done}")
    done = program.run("train", "--model", "resnet-nano", "--steps", "1", "--batch", "1", "--overlap")
    checks.that(done.status == 0 and "note: --overlap has no effect" in done.err, f"--overlap\n{done}")
    # What only a run reads: plan takes it, says so, and its help leaves it out.
    for model in ("gpt2-nano", "resnet-nano"):
        lists = {command: re.findall(r"^  --(\S+)", program.run(command, "--model", model, "--help").out,
                                     re.MULTILINE) for command in ("train", "plan")}
        plan = program.run("plan", "--model", model).out
        for option, value in (("steps", "7"), ("lr", "0.5"), ("seed", "9"), ("timeout", "5"), ("clip", "2"),
                              ("beta1", "0.5"), ("optimizer", "sgd"), ("warmup", "3")):
            done = program.run("plan", "--model", model, "--" + option, value)
            checks.that(done.status == 0 and done.out == plan and done.err ==
                        f"lockstep: note: --{option} has no effect: plan runs nothing\n", f"{option}\n{done}")
            checks.that(option in lists["train"] and option not in lists["plan"], f"help of plan: {option}")
        checks.that(all(option in lists["plan"] for option in ("dp", "batch", "dtype", "load")),
                    f"help of plan: {lists['plan']}")


def busy_machine(program, checks):
    """Ranks that wait for each other are named as the reason where there are some."""
    for words, waits in ((["--serial"], False), ([], False), (["--tp", "2"], True)):
        run = subprocess.Popen([program.path, "train", "--steps", "6", "--layers", "1", *words],
                               stdout=subprocess.PIPE, text=True, cwd=program.folder)
        first = run.stdout.readline()  # it has begun
        os.kill(run.pid, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(run.pid, signal.SIGCONT)
        out = first + run.communicate()[0]
        checks.that(run.returncode == 0 and "\ntime    " in out and
                    ("ranks wait for a turn on a core" in out) == waits, f"{words}: {out}")


def what_may_be_written_over(program, checks):
    program.write("empty", "")
    for words in (["--save", "empty"], ["--save", "empty"], ["--trace", "t.json"],
                  ["--trace", "t.json"], ["--report", "mine"], ["--report", "mine"]):
        done = program.run("train", "--steps", "1", "--layers", "1", *words)
        checks.that(done.status == 0, f"{words}\n{done}")
    for _ in range(2):
        checks.that(program.run("replay", "t.json", "--draw", "t.svg").status == 0, "a drawing twice")
    done = program.run("train", "--steps", "1", "--layers", "1", "--load", "empty")
    checks.that(done.status == 0 and "nothing was trained: empty is at step 1 already" in done.out,
                f"0 steps\n{done}")
    done = program.run("verify", "--steps", "1", "--layers", "1", "--tp", "2", "--no-truth")
    checks.that("compare 1 layout, 1 step:" in done.out and "model   gpt2-nano: 1 layer," in done.out and
                p.last_line(done.out) == "verify: 1 layout, 1 bit-exact, 0 different", f"one\n{done}")


def main(program, checks):
    helps(program, checks)
    refusals(program, checks)
    what_has_no_effect(program, checks)
    what_may_be_written_over(program, checks)
    busy_machine(program, checks)
    first_run(program, checks)


p.in_folder(main)
