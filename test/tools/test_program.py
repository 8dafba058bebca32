#!/usr/bin/env python3
"""What the program prints and leaves: test_program.py PROGRAM FAULTY_PROGRAM

Digests that do not depend on the layout, checkpoints that go on anywhere, JSON that says the same as
the words, exit statuses, Ctrl-C, progress on a terminal.
"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import program as p

TEXT = "".join(f"Line {i} of a text to train on, and {i * 7919 % 1000}.\n" for i in range(200))
EVERY_TP = "tp 1; tp 2; tp 3; tp 4; tp 6; tp 12"


def words(program, checks):
    done = program.run("--help")
    checks.that(done.status == 0 and "train" in done.out and "verify" in done.out, f"help\n{done}")
    for command in ("train", "verify", "plan"):
        done = program.run(command, "--help")
        checks.that(done.status == 0 and "--tp N" in done.out and done.err == "", f"help\n{done}")
        checks.that(max(map(len, done.out.splitlines())) <= 100, f"{command} --help is too wide")
    done = program.run("--version")
    checks.that(done.status == 0 and re.match(r"lockstep \d+\.\d+\.\d+, commit [0-9a-z+]+\n", done.out) is not None
                and "tree/v1" in done.out, f"version\n{done}")


def digests(program, checks):
    """One digest for every layout, other digests for other things."""
    base = ["train", "--text", "text.txt", "--steps", "3"]
    first = program.run(*base, "--serial")
    checks.that(first.status == 0 and first.err == "", f"serial\n{first}")
    expected = p.digest(first)
    checks.that(p.digest(program.run(*base, "--serial")) == expected, "twice, two digests")
    for tp in (1, 2, 3, 4, 6, 12):
        done = program.run(*base, "--tp", str(tp))
        checks.that(done.status == 0 and p.digest(done) == expected, f"--tp {tp}\n{done}")
        losses = re.findall(r"loss (\S+)", done.out)
        checks.that(losses == re.findall(r"loss (\S+)", first.out) and len(losses) == 3,
                    f"--tp {tp} prints other losses")
        table = done.out.split("Peak bytes per rank")[1].splitlines()
        checks.that([row.split()[0] for row in table[2:2 + tp]] == [str(r) for r in range(tp)],
                    f"--tp {tp}: no line per rank\n{done}")
    for other in (["--seed", "1235"], ["--lr", "0.0011"], ["--dropout", "0"], ["--batch", "7"],
                  ["--dtype", "f64"], ["--optimizer", "sgd"], ["--steps", "4"],
                  ["--warmup", "3"], ["--clip", "0.5"], ["--weight-decay", "0"],
                  ["--label-smoothing", "0.1"], ["--seq", "23"]):
        checks.that(p.digest(program.run(*base, *other)) != expected, f"{other} changes nothing")


def bert(program, checks):
    """Hidden bytes of a text are learnt, with the norms in either place."""
    model = ["--text", "text.txt", "--model", "bert-nano"]
    base = ["train", *model, "--serial"]
    grid = ["--dp", "2", "--pp", "2", "--tp", "2", "--sp", "--micro-batches", "2"]
    seen = set()
    for place in ([], ["--norm", "pre"]):
        done = program.run("verify", *model, *place, "--steps", "2", *grid, "--gemm", "both")
        checks.that(done.status == 0 and done.out.splitlines()[-1] ==
                    "verify: 2 layouts, 2 bit-exact, 0 different", f"{place} in a layout\n{done}")
        checks.that(p.digest(program.run("train", *model, *place, "--steps", "3", *grid)) ==
                    p.digest(program.run(*base, *place, "--steps", "3")), f"{place}: {grid}")
        done = program.run(*base, *place, "--steps", "60", "--lr", "3e-3")
        losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.out)]
        # At first every byte is as likely as any other: log(260) + log(2).
        checks.that(done.status == 0 and len(losses) == 60 and abs(losses[0] - 6.254) < 0.3 and
                    losses[-1] < 0.75 * losses[0], f"{place} does not learn\n{done}")
        seen.add(p.digest(done))
        program.run(*base, *place, "--steps", "4", "--save", "whole.safetensors")
        program.run(*base, *place, "--steps", "2", "--save", "half.safetensors")
        program.run(*base, *place, "--steps", "4", "--load", "half.safetensors", "--save",
                    "rest.safetensors")
        _, whole = p.parse_safetensors(program.read("whole.safetensors"))
        checks.that(whole == p.parse_safetensors(program.read("rest.safetensors"))[1],
                    f"{place}: another end than without a stop")
        checks.that("pooler.weight" in whole and
                    ("embedding_norm.bias" in whole) == (place == []), f"{place}: {list(whole)}")
    checks.that(len(seen) == 2, "--norm pre changes nothing")
    done = program.run(*base, "--norm", "pre", "--load", "half.safetensors", "--save", "x")
    checks.that(done.status == 0, f"its own checkpoint\n{done}")
    checks.that(p.digest(program.run(*base, "--norm", "post", "--steps", "3")) ==
                p.digest(program.run(*base, "--steps", "3")), "--norm post is not the default")


def checkpoints(program, checks):
    """Saved in one layout, gone on with in another: the same file as without a stop."""
    base = ["train", "--text", "text.txt", "--warmup", "2", "--lr-total", "6"]
    program.run(*base, "--steps", "6", "--tp", "2", "--save", "whole.safetensors")
    program.run(*base, "--steps", "3", "--tp", "3", "--save", "half.safetensors")
    _, whole = p.parse_safetensors(program.read("whole.safetensors"))
    checks.that(len(whole) > 100, "few tensors in a checkpoint")
    seen = set()
    for tp in (1, 2, 4, 12):
        done = program.run(*base, "--steps", "6", "--tp", str(tp), "--load", "half.safetensors",
                           "--save", "rest.safetensors")
        metadata, rest = p.parse_safetensors(program.read("rest.safetensors"))
        checks.that(rest == whole, f"--tp {tp}: another end than without a stop\n{done}")
        checks.that(metadata.get("step") == "6", f"--tp {tp}: {metadata}")
        seen.add(p.digest(done))
    checks.that(len(seen) == 1, f"the rest of the run has digests {seen}")
    done = program.run(*base, "--steps", "6", "--load", "whole.safetensors")
    checks.that(done.status == 0 and " nan" not in done.out, f"nothing left to do\n{done}")
    done = program.run("verify", "--text", "text.txt", "--steps", "5", "--tp", "3", "--load",
                       "half.safetensors", "--no-truth")
    checks.that(done.status == 0 and p.last_line(done.out) ==
                "verify: 1 layout, 1 bit-exact, 0 different", f"verify from a checkpoint\n{done}")
    done = program.run("verify", "--steps", "3", "--tp", "3", "--load", "half.safetensors")
    checks.that(done.status == 2 and "--steps 3: " in done.err and "nothing is left" in done.err,
                f"nothing to compare is not equal\n{done}")
    # The seed that is told is the one that was drawn from.
    program.run("train", "--steps", "1", "--seed", "77", "--save", "seeded.safetensors")
    for command in ("train", "verify"):
        done = program.run(command, "--steps", "2", "--tp", "2", "--load", "seeded.safetensors",
                           "--json")
        checks.that(json.loads(done.out)["seed"] == 77, f"the checkpoint's seed\n{done}")


def as_json(program, checks):
    base = ["train", "--text", "text.txt", "--steps", "2", "--tp", "3"]
    said, done = program.run(*base), program.run(*base, "--json")
    found = json.loads(done.out)
    checks.that(found["digest"] == p.digest(said), "digest in JSON")
    checks.that("digest: " + found["digest"] in done.err, f"words go to stderr\n{done}")
    losses = [float.fromhex(step["loss_hex"]) for step in found["steps_done"]]
    checks.that([f"{loss:.9g}" for loss in losses] == re.findall(r"loss (\S+)", said.out),
                "losses in JSON")
    checks.that(len(found["ranks"]) == 3 and all(
        rank["total_peak_bytes"] > 0 and rank["peak_bytes"]["parameters"] > 0
        and rank["communication"]["all_reduce"]["calls"] > 0 for rank in found["ranks"]),
        "ranks in JSON")
    checks.that(found["model"]["heads"] == 12 and found["layout"]["tp"] == 3, "model in JSON")
    engines = p.engines_of(program)
    some = "tp 1; tp 3; pp 2, 1f1b, 3 micro-batches, layers 3,1; dp 2 x pp 2 x tp 2, sp, recompute layer"
    done = program.run("verify", "--text", "text.txt", "--steps", "2", "--layouts", some, "--gemm",
                       "both" if len(engines) == 2 else "portable", "--json")
    found = json.loads(done.out)
    checks.that(found["count"] == found["bit_exact"] == 4 * len(engines) and
                found["different"] == 0, f"verify in JSON\n{done}")
    checks.that({(run["layout"]["name"], run["engine"]) for run in found["layouts"]} ==
                {(name, e) for name in some.split("; ") for e in engines}, f"the layouts\n{done}")
    by_name = {run["layout"]["name"]: run["layout"] for run in found["layouts"]}
    expected = {"dp": 1, "pp": 2, "cp": 1, "tp": 1, "ranks": 2, "sp": False, "schedule": "1f1b",
                "virtual_stages": 1, "micro_batches": 3, "recompute": "none", "partition": [3, 1]}
    cut = by_name.get("pp 2, 1f1b, 3 micro-batches, layers 3,1", {})
    checks.that({**cut, "name": ""} == {**expected, "name": ""}, f"a layout in JSON: {cut}")
    grid = by_name.get("dp 2 x pp 2 x tp 2, sp, recompute layer", {})
    checks.that(grid.get("sp") is True and grid.get("recompute") == "layer" and
                grid.get("partition") == [2, 2] and grid.get("ranks") == 8, f"a grid in JSON: {grid}")
    if len(engines) == 2:
        checks.that(all(0 < b["truth"]["loss"] < 1e-5 and 0 < b["truth"]["gradient"] < 1e-4
                        for b in found["baselines"]), "distance to truth")
    # A run that explodes is no reason for broken JSON.
    done = program.run(*base, "--lr", "1000", "--optimizer", "sgd", "--clip", "0", "--steps", "8",
                       "--json")
    checks.that(done.status == 0 and json.loads(done.out)["digest"], f"not finite\n{done}")
    checks.that(program.run(*base, "--json", "--steps", "0").out == "", "JSON of bad input")


def verdicts(program, faulty, checks):
    done = program.run("verify", "--text", "text.txt", "--steps", "2", "--tp", "4")
    checks.that(done.status == 0 and done.err == "" and p.last_line(done.out) ==
                "verify: 1 layout, 1 bit-exact, 0 different", f"verify\n{done}")
    done = program.run("verify", "--text", "text.txt", "--steps", "2", "--layouts", EVERY_TP,
                       "--model", "llama-nano", "--no-truth")
    checks.that(done.status == 0 and p.last_line(done.out) ==
                "verify: 6 layouts, 6 bit-exact, 0 different", f"llama\n{done}")
    # The row-first MLP has no sequence parallelism: its sweep has none, and says nothing of it.
    done = program.run("verify", "--text", "text.txt", "--steps", "1", "--sweep", "2", "--mlp-cut",
                       "row_first", "--gathered-loss", "--no-truth", "--layers", "2", "--batch", "2")
    sizes = re.search(r"^sweep   (\d+) layouts of at most 2 ranks\ncompare (\d+) layouts, 1 step:",
                      done.out, re.MULTILINE)
    checks.that(done.status == 0 and sizes is not None and sizes[1] == sizes[2] and
                p.last_line(done.out) ==
                f"verify: {sizes[1]} layouts, {sizes[1]} bit-exact, 0 different" and
                re.findall(r"^(?:[dpt]p \d)(?: x [dpt]p \d)*(?:, sp)?(?= +portable)", done.out,
                           re.MULTILINE) == ["tp 1", "tp 2", "pp 2", "dp 2"], f"row first\n{done}")
    if not faulty:
        return
    done = faulty.run("verify", "--text", "text.txt", "--steps", "2", "--layouts",
                      "tp 1; tp 2; tp 3; tp 4", "--report", "faulty")
    checks.that(done.status == 1 and p.last_line(done.out) ==
                "verify: 4 layouts, 3 bit-exact, 1 different", f"a wrong rate\n{done}")
    checks.that(re.search(r"tp 3 .*DIFFERENT.*\n +step 0, update, tensor \S+, index \[\d+, \d+\]: "
                          r"serial \S+p\S+, here \S+p\S+ .*ulp", done.out) is not None,
                f"where it departs\n{done}")
    checks.that("1 of 4 runs in a layout differ" in program.read("faulty/index.html").decode(),
                "the report of a difference")
    # In a sweep a layout that departs has a line of its own, above that of its grid point.
    done = faulty.run("verify", "--text", "text.txt", "--sweep", "3", "--layers", "1", "--batch", "1",
                      "--no-truth", "--report", "faulty")
    checks.that(done.status == 1 and re.search(
        r"^tp 3, recompute \w+ +portable  DIFFERENT .*\n +step 0, update, .*\n(?:.*\n)*tp 3  +portable +\d+ layouts?,"
        r" +0 bit-exact", done.out, re.MULTILINE) is not None, f"a sweep with a wrong rate\n{done}")
    done = faulty.run("verify", "--text", "text.txt", "--steps", "1", "--layouts", "tp 2; tp 6")
    checks.that(done.status == 3 and "failed: tp 6\n" in done.out, f"which layout failed\n{done}")
    done = faulty.run("verify", "--text", "text.txt", "--steps", "2", "--tp", "3", "--json")
    departure = json.loads(done.out)["layouts"][0]["departure"]
    checks.that(done.status == 1 and departure["step"] == 0 and departure["phase"] == "update" and
                float.fromhex(departure["serial"]) != float.fromhex(departure["here"]),
                f"a difference in JSON\n{done}")
    done = faulty.run("verify", "--text", "text.txt", "--steps", "2", "--tp", "6", "--report", "no")
    checks.that(done.status == 3 and done.err == "lockstep: rank 2: a seeded fault\n" and
                not done.left, f"a failing rank\n{done}")


def interrupts(program, checks):
    """Ctrl-C in the middle: status 130, soon, and no file that was not there before."""
    for command in (["train", "--tp", "3", "--save", "out.safetensors"],
                    ["train", "--serial", "--save", "out.safetensors"],
                    ["train", "--tp", "12", "--report", "out"],
                    ["verify", "--sweep", "12", "--no-truth", "--report", "out"],
                    ["train", "--dp", "2", "--pp", "2", "--tp", "2", "--sp", "--schedule", "1f1b",
                     "--micro-batches", "2", "--save", "out.safetensors"]):
        before = p.listing(program.folder)
        steps = "1000000" if command[0] == "train" else "300"
        running = subprocess.Popen([program.path, *command, "--steps", steps, "--text", "text.txt"],
                                   cwd=program.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        seen = b""
        while b"step     2" not in seen and b"compare" not in seen:
            more = os.read(running.stdout.fileno(), 4096)
            if not more:
                break
            seen += more
        running.send_signal(signal.SIGINT)
        started = time.monotonic()
        try:
            _, err = running.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.communicate()
            checks.that(False, f"{command}: Ctrl-C does not end it")
            continue
        checks.that(running.returncode == 130, f"{command}: status {running.returncode}\n{err}")
        checks.that(err == b"lockstep: interrupted\n", f"{command}: {err}")
        checks.that(p.listing(program.folder) == before, f"{command}: left a file")
        checks.that(time.monotonic() - started < 60, f"{command}: slow to stop")


def interrupted_plan(program, checks):
    """A plan of a million micro-batches takes a minute, and no rank runs that could be stopped."""
    running = subprocess.Popen([program.path, "plan", "--micro-batches", "1048576", "--batch",
                                "1048576", "--pp", "4", "--schedule", "interleaved", "--layers",
                                "16", "--virtual-stages", "4", "--draw", "plan.svg"],
                               cwd=program.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.5)
    running.send_signal(signal.SIGINT)
    try:
        out, err = running.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        running.kill()
        running.communicate()
        checks.that(False, "Ctrl-C does not end a plan")
        return
    checks.that(running.returncode == 130 and err == b"lockstep: interrupted\n" and not out,
                f"plan, Ctrl-C: status {running.returncode}\n{out}{err}")
    checks.that("plan.svg" not in os.listdir(program.folder), "plan, Ctrl-C: left a file")


def started(program, *words, **more):
    """The program in the middle of a run that does not end by itself."""
    running = subprocess.Popen([program.path, *words], cwd=program.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    while b"step     2" not in running.stdout.readline():
        if running.poll() is not None:
            break
    return running


def ended(running):
    """(status, stderr) of a program that should come to its end by now; it does in any case."""
    try:
        _, err = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        running.kill()
        _, err = running.communicate()
    return running.returncode, err


def other_ends(program, checks):
    """Twice Ctrl-C, a reader that goes away, a terminal that closes, a pipe that says nothing."""
    long_run = ("train", "--steps", "1000000", "--text", "text.txt")
    before = p.listing(program.folder)
    running = started(program, *long_run, "--report", "there")
    for _ in range(200):  # the second may come before anything has looked at the first
        if running.poll() is not None:
            break
        running.send_signal(signal.SIGINT)
    checks.that(ended(running)[0] == 130, f"Ctrl-C again and again: {running.returncode}")
    left = p.listing(program.folder) - before
    checks.that(left <= {b"there"}, f"Ctrl-C again and again left {left}")
    if left == {b"there"}:
        os.rmdir(os.path.join(program.folder, "there"))
    running = started(program, *long_run, "--report", "there", "--save", "out.safetensors")
    running.stdout.close()
    running.stdout = None
    checks.that(ended(running) == (128 + signal.SIGPIPE, b""),
                f"a reader that went away: {running.returncode}")
    for answer, last in ((signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, signal.SIGTERM)):
        running = started(program, *long_run, "--report", "there",
                          preexec_fn=lambda how=answer: signal.signal(signal.SIGHUP, how))
        running.send_signal(signal.SIGHUP)
        if last != signal.SIGHUP:
            running.send_signal(last)
        checks.that(ended(running)[0] == 128 + last, f"hang-up, {answer}: {running.returncode}")
    reading, writing = os.pipe()
    running = subprocess.Popen([program.path, "train", "--text", f"/dev/fd/{reading}"],
                               cwd=program.folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, pass_fds=[reading])
    time.sleep(1.0)
    running.send_signal(signal.SIGINT)
    checks.that(ended(running) == (130, b"lockstep: interrupted\n"),
                f"Ctrl-C before a silent pipe: {running.returncode}")
    os.close(reading)
    os.close(writing)
    checks.that(p.listing(program.folder) == before, "an end left a file")


def terminal(program, checks):
    """Progress with the time left, on a terminal only."""
    try:
        master, slave = pty.openpty()
    except OSError:
        print("no terminal to be had here: progress is not looked at")
        return
    running = subprocess.Popen([program.path, "train", "--steps", "60", "--text", "text.txt"],
                               cwd=program.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        ready, _, _ = select.select([master], [], [], 60)
        try:
            more = os.read(master, 4096) if ready else b""
        except OSError:  # how Linux says that nobody writes any more
            more = b""
        if not more:
            break
        seen += more
    running.wait(timeout=60)
    os.close(master)
    checks.that(running.returncode == 0, "train on a terminal")
    checks.that(re.search(rb"\r\x1b\[K\[[#.]+\] +\d+ %  \d+ s left  step \d+ of 60", seen)
                is not None, f"no progress: {seen[:400]}")
    checks.that(seen.endswith(b"\r\x1b[K"), "the progress line is left standing")
    done = program.run("train", "--steps", "2", "--text", "text.txt")
    checks.that("\r" not in done.out + done.err, f"progress without a terminal\n{done}")


def traces(program, checks):
    """A traced run, replayed: the same digest, JSON as the words, links that cost."""
    base = ["train", "--text", "text.txt", "--steps", "2", "--pp", "2", "--tp", "2", "--dp", "2",
            "--micro-batches", "2", "--schedule", "1f1b"]
    plain = program.run(*base)
    traced = program.run(*base, "--trace", "trace.json")
    checks.that(traced.status == 0 and p.digest(traced) == p.digest(plain), f"traced\n{traced}")
    checks.that(traced.left == {b"trace.json"}, f"left {traced.left}")
    trace = json.loads(program.read("trace.json"))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    checks.that({event["tid"] for event in events} == set(range(8)) and
                {event["pid"] for event in events} == {0, 1}, "ranks are threads, stages processes")
    for event in events:
        args = event["args"]
        exact = abs(event["ts"] * 1000 - args["begin_ns"]) < 0.6 and \
            abs(event["dur"] * 1000 - (args["end_ns"] - args["begin_ns"])) < 0.6
        checks.that(exact, f"times of {event}")
    arrows = [{event["id"] for event in trace["traceEvents"] if event["ph"] == end} for end in "sf"]
    checks.that(arrows[0] == arrows[1] and len(arrows[0]) > 10, "every arrow has two ends")

    done = program.run("replay", "trace.json", "--draw", "text")
    lines = done.out.splitlines()
    checks.that(done.status == 0 and done.err == "" and not done.left, f"replay\n{done}")
    checks.that(max(map(len, lines)) <= 100, f"too wide\n{done}")
    drawn = [line for line in lines if re.fullmatch(r"rank \d    [0-9a-z+=.]{90}", line)]
    checks.that(len(drawn) == 8 and all("0" in line and "b" in line for line in drawn),
                f"a line per rank\n{done}")
    said = {}
    for link in ("0us,inf", "20us,1GB/s", "2ms,1MB/s"):
        done = program.run("replay", "trace.json", "--link", link, "--json", "--draw", "x.svg")
        checks.that(done.status == 0 and "makespan" in done.err, f"replay --json\n{done}")
        facts = said[link] = json.loads(done.out)
        total = facts["makespan_ns"]
        checks.that(facts["command"] == "replay" and len(facts["ranks"]) == 8 and total > 0, done)
        for rank in facts["ranks"]:
            checks.that(rank["compute_ns"] > 0 and rank["compute_ns"] + rank["communication_ns"] +
                        rank["idle_ns"] == total, f"{link}: {rank}")
        idle = sum(rank["idle_ns"] for rank in facts["ranks"]) / (8 * total)
        checks.that(abs(idle - facts["idle_share"]) < 1e-9, f"{link}: idle share")
        expected = facts["serial_step_ns"] * facts["steps"] / total
        checks.that(abs(expected - facts["speed_up"]) < 1e-9 * expected, f"{link}: speed-up")
        xml.etree.ElementTree.fromstring(program.read("x.svg"))
    order = [said[link]["makespan_ns"] for link in said]
    checks.that(order == sorted(order) and order[0] < order[2], f"links cost nothing: {order}")
    done = program.run("replay", "trace.json", "--draw", "text", "--step", "2")
    checks.that(done.status == 2 and "--step 2" in done.err and done.out == "", f"no step\n{done}")
    checks.that("--link" in program.run("replay", "--help").out, "replay --help")


def bench(program, checks):
    """What is measured is said in words and in JSON; how fast it is nobody asks here."""
    done = program.run("bench", "--help")
    checks.that(done.status == 0 and all(word in done.out for word in
                                         ("--only", "gemm", "conv2d", "collectives", "step")), done)
    checks.that(max(map(len, done.out.splitlines())) <= 100, "bench --help is too wide")
    for dtype in ("f32", "f64"):
        done = program.run("bench", "--only", "conv2d,kernels,collectives", "--dtype", dtype,
                           "--rounds", "1", "--json")
        checks.that(done.status == 0 and not done.left, f"bench\n{done}")
        facts = json.loads(done.out)
        rows = facts["rows"]
        checks.that(facts["command"] == "bench" and facts["dtype"] == dtype
                    and {row["part"] for row in rows} == {"conv2d", "kernels", "collectives"}, done)
        checks.that(all(row["figure"] > 0 and row["what"] in done.err for row in rows), done)
        ways = {row["what"].split(",")[0].split()[-1] for row in rows if row["part"] == "conv2d"}
        checks.that(ways == {"forward", "dx", "dW"}, f"bench conv2d: {ways}")
        checks.that(all(row["ratio"] > 0 and row["to"] for row in rows if row["part"] == "conv2d"),
                    done)


def main(program, checks):
    faulty = p.Program(os.path.abspath(sys.argv[2]), program.folder) if len(sys.argv) > 2 else None
    program.write("text.txt", TEXT)
    words(program, checks)
    digests(program, checks)
    bert(program, checks)
    checkpoints(program, checks)
    as_json(program, checks)
    verdicts(program, faulty, checks)
    interrupts(program, checks)
    interrupted_plan(program, checks)
    other_ends(program, checks)
    terminal(program, checks)
    traces(program, checks)
    bench(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
