/* mistake.h - the mistakes that people make in a training step: one table for all that names one.
 *
 * causes finds which of them a wrong tensor looks like, conformance which one a wrong output looks
 * like, and the gallery shows each by a fault put into a right program. How to add one:
 * lib/causes/README.md. */
#ifndef LS_STEP_GRAPH_MISTAKE_H
#define LS_STEP_GRAPH_MISTAKE_H

#include <stdbool.h>

typedef enum ls_cause {
    LS_CAUSE_NONE = 0,      /* no hypothesis explains it */
    LS_CAUSE_BIAS_PER_RANK, /* bias added once per rank */
    LS_CAUSE_BIAS_MISSING,
    LS_CAUSE_NOT_REDUCED,         /* partial sums not reduced */
    LS_CAUSE_REDUCED_TWICE,       /* whole, or of several addends one */
    LS_CAUSE_AVERAGED,            /* averaged instead of summed: 1/T, 1/DP, 1/M, 1/P */
    LS_CAUSE_REPLICATED_GRADIENT, /* gradient of a replicated parameter not reduced */
    LS_CAUSE_TIED_ONE_SIDE,       /* tied embedding reduced on one side only */
    LS_CAUSE_SHARD_ORDER, /* shards in the wrong order, or joined along the wrong dimension */
    LS_CAUSE_INTERLEAVED, /* gate and up, or q, k and v, interleaved differently or swapped */
    LS_CAUSE_TRANSPOSED,
    LS_CAUSE_CAUSAL_MASK,       /* off by one, or absent */
    LS_CAUSE_TARGET_SHIFT,      /* targets shifted twice, or not at all */
    LS_CAUSE_PADDED_VOCABULARY, /* inside the softmax */
    LS_CAUSE_SCORE_SCALE,
    LS_CAUSE_GELU_VARIANT,
    LS_CAUSE_NORM_EPSILON,
    LS_CAUSE_MEAN_OF_MEANS,     /* mean of micro-batch (or rank) means */
    LS_CAUSE_CLIPPING_PER_RANK, /* norm and factor from a rank's own shards */
    LS_CAUSE_REPLICAS_COUNTED,  /* the norm counts replicated parameters once per rank */
    LS_CAUSE_UPDATE_TWICE,
    LS_CAUSE_DROPOUT_MASK, /* recomputation with a new mask, or another mask than the golden */
    LS_CAUSE_POSITIONS,    /* positions that begin again in a shard; rotary pairs otherwise */
    LS_CAUSE_TARGET_COUNT, /* loss divided by another number than that of the targets, or by none */
    LS_CAUSE_NOT_CLIPPED,  /* the norm is right, and nothing is scaled by it */
    LS_CAUSE_CLIPPING_EPSILON,  /* an epsilon added to the norm before it divides */
    LS_CAUSE_CLIPPED_BY_VALUE,  /* each element cut off at a largest value */
    LS_CAUSE_CLIPPED_ELSEWHERE, /* all gradients scaled by one ratio, to another norm */
    LS_CAUSE_NEVER_COMPUTED,    /* zeros in the place of a gradient */
    LS_CAUSE_FACTOR,            /* the right tensor times one number, for no reason that is seen */
    LS_CAUSE_OPTIMIZER_VARIANT, /* another formula or number of the optimizer's step, or no step */
    LS_CAUSE_VARIANCE_UNBIASED, /* variance divided by D - 1 */
    LS_CAUSE_RESIDUAL,          /* taken from another tensor, left out, its gradient left out */
    /* of convolutional networks */
    LS_CAUSE_HALO,                /* pixels of neighbours off by one row or column */
    LS_CAUSE_HALO_CORNER,         /* without those across a corner */
    LS_CAUSE_HALO_MISSING,        /* none at all */
    LS_CAUSE_DY_HALO,             /* none of the neighbours' gradients */
    LS_CAUSE_LOCAL_STATISTICS,    /* batch norm by a rank's own mean and variance */
    LS_CAUSE_AVERAGED_STATISTICS, /* by means of the ranks', whatever each has */
    LS_CAUSE_WEIGHT_GRADIENT,     /* of a rank's own images and pixels alone */
    LS_CAUSE_RUNNING,             /* running statistics by another rule */
    LS_CAUSE_POOLING,             /* another token or divisor, or the last of equals */
    LS_CAUSE_KERNEL_FLIPPED,      /* a convolution in the place of a correlation */
    LS_CAUSE_PADDED_SIDE,         /* windows padded on the other side */
    LS_CAUSE_RESPONSE_ALPHA,      /* response norm: alpha divided by its span */
    /* of any model */
    LS_CAUSE_ROTARY,         /* angles by another base, scaled, or rounded */
    LS_CAUSE_ATTENTION_SET,  /* window, blocks, or any other run of keys */
    LS_CAUSE_TARGET_SET,     /* targets lost, or counted though ignored */
    LS_CAUSE_NORM_FORM,      /* mean subtracted or not, weight 1 + w or left out */
    LS_CAUSE_LOST_TERM,      /* of a gradient: one term left out */
    LS_CAUSE_ASSIGNED,       /* a gradient written where it should be added */
    LS_CAUSE_WRONG_PARAM,    /* another parameter, or another rank's shard of it */
    LS_CAUSE_LOCAL_MAXIMUM,  /* of a vocabulary shard in the softmax of all */
    LS_CAUSE_POSITION_BIAS,  /* scores less by the distance, as ALiBi's */
    LS_CAUSE_OTHER_SEQUENCE, /* queries, keys or values of two sequences exchanged */
    LS_CAUSE_CORRUPTED_ROW,  /* one row is wrong, all others are right */
    LS_CAUSES
} ls_cause;

/* Which wrong tensors without a cause of their own a mistake explains, once another tensor has it:
 * always those of the same name in other layers and steps, and besides */
typedef enum ls_mistake_reach {
    LS_REACH_ALIKE = 0,   /* none */
    LS_REACH_PARAMETER,   /* what reads the same parameter */
    LS_REACH_ARRANGEMENT, /* that, the weight's gradient, and all that attention computes */
    LS_REACH_ROWS,        /* gradients of what is added up to the same embedding */
    LS_REACH_ATTENTION,   /* the heads' outputs, and what goes back through the scores */
    LS_REACH_BACKWARD     /* of a mistake in the backward pass: the rest of that pass */
} ls_mistake_reach;

typedef struct ls_mistake {
    const char *key; /* "bias-per-rank": for JSON */
    int order;       /* the lower, the more specific: of several that fit the lowest is named */
    const char *sentence; /* "bias added once per rank" */
    const char *remedy;   /* what to look at in one's own code; NULL: nothing is suspected */
    bool needs_ranks;     /* several ranks or micro-batches */
    ls_mistake_reach reach;
    ls_cause includes; /* a less specific mistake that looks the same where nothing else shows */
} ls_mistake;

/* Of anything else than a mistake: the row of LS_CAUSE_NONE. */
const ls_mistake *ls_mistake_of(ls_cause cause);

#endif
