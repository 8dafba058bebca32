/* collectives.h - operations that every member of a group calls together.
 *
 * At entry each member posts (sequence number, operation, dtype, counts of all shares, root), and
 * these are compared: when they do not agree, every member gets LS_ERR_RANK and a text that says
 * who called what. Members then work on each other's buffers in place, so no operation returns
 * before its buffers are free to be used again. An input buffer is never written; in and out are
 * either the same buffer (in place, where the comment allows it) or do not overlap: a partial
 * overlap is LS_ERR_INPUT. Counts may be 0; lists of starts or bounds begin with 0. A group of one
 * does the same work without waiting.
 *
 * Errors of all: LS_ERR_RANK (mismatched calls, a member that cannot come any more or is missing
 * longer than the time-out), LS_ERR_ABORTED, LS_ERR_INTERRUPTED, LS_ERR_INPUT. Any of them aborts
 * the world: the out buffers are then undefined and every later call is refused.
 *
 * Bytes (ls_comm_count): what this member sends: the input of all_gather and all_to_all, all
 * partials of a reduction, the buffer of a broadcast's root (0 elsewhere). P members, count
 * elements of e bytes: see each. */
#ifndef LS_COMM_COLLECTIVES_H
#define LS_COMM_COLLECTIVES_H

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"
#include "lockstep/numerics/tree.h"

LS_BEGIN_DECLS

/* Copies root's buffer into every member's. Bytes: count e on root. */
LS_API ls_status ls_broadcast(ls_group *group, void *buffer, size_t count, ls_dtype dtype,
                              int root) LS_MUST_USE;

typedef enum ls_reduction {
    LS_REDUCE_MAX = 0, /* rule 3: -0 below +0, NaN wins; any dtype */
    LS_REDUCE_MIN,     /* rule 3 mirrored: -0 below +0, NaN wins; any dtype */
    LS_REDUCE_SUM      /* integers only, modulo 2^bits; floating-point sums take a forest */
} ls_reduction;

/* out[i] = reduction over members of in[i]. in == out allowed. Bytes: count e. */
LS_API ls_status ls_all_reduce(ls_group *group, void *out, const void *in, size_t count,
                               ls_dtype dtype, ls_reduction reduction) LS_MUST_USE;

/* Which leaves of a tree each member owns. A member that owns the run lo <= i < hi sends one
 * partial for each node of ls_tree_forest(leaves, lo, hi), in that order, one after another:
 * partial j at in + j * count. All runs together, in group order, cover 0 .. leaves once. */
typedef struct ls_forest {
    size_t leaves;
    const size_t *bounds; /* group size + 1 ascending numbers from 0 to leaves: member r owns
                             bounds[r] .. bounds[r + 1] */
} ls_forest;

/* out[i] = T(leaves) at element i, finished from every member's partials (rule 8); the same bits on
 * every member. dtype LS_F32 or LS_F64. out: count elements. in: nodes * count elements; in == out
 * allowed (out takes the first count). forest: same on all members. Two phases: each member
 * finishes the tree for its 1/P of the elements, then gathers; three barriers. Up to 256 elements
 * each member finishes all of them, which saves one barrier. Bytes: nodes count e. */
LS_API ls_status ls_all_reduce_forest(ls_group *group, void *out, const void *in, size_t count,
                                      ls_dtype dtype, const ls_forest *forest) LS_MUST_USE;

/* As above, but member r gets only its share: elements starts[r] .. starts[r + 1] of the count =
 * starts[P], into out. Shares may be uneven or empty. in == out not allowed. starts: same on all
 * members. Bytes: nodes count e. */
LS_API ls_status ls_reduce_scatter_forest(ls_group *group, void *out, const void *in,
                                          const size_t *starts, ls_dtype dtype,
                                          const ls_forest *forest) LS_MUST_USE;

/* The reduce-scatter along a last dimension, the counterpart of ls_all_gather_columns: each partial
 * is rows x starts[P], one after another in `in`; member r gets the columns starts[r] .. starts[r +
 * 1] of every row, out being rows x (starts[r + 1] - starts[r]). in and out apart. Bytes: nodes
 * rows starts[P] e. */
LS_API ls_status ls_reduce_scatter_columns_forest(ls_group *group, void *out, const void *in,
                                                  size_t rows, const size_t *starts, ls_dtype dtype,
                                                  const ls_forest *forest) LS_MUST_USE;

/* out = the members' inputs one after another: member r's starts[r + 1] - starts[r] elements at out
 * + starts[r]. In place: in may be out + starts[own]. The gather along a first dimension. Bytes:
 * own share e. */
LS_API ls_status ls_all_gather(ls_group *group, void *out, const void *in, const size_t *starts,
                               ls_dtype dtype) LS_MUST_USE;

/* The gather along a last dimension: out is rows x starts[P], member r's input rows x (starts[r +
 * 1] - starts[r]) is its columns starts[r] .. starts[r + 1]. in and out apart. Bytes: own share e.
 */
LS_API ls_status ls_all_gather_columns(ls_group *group, void *out, const void *in, size_t rows,
                                       const size_t *starts, ls_dtype dtype) LS_MUST_USE;

/* counts: P x P, same on all members: counts[s * P + r] elements go from member s to member r. in:
 * own row's blocks in order of receiver; out: own column's blocks in order of sender. in and out
 * apart. Bytes: what goes to others, e each. */
LS_API ls_status ls_all_to_all(ls_group *group, void *out, const void *in, const size_t *counts,
                               ls_dtype dtype) LS_MUST_USE;

LS_END_DECLS

#endif
