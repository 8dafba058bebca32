/* judge_own_layers.h - the layers of the table: Lockstep's parallel functions, and mistakes. */
#ifndef LS_TEST_JUDGE_OWN_LAYERS_H
#define LS_TEST_JUDGE_OWN_LAYERS_H

#include "judge_own.h"
#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "lockstep/parallel/tensor/vocab_embedding.h"

/* An axis as Lockstep has it: bounds in granules. */
typedef struct own_axis {
    ls_cut cut;
    size_t bounds[OWN_RANKS + 1];
} own_axis;

static const ls_cut *cut_of(own_axis *axis, const ls_backend_rank *me, ls_backend_cut cut)
{
    for (int r = 0; r <= me->ranks; r++) axis->bounds[r] = cut.starts[r] / cut.granule;
    axis->cut = (ls_cut){ls_axis_of(axis->bounds[me->ranks], cut.granule), axis->bounds};
    return &axis->cut;
}

static ls_tensor_parallel tp_of(const ls_backend_rank *me)
{
    const ls_tensor_parallel tp = {
        .group = group_of(me), .engine = LS_ENGINE_PORTABLE, .temporary = arena_of(me)};
    return tp;
}

static size_t own_width(const ls_backend_rank *me, ls_backend_cut cut)
{
    return cut.starts[me->rank + 1] - cut.starts[me->rank];
}

/* ---- linear ---- */

static int own_column(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w,
                      const ls_real *bias, const ls_backend_linear *s)
{
    own_axis axis;
    const ls_tensor_parallel tp = tp_of(me);
    if (mistake == COLUMN_NO_BIAS) bias = NULL;
    return ended(me, ls_column_linear_forward(&tp, y, x, w, bias, ls_axis_of(s->B, s->S), s->in,
                                              cut_of(&axis, me, s->cut)));
}

static int own_column_backward(ls_backend_rank *me, ls_real *dx, ls_real *dw, ls_real *dbias,
                               const ls_real *dy, const ls_real *x, const ls_real *w,
                               const ls_backend_linear *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const ls_axis tokens = ls_axis_of(s->B, s->S), in = ls_axis_whole(s->in);
    const size_t n = s->B * s->S * s->in, width = own_width(me, s->cut);
    ls_real *held = NULL;
    LS_TRY(room(me, s->in * width, &held));
    memcpy(held, dw, s->in * width * sizeof *held);
    LS_TRY(ls_column_linear_backward(&tp, dx, dw, dbias, dy, x, w, tokens, s->in,
                                     cut_of(&axis, me, s->cut)));
    if (mistake == DX_NOT_REDUCED)
        LS_TRY(ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_TRANS, tokens, in, ls_axis_whole(width),
                       dy, width, w, width, dx, s->in, false));
    if (mistake == DX_TWICE) LS_TRY(own_sum(me, dx, dx, n));
    for (size_t i = 0; mistake == DW_LEFT_OVER && i < s->in * width; i++) dw[i] += held[i];
    if (mistake == DW_TRANSPOSED) {
        memcpy(held, dw, s->in * width * sizeof *held);
        for (size_t i = 0; i < s->in * width; i++) dw[i] = held[i % s->in * width + i / s->in];
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_row(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w,
                   const ls_real *bias, const ls_backend_linear *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const ls_axis tokens = ls_axis_of(s->B, s->S), out = ls_axis_whole(s->out);
    const size_t n = s->B * s->S, width = own_width(me, s->cut);
    if (mistake == ROW_NOT_WRITTEN) goto exit; /* the sum is what somebody returned */
    if (mistake == RIGHT || bias == NULL) {
        LS_TRY(
            ls_row_linear_forward(&tp, y, x, w, bias, tokens, cut_of(&axis, me, s->cut), s->out));
        goto exit;
    }
    LS_TRY(ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, tokens, out, ls_axis_whole(width),
                   x, width, w, s->out, y, s->out, false));
    if (mistake == BIAS_EACH) ls_add_bias(y, bias, n, s->out, s->out);
    if (mistake != ROW_NOT_REDUCED) LS_TRY(own_sum(me, y, y, n * s->out));
    if (mistake == ROW_AVERAGE) ls_scale(y, y, (ls_real)1 / (ls_real)me->ranks, n * s->out);
    if (mistake == ROW_TWICE) LS_TRY(own_sum(me, y, y, n * s->out));
    if (mistake != BIAS_EACH && mistake != ROW_NO_BIAS) ls_add_bias(y, bias, n, s->out, s->out);
exit:
    return ended(me, status);
}

