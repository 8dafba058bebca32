#!/usr/bin/env python3
"""Trains a GPT on a golden directory's weights and batches, with PyTorch on several processes, and
writes what `lockstep check` judges.

    train_gpt.py GOLDEN CANDIDATE [--tp T] [--dp D] [--sp] [--micro-batches M] [--dtype f32|f64]
                 [--mistakes NAME,NAME...]
"""
import argparse
import math
import multiprocessing
import os
import sys
import tempfile
import traceback

import torch

from communicate import World
from gpt import GPT, cut_dimension
from mistakes import MISTAKES
from recording import Recorder, lockstep


class Trainer:
    def __init__(self, golden, world, options):
        self.golden, self.world, self.run = golden, world, golden.optimizer
        self.dtype = torch.float64 if options.dtype == "f64" else torch.float32
        self.micro_batches, self.quiet = options.micro_batches, options.quiet
        self.model = GPT(golden, world, self.dtype)
        self.sequences = lockstep.share(golden.manifest["batch"], world.dp[1], world.dp[0])
        self.recorder = Recorder(golden, options.candidate, world, self.sequences,
                                 self.model.my_words)
        self.moments = {name: self.first_moments(name) for name in self.model.parameters}

    def first_moments(self, name):
        weights = self.golden.weights
        return [self.model.load(name, weights[kind + name], self.dtype).detach()
                if kind + name in weights else torch.zeros_like(self.model.parameters[name])
                for kind in ("optimizer.m.", "optimizer.v.")]

    def mask(self, name, step, sequences):
        """This rank's part of a dropout mask; None: the model has no dropout."""
        whole = self.golden.mask(name, step)
        if whole is None:
            return None
        cut = self.golden.cut("layers.0.probabilities" if name.endswith("heads") else name,
                              tp=self.world.tp, sp=self.world.tp if self.world.sp else None)
        cut[0] = sequences
        mask = torch.from_numpy(whole[lockstep.slices(cut)].copy()).to(self.dtype)
        other = self.world.wrong("dropout-mask") and not name.endswith("heads")
        return mask.roll(1, -1) if other else mask

    # ---- forward and backward ----

    def gradients(self, step):
        """The loss; the gradients, complete, are left with the parameters."""
        world, model, batch = self.world, self.model, self.golden.batch(step)
        first, end = self.sequences
        tokens, targets = (torch.from_numpy(ids[first:end].astype("int64"))
                           for ids in (batch.tokens, batch.targets))
        mine = (targets >= 0).sum()
        valid = int(mine if world.wrong("mean-of-means") else world.dp_sum(mine))
        parts = world.dp[1] if world.wrong("mean-of-means") else 1
        loss = torch.zeros((), dtype=self.dtype)
        for number in range(self.micro_batches):
            run = slice(*lockstep.share(end - first, self.micro_batches, number))
            sequences = (first + run.start, first + run.stop)
            losses = model.losses(tokens[run], targets[run],
                                  lambda name: self.mask(name, step, sequences),
                                  self.recorder.forward)
            part = losses.sum() / (valid * parts)
            part.backward()
            loss += part.detach()
        self.recorder.keep("loss", world.dp_sum(loss))
        self.reduce_gradients()
        return float(self.recorder.parts["loss"][0])

    def over_replicas(self, gradient):
        """The sum over data-parallel ranks: each divided by the whole batch's targets already."""
        if self.world.wrong("unsynchronised"):
            return gradient
        total = self.world.dp_sum(gradient)
        return total / self.world.dp[1] if self.world.wrong("averaged-gradient") else total

    def reduce_gradients(self):
        world, tied = self.world, "token_embedding.weight"
        for name, parameter in self.model.parameters.items():
            if name == tied:
                continue
            # With sequence parallelism, what is added or multiplied per token on every rank
            # (norms, biases behind a reduce-scatter, positions) has seen this rank's tokens alone.
            partial = world.sp and cut_dimension(name) is None and \
                not (world.wrong("norm-gradient") and "norm" in name) and \
                not (world.wrong("bias-per-rank") and name.endswith(".bias") and "norm" not in name)
            gradient = world.tp_sum(parameter.grad) if partial else parameter.grad
            parameter.grad = self.over_replicas(gradient)
        uses = []
        for use in ("as_head", "as_input"):
            gradient = sum(self.model.uses.pop((tied, use)))
            missing = use == "as_head" and world.wrong("tied-embedding")
            uses.append(gradient if missing else self.over_replicas(gradient))
            self.recorder.keep("grad.%s.%s" % (tied, use), uses[-1])
        self.model.parameters[tied].grad = uses[1] + uses[0]

    # ---- update ----

    def clip(self):
        """Every parameter's squares once, whoever has them."""
        world, own, common = self.world, 0.0, 0.0
        for name, parameter in self.model.parameters.items():
            self.recorder.keep("grad." + name, parameter.grad)
            squares = float(parameter.grad.double().square().sum())
            if cut_dimension(name) is None and not world.wrong("replicas-counted"):
                common += squares
            else:
                own += squares
        own = torch.tensor(own, dtype=torch.float64)
        norm = math.sqrt(float(own if world.wrong("clip-per-rank") else world.tp_sum(own)) + common)
        self.recorder.keep("norm", torch.tensor(norm, dtype=torch.float64))
        most = self.run["clip"]
        for name, parameter in self.model.parameters.items():
            if most and norm > most:
                parameter.grad *= most / norm
            self.recorder.keep("clipped." + name, parameter.grad)

    @torch.no_grad()
    def update(self, step):
        """AdamW with decoupled decay of matrices; or SGD with momentum."""
        run, lr, t = self.run, self.golden.learning_rate(step), step + 1
        for name, w in self.model.parameters.items():
            g, (m, v) = w.grad, self.moments[name]
            decay = run["weight_decay"] if w.dim() == 2 else 0
            if run["name"] == "adamw":
                m.mul_(run["beta1"]).add_(g, alpha=1 - run["beta1"])
                v.mul_(run["beta2"]).addcmul_(g, g, value=1 - run["beta2"])
                w -= lr * decay * w
                m_hat, v_hat = m / (1 - run["beta1"] ** t), v / (1 - run["beta2"] ** t)
                w -= lr * m_hat / (v_hat.sqrt() + run["eps"])
            else:
                m.mul_(run["beta1"]).add_(g + decay * w)
                w -= lr * m

    def step(self, step):
        self.recorder.step = step
        loss = self.gradients(step)
        self.clip()
        self.update(step)
        if self.world.wrong("update-twice"):
            self.update(step)
        for name, parameter in self.model.parameters.items():
            self.recorder.keep("param." + name, parameter)
            parameter.grad = None
        self.recorder.end_step()
        if self.world.rank == 0 and not self.quiet:
            print("step %d: loss %.6f" % (step, loss), flush=True)


