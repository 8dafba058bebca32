#!/usr/bin/env python3
"""Checkpoints that PyTorch wrote, in the layouts of other programs: test_torch.py ROOT JUDGE...

tools/clients/make_checkpoints.py makes them with the logits, losses and gradients that PyTorch
computes; each JUDGE (test/train/judge_checkpoint.c in one precision) must compute the same. And
three faults that no shape gives away must be seen. Skipped where PyTorch is missing: the first
python3 of $LOCKSTEP_PYTHON, the one that runs this and /usr/bin/python3 that has it is taken.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

import program as p

SKIPPED = 77
MODELS = {"gpt2": "Hugging Face GPT-2", "gpt2-untied": "Hugging Face GPT-2",
          "llama": "Hugging Face Llama", "llama-bf16-tied": "Hugging Face Llama",
          "llama-meta": "Meta's Llama", "bert": "Hugging Face BERT",
          "bert-masked": "Hugging Face BERT", "megatron-gpt": "Megatron-LM",
          "megatron-llama": "Megatron-LM"}


def run(*words):
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=120)
    return p.Result(done.returncode, done.stdout.decode(), done.stderr.decode(), set())


def with_fault(folder, name, change):
    """A copy of a model whose file's header went through `change`."""
    copy = os.path.join(folder, name + "-fault")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(os.path.join(folder, name), copy)
    path = os.path.join(copy, "model.safetensors")
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    change(header)
    with open(path, "wb") as file:
        file.write(p.make_safetensors(header, data[8 + length:]))
    return copy


def swap(first, second):
    """Two tensors of one shape in each other's place, in every layer."""
    def change(header):
        changed = 0
        for name in list(header):
            if first in name:
                other = name.replace(first, second)
                header[name], header[other] = header[other], header[name]
                changed += 1
        assert changed, f"no {first}"
    return change


def main():
    root, judges = sys.argv[1], sys.argv[2:]
    python = p.python_with("torch")
    if python is None:
        print("skipped: no python3 with torch is here")
        sys.exit(SKIPPED)
    checks = p.Checks()
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(root, "tools", "clients", "make_checkpoints.py")
        made = run(python, "-B", script, folder)
        checks.that(made.status == 0, f"make_checkpoints.py\n{made}")
        checks.that(set(os.listdir(folder)) == set(MODELS), f"made {os.listdir(folder)}")
        for name, title in MODELS.items():
            for judge in judges:
                done = run(judge, os.path.join(folder, name))
                checks.that(done.status == 0 and f"names of {title}," in done.out and
                            " 0 different" in done.out, f"{name}\n{done}")
                print(done.out, end="")
        for name, change in (
                ("llama-bf16-tied", swap("gate_proj", "up_proj")),
                ("bert", swap("self.query.weight", "self.key.weight")),
                ("llama-meta", swap("attention.wk", "attention.wv"))):
            copy = with_fault(folder, name, change)
            for judge in judges:
                done = run(judge, copy)
                checks.that(done.status == 1 and "logits: off by" in done.out,
                            f"{name} with a fault\n{done}")
    checks.finish()


if __name__ == "__main__":
    main()
