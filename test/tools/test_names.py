#!/usr/bin/env python3
"""Checkpoints under other programs' names, from outside: test_names.py PROGRAM

What --save --names writes, number by number against a checkpoint of the same run under the
program's own names; what --load makes of it, config.json beside it included; what is refused.
"""
import json
import os
import struct

import program as p

RUN = ["train", "--text", "text.txt", "--steps", "1", "--layers", "2"]
TEXT = "".join(f"Line {i} of a text, and {i * 7919 % 1000}.\n" for i in range(200))


def rows_of(tensor):
    """A matrix as a list of rows, a vector as one row."""
    _, shape, data = tensor
    values = struct.unpack(f"<{len(data) // 4}f", data)
    width = shape[-1]
    return [values[i:i + width] for i in range(0, len(values), width)]


def turned(rows):
    return [tuple(row) for row in zip(*rows)]


def files(program, *words, names):
    """The same run saved twice: under its own names, and under `names`."""
    layout = ["--tp", "3", "--pp", "2"]
    own = program.run(*RUN, *words, "--save", "own.safetensors")
    done = program.run(*RUN, *words, *layout, "--save", "x.safetensors", "--names", names)
    assert own.status == 0 and done.status == 0, f"{own}\n{done}"
    assert p.digest(own) == p.digest(done), "another layout, another digest"
    metadata, theirs = p.parse_safetensors(program.read("x.safetensors"))
    return metadata, p.parse_safetensors(program.read("own.safetensors"))[1], theirs


def gpt2(program, checks):
    metadata, own, theirs = files(program, names="hf")
    checks.that(metadata["format"] == "pt" and metadata["names"] == "Hugging Face GPT-2",
                f"{metadata}")
    checks.that(len(theirs) == 4 + 2 * 12 and all(t.startswith("transformer.") for t in theirs),
                f"tensors {sorted(theirs)}")
    for layer in (0, 1):
        ours, name = f"layers.{layer}.attention.", f"transformer.h.{layer}."
        q, k, v = (rows_of(own[ours + part + ".weight"]) for part in ("query", "key", "value"))
        fused = [a + b + c for a, b, c in zip(q, k, v)]
        checks.that(rows_of(theirs[name + "attn.c_attn.weight"]) == fused, f"{name}c_attn.weight")
        for mine, other in (("attention.output.weight", "attn.c_proj.weight"),
                            ("mlp.up.weight", "mlp.c_fc.weight"),
                            ("mlp.down.bias", "mlp.c_proj.bias"),
                            ("norm2.bias", "ln_2.bias")):
            checks.that(theirs[name + other] == own[f"layers.{layer}.{mine}"], name + other)
    checks.that(theirs["transformer.wte.weight"] == own["token_embedding.weight"], "wte")


def llama(program, checks):
    _, own, theirs = files(program, "--model", "llama-nano", names="hf")
    for mine, other in (("attention.query", "self_attn.q_proj"),
                        ("attention.key", "self_attn.k_proj"),
                        ("attention.output", "self_attn.o_proj"), ("mlp.gate", "mlp.gate_proj"),
                        ("mlp.up", "mlp.up_proj"), ("mlp.down", "mlp.down_proj")):
        checks.that(rows_of(theirs[f"model.layers.1.{other}.weight"]) ==
                    turned(rows_of(own[f"layers.1.{mine}.weight"])), other)
    checks.that(theirs["lm_head.weight"] == own["head.weight"], "lm_head")
    _, _, meta = files(program, "--model", "llama-nano", names="meta-llama")
    q, m = (rows_of(t) for t in (theirs["model.layers.0.self_attn.q_proj.weight"],
                                 meta["layers.0.attention.wq.weight"]))
    order = [4 * head + i for head in range(12) for i in (0, 2, 1, 3)]  # heads of 4 features
    checks.that(m == [q[i] for i in order] and m != q, "Meta's pairs")


def megatron(program, checks):
    _, own, theirs = files(program, "--model", "llama-nano", names="megatron")
    q, k, v = (turned(rows_of(own[f"layers.0.attention.{part}.weight"]))
               for part in ("query", "key", "value"))
    rows = []
    for group in range(4):  # 12 query heads of 4 features, 3 to a key head
        rows += q[12 * group:12 * group + 12] + k[4 * group:4 * group + 4]
        rows += v[4 * group:4 * group + 4]
    layer = "language_model.encoder.layers.0."
    checks.that(rows_of(theirs[layer + "self_attention.query_key_value.weight"]) == rows, "q k v")
    gate, up = (turned(rows_of(own[f"layers.0.mlp.{part}.weight"])) for part in ("gate", "up"))
    checks.that(rows_of(theirs[layer + "mlp.dense_h_to_4h.weight"]) == gate + up, "gate and up")
    words = theirs["language_model.embedding.word_embeddings.weight"]
    checks.that(words[1] == [384, 48] and words[2][:256 * 48 * 4] ==
                own["token_embedding.weight"][2] and not any(words[2][256 * 48 * 4:]), "padding")


