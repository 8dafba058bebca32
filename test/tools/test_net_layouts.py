#!/usr/bin/env python3
"""Layouts of convolutional networks from outside: test_net_layouts.py PROGRAM FAULTY

Refused in one line with what is allowed; verified, one by one and in a sweep; checkpoints and traces
of them; and with a fault built in, where a run departs: a convolution's weight by four numbers.
"""
import json
import os
import re
import sys

import program as p


def refused(program, checks, words, *names):
    done = program.run(*words)
    checks.that(done.status == 2 and not done.out and done.err.count("\n") == 1 and not done.left and
                all(name in done.err for name in names), f"{words}: {names}\n{done}")


def refusals(program, checks):
    for words, *names in (
            (["--spatial", "40x1"], "--spatial 40x1: the image has 32 rows; use 1 to 32"),
            (["--spatial", "1x33"], "--spatial 1x33: the image has 32 columns; use 1 to 32"),
            (["--spatial", "2"], "--spatial 2: give rows x columns of ranks over an image, such as 2x1"),
            (["--spatial", "0x1"], "--spatial 0x1"),
            (["--spatial", "2x1x1"], "--spatial 2x1x1"),
            (["--spatial", "-2x1"], "--spatial -2x1"),
            (["--channel", "3"], "--channel 3: layer conv1's 16 channels are 4 granules", "use 1, 2 or 4"),
            (["--channel", "0"], "--channel 0"),
            (["--dp", "9"], "--batch 8: dp 9 needs 9 images or more", "--dp 1 to 8"),
            (["--dp", "8", "--spatial", "32x32"], "--dp 8, --spatial 32x32, --channel 1: 8192 ranks",
             "at most"),
            (["--strategy", "conv2"], "--strategy conv2: give a layer and its grid", "conv1=2x1x1x2"),
            (["--strategy", "conv2=2x1x1"], "--strategy conv2=2x1x1: give a layer"),
            (["--strategy", "cnv2=1x1x1x1"], "--strategy cnv2: alexnet-nano has no layer", "conv2"),
            (["--strategy", "qqqqqqqqqqqq=1x1x1x1"], "no layer of that name", "conv1 to dense8"),
            (["--strategy", ""], "--strategy"),
            (["--dp", "2", "--strategy", "conv2=2x1x1x1,"], "--strategy \"\""),
            (["--dp", "2", "--strategy", "conv2=2x1x1x1,conv2=1x2x1x1"], "has one already"),
            (["--dp", "2", "--strategy", "conv2=4x1x1x1"],
             "--strategy conv2=4x1x1x1: a grid of 4 ranks; the run has 2"),
            (["--dp", "2", "--strategy", "dense8=1x1x1x2"], "--strategy dense8=1x1x1x2: the last layer",
             "use 2x1x1x1"),
            (["--dp", "2", "--strategy", "dense6=1x2x1x1"], "--strategy dense6=1x2x1x1: a dense layer"),
            (["--dp", "3", "--strategy", "conv2=1x1x1x3"], "--strategy conv2=1x1x1x3: layer conv2's 32",
             "use 1, 2 or 4 for channels"),
            (["--tp", "2"], "--tp", "alexnet-nano is a convolutional network"),
            (["--pp", "2"], "--pp", "convolutional network"),
            (["--sp"], "--sp", "convolutional network"),
            (["--micro-batches", "2"], "--micro-batches", "convolutional network"),
            (["--recompute", "layer"], "--recompute", "convolutional network")):
        refused(program, checks, ["train", "--model", "alexnet-nano", *words], *names)
    for words in (["--spatial", "2x1"], ["--channel", "2"], ["--overlap"], ["--strategy", "a=1x1x1x1"]):
        refused(program, checks, ["verify", *words], words[0], "gpt2-nano is a transformer")
        refused(program, checks, ["verify", "--model", "resnet-nano", *words, "--sweep", "2"], words[0])
        refused(program, checks, ["verify", "--model", "resnet-nano", *words, "--layouts", "dp 2"],
                words[0])
        refused(program, checks, ["train", "--model", "resnet-nano", *words, "--serial"], words[0])
    for layout, *names in (("tp 2", "--tp 2: resnet-nano is a convolutional network", "--spatial"),
                           ("dp 2, layer 30 2x1x1x1", "layer 30: resnet-nano has layers 0 to 29"),
                           ("spatial 2", "--layouts: ", "spatial 2"),
                           ("dp 2; spatial 99x1", "--spatial 99x1: the image has 32 rows")):
        refused(program, checks, ["verify", "--model", "resnet-nano", "--layouts", layout], *names)
    refused(program, checks, ["verify", "--layouts", "spatial 2x1"],
            "--spatial 2x1: gpt2-nano is a transformer")


