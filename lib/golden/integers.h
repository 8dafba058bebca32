/* integers.h - tensors of a step's linear operations with small integers for numbers.
 *
 * What a linear operation reads, forward and backward, is given: integers from -2 to 2, biases from
 * 1 to 3 in magnitude. What it makes is computed. Matrices have so many zeros that for every
 * element the magnitudes of all its terms add up to 256 or less, the bias and what is added next to
 * it included: every partial sum, in any order and of any ranks, is then an integer that binary32,
 * binary16 and bfloat16 hold exactly, and every right computation gives the same numbers. */
#ifndef LS_GOLDEN_INTEGERS_H
#define LS_GOLDEN_INTEGERS_H

#include "lockstep/model/batch.h"
#include "step_graph/graph.h"

/* 256 and everything below are integers of 8 significant bits. */
enum { LS_INTEGERS_MOST = 256 };

typedef enum ls_integers_role {
    LS_INTEGERS_ABSENT = 0, /* of operations that are not linear, and read by none that is */
    LS_INTEGERS_GIVEN,
    LS_INTEGERS_MADE
} ls_integers_role;

/* Linear are embedding rows, x W + b (not turned by position), logits, residual sums; the gradients
 * that only they send back, and their parameters' gradients. A residual sum is given where the
 * sums before it have grown too large. */
typedef struct ls_integers {
    const ls_graph *graph;
    ls_integers_role *roles; /* per node */
    double **values;         /* per node; NULL when absent */
    double **params;         /* per parameter of the table; NULL when no such operation has it */
} ls_integers;

/* Draws and computes. The configuration of the graph's table has no dropout. Errors: LS_ERR_MEMORY;
 * LS_ERR_INTERNAL: sums stay too large however many zeros there are. Memory: three numbers per
 * element. */
ls_status ls_integers_create(ls_integers *ret_integers, const ls_graph *graph,
                             const ls_batch *batch, uint64_t seed) LS_MUST_USE;
void ls_integers_free(ls_integers *integers);

#endif
