/* layer.c - a layer with its norms before the blocks, forward and backward (layer.h). */
#include "parallel/transformer/layer.h"

#include "lockstep/kernels/elementwise.h"
#include "parallel/hooks/observe.h"

static ls_real *value(const ls_store *store, ls_role role, size_t layer)
{
    ls_slot *slot = ls_store_slot(store, role, layer);
    return slot ? slot->value : NULL;
}

static ls_real *gradient(const ls_store *store, ls_role role, size_t layer)
{
    ls_slot *slot = ls_store_slot(store, role, layer);
    return slot ? slot->grad[0] : NULL;
}

void ls_layer_bind(ls_layer *layer, const ls_store *store, const ls_cuts *cuts,
                   const ls_kv_sharing *kv, const ls_real *cos, const ls_real *sin, size_t number,
                   ls_recompute recompute)
{
    const ls_config *config = &store->table->config;
    layer->number = (uint32_t)number;
    layer->place = config->norm_place;
    layer->D = config->d_model;
    layer->dropout = config->dropout;
    ls_norm_bind(&layer->norm1, store, LS_NORM1_SCALE, LS_NORM1_SHIFT, number);
    ls_norm_bind(&layer->norm2, store, LS_NORM2_SCALE, LS_NORM2_SHIFT, number);

    ls_attention_block *a = &layer->attention;
    a->D = config->d_model;
    a->head_width = ls_config_head_width(config);
    a->heads = cuts->heads;
    a->kv_heads = config->kv_heads;
    a->kv = kv;
    a->causal = config->causal;
    a->recompute_core = recompute == LS_RECOMPUTE_SELECTIVE;
    a->cos = cos;
    a->sin = sin;
    a->dropout = config->dropout;
    a->layer = layer->number;
    a->w_q = value(store, LS_QUERY_WEIGHT, number);
    a->b_q = value(store, LS_QUERY_BIAS, number);
    a->w_k = value(store, LS_KEY_WEIGHT, number);
    a->b_k = value(store, LS_KEY_BIAS, number);
    a->w_v = value(store, LS_VALUE_WEIGHT, number);
    a->b_v = value(store, LS_VALUE_BIAS, number);
    a->w_o = value(store, LS_ATTN_OUT_WEIGHT, number);
    a->b_o = value(store, LS_ATTN_OUT_BIAS, number);
    a->dw_q = gradient(store, LS_QUERY_WEIGHT, number);
    a->db_q = gradient(store, LS_QUERY_BIAS, number);
    a->dw_k = gradient(store, LS_KEY_WEIGHT, number);
    a->db_k = gradient(store, LS_KEY_BIAS, number);
    a->dw_v = gradient(store, LS_VALUE_WEIGHT, number);
    a->db_v = gradient(store, LS_VALUE_BIAS, number);
    a->dw_o = gradient(store, LS_ATTN_OUT_WEIGHT, number);
    a->db_o = gradient(store, LS_ATTN_OUT_BIAS, number);

    ls_mlp *m = &layer->mlp;
    m->activation = config->activation;
    m->cut = config->mlp_cut;
    m->D = config->d_model;
    m->ff = cuts->ff;
    m->model = cuts->model;
    m->w_gate = value(store, LS_MLP_GATE_WEIGHT, number);
    m->w_up = value(store, LS_MLP_UP_WEIGHT, number);
    m->b_up = value(store, LS_MLP_UP_BIAS, number);
    m->w_down = value(store, LS_MLP_DOWN_WEIGHT, number);
    m->b_down = value(store, LS_MLP_DOWN_BIAS, number);
    m->dw_gate = gradient(store, LS_MLP_GATE_WEIGHT, number);
    m->dw_up = gradient(store, LS_MLP_UP_WEIGHT, number);
    m->db_up = gradient(store, LS_MLP_UP_BIAS, number);
    m->dw_down = gradient(store, LS_MLP_DOWN_WEIGHT, number);
    m->db_down = gradient(store, LS_MLP_DOWN_BIAS, number);
}

