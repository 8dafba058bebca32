#!/usr/bin/env python3
"""The plan of a run, from outside: test_plan_command.py PROGRAM

It says before a run what the run says after it; it takes models that no machine at hand could hold;
what a machine cannot hold is refused before anything runs.
"""
import json
import os
import re
import resource
import xml.etree.ElementTree

import program as p

# 174.6 billion parameters.
LARGE = {"base": "gpt2-124m", "name": "large", "layers": 96, "d_model": 12288, "heads": 96,
         "kv_heads": 96, "d_ff": 49152, "seq": 2048, "vocab": 51200, "batch": 64}
EXACT = ("parameters", "gradients", "optimizer", "activations")


def by_rank(plan):
    return {rank: group for group in plan["ranks"] for rank in group["ranks"]}


def against_runs(program, checks):
    """The numbers of `plan --json` are those of `train --json`."""
    for words in (
            [], ["--tp", "3", "--sp"], ["--model", "llama-nano", "--tp", "12"],
            ["--pp", "2", "--tp", "2", "--schedule", "1f1b", "--micro-batches", "4"],
            ["--pp", "2", "--virtual-stages", "2", "--schedule", "interleaved", "--micro-batches",
             "3", "--recompute", "layer", "--batch", "7"],
            ["--dp", "3", "--pp", "2", "--sp", "--recompute", "stage", "--dtype", "f64"],
            ["--partition", "3,1", "--pp", "2", "--recompute", "selective"],
            ["--model", "bert-nano", "--dp", "2", "--tp", "3", "--sp", "--recompute", "layer"],
            ["--model", "bert-nano", "--norm", "pre", "--pp", "2", "--micro-batches", "2"],
            ["--tp", "2", "--gathered-loss", "--label-smoothing", "0.1"]):
        planned = program.run("plan", "--json", *words)
        ran = program.run("train", "--steps", "2", "--json", *words)
        if not checks.that(planned.status == 0 and ran.status == 0, f"{words}\n{planned}\n{ran}"):
            continue
        plan, run = json.loads(planned.out), json.loads(ran.out)
        ranks = by_rank(plan)
        checks.that(sorted(ranks) == list(range(len(run["ranks"]))), f"{words}: {sorted(ranks)}")
        checks.that(plan["parameters"] == run["parameters"] and plan["layout"] == run["layout"],
                    f"{words}: another model or layout")
        for rank in run["ranks"]:
            mine, what = ranks[rank["rank"]], f"{words}, rank {rank['rank']}"
            for name in EXACT:
                checks.that(mine["peak_bytes"][name] == rank["peak_bytes"][name],
                            f"{what}: {name} {mine['peak_bytes']} {rank['peak_bytes']}")
            twice = {name: {key: 2 * value for key, value in counts.items()}
                     for name, counts in mine["communication"].items()}
            checks.that(twice == rank["communication"], f"{what}: {twice} {rank['communication']}")
            checks.that(mine["peak_bytes"]["communication"] >= rank["peak_bytes"]["communication"]
                        and mine["peak_bytes"]["temporary"] <= rank["peak_bytes"]["temporary"]
                        and mine["at_least_bytes"] <= rank["total_peak_bytes"], f"{what}: bounds")


