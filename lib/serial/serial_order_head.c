/* serial_order_head.c - were the two spans of a sequence in order? Asked of its first token.
 *
 *     p = tanh(xf_0 Wp + bp)      zo = p Wo + bo      loss = mean of -log softmax(zo)[label]
 *
 * Rows are sequences here, not tokens: "B x D" is one row per sequence, and in every sum over the
 * batch the leaf is a sequence (rule 9). The engine openblas makes one call per sequence. */
#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

enum { CHOICES = 2 };

/* The two choices as a vocabulary of one granule. */
static ls_vocab_shard choices(void)
{
    ls_vocab_shard shard = {ls_axis_whole(CHOICES), 0, CHOICES};
    return shard;
}

/* y = x W + b for one row per sequence; row b of x is ld elements behind row b - 1. */
static ls_status rows_forward(const ls_serial *serial, ls_serial_linear linear, ls_real *y,
                              const ls_real *x, size_t ld)
{
    ls_status status = LS_OK;
    const size_t n_out = ls_axis_extent(linear.out);
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_NO_TRANS, serial->sequences, linear.out,
                   linear.in, x, ld, linear.weight->value, n_out, y, n_out, false));
    if (linear.bias) ls_add_bias(y, linear.bias->value, serial->batch.B, n_out, n_out);
exit:
    return status;
}

/* dW = x^T dy, db = sum of dy, dx = dy W^T (contiguous). */
static ls_status rows_backward(const ls_serial *serial, ls_serial_linear linear, ls_real *dx,
                               const ls_real *dy, const ls_real *x, size_t ld)
{
    ls_status status = LS_OK;
    const size_t n_in = ls_axis_extent(linear.in), n_out = ls_axis_extent(linear.out);
    LS_TRY(ls_gemm(serial->engine, LS_TRANS, LS_NO_TRANS, linear.in, linear.out, serial->sequences,
                   x, ld, dy, n_out, linear.weight->grad[0], n_out, false));
    if (linear.bias) ls_tree_sum_rows(linear.bias->grad[0], dy, serial->sequences, n_out, n_out);
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_TRANS, serial->sequences, linear.in, linear.out,
                   dy, n_out, linear.weight->value, n_out, dx, n_in, false));
exit:
    return status;
}

static ls_serial_linear pooler_of(const ls_serial *serial)
{
    return ls_serial_linear_of(serial, LS_POOLER_WEIGHT, LS_POOLER_BIAS, 0, serial->model,
                               serial->model);
}

static ls_serial_linear classifier_of(const ls_serial *serial)
{
    return ls_serial_linear_of(serial, LS_ORDER_WEIGHT, LS_ORDER_BIAS, 0, serial->model,
                               ls_axis_whole(CHOICES));
}

ls_status ls_serial_order_head_forward(const ls_serial *serial, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const ls_serial_order_head *act = &serial->order;
    const size_t B = serial->batch.B, S = serial->batch.S, D = serial->config->d_model;
    const size_t mark = ls_arena_mark(serial->temporary);
    const int32_t *labels = serial->batch.order;
    ls_real *target = NULL, *losses = NULL, total;
    if (act->valid == 0) {
        *ret_loss = (ls_real)0;
        goto exit;
    }
    LS_TRY(ls_arena_alloc(serial->temporary, B, sizeof *target, &target));
    LS_TRY(ls_arena_alloc(serial->temporary, B, sizeof *losses, &losses));

    LS_TRY(rows_forward(serial, pooler_of(serial), act->p, serial->xf, S * D));
    ls_tanh_forward(act->p, act->p, B * D);
    LS_TRY(rows_forward(serial, classifier_of(serial), act->z, act->p, D));

    ls_cross_entropy_max(act->largest, act->z, B, CHOICES, choices());
    ls_cross_entropy_sums(act->sum_exp, NULL, target, act->z, act->largest, labels, B, CHOICES,
                          choices());
    ls_cross_entropy_loss(losses, act->largest, act->sum_exp, NULL, target, labels, B, CHOICES, 0);
    ls_tree_sum_rows(&total, losses, serial->sequences, 1, 1);
    ls_normalize_zero(&total, 1);
    *ret_loss = total / (ls_real)act->valid;
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

ls_status ls_serial_order_head_backward(const ls_serial *serial, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_serial_order_head *act = &serial->order;
    const size_t B = serial->batch.B, S = serial->batch.S, D = serial->config->d_model;
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *dz = act->z, *dp = NULL, *dfirst = NULL;
    if (act->valid == 0) { /* no label, no gradient, and none passed on (rule 15) */
        ls_serial_zero_gradient(serial, LS_POOLER_WEIGHT);
        ls_serial_zero_gradient(serial, LS_POOLER_BIAS);
        ls_serial_zero_gradient(serial, LS_ORDER_WEIGHT);
        ls_serial_zero_gradient(serial, LS_ORDER_BIAS);
        goto exit;
    }
    LS_TRY(ls_arena_alloc(serial->temporary, B * D, sizeof *dp, &dp));
    LS_TRY(ls_arena_alloc(serial->temporary, B * D, sizeof *dfirst, &dfirst));

    /* loss = mean of -log softmax(zo)[label] */
    const ls_real factor = (ls_real)1 / (ls_real)act->valid;
    ls_cross_entropy_backward(dz, act->z, act->largest, act->sum_exp, serial->batch.order, B,
                              CHOICES, choices(), 0, factor);
    /* zo = p Wo + bo, p = tanh(...) */
    LS_TRY(rows_backward(serial, classifier_of(serial), dp, dz, act->p, D));
    ls_tanh_backward(dp, dp, act->p, B * D);
    /* xf_0 Wp + bp: what the first tokens got from the other loss, + this (losses in order) */
    LS_TRY(rows_backward(serial, pooler_of(serial), dfirst, dp, serial->xf, S * D));
    for (size_t b = 0; b < B; b++) ls_add(dx + b * S * D, dx + b * S * D, dfirst + b * D, D);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
