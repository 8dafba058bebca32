/* gemm_leaves.h - the matrix product under any binary tree (contract rules 5, 9).
 *
 * The gradient of a convolution's weights has a tree over rectangles of pixels, which is no axis of
 * equal granules; the gradient of its input leaves out terms of an axis. The leaves are listed, in
 * order, each with the additions that follow it. */
#ifndef LS_NUMERICS_GEMM_LEAVES_H
#define LS_NUMERICS_GEMM_LEAVES_H

#include "lockstep/numerics/gemm.h"
#include "numerics/gemm_plan.h"

/* C = op(A) op(B) as ls_gemm has it, but that the leaves of k are these, n_leaves of them with 0 to
 * LS_LEAF terms each, whose additions leave one value. A leaf without terms is +0. No terms: C is
 * +0. LS_ENGINE_PLAIN knows no leaves. Errors: those of ls_gemm. */
#define ls_gemm_leaves LS_TYPED(ls_gemm_leaves)
ls_status ls_gemm_leaves(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n,
                         const ls_leaf_step *leaves, size_t n_leaves, const ls_real *a, size_t lda,
                         const ls_real *b, size_t ldb, ls_real *c, size_t ldc) LS_MUST_USE;

#endif
