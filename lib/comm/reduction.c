#include "comm/reduction.h"

#include <math.h>
#include <stdbool.h>

/* Rule 3. NaN wins; among equals, which are the same value or two zeros of different sign, the sign
 * decides. */
#define DEFINE_FLOAT(suffix, type)                                                                 \
    static type max_##suffix(type a, type b)                                                       \
    {                                                                                              \
        if (a != a) return a;                                                                      \
        if (b != b) return b;                                                                      \
        if (a == b) return signbit(a) ? b : a;                                                     \
        return a > b ? a : b;                                                                      \
    }                                                                                              \
    static type min_##suffix(type a, type b)                                                       \
    {                                                                                              \
        if (a != a) return a;                                                                      \
        if (b != b) return b;                                                                      \
        if (a == b) return signbit(a) ? a : b;                                                     \
        return a < b ? a : b;                                                                      \
    }                                                                                              \
    static void reduce_##suffix(type *restrict a, const type *restrict b, size_t n,                \
                                ls_reduction reduction)                                            \
    {                                                                                              \
        if (reduction == LS_REDUCE_MAX)                                                            \
            for (size_t i = 0; i < n; i++) a[i] = max_##suffix(a[i], b[i]);                        \
        else                                                                                       \
            for (size_t i = 0; i < n; i++) a[i] = min_##suffix(a[i], b[i]);                        \
    }

/* The sum is taken in the unsigned type of the same size: it wraps around instead of being
 * undefined. */
#define DEFINE_INTEGER(suffix, type, unsigned_type)                                                \
    static void reduce_##suffix(type *restrict a, const type *restrict b, size_t n,                \
                                ls_reduction reduction)                                            \
    {                                                                                              \
        if (reduction == LS_REDUCE_MAX)                                                            \
            for (size_t i = 0; i < n; i++) a[i] = a[i] > b[i] ? a[i] : b[i];                       \
        else if (reduction == LS_REDUCE_MIN)                                                       \
            for (size_t i = 0; i < n; i++) a[i] = a[i] < b[i] ? a[i] : b[i];                       \
        else                                                                                       \
            for (size_t i = 0; i < n; i++)                                                         \
                a[i] = (type)(unsigned_type)((unsigned_type)a[i] + (unsigned_type)b[i]);           \
    }

DEFINE_FLOAT(f32, float)
DEFINE_FLOAT(f64, double)
DEFINE_INTEGER(i32, int32_t, uint32_t)
DEFINE_INTEGER(i64, int64_t, uint64_t)
DEFINE_INTEGER(u8, uint8_t, uint8_t)

bool ls_can_reduce(ls_dtype dtype, ls_reduction reduction)
{
    bool is_float = dtype == LS_F32 || dtype == LS_F64;
    bool is_integer = dtype == LS_I32 || dtype == LS_I64 || dtype == LS_U8;
    return reduction == LS_REDUCE_SUM ? is_integer : is_integer || is_float;
}

void ls_reduce_into(void *a, const void *b, size_t n, ls_dtype dtype, ls_reduction reduction)
{
    switch (dtype) {
    case LS_F32:
        reduce_f32(a, b, n, reduction);
        break;
    case LS_F64:
        reduce_f64(a, b, n, reduction);
        break;
    case LS_I32:
        reduce_i32(a, b, n, reduction);
        break;
    case LS_I64:
        reduce_i64(a, b, n, reduction);
        break;
    case LS_U8:
        reduce_u8(a, b, n, reduction);
        break;
    case LS_F16:
    case LS_BF16:
        break; /* refused before */
    }
}
