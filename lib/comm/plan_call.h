/* plan_call.h - what the reductions along a plan have in common. */
#ifndef LS_COMM_PLAN_CALL_H
#define LS_COMM_PLAN_CALL_H

#include "comm/world_state.h"

/* Checks that the plan is of this group, and says how many bytes this member's values of count
 * elements have and where the finishing may keep its blocks. Errors: LS_ERR_INPUT, LS_ERR_MEMORY.
 */
ls_status ls_plan_prepare(ls_group *group, const ls_sum_plan *plan, size_t count, ls_dtype dtype,
                          size_t *ret_bytes, void **ret_scratch) LS_MUST_USE;

/* out[0], ... = the sum at elements lo <= i < hi of the current call. */
void ls_plan_work(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi);

/* The same for columns lo <= c < hi of every row, the call's arrays being rows x count: out is rows
 * x (hi - lo). */
void ls_plan_work_columns(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi);

#endif
