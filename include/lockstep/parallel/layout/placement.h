/* placement.h - which rank of a layout holds which parameter. Pure arithmetic over the table.
 *
 * A stage's parameters are held by the tensor-parallel group of its pipeline rank, cut as
 * sharding.h says; every data-parallel replica holds the same. A tied embedding is held by the
 * first and the last stage. The ranks of one replica are a "model group": member tp_rank + tp *
 * pp_rank.
 *
 * Of a convolutional network a rank holds, of each parameter, the granules of its channel
 * coordinate in the grid of the parameter's own layer (net_grids.h); ranks that differ in sample,
 * row or column hold the same. So the model group is all ranks of the run. */
#ifndef LS_PARALLEL_LAYOUT_PLACEMENT_H
#define LS_PARALLEL_LAYOUT_PLACEMENT_H

#include "lockstep/model/param_table.h"
#include "lockstep/model/store.h"
#include "lockstep/partition/layout.h"

LS_BEGIN_DECLS

/* The stage that a parameter belongs to; of a tied embedding the first; 0 in a network. */
LS_API int ls_stage_of_param(const ls_layout *layout, const ls_param_table *table, size_t param);

/* What rank `rank` holds of every parameter, table->count entries. A tied embedding: the gradient
 * of the use that the rank's stages make is its own, that of the other use comes from the other end
 * of the pipeline. */
LS_API void ls_holdings_of(const ls_param_table *table, const ls_layout *layout, int rank,
                           ls_holding *ret_holdings);

/* What one rank holds of one parameter. */
LS_API ls_holding ls_holding_of(const ls_param_table *table, const ls_layout *layout, int rank,
                                size_t param);

/* The first member of a model group that holds granule g of a parameter: the one that counts it. */
LS_API int ls_first_holder(const ls_param_table *table, const ls_layout *layout, size_t param,
                           size_t granule);

LS_END_DECLS

#endif
