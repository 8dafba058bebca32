/* erf_core.h - erf x: the arithmetic of one value.
 *
 * Binary32: with g(x) = -log(1 - erf x), a smooth function that is x times a polynomial on [0, 4],
 *
 *     erf x = 1 - e^-g = -(e^-g - 1)
 *
 * which has its full relative precision near 0, where g is small, and forgives errors of g far out,
 * where e^-g is small: one path without branches or tables for all x.
 *
 * Binary64: from the nearest multiple c of 1/16,
 *
 *     erf(c + t) = erf c + (2 / sqrt pi) e^(-c^2) * integral of e^(-2 c s - s^2) ds from 0 to t
 *
 * erf c and the factor come from a table, each with the 53 bits after its first 53. The integrand
 * is a power series in s whose terms follow from differentiating it: u_n+1 = (-2 c t u_n - 2 t^2
 * u_n-1) / (n + 1) at s = t. */
#ifndef LS_NUMERICS_ERF_CORE_H
#define LS_NUMERICS_ERF_CORE_H

#include "numerics/erf_table.h"
#include "numerics/exp_core.h"

static inline float ls_erf_core_f32(float x)
{
    const double *c = LS_ERF_SHORT;
    double d = (double)x;
    double a = ls_magnitude(d);
    a = a > 4.0 ? 4.0 : a; /* 1 - erf 4 < 2^-25: rounds to 1 */
    double a2 = a * a;
    double a4 = a2 * a2;
    double g0 = (c[0] + c[1] * a) + (c[2] + c[3] * a) * a2;
    double g1 = (c[4] + c[5] * a) + (c[6] + c[7] * a) * a2;
    double g2 = (c[8] + c[9] * a) + (c[10] + c[11] * a) * a2;
    double g3 = (c[12] + c[13] * a) + (c[14] + c[15] * a) * a2;
    double g4 = (c[16] + c[17] * a) + (c[18] + c[19] * a) * a2;
    double g = g0 + a4 * (g1 + a4 * (g2 + a4 * (g3 + a4 * g4)));
    double e = -ls_exp_minus_one(-(g * a));
    return (float)ls_with_sign(ls_magnitude(e), d);
}

/* The sum of u_n / (n + 1) for n from 1 to 10: what the integral over t is above 1. b = -2 c t, c2
 * = -2 t^2. */
static inline double ls_erf_series(double b, double c2)
{
    double u0 = 1.0;
    double u1 = b;
    double u2 = (b * u1 + c2 * u0) * (1.0 / 2.0);
    double u3 = (b * u2 + c2 * u1) * (1.0 / 3.0);
    double u4 = (b * u3 + c2 * u2) * (1.0 / 4.0);
    double u5 = (b * u4 + c2 * u3) * (1.0 / 5.0);
    double u6 = (b * u5 + c2 * u4) * (1.0 / 6.0);
    double u7 = (b * u6 + c2 * u5) * (1.0 / 7.0);
    double u8 = (b * u7 + c2 * u6) * (1.0 / 8.0);
    double u9 = (b * u8 + c2 * u7) * (1.0 / 9.0);
    double u10 = (b * u9 + c2 * u8) * (1.0 / 10.0);
    double sum = u10 * (1.0 / 11.0);
    sum += u9 * (1.0 / 10.0);
    sum += u8 * (1.0 / 9.0);
    sum += u7 * (1.0 / 8.0);
    sum += u6 * (1.0 / 7.0);
    sum += u5 * (1.0 / 6.0);
    sum += u4 * (1.0 / 5.0);
    sum += u3 * (1.0 / 4.0);
    sum += u2 * (1.0 / 3.0);
    sum += u1 * (1.0 / 2.0);
    return sum;
}

static inline double ls_erf_core_f64(double x)
{
    double a = ls_magnitude(x);
    double m = a < 6.0 ? a : 6.0; /* 1 - erf 6 < 2^-55; NaN goes to 6 too, the index stays inside */
    double shifted = m * 16.0 + LS_ROUND;
    const double *row = LS_ERF_TABLE[ls_bits_of(shifted) & 127];
    double c = (shifted - LS_ROUND) * (1.0 / 16.0);
    double t = m - c; /* exact */
    double s = ls_erf_series(-2.0 * (c * t), -2.0 * (t * t));
    /* Tiny values are carried 2^110 higher, out of the reach of underflow inside the product. */
    double up = a < 0x1p-60 ? 0x1p110 : 1.0;
    double down = a < 0x1p-60 ? 0x1p-110 : 1.0;
    double v = t * up;
    ls_pair p = ls_two_product(row[2], v);
    ls_pair sum = ls_two_sum(row[0], p.hi);
    double e = (sum.hi + (sum.lo + (p.lo + row[1] + (row[3] * v + p.hi * s)))) * down;
    e = x != x ? x : e;
    return ls_with_sign(ls_magnitude(e), x);
}

#endif
