/* serial_head.c - from the last layer to the logits.
 *
 *     xf = final_norm(x)        z = xf E^T                       GPT
 *     xf = final_norm(x)        z = features(xf) E^T + bv        a masked-token model
 *
 * Where the norms come after the residual sums there is none at the end: xf is x. E is V x D: the
 * token embedding once more when the model ties them, else a matrix of its own. Its padded rows are
 * zero, so are their logits; the loss leaves them out. */
#include <string.h>

#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_parts.h"

static bool masked_token(const ls_serial *serial)
{
    return serial->config->objective == LS_MASKED_TOKEN;
}

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

/* What meets the vocabulary. */
static const ls_real *features_of(const ls_serial *serial)
{
    return masked_token(serial) ? serial->masked.features : serial->xf;
}

ls_status ls_serial_head_forward(const ls_serial *serial)
{
    ls_status status = LS_OK;
    const size_t D = serial->config->d_model, Vp = ls_axis_extent(serial->vocab);
    const ls_slot *bias = ls_store_slot(serial->store, LS_VOCAB_BIAS, 0);
    if (serial->config->norm_place == LS_NORM_PRE)
        ls_serial_norm_forward(serial, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0, serial->xf,
                               serial->mean, serial->rstd, serial->x);
    if (masked_token(serial)) LS_TRY(ls_serial_masked_head_forward(serial));
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_TRANS, serial->tokens, serial->vocab,
                   serial->model, features_of(serial), D, head_slot(serial)->value, D, serial->z,
                   Vp, false));
    if (bias) ls_add_bias(serial->z, bias->value, ls_axis_extent(serial->tokens), Vp, Vp);
exit:
    return status;
}

/* No hidden token has a target, while the other loss has something to say: the vocabulary's side
 * gets no gradient and passes none on (rule 15). */
static void nothing_from_vocabulary(const ls_serial *serial, ls_real *dx)
{
    const ls_slot *head = head_slot(serial);
    memset(head_gradient(serial), 0, head->rows * head->cols * sizeof *dx);
    ls_serial_zero_gradient(serial, LS_VOCAB_BIAS);
    ls_serial_zero_gradient(serial, LS_MASKED_NORM_SCALE);
    ls_serial_zero_gradient(serial, LS_MASKED_NORM_SHIFT);
    ls_serial_zero_gradient(serial, LS_MASKED_DENSE_WEIGHT);
    ls_serial_zero_gradient(serial, LS_MASKED_DENSE_BIAS);
    memset(dx, 0, ls_axis_extent(serial->tokens) * serial->config->d_model * sizeof *dx);
}

static ls_status vocabulary_backward(const ls_serial *serial, ls_real *dx)
{
    ls_status status = LS_OK;
    const size_t D = serial->config->d_model, Vp = ls_axis_extent(serial->vocab);
    const size_t mark = ls_arena_mark(serial->temporary);
    const ls_real *dz = serial->z; /* ls_serial_loss_backward has put it there */
    const ls_slot *bias = ls_store_slot(serial->store, LS_VOCAB_BIAS, 0);
    ls_real *dfeatures = dx;
    if (masked_token(serial))
        LS_TRY(ls_arena_alloc(serial->temporary, ls_axis_extent(serial->tokens) * D,
                              sizeof *dfeatures, &dfeatures));

    /* z = features E^T + bv: dE = dz^T features, dfeatures = dz E */
    LS_TRY(ls_gemm(serial->engine, LS_TRANS, LS_NO_TRANS, serial->vocab, serial->model,
                   serial->tokens, dz, Vp, features_of(serial), D, head_gradient(serial), D,
                   false));
    if (bias) ls_tree_sum_rows(bias->grad[0], dz, serial->tokens, Vp, Vp);
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_NO_TRANS, serial->tokens, serial->model,
                   serial->vocab, dz, Vp, head_slot(serial)->value, D, dfeatures, D, false));
    if (masked_token(serial)) LS_TRY(ls_serial_masked_head_backward(serial, dx, dfeatures));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

ls_status ls_serial_head_backward(const ls_serial *serial, ls_real *dx)
{
    ls_status status = LS_OK;
    if (serial->valid == 0)
        nothing_from_vocabulary(serial, dx);
    else
        LS_TRY(vocabulary_backward(serial, dx));
    if (serial->config->sentence_order) LS_TRY(ls_serial_order_head_backward(serial, dx));
    /* xf = final_norm(x) */
    if (serial->config->norm_place == LS_NORM_PRE)
        ls_serial_norm_backward(serial, LS_FINAL_NORM_SCALE, LS_FINAL_NORM_SHIFT, 0, dx, dx,
                                serial->x, serial->mean, serial->rstd);
exit:
    return status;
}
