/* serial_norm.c - LayerNorm or RMSNorm, as the configuration says. */
#include "lockstep/kernels/norm.h"

#include "serial/serial_parts.h"

/* A parameter's values, its gradient; NULL where the model has none (a norm without shift). */
static const ls_real *value_of(const ls_slot *slot)
{
    return slot ? slot->value : NULL;
}

static ls_real *gradient_of(const ls_slot *slot)
{
    return slot ? slot->grad[0] : NULL;
}

void ls_serial_norm_forward(const ls_serial *serial, ls_role scale, ls_role shift, size_t layer,
                            ls_real *y, ls_real *mean, ls_real *rstd, const ls_real *x)
{
    const ls_real *weight = value_of(ls_store_slot(serial->store, scale, layer));
    const ls_real *bias = value_of(ls_store_slot(serial->store, shift, layer));
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    const double eps = serial->config->norm_eps;
    if (serial->config->norm == LS_LAYER_NORM)
        ls_layer_norm_forward(y, mean, rstd, x, weight, bias, n, D, eps);
    else
        ls_rms_norm_forward(y, rstd, x, weight, n, D, eps);
}

void ls_serial_norm_backward(const ls_serial *serial, ls_role scale, ls_role shift, size_t layer,
                             ls_real *dx, const ls_real *dy, const ls_real *x, const ls_real *mean,
                             const ls_real *rstd)
{
    const ls_slot *weight = ls_store_slot(serial->store, scale, layer);
    const ls_slot *bias = ls_store_slot(serial->store, shift, layer);
    const size_t n = ls_axis_extent(serial->tokens), D = serial->config->d_model;
    /* The parameters first: dx may take the place of dy. */
    if (serial->config->norm == LS_LAYER_NORM) {
        ls_layer_norm_backward_parameters(gradient_of(weight), gradient_of(bias), dy, x, mean, rstd,
                                          serial->tokens, D);
        ls_layer_norm_backward(dx, dy, x, weight->value, mean, rstd, n, D);
    } else {
        ls_rms_norm_backward_parameters(gradient_of(weight), dy, x, rstd, serial->tokens, D);
        ls_rms_norm_backward(dx, dy, x, weight->value, rstd, n, D);
    }
}
