/* gemm_fused.h - a sum of several products under one tree (contract rule 11).
 *
 *     C = T over granules i of ((term 0 at i) + (term 1 at i)) + (term 2 at i) ...
 *
 * so that the gradient of an input that feeds several matrices (query, key, value; gate, up) is one
 * reduction at every tp. */
#ifndef LS_NUMERICS_GEMM_FUSED_H
#define LS_NUMERICS_GEMM_FUSED_H

#include "lockstep/numerics/gemm.h"

LS_BEGIN_DECLS

/* One product of the sum: op(A) is extent(m) x (own granules * granule), op(B) is (own granules *
 * granule) x extent(n). It takes part in the sum's granules i with (i + phase) % every == 0, one
 * after another with its own granules 0, 1, ... (a key/value head belongs to the first query head
 * of its group). */
#define ls_gemm_term LS_TYPED(ls_gemm_term)
typedef struct ls_gemm_term {
    const ls_real *a;
    size_t lda;
    const ls_real *b;
    size_t ldb;
    size_t granule;      /* k elements of each own granule */
    size_t every, phase; /* 1, 0: in all */
} ls_gemm_term;

/* m, n as in ls_gemm; granules: of the sum; terms: n_terms, term 0 takes part in every granule; ta,
 * tb: for all terms. c is overwritten and overlaps nothing. Errors: those of ls_gemm. */
#define ls_gemm_fused LS_TYPED(ls_gemm_fused)
LS_API ls_status ls_gemm_fused(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n,
                               size_t granules, const ls_gemm_term *terms, size_t n_terms,
                               ls_real *c, size_t ldc) LS_MUST_USE;

LS_END_DECLS

#endif
