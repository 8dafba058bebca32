/* net_dropout.c - dropout of a rank's block.
 *
 * Element (n, c, r, w) of the layer's output has the number ((n C + c) H + r) W + w, n counted in
 * the global batch (rule 4), so each rank draws the mask of its own block and no two layouts drop
 * different elements. Nothing is kept: backward draws it again. */
#include "lockstep/kernels/elementwise.h"
#include "parallel/spatial/net_layer_state.h"

/* y = dropout(x), both the own block. */
static void drop(const ls_sharded_net *net, const ls_net_layer_state *l, ls_real *y,
                 const ls_real *x)
{
    const ls_batch *batch = &net->batch;
    const ls_net_shape *whole = l->shape;
    const ls_image_box *own = &l->own;
    const ls_stream stream = {batch->seed, LS_RANDOM_DROPOUT_NET, (uint32_t)l->number, batch->step};
    const double p = batch->training ? l->layer->p : 0;
    /* Rows that are as long as the image's have consecutive numbers. */
    const bool whole_rows = own->area.width == whole->width;
    const size_t run = whole_rows ? ls_rectangle_count(own->area) : own->area.width;
    const size_t runs = whole_rows ? 1 : own->area.height;
    for (size_t n = own->images.first; n < own->images.first + own->images.count; n++)
        for (size_t c = own->channels.first; c < own->channels.first + own->channels.count; c++)
            for (size_t r = 0; r < runs; r++, y += run, x += run) {
                const uint64_t row =
                    ((uint64_t)n * whole->channels + c) * whole->height + own->area.top + r;
                ls_dropout(y, x, run, p, stream, row * whole->width + own->area.left);
            }
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    (void)outputs; /* not in parts: outputs and x are the own block */
    (void)x_box;
    drop(net, l, l->y, x);
    return LS_OK;
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    if (dx[0] != NULL) drop(net, l, dx[0], l->dy);
    return LS_OK;
}

const ls_net_operations LS_NET_OPERATIONS(dropout) = {.forward = forward, .backward = backward};
