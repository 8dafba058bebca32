/* Each head by itself: P_h = softmax(q_h k^T / sqrt(w)), o_h = P_h v. Backward: dq_h, and for each
 * kv head the sum of dk and dv over its query heads. */
#include "parallel/tensor/attention_core.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/rotary.h"

/* Shows what goes into the core, or its gradient. */
static ls_status look_inputs(const ls_tensor_parallel *tp, const ls_attention_block *block,
                             const ls_attention_shard *own, bool gradient, const ls_real *q,
                             const ls_real *k, const ls_real *v)
{
    ls_status status = LS_OK;
    LS_TRY(ls_observe_run(tp, LS_POINT_QUERY, gradient, ls_query_run(block, own), q));
    LS_TRY(ls_observe_run(tp, LS_POINT_KEY, gradient, ls_kv_run(block, own), k));
    LS_TRY(ls_observe_run(tp, LS_POINT_VALUE, gradient, ls_kv_run(block, own), v));
exit:
    return status;
}

/* Own kv head of own query head h. */
static size_t kv_of(const ls_attention_shard *own, size_t h)
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

static ls_attention_shape head_shape(const ls_attention_block *block, const ls_attention_shard *own,
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
    shape.dropout = batch->training ? block->dropout : 0;
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

/* P of own head h of sequence b where it is saved, else the temporary one. */
static ls_real *probabilities(const ls_attention_saved *saved, ls_real *temporary, size_t head,
                              size_t S)
{
    return saved->P ? saved->P + head * S * S : temporary;
}

/* S x S for P, where it is not saved. */
static ls_status temporary_probabilities(const ls_tensor_parallel *tp,
                                         const ls_attention_saved *saved, size_t S, ls_real **ret_P)
{
    *ret_P = NULL;
    return saved->P ? LS_OK
                    : ls_arena_alloc(tp->temporary, ls_size_product(S, S), sizeof **ret_P,
                                     (void *)ret_P);
}

ls_status ls_attention_core_forward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                    const ls_attention_saved *saved, const ls_batch *batch)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_attention_shard own = ls_attention_shard_of(tp, block);
    size_t S = batch->S;
    const unsigned char *keys;
    ls_real *scratch, *temporary;

    for (size_t b = 0; block->cos && b < batch->B; b++) {
        ls_rotary_forward(saved->q + b * S * own.q_width, block->cos, block->sin, S, own.heads,
                          own.width, own.q_width);
        ls_rotary_forward(saved->k + b * S * own.kv_width, block->cos, block->sin, S, own.kvs,
                          own.width, own.kv_width);
    }
    LS_TRY(look_inputs(tp, block, &own, false, saved->q, saved->k, saved->v));

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(S, S), sizeof *scratch, (void *)&scratch));
    LS_TRY(temporary_probabilities(tp, saved, S, &temporary));
    LS_TRY(find_keys(tp, batch, &keys));
    for (size_t b = 0; b < batch->B; b++) {
        size_t q_row = b * S * own.q_width, kv_row = b * S * own.kv_width;
        for (size_t h = 0; h < own.heads; h++) {
            ls_attention_shape shape = head_shape(block, &own, batch, keys, b, h);
            size_t q = q_row + h * own.width, kv = kv_row + kv_of(&own, h) * own.width;
            ls_real *P = probabilities(saved, temporary, b * own.heads + h, S);
            LS_TRY(ls_attention_forward(tp->engine, &shape, saved->o + q, P, saved->q + q,
                                        saved->k + kv, saved->v + kv, scratch));
            LS_TRY(ls_observe_head(tp, LS_POINT_PROBABILITIES, false, b,
                                   block->heads.whole.granules, own.first + h, P));
        }
    }
    LS_TRY(ls_observe_run(tp, LS_POINT_HEADS, false, ls_query_run(block, &own), saved->o));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

/* Shows the gradient of one head's probabilities. What the query does not see has none. */
static ls_status look_probabilities(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                    const ls_attention_shard *own, const ls_attention_shape *shape,
                                    size_t b, size_t h, ls_real *dP)
{
    const size_t S = shape->S;
    if (!tp->observation) return LS_OK;
    for (size_t i = 0; i < S; i++)
        for (size_t j = 0; j < S; j++)
            if ((shape->causal && j > i) || (shape->keys && !shape->keys[j]))
                dP[i * S + j] = (ls_real)0;
    return ls_observe_head(tp, LS_POINT_PROBABILITIES, true, b, block->heads.whole.granules,
                           own->first + h, dP);
}

ls_status ls_attention_core_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                     ls_real *dq, ls_real *dk, ls_real *dv, const ls_real *d_o,
                                     const ls_attention_saved *saved, const ls_batch *batch)
{
    const ls_attention_shard shard = ls_attention_shard_of(tp, block), *own = &shard;
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t S = batch->S, rows = batch->B * S, kv_count = rows * own->kv_width;
    const unsigned char *keys;
    ls_real *scratch, *again = NULL, *temporary, **dk_parts, **dv_parts;

    /* dk_parts[t] takes, for every kv head at once, the gradient through query head t of its group.
     */
    LS_TRY(
        ls_arena_alloc(tp->temporary, ls_size_product(2, S, S), sizeof *scratch, (void *)&scratch));
    LS_TRY(temporary_probabilities(tp, saved, S, &temporary));
    if (!saved->P) /* o is computed again with P, and not needed */
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
            ls_real *P = probabilities(saved, temporary, b * own->heads + h, S);
            if (!saved->P)
                LS_TRY(ls_attention_forward(tp->engine, &shape, again + h * own->width, P,
                                            saved->q + q, saved->k + kv, saved->v + kv, scratch));
            LS_TRY(ls_attention_backward(tp->engine, &shape, dq + q, dk_parts[t] + kv,
                                         dv_parts[t] + kv, d_o + q, P, saved->q + q, saved->k + kv,
                                         saved->v + kv, scratch));
            LS_TRY(look_probabilities(tp, block, own, &shape, b, h, scratch));
        }
    }
    LS_TRY(ls_kv_gradient(tp, block, LS_POINT_KEY, rows, dk_parts, dk));
    LS_TRY(ls_kv_gradient(tp, block, LS_POINT_VALUE, rows, dv_parts, dv));
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
