/* operation_net_halo.c - windows of a network's layers, and what a rank has of the pixels that they
 * reach beyond its own. */
#include "lockstep/partition/share.h"
#include "step_graph/operation_net.h"

/* How many pixels of padding the last window reads after the image, on one axis. */
static size_t pad_after(size_t in, size_t out, size_t kernel, size_t stride, size_t dilation,
                        size_t pad)
{
    const size_t end = (out - 1) * stride + (kernel - 1) * dilation + 1;
    return end > in + pad ? end - in - pad : 0;
}

net_layer ls_net_layer_at(const evaluation *e, const ls_graph_node *node)
{
    const ls_net *net = &e->config->net;
    const ls_net_layer *layer = &net->layers[node->layer];
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    net_layer l = {.net = net,
                   .layer = layer,
                   .in = *ls_net_shape_at(&shapes, layer->from),
                   .out = shapes.layer[node->layer],
                   .images = e->B};
    l.window = LS_WINDOW_OF(layer, &l.in);
    if (e->variant.padded_behind) {
        const ls_window *w = &l.window;
        l.window.pad_top =
            pad_after(w->in_h, l.out.height, w->kernel_h, w->stride_h, w->dilation_h, w->pad_top);
        l.window.pad_left =
            pad_after(w->in_w, l.out.width, w->kernel_w, w->stride_w, w->dilation_w, w->pad_left);
    }
    l.in_pixels = l.in.height * l.in.width;
    l.out_pixels = l.out.height * l.out.width;
    return l;
}

ls_share ls_net_block_pixels(size_t extent, size_t granules, size_t blocks, size_t at)
{
    const ls_share of = ls_share_of(granules, blocks, at);
    const size_t first = of.first * extent / granules;
    return (ls_share){first, (of.first + of.count) * extent / granules - first};
}

/* Which block a pixel of an axis is in. */
static ls_share block_of(size_t extent, size_t granules, size_t blocks, size_t pixel,
                         size_t *ret_at)
{
    for (*ret_at = 0; *ret_at + 1 < blocks; ++*ret_at) {
        const ls_share own = ls_net_block_pixels(extent, granules, blocks, *ret_at);
        if (pixel < own.first + own.count) return own;
    }
    return ls_net_block_pixels(extent, granules, blocks, *ret_at);
}

void ls_net_halo_begin(net_halo *halo, const evaluation *e, const net_layer *l, bool backward)
{
    const ls_variant_grid *grid = &e->variant.grid;
    const ls_net_shape *needed = backward ? &l->out : &l->in;
    *halo = (net_halo){.form = backward ? e->variant.dy_halo : e->variant.halo,
                       .variant = &e->variant,
                       .extent = {needed->height, needed->width},
                       .blocks = {grid->down ? grid->down : 1, grid->across ? grid->across : 1}};
}

void ls_net_halo_at(net_halo *halo, const net_layer *l, bool backward, size_t row, size_t column)
{
    const size_t at[2] = {row, column};
    const ls_net_shape *shape = backward ? &l->in : &l->out;
    const size_t made[2] = {shape->height, shape->width};
    const size_t granules[2] = {l->net->row_granules, l->net->column_granules};
    ls_share block[2];
    if (halo->form == LS_HALO_AS_IS) return;
    for (int i = 0; i < 2; i++) {
        size_t number;
        block[i] = block_of(made[i], granules[i], halo->blocks[i], at[i], &number);
        halo->own[i] = ls_net_block_pixels(halo->extent[i], granules[i], halo->blocks[i], number);
    }
    const ls_rectangle all = {block[0].first, block[1].first, block[0].count, block[1].count};
    const ls_rectangle reads =
        backward ? ls_window_read_by(&l->window, all) : ls_window_reads(&l->window, all);
    halo->reads[0] = (ls_share){reads.top, reads.height};
    halo->reads[1] = (ls_share){reads.left, reads.width};
}

/* -1: before the own pixels, 1: after them, 0: among them. */
static int side(ls_share own, size_t at)
{
    return at < own.first ? -1 : at >= own.first + own.count ? 1 : 0;
}

static bool is_farthest(ls_share reads, size_t at, int where)
{
    return where < 0 ? at == reads.first : where > 0 && at + 1 == reads.first + reads.count;
}

bool ls_net_halo_source(const net_halo *halo, size_t *row, size_t *column)
{
    const ls_variant *v = halo->variant;
    size_t *const at[2] = {row, column};
    int where[2];
    if (halo->form == LS_HALO_AS_IS) return true;
    for (int i = 0; i < 2; i++) {
        where[i] = side(halo->own[i], *at[i]);
        if (i == 0 ? v->halo_columns_only : v->halo_rows_only) where[i] = 0;
        if (where[i] < 0 ? v->halo_behind_only : v->halo_before_only) where[i] = 0;
    }
    if (where[0] == 0 && where[1] == 0) return true;
    if (halo->form == LS_HALO_ABSENT) return false;
    if (halo->form == LS_HALO_NO_CORNERS) return where[0] == 0 || where[1] == 0;
    for (int i = 0; i < 2; i++) {
        if (where[i] == 0) continue;
        const ls_share own = halo->own[i];
        const bool back = halo->form == LS_HALO_LOWER || halo->form == LS_HALO_HIGHER
                              ? halo->form == LS_HALO_LOWER
                              : (halo->form == LS_HALO_NEARER) == (where[i] > 0);
        if (halo->form == LS_HALO_SHORT) {
            if (is_farthest(halo->reads[i], *at[i], where[i])) return false;
        } else if (halo->form == LS_HALO_REPEATED) {
            if (own.count == 0) return false;
            *at[i] = where[i] < 0 ? own.first : own.first + own.count - 1;
        } else {
            if (back ? *at[i] == 0 : *at[i] + 1 >= halo->extent[i]) return false;
            *at[i] = back ? *at[i] - 1 : *at[i] + 1;
        }
    }
    return true;
}
