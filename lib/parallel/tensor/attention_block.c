/* q, k, v = x W_q, x W_k, x W_v by columns; the core of own heads; y = o W_o by rows. Megatron's f
 * comes before the first (dx is summed over ranks), its g after the last (y is). */
#include "lockstep/parallel/tensor/attention_block.h"

#include "base/size.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "lockstep/parallel/tensor/reduced_product.h"
#include "parallel/tensor/attention_core.h"
#include "parallel/tensor/weight_gradient.h"

ls_status ls_attention_keep(const ls_tensor_parallel *tp, const ls_attention_block *block, size_t B,
                            size_t S, ls_arena *arena, ls_attention_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_attention_shard own = ls_attention_shard_of(tp, block);
    ls_attention_saved saved;

    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.q_width), sizeof(ls_real),
                          (void *)&saved.q));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.kv_width), sizeof(ls_real),
                          (void *)&saved.k));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.kv_width), sizeof(ls_real),
                          (void *)&saved.v));
    saved.P = NULL;
    if (!block->recompute_core)
        LS_TRY(ls_arena_alloc(arena, ls_size_product(B, own.heads, S, S), sizeof(ls_real),
                              (void *)&saved.P));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.q_width), sizeof(ls_real),
                          (void *)&saved.o));
    *ret_kept = saved;
exit:
    return status;
}

/* k or v: x times own columns; every kv head held, also by other ranks. */
static ls_status kv_project(const ls_tensor_parallel *tp, const ls_attention_shard *own, ls_real *y,
                            const ls_real *x, const ls_real *w, const ls_real *bias, ls_axis tokens,
                            size_t D)
{
    ls_status status = LS_OK;
    LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_NO_TRANS, tokens, ls_axis_of(own->kvs, own->width),
                   ls_axis_whole(D), x, D, w, own->kv_width, y, own->kv_width, false));
    if (bias) ls_add_bias(y, bias, ls_axis_extent(tokens), own->kv_width, own->kv_width);
exit:
    return status;
}

ls_status ls_attention_block_forward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                     ls_real *y, const ls_attention_saved *saved, const ls_real *x,
                                     const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_attention_shard own = ls_attention_shard_of(tp, block);
    ls_axis tokens = ls_batch_tokens(batch);
    ls_tensor_parallel inside = ls_inside_block(tp);

    ls_observe_next(tp, LS_POINT_NORM1, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, block->D, &x));
    LS_TRY(ls_column_linear_forward(&inside, saved->q, x, block->w_q, block->b_q, tokens, block->D,
                                    &block->heads));
    LS_TRY(kv_project(tp, &own, saved->k, x, block->w_k, block->b_k, tokens, block->D));
    LS_TRY(kv_project(tp, &own, saved->v, x, block->w_v, block->b_v, tokens, block->D));
    ls_arena_release(tp->temporary, mark); /* what was gathered */

    LS_TRY(ls_attention_core_forward(tp, block, saved, batch));
    ls_observe_next(tp, LS_POINT_ATTENTION, false);
    LS_TRY(ls_row_linear_forward(tp, y, saved->o, block->w_o, block->b_o, tokens, &block->heads,
                                 block->D));
    LS_TRY(ls_observe_own(tp, LS_POINT_ATTENTION, false, block->D, y));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_attention_block_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                      ls_real *dx, const ls_real *dy,
                                      const ls_attention_saved *saved, const ls_real *x,
                                      const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_attention_shard own = ls_attention_shard_of(tp, block);
    ls_axis tokens = ls_batch_tokens(batch);
    size_t rows = ls_axis_extent(tokens), D = block->D;
    ls_tensor_parallel inside = ls_inside_block(tp);
    ls_real *d_o, *dq, *dk, *dv;

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, own.q_width), sizeof *d_o,
                          (void *)&d_o));
    LS_TRY(
        ls_arena_alloc(tp->temporary, ls_size_product(rows, own.q_width), sizeof *dq, (void *)&dq));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, own.kv_width), sizeof *dk,
                          (void *)&dk));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, own.kv_width), sizeof *dv,
                          (void *)&dv));

    /* y = o W_o + b_o */
    LS_TRY(ls_observe_own(tp, LS_POINT_ATTENTION, true, D, dy));
    ls_observe_next(tp, LS_POINT_ATTENTION, true);
    LS_TRY(ls_row_linear_backward(tp, d_o, block->dw_o, block->db_o, dy, saved->o, block->w_o,
                                  tokens, &block->heads, D));
    LS_TRY(ls_observe_run(tp, LS_POINT_HEADS, true, ls_query_run(block, &own), d_o));
    LS_TRY(ls_attention_core_backward(tp, block, dq, dk, dv, d_o, saved, batch));
    /* q, k, v = x W_q + b_q, ... */
    ls_observe_next(tp, LS_POINT_NORM1, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, D, &x));
    LS_TRY(ls_column_linear_backward(&inside, NULL, block->dw_q, block->db_q, dq, x, block->w_q,
                                     tokens, D, &block->heads));
    /* dk and dv are finished, so every holder of a shared head has the same. */
    ls_axis kv = ls_axis_of(own.kvs, own.width), whole = ls_axis_whole(D);
    LS_TRY(ls_weight_gradient(tp, block->dw_k, block->db_k, x, whole, dk, kv, tokens));
    LS_TRY(ls_weight_gradient(tp, block->dw_v, block->db_v, x, whole, dv, kv, tokens));

    /* Three matrices read x, so dx is one sum over the query heads: (q_h + k_h) + v_h, the key and
     * value parts standing with the first query head of their group (rules 11 and 12). When that
     * head is another rank's, so is the part. */
    size_t phase = own.first % own.group, begin = phase ? own.width : 0;
    ls_gemm_term terms[3] = {
        {dq, own.q_width, block->w_q, own.q_width, own.width, 1, 0},
        {dk + begin, own.kv_width, block->w_k + begin, own.kv_width, own.width, own.group, phase},
        {dv + begin, own.kv_width, block->w_v + begin, own.kv_width, own.width, own.group, phase}};
    ls_observe_next(tp, LS_POINT_NORM1, true);
    LS_TRY(ls_reduced_product(tp, LS_TRANS, tokens, whole, &block->heads, terms, 3, dx));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
