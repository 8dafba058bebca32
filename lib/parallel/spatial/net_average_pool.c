/* net_average_pool.c - average pooling of a rank's block.
 *
 * A window has the divisor of the whole image wherever it is made: a rank in the middle knows where
 * the image ends, and does not take its own edge for it. */
#include "lockstep/kernels/pooling.h"
#include "parallel/layout/net_geometry.h"
#include "parallel/spatial/net_layer_state.h"

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    (void)net;
    const ls_window window = ls_net_window(l->layer, l->input[0].shape);
    ls_average_pool_forward(&window, l->layer->count_pad, l->own.images.count,
                            l->own.channels.count, l->y, ls_net_layout_of(&l->own), outputs, x,
                            ls_net_layout_of(x_box));
    return LS_OK;
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const ls_window window = ls_net_window(l->layer, l->input[0].shape);
    const ls_image_box *takes = &l->input[0].takes;
    const ls_real *dy = NULL;
    if (dx[0] == NULL) goto exit;
    LS_TRY(ls_net_dy_halo(net, l, &dy));
    ls_average_pool_backward(&window, l->layer->count_pad, takes->images.count,
                             takes->channels.count, dx[0], ls_net_layout_of(takes), takes->area, dy,
                             ls_net_layout_of(&l->read_by));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(avg_pool) = {
    .forward = forward, .parts = true, .backward = backward};
