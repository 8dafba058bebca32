/* gemm_fused.c - a sum of several products under one tree (contract rule 11).
 *
 * The tree's leaves are whole matrices here: leaf i is (term 0 at i) + (term 1 at i) + ..., each
 * term a product over one granule with leaves of its own. T(n) into C is T(left) into C, T(right)
 * into a temporary of this level, then one addition per element. The rows of C are taken one
 * granule of m at a time: temporaries stay small, and an engine that cuts its calls by granules
 * makes the same calls whatever part of m a rank holds. */
#include "lockstep/numerics/gemm_fused.h"

#include <assert.h>
#include <stdlib.h>

#include "lockstep/numerics/tree.h"
#include "base/allocate.h"

/* One granule of the rows, and what all its leaves share. */
typedef struct fused_rows {
    ls_engine engine;
    ls_trans ta, tb;
    size_t rows; /* of this granule of m                                */
    size_t row;  /* the first of them, counted from the beginning of m  */
    ls_axis n;
    const ls_gemm_term *terms;
    size_t n_terms;
} fused_rows;

static int takes_part(const ls_gemm_term *term, size_t i)
{
    return (i + term->phase) % term->every == 0;
}

/* How many of the granules 0 .. i - 1 the term takes part in: its own number at granule i. */
static size_t own_granules_before(const ls_gemm_term *term, size_t i)
{
    size_t phase = term->phase % term->every;
    size_t first = phase == 0 ? 0 : term->every - phase;
    return i <= first ? 0 : (i - first - 1) / term->every + 1;
}

/* c = or += the part of a term's product that its own granules own .. own + count contribute. */
static ls_status add_term(const fused_rows *f, const ls_gemm_term *term, size_t own, size_t count,
                          ls_real *c, size_t ldc, bool accumulate)
{
    size_t k = own * term->granule;
    const ls_real *a = f->ta == LS_TRANS ? term->a + k * term->lda + f->row /* stored k x m */
                                         : term->a + f->row * term->lda + k;
    const ls_real *b = f->tb == LS_TRANS ? term->b + k /* stored n x k */
                                         : term->b + k * term->ldb;
    return ls_gemm(f->engine, f->ta, f->tb, ls_axis_whole(f->rows), f->n,
                   ls_axis_of(count, term->granule), a, term->lda, b, term->ldb, c, ldc,
                   accumulate);
}

/* Leaf i of the tree. */
static ls_status fused_leaf(const fused_rows *f, size_t i, ls_real *c, size_t ldc)
{
    ls_status status = LS_OK;
    for (size_t t = 0; t < f->n_terms; t++)
        if (takes_part(&f->terms[t], i))
            LS_TRY(
                add_term(f, &f->terms[t], own_granules_before(&f->terms[t], i), 1, c, ldc, t > 0));
exit:
    return status;
}

/* c = T over the granules lo .. hi - 1, at least one. spare: one matrix rows x extent(n) for each
 * level that is left below this node. */
static ls_status fused_tree(const fused_rows *f, size_t lo, size_t hi, ls_real *c, size_t ldc,
                            ls_real *spare)
{
    ls_status status = LS_OK;
    size_t cols = ls_axis_extent(f->n);
    if (hi - lo == 1) return fused_leaf(f, lo, c, ldc);
    size_t middle = lo + ls_tree_split(hi - lo);
    ls_real *deeper = spare + f->rows * cols;
    LS_TRY(fused_tree(f, lo, middle, c, ldc, spare));
    LS_TRY(fused_tree(f, middle, hi, spare, cols, deeper));
    for (size_t r = 0; r < f->rows; r++)
        for (size_t j = 0; j < cols; j++) c[r * ldc + j] += spare[r * cols + j];
exit:
    return status;
}

/* The truth: the whole products one after another, no tree. */
static ls_status fused_plain(const fused_rows *f, size_t granules, ls_real *c, size_t ldc)
{
    ls_status status = LS_OK;
    for (size_t t = 0; t < f->n_terms; t++) {
        size_t count = own_granules_before(&f->terms[t], granules);
        if (t == 0 || count > 0) LS_TRY(add_term(f, &f->terms[t], 0, count, c, ldc, t > 0));
    }
exit:
    return status;
}

/* Levels of T(n) below its root: ceil(log2 n). */
static size_t levels(size_t n)
{
    size_t count = 0;
    while (((size_t)1 << count) < n) count++;
    return count;
}

ls_status ls_gemm_fused(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n,
                        size_t granules, const ls_gemm_term *terms, size_t n_terms, ls_real *c,
                        size_t ldc)
{
    ls_status status = LS_OK;
    ls_real *spare = NULL;
    fused_rows f = {engine, ta, tb, m.granule, 0, n, terms, n_terms};
    assert(n_terms > 0 && terms[0].every == 1);

    if (engine == LS_ENGINE_PLAIN || granules == 0) {
        f.rows = ls_axis_extent(m);
        LS_TRY(fused_plain(&f, granules, c, ldc));
        goto exit;
    }
    LS_ROOM(spare, levels(granules) * m.granule * ls_axis_extent(n));
    for (size_t g = 0; g < m.granules; g++) {
        f.row = g * m.granule;
        LS_TRY(fused_tree(&f, 0, granules, c + f.row * ldc, ldc, spare));
    }
exit:
    free(spare);
    return status;
}
