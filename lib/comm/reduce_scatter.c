/* The first half of an all-reduce, with shares that the caller chooses. */
#include "comm/collective.h"
#include "comm/forest_call.h"
#include "comm/plan_call.h"

ls_status ls_reduce_scatter_forest(ls_group *group, void *out, const void *in, const size_t *starts,
                                   ls_dtype dtype, const ls_forest *forest)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_check_starts("starts", starts, size));
    LS_TRY(ls_forest_prepare(group, forest, starts[size], dtype, &in_bytes, &scratch));
    size_t lo = starts[own], hi = starts[own + 1];
    LS_TRY(ls_check_apart(out, (hi - lo) * ls_dtype_bytes(dtype), in, in_bytes));
    ls_call call = {.kind = LS_CALL_REDUCE_SCATTER_FOREST,
                    .dtype = dtype,
                    .count = starts[size],
                    .shares = starts,
                    .n_shares = size + 1,
                    .leaves = forest->leaves,
                    .bounds = forest->bounds};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    ls_forest_work(group, scratch, out, lo, hi);
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_reduce_scatter_columns_forest(ls_group *group, void *out, const void *in, size_t rows,
                                           const size_t *starts, ls_dtype dtype,
                                           const ls_forest *forest)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t all_bytes = 0, in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_check_starts("starts", starts, size));
    LS_TRY(ls_bytes_of_rows(rows, starts[size], dtype, &all_bytes));
    LS_TRY(ls_forest_prepare(group, forest, rows * starts[size], dtype, &in_bytes, &scratch));
    size_t lo = starts[own], hi = starts[own + 1];
    LS_TRY(ls_check_apart(out, rows * (hi - lo) * ls_dtype_bytes(dtype), in, in_bytes));
    ls_call call = {.kind = LS_CALL_REDUCE_SCATTER_COLUMNS_FOREST,
                    .dtype = dtype,
                    .count = starts[size],
                    .rows = rows,
                    .shares = starts,
                    .n_shares = size + 1,
                    .leaves = forest->leaves,
                    .bounds = forest->bounds};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    ls_forest_work_columns(group, scratch, out, lo, hi);
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_reduce_scatter_plan(ls_group *group, void *out, const void *in, const size_t *starts,
                                 ls_dtype dtype, const ls_sum_plan *plan)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_check_starts("starts", starts, size));
    LS_TRY(ls_plan_prepare(group, plan, starts[size], dtype, &in_bytes, &scratch));
    size_t lo = starts[own], hi = starts[own + 1];
    LS_TRY(ls_check_apart(out, (hi - lo) * ls_dtype_bytes(dtype), in, in_bytes));
    ls_call call = {.kind = LS_CALL_REDUCE_SCATTER_PLAN,
                    .dtype = dtype,
                    .count = starts[size],
                    .shares = starts,
                    .n_shares = size + 1,
                    .plan = plan};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    ls_plan_work(group, scratch, out, lo, hi);
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_reduce_scatter_columns_plan(ls_group *group, void *out, const void *in, size_t rows,
                                         const size_t *starts, ls_dtype dtype,
                                         const ls_sum_plan *plan)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t all_bytes = 0, in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_check_starts("starts", starts, size));
    LS_TRY(ls_bytes_of_rows(rows, starts[size], dtype, &all_bytes));
    LS_TRY(ls_plan_prepare(group, plan, rows * starts[size], dtype, &in_bytes, &scratch));
    size_t lo = starts[own], hi = starts[own + 1];
    LS_TRY(ls_check_apart(out, rows * (hi - lo) * ls_dtype_bytes(dtype), in, in_bytes));
    ls_call call = {.kind = LS_CALL_REDUCE_SCATTER_COLUMNS_PLAN,
                    .dtype = dtype,
                    .count = starts[size],
                    .rows = rows,
                    .shares = starts,
                    .n_shares = size + 1,
                    .plan = plan};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    ls_plan_work_columns(group, scratch, out, lo, hi);
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}
