/* ulps.h - distance in units in the last place, counted on the bits.
 *
 * Turning the bits of the negative numbers over puts all numbers in order on the integers, -0 just
 * below +0; the distance is then the difference of two integers. */
#ifndef LS_NUMERICS_ULPS_H
#define LS_NUMERICS_ULPS_H

#include <stdint.h>
#include <string.h>

static inline uint64_t ls_distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

static inline uint64_t ls_ulps_between_f32(float left, float right)
{
    uint32_t a, b;
    memcpy(&a, &left, sizeof a);
    memcpy(&b, &right, sizeof b);
    int left_nan = left != left, right_nan = right != right;
    if (left_nan || right_nan) return left_nan && right_nan ? 0 : UINT64_MAX;
    const uint32_t sign = 0x80000000u;
    return ls_distance(a & sign ? ~a : a | sign, b & sign ? ~b : b | sign);
}

static inline uint64_t ls_ulps_between_f64(double left, double right)
{
    uint64_t a, b;
    memcpy(&a, &left, sizeof a);
    memcpy(&b, &right, sizeof b);
    int left_nan = left != left, right_nan = right != right;
    if (left_nan || right_nan) return left_nan && right_nan ? 0 : UINT64_MAX;
    const uint64_t sign = 0x8000000000000000u;
    return ls_distance(a & sign ? ~a : a | sign, b & sign ? ~b : b | sign);
}

#endif
