/* sequence_parallel.c - all-gather before a block, reduce-scatter after it, dropout. */
#include "lockstep/parallel/sequence/sequence_parallel.h"

#include "base/size.h"
#include "lockstep/kernels/elementwise.h"
#include "parallel/hooks/observe.h"

/* Where each member's columns begin when a row holds one sequence, S x width. */
static ls_status token_starts(const ls_tensor_parallel *tp, size_t S, size_t width,
                              size_t **ret_starts)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(tp->group);
    size_t *starts;
    LS_TRY(ls_arena_alloc(tp->temporary, members + 1, sizeof *starts, (void *)&starts));
    ls_share_bounds(S, members, starts);
    for (size_t r = 0; r <= members; r++) starts[r] = ls_size_product(starts[r], width);
    *ret_starts = starts;
exit:
    return status;
}

ls_status ls_gather_tokens(const ls_tensor_parallel *tp, const ls_real *own, ls_axis tokens,
                           size_t width, const ls_real **ret_whole)
{
    ls_status status = LS_OK;
    ls_real *whole;
    size_t *starts;

    if (!tp->sequence_parallel) {
        ls_observe_next(tp, LS_POINTS, false); /* nothing crosses */
        *ret_whole = own;
        return LS_OK;
    }
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(ls_axis_extent(tokens), width),
                          sizeof *whole, (void *)&whole));
    LS_TRY(token_starts(tp, tokens.granule, width, &starts));
    /* Shares are runs of each sequence, not of the batch: a row is a sequence, its tokens are the
     * columns. */
    if (tp->observation) LS_TRY(ls_observe_at_own_crossing(tp, LS_COMM_SHARE, width, own));
    LS_TRY(ls_all_gather_columns(tp->group, whole, own, tokens.granules, starts, LS_REAL_DTYPE));
    if (tp->observation) LS_TRY(ls_observe_at_all_crossing(tp, LS_COMM_GATHERED, width, whole));
    *ret_whole = whole;
exit:
    return status;
}

ls_status ls_sum_to_own_tokens(const ls_tensor_parallel *tp, ls_real *own, const ls_real *partials,
                               ls_axis tokens, size_t width, const ls_forest *forest)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t *starts;

    if (!tp->sequence_parallel)
        return ls_all_reduce_forest(tp->group, own, partials,
                                    ls_size_product(ls_axis_extent(tokens), width), LS_REAL_DTYPE,
                                    forest);
    LS_TRY(token_starts(tp, tokens.granule, width, &starts));
    LS_TRY(ls_reduce_scatter_columns_forest(tp->group, own, partials, tokens.granules, starts,
                                            LS_REAL_DTYPE, forest));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

void ls_own_dropout(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x, ls_axis tokens,
                    size_t width, double p, ls_stream stream, size_t first)
{
    ls_share own = ls_own_share(tp, tokens.granule);
    size_t count = own.count * width;
    for (size_t b = 0; b < tokens.granules; b++)
        ls_dropout(y + b * count, x + b * count, count, p, stream,
                   ((uint64_t)(first + b) * tokens.granule + own.first) * width);
}
