/* order_head.h - were the two spans of a sequence in order? Asked of its first token.
 *
 *     p = tanh(xf_0 W_p + b_p)      z = p W_o + b_o      loss = -log softmax(z)[label]
 *
 * One row per sequence: D numbers, which every rank has (with sequence parallelism the rank of the
 * first token tells the others), two small matrices, whole on every rank, and a vocabulary of two
 * words. So all ranks compute the same and none of the gradients is a sum over ranks; in sums over
 * the batch the leaf is a sequence (contract rule 9). */
#ifndef LS_PARALLEL_TRANSFORMER_ORDER_HEAD_H
#define LS_PARALLEL_TRANSFORMER_ORDER_HEAD_H

#include "lockstep/model/batch.h"
#include "parallel/tensor/replicated_linear.h"

#define ls_order_head LS_TYPED(ls_order_head)
typedef struct ls_order_head {
    ls_replicated_linear pooler, classifier;
} ls_order_head;

#define ls_order_saved LS_TYPED(ls_order_saved)
typedef struct ls_order_saved {
    ls_real *first, *p;     /* B x D: xf_0; after tanh          */
    ls_real *z;             /* B x 2, then its gradient         */
    ls_real *max, *sum_exp; /* B                                */
    const int32_t *labels;  /* B: the batch's, or none for any  */
} ls_order_saved;

#define ls_order_head_bind LS_TYPED(ls_order_head_bind)
void ls_order_head_bind(ls_order_head *head, const ls_store *store);
#define ls_order_head_keep LS_TYPED(ls_order_head_keep)
ls_status ls_order_head_keep(const ls_order_head *head, const ls_batch *batch, ls_arena *arena,
                             ls_order_saved *ret_kept) LS_MUST_USE;

/* ret_losses[b]: the loss of sequence b, -0 without a label. xf: own tokens x D. Sequence parallel:
 * 1 broadcast of B D. */
#define ls_order_head_forward LS_TYPED(ls_order_head_forward)
ls_status ls_order_head_forward(const ls_tensor_parallel *tp, const ls_order_head *head,
                                const ls_order_saved *saved, ls_real *ret_losses, const ls_real *xf,
                                const ls_batch *batch) LS_MUST_USE;

/* dx += the gradient of xf, at the first tokens, on the rank that has them; and the parameters'.
 * dx: own tokens x D. factor: 1 / number of labels of the global batch. No communication. */
#define ls_order_head_backward LS_TYPED(ls_order_head_backward)
ls_status ls_order_head_backward(const ls_tensor_parallel *tp, const ls_order_head *head,
                                 const ls_order_saved *saved, ls_real *dx, ls_real factor,
                                 const ls_batch *batch) LS_MUST_USE;

#endif
