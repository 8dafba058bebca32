/* attention_block.h - tensor-parallel attention: every rank has whole heads (arXiv 1909.08053,
 * section 3).
 *
 *     q, k, v = x W_q, x W_k, x W_v       cut by columns, a granule per head; f before them
 *     o_h     = attention(q_h, k, v)      no communication: heads never meet
 *     y       = o W_o + b_o               cut by rows, a granule per head; g after it
 *
 * Grouped queries (contract rule 12): `group` = heads / kv_heads query heads share one key/value
 * head. A rank holds each kv head that its query heads use, so tp may exceed the number of kv heads
 * or not divide it. A kv head held by several ranks has its dK, dV finished over them before use:
 * one all-reduce of dK and one of dV per shared kv head, among the ranks that share it. */
#ifndef LS_PARALLEL_TENSOR_ATTENTION_BLOCK_H
#define LS_PARALLEL_TENSOR_ATTENTION_BLOCK_H

#include "lockstep/model/batch.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/partition/share.h"

LS_BEGIN_DECLS

/* The groups of ranks that share a kv head. */
typedef struct ls_kv_sharing {
    ls_share held; /* kv heads of this member                                                    */
    ls_group **sharers; /* per kv head held: the members that hold it too, in order; NULL when
                           there is none */
    size_t **bounds;    /* per shared kv head: which of its `group` query heads each sharer has */
} ls_kv_sharing;

/* Finds who shares which kv heads and makes their groups; every member of tp calls it together.
 * Memory from `arena`. Collective: one split per shared kv head. Errors: LS_ERR_MEMORY, those of
 * ls_group_split. */
LS_API ls_status ls_kv_sharing_create(ls_group *tp, const ls_cut *heads, size_t kv_heads,
                                      ls_arena *arena, ls_kv_sharing *ret_sharing) LS_MUST_USE;

/* The block as one member holds it: H_r query heads, K_r kv heads, w = head_width. */
#define ls_attention_block LS_TYPED(ls_attention_block)
typedef struct ls_attention_block {
    size_t D, head_width;
    ls_cut heads;    /* query heads, a granule each                   */
    size_t kv_heads; /* of the model                                  */
    const ls_kv_sharing *kv;
    bool causal;
    bool recompute_core; /* P is not kept but computed again in the backward pass (arXiv 2205.05198,
                            section 5: cheap next to its memory)  */
    const ls_real *cos, *sin; /* rotary tables (ls_rotary_table) or NULL: none */
    double dropout;           /* of the probabilities                          */
    uint32_t layer;           /* for the dropout stream                        */
    const ls_real *w_q, *b_q; /* D x H_r w; biases may be NULL                 */
    const ls_real *w_k, *b_k; /* D x K_r w                                     */
    const ls_real *w_v, *b_v;
    const ls_real *w_o, *b_o; /* H_r w x D; D                                  */
    /* gradients, shapes alike; NULL: not wanted */
    ls_real *dw_q, *db_q, *dw_k, *db_k, *dw_v, *db_v, *dw_o, *db_o;
} ls_attention_block;

/* What the forward pass keeps: q (after rotary) and o, tokens x H_r w; k (after rotary) and v,
 * tokens x K_r w; P, before dropout, B x H_r x S x S, or NULL: to be computed again. */
#define ls_attention_saved LS_TYPED(ls_attention_saved)
typedef struct ls_attention_saved {
    ls_real *q, *k, *v, *P, *o;
} ls_attention_saved;

/* Takes the kept arrays, for B sequences of S tokens, from `arena`. */
#define ls_attention_keep LS_TYPED(ls_attention_keep)
LS_API ls_status ls_attention_keep(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                   size_t B, size_t S, ls_arena *arena,
                                   ls_attention_saved *ret_kept) LS_MUST_USE;

/* x, y: tokens x D, the same on every member. batch: its B, S, lengths, first, seed, step and
 * dropout are read. 1 all-reduce. Sequence parallel: own tokens of each; 1 all-gather, 1
 * reduce-scatter. */
#define ls_attention_block_forward LS_TYPED(ls_attention_block_forward)
LS_API ls_status ls_attention_block_forward(const ls_tensor_parallel *tp,
                                            const ls_attention_block *block, ls_real *y,
                                            const ls_attention_saved *saved, const ls_real *x,
                                            const ls_batch *batch) LS_MUST_USE;

/* dx, dy: tokens x D, the same on every member; x, batch: those of the forward pass. Overwrites the
 * gradients. Elements per all-reduce: nodes * tokens * D for dx; nodes * tokens * w for dK and as
 * many for dV of each shared kv head, nodes of a tree over its `group` query heads. Sequence
 * parallel: x, dx, dy of own tokens; dx by a reduce-scatter, and 2 all-gathers (dy, x again). */
#define ls_attention_block_backward LS_TYPED(ls_attention_block_backward)
LS_API ls_status ls_attention_block_backward(const ls_tensor_parallel *tp,
                                             const ls_attention_block *block, ls_real *dx,
                                             const ls_real *dy, const ls_attention_saved *saved,
                                             const ls_real *x, const ls_batch *batch) LS_MUST_USE;

LS_END_DECLS

#endif
