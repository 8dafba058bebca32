/* serial_attention.c - multi-head attention, with grouped key/value heads.
 *
 *     q = n1 Wq + bq      k = n1 Wk + bk      v = n1 Wv + bv
 *     q, k turned by their positions, in a rotary model
 *     o_h = dropout(softmax(q_h k_j^T / sqrt(dh) + mask)) v_j       j = h / g, g = H / Hkv
 *     a = o Wo + bo
 *
 * Heads meet in the projections only: all sums over the attention width have one granule per
 * head. */
#include "lockstep/kernels/attention.h"

#include <math.h>

#include "lockstep/kernels/rotary.h"
#include "lockstep/numerics/gemm_fused.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

/* The four linears of a layer. */
typedef struct projections {
    ls_serial_linear query, key, value, out;
} projections;

static projections projections_of(const ls_serial *s, size_t layer)
{
    projections p = {
        ls_serial_linear_of(s, LS_QUERY_WEIGHT, LS_QUERY_BIAS, layer, s->model, s->heads),
        ls_serial_linear_of(s, LS_KEY_WEIGHT, LS_KEY_BIAS, layer, s->model, s->kv),
        ls_serial_linear_of(s, LS_VALUE_WEIGHT, LS_VALUE_BIAS, layer, s->model, s->kv),
        ls_serial_linear_of(s, LS_ATTN_OUT_WEIGHT, LS_ATTN_OUT_BIAS, layer, s->heads, s->model),
    };
    return p;
}

/* Query head h of sequence b. */
static ls_attention_shape head_shape(const ls_serial *serial, size_t layer, size_t b, size_t h)
{
    const size_t S = serial->batch.S, H = serial->heads.granules, dh = serial->heads.granule;
    ls_attention_shape shape = {
        .S = S,
        .head_width = dh,
        .ld_q = ls_axis_extent(serial->heads),
        .ld_kv = ls_axis_extent(serial->kv),
        .scale = 1 / sqrt((double)dh),
        .causal = serial->config->causal,
        .keys = serial->seen ? serial->seen + b * S : NULL,
        .dropout = ls_serial_dropout_probability(serial),
        .stream = ls_serial_dropout_stream(serial, LS_RANDOM_DROPOUT_ATTENTION, layer),
        .first_index = (uint64_t)(b * H + h) * S * S,
    };
    return shape;
}

/* Where the numbers of one head of one sequence begin: in q, o and their gradients, in k, v and
 * theirs, in P. */
typedef struct head_place {
    size_t q, kv, P;
} head_place;

static head_place place_of(const ls_serial *serial, size_t b, size_t h)
{
    const size_t S = serial->batch.S, H = serial->heads.granules, dh = serial->heads.granule;
    const size_t group = H / serial->kv.granules; /* query heads that share a key/value head */
    head_place place = {
        .q = b * S * ls_axis_extent(serial->heads) + h * dh,
        .kv = b * S * ls_axis_extent(serial->kv) + h / group * dh,
        .P = (b * H + h) * S * S,
    };
    return place;
}

static void rotary(const ls_serial *serial, ls_real *x, ls_axis heads, bool backward)
{
    const size_t S = serial->batch.S, width = ls_axis_extent(heads);
    if (serial->config->position != LS_ROTARY) return;
    for (size_t b = 0; b < serial->batch.B; b++) {
        ls_real *sequence = x + b * S * width;
        if (backward)
            ls_rotary_backward(sequence, serial->cosine, serial->sine, S, heads.granules,
                               heads.granule, width);
        else
            ls_rotary_forward(sequence, serial->cosine, serial->sine, S, heads.granules,
                              heads.granule, width);
    }
}

ls_status ls_serial_attention_forward(const ls_serial *serial, size_t layer, ls_real *a)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const projections p = projections_of(serial, layer);
    const size_t S = serial->batch.S, mark = ls_arena_mark(serial->temporary);
    ls_real *scores = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, S * S, sizeof *scores, &scores));

    LS_TRY(ls_serial_linear_forward(serial, p.query, act->q, act->n1));
    LS_TRY(ls_serial_linear_forward(serial, p.key, act->k, act->n1));
    LS_TRY(ls_serial_linear_forward(serial, p.value, act->v, act->n1));
    rotary(serial, act->q, serial->heads, false);
    rotary(serial, act->k, serial->kv, false);

    for (size_t b = 0; b < serial->batch.B; b++)
        for (size_t h = 0; h < serial->heads.granules; h++) {
            const ls_attention_shape shape = head_shape(serial, layer, b, h);
            const head_place at = place_of(serial, b, h);
            LS_TRY(ls_attention_forward(serial->engine, &shape, act->o + at.q, act->P + at.P,
                                        act->q + at.q, act->k + at.kv, act->v + at.kv, scores));
        }
    LS_TRY(ls_serial_linear_forward(serial, p.out, a, act->o));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

