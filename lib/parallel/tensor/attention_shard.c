/* attention_shard.c - a rank's part of the heads, in numbers. */
#include "parallel/tensor/attention_core.h"

ls_attention_shard ls_attention_shard_of(const ls_tensor_parallel *tp,
                                         const ls_attention_block *block)
{
    size_t rank = (size_t)ls_group_rank(tp->group);
    ls_attention_shard own;
    own.first = block->heads.bounds[rank];
    own.heads = block->heads.bounds[rank + 1] - own.first;
    own.kv_first = block->kv->held.first;
    own.kvs = block->kv->held.count;
    own.group = block->heads.whole.granules / block->kv_heads;
    own.width = block->head_width;
    own.q_width = own.heads * own.width;
    own.kv_width = own.kvs * own.width;
    return own;
}
