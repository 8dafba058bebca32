#!/usr/bin/env python3
"""What a system may withhold: test_limits.py PROGRAM

A stack of 128 KiB, which is what musl gives; no thread to start. (Memory: test_bad_input.py.)
"""
import os
import resource

import program as p


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (128 << 10, 128 << 10))


def no_threads():
    """No limit stops root."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setuid(65534)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))


def stack(program, checks):
    for words in (["train", "--steps", "2", "--tp", "2", "--save", "s.safetensors", "--trace",
                   "t.json", "--report", "r"],
                  ["train", "--steps", "3", "--load", "s.safetensors", "--json"],
                  ["train", "--model", "alexnet-nano", "--steps", "1", "--spatial", "2x1"],
                  ["verify", "--steps", "1", "--layouts", "tp 2; dp 2 x pp 2"],
                  ["verify", "--steps", "1", "--model", "resnet-nano", "--dtype", "f64"],
                  ["replay", "t.json"], ["plan", "--model", "resnet-nano", "--dp", "4"],
                  ["dump", "g", "--tp", "2"], ["check", "g", "g"],
                  ["images", "i", "--image-count", "4", "--model", "alexnet-nano"]):
        done = program.run(*words, first=small_stack)
        checks.that(done.status == 0, f"with 128 KiB of stack: {words}\n{done}")


def threads(program, checks):
    try:
        done = program.run("--version", first=no_threads)
    except PermissionError:
        print("the program cannot be run as another user; not tried without threads")
        return
    checks.that(done.status == 0 and done.err == "", f"without threads\n{done}")
    # Serial training needs none; ranks do, and say so.
    done = program.run("train", "--serial", "--steps", "1", first=no_threads)
    checks.that(done.status == 0, f"serial without threads\n{done}")
    done = program.run("train", "--tp", "2", "--steps", "1", first=no_threads)
    checks.that(done.status in (2, 3) and done.err.count("\n") == 1 and "thread" in done.err,
                f"ranks without threads\n{done}")


def main(program, checks):
    stack(program, checks)
    threads(program, checks)


p.in_folder(main)
