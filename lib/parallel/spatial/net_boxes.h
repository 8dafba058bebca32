/* net_boxes.h - the blocks and routes of all layers (net_layer_state.h). */
#ifndef LS_PARALLEL_SPATIAL_NET_BOXES_H
#define LS_PARALLEL_SPATIAL_NET_BOXES_H

#include "parallel/spatial/net_layer_state.h"

/* Fills own, granules, read_by, dy_halo and the inputs of every layer, whose grids, places and
 * operations are known. Pure bookkeeping: nothing is communicated. Cost: ranks per layer. Errors:
 * LS_ERR_MEMORY. */
#define ls_net_boxes_create LS_TYPED(ls_net_boxes_create)
ls_status ls_net_boxes_create(ls_sharded_net *net) LS_MUST_USE;

/* Frees the routes. */
#define ls_net_boxes_destroy LS_TYPED(ls_net_boxes_destroy)
void ls_net_boxes_destroy(ls_sharded_net *net);

#endif
