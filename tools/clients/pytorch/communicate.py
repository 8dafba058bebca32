"""Processes, their groups, and the four pairs of functions in which a forward pass meets the
backward pass of the other side: f and g of tensor parallelism (arXiv 1909.08053, section 3),
gather and scatter of sequence parallelism (arXiv 2205.05198, section 4.2.2).

Rank = dp rank x T + tp rank. Everything here is a sum or a join over the ranks of one group."""
import datetime
import os

import torch
import torch.distributed as dist


class World:
    """This process, its tensor-parallel group and its data-parallel group."""

    def __init__(self, rank, tp, dp, sp, meeting, mistakes):
        self.rank, self.ranks, self.sp, self.mistakes = rank, tp * dp, sp, mistakes
        self.tp, self.dp = (rank % tp, tp), (rank // tp, dp)
        # Processes of one machine: the loopback device is enough, and always there.
        if os.path.exists("/sys/class/net/lo"):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", init_method="file://" + meeting, rank=rank,
                                world_size=tp * dp, timeout=datetime.timedelta(seconds=60))
        # Every process takes part in making every group.
        tp_groups = [dist.new_group([d * tp + t for t in range(tp)]) for d in range(dp)]
        dp_groups = [dist.new_group([d * tp + t for d in range(dp)]) for t in range(tp)]
        self.tp_group, self.dp_group = tp_groups[self.dp[0]], dp_groups[self.tp[0]]

    def wrong(self, mistake):
        """Whether this mistake is to be made."""
        return mistake in self.mistakes

    def tp_sum(self, x, op=dist.ReduceOp.SUM):
        y = x.detach().clone(memory_format=torch.contiguous_format)
        if self.tp[1] > 1:
            dist.all_reduce(y, op=op, group=self.tp_group)
        return y

    def dp_sum(self, x):
        y = x.detach().clone(memory_format=torch.contiguous_format)
        if self.dp[1] > 1:
            dist.all_reduce(y, group=self.dp_group)
        return y

    def my_tokens(self, x):
        """[B, S, D] -> [B, S / T, D], this rank's run of the sequence."""
        return x.chunk(self.tp[1], dim=1)[self.tp[0]].contiguous()

    def join_tokens(self, x, backwards=False):
        """[B, S / T, D] -> [B, S, D]"""
        parts = [torch.empty_like(x) for _ in range(self.tp[1])]
        dist.all_gather(parts, x.contiguous(), group=self.tp_group)
        return torch.cat(parts[::-1] if backwards else parts, dim=1)

    def scatter_sum(self, x):
        """The sum over ranks, of which each keeps its own tokens. gloo has no reduce-scatter."""
        return self.my_tokens(self.tp_sum(x))


class F(torch.autograd.Function):
    """Into a tensor-parallel block: identity forward, sum of the gradients backward."""

    @staticmethod
    def forward(ctx, x, world):
        ctx.world = world
        return x.view_as(x)

    @staticmethod
    def backward(ctx, dy):
        return dy if ctx.world.wrong("input-gradient") else ctx.world.tp_sum(dy), None


class G(torch.autograd.Function):
    """Out of a tensor-parallel block: sum forward, identity backward."""

    @staticmethod
    def forward(ctx, x, world):
        return x.clone() if world.wrong("partial-sum") else world.tp_sum(x)

    @staticmethod
    def backward(ctx, dy):
        return dy, None


class GatherTokens(torch.autograd.Function):
    """In place of f when tokens are shared out: all-gather forward, reduce-scatter backward."""

    @staticmethod
    def forward(ctx, x, world):
        ctx.world = world
        return world.join_tokens(x, world.wrong("sequence-order"))

    @staticmethod
    def backward(ctx, dy):
        if ctx.world.wrong("input-gradient"):
            return ctx.world.my_tokens(dy), None
        return ctx.world.scatter_sum(dy), None


class ScatterTokens(torch.autograd.Function):
    """In place of g: reduce-scatter forward, all-gather backward."""

    @staticmethod
    def forward(ctx, x, world):
        ctx.world = world
        return world.my_tokens(x) if world.wrong("partial-sum") else world.scatter_sum(x)

    @staticmethod
    def backward(ctx, dy):
        return ctx.world.join_tokens(dy), None


def enter(x, world):
    """To every rank of the tensor-parallel group: [B, S, D] whole."""
    return (GatherTokens if world.sp else F).apply(x, world)


def leave(x, world):
    """The sum over the tensor-parallel group; with sequence parallelism each rank's tokens."""
    return (ScatterTokens if world.sp else G).apply(x, world)
