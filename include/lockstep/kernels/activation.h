/* activation.h - GELU in both forms, SwiGLU; elementwise, forward beside backward. */
#ifndef LS_KERNELS_ACTIVATION_H
#define LS_KERNELS_ACTIVATION_H

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* GELU as GPT-2 computes it: y = (0.5 x) (1 + tanh(c (x + 0.044715 x^3))), c = sqrt(2 / pi). n
 * values; y may be x in the forward functions, dx may be dy in the backward ones. The order of
 * operations is written in the source and part of the contract. */
#define ls_gelu_tanh_forward LS_TYPED(ls_gelu_tanh_forward)
#define ls_gelu_tanh_backward LS_TYPED(ls_gelu_tanh_backward)
LS_API void ls_gelu_tanh_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_gelu_tanh_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n);

/* GELU exactly: y = (0.5 x) (1 + erf(x / sqrt 2)). */
#define ls_gelu_erf_forward LS_TYPED(ls_gelu_erf_forward)
#define ls_gelu_erf_backward LS_TYPED(ls_gelu_erf_backward)
LS_API void ls_gelu_erf_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_gelu_erf_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n);

/* SwiGLU: y = (gate * sigmoid(gate)) * up. dgate may be dy. */
#define ls_swiglu_forward LS_TYPED(ls_swiglu_forward)
#define ls_swiglu_backward LS_TYPED(ls_swiglu_backward)
LS_API void ls_swiglu_forward(ls_real *y, const ls_real *gate, const ls_real *up, size_t n);
LS_API void ls_swiglu_backward(ls_real *dgate, ls_real *dup, const ls_real *dy, const ls_real *gate,
                               const ls_real *up, size_t n);

LS_END_DECLS

#endif