static int own_row_backward(ls_backend_rank *me, ls_real *dx, ls_real *dw, ls_real *dbias,
                            const ls_real *dy, const ls_real *x, const ls_real *w,
                            const ls_backend_linear *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    LS_TRY(ls_row_linear_backward(&tp, dx, dw, dbias, dy, x, w, ls_axis_of(s->B, s->S),
                                  cut_of(&axis, me, s->cut), s->out));
    if (mistake == DBIAS_SUMMED && dbias != NULL) LS_TRY(own_sum(me, dbias, dbias, s->out));
    if (mistake == DBIAS_AVERAGED && dbias != NULL)
        ls_scale(dbias, dbias, (ls_real)1 / (ls_real)me->ranks, s->out);
exit:
    return ended(me, status);
}

/* ---- mlp ---- */

static ls_mlp mlp_of(own_axis *axis, const ls_backend_rank *me, const ls_backend_mlp *s,
                     const ls_real *w_up, const ls_real *b_up, const ls_real *w_down,
                     const ls_real *b_down)
{
    const bool other = mistake == MLP_GELU;
    const ls_mlp mlp = {.activation =
                            (s->gelu == LS_BACKEND_GELU_ERF) != other ? LS_GELU_ERF : LS_GELU_TANH,
                        .cut = LS_MLP_COLUMN_FIRST,
                        .D = s->D,
                        .ff = *cut_of(axis, me, s->cut),
                        .w_up = w_up,
                        .b_up = b_up,
                        .w_down = w_down,
                        .b_down = b_down};
    return mlp;
}