def loaded(program, checks):
    """Weights under any names begin the same run, in any layout; a folder brings its model along."""
    for model, kinds in (("gpt2-nano", ("hf-gpt2", "megatron", "megatron-core")),
                         ("llama-nano", ("hf-llama", "meta-llama", "megatron")),
                         ("bert-nano", ("hf-bert",))):
        seen = set()
        for i, names in enumerate(kinds):
            program.run(*RUN, "--model", model, "--save", "x.safetensors", "--names", names)
            done = program.run(*RUN, "--model", model, "--load", "x.safetensors", "--tp", "2",
                               "--dp", str(i + 1))
            checks.that(done.status == 0, f"{model}, {names}\n{done}")
            seen.add(p.digest(done))
        checks.that(len(seen) == 1, f"{model}: the same weights, {len(seen)} digests")
    os.mkdir(os.path.join(program.folder, "model"))
    config = {"model_type": "llama", "hidden_size": 48, "num_attention_heads": 12,
              "num_key_value_heads": 4, "intermediate_size": 132, "num_hidden_layers": 2,
              "max_position_embeddings": 24, "vocab_size": 256, "rms_norm_eps": 1e-5}
    program.write("model/config.json", json.dumps(config))
    program.run(*RUN, "--model", "llama-nano", "--save", "model/model.safetensors", "--names",
                "hf")
    run = ["train", "--text", "text.txt", "--steps", "1"]
    expected = p.digest(program.run(*run, "--model", "llama-nano", "--layers", "2", "--load",
                                    "model/model.safetensors"))
    for words in (["--load", "model"], ["--load", "model/model.safetensors"],
                  ["--load", "model", "--model", "model"],
                  ["--load", "model", "--model", "model/config.json"]):
        done = program.run(*run, *words)
        checks.that(done.status == 0 and p.digest(done) == expected, f"{words}\n{done}")
    done = program.run("verify", "--text", "text.txt", "--steps", "1", "--load", "model", "--tp",
                       "3", "--sp")
    checks.that(done.status == 0 and " 1 bit-exact" in p.last_line(done.out), f"verify\n{done}")
    done = program.run(*run, "--load", "model", "--model", "gpt2-nano", "--layers", "2")
    checks.that(done.status == 2, f"a model that is given goes before the one beside\n{done}")


def refused(program, checks):
    for words, *says in (
            (["--names", "hf"], "--names hf", "--save"),
            (["--names", "hg", "--save", "new"], "--names hg", "did you mean hf?"),
            (["--names", "", "--save", "new"], "--names: the value is empty"),
            (["--names", "hf-llama", "--save", "new"], "--names hf-llama", "rmsnorm"),
            (["--names", "hf-bert", "--save", "new"], "--names hf-bert", "norm_place"),
            (["--names", "hf", "--norm", "post", "--save", "new"], "--names hf-gpt2",
             "norm_place"),
            (["--load", "model", "--layers", "3"], "model.layers.2.", "has no tensor"),
            (["--load", "model", "--layers", "1"], "model.layers.1.", "the model has 1 layers"),
            (["--load", "model", "--d-ff", "60"], "48", "132", "60"),
            (["--load", "model", "--kv-heads", "12"], "kv_heads 4", "12"),
            (["--load", "model/config.json"], "config.json", "weight_map"),
            (["--model", "empty"], "--model empty", "config.json")):
        os.makedirs(os.path.join(program.folder, "empty"), exist_ok=True)
        done = program.run("train", "--text", "text.txt", "--steps", "1", *words)
        checks.that(done.status == 2 and done.err.count("\n") == 1 and done.out == "" and
                    not done.left and all(text in done.err for text in says), f"{words}\n{done}")
    program.write("model/config.json", "{\"model_type\": \"mamba\"}")
    done = program.run("train", "--load", "model")
    checks.that(done.status == 2 and "mamba" in done.err and "gpt2, llama or bert" in done.err,
                f"another type\n{done}")


def main(program, checks):
    program.write("text.txt", TEXT)
    gpt2(program, checks)
    llama(program, checks)
    megatron(program, checks)
    loaded(program, checks)
    refused(program, checks)


if __name__ == "__main__":
    p.in_folder(main)
