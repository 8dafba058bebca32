/* size.h - sizes that come from a caller: products and sums that do not wrap.
 *
 * What does not fit becomes LS_SIZE_NONE and stays so through further factors (other than 0) and
 * terms: a formula is written as it is read and checked once, at its end. No array has more bytes
 * than LS_SIZE_MOST: differences of its addresses would not fit. */
#ifndef LS_BASE_SIZE_H
#define LS_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts of bytes, hashes and packed numbers are 64 bits wide all over the library. */
_Static_assert(sizeof(size_t) == 8 && sizeof(void *) == 8, "Lockstep needs a 64-bit system");

#define LS_SIZE_NONE SIZE_MAX
#define LS_SIZE_MOST ((size_t)PTRDIFF_MAX)

static inline size_t ls_size_multiply(const size_t *factors, size_t n)
{
    size_t product = 1;
    bool fits = true;
    for (size_t i = 0; i < n; i++) {
        if (factors[i] == 0) return 0;
        if (__builtin_mul_overflow(product, factors[i], &product)) fits = false;
    }
    return fits ? product : LS_SIZE_NONE;
}

/* ls_size_product(a, b, ...): the product, LS_SIZE_NONE when it does not fit. */
#define ls_size_product(...)                                                                       \
    ls_size_multiply((const size_t[]){__VA_ARGS__},                                                \
                     sizeof((const size_t[]){__VA_ARGS__}) / sizeof(size_t))

/* a + b, LS_SIZE_NONE when it does not fit. */
static inline size_t ls_size_plus(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? LS_SIZE_NONE : a + b;
}

#endif
