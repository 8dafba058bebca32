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

/* ---- what is read: one axis of a window */

/* Output o reads the inputs o stride - pad_before + k dilation, 0 <= k < kernel; those outside 0 ..
 * extent are padding. */
typedef struct ls_reach {
    size_t extent, kernel, stride, dilation, pad_before, pad_after;
} ls_reach;

/* (extent + pads - ((kernel - 1) dilation + 1)) / stride + 1, rounded down; 0 when the kernel is
 * larger than the padded input or a number is 0. */
LS_API size_t ls_reach_outputs(const ls_reach *reach);

/* The smallest run of inputs that holds all that these outputs read; empty if they read none. */
LS_API ls_share ls_reach_reads(const ls_reach *reach, ls_share outputs);

/* The smallest run of outputs that holds all that read one of these inputs. */
LS_API ls_share ls_reach_read_by(const ls_reach *reach, ls_share inputs);

/* Padding that these outputs read before the first and after the last input: what a rank whose
 * buffer begins with ls_reach_reads has to imagine around it. A rank in the middle has none. Only
 * for outputs that read at least one input. */
LS_API void ls_reach_pads(const ls_reach *reach, ls_share outputs, size_t *ret_before,
                          size_t *ret_after);

/* Both axes. Global operations have no window: all outputs read all inputs. */
typedef struct ls_stencil {
    ls_reach rows, columns;
} ls_stencil;

/* ---- halos */

/* Which rectangle of one side a rectangle of the other needs. An empty one needs an empty one. */
typedef ls_rectangle (*ls_area_function)(const void *window, ls_rectangle area);

/* Two of them, of an ls_stencil. */
LS_API ls_rectangle ls_stencil_reads(const void *stencil, ls_rectangle outputs);
LS_API ls_rectangle ls_stencil_read_by(const void *stencil, ls_rectangle inputs);

/* The wanted boxes of a halo exchange: member m makes the pixels made[m] of one side and wants, of
 * the images and channels `like` names, need(window, made[m]) of the other. Forward: made is y,
 * need is "reads", what passes is x. Backward: made is dx, need is "read by", what passes is dy.
 * wanted: [members]. */
LS_API void ls_halo_wanted(ls_image_box *ret_wanted, const ls_rectangle *made, size_t members,
                           ls_area_function need, const void *window, ls_share images,
                           ls_share channels);

/* Elements per image and channel that a rank in the middle of a grid receives, by formula: a block
 * of height x width, a halo of `rows` above and below and `columns` left and right; 2 rows width +
 * 2 columns height + 4 rows columns. With one axis uncut its halo is 0. (Kernel K of odd size,
 * stride 1: (K - 1) / 2; a block no smaller than its halo.) */
LS_API size_t ls_halo_elements(size_t height, size_t width, size_t rows, size_t columns);

LS_END_DECLS

#endif
