/* trigonometry.c - sine and cosine.
 *
 *     x = n pi / 2 + r,  |r| <= pi / 4,  n modulo 4 says which of sin r, cos r, -sin r, -cos r
 *
 * r is a pair. Up to 2^20 it comes from x by subtracting n times pi / 2 in four parts; beyond, from
 * the product of x's integer significand with those bits of 2 / pi that decide (Payne and Hanek),
 * in integers, the same for every x up to the largest. No binary64 number other than 0 comes nearer
 * to a multiple of pi / 2 than about 2^-61, so both ways leave more than 60 correct bits. The
 * binary32 functions round the binary64 result once more. */
#include "lockstep/numerics/functions.h"

#ifdef LS_REAL_IS_F64

#include <math.h>

#include "numerics/coefficients.h"
#include "numerics/double_double.h"

typedef struct angle {
    unsigned quadrant; /* n modulo 4 */
    ls_pair r;
} angle;

/* |x| < 2^20, so |n| < 2^20: its products with the three first parts of 32 bits are exact. */
static angle reduce_small(double x)
{
    double shifted = x * LS_TWO_OVER_PI + LS_ROUND;
    double n = shifted - LS_ROUND;
    double first =
        x - n * LS_PIO2_1; /* exact: both are multiples of x's last place, and near each other */
    ls_pair second = ls_two_sum(first, -(n * LS_PIO2_2));
    ls_pair third = ls_two_sum(second.hi, -(n * LS_PIO2_3));
    ls_pair low = ls_two_sum(second.lo, third.lo);
    ls_pair r = ls_two_sum(third.hi, low.hi);
    r = ls_fast_two_sum(r.hi, r.lo + (low.lo - n * LS_PIO2_4));
    angle a = {(unsigned)(ls_bits_of(shifted) & 3), r};
    return a;
}

/* product = m * w modulo 2^192, in words of 64 bits, least significant first; m < 2^53. */
static void multiply_192(uint64_t product[3], const uint64_t w[3], uint64_t m)
{
    const uint64_t low = 0xffffffffu;
    uint32_t limbs[6] = {0};
    for (int j = 0; j < 2; j++) {
        uint64_t factor = (m >> (32 * j)) & low;
        uint64_t carry = 0;
        for (int i = 0; i + j < 6; i++) {
            uint64_t limb = (w[i / 2] >> (32 * (i % 2))) & low;
            uint64_t t = factor * limb + limbs[i + j] + carry; /* at most 2^64 - 1 */
            limbs[i + j] = (uint32_t)(t & low);
            carry = t >> 32;
        }
    }
    for (int i = 0; i < 3; i++) product[i] = limbs[2 * i] | (uint64_t)limbs[2 * i + 1] << 32;
}

/* 2^20 <= |x| < infinity. |x| = m 2^e with an integer m < 2^53. Bits of 2 / pi that weigh 4 / 2^e
 * or more give multiples of 4 and are left out; the next 192 give |x| 2 / pi modulo 4 = (m w modulo
 * 2^192) 2^-190, off by less than 2^-137. */
