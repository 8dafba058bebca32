#include "comm/collective.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/size.h"
#include "comm/abort.h"
#include "comm/barrier.h"
#include "comm/trace_lane.h"
#include "lockstep/base/clock.h"

/* What a call counts as; LS_OP_COUNT: it does not. */
static ls_operation counted_as(ls_call_kind kind)
{
    switch (kind) {
    case LS_CALL_BARRIER:
        return LS_OP_BARRIER;
    case LS_CALL_SPLIT:
        return LS_OP_COUNT; /* part of setting up, not of a step */
    case LS_CALL_BROADCAST:
        return LS_OP_BROADCAST;
    case LS_CALL_ALL_REDUCE:
    case LS_CALL_ALL_REDUCE_FOREST:
    case LS_CALL_ALL_REDUCE_PLAN:
        return LS_OP_ALL_REDUCE;
    case LS_CALL_REDUCE_SCATTER_FOREST:
    case LS_CALL_REDUCE_SCATTER_COLUMNS_FOREST:
    case LS_CALL_REDUCE_SCATTER_PLAN:
    case LS_CALL_REDUCE_SCATTER_COLUMNS_PLAN:
        return LS_OP_REDUCE_SCATTER;
    case LS_CALL_ALL_GATHER:
    case LS_CALL_ALL_GATHER_COLUMNS:
        return LS_OP_ALL_GATHER;
    case LS_CALL_ALL_TO_ALL:
        return LS_OP_ALL_TO_ALL;
    case LS_CALL_SEND:
    case LS_CALL_SEND_BEGIN:
        return LS_OP_SEND;
    case LS_CALL_RECEIVE:
        return LS_OP_RECEIVE;
    case LS_CALL_SEND_RECEIVE: /* counts as both of its halves */
    case LS_CALL_SEND_END:     /* counted when it began */
        break;
    }
    return LS_OP_COUNT;
}

/* A pause that differs from rank to rank and from call to call, the same in every run with this
 * seed (splitmix64). */
static void pause_at_random(ls_rank *rank)
{
    const ls_world_options *options = &rank->world->options;
    if (options->delay_seed == 0 || options->delay_max_ns == 0) return;
    uint64_t z = rank->delay_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    /* Every second one is none at all: the fast must also meet the slow. */
    if (z % 2 == 0) ls_clock_sleep_ns((z >> 1) % options->delay_max_ns);
}

ls_status ls_communication_begin(ls_group *group, ls_call_kind kind, uint64_t bytes)
{
    ls_status status = LS_OK;
    ls_operation operation = counted_as(kind);
    LS_TRY(ls_abort_check(group->rank));
    LS_TRY(ls_trace_enter(group, kind, operation, bytes));
    pause_at_random(group->rank);
    if (operation != LS_OP_COUNT) {
        group->counts[operation].calls++;
        group->counts[operation].bytes += bytes;
        group->rank->counts[operation].calls++;
        group->rank->counts[operation].bytes += bytes;
    }
exit:
    return status;
}

ls_status ls_collective_enter(ls_group *group, ls_call call, const void *in, void *out,
                              uint64_t bytes)
{
    ls_status status = LS_OK;
    LS_TRY(ls_communication_begin(group, call.kind, bytes));
    ls_post *post = &group->team->posts[group->member];
    call.number = ++group->calls;
    ls_trace_number(group->rank, call.number);
    post->call = call;
    post->in = in;
    post->out = out;
    if (group->team->size == 1) return LS_OK;
    LS_TRY(ls_barrier_arrive(group, call.kind, LS_MEETING_ENTRY));
    if (group->team->mismatch) LS_FAIL(LS_ERR_RANK, "%s", group->team->verdict);
exit:
    return status;
}

static ls_status meet(ls_group *group, ls_im2col_run meeting)
{
    if (group->team->size == 1) return LS_OK;
    return ls_barrier_arrive(group, group->team->posts[group->member].call.kind, meeting);
}

