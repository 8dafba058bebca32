/* all_reduce_owned.h - numbers of which each is known to one member, made known to all. */
#ifndef LS_COMM_ALL_REDUCE_OWNED_H
#define LS_COMM_ALL_REDUCE_OWNED_H

#include "lockstep/base/memory.h"
#include "lockstep/comm/collectives.h"

/* The forest in which every member is one leaf; bounds from `arena`. For numbers that one member
 * knows and to which the others add -0 any tree will do, and this one is the cheapest. Errors:
 * LS_ERR_MEMORY. */
ls_status ls_one_leaf_each(ls_group *group, ls_arena *arena, ls_forest *ret_forest) LS_MUST_USE;

/* out[i] = in[i] of the member that knows it, on every member; the others hand in -0, and x + (-0)
 * is x for every x (contract rule 14), so any tree gives its bits: one leaf per member is the
 * cheapest. dtype LS_F32 or LS_F64; in == out allowed. temporary: left as found. Every member calls
 * it together. 1 all-reduce of count. Errors: those of ls_all_reduce_forest, LS_ERR_MEMORY. */
ls_status ls_all_reduce_owned(ls_group *group, void *out, const void *in, size_t count,
                              ls_dtype dtype, ls_arena *temporary) LS_MUST_USE;

#endif
