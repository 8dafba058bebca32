/* kernel_test.h - what the tests of the kernels share: guarded arrays, data, bounds, gradients.
 *
 * Every array of a test stands between two guard bands and begins as NaN, so that a kernel which
 * writes too much, or too little, is seen. The bands are looked at when a test ends. */
#ifndef LS_TEST_KERNEL_TEST_H
#define LS_TEST_KERNEL_TEST_H

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/real.h"
#include "numerics/tree_reference.h"
#include "run_tests.h"

#ifdef LS_REAL_IS_F64
#define EPSILON DBL_EPSILON
#define LARGEST ((ls_real)DBL_MAX)
#define FMA fma
#else
#define EPSILON ((double)FLT_EPSILON)
#define LARGEST FLT_MAX
#define FMA fmaf
#endif
#define INF ((ls_real)INFINITY)
#define POS_ZERO ((ls_real)0.0)
#define NEG_ZERO ((ls_real)-0.0)


/* ---- arrays ---- */

enum { GUARD = 24, MAX_ARRAYS = 60000 };

typedef struct guarded_array {
    ls_real *start;
    size_t n;
} guarded_array;

static guarded_array guarded[MAX_ARRAYS];
static size_t n_guarded;

static inline ls_real guard_value(size_t i)
{
    return (ls_real)-12345 - (ls_real)i;
}

/* n values, all NaN. Freed when the test ends. */
static inline ls_real *fresh(size_t n)
{
    ls_real *start = malloc((n + 2 * GUARD) * sizeof *start);
    ck_assert(start != NULL && n_guarded < MAX_ARRAYS);
    for (size_t i = 0; i < GUARD; i++) start[i] = start[GUARD + n + i] = guard_value(i);
    for (size_t i = 0; i < n; i++) start[GUARD + i] = (ls_real)NAN;
    guarded[n_guarded++] = (guarded_array){start, n};
    return start + GUARD;
}

static inline void guards_intact(void)
{
    for (size_t a = 0; a < n_guarded; a++)
        for (size_t i = 0; i < GUARD; i++) {
            const ls_real below = guarded[a].start[i];
            const ls_real above = guarded[a].start[GUARD + guarded[a].n + i];
            if (below != guard_value(i) || above != guard_value(i))
                ck_abort_msg("guard band of array %zu (%zu values) overwritten", a, guarded[a].n);
        }
}

/* The teardown of every test. */
static inline void arrays_end(void)
{
    guards_intact();
    for (size_t a = 0; a < n_guarded; a++) free(guarded[a].start);
    n_guarded = 0;
}

static inline ls_real *noise(size_t n, uint64_t seed)
{
    ls_real *x = fresh(n);
    reference_fill(x, n, seed);
    return x;
}

/* Integers in -largest .. largest. */
static inline ls_real *integers(size_t n, uint64_t seed, int largest)
{
    ls_real *x = fresh(n);
    uint64_t state = seed * 2654435761u + 99;
    for (size_t i = 0; i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        x[i] = (ls_real)((int)(state >> 33) % (2 * largest + 1) - largest);
    }
    return x;
}

static inline ls_real *copy_of(const ls_real *x, size_t n)
{
    ls_real *y = fresh(n);
    if (n > 0) memcpy(y, x, n * sizeof *y);
    return y;
}

/* ---- comparison ---- */

static inline int same(const ls_real *a, const ls_real *b, size_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

static inline int same_value(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* Every x within `bound` (absolute) of the truth; NaN fails. */
static inline int within(const ls_real *x, const long double *truth, size_t n, double bound)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsl((long double)x[i] - truth[i]) <= (long double)bound)) return 0;
    return 1;
}

static inline int near(ls_real x, double right, double bound)
{
    return fabs((double)x - right) <= bound;
}

/* ---- contract rule 10, from its words: 16 lanes ascending, T(16) over them ---- */

static inline ls_real reference_row_sum(const ls_real *term, size_t n)
{
    ls_real lane[16];
    for (size_t l = 0; l < 16; l++) {
        lane[l] = l < n ? term[l] : NEG_ZERO;
        for (size_t i = l + 16; i < n; i += 16) lane[l] = lane[l] + term[i];
    }
    return reference_tree(lane, 16);
}

/* ---- contract rule 9, from its words: T inside each granule, T over the granules ---- */

static inline ls_real reference_token_sum(const ls_real *term, size_t granules, size_t granule)
{
    ls_real value[64];
    ck_assert(granules <= 64);
    for (size_t g = 0; g < granules; g++) value[g] = reference_tree(term + g * granule, granule);
    return reference_tree(value, granules);
}

/* ---- gradients, in binary64 only ---- */

#ifdef LS_REAL_IS_F64
typedef double objective(void *context);

/* gradient[i] against (f(x_i + h) - f(x_i - h)) / 2h for every one of the n values x. */
static inline void check_gradient(objective *f, void *context, double *x, const double *gradient,
                                  size_t n, const char *what)
{
    const double h = 1e-5;
    for (size_t i = 0; i < n; i++) {
        const double middle = x[i];
        x[i] = middle + h;
        const double above = f(context);
        x[i] = middle - h;
        const double below = f(context);
        x[i] = middle;
        const double slope = (above - below) / (2 * h);
        if (!(fabs(slope - gradient[i]) <= 2e-8 * (1 + fabs(slope))))
            ck_abort_msg("%s[%zu]: gradient %.12g, central difference %.12g", what, i, gradient[i],
                         slope);
    }
}

static inline double weighted_sum(const double *w, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += w[i] * y[i];
    return sum;
}
#endif

/* ---- one program ---- */

static inline int run_kernel_tests(const char *name, const TTest *const *tests, int n)
{
    TCase *all = test_case(name, 120);
    tcase_add_checked_fixture(all, NULL, arrays_end);
    for (int i = 0; i < n; i++) tcase_add_test(all, tests[i]);
    return run_tests();
}

#endif
