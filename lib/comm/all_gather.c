/* Every member copies what the others hand in: P - 1 copies each, no intermediate stop. */
#include <string.h>

#include "comm/collective.h"

/* Checks the shares and gives their element size and the bytes of the own one. */
static ls_status check(const ls_group *group, size_t rows, const size_t *starts, ls_dtype dtype,
                       size_t *ret_all_bytes, size_t *ret_own_bytes)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    LS_TRY(ls_check_starts("starts", starts, size));
    LS_TRY(ls_bytes_of_rows(rows, starts[size], dtype, ret_all_bytes));
    *ret_own_bytes = rows * (starts[own + 1] - starts[own]) * ls_dtype_bytes(dtype);
exit:
    return status;
}

ls_status ls_all_gather(ls_group *group, void *out, const void *in, const size_t *starts,
                        ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t all_bytes = 0, own_bytes = 0, e = ls_dtype_bytes(dtype);
    char *to = out;
    LS_TRY(check(group, 1, starts, dtype, &all_bytes, &own_bytes));
    bool in_place = own_bytes == 0 || in == to + starts[own] * e;
    if (!in_place) LS_TRY(ls_check_apart(out, all_bytes, in, own_bytes));
    ls_call call = {.kind = LS_CALL_ALL_GATHER,
                    .dtype = dtype,
                    .count = starts[size],
                    .shares = starts,
                    .n_shares = size + 1};
    LS_TRY(ls_collective_enter(group, call, in, NULL, own_bytes));
    for (size_t k = 0; k < size; k++) {
        size_t m = (own + k) % size; /* not all from the same member at once */
        size_t bytes = (starts[m + 1] - starts[m]) * e;
        if (bytes == 0 || (m == own && in_place)) continue;
        memcpy(to + starts[m] * e, group->team->posts[m].in, bytes);
    }
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_all_gather_columns(ls_group *group, void *out, const void *in, size_t rows,
                                const size_t *starts, ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member;
    size_t all_bytes = 0, own_bytes = 0, e = ls_dtype_bytes(dtype);
    LS_TRY(check(group, rows, starts, dtype, &all_bytes, &own_bytes));
    LS_TRY(ls_check_apart(out, all_bytes, in, own_bytes));
    ls_call call = {.kind = LS_CALL_ALL_GATHER_COLUMNS,
                    .dtype = dtype,
                    .count = starts[size],
                    .rows = rows,
                    .shares = starts,
                    .n_shares = size + 1};
    LS_TRY(ls_collective_enter(group, call, in, NULL, own_bytes));
    for (size_t k = 0; k < size; k++) {
        size_t m = (own + k) % size;
        size_t bytes = (starts[m + 1] - starts[m]) * e;
        if (bytes == 0) continue;
        const char *from = group->team->posts[m].in;
        char *to = (char *)out + starts[m] * e;
        for (size_t row = 0; row < rows; row++)
            memcpy(to + row * starts[size] * e, from + row * bytes, bytes);
    }
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}
