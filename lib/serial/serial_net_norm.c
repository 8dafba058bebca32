/* serial_net_norm.c - batch normalisation and response normalisation, forward and backward.
 *
 * A batch that trains is normalised by its own statistics, over all its images
 * and pixels; one that is evaluated by the running ones, which are constants then. */
#include <string.h>

#include "lockstep/kernels/batch_norm.h"
#include "lockstep/kernels/response_norm.h"
#include "serial/serial_net.h"

/* Values of a channel: N. */
static size_t count_of(const ls_serial *serial, const ls_serial_net_layer *layer)
{
    return serial->batch.B * layer->in->height * layer->in->width;
}

static ls_real *values_of(const ls_serial *serial, ls_role role, size_t l)
{
    return ls_store_slot(serial->store, role, l)->value;
}

static void squares_leaf(ls_real *value, const void *context, size_t image, ls_rectangle pixels)
{
    const ls_serial_net_layer *layer = context;
    const ls_image_layout layout = ls_serial_net_layout(layer->in);
    ls_batch_norm_squares(value, layer->x + image * layout.stride, layout, pixels, layer->mean,
                          layer->in->channels);
}

/* mean and rstd of the batch, in two passes. */
static ls_status take_statistics(const ls_serial *serial, const ls_serial_net_layer *layer)
{
    ls_status status = LS_OK;
    const size_t C = layer->in->channels, N = count_of(serial, layer);
    LS_TRY(ls_serial_net_sum_plainly(serial, layer->mean, layer->x, layer->in, serial->batch.B));
    ls_batch_norm_mean(layer->mean, layer->mean, N, C);
    LS_TRY(ls_serial_net_sum_pixels(serial, layer->squares, layer->in, serial->batch.B,
                                    squares_leaf, layer));
    ls_batch_norm_rstd(layer->rstd, layer->squares, N, layer->is->eps, C);
exit:
    return status;
}

static ls_status batch_norm_forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_image_layout layout = ls_serial_net_layout(layer->in);
    const size_t C = layer->in->channels;
    LS_TRY(ls_serial_net_keep(serial, &layer->mean, C));
    LS_TRY(ls_serial_net_keep(serial, &layer->rstd, C));
    if (serial->batch.training) {
        LS_TRY(ls_serial_net_keep(serial, &layer->squares, C));
        LS_TRY(take_statistics(serial, layer));
    } else {
        memcpy(layer->mean, values_of(serial, LS_BATCH_NORM_MEAN, l), C * sizeof *layer->mean);
        ls_batch_norm_rstd(layer->rstd, values_of(serial, LS_BATCH_NORM_VARIANCE, l), 1,
                           layer->is->eps, C);
    }
    ls_batch_norm_forward(layer->y, layout, layer->x, layout, layout.held, serial->batch.B, C,
                          layer->mean, layer->rstd, values_of(serial, LS_BATCH_NORM_SCALE, l),
                          values_of(serial, LS_BATCH_NORM_SHIFT, l));
exit:
    return status;
}

/* The running statistics take in those of the batch, unless x was normalised by them. */
static void batch_norm_running(const ls_serial *serial, size_t l)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    if (serial->batch.training)
        ls_batch_norm_running(values_of(serial, LS_BATCH_NORM_MEAN, l),
                              values_of(serial, LS_BATCH_NORM_VARIANCE, l), layer->mean,
                              layer->squares, count_of(serial, layer), layer->is->momentum,
                              layer->in->channels);
}

typedef struct scale_leaf {
    const ls_serial_net_layer *layer;
    const ls_real *dy;
} scale_leaf;

static void sum_scale_leaf(ls_real *value, const void *context, size_t image, ls_rectangle pixels)
{
    const scale_leaf *of = context;
    const ls_serial_net_layer *layer = of->layer;
    const ls_image_layout layout = ls_serial_net_layout(layer->in);
    ls_batch_norm_scale_leaf(value, of->dy + image * layout.stride, layout,
                             layer->x + image * layout.stride, layout, pixels, layer->mean,
                             layer->rstd, layer->in->channels);
}

static ls_status batch_norm_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_image_layout layout = ls_serial_net_layout(layer->in);
    const size_t C = layer->in->channels, B = serial->batch.B;
    const size_t mark = ls_arena_mark(serial->temporary);
    const scale_leaf scale = {layer, dy};
    ls_slot *scale_slot = ls_store_slot(serial->store, LS_BATCH_NORM_SCALE, l);
    ls_slot *shift_slot = ls_store_slot(serial->store, LS_BATCH_NORM_SHIFT, l);
    const ls_real *dscale = scale_slot->grad[0], *dshift = shift_slot->grad[0];
    ls_real *nothing = NULL;
    /* y = xhat scale + shift */
    LS_TRY(ls_serial_net_sum_pixels(serial, scale_slot->grad[0], layer->in, B, sum_scale_leaf,
                                    &scale));
    LS_TRY(ls_serial_net_sum_plainly(serial, shift_slot->grad[0], dy, layer->in, B));
    if (layer->dx == NULL) goto exit;
    if (!serial->batch.training) { /* x moves neither mean nor variance */
        LS_TRY(ls_arena_zalloc(serial->temporary, C, sizeof *nothing, &nothing));
        dscale = dshift = nothing;
    }
    ls_batch_norm_backward(layer->dx, layout, dy, layout, layer->x, layout, layout.held, B, C,
                           layer->mean, layer->rstd, scale_slot->value, dscale, dshift,
                           count_of(serial, layer));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

const ls_serial_net_operations LS_SERIAL_NET(batch_norm) = {batch_norm_forward, batch_norm_backward,
                                                            batch_norm_running};

/* ---- response normalisation ---- */

static ls_response_norm response_norm_of(const ls_serial_net_layer *layer)
{
    const ls_response_norm norm = {.channels = layer->in->channels,
                                   .n = layer->is->span,
                                   .alpha = layer->is->alpha,
                                   .beta = layer->is->beta,
                                   .k = layer->is->k};
    return norm;
}

static ls_status response_norm_forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_response_norm norm = response_norm_of(layer);
    const ls_channels all = {0, norm.channels};
    LS_TRY(
        ls_serial_net_keep(serial, &layer->d, serial->batch.B * ls_net_shape_elements(layer->out)));
    ls_response_norm_forward(&norm, serial->batch.B, layer->in->height * layer->in->width, layer->y,
                             layer->d, all, layer->x, all);
exit:
    return status;
}

static ls_status response_norm_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_response_norm norm = response_norm_of(layer);
    const ls_channels all = {0, norm.channels};
    if (layer->dx)
        ls_response_norm_backward(&norm, serial->batch.B, layer->in->height * layer->in->width,
                                  layer->dx, all, dy, layer->x, layer->d, all);
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(response_norm) = {response_norm_forward,
                                                               response_norm_backward, NULL};
