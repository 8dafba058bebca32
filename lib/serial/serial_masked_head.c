/* serial_masked_head.c - what a masked-token model does to a vector before it meets the vocabulary.
 *
 *     t = xf Wm + bm      u = gelu(t)      features = norm(u)
 *
 * The matrix is D x D and never cut; the exact GELU, whatever the layers have. */
#include "lockstep/kernels/activation.h"
#include "serial/serial_parts.h"

static ls_serial_linear dense_of(const ls_serial *serial)
{
    return ls_serial_linear_of(serial, LS_MASKED_DENSE_WEIGHT, LS_MASKED_DENSE_BIAS, 0,
                               serial->model, serial->model);
}

ls_status ls_serial_masked_head_forward(const ls_serial *serial)
{
    ls_status status = LS_OK;
    const ls_serial_masked_head *act = &serial->masked;
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;
    LS_TRY(ls_serial_linear_forward(serial, dense_of(serial), act->t, serial->xf));
    ls_gelu_erf_forward(act->u, act->t, n);
    ls_serial_norm_forward(serial, LS_MASKED_NORM_SCALE, LS_MASKED_NORM_SHIFT, 0, act->features,
                           act->mean, act->rstd, act->u);
exit:
    return status;
}

ls_status ls_serial_masked_head_backward(const ls_serial *serial, ls_real *dx, ls_real *dfeatures)
{
    ls_status status = LS_OK;
    const ls_serial_masked_head *act = &serial->masked;
    const size_t n = ls_axis_extent(serial->tokens) * serial->config->d_model;
    ls_real *du = dfeatures, *dt = dfeatures;

    /* features = norm(u), u = gelu(t) */
    ls_serial_norm_backward(serial, LS_MASKED_NORM_SCALE, LS_MASKED_NORM_SHIFT, 0, du, dfeatures,
                            act->u, act->mean, act->rstd);
    ls_gelu_erf_backward(dt, du, act->t, n);
    /* t = xf Wm + bm */
    LS_TRY(ls_serial_linear_backward_parameters(serial, dense_of(serial), serial->xf, dt));
    LS_TRY(ls_serial_linear_backward_input(serial, dense_of(serial), dx, dt));
exit:
    return status;
}
