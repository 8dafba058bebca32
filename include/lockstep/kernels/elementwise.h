/* elementwise.h - sums of two arrays, bias, dropout. */
#ifndef LS_KERNELS_ELEMENTWISE_H
#define LS_KERNELS_ELEMENTWISE_H

#include "lockstep/base/real.h"
#include "lockstep/numerics/random.h"

LS_BEGIN_DECLS

/* y = a + b. y may be a or b. */
#define ls_add LS_TYPED(ls_add)
LS_API void ls_add(ls_real *y, const ls_real *a, const ls_real *b, size_t n);

/* y[r][c] = y[r][c] + bias[c]. y: rows x cols, row stride ld. */
#define ls_add_bias LS_TYPED(ls_add_bias)
LS_API void ls_add_bias(ls_real *y, const ls_real *bias, size_t rows, size_t cols, size_t ld);

/* y = x * factor. y may be x. */
#define ls_scale LS_TYPED(ls_scale)
LS_API void ls_scale(ls_real *y, const ls_real *x, ls_real factor, size_t n);

/* y[i] = x[i] * (1 / (1 - p)) where the stream keeps logical element first_index + i, else +0; a
 * copy when p is 0. The backward pass is the same call on dy. y may be x. */
#define ls_dropout LS_TYPED(ls_dropout)
LS_API void ls_dropout(ls_real *y, const ls_real *x, size_t n, double p, ls_stream stream,
                       uint64_t first_index);

LS_END_DECLS

#endif