def verified(program, checks):
    done = program.run("verify", "--model", "alexnet-nano", "--spatial", "2x2", "--dp", "2", "--steps", "2",
                       "--report", "page")
    page = program.read("page/index.html").decode()
    checks.that("data parallel 2, spatial 2 x 2, channel parallel 1: 8 ranks" in page and
                "<td>conv2</td><td>conv</td>" in page and all(f"rank {rank}: replica" in page for rank in range(8)) and
                "tensor" not in page and "pipeline" not in page, "the page")
    checks.that(done.status == 0 and p.last_line(done.out) ==
                "verify: 1 layout, 1 bit-exact, 0 different" and
                re.search(r"^dp 2 x spatial 2x2 +portable +bit-exact", done.out, re.MULTILINE),
                f"alexnet\n{done}")
    done = program.run("verify", "--model", "resnet-nano", "--spatial", "2x1", "--channel", "2", "--overlap",
                       "--strategy", "block2.norm1=2x1x2x1,block2.conv1=4x1x1x1", "--steps", "1",
                       "--json", "--no-truth")
    facts = json.loads(done.out)
    layout = facts["layouts"][0]["layout"]
    checks.that(done.status == 0 and facts["bit_exact"] == 1 and layout == {
        "name": "spatial 2x1 x channel 2, overlap, layer 10 4x1x1x1, layer 11 2x1x2x1", "ranks": 4,
        "dp": 1, "spatial": [2, 1], "channel": 2, "overlap": True,
        "strategies": {"block2.conv1": [4, 1, 1, 1], "block2.norm1": [2, 1, 2, 1]}}, f"JSON\n{done}")
    # Written down as printed, in both precisions and with both engines.
    for options in (["--dtype", "f64"], ["--gemm", p.engines_of(program)[-1]]):
        done = program.run("verify", "--model", "resnet-nano", "--steps", "1", "--no-truth", *options, "--layouts",
                           f"one rank; spatial 1x3; {layout['name']}")
        checks.that(done.status == 0 and p.last_line(done.out) ==
                    "verify: 3 layouts, 3 bit-exact, 0 different", f"{options}\n{done}")


def swept(program, checks):
    for model, ranks in (("resnet-nano", 5), ("alexnet-nano", 4)):
        done = program.run("verify", "--model", model, "--sweep", str(ranks), "--steps", "1", "--clip", "0.5",
                           "--no-truth", "--json", timeout=300)
        facts = json.loads(done.out)
        layouts = [run["layout"] for run in facts["layouts"]]
        checks.that(done.status == 0 and facts["count"] == facts["bit_exact"] == len(layouts),
                    f"a sweep of {model}\n{done}")
        points = {(at["dp"], *at["spatial"], at["channel"]) for at in layouts}
        right = {(dp, down, across, channel) for dp in range(1, 6) for down in range(1, 6)
                 for across in range(1, 6) for channel in (1, 2, 4) if dp * down * across * channel <= ranks}
        checks.that(points == right, f"grid points of {model}: {points ^ right}")
        checks.that({at["overlap"] for at in layouts} == {False, True}, f"{model}: overlap")
        checks.that(sum(bool(at["strategies"]) for at in layouts) >= len(points) - 1, f"{model}: strategies")
        checks.that({run["result"]["digest"] for run in facts["layouts"]} ==
                    {facts["baselines"][0]["result"]["digest"]}, "more than one digest")
    done = program.run("verify", "--model", "resnet-nano", "--sweep", "2", "--steps", "1", "--no-truth")
    checks.that(done.status == 0 and
                re.findall(r"^(.*?) +portable +\d+ layouts?, +\d+ bit-exact", done.out, re.MULTILINE) ==
                ["one rank", "channel 2", "spatial 1x2", "spatial 2x1", "dp 2"], f"rows of a sweep\n{done}")


