/* check_remedy.c - what to look at in one's own code when a mistake is suspected. */
#include "check/check.h"

const char *ls_cause_remedy(ls_cause cause)
{
    static const char *const remedies[LS_CAUSES] = {
        [LS_CAUSE_BIAS_PER_RANK] = "add the bias of a row-parallel linear after the sum over the "
                                   "ranks, or on one rank alone",
        [LS_CAUSE_BIAS_MISSING] = "add the bias of this linear, once, after the sum over the ranks",
        [LS_CAUSE_NOT_REDUCED] = "sum over the ranks that each hold a part, and go on with the "
                                 "sum, not with the buffer that went in",
        [LS_CAUSE_REDUCED_TWICE] = "sum once: look for a second all-reduce, as of an input "
                                   "gradient that the layer before sums again",
        [LS_CAUSE_AVERAGED] = "sum, do not average; divide once, by the number of valid targets "
                              "of the whole batch",
        [LS_CAUSE_REPLICATED_GRADIENT] = "sum the gradient of a parameter that every rank holds "
                                         "over the ranks that used it on different tokens or heads",
        [LS_CAUSE_TIED_ONE_SIDE] = "sum both uses of the tied embedding, input and head, before "
                                   "the update, on every stage that holds it",
        [LS_CAUSE_SHARD_ORDER] = "join the shards in rank order along the dimension that was cut: "
                                 "a gather lays them one after another along the first",
        [LS_CAUSE_INTERLEAVED] = "compare the order of columns in the fused weight: whole "
                                 "q, k, v (gate, up) per rank, not rows in turn",
        [LS_CAUSE_TRANSPOSED] = "weights are [in, out] here: y = x W + b; others keep [out, in]",
        [LS_CAUSE_CAUSAL_MASK] = "query i sees the keys 0 to i, itself among them; with cut "
                                 "sequences count positions from the start of the whole one",
        [LS_CAUSE_TARGET_SHIFT] =
            "the batch's targets are shifted already: do not shift them again",
        [LS_CAUSE_PADDED_VOCABULARY] = "leave the padded rows of the vocabulary out of the "
                                       "softmax and its gradient",
        [LS_CAUSE_SCORE_SCALE] = "scale scores once, by 1 / sqrt(width of one head)",
        [LS_CAUSE_GELU_VARIANT] = "take the model's form of GELU, tanh or exact, forward and "
                                  "backward",
        [LS_CAUSE_NORM_EPSILON] = "take the model's epsilon, added to the variance inside the root",
        [LS_CAUSE_MEAN_OF_MEANS] = "add the losses and the counts of valid targets of all "
                                   "micro-batches and ranks, then divide once",
        [LS_CAUSE_CLIPPING_PER_RANK] = "add the squares over all ranks' shards before the root: "
                                       "one norm, one factor for everybody",
        [LS_CAUSE_REPLICAS_COUNTED] = "count a parameter that several ranks hold once in the norm",
        [LS_CAUSE_UPDATE_TWICE] = "apply the optimizer once per step to each parameter",
        [LS_CAUSE_DROPOUT_MASK] = "recompute with the mask of the forward pass; to be compared, "
                                  "take the masks of masks.safetensors",
        [LS_CAUSE_POSITIONS] = "count positions from the start of the sequence, not of the shard; "
                               "a rotary pair is i and i + half of a head's width",
        [LS_CAUSE_TARGET_COUNT] = "divide the loss once, by the number of targets of the whole "
                                  "batch that are not -100",
        [LS_CAUSE_NOT_CLIPPED] = "scale the gradients themselves, those that the optimizer reads",
        [LS_CAUSE_CLIPPING_EPSILON] = "divide by the norm alone (PyTorch's clip_grad_norm_ adds "
                                      "1e-6), or leave clipped and param out of what is compared",
        [LS_CAUSE_CLIPPED_BY_VALUE] = "clip by the norm of all gradients (clip_grad_norm_), not "
                                      "element by element (clip_grad_value_)",
        [LS_CAUSE_CLIPPED_ELSEWHERE] = "print the norm that scales the gradients: it is not that "
                                       "of the gradients themselves, or the largest allowed is "
                                       "another",
        [LS_CAUSE_NEVER_COMPUTED] = "look for a graph that is cut before this tensor (detach, "
                                    "no_grad, a parameter that the optimizer does not know), or a "
                                    "buffer that was never written",
        [LS_CAUSE_FACTOR] = "look for what multiplies: a loss scale that was not divided out, a "
                            "divisor or a sum over ranks too many or too few",
        [LS_CAUSE_OPTIMIZER_VARIANT] = "compare the step with that of lib/golden/GOLDEN.md, and "
                                       "which parameters decay: matrices alone, not biases and "
                                       "norms",
        [LS_CAUSE_VARIANCE_UNBIASED] = "divide the squares of a norm's variance by the width D: "
                                       "unbiased=False, correction=0",
        [LS_CAUSE_HALO] = "derive what a rank reads from its own outputs: first output x stride - "
                          "padding to the last one's last pixel, on each side by itself",
        [LS_CAUSE_HALO_CORNER] =
            "exchange with the diagonal neighbours too, or rows first and then "
            "columns of the widened block",
        [LS_CAUSE_HALO_MISSING] = "fetch the neighbours' pixels that the windows of one's own "
                                  "outputs reach; pad only at the image's edge",
        [LS_CAUSE_DY_HALO] =
            "backward, fetch the neighbours' dy of all outputs that read one's own "
            "pixels before dx is computed",
        [LS_CAUSE_LOCAL_STATISTICS] = "sum x, then (x - mean)^2, over all ranks' images and pixels "
                                      "before normalising, and their gradients likewise",
        [LS_CAUSE_AVERAGED_STATISTICS] = "add the ranks' sums and divide once by the number of all "
                                         "values; ranks may have unequal numbers",
        [LS_CAUSE_WEIGHT_GRADIENT] = "sum this gradient over all ranks that hold the parameter: "
                                     "data-parallel ones and those with other pixels",
        [LS_CAUSE_RUNNING] = "running = (1 - momentum) running + momentum x, once a step; the "
                             "variance is that over N - 1 values",
        [LS_CAUSE_POOLING] = "compare the divisor at the image's edge (\"count_padding\"), and "
                             "which of equal pixels is the largest: the first in rows and columns; "
                             "a pooler reads the first token of each sequence",
        [LS_CAUSE_KERNEL_FLIPPED] = "y[r] takes w[i] x[r stride - padding + i]: kernels are not "
                                    "turned; weights are [made, read / groups, kernel_h, kernel_w]",
        [LS_CAUSE_PADDED_SIDE] = "pad as the layer says, top and left first: a library's \"same\" "
                                 "padding puts the odd pixel on the other side",
        [LS_CAUSE_RESPONSE_ALPHA] = "k + alpha times the sum of squares: alpha is not divided by "
                                    "the span (PyTorch's LocalResponseNorm divides)",
        [LS_CAUSE_ROTARY] = "compare rope_theta and rope scaling with config.json, and compute "
                            "angles, cosines and sines in binary32",
        [LS_CAUSE_ATTENTION_SET] = "query i sees the keys 0 to i of its sequence: no window, no "
                                   "blocks; look at what a shard or block of keys leaves out",
        [LS_CAUSE_TARGET_SET] = "a target of -100 is ignored, no other is: fetch the next shard's "
                                "first token for the last target, and compare ignore_index",
        [LS_CAUSE_NORM_FORM] = "LayerNorm subtracts the mean, RMSNorm does not; the weight is a "
                               "factor, w and not 1 + w",
        [LS_CAUSE_LOST_TERM] = "write the derivative down again: every occurrence of x in the "
                               "formula has a term",
        [LS_CAUSE_ASSIGNED] = "add to the gradient (+=, index_add, atomicAdd) where several terms "
                              "meet in one element",
        [LS_CAUSE_WRONG_PARAM] = "compare which parameter, and which rank's shard of it, the "
                                 "operation reads",
        [LS_CAUSE_LOCAL_MAXIMUM] = "take the largest logit over all shards (an all-reduce by "
                                   "maximum) before exp",
        [LS_CAUSE_POSITION_BIAS] = "this model adds nothing to its scores",
        [LS_CAUSE_OTHER_SEQUENCE] = "compare how sequences are numbered where queries, keys and "
                                    "values meet",
        [LS_CAUSE_CORRUPTED_ROW] = "look at what wrote this row: a race, a buffer that was used "
                                   "again, a tile's edge",
        [LS_CAUSE_RESIDUAL] = "add what the block was given (before its norm, where norms come "
                              "first); backward, pass the sum's gradient on to both of its terms",
    };
    return cause >= 0 && cause < LS_CAUSES ? remedies[cause] : NULL;
}
