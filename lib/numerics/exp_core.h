/* exp_core.h - e^x and e^x - 1: the arithmetic of one value.
 *
 *     x = k ln 2 + r,  |r| <= ln 2 / 2,  e^x = 2^k e^r,  e^r by a polynomial
 *
 * Written without branches and table look-ups, so that a loop over it becomes vector code: in a
 * vector every lane walks the same path anyway. Special values need no cases of their own: x is
 * held in a range whose ends already round to 0 and to infinity, and NaN passes through every
 * selection (`a < b ? b : a` keeps a NaN in a). Binary32 results are computed in binary64 and
 * rounded once. */
#ifndef LS_NUMERICS_EXP_CORE_H
#define LS_NUMERICS_EXP_CORE_H

#include "numerics/coefficients.h"
#include "numerics/double_double.h"

/* k and r of the splitting above. ln 2 is given in two parts; k times the first is exact, and so is
 * its difference from x, so that r + r_lo is x - k ln 2 up to 2^-95 k. `shifted` holds k in its low
 * bits. */
typedef struct ls_exp_split {
    double shifted, k, r, r_lo;
} ls_exp_split;

static inline ls_exp_split ls_split_exponent(double x)
{
    ls_exp_split s;
    s.shifted = x * LS_LOG2_E + LS_ROUND;
    s.k = s.shifted - LS_ROUND;
    double hi = x - s.k * LS_LN2_HI;
    double lo = s.k * LS_LN2_LO;
    s.r = hi - lo;
    s.r_lo = (hi - s.r) - lo;
    return s;
}

/* e^r - 1 for |r| <= ln 2 / 2, with a relative error of 2^-50 also when r is small. The polynomial
 * is summed in pairs, then pairs of pairs (Estrin): a chain of 4 steps instead of 8. */
static inline double ls_exp_minus_one_short(double r)
{
    const double *c = LS_EXP_SHORT;
    double r2 = r * r;
    double r4 = r2 * r2;
    double low = (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2;
    double high = (c[4] + c[5] * r) + (c[6] + c[7] * r) * r2;
    return r + r2 * (low + r4 * (high + r4 * c[8]));
}

/* Q(r) of e^r = 1 + r + r^2 / 2 + r^3 Q(r). */
static inline double ls_exp_tail_long(double r)
{
    const double *c = LS_EXP_LONG;
    double r2 = r * r;
    double r4 = r2 * r2;
    double low = (c[0] + c[1] * r) + (c[2] + c[3] * r) * r2;
    double high = (c[4] + c[5] * r) + (c[6] + c[7] * r) * r2;
    return low + r4 * (high + r4 * (c[8] + c[9] * r));
}

static inline float ls_exp_core_f32(float x)
{
    x = x < -110.0f ? -110.0f : x; /* e^-110 < 2^-150: rounds to 0     */
    x = x > 90.0f ? 90.0f : x;     /* e^90 > 2^128: rounds to infinity */
    ls_exp_split s = ls_split_exponent((double)x);
    double e = 1.0 + ls_exp_minus_one_short(s.r);
    return (float)(e * ls_power_of_two(ls_bits_of(s.shifted) + 1023));
}

static inline double ls_exp_core_f64(double x)
{
    double d = x < -760.0 ? -760.0 : x;
    d = d > 720.0 ? 720.0 : d;
    ls_exp_split s = ls_split_exponent(d);
    /* 1 + r is kept exactly; what is added to it is below 0.07, so that its rounding errors hardly
     * count. */
    ls_pair one_r = ls_fast_two_sum(1.0, s.r);
    double tail = (s.r * s.r) * (0.5 + s.r * ls_exp_tail_long(s.r));
    double e = one_r.hi + (one_r.lo + (s.r_lo * one_r.hi + tail));
    /* 2^k may not exist as a double: two factors, of which only the second can round or overflow.
     */
    uint64_t exponent = (ls_bits_of(s.shifted) + 2046) & 0xfff;
    uint64_t half = exponent >> 1;
    return e * ls_power_of_two(half) * ls_power_of_two(exponent - half);
}

/* e^x - 1 for |x| <= 30 with a relative error below 2^-49: (2^k - 1) + 2^k (e^r - 1), where 2^k - 1
 * is exact. */
static inline double ls_exp_minus_one(double x)
{
    ls_exp_split s = ls_split_exponent(x);
    double scale = ls_power_of_two(ls_bits_of(s.shifted) + 1023);
    return (scale - 1.0) + scale * ls_exp_minus_one_short(s.r);
}

/* The same for 0 <= x <= 40 as a pair, with a relative error below 2^-57. */
static inline ls_pair ls_exp_minus_one_pair(double x)
{
    ls_exp_split s = ls_split_exponent(x);
    ls_pair square = ls_two_product(s.r, s.r);
    ls_pair e = ls_fast_two_sum(s.r, 0.5 * square.hi);
    e.lo += (0.5 * square.lo + (s.r_lo + s.r_lo * s.r)) + (s.r * square.hi) * ls_exp_tail_long(s.r);
    double scale = ls_power_of_two(ls_bits_of(s.shifted) + 1023);
    ls_pair sum = ls_two_sum(scale - 1.0, scale * e.hi);
    return ls_fast_two_sum(sum.hi, sum.lo + scale * e.lo);
}

#endif
