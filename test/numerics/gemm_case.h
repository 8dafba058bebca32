/* gemm_case.h - matrices for the tests of the product: storage with guard bands, and the contract
 * evaluated element by element straight from its words. */
#ifndef LS_TEST_GEMM_CASE_H
#define LS_TEST_GEMM_CASE_H

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/tree.h"
#include "numerics/tree_reference.h"

/* A product with everything that belongs to it. op(A) is m x k, op(B) is k x n. The padding of a
 * and b is NaN, so that a kernel which reads it shows it; the padding and the surroundings of c are
 * NaN and must stay so. */
typedef struct gemm_case {
    ls_trans ta, tb;
    ls_axis m, n, k;
    size_t lda, ldb, ldc;
    ls_real *a, *b, *c; /* c points behind its guard band */
    ls_real *c_start;
    size_t c_total;
} gemm_case;

enum { GEMM_GUARD = 64 };

static inline ls_real *gemm_nans(size_t count)
{
    ls_real *x = malloc((count + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < count; i++) x[i] = (ls_real)NAN;
    return x;
}

static inline ls_real *gemm_a(const gemm_case *g, size_t i, size_t k)
{
    return g->a + (g->ta ? k * g->lda + i : i * g->lda + k);
}

static inline ls_real *gemm_b(const gemm_case *g, size_t k, size_t j)
{
    return g->b + (g->tb ? j * g->ldb + k : k * g->ldb + j);
}

/* small_integers: values -3..3, so that every order of addition gives the same. Values depend on
 * the place in op(A) and op(B) alone: the same for every way of storing them. */
static inline gemm_case gemm_case_make(ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k,
                                       size_t pad, bool small_integers, uint64_t seed)
{
    gemm_case g = {.ta = ta, .tb = tb, .m = m, .n = n, .k = k};
    size_t em = ls_axis_extent(m), en = ls_axis_extent(n), ek = ls_axis_extent(k);
    g.lda = (ta ? em : ek) + pad;
    g.ldb = (tb ? ek : en) + 2 * pad;
    g.ldc = en + 3 * pad;
    g.a = gemm_nans(g.lda * (ta ? ek : em));
    g.b = gemm_nans(g.ldb * (tb ? en : ek));
    g.c_total = em * g.ldc + (size_t)2 * GEMM_GUARD;
    g.c_start = gemm_nans(g.c_total);
    g.c = g.c_start + GEMM_GUARD;
    uint64_t state = seed * 977 + 5;
    for (int i = 0; i < 8; i++) (void)reference_noise(&state);
    for (size_t i = 0; i < em; i++)
        for (size_t l = 0; l < ek; l++) {
            ls_real x = reference_noise(&state);
            *gemm_a(&g, i, l) = small_integers ? (ls_real)((int)(state >> 40) % 7 - 3) : x;
        }
    for (size_t l = 0; l < ek; l++)
        for (size_t j = 0; j < en; j++) {
            ls_real x = reference_noise(&state);
            *gemm_b(&g, l, j) = small_integers ? (ls_real)((int)(state >> 40) % 7 - 3) : x;
        }
    return g;
}

static inline void gemm_case_free(gemm_case *g)
{
    free(g->a), free(g->b), free(g->c_start);
}

static inline void gemm_run(gemm_case *g, ls_engine engine, bool accumulate)
{
    ls_status status = ls_gemm(engine, g->ta, g->tb, g->m, g->n, g->k, g->a, g->lda, g->b, g->ldb,
                               g->c, g->ldc, accumulate);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
}

/* Nothing outside C has been written, everything inside has been. */
static inline void gemm_check_bands(const gemm_case *g)
{
    size_t em = ls_axis_extent(g->m), en = ls_axis_extent(g->n);
    for (size_t i = 0; i < g->c_total; i++) {
        size_t at = i - GEMM_GUARD;
        bool inside = i >= GEMM_GUARD && at < em * g->ldc && at % g->ldc < en;
        ck_assert_msg(inside == !isnan(g->c_start[i]), "element %zu of c %s", i,
                      inside ? "not written" : "written");
    }
}

/* ---- the contract in its own words ---- */

static inline ls_real gemm_fma(ls_real a, ls_real b, ls_real c)
{
#ifdef LS_REAL_IS_F64
    return fma(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

/* Rule 5: a leaf is a chain of fused multiply-adds, k ascending, from +0. */
static inline ls_real gemm_leaf(const gemm_case *g, size_t i, size_t j, size_t from, size_t to)
{
    ls_real acc = 0;
    for (size_t k = from; k < to; k++) acc = gemm_fma(*gemm_a(g, i, k), *gemm_b(g, k, j), acc);
    return acc;
}

/* Rules 5, 6 and 7: T over the leaves of each granule, T over the granules. */
static inline ls_real gemm_element(const gemm_case *g, size_t i, size_t j)
{
    ls_real *granule = malloc((g->k.granules + 1) * sizeof *granule), sum;
    ls_real *leaf = malloc((g->k.granule / 256 + 2) * sizeof *leaf);
    for (size_t h = 0; h < g->k.granules; h++) {
        size_t first = h * g->k.granule, leaves = 0;
        for (size_t k = 0; k < g->k.granule; k += 256) {
            size_t end = k + 256 < g->k.granule ? k + 256 : g->k.granule;
            leaf[leaves++] = gemm_leaf(g, i, j, first + k, first + end);
        }
        granule[h] = reference_tree(leaf, leaves);
    }
    sum = reference_tree(granule, g->k.granules);
    free(granule), free(leaf);
    return sum;
}

static inline bool gemm_same(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

#endif
