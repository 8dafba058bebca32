/* gemm_blas.c - the two engines that call OpenBLAS.
 *
 * openblas: a BLAS gives no promise about the order inside a call, and a slice of a call differs in
 * bits from the same call's result sliced. But equal calls give equal bits. So a call is never
 * larger than what every layout has whole: one granule of m, one of n, one leaf of k. Same shape,
 * same transposes, same numbers in every layout; the tree above the leaves is added here.
 *
 * plain: one call for everything, no contract. In binary64 it serves as the truth. */
#include <limits.h>

#include "numerics/blas.h"
#include "numerics/gemm_engines.h"
#include "numerics/gemm_plan.h"
#include "numerics/workspace.h"

#ifdef LS_HAVE_OPENBLAS

#include <cblas.h>

#ifdef LS_REAL_IS_F64
#define cblas_gemm cblas_dgemm
#else
#define cblas_gemm cblas_sgemm
#endif

/* c = op(a) op(b) + beta c. */
static void call(const ls_gemm_problem *p, size_t m, size_t n, size_t k, const ls_real *a,
                 const ls_real *b, ls_real beta, ls_real *c, size_t ldc)
{
    cblas_gemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans,
               (blasint)m, (blasint)n, (blasint)k, (ls_real)1, a, (blasint)p->lda, b,
               (blasint)p->ldb, beta, c, (blasint)ldc);
}

/* OpenBLAS counts in int unless it was built otherwise. */
static ls_status check_sizes(const ls_gemm_problem *p, size_t m, size_t n, size_t k)
{
    const size_t most = sizeof(blasint) > sizeof(int) ? (size_t)LONG_MAX : (size_t)INT_MAX;
    if (m > most || n > most || k > most || p->lda > most || p->ldb > most || p->ldc > most)
        return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                               "gemm of %zu x %zu x %zu: this OpenBLAS takes at most %zu in a "
                               "dimension; --gemm portable has no such limit",
                               m, n, k, most);
    return LS_OK;
}

static void add(ls_real *restrict to, const ls_real *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++) to[i] += from[i];
}

/* C(granule) from a finished sum of rows x cols. */
static void deliver(const ls_gemm_problem *p, ls_real *c, const ls_real *sum)
{
    for (size_t i = 0; i < p->m.granule; i++, c += p->ldc, sum += p->n.granule)
        for (size_t j = 0; j < p->n.granule; j++) c[j] = p->accumulate ? c[j] + sum[j] : sum[j];
}

/* One granule of m and of n: its leaves by calls, its tree on a stack of matrices. */
static void granule(const ls_gemm_problem *p, const ls_real *a, const ls_real *b, ls_real *c,
                    ls_real *stack)
{
    const size_t m = p->m.granule, n = p->n.granule, size = m * n;
    const size_t a_k = p->ta ? p->lda : 1, b_k = p->tb ? 1 : p->ldb;
    ls_real *top = stack;
    if (p->leaves == NULL && p->k.granules == 1 && p->k.granule <= LS_LEAF && !p->accumulate) {
        call(p, m, n, p->k.granule, a, b, (ls_real)0, c, p->ldc); /* one leaf: nothing to add */
        return;
    }
    for (ls_leaf_walk walk = ls_gemm_walk(p->k, p->leaves, p->n_leaves);
         ls_leaf_walk_more(&walk);) {
        ls_leaf_step step = ls_leaf_walk_next(&walk);
        call(p, m, n, step.length, a, b, (ls_real)0, top, n);
        for (; step.merges > 0; step.merges--, top -= size) add(top - size, top, size);
        top += size;
        a += step.length * a_k;
        b += step.length * b_k;
    }
    deliver(p, c, stack);
}

ls_status ls_gemm_openblas(const ls_gemm_problem *p)
{
    ls_status status = LS_OK;
    const size_t depth = ls_gemm_depth(p->k, p->leaves, p->n_leaves), m = p->m.granule,
                 n = p->n.granule;
    const size_t a_row = p->ta ? 1 : p->lda, b_col = p->tb ? p->ldb : 1;
    ls_real *stack;

    LS_TRY(check_sizes(p, m, n, LS_LEAF));
    if (n > SIZE_MAX / sizeof(ls_real) / depth / m)
        LS_FAIL(LS_ERR_MEMORY, "gemm: %zu matrices of %zu x %zu do not fit the address space",
                depth, m, n);
    LS_TRY(ls_workspace(depth * m * n * sizeof(ls_real), &stack));
    LS_TRY(ls_blas_enter());
    for (size_t gm = 0; gm < p->m.granules; gm++)
        for (size_t gn = 0; gn < p->n.granules; gn++)
            granule(p, p->a + gm * m * a_row, p->b + gn * n * b_col,
                    p->c + gm * m * p->ldc + gn * n, stack);
    ls_blas_leave();
    ls_workspace_trim();

exit:
    return status;
}

ls_status ls_gemm_plain(const ls_gemm_problem *p)
{
    const size_t m = ls_axis_extent(p->m), n = ls_axis_extent(p->n), k = ls_axis_extent(p->k);
    ls_status status = LS_OK;

    LS_TRY(check_sizes(p, m, n, k));
    LS_TRY(ls_blas_enter());
    call(p, m, n, k, p->a, p->b, p->accumulate ? 1 : 0, p->c, p->ldc);
    ls_blas_leave();

exit:
    return status;
}

#else

static ls_status missing(const char *engine)
{
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "gemm engine %s: this build has no OpenBLAS (meson option openblas); "
                           "use portable",
                           engine);
}

ls_status ls_gemm_openblas(const ls_gemm_problem *p)
{
    (void)p;
    return missing("openblas");
}

ls_status ls_gemm_plain(const ls_gemm_problem *p)
{
    (void)p;
    return missing("plain");
}

#endif
