/* net_max_pool.c - max pooling of a rank's block.
 *
 * A place is a number of the whole image, so it means the same to every rank. The maximum of an
 * output may stand among the pixels of a neighbour: backward, dy and places of all outputs that
 * read one's own pixels are brought, and each rank makes dx of its pixels only. */
#include "lockstep/kernels/pooling.h"
#include "parallel/layout/net_geometry.h"
#include "parallel/spatial/net_layer_state.h"

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    const ls_window window = ls_net_window(l->layer, l->input[0].shape);
    int32_t *place = l->saved; /* laid out as y */
    if (place == NULL)
        LS_TRY(
            ls_arena_alloc(net->saved, ls_image_box_count(&l->own), sizeof *place, (void *)&place));
    l->saved = place;
    ls_max_pool_forward(&window, l->own.images.count, l->own.channels.count, l->y, place,
                        ls_net_layout_of(&l->own), outputs, x, ls_net_layout_of(x_box));
exit:
    return status;
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const ls_window window = ls_net_window(l->layer, l->input[0].shape);
    const ls_image_box *takes = &l->input[0].takes;
    const ls_real *dy = NULL;
    const void *place = NULL;
    if (dx[0] == NULL) goto exit;
    LS_TRY(ls_net_dy_halo(net, l, &dy));
    LS_TRY(ls_net_halo_of(net, l, LS_POINT_PLACES, l->saved, LS_I32, &place));
    ls_max_pool_backward(&window, takes->images.count, takes->channels.count, dx[0],
                         ls_net_layout_of(takes), takes->area, dy, place,
                         ls_net_layout_of(&l->read_by));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(max_pool) = {
    .forward = forward, .parts = true, .backward = backward};
