/* softmax.h - the softmax of a row, forward and backward. */
#ifndef LS_KERNELS_SOFTMAX_H
#define LS_KERNELS_SOFTMAX_H

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* y = exp(x - max) * (1 / sum(exp(x - max))) over the n entries. An entry with seen[i] == 0 takes
 * no part, whatever it holds, and gives +0; when none is seen, or all that are seen are -infinity,
 * all are +0 (contract rule 3). seen NULL: all. Sum by rule 10 with +0 at masked places. y may be
 * x. */
#define ls_softmax_forward LS_TYPED(ls_softmax_forward)
LS_API void ls_softmax_forward(ls_real *y, const ls_real *x, const unsigned char *seen, size_t n);

/* dx = y * (dy - sum(dy * y)), the sum by rule 10. dx may be dy. */
#define ls_softmax_backward LS_TYPED(ls_softmax_backward)
LS_API void ls_softmax_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n);

LS_END_DECLS

#endif
