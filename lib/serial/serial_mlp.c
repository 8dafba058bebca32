/* serial_mlp.c - the feed-forward part of a layer.
 *
 *     GELU:    h = n2 W1 + b1                     u = gelu(h)         m = u W2 + b2
 *     SwiGLU:  gate = n2 Wgate, h = n2 Wup + b1   u = silu(gate) h    m = u W2 + b2
 *
 * The width F has gcd(H, F) granules (rule 7). Cut by rows first, the way that Megatron rejects, W1
 * is summed over the granules of D instead, one per head. */
#include "lockstep/kernels/activation.h"
#include "lockstep/numerics/gemm_fused.h"
#include "serial/serial_parts.h"

typedef struct mlp_linears {
    ls_serial_linear gate, up, down;
} mlp_linears;

static mlp_linears linears_of(const ls_serial *s, size_t layer)
{
    const size_t H = s->config->heads, D = s->config->d_model;
    const bool row_first = s->config->mlp_cut == LS_MLP_ROW_FIRST;
    const ls_axis in = row_first ? ls_axis_of(H, D / H) : s->model;
    mlp_linears linears = {
        .up = ls_serial_linear_of(s, LS_MLP_UP_WEIGHT, LS_MLP_UP_BIAS, layer, in, s->ff),
        .down =
            ls_serial_linear_of(s, LS_MLP_DOWN_WEIGHT, LS_MLP_DOWN_BIAS, layer, s->ff, s->model),
    };
    if (s->config->activation == LS_SWIGLU) {
        linears.gate = linears.up; /* the same axes, no bias */
        linears.gate.weight = ls_store_slot(s->store, LS_MLP_GATE_WEIGHT, layer);
        linears.gate.bias = NULL;
    }
    return linears;
}

ls_status ls_serial_mlp_forward(const ls_serial *serial, size_t layer, ls_real *m)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const mlp_linears linears = linears_of(serial, layer);
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_ff;

    LS_TRY(ls_serial_linear_forward(serial, linears.up, act->h, act->n2));
    switch (serial->config->activation) {
    case LS_GELU_TANH:
        ls_gelu_tanh_forward(act->u, act->h, n);
        break;
    case LS_GELU_ERF:
        ls_gelu_erf_forward(act->u, act->h, n);
        break;
    case LS_SWIGLU:
        LS_TRY(ls_serial_linear_forward(serial, linears.gate, act->gate, act->n2));
        ls_swiglu_forward(act->u, act->gate, act->h, n);
        break;
    }
    LS_TRY(ls_serial_linear_forward(serial, linears.down, m, act->u));
exit:
    return status;
}

/* dn2 = dgate Wgate^T + dh Wup^T under one tree (rule 11): granule i of F is gate's part plus up's.
 */
static ls_status swiglu_input_gradient(const ls_serial *serial, const mlp_linears *linears,
                                       ls_real *dn2, const ls_real *dgate, const ls_real *dh)
{
    const size_t F = serial->config->d_ff, width = serial->ff.granule;
    const ls_gemm_term terms[] = {
        {dgate, F, linears->gate.weight->value, F, width, 1, 0},
        {dh, F, linears->up.weight->value, F, width, 1, 0},
    };
    return ls_gemm_fused(serial->engine, LS_NO_TRANS, LS_TRANS, serial->tokens, linears->up.in,
                         serial->ff.granules, terms, 2, dn2, serial->config->d_model);
}

ls_status ls_serial_mlp_backward(const ls_serial *serial, size_t layer, ls_real *dn2,
                                 const ls_real *dm)
{
    ls_status status = LS_OK;
    const ls_serial_layer *act = &serial->layers[layer];
    const mlp_linears linears = linears_of(serial, layer);
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_ff;
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *du = NULL, *dgate = NULL, *dh = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *du, &du));

    /* m = u W2 + b2 */
    LS_TRY(ls_serial_linear_backward_parameters(serial, linears.down, act->u, dm));
    LS_TRY(ls_serial_linear_backward_input(serial, linears.down, du, dm));
    if (serial->config->activation == LS_SWIGLU) {
        LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *dh, &dh));
        /* u = silu(gate) h; gate = n2 Wgate, h = n2 Wup + b1 */
        dgate = du;
        ls_swiglu_backward(dgate, dh, du, act->gate, act->h, n);
        LS_TRY(ls_serial_linear_backward_parameters(serial, linears.gate, act->n2, dgate));
        LS_TRY(ls_serial_linear_backward_parameters(serial, linears.up, act->n2, dh));
        LS_TRY(swiglu_input_gradient(serial, &linears, dn2, dgate, dh));
    } else {
        /* u = gelu(h), h = n2 W1 + b1 */
        dh = du;
        if (serial->config->activation == LS_GELU_TANH)
            ls_gelu_tanh_backward(dh, du, act->h, n);
        else
            ls_gelu_erf_backward(dh, du, act->h, n);
        LS_TRY(ls_serial_linear_backward_parameters(serial, linears.up, act->n2, dh));
        LS_TRY(ls_serial_linear_backward_input(serial, linears.up, dn2, dh));
    }
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