/* The cores backwards: dq of every query head; dk and dv per query head first, member r of a group
 * of query heads into copy r of tokens x (Hkv dh), then summed over the group (rule 12). */
static ls_status cores_backward(const ls_serial *serial, size_t layer, ls_real *dq, ls_real *dk,
                                ls_real *dv, const ls_real *d_o)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const size_t S = serial->batch.S, mark = ls_arena_mark(serial->temporary);
    const size_t group = serial->heads.granules / serial->kv.granules;
    const size_t copy = ls_axis_extent(serial->tokens) * ls_axis_extent(serial->kv);
    ls_real *scratch = NULL, *dk_heads = NULL, *dv_heads = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, 2 * S * S, sizeof *scratch, &scratch));
    LS_TRY(ls_arena_alloc(serial->temporary, group * copy, sizeof *dk_heads, &dk_heads));
    LS_TRY(ls_arena_alloc(serial->temporary, group * copy, sizeof *dv_heads, &dv_heads));

    for (size_t b = 0; b < serial->batch.B; b++)
        for (size_t h = 0; h < serial->heads.granules; h++) {
            const ls_attention_shape shape = head_shape(serial, layer, b, h);
            const head_place at = place_of(serial, b, h);
            const size_t member = h % group * copy;
            LS_TRY(ls_attention_backward(serial->engine, &shape, dq + at.q,
                                         dk_heads + member + at.kv, dv_heads + member + at.kv,
                                         d_o + at.q, act->P + at.P, act->q + at.q, act->k + at.kv,
                                         act->v + at.kv, scratch));
        }
    ls_tree_sum_rows(dk, dk_heads, ls_axis_whole(group), copy, copy);
    ls_tree_sum_rows(dv, dv_heads, ls_axis_whole(group), copy, copy);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

/* dn1 = dq Wq^T + dk Wk^T + dv Wv^T under one tree (rule 11): granule h is the query head's part,
 * then, on the first head of a group, the parts of the key and the value head that it shares. */
static ls_status input_gradient(const ls_serial *serial, const projections *p, ls_real *dn1,
                                const ls_real *dq, const ls_real *dk, const ls_real *dv)
{
    const size_t D = ls_axis_extent(serial->heads), Dkv = ls_axis_extent(serial->kv);
    const size_t H = serial->heads.granules, dh = serial->heads.granule;
    const size_t group = H / serial->kv.granules;
    const ls_gemm_term terms[] = {
        {dq, D, p->query.weight->value, D, dh, 1, 0},
        {dk, Dkv, p->key.weight->value, Dkv, dh, group, 0},
        {dv, Dkv, p->value.weight->value, Dkv, dh, group, 0},
    };
    return ls_gemm_fused(serial->engine, LS_NO_TRANS, LS_TRANS, serial->tokens, serial->model, H,
                         terms, 3, dn1, serial->config->d_model);
}

ls_status ls_serial_attention_backward(const ls_serial *serial, size_t layer, ls_real *dn1,
                                       const ls_real *da)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const projections p = projections_of(serial, layer);
    const size_t n = ls_axis_extent(serial->tokens), mark = ls_arena_mark(serial->temporary);
    const size_t D = ls_axis_extent(serial->heads), Dkv = ls_axis_extent(serial->kv);
    ls_real *d_o = NULL, *dq = NULL, *dk = NULL, *dv = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, n * D, sizeof *d_o, &d_o));
    LS_TRY(ls_arena_alloc(serial->temporary, n * D, sizeof *dq, &dq));
    LS_TRY(ls_arena_alloc(serial->temporary, n * Dkv, sizeof *dk, &dk));
    LS_TRY(ls_arena_alloc(serial->temporary, n * Dkv, sizeof *dv, &dv));

    /* a = o Wo + bo */
    LS_TRY(ls_serial_linear_backward_parameters(serial, p.out, act->o, da));
    LS_TRY(ls_serial_linear_backward_input(serial, p.out, d_o, da));
    /* o_h = attention(q_h, k_j, v_j) */
    LS_TRY(cores_backward(serial, layer, dq, dk, dv, d_o));
    /* q, k turned */
    rotary(serial, dq, serial->heads, true);
    rotary(serial, dk, serial->kv, true);
    /* q = n1 Wq + bq, k = n1 Wk + bk, v = n1 Wv + bv */
    LS_TRY(ls_serial_linear_backward_parameters(serial, p.query, act->n1, dq));
    LS_TRY(ls_serial_linear_backward_parameters(serial, p.key, act->n1, dk));
    LS_TRY(ls_serial_linear_backward_parameters(serial, p.value, act->n1, dv));
    LS_TRY(input_gradient(serial, &p, dn1, dq, dk, dv));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