static angle reduce_large(double x)
{
    uint64_t bits = ls_bits_of(ls_magnitude(x));
    int e = (int)(bits >> 52) - 1075;
    uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    unsigned start =
        (unsigned)(e - 2 + 64); /* the table has 64 zeros before the first bit; e >= -32 */
    const uint64_t *words = LS_TWO_OVER_PI_BITS + start / 64;
    unsigned shift = start % 64;
    uint64_t w[3];
    for (int i = 0; i < 3; i++) {
        uint64_t spill = shift > 0 ? words[i + 1] >> (64 - shift) : 0;
        w[2 - i] = words[i] << shift | spill;
    }
    uint64_t p[3];
    multiply_192(p, w, m);

    /* The two top bits are the quadrant; the rest is a fraction, taken to the nearest quadrant:
     * from 1/2 on it is the next quadrant less the complement. */
    unsigned quadrant = (unsigned)(p[2] >> 62);
    p[2] &= 0x3fffffffffffffffu;
    int negative = (p[2] >> 61) != 0;
    if (negative) {
        quadrant++;
        for (int i = 0; i < 3; i++) p[i] = ~p[i]; /* less 2^-190, which does not count */
        p[2] &= 0x3fffffffffffffffu;
    }
    ls_pair f = {0.0, 0.0};
    double unit = 0x1p-30; /* of the top 32 of the 192 bits */
    for (int i = 5; i >= 0; i--) {
        double piece = (double)((p[i / 2] >> (32 * (i % 2))) & 0xffffffffu) * unit;
        ls_pair sum = ls_two_sum(f.hi, piece);
        f.hi = sum.hi;
        f.lo += sum.lo;
        unit *= 0x1p-32;
    }
    f = ls_fast_two_sum(f.hi, f.lo);
    ls_pair r = ls_two_product(f.hi, LS_PIO2_HI);
    r = ls_fast_two_sum(r.hi, r.lo + (f.hi * LS_PIO2_LO + f.lo * LS_PIO2_HI));

    /* sin(-y) = -sin y, cos(-y) = cos y, also by quadrants: -n takes the place of n. */
    if (negative) r = (ls_pair){-r.hi, -r.lo};
    if (x < 0.0) {
        quadrant = 4 - quadrant;
        r = (ls_pair){-r.hi, -r.lo};
    }
    angle a = {quadrant & 3, r};
    return a;
}

static angle reduce(double x)
{
    return ls_magnitude(x) < 0x1p20 ? reduce_small(x) : reduce_large(x);
}

/* sin(r + lo) = r + (r^3 S(r^2) + lo cos r), cos r taken as 1 - r^2 / 2. */
static double sin_of(ls_pair r)
{
    double z = r.hi * r.hi;
    double s = LS_SIN[6];
    s = s * z + LS_SIN[5];
    s = s * z + LS_SIN[4];
    s = s * z + LS_SIN[3];
    s = s * z + LS_SIN[2];
    s = s * z + LS_SIN[1];
    s = s * z + LS_SIN[0];
    return r.hi + ((r.hi * z) * s + r.lo * (1.0 - 0.5 * z));
}

/* cos(r + lo) = 1 - r^2 / 2 + (r^4 C(r^2) - lo r), the first two terms and their difference exact.
 */
static double cos_of(ls_pair r)
{
    ls_pair square = ls_two_product(r.hi, r.hi);
    double z = square.hi;
    double c = LS_COS[6];
    c = c * z + LS_COS[5];
    c = c * z + LS_COS[4];
    c = c * z + LS_COS[3];
    c = c * z + LS_COS[2];
    c = c * z + LS_COS[1];
    c = c * z + LS_COS[0];
    ls_pair one = ls_fast_two_sum(1.0, -0.5 * z);
    return one.hi + (one.lo + ((z * z) * c - (0.5 * square.lo + r.lo * r.hi)));
}

static double of_quadrant(unsigned quadrant, ls_pair r)
{
    double value = quadrant & 1 ? cos_of(r) : sin_of(r);
    return quadrant & 2 ? -value : value;
}

double ls_sin(double x)
{
    double a = ls_magnitude(x);
    if (!(a < (double)INFINITY)) return (double)NAN;
    if (a < 0x1p-27) return x; /* sin x = x (1 - x^2 / 6): the rounded value is x; keeps -0 */
    angle y = reduce(x);
    return of_quadrant(y.quadrant, y.r);
}

double ls_cos(double x)
{
    if (!(ls_magnitude(x) < (double)INFINITY)) return (double)NAN;
    angle y = reduce(x);
    return of_quadrant(y.quadrant + 1, y.r);
}

#else

float ls_sin(float x)
{
    return (float)ls_sin_f64((double)x);
}

float ls_cos(float x)
{
    return (float)ls_cos_f64((double)x);
}

#endif
