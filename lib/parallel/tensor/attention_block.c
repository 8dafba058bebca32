#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/parallel/tensor/attention_block.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/rotary.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/hooks/look.h"
#include "parallel/tensor/weight_gradient.h"

/* The shard in numbers: what every loop below needs. */
typedef struct shard {
    size_t first, heads;  /* own query heads                                  */
    size_t kv_first, kvs; /* own kv heads                                     */
    size_t group;         /* query heads per kv head                          */
    size_t width;         /* of a head                                        */
    size_t q_width;       /* heads * width: from token to token in q and o    */
    size_t kv_width;      /* kvs * width: in k and v                          */
} shard;

static shard own_shard(const ls_tensor_parallel *tp, const ls_attention_block *block)
{
    size_t rank = (size_t)ls_group_rank(tp->group);
    shard own;
    own.first = block->heads.bounds[rank];
    own.heads = block->heads.bounds[rank + 1] - own.first;
    own.kv_first = block->kv->held.first;
    own.kvs = block->kv->held.count;
    own.group = block->heads.whole.granules / block->kv_heads;
    own.width = block->head_width;
    own.q_width = own.heads * own.width;
    own.kv_width = own.kvs * own.width;
    return own;
}

/* Query heads' or kv heads' width: the whole and what is held. */
static ls_view_run query_run(const ls_attention_block *block, const shard *own)
{
    return (ls_view_run){block->heads.whole.granules * own->width, own->first * own->width,
                         own->q_width};
}

static ls_view_run kv_run(const ls_attention_block *block, const shard *own)
{
    return (ls_view_run){block->kv_heads * own->width, own->kv_first * own->width, own->kv_width};
}

/* Shows what goes into the core, or its gradient. */
static ls_status look_inputs(const ls_tensor_parallel *tp, const ls_attention_block *block,
                             const shard *own, bool gradient, const ls_real *q, const ls_real *k,
                             const ls_real *v)
{
    ls_status status = LS_OK;
    LS_TRY(ls_look_run(tp, LS_POINT_QUERY, gradient, query_run(block, own), q));
    LS_TRY(ls_look_run(tp, LS_POINT_KEY, gradient, kv_run(block, own), k));
    LS_TRY(ls_look_run(tp, LS_POINT_VALUE, gradient, kv_run(block, own), v));
exit:
    return status;
}

/* Own kv head of own query head h. */
static size_t kv_of(const shard *own, size_t h)
{
    return (own->first + h) / own->group - own->kv_first;
}

/* Which keys are tokens and which padding, B x S bytes from tp->temporary; NULL where there is
 * none.
 */
static ls_status find_keys(const ls_tensor_parallel *tp, const ls_batch *batch,
                           const unsigned char **ret_keys)
{
    ls_status status = LS_OK;
    unsigned char *keys = NULL;
    LS_TRY(ls_lengths_check(batch->lengths, batch->B, batch->S));
    if (batch->lengths) {
        LS_TRY(
            ls_arena_alloc(tp->temporary, ls_size_product(batch->B, batch->S), 1, (void *)&keys));
        for (size_t b = 0; b < batch->B; b++)
            for (size_t s = 0; s < batch->S; s++)
                keys[b * batch->S + s] = s < (size_t)batch->lengths[b];
    }
    *ret_keys = keys;
exit:
    return status;
}

static ls_attention_shape head_shape(const ls_attention_block *block, const shard *own,
                                     const ls_batch *batch, const unsigned char *keys, size_t b,
                                     size_t h)
{
    ls_attention_shape shape;
    memset(&shape, 0, sizeof shape);
    shape.S = batch->S;
    shape.head_width = own->width;
    shape.ld_q = own->q_width;
    shape.ld_kv = own->kv_width;
    shape.scale = 1.0 / sqrt((double)own->width);
    shape.causal = block->causal;
    shape.keys = keys ? keys + b * batch->S : NULL;
    shape.dropout = batch->dropout ? block->dropout : 0;
    shape.stream.seed = batch->seed;
    shape.stream.purpose = LS_RANDOM_DROPOUT_ATTENTION;
    shape.stream.layer = block->layer;
    shape.stream.step = batch->step;
    /* Logical place of P[0][0]: global sequence, global head. */
    shape.first_index =
        ((uint64_t)(batch->first + b) * block->heads.whole.granules + own->first + h) * batch->S *
        batch->S;
    return shape;
}

