#!/usr/bin/env python3
"""Which model is taken for loaded weights, and what is wrong with them: test_loaded_models.py PROGRAM

A config.json that is not right is an error and never absent; where none says the model, a line does.
"""
import json
import os
import shutil

import program as p

CONFIG = {"model_type": "gpt2", "n_layer": 1, "n_embd": 48, "n_head": 12, "n_positions": 24,
          "vocab_size": 256, "layer_norm_epsilon": 0.001, "activation_function": "gelu",
          "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0}
COMMANDS = (["train", "--serial", "--steps", "1"], ["verify", "--steps", "1", "--no-truth"],
            ["dump", "golden", "--no-truth"], ["plan"])


def refused(program, checks, words, *says):
    done = program.run(*words)
    what = f"lockstep {words}: "
    checks.that(done.status == 2 and done.err.count("\n") == 1 and not done.out and not done.left,
                f"{what}one line, status 2\n{done}")
    for text in says:
        checks.that(text in done.err, f"{what}should say \"{text}\"\n{done}")


def rewrite(program, source, target, rename=lambda name: name, spoil=None):
    """The tensors of a file under other names, without its notes. spoil: a name, whose first number
    becomes NaN. Returns the names."""
    data = program.read(source)
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + length]), bytearray(data[8 + length:])
    if spoil:
        begin = header[spoil]["data_offsets"][0]
        body[begin:begin + 4] = b"\0\0\xc0\x7f"
    header = {rename(name): entry for name, entry in header.items()
              if name != "__metadata__"}
    program.write(target, p.make_safetensors({"__metadata__": {"format": "pt"}, **header},
                                             bytes(body)))
    return list(header)


def weights(program, checks):
    """A folder as Hugging Face has it: f/model.safetensors, without a config.json."""
    program.write("one-layer.json", json.dumps({"base": "gpt2-nano", "layers": 1}))
    done = program.run("train", "--serial", "--steps", "1", "--model", "one-layer.json", "--save",
                       "hf.safetensors", "--names", "hf")
    os.mkdir(os.path.join(program.folder, "f"))
    rewrite(program, "hf.safetensors", "f/model.safetensors")
    return checks.that(done.status == 0, f"no weights\n{done}")


def configurations(program, checks):
    whole = json.dumps(CONFIG)
    files = {
        "empty": ("", "not JSON", "it is empty"),
        "cut off": (whole[:-1], "not JSON", "ends inside an object"),
        "cut in a string": (whole[:8], "not JSON", "ends inside a string"),
        "byte-order mark": (b"\xef\xbb\xbf" + whole.encode(), "not JSON", "byte-order mark", "UTF-8"),
        "UTF-16": (whole.encode("utf-16"), "not JSON", "byte-order mark", "UTF-16"),
        "a list": ("[]", "found []", "model_type"),
        "no model_type": (json.dumps({k: v for k, v in CONFIG.items() if k != "model_type"}),
                          "has no \"model_type\"", "--model"),
        "another type": (json.dumps({**CONFIG, "model_type": "qwen2"}), "model_type \"qwen2\"",
                         "biases"),
        "unknown key": (json.dumps({**CONFIG, "sliding_window": 8}), "\"sliding_window\" 8"),
    }
    for key in (*CONFIG, "another"):
        files[f"NaN in {key}"] = (json.dumps({**CONFIG, key: float("nan")}), "not JSON", "found NaN")
    for number, (name, (text, *says)) in enumerate(files.items()):
        program.write("f/config.json", text)
        what = "f" if number % 2 else "f/model.safetensors"
        for command in COMMANDS if "NaN" not in name else COMMANDS[number % 4:][:1]:
            refused(program, checks, [*command, "--load", what], "lockstep: f/config.json: ", *says)
    # --model goes before whatever lies there.
    program.write("f/config.json", "")
    done = program.run("train", "--serial", "--steps", "1", "--load", "f", "--model",
                       "one-layer.json")
    checks.that(done.status == 0, f"--model with a bad config.json\n{done}")


