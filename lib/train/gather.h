/* gather.h - a whole parameter from its shards, and whether its replicas agree. */
#ifndef LS_TRAIN_GATHER_H
#define LS_TRAIN_GATHER_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"
#include "lockstep/model/param_table.h"
#include "lockstep/partition/layout.h"

/* Brings the logical tensor of a parameter (dims of the table, no padding) together on rank 0.
 * world: all ranks of the layout, each of which calls it; or NULL when `own` is held whole by the
 * only caller. own: this rank's shard, as ls_param_shard_shape; not read where the rank does not
 * hold the parameter. whole: room for it on rank 0, not read elsewhere. Cost: one message from
 * every other rank that holds some of it. What several ranks hold (a parameter that is not cut, a
 * shared key/value head, data-parallel replicas, both ends' tied embedding) must be the same bits
 * on all, any NaN for any other: else LS_ERR_RANK, naming the parameter and the ranks. `what`:
 * "value", "gradient", for that text. */
ls_status ls_gather_param(ls_group *world, const ls_layout *layout, const ls_param_table *table,
                          size_t param, ls_dtype dtype, const char *what, const void *own,
                          void *whole, ls_arena *temporary) LS_MUST_USE;

/* Elements of the largest parameter: what `whole` needs room for. */
size_t ls_gather_elements(const ls_param_table *table);

#endif
