#!/usr/bin/env python3
"""Every grid of at most RANKS ranks, every schedule: test_sweeps.py PROGRAM MODEL RANKS

One step of training in some hundred layouts, each with the bits of the serial run: loss, gradients,
parameters, with dropout and clipping on. What the list of layouts covers is tested in test_sweep.c.
"""
import json
import sys

import program as p

RANKS = int(sys.argv[3])


def main(program, checks):
    done = program.run("verify", "--model", sys.argv[2], "--sweep", str(RANKS), "--steps", "1",
                       "--clip", "0.5", "--dropout", "0.1", "--no-truth", "--json", timeout=600)
    checks.that(done.status == 0, f"the sweep\n{done}")
    facts = json.loads(done.out)
    layouts = [run["layout"] for run in facts["layouts"]]
    checks.that(facts["count"] == facts["bit_exact"] == len(layouts) > 40 * RANKS, f"too few\n{done}")
    checks.that(all(run["bit_exact"] for run in facts["layouts"]), f"not all bit-exact\n{done}")
    checks.that(facts["model"]["dropout"] == 0.1, "without dropout")
    checks.that({run["result"]["digest"] for run in facts["layouts"]} ==
                {facts["baselines"][0]["result"]["digest"]}, "more than one digest")
    grids = {(at["dp"], at["pp"], at["tp"], at["sp"]) for at in layouts}
    expected = {(dp, pp, tp, sp) for dp in range(1, 9) for pp in range(1, 5) for tp in (1, 2, 3, 4, 6)
                for sp in (False, True) if dp * pp * tp <= RANKS and (tp > 1 or not sp)}
    checks.that(grids == expected, f"grids: missing {expected - grids}, not asked for {grids - expected}")
    for key, values in (("schedule", {"gpipe", "1f1b", "interleaved"}), ("virtual_stages", {1, 2, 4}),
                        ("micro_batches", {1, 2, 3, 4, 5}),
                        ("recompute", {"none", "selective", "layer", "stage"})):
        checks.that({at[key] for at in layouts} == values, f"{key}: {({at[key] for at in layouts})}")


p.in_folder(main)
