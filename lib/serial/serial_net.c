/* serial_net.c - the two passes of a convolutional network. */
#include "serial/serial_net.h"

#include <stdlib.h>

#include "lockstep/kernels/elementwise.h"
#include "base/allocate.h"

#define OPERATIONS(KIND, name) [LS_NET_##KIND] = &LS_SERIAL_NET(name),
static const ls_serial_net_operations *const kinds[LS_NET_KINDS] = {LS_NET_EACH_KIND(OPERATIONS)};

ls_status ls_serial_net_create(ls_serial *serial)
{
    ls_status status = LS_OK;
    const ls_net *net = &serial->config->net;
    ls_serial_net *made = NULL;
    LS_NEW(made, 1);
    serial->net = made;
    made->net = net;
    ls_net_shapes_of(net, &made->shapes);
    for (size_t l = 0; l < net->count; l++) {
        made->layer[l].is = &net->layers[l];
        made->layer[l].in = ls_net_shape_at(&made->shapes, net->layers[l].from);
        made->layer[l].out = &made->shapes.layer[l];
    }
    LS_TRY(ls_serial_net_list_granules(serial));
exit:
    return status;
}

ls_status ls_serial_net_forward(ls_serial *serial, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    const ls_net *net = serial->net->net;
    LS_TRY(ls_serial_net_take_batch(serial, batch));

    for (size_t l = 0; l < net->count; l++) {
        LS_TRY(ls_serial_check_stop(serial));
        LS_TRY(kinds[net->layers[l].kind]->forward(serial, l));
    }
    LS_TRY(ls_serial_net_loss_forward(serial, &serial->token_loss));

    /* Nothing can fail any more: a pass that fails leaves the store as it was. */
    for (size_t l = 0; l < net->count; l++)
        if (kinds[net->layers[l].kind]->after) kinds[net->layers[l].kind]->after(serial, l);
    *ret_loss = serial->token_loss;
exit:
    return status;
}

/* One more reader's part of the gradient of an output of n elements; `sum` is room for a sum, taken
 * when there is a second part. */
static ls_status add_part(const ls_serial *serial, const ls_real *part, size_t n,
                          const ls_real **gradient, ls_real **sum)
{
    ls_status status = LS_OK;
    if (*gradient == NULL) {
        *gradient = part;
        goto exit;
    }
    if (*sum == NULL) LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof **sum, sum));
    ls_add(*sum, *gradient, part, n);
    *gradient = *sum;
exit:
    return status;
}

/* The gradient of the output of layer l: what its readers pass down, ascending by their number,
 * left to right; an addition that reads it twice passes it twice. */
static ls_status gather(const ls_serial *serial, size_t l, const ls_real **ret_dy)
{
    ls_status status = LS_OK;
    const ls_serial_net *net = serial->net;
    const size_t n = serial->batch.B * ls_net_shape_elements(net->layer[l].out);
    const ls_real *dy = NULL;
    ls_real *sum = NULL;
    for (size_t r = l + 1; r < net->net->count; r++) {
        const ls_serial_net_layer *reader = &net->layer[r];
        for (int i = 0; i < ls_net_traits_of(reader->is->kind)->inputs; i++)
            if (ls_net_input_of(reader->is, i) == (int)l)
                LS_TRY(add_part(serial, reader->dx, n, &dy, &sum));
    }
    *ret_dy = dy;
exit:
    return status;
}

/* Room for the gradient of what a layer reads; the image needs none. */
static ls_status take_dx(const ls_serial *serial, ls_serial_net_layer *layer)
{
    ls_status status = LS_OK;
    const size_t n = serial->batch.B * ls_net_shape_elements(layer->in);
    bool asked = false;
    for (int i = 0; i < ls_net_traits_of(layer->is->kind)->inputs; i++)
        asked |= ls_net_input_of(layer->is, i) != LS_NET_IMAGE;
    layer->dx = NULL;
    if (asked) LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *layer->dx, &layer->dx));
exit:
    return status;
}

ls_status ls_serial_net_backward(ls_serial *serial)
{
    ls_status status = LS_OK;
    ls_serial_net *net = serial->net;
    const size_t last = net->net->count - 1, mark = ls_arena_mark(serial->temporary);
    const size_t n = serial->batch.B * net->net->classes;
    ls_real *dlogits = NULL;
    LS_TRY(ls_arena_alloc(serial->temporary, n, sizeof *dlogits, &dlogits));
    ls_serial_net_loss_backward(serial, dlogits);

    for (size_t l = net->net->count; l-- > 0;) {
        const ls_real *dy = dlogits;
        LS_TRY(ls_serial_check_stop(serial));
        if (l < last) LS_TRY(gather(serial, l, &dy));
        LS_TRY(take_dx(serial, &net->layer[l]));
        LS_TRY(kinds[net->net->layers[l].kind]->backward(serial, l, dy));
    }
exit:
    ls_arena_release(serial->temporary, mark);
    return status;
}
