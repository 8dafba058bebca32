#include "comm/plan_call.h"

#include "base/size.h"
#include "comm/collective.h"
#include "comm/plan_finish.h"

ls_status ls_plan_prepare(ls_group *group, const ls_sum_plan *plan, size_t count, ls_dtype dtype,
                          size_t *ret_bytes, void **ret_scratch)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, bytes = 0;
    if (dtype != LS_F32 && dtype != LS_F64)
        LS_FAIL(LS_ERR_INPUT, "a sum plan of %s: only F32 and F64 are added in a tree",
                ls_dtype_name(dtype));
    if (plan->members != size)
        LS_FAIL(LS_ERR_INPUT, "a sum plan of %zu members in group %s, which has %zu", plan->members,
                group->team->name, size);
    size_t own = plan->member_parts[group->member];
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    bytes = ls_size_product(own, bytes);
    if (bytes > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT, "%zu partials of %zu elements are more than can be addressed", own,
                count);
    LS_TRY(ls_group_scratch(group, ls_plan_scratch_bytes(plan), ret_scratch));
    *ret_bytes = bytes;
exit:
    return status;
}

/* Arrays of `stride` elements. */
static void work(const ls_group *group, void *scratch, void *out, size_t stride, size_t lo,
                 size_t hi)
{
    const ls_call *call = &group->team->posts[group->member].call;
    if (lo == hi) return;
    if (call->dtype == LS_F32)
        ls_plan_finish_f32(group->team, call->plan, scratch, out, stride, lo, hi);
    else
        ls_plan_finish_f64(group->team, call->plan, scratch, out, stride, lo, hi);
}

void ls_plan_work(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi)
{
    work(group, scratch, out, group->team->posts[group->member].call.count, lo, hi);
}

void ls_plan_work_columns(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi)
{
    const ls_call *call = &group->team->posts[group->member].call;
    size_t columns = call->count, own_bytes = (hi - lo) * ls_dtype_bytes(call->dtype);
    for (size_t row = 0; row < call->rows; row++)
        work(group, scratch, (char *)out + row * own_bytes, call->rows * columns,
             row * columns + lo, row * columns + hi);
}
