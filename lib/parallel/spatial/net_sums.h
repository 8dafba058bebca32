/* net_sums.h - sums over the images and pixels of a layer, across the ranks of its grid (rules 8,
 * 9).
 *
 * The members of a grid that have the same channels - samples x down x across of them - own
 * together every granule rectangle of every image. Each of them has a few complete nodes of the
 * tree over these; a sum is each node's value, made locally, then one all-reduce along the plan.
 * All layers of one grid share this: granules are numbers, the same for all sizes of images. */
#ifndef LS_PARALLEL_SPATIAL_NET_SUMS_H
#define LS_PARALLEL_SPATIAL_NET_SUMS_H

#include "lockstep/comm/sum_plan.h"
#include "lockstep/model/net.h"
#include "lockstep/partition/layer_grid.h"

typedef struct ls_net_sums {
    ls_pixel_tree pixels;
    ls_binary_tree tree; /* of `pixels` */
    ls_group *members;   /* of the same channels, in order of rank */
    ls_sum_plan *plan;   /* over `members`: T over images, P in each */
    ls_node *nodes;      /* this member's */
    size_t n_nodes;
    /* The same for a sum inside each image, as global pooling has it: P only, over the members
     * that have the same images and channels. */
    ls_pixel_tree image_pixels; /* 1 image */
    ls_group *image_members;
    ls_sum_plan *image_plan;
    ls_node *image_nodes;
    size_t n_image_nodes;
} ls_net_sums;

/* rows, columns: granules of an image; 1 x 1 for layers whose images are one pixel. Every member of
 * world calls it together: two splits. */
ls_status ls_net_sums_create(ls_net_sums **ret_sums, ls_group *world, const ls_layer_grid *grid,
                             size_t rows, size_t columns, size_t batch) LS_MUST_USE;
void ls_net_sums_destroy(ls_net_sums **sums);

#endif
