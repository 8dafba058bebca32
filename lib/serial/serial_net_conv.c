/* serial_net_conv.c - convolution, forward and backward. */
#include "lockstep/kernels/conv2d.h"

#include "serial/serial_net.h"

/* The layer as the kernel takes it. Granules of channels are those of the shapes (rule 7), of which
 * every group has its share. */
static ls_conv2d conv_of(const ls_serial *serial, const ls_serial_net_layer *layer)
{
    const ls_net *net = serial->net->net;
    const ls_net_layer *is = layer->is;
    const ls_conv2d conv = {.window = ls_serial_net_window(layer),
                            .groups = is->groups,
                            .in_channels = layer->in->channels,
                            .out_channels = layer->out->channels,
                            .in_granules = layer->in->axis.granules / is->groups,
                            .out_granules = layer->out->axis.granules / is->groups,
                            .grid = {net->row_granules, net->column_granules}};
    return conv;
}

static ls_status take_scratch(const ls_serial *serial, const ls_conv2d *conv, ls_real **ret_scratch)
{
    return ls_arena_alloc(serial->temporary, ls_conv2d_scratch(conv, serial->batch.B),
                          sizeof(ls_real), ret_scratch);
}

static ls_status forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_conv2d conv = conv_of(serial, layer);
    const ls_slot *weight = ls_store_slot(serial->store, LS_CONV_WEIGHT, l);
    const ls_slot *bias = ls_store_slot(serial->store, LS_CONV_BIAS, l);
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *scratch = NULL;
    LS_TRY(take_scratch(serial, &conv, &scratch));
    LS_TRY(ls_conv2d_forward(serial->engine, &conv, serial->batch.B, layer->y,
                             ls_serial_net_layout(layer->out), ls_window_outputs(&conv.window),
                             layer->x, ls_serial_net_layout(layer->in), weight->value,
                             ls_conv2d_depth(&conv), bias ? bias->value : NULL, scratch));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

/* The weight's gradient: an image's part is the tree over its granule rectangles, made in one
 * product. */
typedef struct weight_leaf {
    const ls_conv2d *conv;
    const ls_conv2d_piece *pieces; /* an image's */
    ls_image_layout x_layout, dy_layout;
    const ls_real *x, *dy;
    ls_real *scratch;
} weight_leaf;

static ls_status image_weight(const ls_serial *serial, ls_real *value, const void *context,
                              size_t image)
{
    const weight_leaf *of = context;
    return ls_conv2d_weight_node(serial->engine, of->conv, value, ls_conv2d_depth(of->conv),
                                 of->pieces, serial->net->n_granules,
                                 of->dy + image * of->dy_layout.stride, of->dy_layout,
                                 of->x + image * of->x_layout.stride, of->x_layout, of->scratch);
}

static ls_status backward_weight(const ls_serial *serial, size_t l, const ls_conv2d *conv,
                                 const ls_real *dy)
{
    ls_status status = LS_OK;
    const ls_serial_net *net = serial->net;
    const ls_serial_net_layer *layer = &net->layer[l];
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_conv2d_piece *pieces = NULL;
    weight_leaf leaf = {.conv = conv,
                        .x_layout = ls_serial_net_layout(layer->in),
                        .dy_layout = ls_serial_net_layout(layer->out),
                        .x = layer->x,
                        .dy = dy};
    LS_TRY(ls_arena_alloc(serial->temporary, net->n_granules, sizeof *pieces, &pieces));
    for (size_t i = 0; i < net->n_granules; i++) {
        pieces[i].image = 0;
        pieces[i].outputs = ls_serial_net_pixels(net, i, layer->out);
        pieces[i].closes = net->granules[i].closes;
    }
    leaf.pieces = pieces;
    LS_TRY(ls_arena_alloc(serial->temporary, ls_conv2d_node_scratch(conv, pieces, net->n_granules),
                          sizeof *leaf.scratch, &leaf.scratch));
    LS_TRY(ls_serial_net_sum_images(
        serial, ls_store_slot(serial->store, LS_CONV_WEIGHT, l)->grad[0],
        conv->out_channels * ls_conv2d_depth(conv), serial->batch.B, image_weight, &leaf));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

static ls_status backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_conv2d conv = conv_of(serial, layer);
    const ls_slot *weight = ls_store_slot(serial->store, LS_CONV_WEIGHT, l);
    const ls_slot *bias = ls_store_slot(serial->store, LS_CONV_BIAS, l);
    const size_t mark = ls_arena_mark(serial->temporary);
    ls_real *scratch = NULL;
    LS_TRY(backward_weight(serial, l, &conv, dy));
    /* y += b: db = the sum of dy over images and pixels (rule 9) */
    if (bias)
        LS_TRY(ls_serial_net_sum_plainly(serial, bias->grad[0], dy, layer->out, serial->batch.B));
    if (layer->dx == NULL) goto exit;
    LS_TRY(take_scratch(serial, &conv, &scratch));
    LS_TRY(ls_conv2d_backward(serial->engine, &conv, serial->batch.B, layer->dx,
                              ls_serial_net_layout(layer->in), ls_window_inputs(&conv.window), dy,
                              ls_serial_net_layout(layer->out), weight->value,
                              ls_conv2d_depth(&conv), scratch));
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}

const ls_serial_net_operations LS_SERIAL_NET(conv) = {forward, backward, NULL};
