/* layer_post.c - a layer with its norms after the residual sums, as BERT was published.
 *
 *     x1 = dropout(attention(x)) + x         n = norm1(x1)
 *     x2 = dropout(mlp(n)) + n               y = norm2(x2)
 *
 * A block reads its input without a norm, and the residual bypasses the block and the dropout but
 * not the norm. The communication is the same as with the norms before the blocks; with sequence
 * parallelism the all-gather and the reduce-scatter are on the other side of the norms. */
#include "lockstep/kernels/elementwise.h"
#include "parallel/transformer/layer.h"
#include "parallel/hooks/observe.h"

ls_status ls_layer_post_forward(const ls_tensor_parallel *tp, const ls_layer *layer,
                                const ls_layer_saved *saved, ls_real *y, const ls_batch *batch)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(batch);
    size_t n = ls_axis_extent(ls_own_tokens(tp, tokens));
    ls_norm_saved norm2 = saved->norm2;

    LS_TRY(ls_attention_block_forward(tp, &layer->attention, saved->x1, &saved->attention, saved->x,
                                      batch));
    ls_layer_dropout(tp, layer, saved->x1, saved->x1, LS_RANDOM_DROPOUT_ATTN_OUT, batch);
    ls_add(saved->x1, saved->x1, saved->x, n * layer->D);
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_ATTENTION, false, layer->D, saved->x1));
    ls_norm_forward(&layer->norm1, &saved->norm1, saved->x1, n);
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM1, false, layer->D, saved->norm1.y));

    LS_TRY(ls_mlp_forward(tp, &layer->mlp, saved->x2, &saved->mlp, saved->norm1.y, tokens));
    ls_layer_dropout(tp, layer, saved->x2, saved->x2, LS_RANDOM_DROPOUT_MLP, batch);
    ls_add(saved->x2, saved->x2, saved->norm1.y, n * layer->D);
    norm2.y = y;
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_MLP, false, layer->D, saved->x2));
    ls_norm_forward(&layer->norm2, &norm2, saved->x2, n);
    LS_TRY(ls_observe_own(tp, LS_POINT_LAYER, false, layer->D, y));
exit:
    return status;
}

ls_status ls_layer_post_backward(const ls_tensor_parallel *tp, const ls_layer *layer,
                                 const ls_layer_saved *saved, ls_real *dx, const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_axis tokens = ls_batch_tokens(batch);
    size_t count = ls_axis_extent(ls_own_tokens(tp, tokens)) * layer->D;
    ls_token_sums sums;
    ls_real *d_block, *d_through;

    LS_TRY(ls_token_sums_open(&sums, tp, tokens, layer->D,
                              ls_norm_sums(&layer->norm1) + ls_norm_sums(&layer->norm2)));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof(ls_real), (void *)&d_block));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof(ls_real), (void *)&d_through));

    /* y = norm2(x2), x2 = dropout(mlp(n)) + n: what came through the block, + what came next to it
     */
    LS_TRY(ls_observe_own(tp, LS_POINT_LAYER, true, layer->D, dx));
    LS_TRY(
        ls_norm_backward(tp, &layer->norm2, &saved->norm2, dx, dx, saved->x2, NULL, tokens, &sums));
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_MLP, true, layer->D, dx));
    ls_layer_dropout(tp, layer, d_block, dx, LS_RANDOM_DROPOUT_MLP, batch);
    LS_TRY(
        ls_mlp_backward(tp, &layer->mlp, d_through, d_block, &saved->mlp, saved->norm1.y, tokens));
    ls_add(dx, d_through, dx, count);

    /* n = norm1(x1), x1 = dropout(attention(x)) + x */
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM1, true, layer->D, dx));
    LS_TRY(
        ls_norm_backward(tp, &layer->norm1, &saved->norm1, dx, dx, saved->x1, NULL, tokens, &sums));
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_ATTENTION, true, layer->D, dx));
    ls_layer_dropout(tp, layer, d_block, dx, LS_RANDOM_DROPOUT_ATTN_OUT, batch);
    LS_TRY(ls_attention_block_backward(tp, &layer->attention, d_through, d_block, &saved->attention,
                                       saved->x, batch));
    ls_add(dx, d_through, dx, count);
    LS_TRY(ls_token_sums_finish(&sums));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
