/* tree_reference.h - the tree written down once more, straight from its definition and with nothing
 * shared with lib/: the expectation of the tests in this folder. */
#ifndef LS_TEST_TREE_REFERENCE_H
#define LS_TEST_TREE_REFERENCE_H

#include <stddef.h>

#include "lockstep/base/real.h"

/* T(n) of x[0], x[1], ...: halves when n is even, else the largest power of two below n and the
 * rest. */
static inline ls_real reference_tree(const ls_real *x, size_t n)
{
    if (n == 0) return (ls_real)0;
    if (n == 1) return x[0];
    size_t left = n / 2;
    if (n % 2 == 1) {
        left = 1;
        while (2 * left < n) left = 2 * left;
    }
    ls_real first = reference_tree(x, left);
    ls_real second = reference_tree(x + left, n - left);
    return first + second;
}

/* Reproducible numbers of mixed sign and size in (-4, 4), none of them exact in a few bits. */
static inline ls_real reference_noise(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    double u = (double)(*state >> 11) / 9007199254740992.0;
    return (ls_real)((u - 0.5) * ((*state >> 5 & 7) == 0 ? 8.0 : 2.0));
}

static inline void reference_fill(ls_real *x, size_t n, uint64_t seed)
{
    uint64_t state = seed * 7919 + 17;
    for (size_t i = 0; i < 4; i++) (void)reference_noise(&state);
    for (size_t i = 0; i < n; i++) x[i] = reference_noise(&state);
}

#endif
