/* net_channel_sums.h - dx of a convolution or a dense layer whose channels are cut (rules 7, 8).
 *
 * Ranks that have different output channels of one convolution group (of a dense layer: all) each
 * make a part of the gradient of all its input channels: a value for each of their nodes of the
 * tree over the granules of output channels. A reduce-scatter finishes the tree and gives each the
 * channels that it has of the input.
 *
 *     output granules   0 1 | 2 3       rank 0 sends node 0-2, rank 1 node 2-4
 *     input channels    rank 0 gets the first half of the sum, rank 1 the second */
#ifndef LS_PARALLEL_SPATIAL_NET_CHANNEL_SUMS_H
#define LS_PARALLEL_SPATIAL_NET_CHANNEL_SUMS_H

#include "parallel/spatial/net_layer_state.h"

typedef struct ls_net_channel_sums {
    ls_group *group;              /* who makes parts of the same, by channels ascending */
    ls_forest forest;             /* of the granules that they have together            */
    ls_node nodes[LS_FOREST_MAX]; /* this rank's                                        */
    size_t n_nodes;
    size_t first;         /* its first granule                                          */
    ls_image_box box;     /* of the input, that all these make parts of                 */
    const size_t *starts; /* which of its channels each gets, counted from the first of them: one
                             more than members                                          */
} ls_net_channel_sums;

/* For the `sharers` ranks of l->columns from place `first` on, of which the caller is one, and the
 * input channels that they all read. Every member of l->columns calls it together. *ret_sums: NULL
 * when a rank shares with no other. Errors: LS_ERR_MEMORY, those of ls_group_split. */
#define ls_net_channel_sums_create LS_TYPED(ls_net_channel_sums_create)
ls_status ls_net_channel_sums_create(ls_net_channel_sums **ret_sums, ls_sharded_net *net,
                                     const ls_net_layer_state *l, size_t first, size_t sharers,
                                     ls_share channels) LS_MUST_USE;

/* Room for the parts in net->handed: the block `box` for each node. */
#define ls_net_channel_sums_take LS_TYPED(ls_net_channel_sums_take)
ls_status ls_net_channel_sums_take(ls_sharded_net *net, const ls_net_channel_sums *sums,
                                   ls_real **ret_parts) LS_MUST_USE;

/* dx: the block l->input[0].takes. */
#define ls_net_channel_sums_finish LS_TYPED(ls_net_channel_sums_finish)
ls_status ls_net_channel_sums_finish(ls_sharded_net *net, const ls_net_layer_state *l,
                                     const ls_net_channel_sums *sums, const ls_real *parts,
                                     ls_real *dx) LS_MUST_USE;

#endif
