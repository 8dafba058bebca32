/* plan_finish.h - the members' values of a plan's parts put together. */
#ifndef LS_COMM_PLAN_FINISH_H
#define LS_COMM_PLAN_FINISH_H

#include "comm/world_state.h"

/* Elements handled together have so many bytes. */
enum { LS_PLAN_BLOCK_BYTES = 1024 };

/* One block for every value on the stack, and their addresses. */
static inline size_t ls_plan_scratch_bytes(const ls_sum_plan *plan)
{
    return plan->stack * (LS_PLAN_BLOCK_BYTES + sizeof(void *));
}

/* y[i - lo] = the sum at elements lo <= i < hi, from the values of all members; each holds its own
 * one after another, `stride` elements apart. y may be where the own first value has these
 * elements. Between entry and the next barrier. */
void ls_plan_finish_f32(const ls_team *team, const ls_sum_plan *plan, void *scratch, float *y,
                        size_t stride, size_t lo, size_t hi);
void ls_plan_finish_f64(const ls_team *team, const ls_sum_plan *plan, void *scratch, double *y,
                        size_t stride, size_t lo, size_t hi);

#endif
