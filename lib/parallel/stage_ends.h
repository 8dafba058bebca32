/* stage_ends.h - what the first stage does before its layers, and the last one after them. */
#ifndef LS_PARALLEL_STAGE_ENDS_H
#define LS_PARALLEL_STAGE_ENDS_H

#include "parallel/stage_state.h"

#define ls_embed_forward LS_TYPED(ls_embed_forward)
#define ls_embed_backward LS_TYPED(ls_embed_backward)
#define ls_head_forward LS_TYPED(ls_head_forward)
#define ls_head_backward LS_TYPED(ls_head_backward)
#define ls_head_keep LS_TYPED(ls_head_keep)

/* mb->x = dropout(token row + position row) of own tokens. 1 all-reduce (reduce-scatter). */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* The embeddings' gradients from dx, own tokens x D, which is overwritten. Sequence parallel: 1
 * all-gather. */
ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx) LS_MUST_USE;

/* Takes what the head keeps from the micro-batch's arena. */
ls_status ls_head_keep(const ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* From x, the last layer's output, to the losses of the micro-batch and the number of its valid
 * targets. 2 all-reduces (gathered loss: 1 all-gather); sequence parallel: 1 all-gather more. */
ls_status ls_head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x) LS_MUST_USE;

/* dx = gradient of x when the loss is a mean over that many targets. 1 all-reduce; sequence
 * parallel: 1 all-gather, 1 reduce-scatter, and 1 all-reduce for the final norm's parameters. */
ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           ls_valid valid) LS_MUST_USE;

#endif
