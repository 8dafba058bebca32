/* net_boxes.c - the blocks that a rank has and wants of every layer, and the routes between them.
 *
 * The blocks of all ranks follow from the layout, so each rank lists what it sends and receives
 * without asking; a piece is on the sender's list and on the receiver's because both intersect the
 * same two boxes. */
#include "parallel/spatial/net_boxes.h"

#include <stdlib.h>

#include "parallel/layout/net_geometry.h"
#include "base/allocate.h"

/* Boxes of all ranks. */
typedef struct box_lists {
    size_t ranks, own;
    ls_image_box *owned, *wanted;
} box_lists;

/* A piece from rank `from` to rank `to`, unless it is empty. */
static void add_piece(ls_net_route *route, const box_lists *boxes, size_t from, size_t to)
{
    const ls_image_box piece = ls_image_box_common(&boxes->owned[from], &boxes->wanted[to]);
    if (!ls_image_box_is_empty(&piece))
        route->transfers[route->n_transfers++] = (ls_transfer){from, to, piece};
}

/* The pieces from or to this rank, by (from, to) ascending. */
static ls_status find_route(const box_lists *boxes, int of, bool gradient, ls_net_route *ret_route)
{
    ls_status status = LS_OK;
    const size_t own = boxes->own;
    const ls_image_box *wanted = &boxes->wanted[own];
    ls_net_route route = {.of = of, .gradient = gradient};
    size_t arrives = 0;
    bool sends = false;
    LS_ROOM(route.transfers, 2 * boxes->ranks);
    for (size_t r = 0; r < boxes->ranks; r++) {
        if (r != own) add_piece(&route, boxes, r, own);
        for (size_t to = 0; r == own && to < boxes->ranks; to++) add_piece(&route, boxes, own, to);
    }
    for (size_t i = 0; i < route.n_transfers; i++) {
        if (route.transfers[i].to == own) arrives += ls_image_box_count(&route.transfers[i].box);
        if (route.transfers[i].to != own) sends = true;
    }
    if (arrives != ls_image_box_count(wanted))
        LS_FAIL(LS_ERR_INTERNAL, "a rank wants %zu elements of images, of which %zu have an owner",
                ls_image_box_count(wanted), arrives);
    route.needed = sends || (!ls_image_box_is_empty(wanted) &&
                             !ls_image_box_equal(wanted, &boxes->owned[own]));
    *ret_route = route;
    route.transfers = NULL;
exit:
    free(route.transfers);
    return status;
}

/* `wanted`, or all of `has` when that is in it: then it is read where it is. Only for windows:
 * other kinds take a block that lies like their own. */
static void widen(const ls_net_layer_state *l, ls_image_box *wanted, const ls_image_box *has)
{
    if (!ls_net_has_window(l->layer->kind)) return;
    const ls_image_box common = ls_image_box_common(wanted, has);
    ls_image_box narrow = *has;
    narrow.area = wanted->area;
    if (!ls_image_box_is_empty(wanted) && ls_image_box_equal(&common, wanted) &&
        ls_image_box_equal(&narrow, wanted))
        *wanted = *has;
}

/* The end of the step of an axis that begins at `at`: one output, or what is left of a granule. */
static size_t step_end(size_t at, size_t extent, size_t granules)
{
    size_t g = 1;
    if (granules == 0) return at + 1;
    while (g * extent / granules <= at) g++;
    return g * extent / granules;
}

/* Rows (columns) of `own`, outputs, that read nothing outside the rows (columns) of `has`.
 * granules: of the axis, when outputs are made by granules; else 0. */
static ls_share inner_run(const ls_window *window, bool columns, ls_rectangle own, ls_rectangle has,
                          size_t granules)
{
    const size_t first = columns ? own.left : own.top;
    const size_t end = first + (columns ? own.width : own.height);
    const size_t extent = columns ? ls_window_out_w(window) : ls_window_out_h(window);
    ls_share run = {0, 0};
    for (size_t at = first, next; at < end; at = next) {
        next = step_end(at, extent, granules);
        const ls_rectangle step = columns ? (ls_rectangle){own.top, at, own.height, next - at}
                                          : (ls_rectangle){at, own.left, next - at, own.width};
        ls_rectangle read = ls_window_reads(window, step);
        if (columns) { /* the other axis is not asked about */
            read.top = has.top;
            read.height = ls_rectangle_is_empty(read) ? 0 : has.height;
        } else {
            read.left = has.left;
            read.width = ls_rectangle_is_empty(read) ? 0 : has.width;
        }
        const bool inside = ls_rectangle_inside(read, has);
        if (inside && run.count == 0) run.first = at;
        if (inside) run.count = next - run.first;
        if (!inside && run.count > 0) break;
    }
    return run;
}

