/* layer.h - one transformer layer as a tensor-parallel rank computes it.
 *
 *     x1 = x  + dropout(attention(norm1(x)))        f | g inside the block
 *     y  = x1 + dropout(mlp(norm2(x1)))             f | g inside the block
 *
 * or with the norms after the residual sums (layer_post.c).
 *
 * Norms, dropout and residuals work on whole tokens and are the same on every rank of the tp group:
 * two all-reduces forward, two backward. With sequence parallelism they work on own tokens: two
 * all-gathers and two reduce-scatters forward, four and two backward, and one small all-reduce for
 * the gradients of the norms' parameters. */
#ifndef LS_PARALLEL_TRANSFORMER_LAYER_H
#define LS_PARALLEL_TRANSFORMER_LAYER_H

#include "lockstep/model/batch.h"
#include "lockstep/model/store.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "lockstep/parallel/layout/sharding.h"
#include "parallel/transformer/norm_layer.h"

#define ls_layer LS_TYPED(ls_layer)
typedef struct ls_layer {
    uint32_t number; /* in the whole model */
    ls_norm_place place;
    size_t D;
    double dropout;
    ls_norm norm1, norm2;
    ls_attention_block attention;
    ls_mlp mlp;
} ls_layer;

#define ls_layer_saved LS_TYPED(ls_layer_saved)
typedef struct ls_layer_saved {
    const ls_real *x; /* input, the layer before's output    */
    ls_norm_saved norm1, norm2;
    ls_attention_saved attention;
    ls_real *x1; /* after the attention block           */
    ls_mlp_saved mlp;
    ls_real *x2; /* norms after the residual sums: after the MLP, what norm2 reads; its output is
                    the layer's and is not saved here */
} ls_layer_saved;

/* Points the layer at its parameters in the store and at the cuts; `rope` are the rotary tables or
 * NULL. */
#define ls_layer_bind LS_TYPED(ls_layer_bind)
void ls_layer_bind(ls_layer *layer, const ls_store *store, const ls_cuts *cuts,
                   const ls_kv_sharing *kv, const ls_real *cos, const ls_real *sin, size_t number,
                   ls_recompute recompute);

#define ls_layer_keep LS_TYPED(ls_layer_keep)
ls_status ls_layer_keep(const ls_tensor_parallel *tp, const ls_layer *layer, size_t B, size_t S,
                        ls_arena *arena, ls_layer_saved *ret_kept) LS_MUST_USE;

/* From saved->x (n x D, set by the caller) to y, n x D. */
#define ls_layer_forward LS_TYPED(ls_layer_forward)
ls_status ls_layer_forward(const ls_tensor_parallel *tp, const ls_layer *layer,
                           const ls_layer_saved *saved, ls_real *y,
                           const ls_batch *batch) LS_MUST_USE;

/* From the gradient of y to that of x, in place: n x D. */
#define ls_layer_backward LS_TYPED(ls_layer_backward)
ls_status ls_layer_backward(const ls_tensor_parallel *tp, const ls_layer *layer,
                            const ls_layer_saved *saved, ls_real *dx,
                            const ls_batch *batch) LS_MUST_USE;

/* ---- what the two places of the norms have in common, and the second of them: layer_post.c ----
 */

/* Dropout of a block's output, or of its gradient, which is the same call. */
#define ls_layer_dropout LS_TYPED(ls_layer_dropout)
void ls_layer_dropout(const ls_tensor_parallel *tp, const ls_layer *layer, ls_real *y,
                      const ls_real *x, ls_purpose purpose, const ls_batch *batch);

#define ls_layer_post_forward LS_TYPED(ls_layer_post_forward)
ls_status ls_layer_post_forward(const ls_tensor_parallel *tp, const ls_layer *layer,
                                const ls_layer_saved *saved, ls_real *y,
                                const ls_batch *batch) LS_MUST_USE;
#define ls_layer_post_backward LS_TYPED(ls_layer_post_backward)
ls_status ls_layer_post_backward(const ls_tensor_parallel *tp, const ls_layer *layer,
                                 const ls_layer_saved *saved, ls_real *dx,
                                 const ls_batch *batch) LS_MUST_USE;

#endif
