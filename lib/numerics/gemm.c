/* gemm.c - the matrix product under the contract: empty problems, then the engine. */
#include "lockstep/numerics/gemm.h"

#include "numerics/gemm_engines.h"
#include "numerics/gemm_leaves.h"

/* C = +0 or C = C + (+0): a sum with no term ends as +0 (contract rule 14), and is added like any
 * other. */
static void no_terms(const ls_gemm_problem *p)
{
    for (size_t i = 0; i < ls_axis_extent(p->m); i++) {
        ls_real *c = p->c + i * p->ldc;
        for (size_t j = 0; j < ls_axis_extent(p->n); j++)
            c[j] = p->accumulate ? c[j] + (ls_real)0 : (ls_real)0;
    }
}

static ls_status dispatch(ls_engine engine, const ls_gemm_problem *p)
{
    if (ls_axis_extent(p->m) == 0 || ls_axis_extent(p->n) == 0) return LS_OK;
    if (ls_axis_extent(p->k) == 0) {
        no_terms(p);
        return LS_OK;
    }
    switch (engine) {
    case LS_ENGINE_PORTABLE:
        return ls_gemm_portable(p);
    case LS_ENGINE_OPENBLAS:
        return ls_gemm_openblas(p);
    case LS_ENGINE_PLAIN:
        return ls_gemm_plain(p);
    }
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "gemm engine %d: portable, openblas or plain", (int)engine);
}

ls_status ls_gemm(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k,
                  const ls_real *a, size_t lda, const ls_real *b, size_t ldb, ls_real *c,
                  size_t ldc, bool accumulate)
{
    const ls_gemm_problem problem = {ta, tb, m, n, k, a, b, lda, ldb, c, ldc, accumulate, NULL, 0};
    return dispatch(engine, &problem);
}

ls_status ls_gemm_leaves(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n,
                         const ls_leaf_step *leaves, size_t n_leaves, const ls_real *a, size_t lda,
                         const ls_real *b, size_t ldb, ls_real *c, size_t ldc)
{
    size_t terms = 0;
    for (size_t i = 0; i < n_leaves; i++) terms += leaves[i].length;
    const ls_gemm_problem problem = {
        ta, tb, m, n, ls_axis_whole(terms), a, b, lda, ldb, c, ldc, false, leaves, n_leaves};
    return dispatch(engine, &problem);
}
