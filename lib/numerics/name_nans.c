/* name_nans.c - any NaN becomes the one that the contract names. */
#include "numerics/name_nans.h"

#include <string.h>

/* A format by its bits: a number whose bits without the sign are above `infinity` is a NaN. */
typedef struct format {
    size_t bytes;
    uint64_t magnitude, infinity, name;
} format;

static format format_of(ls_dtype dtype)
{
    switch (dtype) {
    case LS_F32:
        return (format){4, 0x7fffffffu, 0x7f800000u, 0x7fc00000u};
    case LS_F64:
        return (format){8, 0x7fffffffffffffffu, 0x7ff0000000000000u, 0x7ff8000000000000u};
    case LS_F16:
        return (format){2, 0x7fffu, 0x7c00u, 0x7e00u};
    case LS_BF16:
        return (format){2, 0x7fffu, 0x7f80u, 0x7fc0u};
    case LS_I32:
    case LS_I64:
    case LS_U8:
        break;
    }
    return (format){0, 0, 0, 0};
}

/* One element, as a number of the machine's byte order. */
static uint64_t bits_at(const unsigned char *at, size_t bytes)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;
    switch (bytes) {
    case 2:
        memcpy(&two, at, 2);
        return two;
    case 4:
        memcpy(&four, at, 4);
        return four;
    default:
        memcpy(&eight, at, 8);
        return eight;
    }
}

static void put_bits(unsigned char *at, size_t bytes, uint64_t bits)
{
    const uint16_t two = (uint16_t)bits;
    const uint32_t four = (uint32_t)bits;
    memcpy(at, bytes == 2 ? (const void *)&two : bytes == 4 ? (const void *)&four : &bits, bytes);
}

/* The first element from `from` on that is a NaN of another name; count when there is none. */
static size_t next_other(format f, const unsigned char *values, size_t from, size_t count)
{
    size_t i = from;
    for (; i < count; i++) {
        const uint64_t bits = bits_at(values + i * f.bytes, f.bytes);
        if ((bits & f.magnitude) > f.infinity && bits != f.name) break;
    }
    return i;
}

int ls_has_other_nans(ls_dtype dtype, const void *values, size_t count)
{
    const format f = format_of(dtype);
    return f.bytes > 0 && next_other(f, values, 0, count) < count;
}

void ls_name_nans(ls_dtype dtype, void *values, size_t count)
{
    const format f = format_of(dtype);
    unsigned char *bytes = values;
    if (f.bytes == 0) return;
    for (size_t i = 0; (i = next_other(f, bytes, i, count)) < count;)
        put_bits(bytes + i * f.bytes, f.bytes, f.name);
}
