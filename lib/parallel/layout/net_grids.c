/* net_grids.c - the grid of each layer, and the blocks of images that a rank has, reads and
 * differentiates. */
#include "lockstep/parallel/layout/net_grids.h"

#include "parallel/layout/net_geometry.h"
#include "parallel/layout/net_strategy.h"

static ls_net_channels channels_read(const ls_net_layer *layer)
{
    return ls_net_traits_of(layer->kind)->channels;
}

static ls_net_pixels pixels_read(const ls_net_layer *layer)
{
    return ls_net_traits_of(layer->kind)->pixels;
}

const ls_strategy *ls_net_strategy(const ls_layout *layout, int layer)
{
    for (int s = 0; s < layout->n_strategies; s++)
        if (layout->strategies[s].layer == layer) return &layout->strategies[s];
    return NULL;
}

/* Whether output `l` has a grid of its own, whatever it reads; then that. */
static bool own_grid(const ls_layout *layout, const ls_net *net, int l, ls_layer_grid *ret_grid)
{
    const int pixels = layout->down * layout->across;
    const ls_strategy *strategy = ls_net_strategy(layout, l);
    if (strategy != NULL)
        *ret_grid = strategy->grid;
    else if (l < 0)
        *ret_grid = (ls_layer_grid){layout->dp, layout->down, layout->across, layout->channels};
    else if (l + 1 == (int)net->count)
        *ret_grid = (ls_layer_grid){layout->dp * pixels * layout->channels, 1, 1, 1};
    else if (channels_read(&net->layers[l]) == LS_NET_ALL_CHANNELS)
        *ret_grid = (ls_layer_grid){layout->dp * pixels, 1, 1, layout->channels};
    else
        return false;
    return true;
}

void ls_net_grids_of(const ls_layout *layout, const ls_net *net, ls_net_grids *ret_grids)
{
    own_grid(layout, net, LS_NET_IMAGE, &ret_grids->image);
    for (int l = 0; l < (int)net->count; l++)
        if (!own_grid(layout, net, l, &ret_grids->layer[l]))
            ret_grids->layer[l] = ls_net_grid_at(ret_grids, net->layers[l].from);
}

ls_layer_grid ls_net_grid_of(const ls_layout *layout, const ls_net *net, int from)
{
    ls_layer_grid grid;
    while (!own_grid(layout, net, from, &grid)) from = net->layers[from].from;
    return grid;
}

const char *ls_net_exchange_purpose(const ls_net_layer *layer, ls_layer_grid from,
                                    ls_layer_grid grid)
{
    const ls_net_channels read = channels_read(layer);
    if (!ls_layer_grid_equal(from, grid)) return "redistribution";
    /* A rank has whole groups of a convolution, or a part of one, whose channels it then reads. */
    const bool channels =
        grid.channels > 1 && (read == LS_NET_ALL_CHANNELS || read == LS_NET_NEIGHBOURS ||
                              (read == LS_NET_GROUP && (size_t)grid.channels > layer->groups));
    const bool halo = grid.down * grid.across > 1 && pixels_read(layer) == LS_NET_WINDOW &&
                      (layer->kernel_h > 1 || layer->kernel_w > 1);
    return !channels ? "halo" : halo ? "halo and channels" : "channels";
}

bool ls_net_channels_fit(const ls_net_layer *layer, const ls_net_shape *shape, size_t channels)
{
    const size_t groups = ls_net_groups(layer);
    return shape->axis.granules % channels == 0 &&
           (channels % groups == 0 || groups % channels == 0);
}

ls_share ls_net_channel_granules(const ls_net_shape *shape, const ls_layer_grid *grid, int channel)
{
    return ls_share_of(shape->axis.granules, (size_t)grid->channels, (size_t)channel);
}

/* An empty block is all zero. */
static ls_image_box box_of(ls_share images, ls_share channels, ls_rectangle area)
{
    ls_image_box box = {images, channels, area};
    return ls_image_box_is_empty(&box) ? (ls_image_box){.area = {0, 0, 0, 0}} : box;
}

/* The pixels at a place, whatever images and channels there are. */
static ls_rectangle pixels_at(const ls_net *net, const ls_net_shape *shape,
                              const ls_layer_grid *grid, ls_grid_place at)
{
    const ls_spatial_grid pixels = {(size_t)grid->down, (size_t)grid->across, net->row_granules,
                                    net->column_granules};
    return ls_spatial_pixels(&pixels, (size_t)(at.row * grid->across + at.column), shape->height,
                             shape->width);
}

/* The channels at a place. */
static ls_share channels_at(const ls_net_shape *shape, const ls_layer_grid *grid, ls_grid_place at)
{
    const ls_share granules = ls_net_channel_granules(shape, grid, at.channel);
    return (ls_share){granules.first * shape->axis.granule, granules.count * shape->axis.granule};
}

