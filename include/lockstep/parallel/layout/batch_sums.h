/* batch_sums.h - where a micro-batch's sums over the batch go.
 *
 * Parameter gradients are sums over the sequences of the global batch (contract rule 9), of which a
 * micro-batch has a run. The run makes a few complete nodes of T(batch): mostly one, when sizes are
 * powers of two. Each node has a target of its own, an array of the gradient's shape at a fixed
 * distance from the gradient itself; the code that drives the micro-batches adds siblings
 * (forest_sum.h). */
#ifndef LS_PARALLEL_LAYOUT_BATCH_SUMS_H
#define LS_PARALLEL_LAYOUT_BATCH_SUMS_H

#include "lockstep/numerics/axis.h"
#include "lockstep/numerics/tree.h"

LS_BEGIN_DECLS

typedef struct ls_batch_sums {
    size_t n;              /* nodes */
    const ls_node *nodes;  /* sequences lo .. hi of the micro-batch, 0 its first; together all  */
    const size_t *offsets; /* elements from a gradient to node j's target                       */
} ls_batch_sums;

/* One of them. */
typedef struct ls_batch_sum {
    size_t first;   /* its first sequence, counted inside the micro-batch  */
    ls_axis tokens; /* its sequences as a token axis                       */
    size_t offset;  /* from a gradient to its target, in elements          */
} ls_batch_sum;

/* How many; sums NULL: one, over the whole micro-batch, into the gradient itself. */
static inline size_t ls_batch_sums_count(const ls_batch_sums *sums)
{
    return sums ? sums->n : 1;
}

/* Sum j of a micro-batch whose token axis is `tokens`, a granule per sequence. */
static inline ls_batch_sum ls_batch_sums_get(const ls_batch_sums *sums, size_t j, ls_axis tokens)
{
    ls_batch_sum whole = {0, tokens, 0};
    if (!sums) return whole;
    ls_batch_sum sum = {sums->nodes[j].lo,
                        ls_axis_of(sums->nodes[j].hi - sums->nodes[j].lo, tokens.granule),
                        sums->offsets[j]};
    return sum;
}

LS_END_DECLS

#endif
