#!/usr/bin/env python3
"""Signals, several within milliseconds and at any moment: test_signals.py PROGRAM

Nothing half written is left, what is left is whole, and "interrupted" is said once, also where a
second signal comes while the first is obeyed.
"""
import os
import random
import shutil
import signal
import subprocess
import time

import program as p

SENT = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
RUNS = {
    "dump": (["dump", "g", "--per-rank", "--tp", "2", "--no-truth", "--steps", "2"],
             [b"g"]),
    "train": (["train", "--tp", "2", "--steps", "3", "--save", "s.safetensors", "--report", "r"],
              [b"r", b"s.safetensors"]),
}
BURSTS = 60


def whole(program, name):
    """What is there under its final name has everything in it."""
    place = os.path.join(os.fsencode(program.folder), name)
    if name == b"g":
        return os.path.exists(os.path.join(place, b"manifest.json"))
    if name == b"r":
        return os.listdir(place) == [b"index.html"]
    return len(p.parse_safetensors(program.read(name))[1]) > 100


def burst(program, checks, name, draw):
    words, places = RUNS[name]
    running = subprocess.Popen([program.path, *words], cwd=program.folder,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    time.sleep(draw.uniform(0, 0.12))
    sent = []
    for _ in range(draw.randint(1, 5)):
        sent.append(draw.choice(SENT))
        running.send_signal(sent[-1])
        time.sleep(draw.choice((0, 0, 0.0005, 0.002)))
    try:
        out, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        checks.that(False, f"{name}: {sent} do not end it")
        running.communicate()
        return None
    status = running.returncode
    left = set(os.listdir(os.fsencode(program.folder)))
    what = f"{name}, {sent}: status {status}, left {left}\n{err.decode()}"
    checks.that(left <= set(places), what)
    checks.that(all(whole(program, n) for n in left), f"not whole: {what}")
    if status < 0:  # before the program itself began
        checks.that(not left and out == b"" and err == b"", what)
    elif status != 0:
        checks.that(status in [128 + s for s in sent], what)
        checks.that(err.count(b"lockstep: interrupted\n") == 1 and err.count(b"\n") == 1, what)
    for each in left:
        path = os.path.join(os.fsencode(program.folder), each)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    return status


def main(program, checks):
    draw = random.Random(5)
    ends = [burst(program, checks, name, draw) for _ in range(BURSTS // 2) for name in RUNS]
    checks.that(sum(e is not None and e > 0 for e in ends) > BURSTS // 3,
                f"too few of {BURSTS} runs were interrupted: {ends}")


p.in_folder(main)
