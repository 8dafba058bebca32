/* check_format.c - formats of numbers: rounding, distances, equality.
 *
 * Values of every format are numbers of binary64, so they are compared there once they are not the
 * same bytes. Rounding to bf16 of what is a number of binary32 is done on its bits, since that is
 * what happens to whole tensors; everything else goes by the definition. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "check/check_parts.h"

/* Numbers of a format: `bits` significant ones, normal from 2^least on, up to `most`. */
typedef struct numbers {
    int bits, least;
    double most;
} numbers;

static numbers format_of(ls_dtype dtype)
{
    static const numbers f32 = {24, -126, 0x1.fffffep127}, f16 = {11, -14, 65504},
                         bf16 = {8, -126, 0x1.fep127}, f64 = {53, -1022, 0x1.fffffffffffffp1023};
    return dtype == LS_F16 ? f16 : dtype == LS_BF16 ? bf16 : dtype == LS_F64 ? f64 : f32;
}

bool ls_check_is_coarser(ls_dtype a, ls_dtype b)
{
    return format_of(a).bits < format_of(b).bits;
}

ls_dtype ls_check_coarser(ls_dtype a, ls_dtype b)
{
    return ls_check_is_coarser(a, b) ? a : b;
}

ls_status ls_check_widen(double **ret_values, ls_dtype dtype, const void *values, size_t count)
{
    ls_status status = LS_OK;
    double *wide = NULL;
    LS_ROOM(wide, count);
    ls_widen(LS_F64, wide, dtype, values, count);
    *ret_values = wide;
exit:
    return status;
}

/* ---- rounding ---- */

static double rounded(const numbers *to, double value)
{
    int exponent;
    if (value == 0 || !isfinite(value)) return value;
    (void)frexp(value, &exponent); /* value = f 2^exponent, 1/2 <= |f| < 1 */
    const int last = (exponent - 1 < to->least ? to->least : exponent - 1) - (to->bits - 1);
    const double near = ldexp(rint(ldexp(value, -last)), last);
    return fabs(near) > to->most ? copysign(HUGE_VAL, value) : near;
}

/* Of a finite number of binary32: half of the last kept bit is added, a little less where that bit
 * is even. */
static double rounded_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof bits);
    return (double)value;
}

void ls_check_round(ls_dtype dtype, double *values, size_t count)
{
    const numbers to = format_of(dtype);
    if (dtype == LS_F64) return;
    for (size_t i = 0; i < count; i++) {
        const float narrow = (float)values[i];
        if (dtype == LS_F32)
            values[i] = (double)narrow;
        else if (dtype == LS_BF16 && isfinite(narrow) && (double)narrow == values[i])
            values[i] = rounded_to_bf16(narrow);
        else
            values[i] = rounded(&to, values[i]);
    }
}

/* ---- distances ---- */

/* How many numbers of the format lie between 0 and |value|. */
static int64_t magnitude_of(ls_dtype dtype, double value)
{
    const double magnitude = fabs(value);
    const float narrow = (float)magnitude;
    int exponent;
    uint64_t wide;
    uint32_t bits;
    if (dtype == LS_F64) {
        memcpy(&wide, &magnitude, sizeof wide);
        return (int64_t)wide;
    }
    if (dtype == LS_F16) {
        if (isinf(magnitude)) return 0x7c00;
        if (magnitude < 0x1p-14) return (int64_t)(magnitude * 0x1p24);
        const double fraction = frexp(magnitude, &exponent);
        return ((int64_t)(exponent + 14) << 10) + (int64_t)((2 * fraction - 1) * 1024);
    }
    memcpy(&bits, &narrow, sizeof bits);
    return dtype == LS_BF16 ? bits >> 16 : bits;
}

uint64_t ls_check_ulps(ls_dtype dtype, double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    const int64_t x = magnitude_of(dtype, a), y = magnitude_of(dtype, b);
    if ((signbit(a) != 0) != (signbit(b) != 0)) return (uint64_t)x + (uint64_t)y + 1;
    return (uint64_t)(x > y ? x - y : y - x);
}

/* ---- what a tensor's values are ---- */

/* The exponents of a number's first and last set bit, taken into account. */
static void note_bits(float value, int *first, int *last)
{
    int exponent;
    uint32_t digits = (uint32_t)(fabsf(frexpf(value, &exponent)) * 0x1p24f); /* 24 bits */
    int end = exponent - 24;
    for (; !(digits & 1u); digits >>= 1) end++;
    if (exponent > *first) *first = exponent;
    if (end < *last) *last = end;
}

