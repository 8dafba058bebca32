#include "lockstep/base/widen.h"

#include <string.h>

bool ls_widens(ls_dtype from, ls_dtype to)
{
    if (to == LS_F64 && from == LS_F64) return true;
    return (to == LS_F32 || to == LS_F64) && (from == LS_F32 || from == LS_F16 || from == LS_BF16);
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE-754 binary16: 1 sign, 5 exponent, 10 fraction bits. binary32 has 8 and 23, so that the
 * exponent's bias grows by 112 and the fraction by 13 zeros. */
static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest < 0x0400u) { /* subnormal: the fraction times 2^-24, a normal number in binary32 */
        float value = (float)rest * 0x1p-24f;
        return sign ? -value : value;
    }
    if (rest >= 0x7c00u) return float_of_bits(sign | 0x7f800000u | (rest & 0x03ffu) << 13);
    return float_of_bits(sign | ((rest << 13) + (112u << 23)));
}

void ls_widen(ls_dtype to, void *ret_values, ls_dtype from, const void *values, size_t count)
{
    const unsigned char *source = values;
    const size_t bytes = ls_dtype_bytes(from);
    if (from == to) {
        memcpy(ret_values, values, count * bytes);
        return;
    }
    for (size_t i = 0; i < count; i++, source += bytes) {
        uint16_t half;
        float value;
        if (from == LS_F32) {
            memcpy(&value, source, sizeof value);
        } else {
            memcpy(&half, source, sizeof half);
            value = from == LS_F16 ? float_of_half(half) : float_of_bits((uint32_t)half << 16);
        }
        if (to == LS_F32)
            ((float *)ret_values)[i] = value;
        else
            ((double *)ret_values)[i] = (double)value;
    }
}
