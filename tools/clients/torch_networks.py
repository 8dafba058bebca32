"""A convolutional network from its description as JSON, in PyTorch.

The description is what `lockstep` writes and reads (lib/model/README.md): "network" with "layers",
every key given or at its default. `forward` computes it; parameters and running statistics are a
dictionary under Lockstep's names, all in the precision that they have."""
import torch
from torch.nn import functional as F


def pair(value):
    return list(value) if isinstance(value, (list, tuple)) else [value, value]


def padding(layer):
    """Top, bottom, left, right in, what F.pad wants out: left, right, top, bottom."""
    value = layer.get("padding", 0)
    top, bottom, left, right = value if isinstance(value, list) else [value] * 4
    return [left, right, top, bottom]


def named(layers):
    """Each layer with its name, the number of what it reads, and of what it adds."""
    numbers, out = {"image": -1}, []
    for number, layer in enumerate(layers):
        name = layer.get("name", f"{layer['kind']}{number}")
        out.append((name, layer, numbers[layer["from"]] if "from" in layer else number - 1,
                    numbers[layer["beside"]] if "beside" in layer else None))
        numbers[name] = number
    return out


def average(x, layer):
    size, stride = pair(layer["kernel"]), pair(layer.get("stride", 1))
    total = F.avg_pool2d(F.pad(x, padding(layer)), size, stride) * (size[0] * size[1])
    if layer.get("count_padding", True):
        return total / (size[0] * size[1])
    inside = F.avg_pool2d(F.pad(torch.ones_like(x), padding(layer)), size, stride)
    return total / torch.round(inside * (size[0] * size[1]))


def normalise(x, name, layer, values, training):
    """By the statistics of the batch, which then go into the running ones, or by these."""
    mean, variance = values[name + ".running_mean"], values[name + ".running_var"]
    return F.batch_norm(x, mean, variance, values[name + ".weight"], values[name + ".bias"],
                        training, layer.get("momentum", 0.1), layer.get("eps", 1e-5))


def compute(x, beside, name, layer, values, training):
    kind = layer["kind"]
    if kind == "conv":
        return F.conv2d(F.pad(x, padding(layer)), values[name + ".weight"],
                        values.get(name + ".bias"), pair(layer.get("stride", 1)), 0,
                        pair(layer.get("dilation", 1)), layer.get("groups", 1))
    if kind == "max_pool":
        return F.max_pool2d(F.pad(x, padding(layer), value=float("-inf")), pair(layer["kernel"]),
                            pair(layer.get("stride", 1)))
    if kind == "avg_pool":
        return average(x, layer)
    if kind == "global_pool":
        return x.mean((2, 3), keepdim=True)
    if kind == "batch_norm":
        return normalise(x, name, layer, values, training)
    if kind == "relu":
        return F.relu(x)
    if kind == "response_norm":
        span = layer.get("span", 5)  # PyTorch divides alpha by it
        return F.local_response_norm(x, span, layer.get("alpha", 1e-4) * span,
                                     layer.get("beta", 0.75), layer.get("k", 2))
    if kind == "dense":
        return F.linear(x.flatten(1), values[name + ".weight"],
                        values.get(name + ".bias"))[:, :, None, None]
    if kind == "add":
        return x + beside
    assert kind == "dropout" and layer["p"] == 0, f"{name}: {kind} is not computed here"
    return x


def forward(network, values, images, training):
    """The logits. training: batch norms take the statistics of the batch and update the running
    ones, which are in `values`, in place."""
    outputs = [images]
    for name, layer, read, beside in named(network["layers"]):
        second = None if beside is None else outputs[beside + 1]
        outputs.append(compute(outputs[read + 1], second, name, layer, values, training))
    return outputs[-1].flatten(1)


def shapes(network):
    """The shape of every parameter and running statistic, as PyTorch has them."""
    out = {}
    x = torch.zeros(1, network["channels"], network["height"], network["width"])
    outputs = [x]
    for name, layer, read, beside in named(network["layers"]):
        x = outputs[read + 1]
        channels = layer.get("channels")
        if layer["kind"] == "conv":
            out[name + ".weight"] = [channels, x.shape[1] // layer.get("groups", 1),
                                     *pair(layer["kernel"])]
        if layer["kind"] == "dense":
            out[name + ".weight"] = [channels, x[0].numel()]
        if layer["kind"] in ("conv", "dense") and layer.get("bias", True):
            out[name + ".bias"] = [channels]
        if layer["kind"] == "batch_norm":
            for part in ("weight", "bias", "running_mean", "running_var"):
                out[f"{name}.{part}"] = [x.shape[1]]
        values = {key: torch.ones(shape) for key, shape in out.items()}
        second = None if beside is None else outputs[beside + 1]
        outputs.append(compute(x, second, name, layer, values, False))
    return out
