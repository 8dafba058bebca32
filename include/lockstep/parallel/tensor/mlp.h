/* mlp.h - the tensor-parallel MLP block: one all-reduce forward, one backward.
 *
 *     GELU:    u = gelu(x W_up + b_up)            y = u W_down + b_down
 *     SwiGLU:  u = silu(x W_gate) * (x W_up)      y = u W_down
 *
 * W_gate and W_up are cut by columns and W_down by rows, so that the activation works on whole
 * numbers of its own columns (arXiv 1909.08053, section 3, equation 3).
 *
 * Row-first, the cut that Megatron rejects (equation 2): W_up by rows, x by columns. Then x W_up is
 * a sum over ranks, and since gelu(a + b) is not gelu(a) + gelu(b) it must be reduced before the
 * activation: 2 all-reduces forward, and 2 all-gathers backward in place of 1 all-reduce. Kept to
 * be counted; it has no sequence parallelism. */
#ifndef LS_PARALLEL_TENSOR_MLP_H
#define LS_PARALLEL_TENSOR_MLP_H

#include "lockstep/model/config.h"
#include "lockstep/parallel/tensor/linear.h"

LS_BEGIN_DECLS

/* The block as one member holds it: D model width, F_r own columns of the feed-forward width. */
#define ls_mlp LS_TYPED(ls_mlp)
typedef struct ls_mlp {
    ls_activation_kind activation;
    ls_mlp_cut cut;
    size_t D;
    ls_cut ff;             /* the feed-forward width               */
    ls_cut model;          /* row-first: D by heads; else not read */
    const ls_real *w_gate; /* SwiGLU: D x F_r; else NULL           */
    const ls_real *w_up;   /* D x F_r (row-first: D_r x F)         */
    const ls_real *b_up;   /* F_r (row-first: F) or NULL           */
    const ls_real *w_down; /* F_r x D                              */
    const ls_real *b_down; /* D or NULL                            */
    /* gradients, shapes alike; NULL: not wanted */
    ls_real *dw_gate, *dw_up, *db_up, *dw_down, *db_down;
} ls_mlp;

/* What the forward pass keeps, each tokens x F_r (row-first: up is tokens x F): the inputs of the
 * activation and its output. */
#define ls_mlp_saved LS_TYPED(ls_mlp_saved)
typedef struct ls_mlp_saved {
    ls_real *gate, *up, *u;
} ls_mlp_saved;

/* Takes the kept arrays from `arena`. LS_ERR_INPUT: row-first with sequence parallelism. */
#define ls_mlp_keep LS_TYPED(ls_mlp_keep)
LS_API ls_status ls_mlp_keep(const ls_tensor_parallel *tp, const ls_mlp *mlp, size_t tokens,
                             ls_arena *arena, ls_mlp_saved *ret_kept) LS_MUST_USE;

/* x, y: tokens x D, the same on every member; 1 all-reduce. Sequence parallel: own tokens of each;
 * 1 all-gather, 1 reduce-scatter. */
#define ls_mlp_forward LS_TYPED(ls_mlp_forward)
LS_API ls_status ls_mlp_forward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *y,
                                const ls_mlp_saved *saved, const ls_real *x,
                                ls_axis tokens) LS_MUST_USE;

/* dx, dy: tokens x D, the same on every member; 1 all-reduce. Overwrites the gradients. Sequence
 * parallel: x, dx, dy of own tokens; 2 all-gathers (dy, x again), 1 reduce-scatter. */
#define ls_mlp_backward LS_TYPED(ls_mlp_backward)
LS_API ls_status ls_mlp_backward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *dx,
                                 const ls_real *dy, const ls_mlp_saved *saved, const ls_real *x,
                                 ls_axis tokens) LS_MUST_USE;

LS_END_DECLS

#endif
