/* double_double.h - the bits of a double, and sums of two doubles.
 *
 * Everything here is a fixed sequence of rounded additions and multiplications in binary64. There
 * is no fused multiply-add: where the CPU has none, one costs a hundred times as much as a product,
 * and the functions must give the same bits everywhere. */
#ifndef LS_NUMERICS_DOUBLE_DOUBLE_H
#define LS_NUMERICS_DOUBLE_DOUBLE_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "Lockstep needs arithmetic without excess precision (x87 is not supported)"
#endif

static inline uint64_t ls_bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ls_double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define LS_SIGN_BIT 0x8000000000000000u

static inline double ls_magnitude(double x)
{
    return ls_double_of(ls_bits_of(x) & ~LS_SIGN_BIT);
}

/* The magnitude of x >= 0 with the sign of `sign`. */
static inline double ls_with_sign(double x, double sign)
{
    return ls_double_of(ls_bits_of(x) | (ls_bits_of(sign) & LS_SIGN_BIT));
}

/* x + LS_ROUND rounds x to an integer k, |k| < 2^51, whose two's complement then stands in the low
 * bits of the sum; subtracting LS_ROUND gives k as a double. */
#define LS_ROUND 0x1.8p52

/* 2^k, where k + 1023 >= 1 stands in the low 11 bits of `exponent` and bit 11 is zero. */
static inline double ls_power_of_two(uint64_t exponent)
{
    return ls_double_of(exponent << 52);
}

/* The unevaluated sum hi + lo, |lo| at most half a unit in the last place of hi. */
typedef struct ls_pair {
    double hi, lo;
} ls_pair;

/* a + b exactly, for |a| >= |b| or a = 0 (Dekker). */
static inline ls_pair ls_fast_two_sum(double a, double b)
{
    ls_pair sum;
    sum.hi = a + b;
    sum.lo = b - (sum.hi - a);
    return sum;
}

/* a + b exactly (Knuth). */
static inline ls_pair ls_two_sum(double a, double b)
{
    ls_pair sum;
    sum.hi = a + b;
    double b_part = sum.hi - a;
    double a_part = sum.hi - b_part;
    sum.lo = (a - a_part) + (b - b_part);
    return sum;
}

/* a b exactly (Dekker; each factor is cut into halves of 26 bits by Veltkamp's constant 2^27 + 1),
 * unless a part falls below 2^-1022 or a factor is above 2^995. */
static inline ls_pair ls_two_product(double a, double b)
{
    double a_scaled = a * 134217729.0;
    double a_hi = a_scaled - (a_scaled - a);
    double a_lo = a - a_hi;
    double b_scaled = b * 134217729.0;
    double b_hi = b_scaled - (b_scaled - b);
    double b_lo = b - b_hi;
    ls_pair product;
    product.hi = a * b;
    product.lo = ((a_hi * b_hi - product.hi) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo;
    return product;
}

#endif
