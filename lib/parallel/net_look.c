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

ls_status ls_net_show_partial(const ls_sharded_net *net, size_t number, const ls_image_box *box,
                              ls_node node, size_t leaves, const ls_real *values)
{
    ls_view view = {.gradient = true,
                    .crossing = LS_CROSSING_PARTIAL,
                    .lo = node.lo,
                    .hi = node.hi,
                    .leaves = leaves};
    if (net->setup.tap == NULL || ls_image_box_is_empty(box)) return LS_OK;
    fill_dims(net, number, box, &view);
    return show(net, number, &view, values);
}

ls_status ls_net_show_row(const ls_sharded_net *net, size_t number, ls_point point, ls_view_run run,
                          const ls_real *values)
{
    ls_view view = {.point = point, .n_dims = 1, .dims = {run}};
    if (net->setup.tap == NULL || run.count == 0) return LS_OK;
    return show(net, number, &view, values);
}
