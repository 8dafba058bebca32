/* mistake.c - the table of mistakes. */
#include "step_graph/mistake.h"

#include <stddef.h>

static const ls_mistake mistakes[LS_CAUSES] = {
    [LS_CAUSE_NONE] = {"none", 99, "no known cause", NULL},
    [LS_CAUSE_BIAS_PER_RANK] =
        {"bias-per-rank", 4, "bias added once per rank",
         "add the bias of a row-parallel linear after the sum over the ranks, or on one rank alone",
         .needs_ranks = true},
    [LS_CAUSE_BIAS_MISSING] = {"bias-missing", 5, "bias not added",
                               "add the bias of this linear, once, after the sum over the ranks"},
    [LS_CAUSE_NOT_REDUCED] = {"not-reduced", 8, "partial sums not reduced",
                              "sum over the ranks that each hold a part, and go on with the sum, "
                              "not with the buffer that went in",
                              .needs_ranks = true, .reach = LS_REACH_ROWS},
    [LS_CAUSE_REDUCED_TWICE] = {"reduced-twice", 21, "reduced twice",
                                "sum once: look for a second all-reduce, as of an input gradient "
                                "that the layer before sums again",
                                .needs_ranks = true},
    [LS_CAUSE_AVERAGED] =
        {"averaged", 22, "averaged instead of summed",
         "sum, do not average; divide once, by the number of valid targets of the whole batch",
         .needs_ranks = true},
    [LS_CAUSE_REPLICATED_GRADIENT] = {"replicated-gradient", 7,
                                      "gradient of a replicated parameter not reduced",
                                      "sum the gradient of a parameter that every rank holds over "
                                      "the ranks that used it on different tokens or heads",
                                      .needs_ranks = true},
    [LS_CAUSE_TIED_ONE_SIDE] = {"tied-one-side", 6, "tied embedding reduced on one side only",
                                "sum both uses of the tied embedding, input and head, before the "
                                "update, on every stage that holds it",
                                .reach = LS_REACH_ROWS},
    [LS_CAUSE_SHARD_ORDER] = {"shard-order", 18, "shards in the wrong order",
                              "join the shards in rank order along the dimension that was cut: a "
                              "gather lays them one after another along the first",
                              .reach = LS_REACH_ARRANGEMENT},
    [LS_CAUSE_INTERLEAVED] = {"interleaved", 16,
                              "gate and up, or q, k and v, interleaved differently",
                              "compare the order of columns in the fused weight: whole q, k, v "
                              "(gate, up) per rank, not rows in turn",
                              .reach = LS_REACH_ARRANGEMENT},
    [LS_CAUSE_TRANSPOSED] = {"transposed", 17, "transposed",
                             "weights are [in, out] here: y = x W + b; others keep [out, in]",
                             .reach = LS_REACH_ARRANGEMENT},
    [LS_CAUSE_CAUSAL_MASK] = {"causal-mask", 12, "causal mask off by one or absent",
                              "query i sees the keys 0 to i, itself among them; with cut sequences "
                              "count positions from the start of the whole one",
                              .reach = LS_REACH_ATTENTION},
    [LS_CAUSE_TARGET_SHIFT] = {"target-shift", 10, "targets shifted twice, or not at all",
                               "the batch's targets are shifted already: do not shift them again"},
    [LS_CAUSE_PADDED_VOCABULARY] =
        {"padded-vocabulary", 11, "padded vocabulary inside the softmax",
         "leave the padded rows of the vocabulary out of the softmax and its gradient"},
    [LS_CAUSE_SCORE_SCALE] = {"score-scale", 13, "another scale of the attention scores",
                              "scale scores once, by 1 / sqrt(width of one head)",
                              .reach = LS_REACH_ATTENTION},
    [LS_CAUSE_GELU_VARIANT] =
        {"gelu-variant", 14, "another activation function",
         "take the model's form of GELU, tanh or exact, forward and backward"},
    [LS_CAUSE_NORM_EPSILON] = {"norm-epsilon", 15, "another epsilon in a norm",
                               "take the model's epsilon, added to the variance inside the root"},
    [LS_CAUSE_MEAN_OF_MEANS] = {"mean-of-means", 9, "mean of micro-batch or rank means",
                                "add the losses and the counts of valid targets of all "
                                "micro-batches and ranks, then divide once",
                                .needs_ranks = true},
    [LS_CAUSE_CLIPPING_PER_RANK] = {"clipping-per-rank", 3, "norm clipping per rank",
                                    "add the squares over all ranks' shards before the root: one "
                                    "norm, one factor for everybody",
                                    .needs_ranks = true},
    [LS_CAUSE_REPLICAS_COUNTED] = {"replicas-counted", 2,
                                   "the norm counts replicated parameters once per rank",
                                   "count a parameter that several ranks hold once in the norm",
                                   .needs_ranks = true},
    [LS_CAUSE_UPDATE_TWICE] = {"update-twice", 1, "update applied twice",
                               "apply the optimizer once per step to each parameter"},
    [LS_CAUSE_DROPOUT_MASK] = {"dropout-mask", 20, "another dropout mask",
                               "recompute with the mask of the forward pass; to be compared, take "
                               "the masks of masks.safetensors",
                               .reach = LS_REACH_BACKWARD},
    [LS_CAUSE_POSITIONS] = {"positions", 18,
                            "positions that begin again or elsewhere, or rotary pairs otherwise",
                            "count positions from the start of the sequence, not of the shard; a "
                            "rotary pair is i and i + half of a head's width"},
    [LS_CAUSE_TARGET_COUNT] =
        {"target-count", 9, "loss divided by another number than the targets'",
         "divide the loss once, by the number of targets of the whole batch that are not -100"},
    [LS_CAUSE_NOT_CLIPPED] = {"not-clipped", 3, "gradients not scaled to the largest norm",
                              "scale the gradients themselves, those that the optimizer reads"},
    [LS_CAUSE_CLIPPING_EPSILON] = {"clipping-epsilon", 4,
                                   "an epsilon added to the norm in clipping",
                                   "divide by the norm alone (PyTorch's clip_grad_norm_ adds "
                                   "1e-6), or leave clipped and param out of what is compared"},
    [LS_CAUSE_CLIPPED_BY_VALUE] = {"clipped-by-value", 2, "clipped element by element",
                                   "clip by the norm of all gradients (clip_grad_norm_), not "
                                   "element by element (clip_grad_value_)",
                                   .includes = LS_CAUSE_NOT_CLIPPED},
    [LS_CAUSE_CLIPPED_ELSEWHERE] = {"clipped-elsewhere", 5, "gradients clipped to another norm",
                                    "print the norm that scales the gradients: it is not that of "
                                    "the gradients themselves, or the largest allowed is another"},
    [LS_CAUSE_NEVER_COMPUTED] =
        {"never-computed", 0, "gradient never computed",
         "look for a graph that is cut before this tensor (detach, no_grad, a parameter that the "
         "optimizer does not know), or a buffer that was never written"},
    [LS_CAUSE_FACTOR] = {"factor", 23, "a plain factor",
                         "look for what multiplies: a loss scale that was not divided out, a "
                         "divisor or a sum over ranks too many or too few"},
    [LS_CAUSE_OPTIMIZER_VARIANT] = {"optimizer-variant", 4,
                                    "another formula of the optimizer's step",
                                    "compare the step with that of lib/golden/GOLDEN.md, and which "
                                    "parameters decay: matrices alone, not biases and norms"},
    [LS_CAUSE_VARIANCE_UNBIASED] =
        {"variance-unbiased", 14, "variance divided by D - 1",
         "divide the squares of a norm's variance by the width D: unbiased=False, correction=0"},
    [LS_CAUSE_RESIDUAL] = {"residual", 6, "residual connection taken elsewhere or left out",
                           "add what the block was given (before its norm, where norms come "
                           "first); backward, pass the sum's gradient on to both of its terms"},
    [LS_CAUSE_HALO] = {"halo-off-by-one", 4, "halo off by one",
                       "derive what a rank reads from its own outputs: first output x stride - "
                       "padding to the last one's last pixel, on each side by itself"},
    [LS_CAUSE_HALO_CORNER] = {"halo-corner-missing", 2, "halo corner missing",
                              "exchange with the diagonal neighbours too, or rows first and then "
                              "columns of the widened block"},
    [LS_CAUSE_HALO_MISSING] = {"halo-missing", 3, "halo missing",
                               "fetch the neighbours' pixels that the windows of one's own outputs "
                               "reach; pad only at the image's edge"},
    [LS_CAUSE_DY_HALO] = {"dy-halo-missing", 3, "dy halo missing",
                          "backward, fetch the neighbours' dy of all outputs that read one's own "
                          "pixels before dx is computed"},
    [LS_CAUSE_LOCAL_STATISTICS] = {"local-statistics", 5, "local batch-norm statistics",
                                   "sum x, then (x - mean)^2, over all ranks' images and pixels "
                                   "before normalising, and their gradients likewise"},
    [LS_CAUSE_AVERAGED_STATISTICS] = {"averaged-statistics", 6,
                                      "batch-norm statistics averaged with unequal counts",
                                      "add the ranks' sums and divide once by the number of all "
                                      "values; ranks may have unequal numbers"},
    [LS_CAUSE_WEIGHT_GRADIENT] = {"weight-gradient-not-reduced", 7, "weight gradient not reduced",
                                  "sum this gradient over all ranks that hold the parameter: "
                                  "data-parallel ones and those with other pixels"},
    [LS_CAUSE_RUNNING] = {"running-statistics", 8, "running statistics moved by another rule",
                          "running = (1 - momentum) running + momentum x, once a step; the "
                          "variance is that over N - 1 values"},
    [LS_CAUSE_POOLING] = {"pooling", 9, "another token, divisor or maximum in pooling",
                          "compare the divisor at the image's edge (\"count_padding\"), and which "
                          "of equal pixels is the largest: the first in rows and columns; a pooler "
                          "reads the first token of each sequence"},
    [LS_CAUSE_KERNEL_FLIPPED] = {"kernel-flipped", 9, "kernels turned by half a turn",
                                 "y[r] takes w[i] x[r stride - padding + i]: kernels are not "
                                 "turned; weights are [made, read / groups, kernel_h, kernel_w]"},
    [LS_CAUSE_PADDED_SIDE] = {"padded-side", 9, "windows padded on the other side",
                              "pad as the layer says, top and left first: a library's \"same\" "
                              "padding puts the odd pixel on the other side"},
    [LS_CAUSE_RESPONSE_ALPHA] = {"response-alpha", 9, "response norm's alpha divided by its span",
                                 "k + alpha times the sum of squares: alpha is not divided by the "
                                 "span (PyTorch's LocalResponseNorm divides)"},
    [LS_CAUSE_ROTARY] = {"rotary-angles", 19, "rotary angles by another rule",
                         "compare rope_theta and rope scaling with config.json, and compute "
                         "angles, cosines and sines in binary32",
                         .reach = LS_REACH_PARAMETER},
    [LS_CAUSE_ATTENTION_SET] = {"attention-set", 13, "attention sees another set of keys",
                                "query i sees the keys 0 to i of its sequence: no window, no "
                                "blocks; look at what a shard or block of keys leaves out",
                                .reach = LS_REACH_ATTENTION},
    [LS_CAUSE_TARGET_SET] = {"target-set", 10, "targets lost, or counted though ignored",
                             "a target of -100 is ignored, no other is: fetch the next shard's "
                             "first token for the last target, and compare ignore_index"},
    [LS_CAUSE_NORM_FORM] =
        {"norm-form", 14, "a norm with another mean or weight",
         "LayerNorm subtracts the mean, RMSNorm does not; the weight is a factor, w and not 1 + w"},
    [LS_CAUSE_LOST_TERM] =
        {"lost-term", 14, "a term of a gradient left out",
         "write the derivative down again: every occurrence of x in the formula has a term"},
    [LS_CAUSE_ASSIGNED] =
        {"assigned", 9, "gradient assigned where it should be added",
         "add to the gradient (+=, index_add, atomicAdd) where several terms meet in one element"},
    [LS_CAUSE_WRONG_PARAM] =
        {"wrong-parameter", 15, "another parameter, or another rank's shard",
         "compare which parameter, and which rank's shard of it, the operation reads"},
    [LS_CAUSE_LOCAL_MAXIMUM] =
        {"local-maximum", 11, "a vocabulary shard's own maximum in the softmax",
         "take the largest logit over all shards (an all-reduce by maximum) before exp"},
    [LS_CAUSE_POSITION_BIAS] = {"position-bias", 13, "scores biased by distance",
                                "this model adds nothing to its scores",
                                .reach = LS_REACH_ATTENTION},
    [LS_CAUSE_OTHER_SEQUENCE] =
        {"other-sequence", 16, "queries, keys or values of another sequence",
         "compare how sequences are numbered where queries, keys and values meet",
         .reach = LS_REACH_ATTENTION},
    [LS_CAUSE_CORRUPTED_ROW] =
        {"corrupted-row", 98, "one row wrong, all others right",
         "look at what wrote this row: a race, a buffer that was used again, a tile's edge"},
};

const ls_mistake *ls_mistake_of(ls_cause cause)
{
    return &mistakes[cause > 0 && cause < LS_CAUSES ? cause : LS_CAUSE_NONE];
}
