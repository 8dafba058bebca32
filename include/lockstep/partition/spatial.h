/* spatial.h - images cut over a grid of ranks, and the inputs that a rank's outputs need.
 *
 * Every layer of a network is cut by the same granules (row_granules x column_granules, given by
 * the model), so a rank's rectangles of two layers lie over each other, and a rank may have no
 * pixel at all. A halo is not a width: it is whatever a rank's outputs read beyond what it owns.
 *
 *     x owned     0 0 0 | 1 1 1 | 2 2 2 | 3 3 3 3      13 rows, 4 granules; stride 2, kernel 3,
 *     y owned     0     | 1   1 | 2     | 3   3        one pad after
 *
 *     rank 0's y 0 reads x 0, 1, 2 and rank 2's y 3 reads x 6, 7, 8: no halo
 *     rank 1's y 1, 2 read x 2 .. 6: a row of either neighbour
 *     rank 3's y 4, 5 read x 8 .. 12: one row above; the pad is not reached
 *
 * Source: Dryden et al., "Improving Strong-Scaling of CNN Training by Exploiting Finer-Grained
 * Parallelism", arXiv 1903.06681, section 3; contract rules 9 and 17. */
#ifndef LS_PARTITION_SPATIAL_H
#define LS_PARTITION_SPATIAL_H

#include "lockstep/partition/image_box.h"

LS_BEGIN_DECLS

/* ---- who owns what */

/* down x across ranks, the columns fastest: member = row * across + column. */
typedef struct ls_spatial_grid {
    size_t down, across;
    size_t row_granules, column_granules;
} ls_spatial_grid;

/* LS_ERR_INPUT when a number is 0, or when the grid is larger than an image of height x width,
 * which `what` names ("the image", "layer conv3's 2 x 2 output"). */
LS_API ls_status ls_spatial_check(const ls_spatial_grid *grid, size_t height, size_t width,
                                  const char *what) LS_MUST_USE;

LS_API size_t ls_spatial_members(const ls_spatial_grid *grid);

/* The granules of a member: ls_share_of of either axis. */
LS_API ls_rectangle ls_spatial_granules(const ls_spatial_grid *grid, size_t member);

/* The pixels of a member in an image of height x width. */
LS_API ls_rectangle ls_spatial_pixels(const ls_spatial_grid *grid, size_t member, size_t height,
                                      size_t width);

/* ---- halos: what a block reads beyond itself is ls_window_reads (kernels/window.h) */

/* Elements per image and channel that a rank in the middle of a grid receives, by formula: a block
 * of height x width, a halo of `rows` above and below and `columns` left and right; 2 rows width +
 * 2 columns height + 4 rows columns. With one axis uncut its halo is 0. (Kernel K of odd size,
 * stride 1: (K - 1) / 2; a block no smaller than its halo.) */
LS_API size_t ls_halo_elements(size_t height, size_t width, size_t rows, size_t columns);

LS_END_DECLS

#endif
