/* reduced_product.c - a product whose summed axis is cut: partials, then an all-reduce. */
#include "base/size.h"
#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/hooks/observe.h"

/* Own granules of `term` that are before granule `s` of the sum: those i < s with (i + phase) %
 * every == 0. */
static size_t own_granules_before(const ls_gemm_term *term, size_t s)
{
    size_t first = (term->every - term->phase % term->every) % term->every;
    return s > first ? (s - 1 - first) / term->every + 1 : 0;
}

/* The term as the granules from `s` on see it. */
static ls_gemm_term term_from(const ls_gemm_term *term, ls_trans tb, size_t s)
{
    ls_gemm_term from = *term;
    size_t skipped = own_granules_before(term, s) * term->granule;
    from.a += skipped;
    from.b += tb == LS_TRANS ? skipped : skipped * term->ldb;
    from.phase = (term->phase + s) % term->every;
    return from;
}

enum { MAX_TERMS = 3 };

ls_status ls_reduced_product(const ls_tensor_parallel *tp, ls_trans tb, ls_axis m, ls_axis n,
                             const ls_cut *k, const ls_gemm_term *terms, size_t n_terms, ls_real *c)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group);
    size_t first = k->bounds[rank], end = k->bounds[rank + 1];
    size_t count = ls_size_product(ls_axis_extent(m), ls_axis_extent(n));
    ls_node nodes[LS_FOREST_MAX];
    size_t n_nodes = ls_tree_forest(k->whole.granules, first, end, nodes);
    ls_forest forest = {k->whole.granules, k->bounds};
    ls_real *partials;

    if (n_terms < 1 || n_terms > MAX_TERMS)
        LS_FAIL(LS_ERR_INTERNAL, "a reduced product of %zu terms; 1 to %d are possible", n_terms,
                MAX_TERMS);
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(n_nodes, count), sizeof *partials,
                          (void *)&partials));
    for (size_t j = 0; j < n_nodes; j++) {
        ls_gemm_term local[MAX_TERMS];
        for (size_t i = 0; i < n_terms; i++)
            local[i] = term_from(&terms[i], tb, nodes[j].lo - first);
        LS_TRY(ls_gemm_fused(tp->engine, LS_NO_TRANS, tb, m, n, nodes[j].hi - nodes[j].lo, local,
                             n_terms, partials + j * count, ls_axis_extent(n)));
    }
    LS_TRY(ls_observe_partials(tp, k->whole.granules, nodes, n_nodes, ls_axis_extent(n), partials));
    LS_TRY(ls_sum_to_own_tokens(tp, c, partials, m, ls_axis_extent(n), &forest));
    LS_TRY(ls_observe_total(tp, ls_axis_extent(n), c));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
