/* net_response_norm.c - response normalisation across channels of a rank's block.
 *
 * Pixels are by themselves; under channel parallelism the neighbours' channels are what a halo is
 * elsewhere. Forward reads x of them, backward dy and d too; x is still there, because with an odd
 * span the channels that read a channel are those that it reads. */
#include "lockstep/kernels/response_norm.h"

#include "parallel/layout/net_geometry.h"
#include "parallel/spatial/net_layer_state.h"

static ls_channels channels_of(const ls_image_box *box)
{
    return (ls_channels){box->channels.first, box->channels.count};
}

static ls_status forward(ls_sharded_net *net, ls_net_layer_state *l, ls_rectangle outputs,
                         const ls_real *x, const ls_image_box *x_box)
{
    ls_status status = LS_OK;
    const ls_response_norm norm = ls_net_response_norm(l->layer, l->shape);
    ls_real *d = NULL;
    LS_TRY(ls_arena_alloc(net->saved, ls_image_box_count(&l->own), sizeof *d, (void *)&d));
    l->saved = d;
    ls_response_norm_forward(&norm, l->own.images.count, ls_rectangle_count(outputs), l->y, d,
                             channels_of(&l->own), x, channels_of(x_box));
exit:
    return status;
}

static ls_status backward(ls_sharded_net *net, ls_net_layer_state *l, ls_real *const *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const ls_response_norm norm = ls_net_response_norm(l->layer, l->shape);
    const ls_net_input *in = &l->input[0];
    const ls_real *dy = NULL;
    const void *d = NULL;
    if (dx[0] == NULL) goto exit;
    LS_TRY(ls_net_dy_halo(net, l, &dy));
    LS_TRY(ls_net_halo_of(net, l, LS_POINT_NORM_SUM, l->saved, LS_REAL_DTYPE, &d));
    ls_response_norm_backward(&norm, in->takes.images.count, ls_rectangle_count(in->takes.area),
                              dx[0], channels_of(&in->takes), dy, in->x, d,
                              channels_of(&l->read_by));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

const ls_net_operations LS_NET_OPERATIONS(response_norm) = {.forward = forward,
                                                            .backward = backward};
