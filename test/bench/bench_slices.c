/* bench_slices.c - why a contract is needed: how many elements of a matrix product change in their
 * bits when the same product is computed by slices.
 *
 * For each k: a product by one call; the same elements from calls on a run of its rows, of its
 * columns, and from the same call again with other leading dimensions. Engine plain is OpenBLAS as
 * it comes; the two engines of the contract are measured beside it. A percentage of elements that
 * differ, over many random cuts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/random.h"

enum { M = 96, N = 96, CUTS = 60, PAD = 13, K_MAX = 1024 };

static ls_real a[M * K_MAX], b[K_MAX * N], wide_a[M * (K_MAX + PAD)], wide_b[K_MAX * (N + PAD)];
static ls_real whole[M * N], part[M * N];

static const ls_stream numbers = {1, LS_RANDOM_TEST, 0, 0};

static size_t drawn(size_t from, size_t below, uint64_t index)
{
    return from + (size_t)(ls_random_uniform(numbers, index) * (double)(below - from));
}

/* Percentage of elements of `part` (rows x cols) that differ from `whole` at (row, col). */
static double differing(size_t row, size_t rows, size_t col, size_t cols)
{
    size_t count = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            count +=
                memcmp(&part[i * cols + j], &whole[(row + i) * N + col + j], sizeof(ls_real)) != 0;
    return 100.0 * (double)count / (double)(rows * cols);
}

static int multiply(ls_engine engine, size_t m, size_t n, size_t k, const ls_real *x, size_t ldx,
                    const ls_real *y, size_t ldy, ls_real *c)
{
    /* Rows and columns are cut anywhere: granules of one row and one column are what such a layout
     * would declare. */
    ls_axis rows = {m, 1}, cols = {n, 1};
    return ls_gemm(engine, LS_NO_TRANS, LS_NO_TRANS, rows, cols, ls_axis_whole(k), x, ldx, y, ldy,
                   c, n, false) == LS_OK;
}

static int measure(ls_engine engine, size_t k)
{
    double by_rows = 0, by_cols = 0, by_stride = 0;
    if (!multiply(engine, M, N, k, a, k, b, N, whole)) return 0;
    for (uint64_t cut = 0; cut < CUTS; cut++) {
        size_t row = drawn(0, M - 1, 4 * cut), rows = drawn(1, M - row, 4 * cut + 1);
        size_t col = drawn(0, N - 1, 4 * cut + 2), cols = drawn(1, N - col, 4 * cut + 3);
        if (!multiply(engine, rows, N, k, a + row * k, k, b, N, part)) return 0;
        by_rows += differing(row, rows, 0, N) / CUTS;
        if (!multiply(engine, M, cols, k, a, k, b + col, N, part)) return 0;
        by_cols += differing(0, M, col, cols) / CUTS;
    }
    for (size_t i = 0; i < M; i++) memcpy(wide_a + i * (k + PAD), a + i * k, k * sizeof *a);
    for (size_t i = 0; i < k; i++) memcpy(wide_b + i * (N + PAD), b + i * N, N * sizeof *b);
    if (!multiply(engine, M, N, k, wide_a, k + PAD, wide_b, N + PAD, part)) return 0;
    by_stride = differing(0, M, 0, N);
    printf("%-10s %5zu %12.1f %12.1f %12.1f\n", ls_engine_name(engine), k, by_rows, by_cols,
           by_stride);
    return 1;
}

int main(void)
{
    static const size_t ks[] = {16, 64, 256, 768, 1024};
    char text[64];
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) a[i] = (ls_real)ls_random_normal(numbers, i);
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        b[i] = (ls_real)ls_random_normal(numbers, i + K_MAX * N);
    ls_engine_describe(LS_ENGINE_PLAIN, text, sizeof text);
    printf("%s, %s: %% of elements whose bits change\n", text, ls_dtype_name(LS_REAL_DTYPE));
    printf("%-10s %5s %12s %12s %12s\n", "engine", "k", "some rows", "some columns",
           "other strides");
    for (int e = 0; e < 3; e++)
        for (size_t i = 0; i < sizeof ks / sizeof ks[0]; i++)
            if (!measure((ls_engine)(2 - e), ks[i])) {
                fprintf(stderr, "bench_slices: %s\n", ls_error_text());
                return 2;
            }
    return 0;
}
