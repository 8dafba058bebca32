/* losses.h - what the loss of a step is made of, and what it is a mean over.
 *
 * The loss is a mean over the valid targets of the global batch; in a model with sentence order a
 * mean over the order labels is added to it. Each mean is T over the sequences of what a sequence
 * has of it, ended and divided once (contract rules 9, 11, 15): so what travels are the terms of
 * single sequences and two counts, never a mean of a part. */
#ifndef LS_PARALLEL_LAYOUT_LOSSES_H
#define LS_PARALLEL_LAYOUT_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* How many terms each mean has. */
typedef struct ls_valid {
    int64_t targets; /* tokens with a target                                          */
    int64_t labels;  /* sequences with an order label; 0 in models without that loss  */
} ls_valid;

/* Whether there is any; if not, the loss is 0 and every gradient +0, whatever the parameters (rule
 * 15). */
static inline bool ls_valid_any(ls_valid valid)
{
    return valid.targets > 0 || valid.labels > 0;
}

static inline ls_valid ls_valid_add(ls_valid a, ls_valid b)
{
    ls_valid sum = {a.targets + b.targets, a.labels + b.labels};
    return sum;
}

/* A number for each sequence of a batch or of a part of one. */
#define ls_sequence_losses LS_TYPED(ls_sequence_losses)
typedef struct ls_sequence_losses {
    ls_real *tokens; /* T(S) over the losses of its tokens, -0 where there is no target */
    ls_real *order;  /* the loss of its order label, -0 where it has none; NULL: no such loss */
} ls_sequence_losses;

LS_END_DECLS

#endif