ls_status ls_collective_middle(ls_group *group)
{
    return meet(group, LS_MEETING_MIDDLE);
}

ls_status ls_collective_leave(ls_group *group)
{
    return meet(group, LS_MEETING_EXIT);
}

ls_status ls_collective_end(ls_group *group, ls_status status)
{
    ls_trace_leave(group->rank);
    if (status == LS_OK) return LS_OK;
    atomic_store(&group->team->posts[group->member].gone, true);
    return ls_abort(group->rank, status);
}

ls_status ls_barrier(ls_group *group)
{
    ls_call call = {.kind = LS_CALL_BARRIER};
    return ls_collective_end(group, ls_collective_enter(group, call, NULL, NULL, 0));
}

ls_status ls_bytes_of(size_t count, ls_dtype dtype, size_t *ret_bytes)
{
    ls_status status = LS_OK;
    size_t size = ls_dtype_bytes(dtype);
    if (size == 0) LS_FAIL(LS_ERR_INPUT, "dtype %d is none", (int)dtype);
    size_t bytes = ls_size_product(count, size);
    if (bytes > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT, "%zu elements of %s are more than can be addressed", count,
                ls_dtype_name(dtype));
    *ret_bytes = bytes;
exit:
    return status;
}

ls_status ls_bytes_of_rows(size_t rows, size_t columns, ls_dtype dtype, size_t *ret_bytes)
{
    ls_status status = LS_OK;
    size_t row_bytes = 0;
    LS_TRY(ls_bytes_of(columns, dtype, &row_bytes));
    size_t bytes = ls_size_product(rows, row_bytes);
    if (bytes > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT, "%zu rows of %zu elements of %s are more than can be addressed", rows,
                columns, ls_dtype_name(dtype));
    *ret_bytes = bytes;
exit:
    return status;
}

ls_status ls_check_starts(const char *what, const size_t *starts, size_t n)
{
    ls_status status = LS_OK;
    if (starts[0] != 0) LS_FAIL(LS_ERR_INPUT, "%s[0] is %zu, must be 0", what, starts[0]);
    for (size_t i = 0; i < n; i++)
        if (starts[i + 1] < starts[i])
            LS_FAIL(LS_ERR_INPUT, "%s[%zu] is %zu, below %s[%zu] = %zu", what, i + 1, starts[i + 1],
                    what, i, starts[i]);
exit:
    return status;
}

ls_status ls_check_apart(const void *out, size_t out_bytes, const void *in, size_t in_bytes)
{
    ls_status status = LS_OK;
    uintptr_t o = (uintptr_t)out, i = (uintptr_t)in;
    if (out_bytes > 0 && in_bytes > 0 && o < i + in_bytes && i < o + out_bytes)
        LS_FAIL(LS_ERR_INPUT,
                "out (%zu bytes) and in (%zu bytes) overlap: %s starts %zu bytes into %s",
                out_bytes, in_bytes, o < i ? "in" : "out", (size_t)(o < i ? i - o : o - i),
                o < i ? "out" : "in");
exit:
    return status;
}

void ls_slice_of(const ls_group *group, int m, size_t count, ls_dtype dtype, size_t *ret_lo,
                 size_t *ret_hi)
{
    size_t line = 64 / ls_dtype_bytes(dtype), size = (size_t)group->team->size;
    size_t lines = count / line + (count % line != 0);
    size_t share = (lines / size + (lines % size != 0)) * line;
    size_t lo = (size_t)m * share < count ? (size_t)m * share : count;
    *ret_lo = lo;
    *ret_hi = count - lo > share ? lo + share : count;
}

ls_status ls_group_scratch(ls_group *group, size_t bytes, void **ret_scratch)
{
    ls_status status = LS_OK;
    if (group->scratch_bytes < bytes) {
        void *larger = NULL;
        LS_BYTES(larger, ls_size_product(2, bytes));
        free(group->scratch);
        group->scratch = larger;
        group->scratch_bytes = 2 * bytes;
    }
    *ret_scratch = group->scratch;
exit:
    return status;
}
