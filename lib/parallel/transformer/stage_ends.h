/* stage_ends.h - the work of the first stage before its layers (embedding_end.c) and of the last
 * one after them (head_end.c). */
#ifndef LS_PARALLEL_TRANSFORMER_STAGE_ENDS_H
#define LS_PARALLEL_TRANSFORMER_STAGE_ENDS_H

#include "parallel/transformer/stage_state.h"

#define ls_embed_keep LS_TYPED(ls_embed_keep)
#define ls_embed_forward LS_TYPED(ls_embed_forward)
#define ls_embed_backward LS_TYPED(ls_embed_backward)
#define ls_head_forward LS_TYPED(ls_head_forward)
#define ls_head_backward LS_TYPED(ls_head_backward)
#define ls_head_keep LS_TYPED(ls_head_keep)

/* Takes what the embedding keeps next to mb->x: nothing, or with a norm that norm's input. */
ls_status ls_embed_keep(const ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* mb->x = dropout(norm((token row + position row) + type row)) of own tokens, what of it the model
 * has. 1 all-reduce (reduce-scatter). */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* The embeddings' gradients from dx, own tokens x D, which is overwritten. Sequence parallel: 1
 * all-gather, and with a norm 1 all-reduce for its parameters. */
ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx) LS_MUST_USE;

/* Takes what the head keeps from the micro-batch's arena. */
ls_status ls_head_keep(const ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* From x, the last layer's output, to the losses of the micro-batch and how many targets and labels
 * it has. 2 all-reduces (gathered loss: 1 all-gather). Sequence parallel: 1 all-gather more, with
 * the masked-token head 2; with sentence order 1 broadcast. */
ls_status ls_head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x) LS_MUST_USE;

/* dx = gradient of x when the losses are means over so many targets and labels, of which there is
 * one at least. 1 all-reduce. Sequence parallel: 1 all-gather, 1 reduce-scatter, with the masked-
 * token head 2 all-gathers more, and 1 all-reduce for the parameters of the norms that there are.
 * Without any target nothing of these but the last, for the final norm. */
ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           ls_valid valid) LS_MUST_USE;

#endif