/* The outputs of the own block that read nothing outside `has`. OpenBLAS makes whole granules. */
static ls_rectangle inner_of(const ls_sharded_net *net, const ls_net_layer_state *l,
                             const ls_net_input *input)
{
    const ls_window window = ls_net_window(l->layer, input->shape);
    const bool by_granules = net->setup.engine == LS_ENGINE_OPENBLAS;
    const ls_share rows = inner_run(&window, false, l->own.area, input->has.area,
                                    by_granules ? net->net->row_granules : 0);
    const ls_share columns = inner_run(&window, true, l->own.area, input->has.area,
                                       by_granules ? net->net->column_granules : 0);
    if (rows.count == 0 || columns.count == 0) return (ls_rectangle){0, 0, 0, 0};
    return (ls_rectangle){rows.first, columns.first, rows.count, columns.count};
}

static bool equal_shares(ls_share a, ls_share b)
{
    return a.first == b.first && a.count == b.count;
}

/* Layers whose outputs can be made in parts, and do not all wait for what comes. */
static bool overlaps(const ls_sharded_net *net, const ls_net_layer_state *l,
                     const ls_net_input *input)
{
    return net->setup.layout->overlap && l->operations->parts && l->n_inputs == 1 &&
           input->arrive.needed && ls_net_has_window(l->layer->kind) &&
           !ls_image_box_is_empty(&l->own) &&
           equal_shares(input->has.images, input->reads.images) &&
           equal_shares(input->has.channels, input->reads.channels);
}

static ls_status find_input(ls_sharded_net *net, ls_net_layer_state *l, size_t i, box_lists *boxes)
{
    ls_status status = LS_OK;
    ls_net_input *input = &l->input[i];
    const size_t batch = net->setup.batch;
    const ls_layer_grid from = ls_net_grid_at(&net->grids, input->from);
    for (size_t r = 0; r < boxes->ranks; r++) {
        boxes->owned[r] = ls_net_block(net->net, input->shape, &from, batch, (int)r);
        boxes->wanted[r] = ls_net_reads(net->net, &net->shapes, l->number, &l->grid, batch, (int)r);
    }
    input->has = boxes->owned[boxes->own];
    input->reads = boxes->wanted[boxes->own];
    input->takes =
        ls_net_takes(net->net, &net->shapes, l->number, &l->grid, batch, (int)boxes->own);
    if (input->from == LS_NET_IMAGE) goto exit;
    widen(l, &boxes->wanted[boxes->own], &input->has);
    input->reads = boxes->wanted[boxes->own];
    LS_TRY(find_route(boxes, input->from, false, &input->arrive));
    if (overlaps(net, l, input)) input->inner = inner_of(net, l, input);
    for (size_t r = 0; r < boxes->ranks; r++) {
        boxes->wanted[r] = boxes->owned[r];
        boxes->owned[r] = ls_net_takes(net->net, &net->shapes, l->number, &l->grid, batch, (int)r);
    }
    LS_TRY(find_route(boxes, input->from, true, &input->leave));
exit:
    return status;
}

static ls_status find_gradient(ls_sharded_net *net, ls_net_layer_state *l, box_lists *boxes)
{
    ls_status status = LS_OK;
    const size_t batch = net->setup.batch;
    for (size_t r = 0; r < boxes->ranks; r++) {
        boxes->owned[r] = ls_net_block(net->net, l->shape, &l->grid, batch, (int)r);
        boxes->wanted[r] =
            ls_net_read_by(net->net, &net->shapes, l->number, &l->grid, batch, (int)r);
    }
    widen(l, &boxes->wanted[boxes->own], &l->own);
    l->read_by = boxes->wanted[boxes->own];
    LS_TRY(find_route(boxes, (int)l->number, true, &l->dy_halo));
exit:
    return status;
}

ls_status ls_net_boxes_create(ls_sharded_net *net)
{
    ls_status status = LS_OK;
    box_lists boxes = {.ranks = (size_t)ls_group_size(net->setup.world),
                       .own = (size_t)ls_group_rank(net->setup.world)};
    LS_ROOM(boxes.owned, boxes.ranks);
    LS_ROOM(boxes.wanted, boxes.ranks);
    for (size_t n = 0; n < net->net->count; n++) {
        ls_net_layer_state *l = &net->layers[n];
        bool asked = false;
        l->own = ls_net_block(net->net, l->shape, &l->grid, net->setup.batch, (int)boxes.own);
        l->granules = ls_net_channel_granules(l->shape, &l->grid, l->at.channel);
        for (int i = 0; i < l->n_inputs; i++) {
            LS_TRY(find_input(net, l, (size_t)i, &boxes));
            asked = asked || l->input[i].from != LS_NET_IMAGE;
        }
        if (asked) LS_TRY(find_gradient(net, l, &boxes));
    }
exit:
    free(boxes.owned);
    free(boxes.wanted);
    return status;
}

void ls_net_boxes_destroy(ls_sharded_net *net)
{
    for (size_t n = 0; n < net->net->count; n++) {
        ls_net_layer_state *l = &net->layers[n];
        free(l->dy_halo.transfers);
        for (int i = 0; i < l->n_inputs; i++) {
            free(l->input[i].arrive.transfers);
            free(l->input[i].leave.transfers);
        }
    }
}
