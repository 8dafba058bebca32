/* forest_call.h - what the reductions of a forest have in common. */
#ifndef LS_COMM_FOREST_CALL_H
#define LS_COMM_FOREST_CALL_H

#include "comm/world_state.h"

/* Checks the forest, writes this member's nodes into its post, and says how many bytes its partials
 * of count elements have and where the finishing may keep its lists. Errors: LS_ERR_INPUT,
 * LS_ERR_MEMORY. */
ls_status ls_forest_prepare(ls_group *group, const ls_forest *forest, size_t count, ls_dtype dtype,
                            size_t *ret_bytes, void **ret_scratch) LS_MUST_USE;

/* out[0], ... = T(leaves) at elements lo <= i < hi of the current call. */
void ls_forest_work(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi);

/* The same for columns lo <= c < hi of every row, the call's arrays being rows x count: out is rows
 * x (hi - lo). */
void ls_forest_work_columns(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi);

#endif
