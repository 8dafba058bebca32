/* All kinds of all-reduce have the same two phases. First every member finishes its slice of the
 * elements, reading the others' inputs in place; then it copies the finished slices of the others.
 *
 *              in of members 0, 1, 2         out after phase 1       after phase 2
 *     member 0   a0 b0 c0                      A                       A B C
 *     member 1   a1 b1 c1                        B                     A B C
 *     member 2   a2 b2 c2                          C                   A B C
 *
 * In place: member m writes only slice m before the middle barrier, and only member m reads slice m
 * of any member's input then; after it, it writes the other slices, which no operation reads any
 * more.
 *
 * Where there is less to add than a barrier costs, every member finishes all elements itself: the
 * same additions in the same order, so the same bits. */
#include <string.h>

#include "comm/collective.h"
#include "comm/forest_call.h"
#include "comm/plan_call.h"
#include "comm/reduction.h"

/* Elements up to which every member does everything itself. */
enum { SMALL = 256 };

/* Writes the result at elements lo <= i < hi of the current call to out[0], ... */
typedef void (*finish_function)(const ls_group *group, void *scratch, void *out, size_t lo,
                                size_t hi);

static void copy_other_slices(const ls_group *group, void *out)
{
    const ls_team *team = group->team;
    const ls_call *call = &team->posts[group->member].call;
    size_t e = ls_dtype_bytes(call->dtype);
    for (int k = 1; k < team->size; k++) {
        int m = (group->member + k) % team->size; /* not all from the same member at once */
        size_t lo = 0, hi = 0;
        ls_slice_of(group, m, call->count, call->dtype, &lo, &hi);
        if (lo < hi)
            memcpy((char *)out + lo * e, (const char *)team->posts[m].out + lo * e, (hi - lo) * e);
    }
}

/* What comes between entering and the end. */
static ls_status reduce(ls_group *group, void *out, finish_function finish, void *scratch)
{
    ls_status status = LS_OK;
    const ls_call *call = &group->team->posts[group->member].call;
    size_t e = ls_dtype_bytes(call->dtype), lo = 0, hi = 0;
    if (call->count <= SMALL) {
        _Alignas(64) char result[SMALL * 8];
        finish(group, scratch, result, 0, call->count);
        LS_TRY(ls_collective_leave(group)); /* out may be what others read until here */
        if (call->count > 0) memcpy(out, result, call->count * e);
    } else {
        ls_slice_of(group, group->member, call->count, call->dtype, &lo, &hi);
        finish(group, scratch, (char *)out + lo * e, lo, hi);
        LS_TRY(ls_collective_middle(group));
        copy_other_slices(group, out);
        LS_TRY(ls_collective_leave(group));
    }
exit:
    return status;
}

ls_status ls_all_reduce_forest(ls_group *group, void *out, const void *in, size_t count,
                               ls_dtype dtype, const ls_forest *forest)
{
    ls_status status = LS_OK;
    size_t in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_forest_prepare(group, forest, count, dtype, &in_bytes, &scratch));
    size_t e = ls_dtype_bytes(dtype);
    if (out != in) LS_TRY(ls_check_apart(out, count * e, in, in_bytes));
    ls_call call = {.kind = LS_CALL_ALL_REDUCE_FOREST,
                    .dtype = dtype,
                    .count = count,
                    .leaves = forest->leaves,
                    .bounds = forest->bounds};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    LS_TRY(reduce(group, out, ls_forest_work, scratch));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_all_reduce_plan(ls_group *group, void *out, const void *in, size_t count,
                             ls_dtype dtype, const ls_sum_plan *plan)
{
    ls_status status = LS_OK;
    size_t in_bytes = 0;
    void *scratch = NULL;
    LS_TRY(ls_plan_prepare(group, plan, count, dtype, &in_bytes, &scratch));
    size_t e = ls_dtype_bytes(dtype);
    if (out != in) LS_TRY(ls_check_apart(out, count * e, in, in_bytes));
    ls_call call = {.kind = LS_CALL_ALL_REDUCE_PLAN, .dtype = dtype, .count = count, .plan = plan};
    LS_TRY(ls_collective_enter(group, call, in, out, in_bytes));
    LS_TRY(reduce(group, out, ls_plan_work, scratch));
exit:
    return ls_collective_end(group, status);
}

/* The reduction over the members at elements lo <= i < hi; out may be where the own input has them.
 */
static void reduce_slice(const ls_group *group, void *scratch, void *out, size_t lo, size_t hi)
{
    enum { BLOCK_BYTES = 1024 };
    (void)scratch;
    const ls_team *team = group->team;
    const ls_call *call = &team->posts[group->member].call;
    size_t e = ls_dtype_bytes(call->dtype), block = BLOCK_BYTES / e;
    _Alignas(64) char result[BLOCK_BYTES];
    for (size_t i = lo; i < hi; i += block) {
        size_t n = hi - i < block ? hi - i : block;
        memcpy(result, (const char *)team->posts[0].in + i * e, n * e);
        for (int m = 1; m < team->size; m++)
            ls_reduce_into(result, (const char *)team->posts[m].in + i * e, n, call->dtype,
                           call->reduction);
        memcpy((char *)out + (i - lo) * e, result, n * e);
    }
}

ls_status ls_all_reduce(ls_group *group, void *out, const void *in, size_t count, ls_dtype dtype,
                        ls_reduction reduction)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    if (reduction == LS_REDUCE_SUM && (dtype == LS_F32 || dtype == LS_F64))
        LS_FAIL(
            LS_ERR_INPUT,
            "all_reduce for the sum of %s: a floating-point sum has an order, it takes a forest",
            ls_dtype_name(dtype));
    if (!ls_can_reduce(dtype, reduction))
        LS_FAIL(LS_ERR_INPUT, "all_reduce of %s: only F32, F64, I32, I64 and U8 are reduced",
                ls_dtype_name(dtype));
    if (out != in) LS_TRY(ls_check_apart(out, bytes, in, bytes));
    ls_call call = {
        .kind = LS_CALL_ALL_REDUCE, .dtype = dtype, .count = count, .reduction = reduction};
    LS_TRY(ls_collective_enter(group, call, in, out, bytes));
    LS_TRY(reduce(group, out, reduce_slice, NULL));
exit:
    return ls_collective_end(group, status);
}
