/* stage_ends.h - what the first stage does before its layers, and the last one after them. */
#ifndef LS_PARALLEL_STAGE_ENDS_H
#define LS_PARALLEL_STAGE_ENDS_H

#include "parallel/stage_state.h"

#define ls_embed_forward LS_TYPED(ls_embed_forward)
#define ls_embed_backward LS_TYPED(ls_embed_backward)
#define ls_head_forward LS_TYPED(ls_head_forward)
#define ls_head_backward LS_TYPED(ls_head_backward)
#define ls_head_keep LS_TYPED(ls_head_keep)

/* mb->x = dropout(token row + position row). 1 all-reduce. */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* The embeddings' gradients from dx, n x D, which is overwritten. */
ls_status ls_embed_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx) LS_MUST_USE;

/* Takes what the head keeps from the micro-batch's arena. */
ls_status ls_head_keep(const ls_stage *stage, ls_micro_batch *mb) LS_MUST_USE;

/* From x, the last layer's output, to the losses of the micro-batch and the number of its valid
 * targets. 2 all-reduces (gathered loss: 1 all-gather). */
ls_status ls_head_forward(ls_stage *stage, ls_micro_batch *mb, const ls_real *x) LS_MUST_USE;

/* dx = gradient of x when the loss is a mean over `valid` targets. 1 all-reduce. */
ls_status ls_head_backward(ls_stage *stage, ls_micro_batch *mb, ls_real *dx, const ls_real *x,
                           int64_t valid) LS_MUST_USE;

#endif
