#!/usr/bin/env python3
"""Small checkpoints as other programs write them, and what PyTorch computes with them.

    make_checkpoints.py FOLDER

makes one folder per model: the weights (model.safetensors, or several files under
model.safetensors.index.json), its configuration (config.json as Hugging Face's programs write it,
else model.json), and expected.safetensors: a batch (tokens, targets; BERT's segments, lengths,
order), logits, losses and the gradient of every parameter under its name, computed in binary64 by
the modules of torch_models.py. Needs PyTorch 1.13 or newer; nothing else.
"""
import json
import os
import struct
import sys

import torch
from torch.nn import functional as F

import torch_models as models
from torch_models import Shape

IGNORED = -100
BATCH, TOKENS = 3, 7
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16",
          torch.bfloat16: "BF16", torch.int32: "I32", torch.int64: "I64", torch.bool: "BOOL"}


def write_safetensors(path, tensors):
    """8 bytes of header length, the header, the arrays one after another."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous()
        if raw.dtype == torch.bfloat16:
            raw = raw.view(torch.int16)
        data = raw.numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def fill(model, generator, dtype):
    """Weights about 0, norm scales about 1, large enough that every part of the model matters; all
    of them numbers that `dtype` has."""
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.2
        scale = parameter.dim() == 1 and name.endswith("weight")
        parameter.data = (noise + (1 if scale else 0)).to(dtype).double()


def batch_of(generator, vocab):
    tokens = torch.randint(vocab, (BATCH, TOKENS), generator=generator)
    targets = torch.randint(vocab, (BATCH, TOKENS), generator=generator)
    targets[0, 2] = targets[1, 5] = targets[2, 1:] = IGNORED  # unequal numbers of valid ones
    return {"tokens": tokens, "targets": targets}


def token_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def run_gpt(model, batch):
    logits = model(batch["tokens"])
    return logits, [token_loss(logits, batch["targets"])]


def run_bert(model, batch):
    logits, pairs = model(batch["tokens"], batch["segments"], batch["lengths"])
    losses = [token_loss(logits, batch["targets"])]
    if pairs is not None:
        losses.append(F.cross_entropy(pairs, batch["order"], ignore_index=IGNORED))
    return logits, losses


def expected_of(model, run, batch):
    logits, losses = run(model, batch)
    sum(losses).backward()
    out = {name: tensor.int() for name, tensor in batch.items()}
    out["logits"] = logits
    out["losses"] = torch.stack(losses)
    for name, parameter in model.named_parameters():
        out["grad." + name] = parameter.grad
    return out


class Maker:
    def __init__(self, folder):
        self.folder = folder

    def make(self, name, model, run, config, own=None, dtype=torch.float32, files=1, rename=None,
             extra=None, pairs=False):
        """config: config.json; own: model.json instead. extra: tensors that a file may have beside
        the weights. rename: name -> name in the file."""
        generator = torch.Generator().manual_seed(len(name) + 1000)
        model = model.double()
        fill(model, generator, dtype)
        batch = batch_of(generator, model.shape.vocab)
        if run is run_bert:
            batch["segments"] = torch.randint(model.shape.types, (BATCH, TOKENS),
                                              generator=generator)
            batch["lengths"] = torch.tensor([TOKENS, 4, 5])
            for row, length in enumerate(batch["lengths"]):
                batch["targets"][row, length:] = IGNORED
        if pairs:
            batch["order"] = torch.tensor([1, IGNORED, 0])
        place = os.path.join(self.folder, name)
        os.makedirs(place)
        rename = rename or (lambda text: text)
        weights = {rename(key): value.to(dtype) for key, value in model.named_parameters()}
        weights.update(extra or {})
        self.write_weights(place, weights, files)
        with open(os.path.join(place, "model.json" if own else "config.json"), "w") as file:
            json.dump(own or config, file, indent=2)
        expected = expected_of(model, run, batch)
        write_safetensors(os.path.join(place, "expected.safetensors"),
                          {"grad." + rename(key[5:]) if key.startswith("grad.") else key: value
                           for key, value in expected.items()})

    @staticmethod
    def write_weights(place, weights, files):
        if files == 1:
            write_safetensors(os.path.join(place, "model.safetensors"), weights)
            return
        index = {}
        for part in range(files):
            file = f"model-{part + 1:05}-of-{files:05}.safetensors"
            some = {key: weights[key] for i, key in enumerate(weights) if i % files == part}
            write_safetensors(os.path.join(place, file), some)
            index.update((key, file) for key in some)
        with open(os.path.join(place, "model.safetensors.index.json"), "w") as file:
            json.dump({"metadata": {}, "weight_map": index}, file, indent=2)


def gpt2_config(shape, **more):
    return {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": shape.layers,
            "n_embd": shape.width, "n_head": shape.heads, "n_inner": shape.inner,
            "n_positions": shape.positions, "vocab_size": shape.vocab,
            "activation_function": shape.activation, "layer_norm_epsilon": shape.eps,
            "tie_word_embeddings": shape.tied, **more}


def llama_config(shape, **more):
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": shape.layers, "hidden_size": shape.width,
            "num_attention_heads": shape.heads, "num_key_value_heads": shape.kv_heads,
            "intermediate_size": shape.inner, "max_position_embeddings": shape.positions,
            "vocab_size": shape.vocab, "rms_norm_eps": shape.eps, "rope_theta": shape.theta,
            "tie_word_embeddings": shape.tied, **more}


def bert_config(shape, architecture):
    return {"model_type": "bert", "architectures": [architecture],
            "num_hidden_layers": shape.layers, "hidden_size": shape.width,
            "num_attention_heads": shape.heads, "intermediate_size": shape.inner,
            "max_position_embeddings": shape.positions, "vocab_size": shape.vocab,
            "type_vocab_size": shape.types, "layer_norm_eps": shape.eps, "hidden_act": "gelu"}


def own_config(base, shape, **more):
    """This project's own form, for models that have no config.json."""
    return {"base": base, "layers": shape.layers, "d_model": shape.width, "heads": shape.heads,
            "kv_heads": shape.kv_heads, "d_ff": shape.inner, "seq": shape.positions,
            "vocab": shape.vocab, "tied": shape.tied, "norm_eps": shape.eps,
            "rope_theta": shape.theta, **more}