def process(rank, options, meeting):
    """One of the processes; ends with status 1 when something fails."""
    try:
        torch.set_num_threads(1)
        golden = lockstep.Golden(options.golden, check=False)  # it was, before
        world = World(rank, options.tp, options.dp, options.sp, meeting, options.mistakes)
        trainer = Trainer(golden, world, options)
        for step in golden.steps:
            trainer.step(step)
        trainer.recorder.write()
    except lockstep.Error as error:
        print(error, file=sys.stderr)
        os._exit(2)
    except Exception:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the others wait for this one no longer than they must


def fit(options, parser):
    """What cannot be done is said before a process starts."""
    golden = lockstep.Golden(options.golden)
    model, batch = golden.model, golden.manifest["batch"]
    wanted = {"norm": "layernorm", "norm_place": "pre", "activation": "gelu_tanh", "bias": True,
              "position": "learned", "objective": "next_token", "tied": True, "causal": True,
              "label_smoothing": 0}
    for key, value in wanted.items():
        if model[key] != value:
            parser.error("%s: its model has %s %s; this client has %s alone"
                         % (options.golden, key, model[key], value))
    for name, extent in (("heads", model["heads"]), ("d_ff", model["d_ff"]),
                         ("seq", model["seq"] if options.sp else options.tp)):
        if extent % options.tp:
            parser.error("--tp %d does not divide %s %d" % (options.tp, name, extent))
    if batch < options.dp * options.micro_batches:
        parser.error("a batch of %d for --dp %d x --micro-batches %d" % (
            batch, options.dp, options.micro_batches))


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message):
        self.exit(2, "%s: %s\n" % (self.prog, message))


def main(words=None):
    """Exit status: 0, 1 when a process failed, 2 for bad input."""
    parser = Parser(prog="train_gpt.py", description=__doc__.splitlines()[0])
    parser.add_argument("golden")
    parser.add_argument("candidate")
    parser.add_argument("--tp", type=int, default=2, help="tensor-parallel processes")
    parser.add_argument("--dp", type=int, default=1, help="data-parallel processes")
    parser.add_argument("--sp", action="store_true", help="sequence parallelism too")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    parser.add_argument("--mistakes", default="", help="of these: " + ", ".join(MISTAKES))
    parser.add_argument("--quiet", action="store_true", help="without the losses")
    options = parser.parse_args(words)
    options.mistakes = [name for name in options.mistakes.split(",") if name]
    for name in options.mistakes:
        if name not in MISTAKES:
            parser.error("--mistakes %s: must be of %s" % (name, ", ".join(MISTAKES)))
    if min(options.tp, options.dp, options.micro_batches) < 1:
        parser.error("--tp, --dp and --micro-batches are 1 or more")
    options.sp = options.sp and options.tp > 1
    try:
        fit(options, parser)
    except lockstep.Error as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as folder:
        # On Linux the processes share what was loaded; elsewhere each begins anew.
        kind = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        ranks = [kind.Process(target=process, args=(rank, options, os.path.join(folder, "meeting")))
                 for rank in range(options.tp * options.dp)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
    return max(abs(rank.exitcode) for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
