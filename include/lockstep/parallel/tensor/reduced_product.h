/* reduced_product.h - the one place where the sum of a product crosses ranks: f backward and g
 * forward (tensor_parallel.h). */
#ifndef LS_PARALLEL_TENSOR_REDUCED_PRODUCT_H
#define LS_PARALLEL_TENSOR_REDUCED_PRODUCT_H

#include "lockstep/parallel/layout/tensor_parallel.h"

LS_BEGIN_DECLS

/* The reduced product:
 *
 *     C = T over the granules i of k of (term 0 at i) + (term 1 at i) + ...
 *
 * where each member has the terms of its own granules: first the local products, one per node of
 * its forest, then one all-reduce. This is g forward (X_r W_r, summed) and f backward (dY_r W_r^T,
 * summed). terms: 1 to 3, as in ls_gemm_fused over the granules held, op(A) = A; tb for all. c:
 * extent(m) x extent(n), contiguous; the same bits on every member. With sequence parallelism m are
 * tokens, and c has own tokens only. Summation order: the tree of k, whatever the number of
 * members. Cost: the products, 1 all-reduce (reduce-scatter) of nodes * extent(m) * extent(n). */
#define ls_reduced_product LS_TYPED(ls_reduced_product)
LS_API ls_status ls_reduced_product(const ls_tensor_parallel *tp, ls_trans tb, ls_axis m, ls_axis n,
                                    const ls_cut *k, const ls_gemm_term *terms, size_t n_terms,
                                    ls_real *c) LS_MUST_USE;

LS_END_DECLS

#endif