ls_status ls_attention_keep(const ls_tensor_parallel *tp, const ls_attention_block *block, size_t B,
                            size_t S, ls_arena *arena, ls_attention_kept *ret_kept)
{
    ls_status status = LS_OK;
    shard own = own_shard(tp, block);
    ls_attention_kept kept;

    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.q_width), sizeof(ls_real),
                          (void *)&kept.q));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.kv_width), sizeof(ls_real),
                          (void *)&kept.k));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.kv_width), sizeof(ls_real),
                          (void *)&kept.v));
    kept.P = NULL;
    if (!block->recompute_core)
        LS_TRY(ls_arena_alloc(arena, ls_size_product(B, own.heads, S, S), sizeof(ls_real),
                              (void *)&kept.P));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(B, S, own.q_width), sizeof(ls_real),
                          (void *)&kept.o));
    *ret_kept = kept;
exit:
    return status;
}

/* k or v: x times own columns; every kv head held, whoever else holds it. */
static ls_status kv_project(const ls_tensor_parallel *tp, const shard *own, ls_real *y,
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
                                     ls_real *y, const ls_attention_kept *kept, const ls_real *x,
                                     const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    shard own = own_shard(tp, block);
    ls_axis tokens = ls_batch_tokens(batch);
    ls_tensor_parallel inside = ls_inside_block(tp);
    size_t S = batch->S;
    const unsigned char *keys;
    ls_real *scratch, *P;

    ls_look_next(tp, LS_POINT_NORM1, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, block->D, &x));
    LS_TRY(ls_column_linear_forward(&inside, kept->q, x, block->w_q, block->b_q, tokens, block->D,
                                    &block->heads));
    LS_TRY(kv_project(tp, &own, kept->k, x, block->w_k, block->b_k, tokens, block->D));
    LS_TRY(kv_project(tp, &own, kept->v, x, block->w_v, block->b_v, tokens, block->D));
    ls_arena_release(tp->temporary, mark); /* what was gathered */

    for (size_t b = 0; block->cos && b < batch->B; b++) {
        ls_rotary_forward(kept->q + b * S * own.q_width, block->cos, block->sin, S, own.heads,
                          own.width, own.q_width);
        ls_rotary_forward(kept->k + b * S * own.kv_width, block->cos, block->sin, S, own.kvs,
                          own.width, own.kv_width);
    }
    LS_TRY(look_inputs(tp, block, &own, false, kept->q, kept->k, kept->v));

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(S, S), sizeof *scratch, (void *)&scratch));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(S, S), sizeof *P, (void *)&P));
    LS_TRY(find_keys(tp, batch, &keys));
    for (size_t b = 0; b < batch->B; b++) {
        size_t q_row = b * S * own.q_width, kv_row = b * S * own.kv_width;
        for (size_t h = 0; h < own.heads; h++) {
            ls_attention_shape shape = head_shape(block, &own, batch, keys, b, h);
            size_t q = q_row + h * own.width, kv = kv_row + kv_of(&own, h) * own.width;
            if (kept->P) P = kept->P + (b * own.heads + h) * S * S;
            LS_TRY(ls_attention_forward(tp->engine, &shape, kept->o + q, P, kept->q + q,
                                        kept->k + kv, kept->v + kv, scratch));
            LS_TRY(ls_look_head(tp, LS_POINT_PROBABILITIES, false, b, block->heads.whole.granules,
                                own.first + h, P));
        }
    }
    LS_TRY(ls_look_run(tp, LS_POINT_HEADS, false, query_run(block, &own), kept->o));
    ls_look_next(tp, LS_POINT_ATTENTION, false);
    LS_TRY(ls_row_linear_forward(tp, y, kept->o, block->w_o, block->b_o, tokens, &block->heads,
                                 block->D));
    LS_TRY(ls_look_own(tp, LS_POINT_ATTENTION, false, block->D, y));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

/* Copies head j's columns of a tokens x kv_width array to or from a contiguous one. */
static void take_head(ls_real *packed, const ls_real *wide, size_t rows, size_t wide_width,
                      size_t j, size_t width)
{
    for (size_t t = 0; t < rows; t++)
        memcpy(packed + t * width, wide + t * wide_width + j * width, width * sizeof *packed);
}

static void put_head(ls_real *wide, const ls_real *packed, size_t rows, size_t wide_width, size_t j,
                     size_t width)
{
    for (size_t t = 0; t < rows; t++)
        memcpy(wide + t * wide_width + j * width, packed + t * width, width * sizeof *packed);
}

