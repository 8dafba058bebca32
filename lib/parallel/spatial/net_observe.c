/* net_observe.c - what a convolutional network shows to an observer. */
#include "parallel/spatial/net_layer_state.h"

static ls_status show(const ls_sharded_net *net, size_t number, ls_view *view, const void *values,
                      ls_dtype dtype)
{
    const ls_observer *observer = net->setup.observer;
    view->kind = LS_VIEW_POINT;
    view->param = view->use = -1;
    view->layer = (int)number;
    view->step = net->batch.step;
    view->dtype = dtype;
    view->values = values;
    view->stride = view->dims[view->n_dims - 1].count;
    return observer->look(observer->context, ls_group_owner(net->setup.world), view);
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
    if (net->setup.observer == NULL || ls_image_box_is_empty(box)) return LS_OK;
    fill_dims(net, number, box, &view);
    return show(net, number, &view, values, LS_REAL_DTYPE);
}

ls_status ls_net_show_sum(const ls_sharded_net *net, size_t number, const ls_image_box *box,
                          ls_node node, size_t leaves, const ls_real *values)
{
    ls_view view = {.gradient = true,
                    .comm = leaves ? LS_COMM_PARTIAL : LS_COMM_TOTAL,
                    .lo = node.lo,
                    .hi = node.hi,
                    .leaves = leaves};
    if (net->setup.observer == NULL || ls_image_box_is_empty(box)) return LS_OK;
    fill_dims(net, number, box, &view);
    return show(net, number, &view, values, LS_REAL_DTYPE);
}

/* ---- messages ---- */

/* The piece that goes from one rank to another; NULL: nothing does. */
static const ls_transfer *find_transfer(const ls_net_route *route, size_t from, size_t to)
{
    for (size_t i = 0; i < route->n_transfers; i++)
        if (route->transfers[i].from == from && route->transfers[i].to == to)
            return &route->transfers[i];
    return NULL;
}

static ls_status show_piece(const ls_sharded_net *net, const ls_net_route *route, ls_view view,
                            const ls_image_box *piece, const ls_image_box *block,
                            const void *values, ls_dtype dtype)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const ls_point point = view.point;
    void *packed = NULL;
    LS_TRY(
        ls_arena_alloc(net->temporary, ls_image_box_count(piece), ls_dtype_bytes(dtype), &packed));
    ls_image_box_take(dtype, packed, piece, values, block);
    view.gradient = route->gradient && point == LS_POINT_OUTPUT;
    fill_dims(net, (size_t)route->of, piece, &view);
    view.point = point;
    LS_TRY(show(net, (size_t)route->of, &view, packed, dtype));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}

/* In the order of the calls: ls_exchange_begin sends to the ranks after the own one first. */
ls_status ls_net_show_sent(const ls_sharded_net *net, const ls_net_route *route, ls_point point,
                           const ls_image_box *owned, const void *values, ls_dtype dtype)
{
    ls_status status = LS_OK;
    const size_t own = (size_t)ls_group_rank(net->setup.world);
    const size_t ranks = (size_t)ls_group_size(net->setup.world);
    ls_view view = {.point = point, .comm = LS_COMM_SENT};
    if (net->setup.observer == NULL) return LS_OK;
    for (size_t k = 1; k < ranks; k++) {
        const ls_transfer *t = find_transfer(route, own, (own + k) % ranks);
        if (t == NULL) continue;
        LS_TRY(show_piece(net, route, view, &t->box, owned, values, dtype));
        view.skipped++;
    }
exit:
    return status;
}

/* And ls_exchange_end takes what comes from the ranks before it first. */
ls_status ls_net_show_received(const ls_sharded_net *net, const ls_net_route *route, ls_point point,
                               const ls_image_box *wanted, const void *values, ls_dtype dtype)
{
    ls_status status = LS_OK;
    const size_t own = (size_t)ls_group_rank(net->setup.world);
    const size_t ranks = (size_t)ls_group_size(net->setup.world);
    ls_view view = {.point = point, .comm = LS_COMM_RECEIVED};
    if (net->setup.observer == NULL) return LS_OK;
    for (size_t k = 1; k < ranks; k++)
        if (find_transfer(route, (own + k) % ranks, own)) view.skipped++;
    for (size_t k = 1; k < ranks; k++) {
        const ls_transfer *t = find_transfer(route, (own + ranks - k) % ranks, own);
        if (t == NULL) continue;
        view.skipped--;
        LS_TRY(show_piece(net, route, view, &t->box, wanted, values, dtype));
    }
exit:
    return status;
}

ls_status ls_net_show_row(const ls_sharded_net *net, size_t number, ls_point point, ls_view_run run,
                          const ls_real *values)
{
    ls_view view = {.point = point, .n_dims = 1, .dims = {run}};
    if (net->setup.observer == NULL || run.count == 0) return LS_OK;
    return show(net, number, &view, values, LS_REAL_DTYPE);
}

/* ---- sums over images and pixels ---- */

ls_status ls_net_show_pixel_sum(const ls_sharded_net *net, const ls_net_layer_state *l,
                                bool inside_images, const ls_view *given, const ls_real *values,
                                bool part)
{
    ls_status status = LS_OK;
    const ls_net_sums *s = l->sums;
    const ls_sum_plan *plan = inside_images ? s->image_plan : s->plan;
    const ls_pixel_tree *pixels = inside_images ? &s->image_pixels : &s->pixels;
    const ls_node *nodes = inside_images ? s->image_nodes : s->nodes;
    const size_t n = !part ? 1 : inside_images ? s->n_image_nodes : s->n_nodes;
    size_t count = 1;
    if (net->setup.observer == NULL || plan->members == 1) return LS_OK; /* nothing crosses */
    ls_view view = *given;
    for (int i = 0; i < view.n_dims; i++) count *= view.dims[i].count;
    view.comm = LS_COMM_TOTAL;
    for (size_t j = 0; j < n; j++) {
        if (part) ls_net_fill_node(&view, pixels, nodes[j]);
        LS_TRY(show(net, l->number, &view, values + j * count, LS_REAL_DTYPE));
    }
exit:
    return status;
}
