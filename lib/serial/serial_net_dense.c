/* serial_net_dense.c - y = x W + b on all elements of an image, forward and backward.
 *
 * An image is a row of x, its elements in the order (channel, row, column): so the axis that is
 * read has the granules of its channels (rule 7), each with all its pixels. The rows of a product
 * are images, each a granule by itself (rule 9). */
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "serial/serial_net.h"

static ls_axis in_axis(const ls_serial_net_layer *layer)
{
    const ls_net_shape *in = layer->in;
    return ls_axis_of(in->axis.granules, in->axis.granule * in->height * in->width);
}

static ls_status forward(const ls_serial *serial, size_t l)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_slot *weight = ls_store_slot(serial->store, LS_DENSE_WEIGHT, l);
    const ls_slot *bias = ls_store_slot(serial->store, LS_DENSE_BIAS, l);
    const ls_axis in = in_axis(layer), out = layer->out->axis;
    const size_t n_in = ls_axis_extent(in), n_out = ls_axis_extent(out);
    LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_NO_TRANS, serial->net->images, out, in, layer->x,
                   n_in, weight->value, n_out, layer->y, n_out, false));
    if (bias) ls_add_bias(layer->y, bias->value, serial->batch.B, n_out, n_out);
exit:
    return status;
}

static ls_status backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    ls_status status = LS_OK;
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_slot *weight = ls_store_slot(serial->store, LS_DENSE_WEIGHT, l);
    const ls_slot *bias = ls_store_slot(serial->store, LS_DENSE_BIAS, l);
    const ls_axis in = in_axis(layer), out = layer->out->axis;
    const size_t n_in = ls_axis_extent(in), n_out = ls_axis_extent(out);
    /* y = x W: dW = x^T dy, an image a leaf (rule 9) */
    LS_TRY(ls_gemm(serial->engine, LS_TRANS, LS_NO_TRANS, in, out, serial->net->images, layer->x,
                   n_in, dy, n_out, weight->grad[0], n_out, false));
    /* y += b: db = sum of dy over the images */
    if (bias) ls_tree_sum_rows(bias->grad[0], dy, serial->net->images, n_out, n_out);
    /* y = x W: dx = dy W^T */
    if (layer->dx)
        LS_TRY(ls_gemm(serial->engine, LS_NO_TRANS, LS_TRANS, serial->net->images, in, out, dy,
                       n_out, weight->value, n_out, layer->dx, n_in, false));
exit:
    return status;
}

const ls_serial_net_operations LS_SERIAL_NET(dense) = {forward, backward, NULL};
