"""What a step computes, kept for `lockstep check`: this rank's part of every tensor, and which part
it is."""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import lockstep  # pylint: disable=wrong-import-position


class Recorder:
    def __init__(self, golden, place, world, sequences, words):
        """sequences, words: the runs (first, end) that this rank has of the batch, the
        vocabulary."""
        self.golden, self.world, self.sequences, self.words = golden, world, sequences, words
        self.out = lockstep.Candidate(place, golden, world.rank, world.ranks)
        self.parts, self.step = {}, None

    def cut_of(self, name):
        """A rank's runs: like the library's own, but for the vocabulary, whose padding is this
        program's choice, and the sequences."""
        about = self.golden.about(name, self.step)
        cut = self.golden.cut(about["name"], tp=self.world.tp,
                              sp=self.world.tp if self.world.sp else None)
        for place, dim in enumerate(about["dims"]):
            if dim == "V[tp]":
                cut[place] = self.words
            elif dim == "B":
                cut[place] = self.sequences
        return cut

    def keep(self, name, values):
        """Micro-batches come one after the other."""
        self.parts.setdefault(name, []).append(values.detach().clone())

    def forward(self, name, x):
        """Keeps x and, when it comes, the gradient of the loss with respect to it."""
        self.keep(name, x)
        if "step%d/d.%s" % (self.step, name) in self.golden.tensors:
            x.register_hook(lambda dx: self.keep("d." + name, dx))
        return x

    def end_step(self):
        for name, parts in self.parts.items():
            cut = self.cut_of(name)
            values = torch.cat(parts) if len(parts) > 1 else parts[0]
            # The rows and columns of padded words are nobody's.
            for dim, (first, end) in enumerate(cut):
                values = values.narrow(dim, 0, end - first)
            self.out.add(name, values.numpy(), self.step, cut)
        self.parts = {}

    def write(self):
        self.out.write()
