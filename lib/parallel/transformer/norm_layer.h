/* norm_layer.h - a norm of the model with its parameters, on the tokens that a rank has.
 *
 * Without sequence parallelism these are all tokens, and so every rank has the whole sum for the
 * gradients of scale and shift. With it they are own tokens, and the sums go over all ranks
 * (token_sums.h). */
#ifndef LS_PARALLEL_TRANSFORMER_NORM_LAYER_H
#define LS_PARALLEL_TRANSFORMER_NORM_LAYER_H

#include "lockstep/model/store.h"
#include "parallel/sequence/token_sums.h"

/* A norm with its parameters and their gradients; shift is NULL where the kind has none. */
#define ls_norm LS_TYPED(ls_norm)
typedef struct ls_norm {
    ls_norm_kind kind;
    double eps;
    size_t D;
    const ls_real *scale, *shift;
    ls_real *dscale, *dshift;
    const ls_param_table *table;
    size_t scale_place, shift_place; /* in it */
} ls_norm;

/* Its output and what its backward pass needs: n x D, n, n. */
#define ls_norm_saved LS_TYPED(ls_norm_saved)
typedef struct ls_norm_saved {
    ls_real *y, *mean, *rstd;
} ls_norm_saved;

#define ls_norm_bind LS_TYPED(ls_norm_bind)
void ls_norm_bind(ls_norm *norm, const ls_store *store, ls_role scale, ls_role shift, size_t layer);
#define ls_norm_keep LS_TYPED(ls_norm_keep)
ls_status ls_norm_keep(const ls_norm *norm, size_t n, ls_arena *arena,
                       ls_norm_saved *ret_kept) LS_MUST_USE;
/* The same where the output y has its room already. The backward pass does not read it. */
#define ls_norm_keep_beside LS_TYPED(ls_norm_keep_beside)
ls_status ls_norm_keep_beside(const ls_norm *norm, ls_real *y, size_t n, ls_arena *arena,
                              ls_norm_saved *ret_kept) LS_MUST_USE;
#define ls_norm_forward LS_TYPED(ls_norm_forward)
void ls_norm_forward(const ls_norm *norm, const ls_norm_saved *saved, const ls_real *x, size_t n);

/* How many sums over tokens the norm's parameters are: for ls_token_sums_open. */
#define ls_norm_sums LS_TYPED(ls_norm_sums)
size_t ls_norm_sums(const ls_norm *norm);

/* dx = gradient through the norm + residual (rule 11; NULL: none), and the parameters' gradients
 * over the tokens: into their places or, with sequence parallelism, as a part of `sums`, which its
 * opener finishes. dx, dy, x, residual: own tokens x D; tokens: the whole axis; dx may be dy. */
#define ls_norm_backward LS_TYPED(ls_norm_backward)
ls_status ls_norm_backward(const ls_tensor_parallel *tp, const ls_norm *norm,
                           const ls_norm_saved *saved, ls_real *dx, const ls_real *dy,
                           const ls_real *x, const ls_real *residual, ls_axis tokens,
                           ls_token_sums *sums) LS_MUST_USE;

#endif
