/* judge_mistakes.h - the mistakes that the judge must find, and what it must call each. */
#ifndef LS_TEST_JUDGE_MISTAKES_H
#define LS_TEST_JUDGE_MISTAKES_H

#include "judge_own.h"
#include "step_graph/mistake.h"

/* What is made wrong, where the judge must see it, and what it must say. */
typedef struct fault_row {
    made mistake;
    const char *operation;
    ls_judge_kind kind;
    ls_cause cause;
    const char *suspected; /* NULL: the table's sentence */
} fault_row;

static const fault_row FAULTS[] = {
    {BARRIER_NONE, "barrier", LS_JUDGE_EXACT, LS_CAUSE_NONE, "a rank leaves before all have come"},
#if !defined(__SANITIZE_THREAD__) /* it is a race */
    {NO_EXIT_BARRIER, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NONE, "calls run into each other"},
#endif
    /* a rank of the group taken for one of the world */
    {ROOT_0, "broadcast", LS_JUDGE_EXACT, LS_CAUSE_NONE, "rank 0 taken for the root"},
    /* the send buffer used as scratch */
    {REDUCE_IN_INPUT, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "the input in used as a work buffer"},
    {AVERAGE, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_AVERAGED,
     "averaged over the ranks instead of summed"},
    {AVERAGE, "all_reduce_sum", LS_JUDGE_BOUNDED, LS_CAUSE_AVERAGED,
     "averaged over the ranks instead of summed"},
    {MAX_FROM_0, "all_reduce_max", LS_JUDGE_EXACT, LS_CAUSE_NONE, "the maximum begins at 0"},
    {SUM_FOR_MAX, "all_reduce_max", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "the sum instead of the largest"},
    {REDUCE_TWICE, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_REDUCED_TWICE, NULL},
    {NOT_REDUCED, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NOT_REDUCED, NULL},
    {NOT_REDUCED, "all_reduce_sum", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED, NULL},
    /* send and receive buffer the same, and not known to be in place */
    {IN_PLACE_TWICE, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "a rank's own part added twice"},
    {LAST_MISSING, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NONE, "the last rank's part missing"},
    /* two buffers that take turns, and the turn forgotten */
    {RESULT_BEFORE, "all_reduce_sum", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "the result of the call before"},
    {SCATTER_SHARDS, "reduce_scatter", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER, NULL},
    {SCATTER_BEYOND, "reduce_scatter", LS_JUDGE_EXACT, LS_CAUSE_NONE, "writes beyond its buffer"},
    {GATHER_REVERSED, "all_gather", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER, NULL},
    /* the gathered size taken to be ranks times the own share */
    {GATHER_EQUAL, "all_gather", LS_JUDGE_EXACT, LS_CAUSE_NONE, "shares taken to be equal"},
    /* a gather along the last dimension laid out along the first */
    {GATHER_FIRST, "all_gather_columns", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER,
     "joined along the first dimension instead of the last"},
    {TO_ALL_REVERSED, "all_to_all", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER,
     "blocks in the wrong order"},
    {RECEIVE_CUT, "send_receive", LS_JUDGE_EXACT, LS_CAUSE_NONE, ""},
    {RESULT_BEFORE, "all_reduce_sum", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "the result of the call before"},
    {COLUMN_NO_BIAS, "column_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_BIAS_MISSING, NULL},
    /* the gradient of a replicated input left un-reduced; or reduced at the boundary and again */
    {DX_NOT_REDUCED, "column_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_NOT_REDUCED, NULL},
    {DX_NOT_REDUCED, "column_linear_backward", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED, NULL},
    {DX_TWICE, "column_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_REDUCED_TWICE, NULL},
    {DW_LEFT_OVER, "column_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "added to what it held before"},
    {DW_TRANSPOSED, "column_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_TRANSPOSED, NULL},
    /* the bias added before the all-reduce, on every rank */
    {BIAS_EACH, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_BIAS_PER_RANK, NULL},
    {BIAS_EACH, "row_linear_forward", LS_JUDGE_BOUNDED, LS_CAUSE_BIAS_PER_RANK, NULL},
    {ROW_NOT_REDUCED, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_NOT_REDUCED, NULL},
    {ROW_AVERAGE, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_AVERAGED,
     "averaged over the ranks"},
    {ROW_TWICE, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_REDUCED_TWICE, NULL},
    /* the value of an in-place all-reduce, which has none, taken for the result */
    {ROW_NOT_WRITTEN, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "the output is not written"},
    {ROW_NO_BIAS, "row_linear_forward", LS_JUDGE_EXACT, LS_CAUSE_BIAS_MISSING, NULL},
    {DBIAS_SUMMED, "row_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_REDUCED_TWICE,
     "summed over ranks that all have the whole gradient"},
    {DBIAS_AVERAGED, "row_linear_backward", LS_JUDGE_EXACT, LS_CAUSE_AVERAGED,
     "divided by the number of ranks"},
    {MLP_GELU, "mlp_forward", LS_JUDGE_BOUNDED, LS_CAUSE_GELU_VARIANT, "gelu in its other form"},
    {MLP_BIAS, "mlp_forward", LS_JUDGE_BOUNDED, LS_CAUSE_BIAS_PER_RANK, NULL},
    {MLP_DX_TWICE, "mlp_backward", LS_JUDGE_BOUNDED, LS_CAUSE_REDUCED_TWICE, NULL},
    {ATTENTION_SCALE, "attention_forward", LS_JUDGE_BOUNDED, LS_CAUSE_SCORE_SCALE,
     "the scores are scaled by 1 / head_width"},
    {ATTENTION_SCALE, "attention_backward", LS_JUDGE_BOUNDED, LS_CAUSE_SCORE_SCALE,
     "the scores are scaled by 1 / head_width"},
    {ATTENTION_NO_MASK, "attention_forward", LS_JUDGE_BOUNDED, LS_CAUSE_CAUSAL_MASK,
     "no causal mask"},
    /* an index made local without a mask */
    {EMBEDDING_CLAMPED, "vocab_embedding_forward", LS_JUDGE_EXACT, LS_CAUSE_NONE,
     "tokens of other ranks looked up as the own row 0"},
    {EMBEDDING_NOT_REDUCED, "vocab_embedding_forward", LS_JUDGE_EXACT, LS_CAUSE_NOT_REDUCED, NULL},
    {EMBEDDING_LAST, "vocab_embedding_backward", LS_JUDGE_EXACT, LS_CAUSE_ASSIGNED,
     "a row has the gradient of its last token alone"},
    {LOSS_PADDED, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_PADDED_VOCABULARY,
     "the padded columns are inside the softmax"},
    {LOSS_OWN_COLUMNS, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED,
     "the sum of exponentials over the own columns alone"},
    {LOSS_TARGET_OF_OWNER, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED,
     "the target's logit on its owner alone"},
    /* logits that are whole on every rank taken for shards: the loss is ln P too large */
    {LOSS_EXP_PER_RANK, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "the sum of exponentials counted once per rank"},
    /* label smoothing by the local vocabulary, so that ranks differ */
    {LOSS_SMOOTHED_LOCALLY, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "label smoothing by the own columns alone"},
    {LOSS_IGNORED, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_TARGET_SET,
     "ignored targets have a loss"},
    {LOSS_IGNORED, "vocab_cross_entropy_backward", LS_JUDGE_BOUNDED, LS_CAUSE_TARGET_SET,
     "ignored targets have a gradient"},
    /* "not mine" that names an own column */
    {LOSS_OTHER_TARGET, "vocab_cross_entropy_backward", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "a target of another rank hits the own first column"},
    /* the per-token upstream gradient read as one number; the mean over ignored targets too */
    {LOSS_SCALAR, "vocab_cross_entropy_backward", LS_JUDGE_BOUNDED, LS_CAUSE_NONE,
     "the first token's upstream gradient for all"},
    {MEAN_OF_ALL, "vocab_cross_entropy_forward", LS_JUDGE_BOUNDED, LS_CAUSE_TARGET_COUNT,
     "the mean over all targets, ignored ones too"},
    {TOKENS_FLAT, "gather_tokens", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER,
     "ranks' blocks one after another"},
    {TOKENS_FLAT, "scatter_tokens", LS_JUDGE_EXACT, LS_CAUSE_SHARD_ORDER, "a run of all tokens"},
    {NORM_EPS_OUTSIDE, "layer_norm_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NORM_EPSILON,
     "epsilon outside the root"},
    {NORM_UNBIASED, "layer_norm_forward", LS_JUDGE_BOUNDED, LS_CAUSE_VARIANCE_UNBIASED,
     "the variance over D - 1"},
    /* sequence-parallel norms whose gradients are nobody's to reduce */
    {NORM_NOT_REDUCED, "layer_norm_backward", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED, NULL},
    {NORM_NOT_REDUCED, "rms_norm_backward", LS_JUDGE_BOUNDED, LS_CAUSE_NOT_REDUCED, NULL},
    {NORM_AVERAGED, "rms_norm_backward", LS_JUDGE_BOUNDED, LS_CAUSE_AVERAGED,
     "averaged over the ranks"},
    {GELU_OTHER, "gelu_forward", LS_JUDGE_BOUNDED, LS_CAUSE_GELU_VARIANT, "gelu in its other form"},
    {GELU_OTHER, "gelu_backward", LS_JUDGE_BOUNDED, LS_CAUSE_GELU_VARIANT,
     "gelu in its other form"},
    {GELU_QUICK, "gelu_forward", LS_JUDGE_BOUNDED, LS_CAUSE_GELU_VARIANT, "x sigmoid(1.702 x)"},
    {SOFTMAX_OVERFLOW, "softmax_forward", LS_JUDGE_BOUNDED, LS_CAUSE_NONE, "overflow"},
    {SOFTMAX_DIAGONAL, "softmax_backward", LS_JUDGE_BOUNDED, LS_CAUSE_LOST_TERM,
     "the sum along the row is not taken away"},
    /* the norm before the reduction; of norms; of replicas */
    {CLIP_OWN, "clip_gradient", LS_JUDGE_BOUNDED, LS_CAUSE_CLIPPING_PER_RANK,
     "the norm of a rank's own shard"},
    {CLIP_REPLICAS, "clip_gradient", LS_JUDGE_BOUNDED, LS_CAUSE_REPLICAS_COUNTED,
     "replicated parameters counted once per rank"},
    {CLIP_NORMS, "clip_gradient", LS_JUDGE_BOUNDED, LS_CAUSE_CLIPPING_PER_RANK,
     "norms of the ranks added instead of their squares"},
    {CLIP_ALWAYS, "clip_gradient", LS_JUDGE_BOUNDED, LS_CAUSE_NONE, "scaled to the largest norm"},
    {CLIP_SMALL, "clip_gradient", LS_JUDGE_BOUNDED, LS_CAUSE_CLIPPING_EPSILON,
     "1e-6 added to the norm"},
    {ADAMW_NO_CORRECTION, "adamw", LS_JUDGE_BOUNDED, LS_CAUSE_OPTIMIZER_VARIANT,
     "no bias correction"},
    {ADAMW_STEP, "adamw", LS_JUDGE_BOUNDED, LS_CAUSE_OPTIMIZER_VARIANT,
     "bias correction of the step after"},
    {ADAMW_NO_DECAY, "adamw", LS_JUDGE_BOUNDED, LS_CAUSE_OPTIMIZER_VARIANT, "weight decay missing"},
    {ADAMW_L2, "adamw", LS_JUDGE_BOUNDED, LS_CAUSE_OPTIMIZER_VARIANT,
     "weight decay inside the gradient"},
    {ADAMW_TWICE, "adamw", LS_JUDGE_BOUNDED, LS_CAUSE_UPDATE_TWICE, NULL},
};
enum { N_FAULTS = sizeof FAULTS / sizeof FAULTS[0] };

#endif