ls_status ls_layer_keep(const ls_tensor_parallel *tp, const ls_layer *layer, size_t B, size_t S,
                        ls_arena *arena, ls_layer_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_layer_saved saved = {0};
    size_t n = ls_axis_extent(ls_own_tokens(tp, ls_axis_of(B, S)));
    LS_TRY(ls_norm_keep(&layer->norm1, n, arena, &saved.norm1));
    LS_TRY(ls_attention_keep(tp, &layer->attention, B, S, arena, &saved.attention));
    LS_TRY(ls_arena_alloc(arena, n * layer->D, sizeof(ls_real), (void *)&saved.x1));
    if (layer->place == LS_NORM_PRE)
        LS_TRY(ls_norm_keep(&layer->norm2, n, arena, &saved.norm2));
    else
        LS_TRY(ls_norm_keep_beside(&layer->norm2, NULL, n, arena, &saved.norm2));
    LS_TRY(ls_mlp_keep(tp, &layer->mlp, B * S, arena, &saved.mlp));
    if (layer->place == LS_NORM_POST)
        LS_TRY(ls_arena_alloc(arena, n * layer->D, sizeof(ls_real), (void *)&saved.x2));
    *ret_kept = saved;
exit:
    return status;
}

ls_status ls_layer_forward(const ls_tensor_parallel *tp, const ls_layer *layer,
                           const ls_layer_saved *saved, ls_real *y, const ls_batch *batch)
{
    ls_status status = LS_OK;
    ls_axis tokens = ls_batch_tokens(batch);
    size_t n = ls_axis_extent(ls_own_tokens(tp, tokens));

    if (layer->place == LS_NORM_POST) return ls_layer_post_forward(tp, layer, saved, y, batch);
    ls_norm_forward(&layer->norm1, &saved->norm1, saved->x, n);
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM1, false, layer->D, saved->norm1.y));
    LS_TRY(ls_attention_block_forward(tp, &layer->attention, saved->x1, &saved->attention,
                                      saved->norm1.y, batch));
    ls_layer_dropout(tp, layer, saved->x1, saved->x1, LS_RANDOM_DROPOUT_ATTN_OUT, batch);
    ls_add(saved->x1, saved->x1, saved->x, n * layer->D);
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_ATTENTION, false, layer->D, saved->x1));

    ls_norm_forward(&layer->norm2, &saved->norm2, saved->x1, n);
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM2, false, layer->D, saved->norm2.y));
    LS_TRY(ls_mlp_forward(tp, &layer->mlp, y, &saved->mlp, saved->norm2.y, tokens));
    ls_layer_dropout(tp, layer, y, y, LS_RANDOM_DROPOUT_MLP, batch);
    ls_add(y, y, saved->x1, n * layer->D);
    LS_TRY(ls_observe_own(tp, LS_POINT_LAYER, false, layer->D, y));
exit:
    return status;
}

ls_status ls_layer_backward(const ls_tensor_parallel *tp, const ls_layer *layer,
                            const ls_layer_saved *saved, ls_real *dx, const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_axis tokens = ls_batch_tokens(batch);
    size_t count = ls_axis_extent(ls_own_tokens(tp, tokens)) * layer->D;
    ls_token_sums sums;
    ls_real *d_block, *d_norm;

    if (layer->place == LS_NORM_POST) return ls_layer_post_backward(tp, layer, saved, dx, batch);
    LS_TRY(ls_token_sums_open(&sums, tp, tokens, layer->D,
                              ls_norm_sums(&layer->norm1) + ls_norm_sums(&layer->norm2)));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof(ls_real), (void *)&d_block));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof(ls_real), (void *)&d_norm));

    /* x2 = dropout(mlp(norm2(x1))) + x1 */
    LS_TRY(ls_observe_own(tp, LS_POINT_LAYER, true, layer->D, dx));
    ls_layer_dropout(tp, layer, d_block, dx, LS_RANDOM_DROPOUT_MLP, batch);
    LS_TRY(ls_mlp_backward(tp, &layer->mlp, d_norm, d_block, &saved->mlp, saved->norm2.y, tokens));
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM2, true, layer->D, d_norm));
    LS_TRY(ls_norm_backward(tp, &layer->norm2, &saved->norm2, d_norm, d_norm, saved->x1, dx, tokens,
                            &sums));

    /* x1 = dropout(attention(norm1(x))) + x */
    LS_TRY(ls_observe_own(tp, LS_POINT_AFTER_ATTENTION, true, layer->D, d_norm));
    ls_layer_dropout(tp, layer, d_block, d_norm, LS_RANDOM_DROPOUT_ATTN_OUT, batch);
    LS_TRY(ls_attention_block_backward(tp, &layer->attention, dx, d_block, &saved->attention,
                                       saved->norm1.y, batch));
    LS_TRY(ls_observe_own(tp, LS_POINT_NORM1, true, layer->D, dx));
    LS_TRY(ls_norm_backward(tp, &layer->norm1, &saved->norm1, dx, dx, saved->x, d_norm, tokens,
                            &sums));
    LS_TRY(ls_token_sums_finish(&sums));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
