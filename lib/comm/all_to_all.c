#include <string.h>

#include "base/size.h"
#include "comm/collective.h"

/* Sum of n numbers, `stride` apart; LS_ERR_INPUT when it cannot be addressed. */
static ls_status add_counts(const size_t *counts, size_t n, size_t stride, ls_dtype dtype,
                            size_t *ret_bytes)
{
    ls_status status = LS_OK;
    size_t total = 0, bytes = 0;
    for (size_t i = 0; i < n; i++) {
        LS_TRY(ls_bytes_of(counts[i * stride], dtype, &bytes));
        total = ls_size_plus(total, bytes);
    }
    if (total > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT, "all_to_all: a member's blocks are more than can be addressed");
    *ret_bytes = total;
exit:
    return status;
}

ls_status ls_all_to_all(ls_group *group, void *out, const void *in, const size_t *counts,
                        ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t size = (size_t)group->team->size, own = (size_t)group->member, e = ls_dtype_bytes(dtype);
    size_t in_bytes = 0, out_bytes = 0, total = 0;
    LS_TRY(add_counts(counts + own * size, size, 1, dtype, &in_bytes));
    LS_TRY(add_counts(counts + own, size, size, dtype, &out_bytes));
    LS_TRY(ls_check_apart(out, out_bytes, in, in_bytes));
    for (size_t i = 0; i < size * size; i++) total += counts[i]; /* for the error text only */
    ls_call call = {.kind = LS_CALL_ALL_TO_ALL,
                    .dtype = dtype,
                    .count = total,
                    .shares = counts,
                    .n_shares = size * size};
    size_t kept_bytes = counts[own * size + own] * e;
    LS_TRY(ls_collective_enter(group, call, in, NULL, in_bytes - kept_bytes));
    char *to = out;
    for (size_t s = 0; s < size; s++) {
        size_t before = 0; /* what sender s has for the receivers before this one */
        for (size_t r = 0; r < own; r++) before += counts[s * size + r];
        size_t bytes = counts[s * size + own] * e;
        if (bytes > 0) memcpy(to, (const char *)group->team->posts[s].in + before * e, bytes);
        to += bytes;
    }
    LS_TRY(ls_collective_leave(group));
exit:
    return ls_collective_end(group, status);
}
