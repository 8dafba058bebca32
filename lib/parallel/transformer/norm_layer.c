/* norm_layer.c - a norm with its parameters, forward and backward. */
#include "parallel/transformer/norm_layer.h"

#include "base/size.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/norm.h"

void ls_norm_bind(ls_norm *norm, const ls_store *store, ls_role scale, ls_role shift, size_t layer)
{
    const ls_config *config = &store->table->config;
    const ls_slot *scale_slot = ls_store_slot(store, scale, layer);
    const ls_slot *shift_slot = ls_store_slot(store, shift, layer);
    norm->kind = config->norm;
    norm->eps = config->norm_eps;
    norm->D = config->d_model;
    norm->scale = scale_slot->value;
    norm->dscale = scale_slot->grad[0];
    norm->shift = shift_slot ? shift_slot->value : NULL;
    norm->dshift = shift_slot ? shift_slot->grad[0] : NULL;
    norm->table = store->table;
    norm->scale_place = ls_param_find(store->table, scale, layer);
    norm->shift_place = ls_param_find(store->table, shift, layer);
}

ls_status ls_norm_keep_beside(const ls_norm *norm, ls_real *y, size_t n, ls_arena *arena,
                              ls_norm_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_norm_saved saved = {y, NULL, NULL};
    if (norm->kind == LS_LAYER_NORM)
        LS_TRY(ls_arena_alloc(arena, n, sizeof(ls_real), (void *)&saved.mean));
    LS_TRY(ls_arena_alloc(arena, n, sizeof(ls_real), (void *)&saved.rstd));
    *ret_kept = saved;
exit:
    return status;
}

ls_status ls_norm_keep(const ls_norm *norm, size_t n, ls_arena *arena, ls_norm_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_real *y;
    LS_TRY(ls_arena_alloc(arena, ls_size_product(n, norm->D), sizeof(ls_real), (void *)&y));
    LS_TRY(ls_norm_keep_beside(norm, y, n, arena, ret_kept));
exit:
    return status;
}

void ls_norm_forward(const ls_norm *norm, const ls_norm_saved *saved, const ls_real *x, size_t n)
{
    if (norm->kind == LS_LAYER_NORM)
        ls_layer_norm_forward(saved->y, saved->mean, saved->rstd, x, norm->scale, norm->shift, n,
                              norm->D, norm->eps);
    else
        ls_rms_norm_forward(saved->y, saved->rstd, x, norm->scale, n, norm->D, norm->eps);
}

size_t ls_norm_sums(const ls_norm *norm)
{
    return norm->dshift ? 2 : 1;
}

/* dscale, and dshift where it is one, over rows first .. of an array of tokens. */
static void parameters(const ls_norm *norm, const ls_norm_saved *saved, ls_real *dscale,
                       ls_real *dshift, const ls_real *dy, const ls_real *x, size_t first,
                       ls_axis tokens)
{
    dy += first * norm->D;
    x += first * norm->D;
    if (norm->kind == LS_LAYER_NORM)
        ls_layer_norm_backward_parameters(dscale, dshift, dy, x, saved->mean + first,
                                          saved->rstd + first, tokens, norm->D);
    else
        ls_rms_norm_backward_parameters(dscale, dy, x, saved->rstd + first, tokens, norm->D);
}

/* All tokens are here: one sum for each node of the batch. */
static void whole_parameters(const ls_tensor_parallel *tp, const ls_norm *norm,
                             const ls_norm_saved *saved, const ls_real *dy, const ls_real *x,
                             ls_axis tokens)
{
    for (size_t j = 0; j < ls_batch_sums_count(tp->sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(tp->sums, j, tokens);
        parameters(norm, saved, norm->dscale + sum.offset,
                   norm->dshift ? norm->dshift + sum.offset : NULL, dy, x,
                   sum.first * tokens.granule, sum.tokens);
    }
}

/* Own tokens are here: a part for each sequence and each node that they make of it. */
static ls_status own_parameters(const ls_norm *norm, const ls_norm_saved *saved, const ls_real *dy,
                                const ls_real *x, size_t own, ls_token_sums *sums)
{
    ls_status status = LS_OK;
    size_t scale = 0, shift = 0;
    LS_TRY(ls_token_sums_add(sums, norm->dscale, norm->table, norm->scale_place, &scale));
    if (norm->dshift)
        LS_TRY(ls_token_sums_add(sums, norm->dshift, norm->table, norm->shift_place, &shift));
    for (size_t j = 0; j < sums->n_nodes; j++)
        for (size_t b = 0; b < sums->tokens.granules; b++)
            parameters(norm, saved, ls_token_sums_part(sums, scale, j, b),
                       norm->dshift ? ls_token_sums_part(sums, shift, j, b) : NULL, dy, x,
                       b * own + sums->nodes[j].lo,
                       ls_axis_whole(sums->nodes[j].hi - sums->nodes[j].lo));
exit:
    return status;
}

ls_status ls_norm_backward(const ls_tensor_parallel *tp, const ls_norm *norm,
                           const ls_norm_saved *saved, ls_real *dx, const ls_real *dy,
                           const ls_real *x, const ls_real *residual, ls_axis tokens,
                           ls_token_sums *sums)
{
    ls_status status = LS_OK;
    ls_axis own = ls_own_tokens(tp, tokens);
    size_t n = ls_axis_extent(own);
    if (tp->sequence_parallel)
        LS_TRY(own_parameters(norm, saved, dy, x, own.granule, sums));
    else
        whole_parameters(tp, norm, saved, dy, x, tokens);
    if (norm->kind == LS_LAYER_NORM)
        ls_layer_norm_backward(dx, dy, x, norm->scale, saved->mean, saved->rstd, n, norm->D);
    else
        ls_rms_norm_backward(dx, dy, x, norm->scale, saved->rstd, n, norm->D);
    if (residual) ls_add(dx, dx, residual, n * norm->D);
exit:
    return status;
}
