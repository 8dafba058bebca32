/* net_grids.h - how each layer of a convolutional network is cut in a layout, and what a rank has.
 *
 * Every layer has a grid (layer_grid.h) over all ranks of the run: its output is owned in disjoint
 * blocks, each computed by its owner, which reads parts of other ranks' blocks. By default
 *
 *     the image            (dp, down, across, channels)
 *     a layer              the grid of the layer that it reads
 *     a dense layer        (dp down across, 1, 1, channels): its one pixel cannot be cut
 *     the last layer       (all ranks, 1, 1, 1): the loss is a row of classes per image
 *
 * and a strategy of the layout goes before. Pure arithmetic. */
#ifndef LS_PARALLEL_LAYOUT_NET_GRIDS_H
#define LS_PARALLEL_LAYOUT_NET_GRIDS_H

#include "lockstep/model/config.h"
#include "lockstep/partition/image_box.h"
#include "lockstep/partition/layout.h"
#include "lockstep/partition/spatial.h"

LS_BEGIN_DECLS

typedef struct ls_net_grids {
    ls_layer_grid image;
    ls_layer_grid layer[LS_NET_LAYERS];
} ls_net_grids;

/* The grids of all layers of a network that has been checked. */
LS_API void ls_net_grids_of(const ls_layout *layout, const ls_net *net, ls_net_grids *ret_grids);

/* The grid of the output `from`: of a layer, or LS_NET_IMAGE. */
static inline ls_layer_grid ls_net_grid_at(const ls_net_grids *grids, int from)
{
    return from < 0 ? grids->image : grids->layer[from];
}

/* The grid of one output only, of a layer or of LS_NET_IMAGE: as above. */
LS_API ls_layer_grid ls_net_grid_of(const ls_layout *layout, const ls_net *net, int from);

/* Why ranks exchange blocks of what a layer reads: "redistribution" where that has another grid;
 * else "halo", pixels of neighbours, "channels", or "halo and channels". */
LS_API const char *ls_net_exchange_purpose(const ls_net_layer *layer, ls_layer_grid from,
                                           ls_layer_grid grid);

/* The degrees of channel parallelism that a network allows with no strategy: those that divide the
 * granules of every layer's channels but the last one's, and of which no rank has a part of one of
 * a convolution's groups and a part of another. Writes at most `max`, ascending, and returns how
 * many there are. */
LS_API size_t ls_legal_channels(const ls_net *net, int *ret_channels, size_t max);

/* LS_ERR_INPUT, one line with what is allowed, when a network cannot be run so: tp, pp, sp,
 * micro-batches, recomputation and the like are not for it; every layer's grid has as many ranks as
 * the run; no grid is larger than the image; a grid's number of channels divides the granules of
 * its layer's channels, and no rank has a part of one of a convolution's groups next to another's;
 * a dense layer is cut by samples and channels, the last layer by samples only; a strategy names a
 * layer that exists; dp is at most the batch. Called by ls_layout_check. */
LS_API ls_status ls_net_layout_check(const ls_layout *layout, const ls_config *config) LS_MUST_USE;

/* Whether a layer's output can be cut into so many parts of channels: equal parts in granules, of
 * which each has whole groups of a convolution or lies in one group. */
LS_API bool ls_net_channels_fit(const ls_net_layer *layer, const ls_net_shape *shape,
                                size_t channels);

/* Granules of a layer's channels that coordinate `channel` of its grid has: ls_share_of. */
LS_API ls_share ls_net_channel_granules(const ls_net_shape *shape, const ls_layer_grid *grid,
                                        int channel);

/* The block of an output of shape `shape` that a rank has in a grid: images of the global batch,
 * channels, pixels. Empty ones are common. */
LS_API ls_image_box ls_net_block(const ls_net *net, const ls_net_shape *shape,
                                 const ls_layer_grid *grid, size_t batch, int rank);

/* What a rank reads of layer l's input `from` (l's `from` or `beside`) to make its block of l's
 * output: the same images; the pixels of its windows (all pixels for GLOBAL_POOL: its own block of
 * the input, see net_sums.h; for DENSE all); channels: those of the convolution groups that its
 * output channels lie in, of its response norm's windows, all for DENSE, else its own. Empty when
 * its output block is. */
LS_API ls_image_box ls_net_reads(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                                 const ls_layer_grid *grid, size_t batch, int rank);

/* The block of layer l's input (its `from` or `beside`) of which a rank makes the gradient: its own
 * block of the input in l's grid; of a CONV its share, in granules, of the channels of the
 * convolution groups that its output channels lie in. The blocks of all ranks are the whole. */
LS_API ls_image_box ls_net_takes(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                                 const ls_layer_grid *grid, size_t batch, int rank);

/* What a rank reads of the gradient of layer l's output to make that of ls_net_takes: the same
 * images; the pixels of l that read its pixels; l's channels that it has itself, for RESPONSE_NORM
 * those whose windows reach its channels. */
LS_API ls_image_box ls_net_read_by(const ls_net *net, const ls_net_shapes *shapes, size_t l,
                                   const ls_layer_grid *grid, size_t batch, int rank);

LS_END_DECLS

#endif
