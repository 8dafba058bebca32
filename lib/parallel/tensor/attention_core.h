/* attention_core.h - the heads of one rank: o_h = softmax(q_h k^T / sqrt(w)) v, and its gradients.
 *
 * Each rank computes whole heads, so the core needs no communication, except for the gradients of a
 * kv head that several ranks hold: dK_j and dV_j are sums over the query heads that use it
 * (contract rule 12; kv_gradient.c). */
#ifndef LS_PARALLEL_TENSOR_ATTENTION_CORE_H
#define LS_PARALLEL_TENSOR_ATTENTION_CORE_H

#include "lockstep/parallel/tensor/attention_block.h"
#include "parallel/hooks/observe.h"

/* The heads that this rank has, in numbers. */
#define ls_attention_shard LS_TYPED(ls_attention_shard)
typedef struct ls_attention_shard {
    size_t first, heads;  /* own query heads                                  */
    size_t kv_first, kvs; /* own kv heads                                     */
    size_t group;         /* query heads per kv head                          */
    size_t width;         /* of a head                                        */
    size_t q_width;       /* heads * width: from token to token in q and o    */
    size_t kv_width;      /* kvs * width: in k and v                          */
} ls_attention_shard;

#define ls_attention_shard_of LS_TYPED(ls_attention_shard_of)
ls_attention_shard ls_attention_shard_of(const ls_tensor_parallel *tp,
                                         const ls_attention_block *block);

/* Query heads' or kv heads' width: the whole and what is held. */
static inline ls_view_run ls_query_run(const ls_attention_block *block,
                                       const ls_attention_shard *own)
{
    return (ls_view_run){block->heads.whole.granules * own->width, own->first * own->width,
                         own->q_width};
}

static inline ls_view_run ls_kv_run(const ls_attention_block *block, const ls_attention_shard *own)
{
    return (ls_view_run){block->kv_heads * own->width, own->kv_first * own->width, own->kv_width};
}

/* q and k of all tokens, before rotary, and v, in kept: rotates q and k, computes P and o. */
#define ls_attention_core_forward LS_TYPED(ls_attention_core_forward)
ls_status ls_attention_core_forward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                    const ls_attention_saved *saved,
                                    const ls_batch *batch) LS_MUST_USE;

/* dq, dk and dv, before rotary, from d_o. */
#define ls_attention_core_backward LS_TYPED(ls_attention_core_backward)
ls_status ls_attention_core_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                     ls_real *dq, ls_real *dk, ls_real *dv, const ls_real *d_o,
                                     const ls_attention_saved *saved,
                                     const ls_batch *batch) LS_MUST_USE;

/* dK or dV (`point`) of every kv head held. parts[t]: tokens x K_r w, the gradient through query
 * head t of each group. For each shared head 1 all-reduce among the ranks that share it. */
#define ls_kv_gradient LS_TYPED(ls_kv_gradient)
ls_status ls_kv_gradient(const ls_tensor_parallel *tp, const ls_attention_block *block,
                         ls_point point, size_t rows, ls_real *const *parts,
                         ls_real *d) LS_MUST_USE;

#endif
