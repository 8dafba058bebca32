#!/usr/bin/env python3
"""Convolutional networks in PyTorch against golden directories: test_net_torch.py ROOT PROGRAM

A network is put together from the manifest's description, trains two steps on the golden batches
with PyTorch's own convolutions, norms and gradients, and writes every tensor as a candidate: none
may be different. Then with mistakes of parallel runs, which `lockstep check` must name. Skipped
where PyTorch is missing.
"""
import os
import subprocess
import sys
import tempfile

from program import Checks, Result, start_with

start_with("torch", "numpy")
ROOT, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "tools"))
import torch  # pylint: disable=wrong-import-position
from torch.nn import functional as F  # pylint: disable=wrong-import-position
import lockstep  # pylint: disable=wrong-import-position


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=300,
                          check=False)
    return Result(done.returncode, done.stdout, done.stderr, set())


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def sides(padding):
    """(left, right, top, bottom), as F.pad takes them."""
    top, bottom, left, right = (padding,) * 4 if isinstance(padding, int) else padding
    return left, right, top, bottom


class Net:
    """mistake: "" or what is done wrong."""

    def __init__(self, golden, dtype, mistake=""):
        self.golden, self.dtype, self.mistake = golden, dtype, mistake
        self.net = golden.model["network"]
        tensor = lambda array: torch.from_numpy(array.copy()).to(dtype)
        self.params = {name: tensor(golden.weights[name]) for name in golden.weights}
        self.trained = [name for name in self.params if "running_" not in name]
        self.moments = {name: [torch.zeros_like(self.params[name]) for _ in "mv"]
                        for name in self.trained}

    def conv(self, layer, x):
        weight = self.params[layer["name"] + ".weight"]
        x = F.pad(x, sides(layer["padding"]))
        how = dict(stride=pair(layer["stride"]), dilation=pair(layer["dilation"]),
                   groups=layer["groups"])
        bias = self.params.get(layer["name"] + ".bias")
        if self.mistake != "halo" or layer["kernel"] != 3 or layer["stride"] != 1:
            return F.conv2d(x, weight, bias, **how)
        half = (x.shape[2] - 2) // 2  # two ranks, one above the other, that exchange nothing
        upper, lower = x[:, :, :half + 1], x[:, :, half + 1:]
        return torch.cat([F.conv2d(F.pad(upper, (0, 0, 0, 1)), weight, bias, **how),
                          F.conv2d(F.pad(lower, (0, 0, 1, 0)), weight, bias, **how)], 2)

    def batch_norm(self, layer, x, out):
        name = layer["name"]
        scale, shift, mean, variance = (self.params["%s.%s" % (name, part)] for part in (
            "weight", "bias", "running_mean", "running_var"))
        out[name + ".batch_mean"] = x.mean((0, 2, 3)).detach()
        out[name + ".batch_rstd"] = torch.rsqrt(
            x.var((0, 2, 3), unbiased=False) + layer["eps"]).detach()
        eps = 1e-3 if self.mistake == "epsilon" else layer["eps"]
        if self.mistake == "statistics":  # two ranks, each with its own
            return torch.cat([F.batch_norm(part, None, None, scale, shift, True, 0, eps)
                              for part in x.split((x.shape[0] + 1) // 2)])
        return F.batch_norm(x, mean, variance, scale, shift, True, layer["momentum"], eps)

    def apply(self, layer, x, values, out, step):
        kind, name = layer["kind"], layer["name"]
        if kind == "conv":
            return self.conv(layer, x)
        if kind == "batch_norm":
            return self.batch_norm(layer, x, out)
        if kind == "relu":
            return F.relu(x)
        if kind == "add":
            return x + values[layer["beside"]]
        if kind == "max_pool":
            x = F.pad(x, sides(layer["padding"]), value=-float("inf"))
            return F.max_pool2d(x, pair(layer["kernel"]), pair(layer["stride"]))
        if kind == "global_pool":
            return x.mean((2, 3), keepdim=True)
        if kind == "response_norm":
            return F.local_response_norm(x, layer["span"], layer["alpha"] * layer["span"],
                                         layer["beta"], layer["k"])
        if kind == "dropout":
            mask = torch.from_numpy(self.golden.mask(name, step).astype("float64")).to(self.dtype)
            return x * mask / (1 - layer["p"])
        y = x.flatten(1) @ self.params[name + ".weight"]
        return (y + self.params.get(name + ".bias", 0))[:, :, None, None]

    def step(self, step):
        """Every tensor of a step by name."""
        batch, out = self.golden.batch(step), {}
        for name in self.trained:
            self.params[name] = self.params[name].detach().requires_grad_()
        values = {"image": torch.from_numpy(batch.images.copy()).to(self.dtype)}
        for layer in self.net["layers"]:
            y = self.apply(layer, values[layer["from"]], values, out, step)
            y.retain_grad()
            values[layer["name"]] = out[layer["name"]] = y
        losses = F.cross_entropy(y.flatten(1), torch.from_numpy(batch.labels.astype("int64")),
                                 reduction="none")
        out["image_loss"], out["loss"] = losses, losses.sum() / len(losses)
        out["loss"].backward()
        for name in values:
            if name != "image":
                out["d." + name] = values[name].grad
        self.update(step, out)
        return {name: tensor.detach().numpy() for name, tensor in out.items()}

    def update(self, step, out):
        with torch.no_grad():
            grads = {name: self.params[name].grad for name in self.trained}
            norm = torch.sqrt(sum((g.double() ** 2).sum() for g in grads.values()))
            out["norm"] = norm
            how = self.golden.optimizer
            scale = how["clip"] / norm if how["clip"] and norm > how["clip"] else 1.0
            for name in self.trained:
                out["grad." + name], g = grads[name], (grads[name] * scale).to(self.dtype)
                out["clipped." + name], w = g, self.params[name].detach().clone()
                lr, t = self.golden.learning_rate(step), step + 1
                m, v = self.moments[name]
                m.mul_(how["beta1"]).add_(g, alpha=1 - how["beta1"])
                v.mul_(how["beta2"]).add_(g * g, alpha=1 - how["beta2"])
                if w.dim() > 1:
                    w -= lr * how["weight_decay"] * w
                w -= lr * (m / (1 - how["beta1"] ** t)) / (
                    torch.sqrt(v / (1 - how["beta2"] ** t)) + how["eps"])
                self.params[name] = out["param." + name] = w
            for name in self.params:
                if name not in self.trained:
                    out["param." + name] = self.params[name].clone()


def candidate(golden, folder, dtype, mistake=""):
    net = Net(golden, dtype, mistake)
    out = lockstep.Candidate(folder, golden)
    for step in golden.steps:
        for name, array in net.step(step).items():
            out.add(name, array, step)
    out.write()
    return len(out.tensors)


def right(checks, folder, model, options=()):
    golden, mine = os.path.join(folder, model), os.path.join(folder, model + "-mine")
    made = run("dump", golden, "--model", model, "--batch", "3", "--steps", "2", *options)
    checks.that(made.status == 0, model + ": dump: " + made.err)
    opened = lockstep.Golden(golden)
    for dtype in (torch.float32, torch.float64):
        count = candidate(opened, mine, dtype)
        found = run("check", golden, mine, "--complete")
        checks.that(found.status == 0 and found.out.splitlines()[-1].endswith("0 different"),
                    "%s in %s: %s" % (model, dtype, found.out[-2000:] + found.err))
        checks.that(count == len(opened.tensors), model + ": all tensors were written")
    return opened


def main():
    torch.set_num_threads(1)
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        right(checks, folder, "alexnet-nano")
        golden = right(checks, folder, "resnet-nano", ("--spatial", "2x1"))
        for mistake, tensor, cause in (
                ("halo", "step0/stem.conv", "halo missing"),
                ("statistics", "step0/stem.norm", "local batch-norm statistics"),
                ("epsilon", "step0/stem.norm", "another epsilon in a norm")):
            mine = os.path.join(folder, mistake)
            candidate(golden, mine, torch.float32, mistake)
            found = run("check", golden.path, mine)
            checks.that(found.status == 1 and tensor in found.out and cause in found.out,
                        "%s is \"%s\": %s" % (mistake, cause, found.out[-3000:] + found.err))
    return checks.finish()


sys.exit(main())