def older(name):
    """As in files converted from the first ones."""
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias",
                                                                       "LayerNorm.beta")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.set_num_threads(1)
    maker = Maker(sys.argv[1])

    shape = Shape()
    mask = torch.ones(1, 1, 9, 9, dtype=torch.bool).tril()
    maker.make("gpt2", models.GPT2(shape), run_gpt, gpt2_config(shape),
               rename=lambda name: name.replace("transformer.", ""),  # as the published one
               extra={"h.0.attn.bias": mask, "h.1.attn.bias": mask})
    shape = Shape(activation="gelu", tied=False, eps=1e-6)
    maker.make("gpt2-untied", models.GPT2(shape), run_gpt, gpt2_config(shape), files=3)

    shape = Shape(kv_heads=3, tied=False, theta=500.0)
    maker.make("llama", models.Llama(shape), run_gpt, llama_config(shape), files=2,
               extra={"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2)})
    shape = Shape(kv_heads=1, tied=True)
    maker.make("llama-bf16-tied", models.Llama(shape), run_gpt, llama_config(shape),
               dtype=torch.bfloat16)
    shape = Shape(kv_heads=2, tied=False)
    maker.make("llama-meta", models.MetaLlama(shape), run_gpt, None,
               own=own_config("llama-nano", shape), extra={"rope.freqs": torch.ones(2)})

    shape = Shape(types=3, eps=1e-12)
    maker.make("bert", models.BERT(shape, True), run_bert,
               bert_config(shape, "BertForPreTraining"), pairs=True, rename=older,
               extra={"bert.embeddings.position_ids": torch.arange(9)[None]})
    shape = Shape(types=2, eps=1e-12)
    maker.make("bert-masked", models.BERT(shape, False), run_bert,
               bert_config(shape, "BertForMaskedLM"), dtype=torch.float16)

    shape = Shape()
    maker.make("megatron-gpt", models.Megatron(shape, False, 91), run_gpt, None,
               own=own_config("gpt2-nano", shape))
    shape = Shape(kv_heads=2, tied=False, eps=1e-6)
    maker.make("megatron-llama", models.Megatron(shape, True, 3), run_gpt, None,
               own=own_config("llama-nano", shape))


if __name__ == "__main__":
    main()