ls_check_formats ls_check_inspect(ls_dtype dtype, const void *values, size_t count)
{
    const unsigned char *at = values;
    const bool wide = dtype == LS_F64, any = wide || dtype == LS_F32;
    ls_check_formats all = {wide, any, any, 0, 0};
    int first = INT_MIN, last = INT_MAX; /* exponents of bits */
    for (size_t i = 0; i < count && (all.f32 || all.bf16 || all.f16); i++) {
        uint32_t bits;
        float value;
        if (wide) {
            double whole;
            memcpy(&whole, at + i * sizeof whole, sizeof whole);
            value = (float)whole;
            if (!isnan(whole) && (double)value != whole) all.f32 = all.bf16 = all.f16 = false;
        } else {
            memcpy(&value, at + i * sizeof value, sizeof value);
        }
        memcpy(&bits, &value, sizeof bits);
        if ((bits & 0x007fffffu) != 0 && isfinite(value)) all.telling++;
        if (isfinite(value) && value != 0) note_bits(value, &first, &last);
        if ((bits & 0xffffu) != 0) all.bf16 = false;
        if (!all.f16 || value == 0 || !isfinite(value)) continue;
        const double scaled = fabs((double)value) * 0x1p24;
        all.f16 = scaled < 0x1p10 ? rint(scaled) == scaled
                                  : (bits & 0x1fffu) == 0 && fabs((double)value) <= 65504;
    }
    if (first > last) all.bits = first - last;
    return all;
}

/* ---- equality ---- */

void ls_check_one_zero(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] == 0) values[i] = 0;
}

enum { CHUNK = 1024 };

/* Pieces of a golden tensor in binary32 against one of 16 bits, on integers, so that they are as
 * fast as memory is. Each counts differences: loops without a way out are done several at a time.
 */
static uint32_t differ_bf16(const uint32_t *golden, const uint16_t *mine, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = golden[i], half = mine[i];
        const uint32_t near = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        const uint32_t nan = (bits & 0x7fffffffu) > 0x7f800000u;
        count += nan ? (half & 0x7fffu) <= 0x7f80u : near != half;
    }
    return count;
}

/* binary16 counts in steps of 2^-24 below 2^-14: the last bit of numbers from 1/2 to 1, so that
 * adding 1/2 rounds there. Above, the exponent's bias is 112 less; half of the last kept bit is
 * added, and what carries over 65504 is infinity. */
static uint32_t differ_f16(const uint32_t *golden, const uint16_t *mine, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = golden[i] & 0x7fffffffu, half = mine[i];
        uint32_t small, near;
        float value;
        memcpy(&value, &bits, sizeof value);
        value += 0.5f;
        memcpy(&small, &value, sizeof small);
        near = (bits - 0x38000000u + 0xfffu + ((bits >> 13) & 1u)) >> 13;
        near = bits < 0x38800000u ? small - 0x3f000000u : bits >= 0x47800000u ? 0x7c00u : near;
        near |= (golden[i] >> 16) & 0x8000u;
        const uint32_t nan = bits > 0x7f800000u;
        count += nan ? (half & 0x7fffu) <= 0x7c00u : near != half;
    }
    return count;
}

static uint32_t differ_f64(const float *golden, const double *mine, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const double value = (double)golden[i];
        uint64_t x, y;
        memcpy(&x, &value, sizeof x);
        memcpy(&y, &mine[i], sizeof y);
        count += value != value ? mine[i] == mine[i] : x != y;
    }
    return count;
}

static uint32_t differ_anyhow(const double *golden, const double *mine, size_t n)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t x, y;
        memcpy(&x, &golden[i], sizeof x);
        memcpy(&y, &mine[i], sizeof y);
        count += golden[i] != golden[i] ? mine[i] == mine[i] : x != y;
    }
    return count;
}

typedef union chunk {
    double wide[CHUNK];
    float narrow[CHUNK];
    uint32_t bits[CHUNK];
    uint16_t half[CHUNK];
} chunk;

bool ls_check_equal(ls_dtype golden_dtype, const void *golden, ls_dtype dtype, ls_dtype format,
                    const void *values, size_t count, bool one_zero)
{
    chunk right, mine;
    const size_t step = ls_dtype_bytes(golden_dtype), other = ls_dtype_bytes(dtype);
    const bool plain = golden_dtype == LS_F32 && dtype == format && dtype != LS_F32 && !one_zero;
    if (dtype == golden_dtype && memcmp(golden, values, count * step) == 0) return true;
    for (size_t done = 0; done < count; done += CHUNK) {
        const size_t n = count - done < CHUNK ? count - done : CHUNK;
        const unsigned char *from = (const unsigned char *)golden + done * step;
        const unsigned char *to = (const unsigned char *)values + done * other;
        uint32_t differing;
        if (plain) { /* what has any alignment has ours then */
            memcpy(&right, from, n * step);
            memcpy(&mine, to, n * other);
            differing = dtype == LS_BF16  ? differ_bf16(right.bits, mine.half, n)
                        : dtype == LS_F16 ? differ_f16(right.bits, mine.half, n)
                                          : differ_f64(right.narrow, mine.wide, n);
        } else {
            ls_widen(LS_F64, right.wide, golden_dtype, from, n);
            ls_widen(LS_F64, mine.wide, dtype, to, n);
            if (one_zero) ls_check_one_zero(mine.wide, n);
            if (ls_check_is_coarser(format, golden_dtype)) ls_check_round(format, right.wide, n);
            differing = differ_anyhow(right.wide, mine.wide, n);
        }
        if (differing > 0) return false;
    }
    return true;
}