static int own_mlp(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w_up,
                   const ls_real *b_up, const ls_real *w_down, const ls_real *b_down,
                   const ls_backend_mlp *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const ls_axis tokens = ls_axis_of(s->B, s->S);
    const ls_mlp mlp = mlp_of(&axis, me, s, w_up, b_up, w_down, b_down);
    ls_mlp_saved kept = {0};
    LS_TRY(ls_mlp_keep(&tp, &mlp, s->B * s->S, arena_of(me), &kept));
    LS_TRY(ls_mlp_forward(&tp, &mlp, y, &kept, x, tokens));
    for (size_t i = 0; mistake == MLP_BIAS && i < s->B * s->S * s->D; i++)
        y[i] += (ls_real)(me->ranks - 1) * b_down[i % s->D];
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_mlp_backward(ls_backend_rank *me, ls_real *dx, ls_real *dw_up, ls_real *db_up,
                            ls_real *dw_down, ls_real *db_down, const ls_real *dy, const ls_real *x,
                            const ls_real *w_up, const ls_real *b_up, const ls_real *w_down,
                            const ls_backend_mlp *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const ls_axis tokens = ls_axis_of(s->B, s->S);
    ls_mlp mlp = mlp_of(&axis, me, s, w_up, b_up, w_down, NULL);
    ls_mlp_saved kept = {0};
    ls_real *y = NULL;
    mlp.dw_up = dw_up, mlp.db_up = db_up, mlp.dw_down = dw_down, mlp.db_down = db_down;
    LS_TRY(ls_mlp_keep(&tp, &mlp, s->B * s->S, arena_of(me), &kept));
    LS_TRY(room(me, s->B * s->S * s->D, &y));
    LS_TRY(ls_mlp_forward(&tp, &mlp, y, &kept, x, tokens));
    LS_TRY(ls_mlp_backward(&tp, &mlp, dx, dy, &kept, x, tokens));
    if (mistake == MLP_DX_TWICE) LS_TRY(own_sum(me, dx, dx, s->B * s->S * s->D));
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

/* ---- attention ---- */

static ls_attention_shape head_of(const ls_backend_rank *me, const ls_backend_attention *s)
{
    const double d = (double)s->head_width;
    const size_t ld = own_width(me, s->cut) * s->head_width;
    const ls_attention_shape shape = {.S = s->S,
                                      .head_width = s->head_width,
                                      .ld_q = ld,
                                      .ld_kv = ld,
                                      .scale = mistake == ATTENTION_SCALE ? 1 / d : 1 / sqrt(d),
                                      .causal = s->causal && mistake != ATTENTION_NO_MASK};
    return shape;
}

static int own_attention(ls_backend_rank *me, ls_real *o, const ls_real *q, const ls_real *k,
                         const ls_real *v, const ls_backend_attention *s)
{
    ls_status status = LS_OK;
    const ls_attention_shape shape = head_of(me, s);
    ls_real *P = NULL, *scratch = NULL;
    LS_TRY(room(me, s->S * s->S, &P));
    LS_TRY(room(me, s->S * s->S, &scratch));
    for (size_t b = 0; b < s->B; b++)
        for (size_t h = 0; h < own_width(me, s->cut); h++) {
            const size_t at = b * s->S * shape.ld_q + h * s->head_width;
            LS_TRY(ls_attention_forward(LS_ENGINE_PORTABLE, &shape, o + at, P, q + at, k + at,
                                        v + at, scratch));
        }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_attention_backward(ls_backend_rank *me, ls_real *dq, ls_real *dk, ls_real *dv,
                                  const ls_real *d_o, const ls_real *q, const ls_real *k,
                                  const ls_real *v, const ls_backend_attention *s)
{
    ls_status status = LS_OK;
    const ls_attention_shape shape = head_of(me, s);
    ls_real *P = NULL, *scratch = NULL, *o = NULL;
    LS_TRY(room(me, s->S * s->S, &P));
    LS_TRY(room(me, 2 * s->S * s->S, &scratch));
    LS_TRY(room(me, s->B * s->S * shape.ld_q, &o));
    for (size_t b = 0; b < s->B; b++)
        for (size_t h = 0; h < own_width(me, s->cut); h++) {
            const size_t at = b * s->S * shape.ld_q + h * s->head_width;
            LS_TRY(ls_attention_forward(LS_ENGINE_PORTABLE, &shape, o + at, P, q + at, k + at,
                                        v + at, scratch));
            LS_TRY(ls_attention_backward(LS_ENGINE_PORTABLE, &shape, dq + at, dk + at, dv + at,
                                         d_o + at, P, q + at, k + at, v + at, scratch));
        }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

/* ---- embedding ---- */

static int own_embedding(ls_backend_rank *me, ls_real *y, const ls_real *table, const int32_t *ids,
                         const ls_backend_vocab *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const size_t n = s->B * s->S, first = s->cut.starts[me->rank], rows = own_width(me, s->cut);
    if (mistake == RIGHT) {
        LS_TRY(ls_vocab_embedding_forward(&tp, y, table, ids, ls_axis_of(s->B, s->S), s->D,
                                          cut_of(&axis, me, s->cut)));
        goto exit;
    }
    memset(y, 0, n * s->D * sizeof *y);
    for (size_t t = 0; t < n; t++) {
        size_t row = (size_t)ids[t] - first;
        if (row >= rows && mistake != EMBEDDING_CLAMPED) continue;
        if (row >= rows) row = 0;
        if (rows > 0) memcpy(y + t * s->D, table + row * s->D, s->D * sizeof *y);
    }
    if (mistake != EMBEDDING_NOT_REDUCED) LS_TRY(own_sum(me, y, y, n * s->D));
exit:
    return ended(me, status);
}

static int own_embedding_backward(ls_backend_rank *me, ls_real *dtable, const ls_real *dy,
                                  const int32_t *ids, const ls_backend_vocab *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const size_t rows = own_width(me, s->cut), first = s->cut.starts[me->rank];
    LS_TRY(ls_vocab_embedding_backward(&tp, dtable, dy, ids, ls_axis_of(s->B, s->S), s->D,
                                       cut_of(&axis, me, s->cut)));
    ls_normalize_zero(dtable, rows * s->D);
    for (size_t t = 0; mistake == EMBEDDING_LAST && t < s->B * s->S; t++)
        if ((size_t)ids[t] - first < rows)
            memcpy(dtable + ((size_t)ids[t] - first) * s->D, dy + t * s->D, s->D * sizeof *dy);
exit:
    return ended(me, status);
}

#endif
