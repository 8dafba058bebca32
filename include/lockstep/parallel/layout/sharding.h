/* sharding.h - which layouts a model allows, and what a rank of one holds. */
#ifndef LS_PARALLEL_LAYOUT_SHARDING_H
#define LS_PARALLEL_LAYOUT_SHARDING_H

#include "lockstep/model/config.h"
#include "lockstep/model/param_table.h"
#include "lockstep/parallel/layout/tensor_parallel.h"
#include "lockstep/partition/layout.h"

LS_BEGIN_DECLS

/* The tensor-parallel degrees that a model allows: those that divide the number of granules of
 * every axis that is cut (contract rule 7). Writes at most `max`, ascending, and returns how many
 * there are. */
LS_API size_t ls_legal_tp(const ls_config *config, int *ret_tp, size_t max);

/* LS_ERR_INPUT, with the legal values, when the model cannot be split so:
 * "--tp 5: 12 heads cannot be cut into 5 equal parts; use 1, 2, 3, 4, 6 or 12",
 * "--pp 5: 4 layers make at most 4 stages; use 1 to 4",
 * "--batch 7: dp 2 x 4 micro-batches need 8 sequences or more". config->batch is the global batch.
 */
LS_API ls_status ls_layout_check(const ls_layout *layout, const ls_config *config) LS_MUST_USE;

/* How a model's axes are cut over the tp ranks, in equal shares. */
typedef struct ls_cuts {
    ls_cut heads;
    ls_cut ff;
    ls_cut vocab;
    ls_cut model; /* row-first MLP: the model width by heads */
} ls_cuts;

/* The cuts for a legal tp; their bounds are taken from `arena`. Errors: LS_ERR_MEMORY. */
LS_API ls_status ls_cuts_create(const ls_config *config, int tp, ls_arena *arena,
                                ls_cuts *ret_cuts) LS_MUST_USE;

/* The granules of one kind that tp rank `rank` of `tp` owns. Key/value heads: all that its query
 * heads use. LS_GRANULE_NONE: the one granule. */
LS_API ls_shard ls_shard_of(const ls_config *config, ls_granule_kind kind, int tp, int rank);

LS_END_DECLS

#endif
