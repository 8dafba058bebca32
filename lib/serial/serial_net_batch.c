/* serial_net_batch.c - the batch of a network's forward pass, and room for every output, which the
 * backward pass reads again. Each forward pass gives back the room of the one before. */
#include <string.h>

#include "lockstep/kernels/batch_norm.h"
#include "lockstep/kernels/embedding.h"
#include "serial/serial_net.h"

/* Whether batch norm has a variance: two values of a channel at least. In evaluation it needs none.
 */
static ls_status check_batch_norms(const ls_serial_net *net, const ls_batch *batch)
{
    ls_status status = LS_OK;
    for (size_t l = 0; batch->training && l < net->net->count; l++) {
        const ls_serial_net_layer *layer = &net->layer[l];
        if (ls_net_traits_of(layer->is->kind)->batch_statistics)
            LS_TRY(ls_batch_norm_check(layer->is->name,
                                       batch->B * layer->in->height * layer->in->width));
    }
exit:
    return status;
}

static ls_status check_batch(const ls_serial_net *net, const ls_batch *batch)
{
    ls_status status = LS_OK;
    const ls_net *n = net->net;
    if (batch->B == 0) LS_FAIL(LS_ERR_INPUT, "batch of 0 images: at least 1 is needed");
    if (batch->first != 0)
        LS_FAIL(LS_ERR_INPUT,
                "batch that begins with image %zu: the serial model takes the whole batch, from "
                "image 0 on",
                batch->first);
    LS_TRY(ls_net_check_images(n, batch));
    LS_TRY(ls_ids_check(batch->labels, batch->B, n->classes, 0, "label"));
    LS_TRY(check_batch_norms(net, batch));
exit:
    return status;
}

ls_status ls_serial_net_keep(const ls_serial *serial, ls_real **ret_array, size_t n)
{
    return ls_arena_alloc(serial->kept, n, sizeof(ls_real), ret_array);
}

/* The output numbered `from` of the pass that is being prepared. */
static const ls_real *output(const ls_serial_net *net, int from)
{
    return from == LS_NET_IMAGE ? net->x : net->layer[from].y;
}

static ls_status take_layer(const ls_serial *serial, ls_serial_net_layer *layer)
{
    ls_status status = LS_OK;
    const ls_serial_net *net = serial->net;
    const size_t n = serial->batch.B * ls_net_shape_elements(layer->out);
    layer->x = output(net, layer->is->from);
    if (ls_net_traits_of(layer->is->kind)->inputs == 2)
        layer->beside = output(net, layer->is->beside);
    LS_TRY(ls_serial_net_keep(serial, &layer->y, n));
exit:
    return status;
}

ls_status ls_serial_net_take_batch(ls_serial *serial, const ls_batch *batch)
{
    ls_status status = LS_OK;
    ls_serial_net *net = serial->net;
    const size_t B = batch->B, n = B * batch->pixels;
    int32_t *labels = NULL;
    LS_TRY(check_batch(net, batch));
    ls_arena_release(serial->kept, serial->kept_mark);

    serial->batch = *batch;
    serial->batch.images = NULL; /* taken over by net->x */
    net->images = ls_axis_of(B, 1);
    LS_TRY(ls_arena_alloc(serial->kept, B, sizeof *labels, &labels));
    memcpy(labels, batch->labels, B * sizeof *labels);
    serial->batch.labels = labels;
    LS_TRY(ls_serial_net_keep(serial, &net->x, n));
    for (size_t i = 0; i < n; i++) net->x[i] = (ls_real)batch->images[i];
    LS_TRY(ls_serial_net_keep(serial, &net->largest, B));
    LS_TRY(ls_serial_net_keep(serial, &net->sum_exp, B));
    for (size_t l = 0; l < net->net->count; l++) LS_TRY(take_layer(serial, &net->layer[l]));
exit:
    return status;
}
