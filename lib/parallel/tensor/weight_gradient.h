/* weight_gradient.h - what a linear's parameters take from the tokens of a batch.
 *
 * The one place where this room sums a product over the tokens (contract rule 9). */
#ifndef LS_PARALLEL_TENSOR_WEIGHT_GRADIENT_H
#define LS_PARALLEL_TENSOR_WEIGHT_GRADIENT_H

#include "lockstep/parallel/layout/tensor_parallel.h"

/* For y = x w + bias: dw = x^T dy, dbias = sum over tokens of dy; each may be NULL: not wanted.
 * Each sum goes where tp->sums says. in, out: the axes of w as held. x: tokens x in, dy: tokens x
 * out, dw: in x out, all contiguous. No communication. Errors: those of ls_gemm. */
#define ls_weight_gradient LS_TYPED(ls_weight_gradient)
ls_status ls_weight_gradient(const ls_tensor_parallel *tp, ls_real *dw, ls_real *dbias,
                             const ls_real *x, ls_axis in, const ls_real *dy, ls_axis out,
                             ls_axis tokens) LS_MUST_USE;

/* d = +0 in every place where a sum over the batch goes: there is no term (rule 15). d: count
 * elements. */
#define ls_no_gradient LS_TYPED(ls_no_gradient)
void ls_no_gradient(const ls_tensor_parallel *tp, ls_real *d, size_t count);

#endif
