/* net_look.c - what a convolutional network shows to a tap. */
#include "parallel/net_layer_state.h"

static ls_status show(const ls_sharded_net *net, size_t number, ls_view *view, const void *values)
{
    const ls_tap *tap = net->setup.tap;
    view->kind = LS_VIEW_POINT;
    view->param = view->use = -1;
    view->layer = (int)number;
    view->step = net->batch.step;
    view->dtype = LS_REAL_DTYPE;
    view->values = values;
    view->stride = view->dims[view->n_dims - 1].count;
    return tap->look(tap->context, ls_group_owner(net->setup.world), view);
}

static void fill_dims(const ls_sharded_net *net, size_t number, const ls_image_box *box,
                      ls_view *view)
{
    const ls_net_shape *shape = &net->shapes.layer[number];
    view->point = LS_POINT_OUTPUT;
    view->n_dims = 4;
    view->dims[0] = (ls_view_run){net->setup.batch, box->images.first, box->images.count};
    view->dims[1] = (ls_view_run){shape->channels, box->channels.first, box->channels.count};
    view->dims[2] = (ls_view_run){shape->height, box->area.top, box->area.height};
    view->dims[3] = (ls_view_run){shape->width, box->area.left, box->area.width};
}

ls_status ls_net_show_block(const ls_sharded_net *net, size_t number, bool gradient,
                            const ls_image_box *box, const ls_real *values)
{
    ls_view view = {.gradient = gradient};
    if (net->setup.tap == NULL || ls_image_box_is_empty(box)) return LS_OK;
    fill_dims(net, number, box, &view);
    return show(net, number, &view, values);
}

ls_status ls_net_show_sum(const ls_sharded_net *net, size_t number, const ls_image_box *box,
                          ls_node node, size_t leaves, const ls_real *values)
{
    ls_view view = {.gradient = true,
                    .crossing = leaves ? LS_CROSSING_PARTIAL : LS_CROSSING_TOTAL,
                    .lo = node.lo,
                    .hi = node.hi,
                    .leaves = leaves};
    if (net->setup.tap == NULL || ls_image_box_is_empty(box)) return LS_OK;
    fill_dims(net, number, box, &view);
    return show(net, number, &view, values);
}

/* A piece of a block, contiguous. */
static ls_status pack(const ls_sharded_net *net, const ls_image_box *block, const ls_real *values,
                      const ls_image_box *piece, ls_real **ret_packed)
{
    ls_status status = LS_OK;
    size_t n[4], s[4], i = 0;
    ls_real *packed = NULL;
    const ls_real *from = values + ls_image_box_place(block, piece, n, s);
    LS_TRY(
        ls_arena_alloc(net->temporary, ls_image_box_count(piece), sizeof *packed, (void *)&packed));
    for (size_t a = 0; a < n[0]; a++)
        for (size_t b = 0; b < n[1]; b++)
            for (size_t c = 0; c < n[2]; c++)
                for (size_t d = 0; d < n[3]; d++)
                    packed[i++] = from[a * s[0] + b * s[1] + c * s[2] + d];
    *ret_packed = packed;
exit:
    return status;
}

ls_status ls_net_show_sent(const ls_sharded_net *net, const ls_net_route *route,
                           const ls_image_box *owned, const ls_real *values)
{
    ls_status status = LS_OK;
    const size_t own = (size_t)ls_group_rank(net->setup.world);
    const size_t mark = ls_arena_mark(net->temporary);
    if (net->setup.tap == NULL) return LS_OK;
    for (size_t i = 0; i < route->n_transfers; i++) {
        const ls_transfer *t = &route->transfers[i];
        ls_view view = {.gradient = route->gradient, .crossing = LS_CROSSING_SENT};
        ls_real *packed = NULL;
        if (t->from != own || t->to == own) continue;
        LS_TRY(pack(net, owned, values, &t->box, &packed));
        fill_dims(net, (size_t)route->of, &t->box, &view);
        LS_TRY(show(net, (size_t)route->of, &view, packed));
    }
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

ls_status ls_net_show_received(const ls_sharded_net *net, const ls_net_route *route,
                               const ls_image_box *wanted, const ls_real *values)
{
    const size_t own = (size_t)ls_group_rank(net->setup.world);
    ls_view view = {.gradient = route->gradient, .crossing = LS_CROSSING_RECEIVED};
    bool others = false;
    if (net->setup.tap == NULL) return LS_OK;
    for (size_t i = 0; i < route->n_transfers; i++)
        if (route->transfers[i].from != own) others = true;
    if (!others) return LS_OK;
    fill_dims(net, (size_t)route->of, wanted, &view);
    return show(net, (size_t)route->of, &view, values);
}

ls_status ls_net_show_row(const ls_sharded_net *net, size_t number, ls_point point, ls_view_run run,
                          const ls_real *values)
{
    ls_view view = {.point = point, .n_dims = 1, .dims = {run}};
    if (net->setup.tap == NULL || run.count == 0) return LS_OK;
    return show(net, number, &view, values);
}
