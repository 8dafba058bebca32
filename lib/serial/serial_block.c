/* serial_block.c - one layer: attention and MLP, each between a norm and a residual connection.
 *
 *     x1 = dropout(attention(norm1(x))) + x
 *     y  = dropout(mlp(norm2(x1))) + x1
 *
 * Rule 11: (product + bias), dropout, + residual. */
#include "lockstep/kernels/elementwise.h"
#include "serial/serial_parts.h"

ls_status ls_serial_block_forward(const ls_serial *serial, size_t layer, ls_real *y)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;

    ls_serial_norm_forward(serial, LS_NORM1_SCALE, LS_NORM1_SHIFT, layer, act->n1, act->mean1,
                           act->rstd1, act->x);
    LS_TRY(ls_serial_attention_forward(serial, layer, act->x1));
    ls_serial_dropout(serial, act->x1, act->x1, LS_RANDOM_DROPOUT_ATTN_OUT, layer);
    ls_add(act->x1, act->x1, act->x, n);

    ls_serial_norm_forward(serial, LS_NORM2_SCALE, LS_NORM2_SHIFT, layer, act->n2, act->mean2,
                           act->rstd2, act->x1);
    LS_TRY(ls_serial_mlp_forward(serial, layer, y));
    ls_serial_dropout(serial, y, y, LS_RANDOM_DROPOUT_MLP, layer);
    ls_add(y, y, act->x1, n);
exit:
    return status;
}

ls_status ls_serial_block_backward(const ls_serial *serial, size_t layer, ls_real *dx)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *branch = NULL, *through = NULL; /* gradients of a branch's end and of its beginning */
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *branch, &branch));
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *through, &through));

    /* y = dropout(mlp(norm2(x1))) + x1: what came through the branch, + what came next to it */
    ls_serial_dropout(serial, branch, dx, LS_RANDOM_DROPOUT_MLP, layer);
    LS_TRY(ls_serial_mlp_backward(serial, layer, through, branch));
    ls_serial_norm_backward(serial, LS_NORM2_SCALE, LS_NORM2_SHIFT, layer, through, through,
                            act->x1, act->mean2, act->rstd2);
    ls_add(dx, through, dx, n);

    /* x1 = dropout(attention(norm1(x))) + x */
    ls_serial_dropout(serial, branch, dx, LS_RANDOM_DROPOUT_ATTN_OUT, layer);
    LS_TRY(ls_serial_attention_backward(serial, layer, through, branch));
    ls_serial_norm_backward(serial, LS_NORM1_SCALE, LS_NORM1_SHIFT, layer, through, through, act->x,
                            act->mean1, act->rstd1);
    ls_add(dx, through, dx, n);
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
