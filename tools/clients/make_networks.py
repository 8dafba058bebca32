#!/usr/bin/env python3
"""Convolutional networks with weights, a batch, and what PyTorch computes with them.

    make_networks.py FOLDER DESCRIPTION.json ...

makes in FOLDER for each description (as lockstep reads it; every dropout of it is given the
probability 0) a folder of its name: model.json and net.safetensors. The latter has the weights
under Lockstep's names (a dense one [in, out]), images and labels, and for a pass of training
("train.") and one of evaluation ("eval.") logits, loss, the gradient of every parameter
("train.grad.NAME") and the running statistics after the first ("train.after.NAME"), in binary64.
Needs PyTorch 1.13 or newer; nothing else."""
import json
import os
import sys

import torch
from torch.nn import functional as F

import torch_networks as networks
from make_checkpoints import write_safetensors

IMAGES = 3


def value_of(name, shape, generator):
    """Scales and variances about 1, biases and means about 0, weights so large that a sum of their
    products is about as large as its terms; all of them numbers of binary32."""
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    if name.endswith("running_var"):
        noise = 0.5 + noise.abs()
    elif len(shape) > 1:
        noise = noise * (2.0 / noise[0].numel()) ** 0.5
    elif name.endswith("weight"):
        noise = 1 + 0.2 * noise
    else:
        noise = 0.2 * noise
    return noise.float().double()


def as_ours(name, value, shapes):
    return value.t().contiguous() if len(shapes[name]) == 2 else value


def run(network, smoothing, start, batch, training):
    values = {name: value.clone() for name, value in start.items()}
    trained = [name for name in values if ".running_" not in name]
    for name in trained:
        values[name].requires_grad_()
    logits = networks.forward(network, values, batch["images"].double(), training)
    loss = F.cross_entropy(logits, batch["labels"].long(), label_smoothing=smoothing)
    loss.backward()
    shapes = {name: list(value.shape) for name, value in values.items()}
    out = {"logits": logits, "loss": loss.reshape(1)}
    out.update({"grad." + name: as_ours(name, values[name].grad, shapes) for name in trained})
    if training:
        out.update({"after." + name: value for name, value in values.items()
                    if name not in trained})
    return out


def make(folder, description):
    with open(description) as file:
        model = json.load(file)
    network = model["network"]
    for layer in network["layers"]:
        if layer["kind"] == "dropout":
            layer["p"] = 0
    generator = torch.Generator().manual_seed(len(network["layers"]))
    shapes = networks.shapes(network)
    start = {name: value_of(name, shape, generator) for name, shape in shapes.items()}
    size = (IMAGES, network["channels"], network["height"], network["width"])
    batch = {"images": torch.randn(size, generator=generator).float(),
             "labels": torch.randint(network["classes"], (IMAGES,), generator=generator).int()}
    out = {**{name: as_ours(name, value, shapes) for name, value in start.items()}, **batch}
    for phase in ("train", "eval"):
        results = run(network, model.get("label_smoothing", 0), start, batch, phase == "train")
        out.update({f"{phase}.{name}": value for name, value in results.items()})
    place = os.path.join(folder, model["name"])
    os.makedirs(place)
    with open(os.path.join(place, "model.json"), "w") as file:
        json.dump(model, file)
    write_safetensors(os.path.join(place, "net.safetensors"), out)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for description in sys.argv[2:]:
        make(sys.argv[1], description)


if __name__ == "__main__":
    main()
