#!/usr/bin/env python3
"""Checkpoints of other programs as golden directories: test_maps.py ROOT PROGRAM

PyTorch writes a checkpoint with its config.json, `lockstep dump --load` makes a golden directory of
it, the PyTorch model runs on that directory's batch, and its logits, loss and gradients, under the
names and in the arrangement of that program, are what `lockstep check --map` judges. And a gradient
in another's place must be seen. Skipped where PyTorch is missing.
"""
import os
import re
import subprocess
import sys
import tempfile

from program import Checks, Result, start_with

start_with("torch", "numpy")
ROOT, PROGRAM = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
for place in ("tools", os.path.join("tools", "clients")):
    sys.path.insert(0, os.path.join(ROOT, place))
import torch  # pylint: disable=wrong-import-position
import lockstep  # pylint: disable=wrong-import-position
import make_checkpoints as made  # pylint: disable=wrong-import-position
import torch_models as models  # pylint: disable=wrong-import-position
from torch_models import Shape  # pylint: disable=wrong-import-position

BERT_WORDS = 256 + 4 + 9  # bytes, the special ones, and some that no text has


def run(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=120,
                          check=False)
    return Result(done.returncode, done.stdout, done.stderr, set())


class Case:
    """A model whose checkpoint is loaded. swapped: two of its gradients, of one shape."""

    def __init__(self, name, names, shape, module, swapped, how=made.run_gpt, **config):
        self.name, self.names, self.shape, self.module = name, names, shape, module
        self.swapped, self.how, self.config = swapped, how, config


def cases():
    shape = Shape(vocab=131)
    yield Case("gpt2", "hf", shape, models.GPT2(shape), (
        "transformer.h.0.ln_1.weight", "transformer.h.1.ln_1.weight"),
               config=made.gpt2_config(shape))
    shape = Shape(vocab=131, kv_heads=3, tied=False, theta=500.0)
    yield Case("llama", "hf-llama", shape, models.Llama(shape), (
        "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"),
               config=made.llama_config(shape))
    shape = Shape(vocab=BERT_WORDS, types=2, eps=1e-12)
    yield Case("bert", "hf-bert", shape, models.BERT(shape, True), (
        "bert.encoder.layer.0.attention.self.query.weight",
        "bert.encoder.layer.0.attention.self.key.weight"), made.run_bert,
               config=made.bert_config(shape, "BertForPreTraining"), pairs=True)
    shape = Shape(vocab=131, kv_heads=2, tied=False, eps=1e-6)
    yield Case("megatron", "megatron", shape, models.Megatron(shape, True, 3), (
        "language_model.encoder.layers.0.input_layernorm.weight",
        "language_model.encoder.layers.0.post_attention_layernorm.weight"), config=None,
               own=made.own_config("llama-nano", shape))


def gradients(case, golden):
    """What the PyTorch model computes on the golden batch: name -> array."""
    batch = {part: torch.from_numpy(ids.astype("int64"))
             for part, ids in vars(golden.batch(0)).items() if part != "step" and ids is not None}
    case.module.zero_grad()
    found = made.expected_of(case.module.double(), case.how, batch)
    out = {name: tensor.detach().numpy() for name, tensor in found.items()
           if name == "logits" or name.startswith("grad.")}
    out["loss"] = found["losses"].sum().detach().numpy()
    return out


def judge(checks, case, folder):
    made.Maker(folder).make(case.name, case.module, case.how, **case.config)
    place, golden = os.path.join(folder, case.name), os.path.join(folder, case.name + "-golden")
    model = ["--model", os.path.join(place, "model.json")] if case.config["config"] is None else []
    done = run("dump", golden, "--load", os.path.join(place, "model.safetensors"), *model, "--batch",
               "3", "--dropout", "0", "--steps", "1")
    if not checks.that(done.status == 0, f"{case.name}: dump\n{done}"):
        return
    found = gradients(case, lockstep.Golden(golden))
    candidate = os.path.join(folder, case.name + ".safetensors")
    lockstep.write_safetensors(candidate, found)
    done = run("check", golden, candidate, "--map", case.names)
    # A fused matrix is several of the golden directory's.
    judged = int(re.search(r"check: (\d+) tensors", done.out + "check: 0 tensors").group(1))
    checks.that(done.status == 0 and judged >= len(found) and ", 0 different" in done.out,
                f"{case.name}\n{done}")
    one, other = ("grad." + name for name in case.swapped)
    found[one], found[other] = found[other], found[one]
    lockstep.write_safetensors(candidate, found)
    done = run("check", golden, candidate, "--map", case.names)
    checks.that(done.status == 1 and "2 different" in done.out, f"{case.name}, swapped\n{done}")


def main():
    checks = Checks()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for case in cases():
            judge(checks, case, folder)
    checks.finish()


if __name__ == "__main__":
    main()