ls_image_box ls_net_block(const ls_net *net, const ls_net_shape *shape, const ls_layer_grid *grid,
                          size_t batch, int rank)
{
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    return box_of(ls_share_of(batch, (size_t)grid->samples, (size_t)at.sample),
                  channels_at(shape, grid, at), pixels_at(net, shape, grid, at));
}

static ls_rectangle all_pixels(const ls_net_shape *shape)
{
    return (ls_rectangle){0, 0, shape->height, shape->width};
}

/* The input channels of the convolution groups in which output channels `own` lie. */
static ls_share group_channels(const ls_net_layer *layer, const ls_net_shape *in, ls_share own)
{
    const size_t made = layer->channels / layer->groups, read = in->channels / layer->groups;
    const size_t first = own.first / made, last = (own.first + own.count - 1) / made;
    return (ls_share){first * read, (last - first + 1) * read};
}

ls_image_box ls_net_reads(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                          const ls_layer_grid *grid, size_t batch, int rank)
{
    const ls_net_layer *layer = &net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(shapes, layer->from);
    const ls_image_box own = ls_net_block(net, &shapes->layer[l], grid, batch, rank);
    const ls_window window = ls_net_window(layer, in);
    /* A mean of all pixels: each rank sums its own, net_sums.h adds the sums. */
    if (pixels_read(layer) == LS_NET_ALL_PIXELS && channels_read(layer) == LS_NET_SAME_CHANNEL)
        return ls_net_block(net, in, grid, batch, rank);
    ls_image_box box = own;
    if (ls_image_box_is_empty(&own)) return own;
    if (pixels_read(layer) == LS_NET_WINDOW) box.area = ls_window_reads(&window, own.area);
    if (pixels_read(layer) == LS_NET_ALL_PIXELS) box.area = all_pixels(in);
    if (channels_read(layer) == LS_NET_GROUP)
        box.channels = group_channels(layer, in, own.channels);
    if (channels_read(layer) == LS_NET_ALL_CHANNELS) box.channels = (ls_share){0, in->channels};
    if (channels_read(layer) == LS_NET_NEIGHBOURS) {
        const ls_response_norm norm = ls_net_response_norm(layer, in);
        const ls_channels read =
            ls_response_norm_reads(&norm, (ls_channels){own.channels.first, own.channels.count});
        box.channels = (ls_share){read.first, read.count};
    }
    return box_of(box.images, box.channels, box.area);
}

/* Ranks whose output channels lie in one group share its input channels; a rank with whole groups
 * has theirs. */
static ls_share taken_channels(const ls_net_layer *layer, const ls_net_shape *in,
                               const ls_net_shape *out, const ls_layer_grid *grid, int channel)
{
    const size_t each = out->axis.granules / layer->groups; /* of a group, made */
    const ls_share own = ls_net_channel_granules(out, grid, channel);
    ls_share granules = {0, 0};
    if (own.count == 0) return granules;
    const size_t read = in->axis.granules / layer->groups, group = own.first / each;
    const size_t sharers = own.count < each ? each / own.count : 1;
    granules = ls_share_of(read, sharers, own.first % each / own.count % sharers);
    granules.first += group * read;
    if (own.count > each) granules.count = own.count / each * read;
    return (ls_share){granules.first * in->axis.granule, granules.count * in->axis.granule};
}

ls_image_box ls_net_takes(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                          const ls_layer_grid *grid, size_t batch, int rank)
{
    const ls_net_layer *layer = &net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(shapes, layer->from);
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    if (channels_read(layer) != LS_NET_GROUP) return ls_net_block(net, in, grid, batch, rank);
    return box_of(ls_share_of(batch, (size_t)grid->samples, (size_t)at.sample),
                  taken_channels(layer, in, &shapes->layer[l], grid, at.channel),
                  pixels_at(net, in, grid, at));
}

ls_image_box ls_net_read_by(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                            const ls_layer_grid *grid, size_t batch, int rank)
{
    const ls_net_layer *layer = &net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(shapes, layer->from), *out = &shapes->layer[l];
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    const ls_window window = ls_net_window(layer, in);
    /* With channels cut a rank makes a part of dx of more channels than its own of the input. */
    ls_image_box box = {ls_share_of(batch, (size_t)grid->samples, (size_t)at.sample),
                        channels_at(out, grid, at), pixels_at(net, in, grid, at)};
    if (pixels_read(layer) == LS_NET_WINDOW) box.area = ls_window_read_by(&window, box.area);
    if (pixels_read(layer) == LS_NET_ALL_PIXELS) box.area = all_pixels(out);
    if (channels_read(layer) == LS_NET_NEIGHBOURS && box.channels.count) {
        const ls_response_norm norm = ls_net_response_norm(layer, in);
        const ls_channels read =
            ls_response_norm_read_by(&norm, (ls_channels){box.channels.first, box.channels.count});
        box.channels = (ls_share){read.first, read.count};
    }
    return box_of(box.images, box.channels, box.area);
}
