/* net_halo.c - boxes along a route between ranks: the halo that a block reads, forward of x and
 * backward of dy (arXiv 1903.06681, section III.A). */
#include "lockstep/parallel/spatial/box_exchange.h"
#include "parallel/spatial/net_layer_state.h"

enum { NET_TAG = 70 };

ls_status ls_net_begin(ls_sharded_net *net, const ls_net_route *route, const ls_image_box *owned,
                       const void *from, const ls_image_box *wanted, void *to, ls_dtype dtype,
                       ls_exchange **ret_exchange)
{
    return ls_image_boxes_begin(net->setup.world, NET_TAG, route->transfers, route->n_transfers,
                                owned, from, wanted, to, dtype, ret_exchange);
}

ls_status ls_net_halo_of(ls_sharded_net *net, ls_net_layer_state *l, ls_point point,
                         const void *values, ls_dtype dtype, const void **ret_values)
{
    ls_status status = LS_OK;
    ls_exchange *exchange = NULL;
    void *halo = NULL;
    *ret_values = values;
    if (!l->dy_halo.needed) goto exit;
    LS_TRY(ls_arena_alloc(net->temporary, ls_image_box_count(&l->read_by), ls_dtype_bytes(dtype),
                          (void *)&halo));
    LS_TRY(ls_net_show_sent(net, &l->dy_halo, point, &l->own, values, dtype));
    LS_TRY(ls_net_begin(net, &l->dy_halo, &l->own, values, &l->read_by, halo, dtype, &exchange));
    LS_TRY(ls_exchange_end(&exchange));
    LS_TRY(ls_net_show_received(net, &l->dy_halo, point, &l->read_by, halo, dtype));
    *ret_values = halo;
exit:
    ls_exchange_cancel(&exchange);
    return status;
}

ls_status ls_net_dy_halo(ls_sharded_net *net, ls_net_layer_state *l, const ls_real **ret_dy)
{
    ls_status status = LS_OK;
    const void *dy = NULL;
    LS_TRY(ls_net_halo_of(net, l, LS_POINT_OUTPUT, l->dy, LS_REAL_DTYPE, &dy));
    *ret_dy = dy;
exit:
    return status;
}
