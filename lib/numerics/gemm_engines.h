/* gemm_engines.h - what ls_gemm dispatches to.
 *
 * The engines see a problem with rows and columns and at least one term: ls_gemm has dealt with the
 * empty ones. */
#ifndef LS_NUMERICS_GEMM_ENGINES_H
#define LS_NUMERICS_GEMM_ENGINES_H

#include <stdbool.h>

#include "lockstep/numerics/gemm.h"
#include "numerics/gemm_plan.h"

/* The arguments of ls_gemm: see there. */
#define ls_gemm_problem LS_TYPED(ls_gemm_problem)
typedef struct ls_gemm_problem {
    ls_trans ta, tb;
    ls_axis m, n, k;
    const ls_real *a, *b;
    size_t lda, ldb;
    ls_real *c;
    size_t ldc;
    bool accumulate;
    const ls_leaf_step *leaves; /* n_leaves, together extent(k); NULL: those of the axis k */
    size_t n_leaves;
} ls_gemm_problem;

static inline ls_leaf_walk ls_gemm_walk(ls_axis k, const ls_leaf_step *leaves, size_t n_leaves)
{
    return leaves != NULL ? ls_leaf_walk_list(leaves, n_leaves) : ls_leaf_walk_start(k);
}

static inline size_t ls_gemm_depth(ls_axis k, const ls_leaf_step *leaves, size_t n_leaves)
{
    return leaves != NULL ? ls_leaf_list_depth(leaves, n_leaves) : ls_leaf_walk_depth(k);
}

#define ls_gemm_portable LS_TYPED(ls_gemm_portable)
#define ls_gemm_openblas LS_TYPED(ls_gemm_openblas)
#define ls_gemm_plain LS_TYPED(ls_gemm_plain)
ls_status ls_gemm_portable(const ls_gemm_problem *p) LS_MUST_USE;
ls_status ls_gemm_openblas(const ls_gemm_problem *p) LS_MUST_USE;
ls_status ls_gemm_plain(const ls_gemm_problem *p) LS_MUST_USE;

#endif
