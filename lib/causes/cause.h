/* cause.h - which mistake a wrong tensor looks like.
 *
 * Each cause is a hypothesis: it says what the mistake would have given, from the operation's own
 * inputs, and is named when that explains the tensor within the operation's bound while the right
 * value does not. Where several do, the most specific one is named and the others are counted. One
 * number chooses among no hypotheses: where several explain it, none is named. What a hypothesis
 * must show before it is believed: cause_gate.c. */
#ifndef LS_CAUSES_CAUSE_H
#define LS_CAUSES_CAUSE_H

#include "check/candidate.h"
#include "step_graph/operation.h"

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

/* "bias added once per rank", ... */
const char *ls_cause_text(ls_cause cause);
/* "bias-per-rank", ...: for JSON. */
const char *ls_cause_key(ls_cause cause);

/* The squares of all gradients of a step, which the searches of a judgement share. */
typedef struct ls_squares ls_squares;
void ls_squares_destroy(ls_squares **squares);

/* What is known of a wrong tensor. */
typedef struct ls_case {
    const ls_golden *golden;
    uint64_t step;
    int node;
    /* The candidate's own tensors, golden ones where it has none: what the operation reads, and
     * every parameter. What else a hypothesis needs is read from `whole` and `golden`. */
    ls_operands operands;
    bool own_inputs; /* all that the operation reads are the candidate's; else the mistake may lie
                        before it, and is looked for there too */
    ls_precision precision;
    const double *candidate;             /* the node's elements */
    const double *right;                 /* what the operation gives from the operands */
    const double *bound;                 /* of each element */
    const ls_candidate_tensor *as_given; /* its blocks and replicas */
    const ls_candidate *whole;           /* for a node's companions and the layout; may be NULL */
    /* Where own_inputs is false. A cause that explained another tensor of the candidate is looked
     * for first before the node, and alone when `brief` is set (without a hint: none is). */
    ls_cause hint;
    const char
        *hint_evidence; /* of that; only a hypothesis of the same words is tried. NULL: any */
    bool brief;
    /* Multiplications that are left for all searches of a judgement together; each takes from it.
     * NULL: this search has WORK by itself. */
    double *budget;
    ls_squares **squares; /* kept from one search to the next; NULL: each computes its own */
} ls_case;

enum { LS_EVIDENCE = 256, LS_ALSO = 4 };

typedef struct ls_suspicion {
    ls_cause cause;
    char evidence[LS_EVIDENCE]; /* "candidate - right = 3 x bias of layers.0.attention.out, so 4
                                   ranks added it; leaves at most 1.2e-7 (bound 4e-7)" */
    bool cut_short;             /* not every hypothesis was tried */
    size_t also;                /* further causes that fit as well */
    ls_cause others[LS_ALSO];
} ls_suspicion;

/* Tries every hypothesis that can concern the node's operation. A case that lies within its bounds,
 * on every rank, has no cause. Cost: some dozens to hundreds of evaluations of the node, as many as
 * a limit of some seconds leaves; where that cut the search short and nothing was found, the
 * evidence says so. Errors: LS_ERR_MEMORY. */
ls_status ls_cause_find(const ls_case *of, ls_suspicion *ret_suspicion) LS_MUST_USE;

#endif