def said(program, checks):
    """Which model it is, in a line of every command."""
    def line_of(command, *words):
        for command_json in ([], ["--json"]) if command[0] == "train" else ([], ):
            done = program.run(*command, *words, *command_json)
            shutil.rmtree(os.path.join(program.folder, "golden"), ignore_errors=True)
            checks.that(done.status == 0, f"{command} {words}\n{done}")
            lines = [line for line in (done.err if command_json else done.out).splitlines()
                     if line.startswith("weights ")]
            yield lines[0] if len(lines) == 1 else f"no line, or several:\n{done}"

    for command in COMMANDS:
        program.write("f/config.json", json.dumps(CONFIG))
        for line in line_of(command, "--load", "f"):
            checks.that(line == "weights f; the model is that of f/config.json", line)
        os.remove(os.path.join(program.folder, "f/config.json"))
        for line in line_of(command, "--load", "f", "--model", "one-layer.json"):
            checks.that(line == "weights f; the model is that of --model one-layer.json", line)
        for line in line_of(command, "--load", "f", "--layers", "1"):
            checks.that(line == "weights f; no config.json is there, so the model is the default, "
                        "gpt2-nano", line)
        done = program.run(*command)
        shutil.rmtree(os.path.join(program.folder, "golden"), ignore_errors=True)
        checks.that("weights " not in done.out.split("digest")[0].splitlines()[0], f"{done}")


def folders(program, checks):
    load = ["train", "--serial", "--steps", "1", "--model", "one-layer.json", "--load"]
    # Names of wrapped models.
    for prefix, says in (("module.", "DataParallel"), ("_orig_mod.", "torch.compile"),
                         ("model.", "strip it")):
        rewrite(program, "hf.safetensors", "wrapped.safetensors",
                lambda name, before=prefix: before + name)
        refused(program, checks, [*load, "wrapped.safetensors"],
                f"tensor {prefix}transformer.", f"prefix \"{prefix}\"", says, "strip it")
    # A file and an index that disagree.
    os.mkdir(os.path.join(program.folder, "both"))
    names = rewrite(program, "hf.safetensors", "both/model-1.safetensors")
    rewrite(program, "hf.safetensors", "both/model.safetensors")
    program.write("both/model.safetensors.index.json",
                  json.dumps({"weight_map": {name: "model-1.safetensors" for name in names}}))
    done = program.run(*load, "both")
    checks.that(done.status == 0, f"the same twice\n{done}")
    rewrite(program, "hf.safetensors", "both/model.safetensors", spoil="transformer.wpe.weight")
    refused(program, checks, [*load, "both"], "both: has model.safetensors and",
            "which disagree: tensor transformer.wpe.weight", "other values")
    # What is not finite is loaded, and said.
    done = program.run(*load, "both/model.safetensors")
    checks.that(done.status == 0 and "warning: both/model.safetensors: 1 of its numbers is not "
                "finite, the first is element 0 of transformer.wpe.weight: nan" in done.err,
                f"a NaN\n{done}")
    # Pickles.
    os.mkdir(os.path.join(program.folder, "old"))
    program.write("old/pytorch_model.bin", b"PK\3\4" + bytes(60))
    refused(program, checks, [*load, "old"], "old: has pytorch_model.bin", "safetensors")
    refused(program, checks, [*load, "old/pytorch_model.bin"], "torch.save", "safetensors")


def large(program, checks):
    """Far more than the model can need is refused before it is read."""
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    program.write("many.safetensors",
                  p.make_safetensors({f"t{i}": entry for i in range(20000)}, b""))
    refused(program, checks, ["train", "--load", "many.safetensors", "--seed", "1"],
            "many.safetensors: has 20000 tensors; at most")
    os.mkdir(os.path.join(program.folder, "large"))
    with open(os.path.join(program.folder, "large/manifest.json"), "wb") as file:
        file.write(b"{\"format\": \"lockstep golden\"")
        file.truncate((64 << 20) + 1)
    refused(program, checks, ["check", "large", "many.safetensors"], "large/manifest.json",
            f"at most {64 << 20}")


def main(program, checks):
    if not weights(program, checks):
        return
    configurations(program, checks)
    said(program, checks)
    folders(program, checks)
    large(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
