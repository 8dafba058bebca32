/* serial_net_pool.c - max, average and global pooling, forward and backward. */
#include "lockstep/kernels/pooling.h"

#include "lockstep/kernels/batch_norm.h"
#include "serial/serial_net.h"

static ls_status max_pool_forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_window window = ls_serial_net_window(layer);
    LS_TRY(ls_arena_alloc(serial->kept, serial->batch.B * ls_net_shape_elements(layer->out),
                          sizeof *layer->place, &layer->place));
    ls_max_pool_forward(&window, serial->batch.B, layer->out->channels, layer->y, layer->place,
                        ls_serial_net_layout(layer->out), ls_window_outputs(&window), layer->x,
                        ls_serial_net_layout(layer->in));
exit:
    return status;
}

static ls_status max_pool_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_window window = ls_serial_net_window(layer);
    if (layer->dx)
        ls_max_pool_backward(&window, serial->batch.B, layer->out->channels, layer->dx,
                             ls_serial_net_layout(layer->in), ls_window_inputs(&window), dy,
                             layer->place, ls_serial_net_layout(layer->out));
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(max_pool) = {max_pool_forward, max_pool_backward,
                                                          NULL};

static ls_status avg_pool_forward(const ls_serial *serial, size_t l)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_window window = ls_serial_net_window(layer);
    ls_average_pool_forward(&window, layer->is->count_pad, serial->batch.B, layer->out->channels,
                            layer->y, ls_serial_net_layout(layer->out), ls_window_outputs(&window),
                            layer->x, ls_serial_net_layout(layer->in));
    return LS_OK;
}

static ls_status avg_pool_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_window window = ls_serial_net_window(layer);
    if (layer->dx)
        ls_average_pool_backward(&window, layer->is->count_pad, serial->batch.B,
                                 layer->out->channels, layer->dx, ls_serial_net_layout(layer->in),
                                 ls_window_inputs(&window), dy, ls_serial_net_layout(layer->out));
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(avg_pool) = {avg_pool_forward, avg_pool_backward,
                                                          NULL};

/* y = (sum over the pixels of an image) / pixels. */
static ls_status global_pool_forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const size_t C = layer->in->channels, stride = ls_net_shape_elements(layer->in);
    for (size_t b = 0; b < serial->batch.B; b++)
        LS_TRY(ls_serial_net_sum_plainly(serial, layer->y + b * C, layer->x + b * stride, layer->in,
                                         1));
    ls_batch_norm_mean(layer->y, layer->y, layer->in->height * layer->in->width,
                       serial->batch.B * C);
exit:
    return status;
}

static ls_status global_pool_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_image_layout in = ls_serial_net_layout(layer->in);
    if (layer->dx)
        ls_global_pool_backward(layer->dx, in, in.held, serial->batch.B, layer->in->channels, dy,
                                ls_rectangle_count(in.held));
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(global_pool) = {global_pool_forward,
                                                             global_pool_backward, NULL};
