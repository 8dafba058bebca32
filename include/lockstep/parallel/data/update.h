/* update.h - the gradient's norm over all shards, clipping, and the optimizer's step. */
#ifndef LS_PARALLEL_DATA_UPDATE_H
#define LS_PARALLEL_DATA_UPDATE_H

#include "lockstep/comm/collectives.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/model/store.h"
#include "lockstep/partition/layout.h"

LS_BEGIN_DECLS

/* Adds the uses of every tied parameter, input use first (rule 13), into use 0, where this rank has
 * both. No communication. */
#define ls_add_uses LS_TYPED(ls_add_uses)
LS_API void ls_add_uses(ls_store *store);

/* Squared norm of the whole gradient in binary64 (rule 16), the same on every member: every
 * (parameter, granule) is counted once, by the first member that holds it, whatever is held twice.
 * model: the ranks that hold the model together (placement.h), with one pipeline stage the tp
 * group, of a convolutional network all ranks. States have no gradient. 1 all-reduce of one number
 * per granule of the table. */
#define ls_shared_squares LS_TYPED(ls_shared_squares)
LS_API ls_status ls_shared_squares(ls_group *model, const ls_layout *layout, const ls_store *store,
                                   ls_arena *temporary, double *ret_squares) LS_MUST_USE;

/* Scales the gradients held by ls_clip_factor(squares, max_norm) unless it is 1. No communication.
 */
#define ls_shard_clip LS_TYPED(ls_shard_clip)
LS_API void ls_shard_clip(ls_store *store, double squares, double max_norm);

/* The optimizer's step with the gradients as they are, for every parameter held. No communication.
 */
#define ls_shard_step LS_TYPED(ls_shard_step)
LS_API void ls_shard_step(ls_store *store, const ls_update *update);

/* ls_shard_clip, then ls_shard_step. */
#define ls_shard_update LS_TYPED(ls_shard_update)
LS_API void ls_shard_update(ls_store *store, const ls_update *update, double squares,
                            double max_norm);

LS_END_DECLS

#endif
