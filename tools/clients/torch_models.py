"""GPT-2, Llama, BERT and a Megatron-style transformer as small PyTorch modules.

They are named so that `state_dict` has the names that Hugging Face's and Megatron-LM's checkpoints
have, and written from the papers and from what those layouts mean, not from that code: which way a
matrix lies is decided by torch's own Linear, the rest by how the tensors are used here. Everything
is computed in binary64, dropout left out.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


class Shape:
    """The sizes of a model; what a kind does not have stays 0."""

    def __init__(self, **sizes):
        self.layers, self.width, self.heads, self.kv_heads = 2, 24, 6, 6
        self.inner, self.positions, self.vocab, self.types = 40, 9, 37, 0
        self.activation, self.tied, self.eps, self.theta = "gelu_new", True, 1e-5, 10000.0
        self.__dict__.update(sizes)
        self.head = self.width // self.heads


def activate(name, x):
    return F.gelu(x, approximate="tanh" if name == "gelu_new" else "none")


def by_heads(x, heads):
    """[B, S, heads * width] -> [B, heads, S, width]"""
    return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)


def attend(q, k, v, seen):
    """q, k, v [B, heads, S, width]; seen: True where a query may look. Query heads share key heads
    in runs."""
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    weights = torch.softmax(scores.masked_fill(~seen, -math.inf), -1)
    return (weights @ v).transpose(1, 2).flatten(2)


def causal(tokens):
    n = tokens.shape[1]
    return torch.ones(n, n, dtype=torch.bool).tril()


class Conv1D(nn.Module):
    """GPT-2's linear: weight [in, out]."""

    def __init__(self, n_in, n_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_in, n_out))
        self.bias = nn.Parameter(torch.empty(n_out))

    def forward(self, x):
        return x @ self.weight + self.bias


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Parts(nn.Module):
    """Named parts, and whatever forward function their owner gives them."""

    def __init__(self, /, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


# ---- GPT-2 ----

class GPT2(nn.Module):
    def __init__(self, shape):
        super().__init__()
        d, self.shape = shape.width, shape
        self.transformer = Parts(
            wte=nn.Embedding(shape.vocab, d), wpe=nn.Embedding(shape.positions, d),
            h=nn.ModuleList(Parts(
                ln_1=nn.LayerNorm(d, shape.eps),
                attn=Parts(c_attn=Conv1D(d, 3 * d), c_proj=Conv1D(d, d)),
                ln_2=nn.LayerNorm(d, shape.eps),
                mlp=Parts(c_fc=Conv1D(d, shape.inner), c_proj=Conv1D(shape.inner, d)))
                for _ in range(shape.layers)),
            ln_f=nn.LayerNorm(d, shape.eps))
        self.lm_head = nn.Linear(d, shape.vocab, bias=False)
        if shape.tied:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        t, shape = self.transformer, self.shape
        x = t.wte(tokens) + t.wpe.weight[:tokens.shape[1]]
        for layer in t.h:
            q, k, v = layer.attn.c_attn(layer.ln_1(x)).split(shape.width, 2)
            x = x + layer.attn.c_proj(attend(*(by_heads(y, shape.heads) for y in (q, k, v)),
                                             causal(tokens)))
            x = x + layer.mlp.c_proj(activate(shape.activation, layer.mlp.c_fc(layer.ln_2(x))))
        return self.lm_head(t.ln_f(x))


# ---- Llama ----

def rotate(x, theta, neighbours=False):
    """Turns pairs of features by position x theta^(-2 i / width): feature i with i + width / 2, or
    2 i with 2 i + 1 as Meta's own code does."""
    n, width = x.shape[2:]
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(n, dtype=torch.float64)[:, None] * frequency
    turn = torch.polar(torch.ones_like(angle), angle)
    if neighbours:
        pairs = torch.view_as_complex(x.contiguous().view(*x.shape[:3], width // 2, 2))
        return torch.view_as_real(pairs * turn).flatten(3)
    pairs = torch.complex(x[..., :width // 2], x[..., width // 2:]) * turn
    return torch.cat((pairs.real, pairs.imag), -1)


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        d, kv, self.shape = shape.width, shape.kv_heads * shape.head, shape
        self.model = Parts(
            embed_tokens=nn.Embedding(shape.vocab, d),
            layers=nn.ModuleList(Parts(
                input_layernorm=RMSNorm(d, shape.eps),
                self_attn=Parts(q_proj=linear(d, d), k_proj=linear(d, kv), v_proj=linear(d, kv),
                                o_proj=linear(d, d)),
                post_attention_layernorm=RMSNorm(d, shape.eps),
                mlp=Parts(gate_proj=linear(d, shape.inner), up_proj=linear(d, shape.inner),
                          down_proj=linear(shape.inner, d)))
                for _ in range(shape.layers)),
            norm=RMSNorm(d, shape.eps))
        self.lm_head = linear(d, shape.vocab)
        if shape.tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens):
        shape = self.shape
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            a, y = layer.self_attn, layer.input_layernorm(x)
            q = rotate(by_heads(a.q_proj(y), shape.heads), shape.theta)
            k = rotate(by_heads(a.k_proj(y), shape.kv_heads), shape.theta)
            v = by_heads(a.v_proj(y), shape.kv_heads)
            x = x + a.o_proj(attend(q, k, v, causal(tokens)))
            m, y = layer.mlp, layer.post_attention_layernorm(x)
            x = x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))
        return self.lm_head(self.model.norm(x))


class MetaLlama(nn.Module):
    """The same model as Meta's own files have it."""

    def __init__(self, shape):
        super().__init__()
        d, kv, self.shape = shape.width, shape.kv_heads * shape.head, shape
        self.tok_embeddings = nn.Embedding(shape.vocab, d)
        self.layers = nn.ModuleList(Parts(
            attention=Parts(wq=linear(d, d), wk=linear(d, kv), wv=linear(d, kv), wo=linear(d, d)),
            feed_forward=Parts(w1=linear(d, shape.inner), w2=linear(shape.inner, d),
                               w3=linear(d, shape.inner)),
            attention_norm=RMSNorm(d, shape.eps), ffn_norm=RMSNorm(d, shape.eps))
            for _ in range(shape.layers))
        self.norm = RMSNorm(d, shape.eps)
        self.output = linear(d, shape.vocab)

    def forward(self, tokens):
        shape, x = self.shape, self.tok_embeddings(tokens)
        for layer in self.layers:
            a, y = layer.attention, layer.attention_norm(x)
            q = rotate(by_heads(a.wq(y), shape.heads), shape.theta, neighbours=True)
            k = rotate(by_heads(a.wk(y), shape.kv_heads), shape.theta, neighbours=True)
            x = x + a.wo(attend(q, k, by_heads(a.wv(y), shape.kv_heads), causal(tokens)))
            m, y = layer.feed_forward, layer.ffn_norm(x)
            x = x + m.w2(F.silu(m.w1(y)) * m.w3(y))
        return self.output(self.norm(x))


# ---- BERT ----

class BERT(nn.Module):
    """BertForPreTraining, or without `pairs` BertForMaskedLM."""

    def __init__(self, shape, pairs):
        super().__init__()
        d, self.shape, self.pairs = shape.width, shape, pairs

        def norm():
            return nn.LayerNorm(d, shape.eps)

        self.bert = Parts(
            embeddings=Parts(word_embeddings=nn.Embedding(shape.vocab, d),
                             position_embeddings=nn.Embedding(shape.positions, d),
                             token_type_embeddings=nn.Embedding(shape.types, d),
                             LayerNorm=norm()),
            encoder=Parts(layer=nn.ModuleList(Parts(
                attention=Parts(
                    self=Parts(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)),
                    output=Parts(dense=nn.Linear(d, d), LayerNorm=norm())),
                intermediate=Parts(dense=nn.Linear(d, shape.inner)),
                output=Parts(dense=nn.Linear(shape.inner, d), LayerNorm=norm()))
                for _ in range(shape.layers))))
        self.cls = Parts(predictions=Parts(transform=Parts(dense=nn.Linear(d, d),
                                                           LayerNorm=norm())))
        self.cls.predictions.bias = nn.Parameter(torch.empty(shape.vocab))
        if pairs:
            self.bert.add_module("pooler", Parts(dense=nn.Linear(d, d)))
            self.cls.add_module("seq_relationship", nn.Linear(d, 2))

    def forward(self, tokens, segments, lengths):
        """Logits of tokens and of pairs; the decoder is the word embedding."""
        e = self.bert.embeddings
        n = tokens.shape[1]
        x = e.LayerNorm(e.word_embeddings(tokens) + e.position_embeddings.weight[:n]
                        + e.token_type_embeddings(segments))
        seen = (torch.arange(n) < lengths[:, None])[:, None, None, :]
        for layer in self.bert.encoder.layer:
            a = getattr(layer.attention, "self")
            heads = (by_heads(part(x), self.shape.heads) for part in (a.query, a.key, a.value))
            out = layer.attention.output
            x = out.LayerNorm(x + out.dense(attend(*heads, seen)))
            y = layer.output.dense(activate("gelu", layer.intermediate.dense(x)))
            x = layer.output.LayerNorm(x + y)
        t = self.cls.predictions.transform
        y = t.LayerNorm(activate("gelu", t.dense(x)))
        logits = y @ e.word_embeddings.weight.T + self.cls.predictions.bias
        if not self.pairs:
            return logits, None
        return logits, self.cls.seq_relationship(torch.tanh(self.bert.pooler.dense(x[:, 0])))


# ---- Megatron ----

class Megatron(nn.Module):
    """Megatron-LM's names and fused matrices, around GPT-2's choices or Llama's; the vocabulary has
    `padding` more rows, which are left out of the logits here."""

    def __init__(self, shape, llama, padding):
        super().__init__()
        d, self.shape, self.llama = shape.width, shape, llama
        bias = not llama

        def norm():
            return RMSNorm(d, shape.eps) if llama else nn.LayerNorm(d, shape.eps)

        fused = (shape.heads + 2 * shape.kv_heads) * shape.head
        embedding = Parts(word_embeddings=nn.Embedding(shape.vocab + padding, d))
        if not llama:
            embedding.add_module("position_embeddings", nn.Embedding(shape.positions, d))
        self.language_model = Parts(
            embedding=embedding,
            encoder=Parts(
                layers=nn.ModuleList(Parts(
                    input_layernorm=norm(),
                    self_attention=Parts(query_key_value=nn.Linear(d, fused, bias=bias),
                                         dense=nn.Linear(d, d, bias=bias)),
                    post_attention_layernorm=norm(),
                    mlp=Parts(dense_h_to_4h=nn.Linear(d, (1 + llama) * shape.inner, bias=bias),
                              dense_4h_to_h=nn.Linear(shape.inner, d, bias=bias)))
                    for _ in range(shape.layers)),
                final_layernorm=norm()))
        if not shape.tied:
            self.language_model.add_module("output_layer", linear(d, shape.vocab + padding))

    def attention(self, part, x, seen):
        """The rows of query_key_value: of each group its query heads, its key, its value."""
        shape = self.shape
        shared = shape.heads // shape.kv_heads
        y = part.query_key_value(x).view(*x.shape[:2], shape.kv_heads, shared + 2, shape.head)
        q, k, v = y.split((shared, 1, 1), 3)
        q, k, v = (t.flatten(2, 3).transpose(1, 2) for t in (q, k, v))
        if self.llama:
            q, k = rotate(q, shape.theta), rotate(k, shape.theta)
        return part.dense(attend(q, k, v, seen))

    def mlp(self, part, x):
        y = part.dense_h_to_4h(x)
        if self.llama:
            gate, up = y.chunk(2, -1)
            return part.dense_4h_to_h(F.silu(gate) * up)
        return part.dense_4h_to_h(activate(self.shape.activation, y))

    def forward(self, tokens):
        model = self.language_model
        words = model.embedding.word_embeddings
        x = words(tokens)
        if not self.llama:
            x = x + model.embedding.position_embeddings.weight[:tokens.shape[1]]
        for layer in model.encoder.layers:
            x = x + self.attention(layer.self_attention, layer.input_layernorm(x), causal(tokens))
            x = x + self.mlp(layer.mlp, layer.post_attention_layernorm(x))
        head = words if self.shape.tied else model.output_layer
        return model.encoder.final_layernorm(x) @ head.weight[:self.shape.vocab].T