/* Shows what goes into the sum of shared head j, or its total: all tokens x width of the head. */
static ls_status look_shared(const ls_tensor_parallel *tp, const ls_attention_block *block,
                             const shard *own, ls_view view, size_t j, const ls_real *values)
{
    if (!tp->looking) return LS_OK;
    const ls_view_run dims[] = {
        ls_whole_run(tp->looking->batch->S),
        {block->kv_heads * own->width, (own->kv_first + j) * own->width, own->width}};
    view.gradient = true;
    return ls_look_show(tp, view, 2, dims, values, 0);
}

/* Finishes dK_j or dV_j (`point`) of one shared kv head: T over the group's query heads, some of
 * them on other ranks (rule 12). parts[t]: tokens x kv_width, the gradient through the group's
 * query head t, in the columns of head j. */
static ls_status finish_shared(const ls_tensor_parallel *tp, const ls_attention_block *block,
                               const shard *own, ls_point point, size_t j, size_t rows,
                               ls_real *const *parts, ls_real *d)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_group *sharers = block->kv->sharers[j];
    size_t member = (size_t)ls_group_rank(sharers), count = rows * own->width;
    ls_forest forest = {own->group, block->kv->bounds[j]};
    ls_node nodes[LS_FOREST_MAX];
    size_t n_nodes =
        ls_tree_forest(own->group, forest.bounds[member], forest.bounds[member + 1], nodes);
    ls_real *partials, *leaves;

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(n_nodes, count), sizeof *partials,
                          (void *)&partials));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(own->group, count), sizeof *leaves,
                          (void *)&leaves));
    for (size_t i = 0; i < n_nodes; i++) {
        size_t under = nodes[i].hi - nodes[i].lo;
        for (size_t t = 0; t < under; t++)
            take_head(leaves + t * count, parts[nodes[i].lo + t], rows, own->kv_width, j,
                      own->width);
        ls_tree_sum_rows(partials + i * count, leaves, ls_axis_whole(under), count, count);
        const ls_view part = {.point = point,
                              .crossing = LS_CROSSING_PARTIAL,
                              .lo = nodes[i].lo,
                              .hi = nodes[i].hi,
                              .leaves = own->group};
        LS_TRY(look_shared(tp, block, own, part, j, partials + i * count));
    }
    LS_TRY(ls_all_reduce_forest(sharers, partials, partials, count, LS_REAL_DTYPE, &forest));
    const ls_view total = {.point = point, .crossing = LS_CROSSING_TOTAL};
    LS_TRY(look_shared(tp, block, own, total, j, partials));
    put_head(d, partials, rows, own->kv_width, j, own->width);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

/* dK or dV of every kv head held, from the gradients through each query head. */
static ls_status finish_kv(const ls_tensor_parallel *tp, const ls_attention_block *block,
                           const shard *own, ls_point point, size_t rows, ls_real *const *parts,
                           ls_real *d)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t count = rows * own->width;
    ls_real *leaves, *sum;

    if (own->group == 1) { /* nothing to add */
        memcpy(d, parts[0], rows * own->kv_width * sizeof *d);
        return LS_OK;
    }
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(own->group, count), sizeof *leaves,
                          (void *)&leaves));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof *sum, (void *)&sum));
    for (size_t j = 0; j < own->kvs; j++) {
        if (block->kv->sharers[j]) {
            LS_TRY(finish_shared(tp, block, own, point, j, rows, parts, d));
            continue;
        }
        for (size_t t = 0; t < own->group; t++)
            take_head(leaves + t * count, parts[t], rows, own->kv_width, j, own->width);
        ls_tree_sum_rows(sum, leaves, ls_axis_whole(own->group), count, count);
        put_head(d, sum, rows, own->kv_width, j, own->width);
    }
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

/* Shows the gradient of one head's probabilities. What the query does not see has none. */
static ls_status look_probabilities(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                    const shard *own, const ls_attention_shape *shape, size_t b,
                                    size_t h, ls_real *dP)
{
    const size_t S = shape->S;
    if (!tp->looking) return LS_OK;
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++)
            if ((shape->causal && j > i) || (shape->keys && !shape->keys[j]))
                dP[i * S + j] = (ls_real)0;
    return ls_look_head(tp, LS_POINT_PROBABILITIES, true, b, block->heads.whole.granules,
                        own->first + h, dP);
}

