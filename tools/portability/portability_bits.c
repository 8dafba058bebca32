/* portability_bits.c - results of the numerics room as bytes on stdout, for portability.py.
 *
 * Compiled for binary32 or binary64. Each operation's name goes to stderr with the number of
 * values, the values, NaNs made equal, to stdout in little-endian order. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/isa.h"
#include "lockstep/numerics/random.h"
#include "lockstep/numerics/row_sum.h"
#include "lockstep/numerics/tree.h"

enum { N = 20000 };

static ls_real x[N], y[N], z[N];

static void put(const ls_real *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ls_real v = values[i];
        uint64_t bits = 0;
#ifdef LS_REAL_IS_F64
        memcpy(&bits, &v, 8);
        if (v != v) bits = 0x7ff8000000000000u;
#else
        uint32_t bits32;
        memcpy(&bits32, &v, 4);
        bits = v != v ? 0x7fc00000u : bits32;
#endif
        for (size_t b = 0; b < sizeof v; b++) putchar((int)(bits >> (8 * b) & 255));
    }
}

/* Half random bit patterns, half between -12 and 12. */
static void fill(ls_real *a, size_t n, uint32_t which)
{
    ls_stream stream = {7, LS_RANDOM_TEST, which, 0};
    for (uint64_t i = 0; i < n; i++) {
        uint32_t w[4];
        ls_random_words(stream, i, w);
        a[i] = (ls_real)(24.0 * ls_random_uniform(stream, i) - 12.0);
        if (i % 2 == 0) memcpy(&a[i], w, sizeof a[i]);
    }
}

static void fill_normal(ls_real *a, size_t n, uint32_t which)
{
    ls_stream stream = {8, LS_RANDOM_TEST, which, 0};
    for (uint64_t i = 0; i < n; i++) a[i] = (ls_real)ls_random_normal(stream, i);
}

static void functions(void)
{
    ls_real (*const one[])(ls_real) = {ls_exp, ls_log, ls_tanh, ls_erf, ls_sin, ls_cos, ls_rsqrt};
    for (uint32_t k = 0; k < sizeof one / sizeof one[0]; k++) {
        fill(x, N, k);
        for (size_t i = 0; i < N; i++) y[i] = one[k](x[i]);
        put(y, N);
    }
    void (*const array[])(ls_real *, const ls_real *, size_t) = {ls_exp_n, ls_tanh_n, ls_erf_n};
    for (uint32_t k = 0; k < sizeof array / sizeof array[0]; k++) {
        fill(x, N, 20 + k);
        array[k](y, x, N);
        put(y, N);
    }
}

static void sums(void)
{
    fill_normal(x, N, 1);
    fill_normal(y, N, 2);
    for (size_t n = 0; n < 300; n += 7) {
        ls_real r[4] = {ls_row_sum(x, n), ls_row_dot(x, y, n), ls_row_squares(x, y[n], n),
                        ls_tree_sum(x, n, 1)};
        put(r, 4);
    }
    ls_tree_sum_rows(z, x, ls_axis_of(6, 11), 37, 41);
    put(z, 37);
    ls_tree_dot_rows(z, x, 41, y, 43, ls_axis_of(5, 13), 39);
    put(z, 39);
}

static int products(void)
{
    static const struct {
        ls_axis m, n, k;
    } shapes[] = {{{1, 7}, {1, 13}, {1, 5}},
                  {{3, 5}, {2, 17}, {4, 19}},
                  {{1, 33}, {1, 40}, {1, 300}},
                  {{2, 8}, {12, 4}, {3, 64}}};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const ls_axis m = shapes[s].m, n = shapes[s].n, k = shapes[s].k;
        const size_t rows = ls_axis_extent(m), cols = ls_axis_extent(n), depth = ls_axis_extent(k);
        fill_normal(x, rows * depth, 3);
        fill_normal(y, cols * depth, 4);
        for (int t = 0; t < 4; t++) {
            const ls_trans ta = t & 1 ? LS_TRANS : LS_NO_TRANS, tb = t & 2 ? LS_TRANS : LS_NO_TRANS;
            fill_normal(z, rows * cols, 5);
            if (ls_gemm(LS_ENGINE_PORTABLE, ta, tb, m, n, k, x, ta ? rows : depth, y,
                        tb ? depth : cols, z, cols, t == 3) != LS_OK) {
                fprintf(stderr, "%s\n", ls_error_text());
                return 1;
            }
            put(z, rows * cols);
        }
    }
    return 0;
}

int main(void)
{
    if (ls_isa_check() != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_text());
        return 2;
    }
    functions();
    sums();
    return products();
}
