/* layer_grid.h - how one layer of a convolutional network is cut over the ranks.
 *
 * A layer's output [images][channels][height][width] is cut along all four: images into `samples`
 * runs, channels into `channels`, pixels into down x across rectangles. Each of the samples x down
 * x across x channels ranks has one block. The channels are the fastest:
 *
 *     rank = channel + channels (column + across (row + down sample))
 *
 * Layers of one network may have different grids over the same ranks: what lies between is a
 * redistribution. */
#ifndef LS_PARTITION_LAYER_GRID_H
#define LS_PARTITION_LAYER_GRID_H

#include <stdbool.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

typedef struct ls_layer_grid {
    int samples, down, across, channels; /* each at least 1 */
} ls_layer_grid;

/* Where a rank is in it. */
typedef struct ls_grid_place {
    int sample, row, column, channel;
} ls_grid_place;

/* Ranks; -1 when the product overflows or a number is below 1. */
LS_API int ls_layer_grid_ranks(const ls_layer_grid *grid);

LS_API ls_grid_place ls_layer_grid_place(const ls_layer_grid *grid, int rank);
LS_API int ls_layer_grid_rank(const ls_layer_grid *grid, ls_grid_place at);

LS_API bool ls_layer_grid_equal(ls_layer_grid a, ls_layer_grid b);

LS_END_DECLS

#endif
