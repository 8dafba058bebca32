/* fault.h - places in the parallel path where a mistake can be switched on, for the gallery.
 *
 * A library that is delivered has none of them: without LS_FAULTS every point is the constant
 * false and the compiler removes what stands behind it. With it, one fault at a time is chosen at
 * run time; LS_FAULT_NONE runs right. Each is a mistake that people make; what it takes more than a
 * line to do wrong stands in fault_parts.c. */
#ifndef LS_GALLERY_FAULT_H
#define LS_GALLERY_FAULT_H

#include <stdbool.h>

typedef enum ls_fault {
    LS_FAULT_NONE = 0,
    LS_FAULT_BIAS_PER_RANK, /* row-cut linear: the bias goes into every rank's part of the sum */
    LS_FAULT_BIAS_MISSING,  /* column-cut linear: none is added                                */
    LS_FAULT_NOT_REDUCED,   /* row-cut product: every rank goes on with its own part           */
    LS_FAULT_INPUT_GRADIENT_NOT_REDUCED, /* column-cut product backward: the same                 */
    LS_FAULT_REPLICAS_NOT_REDUCED,       /* gradients stay those of the replica's own sequences   */
    LS_FAULT_REDUCED_TWICE,              /* row-cut product: its sum is summed again              */
    LS_FAULT_INPUT_GRADIENT_TWICE,       /* column-cut product backward: the same                 */
    LS_FAULT_REPLICAS_TWICE,             /* gradients are summed over the replicas again          */
    LS_FAULT_AVERAGED_RANKS,             /* row-cut product: mean over the ranks for the sum      */
    LS_FAULT_AVERAGED_REPLICAS,          /* gradients: mean over the replicas                     */
    LS_FAULT_AVERAGED_MICRO_BATCHES,     /* gradients: mean over the micro-batches                */
    LS_FAULT_NORM_NOT_REDUCED, /* a norm's gradients are those of own tokens (sequence parallel) */
    LS_FAULT_KV_NOT_REDUCED,   /* a shared key/value head's gradient: own query heads alone      */
    LS_FAULT_TIED_ONE_SIDE,    /* tied embedding: the last stage does not hear of the first      */
    LS_FAULT_TIED_NOT_ADDED,   /* tied embedding: the head's gradient is dropped                 */
    LS_FAULT_SHARDS_REVERSED,  /* query matrix: shards loaded last rank first                    */
    LS_FAULT_TOKENS_ROTATED,   /* sequence parallel gather: shares begin with the second rank's  */
    LS_FAULT_TOKENS_JOINED,    /* ... shares one after another, not inside each sequence         */
    LS_FAULT_QKV_INTERLEAVED,  /* columns q|k|v read as if they stood head by head               */
    LS_FAULT_GATE_UP_INTERLEAVED, /* columns gate|up cut over the ranks as one matrix */
    LS_FAULT_GATE_UP_SWAPPED,
    LS_FAULT_TRANSPOSED,    /* attention's output matrix                                       */
    LS_FAULT_CAUSAL_AHEAD,  /* a token sees the next one                                       */
    LS_FAULT_CAUSAL_BEHIND, /* ... does not see itself                                         */
    LS_FAULT_CAUSAL_ABSENT, /* ... sees all                                                    */
    LS_FAULT_TARGET_SHIFT,  /* the target is the word after the next                           */
    LS_FAULT_PADDED_VOCABULARY, /* padding takes part in the softmax */
    LS_FAULT_SCORE_SCALE, /* 1 / head width for 1 / its root                                 */
    LS_FAULT_SCORE_UNSCALED,
    LS_FAULT_GELU_VARIANT,      /* tanh for erf, erf for tanh                                     */
    LS_FAULT_NORM_EPSILON,      /* 1e-6 for 1e-5, and the other way round                         */
    LS_FAULT_MEAN_OF_MEANS,     /* loss: mean of the micro-batches' means                         */
    LS_FAULT_CLIPPING_PER_RANK, /* norm of what the rank itself holds                             */
    LS_FAULT_REPLICAS_COUNTED,  /* norm: what every rank holds counts once per rank               */
    LS_FAULT_UPDATE_TWICE,      /* two optimizer steps for one                                    */
    LS_FAULT_DROPOUT_MASK,      /* a layer computed again draws another mask                      */
    LS_FAULT_POSITIONS_RESTART, /* sequence parallel: every share begins with position 0          */
    LS_FAULT_EMBEDDING_NOT_REDUCED, /* every rank goes on with its own rows of the token table */
    LS_FAULT_ROTARY_PAIRS, /* 2i with 2i + 1 for i with i + half a head                      */
    /* Convolutional networks. */
    LS_FAULT_HALO_OFF_BY_ONE,     /* neighbours' pixels are taken one place nearer             */
    LS_FAULT_HALO_CORNERS,        /* those across a corner do not come                         */
    LS_FAULT_HALO_MISSING,        /* none come: all that is not one's own counts as padding    */
    LS_FAULT_DY_HALO_MISSING,     /* backward: gradients of neighbours' outputs do not come    */
    LS_FAULT_LOCAL_STATISTICS,    /* batch norm by own images and pixels                       */
    LS_FAULT_AVERAGED_STATISTICS, /* ... by the mean of the ranks' means                       */
    LS_FAULT_WEIGHT_NOT_REDUCED,  /* a convolution's gradient of own images and pixels         */
    LS_FAULTS_COUNT
} ls_fault;

#ifdef LS_FAULTS
extern ls_fault ls_fault_chosen; /* set between runs, never during one */
#define ls_faulty(fault) (ls_fault_chosen == (fault))
#define ls_faulty_any() (ls_fault_chosen != LS_FAULT_NONE)
/* "bias-per-rank", ... */
const char *ls_fault_name(ls_fault fault);
#else
#define ls_faulty(fault) false
#define ls_faulty_any() false
#endif

#define ls_faulty_halo()                                                                           \
    (ls_faulty(LS_FAULT_HALO_OFF_BY_ONE) || ls_faulty(LS_FAULT_HALO_CORNERS) ||                    \
     ls_faulty(LS_FAULT_HALO_MISSING))
#define ls_faulty_mask() (ls_faulty(LS_FAULT_CAUSAL_AHEAD) || ls_faulty(LS_FAULT_CAUSAL_BEHIND))

#endif