def for_people(program, checks):
    """The words say what the JSON object says, and the schedule is drawn."""
    words = ["plan", "--pp", "2", "--tp", "3", "--schedule", "1f1b", "--micro-batches", "2"]
    done, plan = program.run(*words), json.loads(program.run(*words, "--json").out)
    checks.that(done.status == 0 and done.err == "" and not done.left, f"{words}\n{done}")
    for group in plan["ranks"]:
        for name in EXACT:
            checks.that(f"{group['peak_bytes'][name]:,}" in done.out, f"{name} of {group}\n{done}")
        for counts in group["communication"].values():
            checks.that(f"{counts['bytes']:,}" in done.out, f"{counts}\n{done}")
    checks.that("\nrank 0 F0 F1 .. " in done.out and "1/3 of all ranks' time = 33.3 %" in done.out,
                f"no schedule\n{done}")
    checks.that("this machine has" in done.out and "refuse" not in done.out, f"machine\n{done}")
    one = program.run("plan")
    checks.that(one.status == 0 and "Schedule" not in one.out, f"a pipeline of one rank\n{one}")
    drawn = program.run(*words, "--draw", "schedule.svg")
    checks.that(drawn.status == 0 and drawn.left == {b"schedule.svg"}, f"--draw\n{drawn}")
    root = xml.etree.ElementTree.fromstring(program.read("schedule.svg"))
    checks.that(root.tag.endswith("svg") and len(list(root.iter())) > 16, "an empty drawing")
    os.remove(os.path.join(program.folder, "schedule.svg"))


def large_models(program, checks):
    """What could not run here is planned all the same, and said not to fit."""
    program.write("large.json", json.dumps(LARGE))
    words = ["--model", "large.json", "--tp", "8", "--pp", "8", "--sp", "--micro-batches", "64",
             "--schedule", "1f1b"]
    done = program.run("plan", *words, "--json")
    if checks.that(done.status == 0, f"a large model\n{done}"):
        plan = json.loads(done.out)
        ranks = by_rank(plan)
        checks.that(plan["parameters"] == 174615846912 and len(ranks) == 64, f"sizes\n{done}")
        checks.that(ranks[0]["peak_bytes"]["activations"] == 4 * 9663774720, f"rank 0\n{done}")
        checks.that(plan["bubble"]["over"] == 7 and plan["bubble"]["under"] == 71, f"bubble\n{done}")
        checks.that(plan["fits"] is False and "would refuse" in done.err, f"it fits?\n{done}")
    checks.that(program.run("plan", "--model", "gpt2-124m").status == 0, "gpt2-124m")


def little_memory():
    """Should something be begun that is not refused, it ends soon."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


def refused(program, checks, words, *names):
    done = program.run(*words, first=little_memory)
    checks.that(done.status == 2 and done.err.count("\n") == 1 and done.out == "" and not done.left,
                f"{words}: refused in one line\n{done}")
    for name in names:
        checks.that(name in done.err, f"{words}: should say \"{name}\"\n{done}")
    return done


def refusals(program, checks):
    """A small model, and more activations than any machine has: train and verify say so and run
    nothing."""
    words = ["--seq", "4096", "--batch", "4096", "--dp", "64"]
    for command in ("train", "verify"):
        done = refused(program, checks, [command, "--text", "text.txt", *words], "--dp 64",
                       "needs at least", "on 64 ranks together", "this machine has")
        checks.that(re.search(r"at least \d[\d.]* TB", done.err) is not None, f"number\n{done}")
    checks.that("would refuse" in program.run("plan", *words).out, "plan refuses")
    # Few enough micro-batches at a time fit.
    fits = program.run("train", "--text", "text.txt", "--steps", "1", "--seq", "64", "--batch", "16",
                       "--dp", "16", "--recompute", "stage", first=little_memory)
    checks.that(fits.status == 0, f"what fits is refused\n{fits}")
    refused(program, checks, ["plan", "--tp", "5"], "--tp 5", "use 1, 2, 3, 4, 6 or 12")
    refused(program, checks, ["plan", "--batch", "3", "--micro-batches", "4"], "--batch 3")
    refused(program, checks, ["plan", "--draw", "missing/x.svg"], "missing")
    refused(program, checks, ["plan", "--text", "missing.txt"], "missing.txt")
    refused(program, checks, ["plan", "--report", "x"], "--report")
    refused(program, checks, ["plan", "--tp", "12", "--dp", "4096", "--pp", "4", "--batch", "9999"],
            "--dp 4096", "65536")


def main(program, checks):
    program.write("text.txt", "A text to train on, long enough for every sequence. " * 200)
    against_runs(program, checks)
    for_people(program, checks)
    large_models(program, checks)
    refusals(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
