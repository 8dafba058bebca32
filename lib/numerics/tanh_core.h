/* tanh_core.h - tanh x = E / (E + 2) with E = e^(2|x|) - 1: the arithmetic of one value.
 *
 * E carries its full relative precision down to the smallest x, so that one formula serves all of
 * them. */
#ifndef LS_NUMERICS_TANH_CORE_H
#define LS_NUMERICS_TANH_CORE_H

#include "numerics/exp_core.h"

static inline float ls_tanh_core_f32(float x)
{
    double d = (double)x;
    double a = ls_magnitude(d);
    a = a > 10.0 ? 10.0 : a; /* 1 - tanh 10 < 2^-27: rounds to 1 */
    double e = ls_exp_minus_one(a + a);
    return (float)ls_with_sign(e / (e + 2.0), d);
}

static inline double ls_tanh_core_f64(double x)
{
    double a = ls_magnitude(x);
    double c = a > 20.0 ? 20.0 : a; /* 1 - tanh 20 < 2^-56 */
    ls_pair e = ls_exp_minus_one_pair(c + c);
    ls_pair d = ls_two_sum(2.0, e.hi);
    d.lo += e.lo;
    /* The quotient, then what the first quotient leaves over, divided again. */
    double q = e.hi / d.hi;
    ls_pair back = ls_two_product(q, d.hi);
    double rest = ((e.hi - back.hi) - back.lo) + (e.lo - q * d.lo);
    double t = q + rest / d.hi;
    /* Below 2^-28 the rounded value is x itself, and the products above may fall below the range.
     */
    t = a < 0x1p-28 ? a : t;
    return ls_with_sign(t, x);
}

#endif