/* Gradients of the core: dq, dk and dv of own heads, the latter finished over each group. */
static ls_status core_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                               const shard *own, ls_real *dq, ls_real *dk, ls_real *dv,
                               const ls_real *d_o, const ls_attention_kept *kept,
                               const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t S = batch->S, rows = batch->B * S, kv_count = rows * own->kv_width;
    const unsigned char *keys;
    ls_real *scratch, *again, *P, **dk_parts, **dv_parts;

    /* dk_parts[t] takes, for every kv head at once, the gradient through query head t of its group.
     */
    LS_TRY(
        ls_arena_alloc(tp->temporary, ls_size_product(2, S, S), sizeof *scratch, (void *)&scratch));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(S, S), sizeof *P, (void *)&P));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(S, own->q_width), sizeof *again,
                          (void *)&again));
    LS_TRY(ls_arena_alloc(tp->temporary, own->group, sizeof *dk_parts, (void *)&dk_parts));
    LS_TRY(ls_arena_alloc(tp->temporary, own->group, sizeof *dv_parts, (void *)&dv_parts));
    for (size_t t = 0; t < own->group; t++) {
        LS_TRY(ls_arena_alloc(tp->temporary, kv_count, sizeof(ls_real), (void *)&dk_parts[t]));
        LS_TRY(ls_arena_alloc(tp->temporary, kv_count, sizeof(ls_real), (void *)&dv_parts[t]));
    }
    LS_TRY(find_keys(tp, batch, &keys));
    for (size_t b = 0; b < batch->B; b++) {
        for (size_t h = 0; h < own->heads; h++) {
            ls_attention_shape shape = head_shape(block, own, batch, keys, b, h);
            size_t q = b * S * own->q_width + h * own->width;
            size_t kv = b * S * own->kv_width + kv_of(own, h) * own->width;
            size_t t = (own->first + h) % own->group;
            if (kept->P)
                P = kept->P + (b * own->heads + h) * S * S;
            else
                LS_TRY(ls_attention_forward(tp->engine, &shape, again + h * own->width, P,
                                            kept->q + q, kept->k + kv, kept->v + kv, scratch));
            LS_TRY(ls_attention_backward(tp->engine, &shape, dq + q, dk_parts[t] + kv,
                                         dv_parts[t] + kv, d_o + q, P, kept->q + q, kept->k + kv,
                                         kept->v + kv, scratch));
            LS_TRY(look_probabilities(tp, block, own, &shape, b, h, scratch));
        }
    }
    LS_TRY(finish_kv(tp, block, own, LS_POINT_KEY, rows, dk_parts, dk));
    LS_TRY(finish_kv(tp, block, own, LS_POINT_VALUE, rows, dv_parts, dv));
    LS_TRY(look_inputs(tp, block, own, true, dq, dk, dv));
    for (size_t b = 0; block->cos && b < batch->B; b++) {
        ls_rotary_backward(dq + b * S * own->q_width, block->cos, block->sin, S, own->heads,
                           own->width, own->q_width);
        ls_rotary_backward(dk + b * S * own->kv_width, block->cos, block->sin, S, own->kvs,
                           own->width, own->kv_width);
    }
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_attention_block_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                      ls_real *dx, const ls_real *dy, const ls_attention_kept *kept,
                                      const ls_real *x, const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    shard own = own_shard(tp, block);
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
    LS_TRY(ls_look_own(tp, LS_POINT_ATTENTION, true, D, dy));
    ls_look_next(tp, LS_POINT_ATTENTION, true);
    LS_TRY(ls_row_linear_backward(tp, d_o, block->dw_o, block->db_o, dy, kept->o, block->w_o,
                                  tokens, &block->heads, D));
    LS_TRY(ls_look_run(tp, LS_POINT_HEADS, true, query_run(block, &own), d_o));
    LS_TRY(core_backward(tp, block, &own, dq, dk, dv, d_o, kept, batch));
    /* q, k, v = x W_q + b_q, ... */
    ls_look_next(tp, LS_POINT_NORM1, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, D, &x));
    LS_TRY(ls_column_linear_backward(&inside, NULL, block->dw_q, block->db_q, dq, x, block->w_q,
                                     tokens, D, &block->heads));
    /* dk and dv are finished, so every holder of a shared head gets the same. */
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
    ls_look_next(tp, LS_POINT_NORM1, true);
    LS_TRY(ls_reduced_product(tp, LS_TRANS, tokens, whole, &block->heads, terms, 3, dx));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