def traced(program, checks):
    """What t.json, of alexnet-nano in spatial 1x2, shows by layer, and what replay says of it."""
    trace = json.loads(program.read("t.json"))
    names = {event["name"] for event in trace["traceEvents"]}
    checks.that({"forward conv2", "backward conv2", "halo conv2 receive", "halo conv2 send_begin",
                 "redistribution dense6 receive", "conv2 all_reduce_plan samples and pixels", "forward loss",
                 "update"} <= names, f"names of a trace: {sorted(names)}")
    checks.that({event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"} ==
                {"replica 0", "rank 0 (row 0, column 0, channel 0)", "rank 1 (row 0, column 1, channel 0)"},
                "names of ranks")
    halos = [event["args"] for event in trace["traceEvents"] if event["name"] == "halo conv2 receive"]
    checks.that(len(halos) == 8 and {args["part"] for args in halos} == {"conv2"} and
                {args["step"] for args in halos} == {0, 1}, f"halos of conv2: {halos}")
    checks.that(all("part" in args for event in trace["traceEvents"] for args in (event.get("args", {}),)
                    if args.get("what") in ("forward", "backward") and args["kind"] != "compute"),
                "a communication of a pass without a layer")
    done = program.run("replay", "t.json", "--draw", "text")
    checks.that(done.status == 0 and "spatial 1x2" in done.out and "(layers, after 9 and z" in done.out and
                max(map(len, done.out.splitlines())) <= 100 and
                re.search(r"^rank +col +compute", done.out, re.MULTILINE) and " pp" not in done.out,
                f"replay\n{done}")
    done = program.run("replay", "t.json", "--json", "--draw", "r.svg")
    facts, drawing = json.loads(done.out), program.read("r.svg").decode()
    checks.that([(rank["dp_rank"], rank["row"], rank["column"], rank["channel_rank"]) for rank in facts["ranks"]] ==
                [(0, 0, 0, 0), (0, 0, 1, 0)] and "pp_rank" not in done.out, f"ranks of a replay\n{done}")
    checks.that("rank 1 (col 1)" in drawing and "<title>backward conv1</title>" in drawing, "a replay drawn")


def told(program, checks):
    """What help, plan and train say of a layout with grids of its own."""
    strategy = ["--model", "alexnet-nano", "--dp", "2", "--strategy", "conv3=1x1x2x1"]
    line = "grids   conv3 1x1x2x1 (samples x down x across x channels)\n"
    done = program.run("plan", *strategy)
    checks.that(done.status == 0 and line in done.out and "alive" not in done.out and
                re.search(r"^conv3 +conv +1x1x2x1 ", done.out, re.MULTILINE), f"plan\n{done}")
    done = program.run("plan", *strategy, "--json")
    facts = json.loads(done.out)
    checks.that(facts["layout"]["strategies"] == {"conv3": [1, 1, 2, 1]} and facts["layer_elements"] is None and
                [layer["grid"] for layer in facts["network_layers"] if layer["layer"] == "conv3"] == [[1, 1, 2, 1]],
                f"plan --json\n{done}")
    done = program.run("train", *strategy, "--steps", "1", "--report", "page2")
    page = program.read("page2/index.html").decode()
    checks.that(done.status == 0 and line in done.out and "conv3 1x1x2x1 (samples" in page, f"train\n{done}")
    refused(program, checks, ["plan", "--model", "alexnet-nano", "--draw", "x.svg"], "--draw", "for transformers")
    for command in ("train", "verify", "plan", "dump"):
        done = program.run(command, "--help")
        checks.that("--spatial" in done.out and f"lockstep {command} --model alexnet-nano --help" in done.out,
                    f"where the help of networks is\n{done}")
        done = program.run(command, "--model", "alexnet-nano", "--help")
        checks.that("--spatial HxW" in done.out and "--strategy LAYER=" in done.out and "Llama" not in done.out and
                    f"lockstep {command} --model gpt2-nano --help" in done.out and
                    max(map(len, done.out.splitlines()[1:])) <= 100, f"help of networks\n{done}")


def trained(program, checks):
    """From one layout to another with the bits of one run; a trace that replay reads."""
    whole = program.run("train", "--model", "resnet-nano", "--steps", "4", "--serial", "--save", "whole")
    program.run("train", "--model", "resnet-nano", "--steps", "2", "--spatial", "2x1", "--overlap", "--save", "half")
    serial = program.run("train", "--model", "resnet-nano", "--steps", "4", "--serial", "--load", "half",
                         "--save", "serial")
    done = program.run("train", "--model", "resnet-nano", "--steps", "4", "--dp", "2", "--channel", "2",
                       "--load", "half", "--save", "end")
    checks.that(whole.status == serial.status == done.status == 0 and
                p.digest(serial) == p.digest(done) and "goes on from step 2" in done.out,
                f"gone on with\n{serial}{done}")
    tensors = [program.read(name) for name in ("whole", "serial", "end")]
    tensors = [data[8 + int.from_bytes(data[:8], "little"):] for data in tensors]
    checks.that(len(tensors[0]) > 200000 and tensors[0] == tensors[1] == tensors[2], "what was saved")
    done = program.run("train", "--model", "alexnet-nano", "--steps", "2", "--spatial", "1x2", "--trace", "t.json")
    checks.that(done.status == 0, f"a trace\n{done}")
    traced(program, checks)
    # More ranks than any machine of ours has cores.
    done = program.run("verify", "--model", "resnet-nano", "--spatial", "8x4", "--channel", "2", "--steps", "1",
                       "--no-truth")
    checks.that(done.status == 0, f"64 ranks\n{done}")


def departs(faulty, checks):
    """With a wrong rate in three rows of ranks."""
    done = faulty.run("verify", "--model", "alexnet-nano", "--steps", "2", "--no-truth", "--layouts",
                      "spatial 2x1; spatial 3x1; dp 2")
    checks.that(done.status == 1 and p.last_line(done.out) ==
                "verify: 3 layouts, 2 bit-exact, 1 different", f"a wrong rate\n{done}")
    checks.that(re.search(r"^spatial 3x1 +portable  DIFFERENT.*\n +step 0, update, tensor conv1.weight, index "
                          r"\[\d+, \d, \d, \d\]: serial \S+p\S+, here \S+p\S+ .*ulp", done.out, re.MULTILINE),
                f"where it departs\n{done}")
    done = faulty.run("verify", "--model", "resnet-nano", "--steps", "1", "--no-truth", "--spatial", "3x1",
                      "--json")
    departure = json.loads(done.out)["layouts"][0]["departure"]
    checks.that(done.status == 1 and departure["phase"] == "update" and
                departure["tensor"] == "stem.conv.weight" and len(departure["index"]) == 4,
                f"a difference in JSON\n{done}")


FAULTY = os.path.abspath(sys.argv[2])  # before the folder is left


def main(program, checks):
    program.write("t", "")  # the folder is not empty
    refusals(program, checks)
    verified(program, checks)
    swept(program, checks)
    trained(program, checks)
    told(program, checks)
    departs(p.Program(FAULTY, program.folder), checks)


p.in_folder(main)
