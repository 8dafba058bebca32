/* sharded_net.h - a rank's part of a convolutional network: spatial, sample and channel
 * parallelism.
 *
 * Each layer's output is owned in blocks, one per rank (net_grids.h). A rank makes its block from
 * its own and its neighbours' blocks of what the layer reads (halos, other channels, or another
 * grid altogether: one exchange of boxes), and backward from the gradients of whatever read it. No
 * element of y and none of dx is a sum over ranks, but for dx of input channels under channel
 * parallelism (a reduce-scatter over granules of output channels, rule 7). What sums over images
 * and pixels - gradients of weights, statistics of batch normalisation and their gradients, global
 * pooling - is an all-reduce along the tree over granule rectangles and images (rules 8 and 9). So
 * all layouts give the bits of one rank.
 *
 * Source: Dryden et al., arXiv 1903.06681; contract rule 17. */
#ifndef LS_PARALLEL_SPATIAL_SHARDED_NET_H
#define LS_PARALLEL_SPATIAL_SHARDED_NET_H

#include "lockstep/comm/collectives.h"
#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/hooks/observer.h"

LS_BEGIN_DECLS

#define ls_sharded_net LS_TYPED(ls_sharded_net)
typedef struct ls_sharded_net ls_sharded_net;

typedef struct ls_sharded_net_setup {
    ls_group *world; /* all ranks of the layout */
    const ls_layout *layout;
    ls_engine engine;
    size_t batch;                /* images of the global batch */
    const ls_observer *observer; /* NULL: none. Outlives the network */
} ls_sharded_net_setup;

/* A network over the shards in `store` (ls_holdings_of), which it does not own. Every member of
 * world calls it together; it splits groups. Errors: LS_ERR_INPUT (a parameter that the store does
 * not hold as this rank should), LS_ERR_MEMORY, those of ls_group_split. */
#define ls_sharded_net_create LS_TYPED(ls_sharded_net_create)
LS_API ls_status ls_sharded_net_create(ls_sharded_net **ret_net, const ls_sharded_net_setup *setup,
                                       ls_store *store) LS_MUST_USE;
#define ls_sharded_net_destroy LS_TYPED(ls_sharded_net_destroy)
LS_API void ls_sharded_net_destroy(ls_sharded_net **net);

/* The images that this rank needs of the global batch, for their pixels or their labels: a run. */
#define ls_sharded_net_samples LS_TYPED(ls_sharded_net_samples)
LS_API ls_share ls_sharded_net_samples(const ls_sharded_net *net);

/* Forward; every member of world calls it together, as backward. batch: the images of
 * ls_sharded_net_samples, whole (each rank takes what its blocks read: the image is never sent);
 * with its dropout on it trains, and batch norm takes its statistics and moves the running ones;
 * off, it is evaluated by these. *ret_loss: of the global batch, the same on all ranks. Keeps what
 * the backward pass needs. The arrays of batch live until then. Cost: see "What crosses ranks in a
 * step" in the README of parallel. Errors: LS_ERR_INPUT (a label that is none, images that this
 * rank needs and are not there), LS_ERR_MEMORY, those of the collectives. */
#define ls_sharded_net_forward LS_TYPED(ls_sharded_net_forward)
LS_API ls_status ls_sharded_net_forward(ls_sharded_net *net, const ls_batch *batch,
                                        ls_real *ret_loss) LS_MUST_USE;

/* Backward, once after each forward: overwrites the gradients in the store, complete: summed over
 * the global batch, the same on all ranks that hold them. Errors: LS_ERR_INPUT (no forward pass
 * before it), LS_ERR_MEMORY, those of the collectives; the gradients are undefined then. */
#define ls_sharded_net_backward LS_TYPED(ls_sharded_net_backward)
LS_API ls_status ls_sharded_net_backward(ls_sharded_net *net) LS_MUST_USE;

LS_END_DECLS

#endif
