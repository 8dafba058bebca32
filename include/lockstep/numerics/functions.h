/* functions.h - exp, log, tanh, erf, sin, cos, rsqrt (contract rule 2).
 *
 * Fixed sequences of IEEE operations, at most 1 ULP from the correctly rounded value, the same bits
 * on every machine, compiler and instruction set. No transcendental of the C library is on the
 * numeric path. */
#ifndef LS_NUMERICS_FUNCTIONS_H
#define LS_NUMERICS_FUNCTIONS_H

#include <stddef.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

/* One value. NaN gives NaN; infinities and overflow as in C (exp(-inf) = 0, log(0) = -inf, log(<0)
 * = NaN). */
#define ls_exp LS_TYPED(ls_exp)
#define ls_log LS_TYPED(ls_log)
#define ls_tanh LS_TYPED(ls_tanh)
#define ls_erf LS_TYPED(ls_erf)
#define ls_sin LS_TYPED(ls_sin)
#define ls_cos LS_TYPED(ls_cos)
#define ls_rsqrt LS_TYPED(ls_rsqrt)
LS_API ls_real ls_exp(ls_real x);
LS_API ls_real ls_log(ls_real x);
LS_API ls_real ls_tanh(ls_real x);
LS_API ls_real ls_erf(ls_real x);
LS_API ls_real ls_sin(ls_real x);
LS_API ls_real ls_cos(ls_real x);
LS_API ls_real ls_rsqrt(ls_real x); /* 1 / sqrt(x): one rounded square root, one rounded division */

/* The binary64 functions under their own names, for code that needs them whatever ls_real is:
 * rotary angles, schedules, random numbers. */
LS_API double ls_exp_f64(double x);
LS_API double ls_log_f64(double x);
LS_API double ls_sin_f64(double x);
LS_API double ls_cos_f64(double x);

/* The same of n values: y[i] = f(x[i]), the bits of the scalar call, at the speed of the
 * instruction set. y may be x. */
#define ls_exp_n LS_TYPED(ls_exp_n)
#define ls_tanh_n LS_TYPED(ls_tanh_n)
#define ls_erf_n LS_TYPED(ls_erf_n)
LS_API void ls_exp_n(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_tanh_n(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_erf_n(ls_real *y, const ls_real *x, size_t n);
LS_API void ls_exp_n_f64(double *y, const double *x, size_t n);

/* x to the power n in binary64 by repeated squaring: r = 1; for each bit of n, lowest first: if set
 * r = r * x; x = x * x. */
LS_API double ls_power(double x, uint64_t n);

LS_END_DECLS

#endif
