#!/usr/bin/env python3
"""Convolutional networks against PyTorch: test_torch_networks.py ROOT PROGRAM JUDGE...

tools/clients/make_networks.py computes the built-in networks and an odd one with PyTorch in
binary64; each JUDGE (test/train/judge_network.c in one precision) must compute the same. And faults
that no shape gives away must be seen. Skipped where PyTorch is missing.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import program as p

SKIPPED = 77

# Even kernels, one-sided padding, dilation, groups, strides that differ by axis; an output that
# three layers read, one added to itself.
ODD = {"name": "odd", "label_smoothing": 0.1, "network": {
    "channels": 3, "height": 13, "width": 10, "classes": 7, "row_granules": 5, "column_granules": 3,
    "channel_granules": 2, "layers": [
        {"kind": "conv", "name": "a", "channels": 8, "kernel": [4, 3], "padding": [2, 0, 0, 3],
         "dilation": [1, 2]},
        {"kind": "response_norm", "span": 3, "alpha": 0.2, "beta": 0.6, "k": 1.5},
        {"kind": "max_pool", "kernel": [3, 2], "stride": [2, 1], "padding": [1, 0, 0, 1]},
        {"kind": "conv", "name": "b", "channels": 12, "kernel": [2, 5], "groups": 4,
         "stride": [1, 2], "padding": [0, 1, 2, 1], "bias": False},
        {"kind": "batch_norm", "name": "n", "eps": 0.01, "momentum": 0.3},
        {"kind": "relu", "name": "r"},
        {"kind": "conv", "name": "c", "channels": 12, "kernel": 2, "padding": [1, 0, 0, 1],
         "groups": 2},
        {"kind": "add", "name": "d", "from": "c", "beside": "r"},
        {"kind": "add", "name": "e", "from": "r", "beside": "d"},
        {"kind": "add", "name": "f", "from": "e", "beside": "e"},
        {"kind": "avg_pool", "name": "g", "kernel": [3, 2], "stride": [2, 1],
         "padding": [1, 1, 1, 0], "count_padding": False},
        {"kind": "avg_pool", "name": "h", "kernel": 2, "padding": [1, 0, 0, 1]},
        {"kind": "dropout", "name": "i", "p": 0.5},
        {"kind": "dense", "name": "j", "channels": 9},
        {"kind": "relu", "name": "k"},
        {"kind": "dense", "name": "l", "channels": 7, "bias": False}]}}

# Layer, key, another value; how the judge ends and what it says.
FAULTS = {"odd": [("a", "dilation", 1, 1, "train.logits: off by"),
                  ("b", "groups", 2, 2, "b.weight is missing or not as it should be"),
                  ("n", "eps", 0.02, 1, "eval.logits: off by"),
                  ("g", "count_padding", True, 1, "train.loss: off by")],
          "resnet-nano": [("block2.norm1", "momentum", 0.11, 1,
                           "train.after.block2.norm1.running_var: off by")]}


def run(*words):
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120)
    return p.Result(done.returncode, done.stdout.decode(), done.stderr.decode(), set())


def with_fault(folder, name, layer, key, value):
    """A copy of a network in which one key of one layer says something else."""
    copy = os.path.join(folder, f"{name}-{layer}-{key}")
    shutil.copytree(os.path.join(folder, name), copy)
    path = os.path.join(copy, "model.json")
    with open(path) as file:
        model = json.load(file)
    [changed] = [one for one in model["network"]["layers"] if one.get("name") == layer]
    changed[key] = value
    if key == "dilation":
        changed["padding"] = [2, 0, 0, 1]
    with open(path, "w") as file:
        json.dump(model, file)
    return copy


def built_in(program, folder, name):
    """The description of a built-in network, as the program itself writes it."""
    done = run(program, "train", "--model", name, "--serial", "--steps", "1", "--batch", "2",
               "--image-count", "16", "--json")
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as file:
        json.dump(json.loads(done.out)["model"], file)
    return path


def main():
    root, program, judges = sys.argv[1], sys.argv[2], sys.argv[3:]
    python = p.python_with("torch")
    if python is None:
        print("skipped: no python3 with torch is here")
        sys.exit(SKIPPED)
    checks = p.Checks()
    with tempfile.TemporaryDirectory() as folder:
        descriptions = [built_in(program, folder, name) for name in ("alexnet-nano", "resnet-nano")]
        descriptions.append(os.path.join(folder, "odd.json"))
        with open(descriptions[-1], "w") as file:
            json.dump(ODD, file)
        made = os.path.join(folder, "made")
        os.makedirs(made)
        script = os.path.join(root, "tools", "clients", "make_networks.py")
        done = run(python, "-B", script, made, *descriptions)
        checks.that(done.status == 0, f"make_networks.py\n{done}")
        networks = sorted(os.listdir(made))
        checks.that(networks == ["alexnet-nano", "odd", "resnet-nano"], f"made {networks}")
        for name in networks:
            for judge in judges:
                done = run(judge, os.path.join(made, name))
                checks.that(done.status == 0 and " 0 different" in done.out, f"{name}\n{done}")
                print(done.out, end="")
        for name, faults in FAULTS.items():
            for layer, key, value, status, says in faults:
                copy = with_fault(made, name, layer, key, value)
                for judge in judges:
                    done = run(judge, copy)
                    checks.that(done.status == status and says in done.out + done.err,
                                f"{name} with another {key} of {layer}\n{done}")
    checks.finish()


if __name__ == "__main__":
    main()
