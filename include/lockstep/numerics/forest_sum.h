/* forest_sum.h - a tree whose leaves arrive run by run, in any order (contract rule 8).
 *
 * A micro-batch brings the gradients of a run of sequences: one value for each complete node of
 * T(batch) that the run makes. Each value takes a slot; when a node's sibling is there too, the two
 * are added and leave one slot free. In ascending order the waiting nodes are those of a binary
 * counter: after k of 2^n leaves as many as k has bits set. GPipe drains its micro-batches
 * backwards: as many again, mirrored.
 *
 *     arrives   01   23   45   67           67   45   23   01
 *     waits     01   -    45   -            67   -    23   -
 *                    0-3  0-3  0-7               4-7  4-7  0-7
 *
 * Bookkeeping alone: the caller has the values, slot s of each, and does what is asked of it. */
#ifndef LS_NUMERICS_FOREST_SUM_H
#define LS_NUMERICS_FOREST_SUM_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"
#include "lockstep/numerics/tree.h"

LS_BEGIN_DECLS

typedef struct ls_forest_sum {
    size_t leaves; /* of the whole tree */
    size_t slots;
    ls_node *held; /* which node is in each slot; lo == hi: none */
} ls_forest_sum;

/* A run of leaves, lo <= i < hi. */
typedef ls_node ls_run_of_leaves;

/* The most slots in use at once when n runs arrive in this order, at least 1. Errors:
 * LS_ERR_MEMORY; LS_ERR_INTERNAL: two runs overlap. */
LS_API ls_status ls_forest_sum_slots(size_t leaves, const ls_run_of_leaves *runs, size_t n,
                                     size_t *ret_slots) LS_MUST_USE;

/* Errors: LS_ERR_MEMORY. */
LS_API ls_status ls_forest_sum_create(ls_forest_sum **ret_sum, size_t leaves,
                                      size_t slots) LS_MUST_USE;
LS_API void ls_forest_sum_destroy(ls_forest_sum **sum);

/* Forgets what is held. */
LS_API void ls_forest_sum_clear(ls_forest_sum *sum);

/* A run arrives: ret_nodes[j] and ret_slots[j] say which node's value is to be written to which
 * slot; *ret_n of them, ascending; LS_FOREST_MAX entries each. Errors: LS_ERR_INTERNAL: no slot is
 * free, or part of the run is there already. */
LS_API ls_status ls_forest_sum_arrive(ls_forest_sum *sum, ls_run_of_leaves run, ls_node *ret_nodes,
                                      size_t *ret_slots, size_t *ret_n) LS_MUST_USE;

/* The next addition to do: value[into] = value[into] + value[from]. False: nothing left to add.
 * (Left and right may change places: the sum of two is the same bits either way.) */
LS_API bool ls_forest_sum_next(ls_forest_sum *sum, size_t *ret_into, size_t *ret_from);

/* After all runs: brings the nodes into slots 0, 1, ... in ascending order, as a reducing
 * collective wants them. The next step: the values of these two slots change places (one of them
 * may be free). False: all are in order. */
LS_API bool ls_forest_sum_settle(ls_forest_sum *sum, size_t *ret_one, size_t *ret_other);

/* Nodes held now. */
LS_API size_t ls_forest_sum_held(const ls_forest_sum *sum);

LS_END_DECLS

#endif
