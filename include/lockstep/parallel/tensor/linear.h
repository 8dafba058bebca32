/* linear.h - the column-parallel and the row-parallel linear layer (arXiv 1909.08053, section 3).
 *
 *     column:  Y_r = X W_r + b_r           W cut by columns; X whole, Y cut
 *     row:     Y   = sum_r X_r W_r + b     W cut by rows; X cut, Y whole; b once, after the sum
 *
 * tokens: axis of the rows of X and Y, one granule per sequence. Weights are in x out, row-major; a
 * shard is contiguous. Weight gradients sum over the tokens (rule 9) and need no communication.
 *
 * With sequence parallelism "X whole" and "Y whole" are own tokens of every member: an all-reduce
 * is a reduce-scatter, and where there was no communication there is a gather of X or dY. */
#ifndef LS_PARALLEL_TENSOR_LINEAR_H
#define LS_PARALLEL_TENSOR_LINEAR_H

#include "lockstep/parallel/layout/tensor_parallel.h"

LS_BEGIN_DECLS

/* y = x w + bias. x: tokens x in, the same on every member; w: in x own columns; bias: own columns
 * or NULL; y: tokens x own columns. No communication (f forward is the identity; sequence
 * parallel: 1 all-gather of x). */
#define ls_column_linear_forward LS_TYPED(ls_column_linear_forward)
LS_API ls_status ls_column_linear_forward(const ls_tensor_parallel *tp, ls_real *y,
                                          const ls_real *x, const ls_real *w, const ls_real *bias,
                                          ls_axis tokens, size_t in, const ls_cut *out) LS_MUST_USE;

/* dw = x^T dy, dbias = sum over tokens of dy, dx = sum over members of dy_r w_r^T (f backward: 1
 * all-reduce), the same on every member. dy: tokens x own columns. dx, dw or dbias may be NULL: not
 * wanted. Sequence parallel: 1 all-gather of x if dw is wanted, 1 reduce-scatter for dx. */
#define ls_column_linear_backward LS_TYPED(ls_column_linear_backward)
LS_API ls_status ls_column_linear_backward(const ls_tensor_parallel *tp, ls_real *dx, ls_real *dw,
                                           ls_real *dbias, const ls_real *dy, const ls_real *x,
                                           const ls_real *w, ls_axis tokens, size_t in,
                                           const ls_cut *out) LS_MUST_USE;

/* y = sum over members of x_r w_r (g forward: 1 all-reduce; sequence parallel: 1 reduce-scatter),
 * then + bias. x: tokens x own columns of the cut axis; w: own rows x out; bias: out, the same on
 * every member, or NULL; y: tokens x out, the same on every member. */
#define ls_row_linear_forward LS_TYPED(ls_row_linear_forward)
LS_API ls_status ls_row_linear_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                                       const ls_real *w, const ls_real *bias, ls_axis tokens,
                                       const ls_cut *in, size_t out) LS_MUST_USE;

/* dx_r = dy w_r^T, dw_r = x_r^T dy, dbias = sum over tokens of dy (the same on every member). No
 * communication (g backward is the identity; sequence parallel: 1 all-gather of dy). dx, dw or
 * dbias may be NULL. */
#define ls_row_linear_backward LS_TYPED(ls_row_linear_backward)
LS_API ls_status ls_row_linear_backward(const ls_tensor_parallel *tp, ls_real *dx, ls_real *dw,
                                        ls_real *dbias, const ls_real *dy, const ls_real *x,
                                        const ls_real *w, ls_axis tokens, const ls_cut *in,
                                        size_t out) LS_MUST_USE;

LS_END_DECLS

#endif
