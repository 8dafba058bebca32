#!/usr/bin/env python3
"""A training whose loss stops being a number: test_undefined.py PROGRAM

Any NaN equals any other, so an all-NaN run equals every other one. verify must not call that equal,
train must say it, and files must not depend on which NaN an instruction returned.
"""
import json
import os
import re

import program as p

# Weight decay of 1000 at a rate of 1000 multiplies every weight by a million a step.
DIVERGES = ["--lr", "1000", "--batch", "2", "--seq", "8", "--optimizer", "sgd", "--clip", "0",
            "--weight-decay", "1000"]
FIRST = 3  # the step whose loss is the first that is no number
SAYS = f"nothing is compared from step {FIRST} on: the loss is not a number"


def signed_nan(done):
    """The sign of a NaN is that of no number, and differs between machines."""
    return re.search(r"-nan\b", done.out)


def ends(done, layouts):
    return re.fullmatch(rf"verify: {layouts} layouts?, 0 bit-exact, 0 different",
                        p.last_line(done.out))


def verify(program, checks):
    run = ["verify", *DIVERGES, "--steps", "5", "--no-truth"]
    done = program.run(*run, "--tp", "2")
    checks.that(done.status == 1 and done.out.count(SAYS) == 1 and not signed_nan(done)
                and "1 layout is undefined" in done.out
                and ends(done, 1),
                f"undefined\n{done}")
    done = program.run(*run, "--tp", "2", "--json")
    found = json.loads(done.out)
    checks.that(done.status == 1 and [found[k] for k in ("count", "bit_exact", "different",
                                                         "undefined")] == [1, 0, 0, 1]
                and found["layouts"][0]["status"] == "undefined"
                and found["layouts"][0]["bit_exact"] is False
                and found["layouts"][0]["departure"] is None
                and found["baselines"][0]["undefined_from"]
                == {"step": FIRST, "phase": "loss", "tensor": "loss"}, f"json\n{done}")
    done = program.run(*run, "--layouts", "tp 2; dp 2", "--report", "r")
    page = program.read("r/index.html").decode()
    checks.that(done.status == 1 and SAYS in page and "bit-exact:" not in page
                and page.count("undefined: holds NaN") == 2
                and ends(done, 2),
                f"page\n{done}")
    # The same training while its loss is a number.
    done = program.run("verify", *DIVERGES, "--steps", str(FIRST - 1), "--no-truth", "--tp", "2",
                       "--json")
    found = json.loads(done.out)
    checks.that(done.status == 0 and found["undefined"] == 0 and found["bit_exact"] == 1
                and found["layouts"][0]["status"] == "bit-exact"
                and found["baselines"][0]["undefined_from"] is None, f"before it\n{done}")


def truth(program, checks):
    if len(p.engines_of(program)) < 2:
        return
    program.run("train", *DIVERGES, "--steps", "5", "--serial", "--save", "nan.safetensors")
    done = program.run("verify", *DIVERGES, "--load", "nan.safetensors", "--steps", "6", "--tp",
                       "2")
    checks.that("loss not a number, gradients not a number (token_embedding.weight), parameters "
                "not a number (token_embedding.weight)" in done.out, f"truth\n{done}")


def train(program, checks):
    """Done as asked, so the exit status is 0; but it is said."""
    run = ["train", *DIVERGES, "--serial", "--steps"]
    done = program.run(*run, "5")
    checks.that(done.status == 0 and f"the loss is not a number from step {FIRST} on" in done.out
                and not signed_nan(done), f"train\n{done}")
    done = program.run(*run, "5", "--json")
    checks.that(json.loads(done.out)["undefined_from"] == FIRST, f"train json\n{done}")
    done = program.run(*run, str(FIRST - 1), "--json")
    checks.that(json.loads(done.out)["undefined_from"] is None
                and "not a number" not in done.err, f"train before it\n{done}")


def files(program, checks):
    """One NaN: the bytes of a file do not depend on the layout."""
    saved = []
    for i, layout in enumerate((["--serial"], ["--tp", "2"], ["--dp", "2", "--pp", "2"])):
        program.run("train", *DIVERGES, "--steps", "5", *layout, "--save", f"{i}.safetensors")
        saved.append(p.parse_safetensors(program.read(f"{i}.safetensors"))[1])
    nans = sum(data.count(b"\x00\x00\xc0\x7f") for _, _, data in saved[0].values())
    checks.that(saved[0] == saved[1] == saved[2] and nans > 10000,
                f"checkpoints of three layouts differ, or hold {nans} NaN")
    for name, layout in (("g", ["--tp", "2"]), ("h", ["--dp", "2"])):
        done = program.run("dump", name, *DIVERGES, "--start", "training", "--steps", "5",
                           "--no-truth", *layout)
        checks.that(done.status == 0, f"dump\n{done}")
    for file in ("forward", "backward", "update"):
        g, h = (program.read(os.path.join(d, f"{file}.safetensors")) for d in "gh")
        checks.that(g == h and b"\x00\x00\xc0\x7f" in g, f"{file} differs between two layouts")


def main(program, checks):
    verify(program, checks)
    truth(program, checks)
    train(program, checks)
    files(program, checks)


p.in_folder(main)
