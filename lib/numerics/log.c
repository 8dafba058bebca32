/* log.c - the natural logarithm.
 *
 *     x = 2^e m,  sqrt(1/2) <= m < sqrt 2,  log x = e ln 2 + log m
 *     f = m - 1 (exact),  s = f / (2 + f),  log m = 2 s + s^3 R(s^2)
 *
 * s is carried as a pair, so that the only rounding errors that count are the last one and those of
 * the small cubic term; near x = 1, where e is 0, the result keeps its relative precision. The
 * binary32 function rounds the binary64 result once more, which costs at most 2^-29 of a binary32
 * unit. */
#include "lockstep/numerics/functions.h"

#ifdef LS_REAL_IS_F64

#include <math.h>

#include "numerics/coefficients.h"
#include "numerics/double_double.h"

/* log m of the text above, for finite x > 0. */
static double log_positive(double x)
{
    int subnormal = x < 0x1p-1022;
    uint64_t bits = ls_bits_of(subnormal ? x * 0x1p54 : x);
    /* Subtracting the bits of sqrt(1/2) carries into the exponent field exactly when m would be too
     * small. */
    const uint64_t root_half = 0x3fe6a09e667f3bcdu;
    int64_t e = (int64_t)((bits - root_half + ((uint64_t)1023 << 52)) >> 52) - 1023;
    double k = (double)(e - (subnormal ? 54 : 0));
    double f = ls_double_of(bits - ((uint64_t)e << 52)) - 1.0;

    ls_pair d = ls_fast_two_sum(2.0, f);
    double s = f / d.hi;
    ls_pair back = ls_two_product(s, d.hi);
    double s_lo = (((f - back.hi) - back.lo) - s * d.lo) / d.hi;

    double z = s * s;
    double r = LS_LOG[7];
    r = r * z + LS_LOG[6];
    r = r * z + LS_LOG[5];
    r = r * z + LS_LOG[4];
    r = r * z + LS_LOG[3];
    r = r * z + LS_LOG[2];
    r = r * z + LS_LOG[1];
    r = r * z + LS_LOG[0];

    /* k * LS_LN2_HI is exact, and larger than 2 s whenever k is not 0. */
    ls_pair sum = ls_fast_two_sum(k * LS_LN2_HI, s + s);
    return sum.hi + (sum.lo + ((s_lo + s_lo) + ((s * z) * r + k * LS_LN2_LO)));
}

double ls_log(double x)
{
    if (x > 0.0 && x < (double)INFINITY) return log_positive(x);
    if (x == 0.0) return -(double)INFINITY;
    if (x < 0.0) return (double)NAN;
    return x; /* infinity, NaN */
}

#else

float ls_log(float x)
{
    return (float)ls_log_f64((double)x);
}

#endif
