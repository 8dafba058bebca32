/* gemm.c - the matrix product under the contract: empty problems, then the engine. */
#include "lockstep/numerics/gemm.h"

#include "numerics/gemm_engines.h"

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

ls_status ls_gemm(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k,
                  const ls_real *a, size_t lda, const ls_real *b, size_t ldb, ls_real *c,
                  size_t ldc, bool accumulate)
{
    const ls_gemm_problem problem = {ta, tb, m, n, k, a, b, lda, ldb, c, ldc, accumulate};
    if (ls_axis_extent(m) == 0 || ls_axis_extent(n) == 0) return LS_OK;
    if (ls_axis_extent(k) == 0) {
        no_terms(&problem);
        return LS_OK;
    }
    switch (engine) {
    case LS_ENGINE_PORTABLE:
        return ls_gemm_portable(&problem);
    case LS_ENGINE_OPENBLAS:
        return ls_gemm_openblas(&problem);
    case LS_ENGINE_PLAIN:
        return ls_gemm_plain(&problem);
    }
    return ls_error_record(LS_ERR_INPUT, __FILE__, __LINE__,
                           "gemm engine %d: portable, openblas or plain", (int)engine);
}
