"""GPT-2, tensor-parallel as in Megatron-LM, its norms and dropouts sequence-parallel when asked:
learned positions, norms before attention and MLP, GELU by tanh, the head tied to the embedding."""
import numpy as np
import torch
from torch.nn import functional

import layers as parts
from communicate import enter
from layers import column_linear, dropout, layer_norm, row_linear

# How tensor parallelism cuts a parameter: by this dimension; everything else is whole on all ranks.
CUT = {"token_embedding.weight": 0, "query.weight": 1, "key.weight": 1, "value.weight": 1,
       "query.bias": 0, "key.bias": 0, "value.bias": 0, "output.weight": 0, "up.weight": 1,
       "up.bias": 0, "down.weight": 0}


PADDING = 16


def cut_dimension(name):
    return next((dim for end, dim in CUT.items() if name.endswith(end)), None)


class GPT:
    def __init__(self, golden, world, dtype):
        self.config, self.world, self.golden = golden.model, world, golden
        rank, ranks = world.tp
        # As Megatron pads: to a multiple of PADDING x T, so that every rank has as many words.
        vocab = self.config["vocab"]
        self.words = -(-vocab // (PADDING * ranks)) * PADDING
        self.first_word = rank * self.words
        self.my_words = (min(self.first_word, vocab), min(self.first_word + self.words, vocab))
        self.parameters = {name: self.load(name, golden.weights[name], dtype)
                           for name in golden.weights if not name.startswith("optimizer.")}
        self.uses = {}

    def load(self, name, whole, dtype):
        """This rank's part of a parameter."""
        rank, ranks = self.world.tp
        wrong, dim = self.world.wrong, cut_dimension(name)
        if wrong("query-key") and ".attention." in name:
            other = name.replace("query", "*").replace("key", "query").replace("*", "key")
            whole = self.golden.weights[other]
        if name.endswith("attention.output.weight"):
            rank = ranks - 1 - rank if wrong("shard-order") else rank
        if name == "token_embedding.weight":
            mine = np.zeros((self.words, whole.shape[1]), whole.dtype)
            first, end = self.my_words
            mine[:end - first] = whole[first:end]
        else:
            mine = np.array(whole if dim is None else np.split(whole, ranks, axis=dim)[rank])
        return torch.from_numpy(mine).to(dtype).requires_grad_()

    def use(self, name, use):
        """A tied parameter, so that the gradient of this use can be seen by itself."""
        view = self.parameters[name].view_as(self.parameters[name])
        view.register_hook(lambda d: self.uses.setdefault((name, use), []).append(d.clone()))
        return view

    def norm(self, x, name):
        eps = 1e-3 if self.world.wrong("epsilon") else self.config["norm_eps"]
        weight, bias = (self.parameters[name + end] for end in (".weight", ".bias"))
        return layer_norm(x, weight, bias, eps)

    def embedding(self, tokens):
        world = self.world
        x = parts.token_embedding(tokens, self.use("token_embedding.weight", "as_input"),
                                  self.first_word, world)
        first = 0
        if world.sp and not world.wrong("positions"):
            first = world.tp[0] * x.shape[1]
        return x + self.parameters["position_embedding.weight"][first:first + x.shape[1]]

    def layer(self, x, number, masks, see):
        """see(name, x) shows a tensor to the recorder and gives it back."""
        world, p, config = self.world, self.parameters, self.config
        prefix = "layers.%d." % number
        head_width = config["d_model"] // config["heads"]

        def here(name, y):
            return see(prefix + name, y)

        def of(name):
            weight = p[prefix + name + ".weight"]
            if name == "attention.output" and world.wrong("transposed"):
                weight = weight.T
            return weight, p[prefix + name + ".bias"]

        h = enter(here("norm1", self.norm(x, prefix + "norm1")), world)
        q, k, v = (here(name, column_linear(h, *of("attention." + name)))
                   for name in ("query", "key", "value"))
        heads = parts.attention(q, k, v, head_width, masks(prefix + "heads"), config["dropout"],
                                world, here)
        a = row_linear(here("heads", heads), *of("attention.output"), world)
        x = here("after_attention", x + dropout(
            here("attention", a), masks(prefix + "after_attention"), config["dropout"]))

        h = enter(here("norm2", self.norm(x, prefix + "norm2")), world)
        u = here("up", column_linear(h, *of("mlp.up")))
        kind = "none" if world.wrong("gelu") else "tanh"
        m = row_linear(here("activation", functional.gelu(u, approximate=kind)), *of("mlp.down"),
                       world)
        return here("layer", x + dropout(here("mlp", m), masks(prefix + "layer"),
                                         config["dropout"]))

    def losses(self, tokens, targets, masks, see):
        """[B, S]: of each token, 0 without a target."""
        world = self.world
        x = see("embedded", dropout(see("embedding", self.embedding(tokens)), masks("embedded"),
                                    self.config["dropout"]))
        for number in range(self.config["layers"]):
            x = self.layer(x, number, masks, see)
        x = see("final_norm", self.norm(x, "final_norm"))
        z = see("logits", parts.logits_of(x, self.use("token_embedding.weight", "as_head"), world))
        if not world.wrong("padded-vocabulary"):
            padded = torch.arange(self.words) >= self.my_words[1] - self.my_words[0]
            z = z.masked_fill(padded, -torch.inf)
        if world.wrong("target-shift"):
            targets = torch.cat([targets[:, 1:], torch.full_like(targets[:, :1], -100)], dim=1)
        return see("token_loss", parts.VocabularyLoss.apply(z, targets, self.first_word, world))
