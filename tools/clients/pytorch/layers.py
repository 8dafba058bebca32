"""The parts of a tensor-parallel GPT: linears, embedding and cross-entropy over a cut vocabulary,
norm, attention. A matrix is [in, out]; what a rank has of it is cut by columns or by rows."""
import math

import torch
import torch.distributed as dist
from torch.nn import functional

from communicate import enter, leave


def column_linear(x, weight, bias):
    """x [B, S, in] whole, weight [in, out / T], bias [out / T] -> [B, S, out / T]. x has come in
    through `enter`, once for all linears that read it."""
    return x @ weight + bias


def row_linear(x, weight, bias, world):
    """x [B, S, in / T], weight [in / T, out], bias [out], whole -> [B, S, out], or this rank's
    tokens of it. The bias is added once, after the sum."""
    part = x @ weight
    if world.wrong("bias-per-rank"):
        return leave(part + bias, world)
    total = leave(part, world)
    if world.wrong("averaged"):
        total = total / world.tp[1]
    if world.wrong("reduced-twice"):
        total = total * world.tp[1]
    return total + bias


def token_embedding(tokens, weight, first, world):
    """weight: rows first, first + 1, ... of the vocabulary. A rank gives zeros for other ranks'
    words, and the sum has every word once."""
    here = tokens - first
    mine = (here >= 0) & (here < weight.shape[0])
    rows = functional.embedding(here.clamp(0, weight.shape[0] - 1), weight)
    return leave(rows * mine[..., None], world)


def layer_norm(x, weight, bias, eps):
    return functional.layer_norm(x, weight.shape, weight, bias, eps)


def dropout(x, mask, p):
    """mask: 1 where kept; None: no dropout."""
    return x if mask is None else x * (mask / (1 - p))


def attention(q, k, v, head_width, mask, p, world, see):
    """q, k, v [B, S, heads of this rank x head width]. see(name, x) records the probabilities."""
    def by_head(x):
        return x.unflatten(2, (-1, head_width)).transpose(1, 2)

    tokens = q.shape[1]
    scale = head_width if world.wrong("score-scale") else math.sqrt(head_width)
    scores = by_head(q) @ by_head(k).transpose(2, 3) / scale
    ahead = 1 if world.wrong("causal-mask") else 0
    seen = torch.ones(tokens, tokens, dtype=torch.bool).tril(ahead)
    weights = torch.softmax(scores.masked_fill(~seen, -math.inf), dim=-1)
    see("probabilities", weights)
    weights = weights.masked_fill(~seen, 0)  # what a query does not see sends no gradient back
    return (dropout(weights, mask, p) @ by_head(v)).transpose(1, 2).flatten(2)


class VocabularyLoss(torch.autograd.Function):
    """Cross-entropy per token of logits that are cut by words: three small sums instead of one
    large gather. z [B, S, V / T]; targets [B, S], negative: none, and no loss."""

    @staticmethod
    def forward(ctx, z, targets, first, world):
        z = z - world.tp_sum(z.amax(dim=-1), dist.ReduceOp.MAX)[..., None]
        here = targets - first
        mine = (here >= 0) & (here < z.shape[2])
        here = here.clamp(0, z.shape[2] - 1)[..., None]
        target = world.tp_sum(z.gather(2, here)[..., 0].masked_fill(~mine, 0))
        exponentials = z.exp()
        total = world.tp_sum(exponentials.sum(dim=-1))
        counts = targets >= 0
        ctx.save_for_backward(exponentials / total[..., None], here, mine, counts)
        return torch.where(counts, total.log() - target, torch.zeros_like(total))

    @staticmethod
    def backward(ctx, dy):
        softmax, here, mine, counts = ctx.saved_tensors
        dz = softmax.clone()
        dz.scatter_add_(2, here, -mine[..., None].to(dz.dtype))
        return dz * (dy * counts)[..., None], None, None, None


def logits_of(x, embedding, world):
    """The tied head: x [B, S, D] meets this rank's words, [V / T, D]."""
    return enter(x, world) @ embedding.T
