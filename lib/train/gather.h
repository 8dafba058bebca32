/* gather.h - a whole parameter from its shards, and whether its replicas agree. */
#ifndef LS_TRAIN_GATHER_H
#define LS_TRAIN_GATHER_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"
#include "lockstep/model/param_table.h"

/* Brings the logical tensor of `param` (dims of the table, no padding) together on member 0.
 * tp: the group that it is cut over, or NULL when `own` is held whole by the only caller. own: this
 * member's shard, as ls_param_shard_shape. whole: room for it on member 0, not read elsewhere.
 * Every member calls it together. Cost: one message from every other member. What several members
 * hold (a parameter that is not cut, a shared key/value head) must be the same bits on all: else
 * LS_ERR_RANK, naming the parameter and the ranks. `what`: "value", "gradient", for that text. */
ls_status ls_gather_param(ls_group *tp, const ls_config *config, const ls_param *param,
                          ls_dtype dtype, const char *what, const void *own, void *whole,
                          ls_arena *temporary) LS_MUST_USE;

/* Elements of the largest parameter: what `whole` needs room for. */
size_t ls_gather_elements(const ls_param_table *table);

#endif
