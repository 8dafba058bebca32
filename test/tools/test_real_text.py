#!/usr/bin/env python3
"""200 steps on the project's own documentation: test_real_text.py PROGRAM ROOT

The serial baseline, every legal tensor-parallel degree and layouts that use every axis end with one
digest, all the way the same losses, gradients and parameters; and the model has learned something.
"""
import json
import os
import sys

import program as p

LAYOUTS = ["tp 1", "tp 3", "tp 12", "dp 2 x pp 2 x tp 2, sp, 1f1b, 2 micro-batches",
           "dp 3 x pp 4, gpipe, 2 micro-batches, recompute layer, layers 2,1,1,0",
           "pp 2 x tp 3, sp, interleaved, 2 virtual stages, 5 micro-batches, recompute selective"]


def documentation(root):
    """The words of the project: every README and every public header."""
    found = []
    for place, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in ("build", "report") and not f.startswith("."))
        found += [os.path.join(place, name) for name in sorted(names)
                  if name == "README.md" or (name.endswith(".h") and "include" in place)]
    return b"".join(open(path, "rb").read() for path in found)


def main(program, checks):
    text = documentation(os.path.abspath(ROOT))
    checks.that(len(text) > 50_000, f"the documentation has {len(text)} bytes")
    program.write("text.txt", text)
    done = program.run("verify", "--layouts", "; ".join(LAYOUTS), "--steps", "200", "--lr", "0.003",
                       "--text", "text.txt", "--json", timeout=900)
    checks.that(done.status == 0, f"verify\n{done}")
    facts = json.loads(done.out)
    baseline, layouts = facts["baselines"][0], facts["layouts"]
    checks.that(len(facts["baselines"]) == 1 and len(layouts) == len(LAYOUTS), f"{len(layouts)} layouts\n{done}")
    digests = {run["result"]["digest"] for run in [baseline, *layouts]}
    checks.that(len(digests) == 1, f"{len(digests)} digests\n{done}")
    checks.that(all(run["bit_exact"] is True and run["result"]["last_step"] == 200 for run in layouts),
                f"not all bit-exact to step 200\n{done}")
    # The documentation grows: a bound with room, over enough steps that one batch does not decide.
    first, last = baseline["losses"][0], sum(baseline["losses"][-20:]) / 20
    checks.that(len(baseline["losses"]) == 200 and last < 0.7 * first,
                f"the loss went from {first} to {last}")


ROOT = sys.argv[2]
p.in_folder(main)
