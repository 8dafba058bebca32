/* serial_net_elementwise.c - ReLU, dropout, the sum of two outputs; forward and backward. */
#include <string.h>

#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/elementwise.h"
#include "serial/serial_net.h"

/* Elements of the layer's output, of all images. */
static size_t elements(const ls_serial *serial, const ls_serial_net_layer *layer)
{
    return serial->batch.B * ls_net_shape_elements(layer->out);
}

static ls_status relu_forward(const ls_serial *serial, size_t l)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    ls_relu_forward(layer->y, layer->x, elements(serial, layer));
    return LS_OK;
}

static ls_status relu_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    if (layer->dx) ls_relu_backward(layer->dx, dy, layer->y, elements(serial, layer));
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(relu) = {relu_forward, relu_backward, NULL};

/* Element (n, c, r, w) has the number ((n C + c) H + r) W + w: its place in memory, since the
 * serial model holds the whole batch. Backward is the same on dy: the mask is drawn again. */
static void drop(const ls_serial *serial, size_t l, ls_real *y, const ls_real *x)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    const ls_stream stream = {serial->batch.seed, LS_RANDOM_DROPOUT_NET, (uint32_t)l,
                              serial->batch.step};
    ls_dropout(y, x, elements(serial, layer), serial->batch.training ? layer->is->p : 0, stream, 0);
}

static ls_status dropout_forward(const ls_serial *serial, size_t l)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    drop(serial, l, layer->y, layer->x);
    return LS_OK;
}

static ls_status dropout_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    if (layer->dx) drop(serial, l, layer->dx, dy);
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(dropout) = {dropout_forward, dropout_backward, NULL};

static ls_status add_forward(const ls_serial *serial, size_t l)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    ls_add(layer->y, layer->x, layer->beside, elements(serial, layer));
    return LS_OK;
}

/* y = x + beside: each gets dy. */
static ls_status add_backward(const ls_serial *serial, size_t l, const ls_real *dy)
{
    const ls_serial_net_layer *layer = &serial->net->layer[l];
    if (layer->dx) memcpy(layer->dx, dy, elements(serial, layer) * sizeof *dy);
    return LS_OK;
}

const ls_serial_net_operations LS_SERIAL_NET(add) = {add_forward, add_backward, NULL};
