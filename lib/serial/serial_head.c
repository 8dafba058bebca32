/* serial_head.c - the final norm and the logits.
 *
 *     xf = final_norm(x)        z = xf E^T
 *
 * E is V x D: the token embedding once more when the model ties them, else a matrix of its own. Its
 * padded rows are zero, so are their logits; the loss leaves them out. */
#include "serial/serial_parts.h"

/* E, and where the gradient of its use as the head goes. */
static ls_slot *head_slot(const ls_serial *serial)
{
    return ls_store_slot(serial->store, serial->config->tied ? LS_TOKEN_EMBEDDING : LS_HEAD_WEIGHT,
                         0);
}

static ls_real *head_gradient(const ls_serial *serial)
{
    return head_slot(serial)->grad[serial->config->tied ? 1 : 0];
}

ls_status ls_serial_head_forward(const ls_serial *serial)
{
    const size_t D = serial->config->d_model, Vp = ls_axis_extent(serial->vocab);
    ls_serial_norm_forward(serial, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0, serial->xf,
                           serial->mean, serial->rstd, serial->x);
    return ls_gemm(serial->engine, LS_NO_TRANS, LS_TRANS, serial->tokens, serial->vocab,
                   serial->model, serial->xf, D, head_slot(serial)->value, D, serial->z, Vp, false);
}

ls_status ls_serial_head_backward(const ls_serial *serial, ls_real *dx)
{
    ls_status status = LS_OK;
    const size_t D = serial->config->d_model, Vp = ls_axis_extent(serial->vocab);
    const ls_real *dz = serial->z; /* ls_serial_loss_backward has put it there */

    /* z = xf E^T: dE = dz^T xf, dxf = dz E */
    LS_TRY(ls_gemm(serial->engine, LS_TRANS, LS_NO_TRANS, serial->vocab, serial->model,
                   serial->tokens, dz, Vp, serial->xf, D, head_gradient(serial), D, false));
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_NO_TRANS, serial->tokens, serial->model,
                   serial->vocab, dz, Vp, head_slot(serial)->value, D, dx, D, false));
    /* xf = final_norm(x) */
    ls_serial_norm_backward(serial, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0, dx, dx, serial->x,
                            serial->mean, serial->rstd);
exit:
    return status;
}
