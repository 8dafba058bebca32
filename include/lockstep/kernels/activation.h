/* activation.h - GELU in both forms, SwiGLU, tanh, ReLU; elementwise, forward and backward. */
#ifndef LS_KERNELS_ACTIVATION_H
#define LS_KERNELS_ACTIVATION_H

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* GELU as GPT-2 computes it. n values; y may be x, dx may be dy.
 *
 *     y  = (0.5 x) (1 + t)                  t = tanh(c (x + 0.044715 ((x x) x))), c = sqrt(2 / pi)
 *     dx = dy (0.5 (1 + t) + (1 - t t) ((0.5 x) (c (1 + 0.134145 (x x)))))
 *
 * The order of the operations is part of the contract. Where 1 + t or 1 - t t is 0 its product is
 * -0, also if the other factor is infinite: far from zero y is x or -0, dx is dy or 0, no NaN. */
#define ls_gelu_tanh_forward LS_TYPED(ls_gelu_tanh_forward)
#define ls_gelu_tanh_backward LS_TYPED(ls_gelu_tanh_backward)
LS_API void ls_gelu_tanh_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_gelu_tanh_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n);

/* GELU exactly; the rest as above, with 1 + e and the density in place of 1 + t and 1 - t t.
 *
 *     y  = (0.5 x) (1 + e)                                  e = erf(x r), r = 1 / sqrt 2 rounded
 *     dx = dy (0.5 (1 + e) + (exp(-(0.5 (x x))) d) x)       d = 1 / sqrt(2 pi) rounded */
#define ls_gelu_erf_forward LS_TYPED(ls_gelu_erf_forward)
#define ls_gelu_erf_backward LS_TYPED(ls_gelu_erf_backward)
LS_API void ls_gelu_erf_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_gelu_erf_backward(ls_real *dx, const ls_real *dy, const ls_real *x, size_t n);

/* SwiGLU. y may be gate or up; dgate may be dy; dup overlaps nothing.
 *
 *     y     = (gate sigmoid(gate)) up
 *     dup   = dy (gate sigmoid(gate))
 *     dgate = (dy up) (sigmoid(gate) + gate sigmoid'(gate))
 *
 * With e = exp(-|x|) and r = 1 / (1 + e), sigmoid(x) is r from 0 on and e r below, sigmoid'(x) is
 * (e r) r; where they are 0 the product with gate is -0, also for an infinite gate. */
#define ls_swiglu_forward LS_TYPED(ls_swiglu_forward)
#define ls_swiglu_backward LS_TYPED(ls_swiglu_backward)
LS_API void ls_swiglu_forward(ls_real *y, const ls_real *gate, const ls_real *up, size_t n);
LS_API void ls_swiglu_backward(ls_real *dgate, ls_real *dup, const ls_real *dy, const ls_real *gate,
                               const ls_real *up, size_t n);

/* tanh, as in BERT's pooler. n values; y may be x, dx may be dy.
 *
 *     y  = tanh(x)
 *     dx = dy (1 - y y)                  from the result y, not from x */
#define ls_tanh_forward LS_TYPED(ls_tanh_forward)
#define ls_tanh_backward LS_TYPED(ls_tanh_backward)
LS_API void ls_tanh_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_tanh_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n);

/* ReLU. n values; y may be x, dx may be dy.
 *
 *     y  = +0 where x <= 0 (-0 too), else x: a NaN comes through
 *     dx = +0 where y <= 0, else dy     from the result y, not from x; a choice, not a product */
#define ls_relu_forward LS_TYPED(ls_relu_forward)
#define ls_relu_backward LS_TYPED(ls_relu_backward)
LS_API void ls_relu_forward(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_relu_backward(ls_real *dx, const ls_real *dy, const ls_real *y, size_t n);

LS_END_DECLS

#endif
