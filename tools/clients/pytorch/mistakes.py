"""The mistakes that this client can make on purpose: name -> (what is done wrong, what it needs,
the causes, as `lockstep check --json` names them, that it must find, the first of them first: these
and no others; with * also wrong tensors of unknown cause, which show that something was loaded
otherwise)."""

MISTAKES = {
    "bias-per-rank": ("every rank adds the bias of a row-parallel linear before the sum", "tp",
                      "bias-per-rank"),
    "partial-sum": ("the sum at the end of a tensor-parallel block is left out", "tp",
                    "not-reduced"),
    "averaged": ("the sum of a row-parallel linear is divided by the number of ranks", "tp",
                 "averaged"),
    "reduced-twice": ("the sum of a row-parallel linear is taken twice", "tp", "reduced-twice"),
    "input-gradient": ("the gradient of a column-parallel linear's input is not summed", "tp",
                       "not-reduced"),
    "norm-gradient": ("gradients of norms, computed from a rank's own tokens, are not summed", "sp",
                      "replicated-gradient"),
    "positions": ("every shard of the sequence counts its positions from 0", "sp", "positions"),
    "sequence-order": ("tokens are gathered with the last rank's in front", "sp",
                       "shard-order *"),
    "shard-order": ("rank r loads the rows of rank T - 1 - r of the attention's output matrix",
                    "tp", "shard-order *"),
    "query-key": ("query and key trade places", "", "interleaved *"),
    "transposed": ("the attention's output matrix is used as [out, in]", "tp 1", "transposed"),
    "score-scale": ("scores are divided by the head width, not by its root", "", "score-scale"),
    "causal-mask": ("a token sees the one that follows it", "", "causal-mask"),
    "gelu": ("GELU with erf instead of tanh", "", "gelu-variant"),
    "epsilon": ("the norms' epsilon is 1e-3", "", "norm-epsilon"),
    "dropout-mask": ("another dropout mask in the residual stream than the golden one", "dropout",
                     "dropout-mask"),
    "padded-vocabulary": ("the padded rows of the vocabulary take part in the softmax",
                          "padding", "padded-vocabulary"),
    "target-shift": ("targets, already shifted, are shifted once more", "", "target-shift"),
    "mean-of-means": ("every data-parallel rank takes the mean of its own loss, then the mean of "
                      "these is taken", "dp", "mean-of-means"),
    "averaged-gradient": ("gradients are averaged over data-parallel ranks, though the loss is "
                          "already divided by the whole batch's targets", "dp", "averaged"),
    "unsynchronised": ("gradients are not summed over data-parallel ranks", "dp", "not-reduced"),
    "tied-embedding": ("of the tied embedding, only the gradient of the input's use is summed over "
                       "data-parallel ranks", "dp", "not-reduced tied-one-side"),
    "clip-per-rank": ("every rank clips by the norm of its own shards", "tp",
                      "clipping-per-rank"),
    "replicas-counted": ("the norm counts replicated parameters once per rank", "tp",
                         "replicas-counted"),
    "update-twice": ("the optimizer's step is taken twice", "", "update-twice"),
}
