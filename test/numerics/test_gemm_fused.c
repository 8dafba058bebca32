/* test_gemm_fused.c - several products under one tree (contract rule 11). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/gemm_fused.h"
#include "lockstep/numerics/tree.h"
#include "numerics/tree_reference.h"
#include "run_tests.h"

enum { MAX_TERMS = 3, GUARD = 7 };

/* A sum as the tests describe it: `granules` of the sum, the first of them numbered `first` on an
 * axis that goes on before it, and up to three terms of this granule size and step. */
typedef struct sum_case {
    ls_axis m, n;
    size_t granules;
    size_t n_terms;
    size_t granule[MAX_TERMS], every[MAX_TERMS];
} sum_case;

/* One plain product; the shape of query, key, value with 1, 2, 3 and 4 query heads to a key head
 * (12, 6, 3, 1 key heads); gate and up with granules beyond one leaf; an odd number of granules. */
static const sum_case cases[] = {
    {{2, 5}, {1, 7}, 6, 1, {3}, {1}},
    {{3, 4}, {1, 11}, 12, 3, {5, 5, 5}, {1, 1, 1}},
    {{1, 6}, {2, 5}, 12, 3, {2, 2, 2}, {1, 2, 2}},
    {{2, 3}, {1, 13}, 12, 3, {4, 4, 4}, {1, 3, 3}},
    {{7, 1}, {3, 3}, 12, 3, {1, 1, 1}, {1, 12, 12}},
    {{1, 4}, {1, 9}, 2, 2, {300, 300}, {1, 1}},
    {{2, 2}, {1, 8}, 7, 2, {17, 13}, {1, 1}},
    {{1, 3}, {1, 5}, 1, 3, {6, 6, 6}, {1, 1, 1}},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const ls_engine contract_engines[] = {
    LS_ENGINE_PORTABLE,
#ifdef LS_HAVE_OPENBLAS
    LS_ENGINE_OPENBLAS,
#endif
};
enum { N_CONTRACT_ENGINES = sizeof contract_engines / sizeof contract_engines[0] };

/* The operands of a case, and its result with guard bands. */
typedef struct operands {
    const sum_case *what;
    ls_trans ta, tb;
    size_t M, N, k[MAX_TERMS];
    ls_real *a[MAX_TERMS], *b[MAX_TERMS];
    size_t lda[MAX_TERMS], ldb[MAX_TERMS];
    size_t ldc;
    ls_real *c; /* M x ldc between two guards */
    ls_real *guarded;
} operands;

static ls_real *numbers(size_t n, int integers, uint64_t seed)
{
    ls_real *x = malloc((n ? n : 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    reference_fill(x, n, seed);
    if (integers)
        for (size_t i = 0; i < n; i++) x[i] = (ls_real)floor(3 * (double)x[i]);
    return x;
}

static void fill_with_nan(operands *o)
{
    for (size_t i = 0; i < o->M * o->ldc + 2 * GUARD; i++) o->guarded[i] = (ls_real)NAN;
}

static operands operands_of(const sum_case *what, ls_trans ta, ls_trans tb, int integers)
{
    operands o = {.what = what, .ta = ta, .tb = tb};
    o.M = ls_axis_extent(what->m);
    o.N = ls_axis_extent(what->n);
    o.ldc = o.N + 3;
    for (size_t t = 0; t < what->n_terms; t++) {
        o.k[t] = (what->granules + what->every[t] - 1) / what->every[t] * what->granule[t];
        o.lda[t] = (ta == LS_TRANS ? o.M : o.k[t]) + t;
        o.ldb[t] = (tb == LS_TRANS ? o.k[t] : o.N) + 2;
        o.a[t] = numbers((ta == LS_TRANS ? o.k[t] : o.M) * o.lda[t], integers, 10 + t);
        o.b[t] = numbers((tb == LS_TRANS ? o.N : o.k[t]) * o.ldb[t], integers, 20 + t);
    }
    o.guarded = malloc((o.M * o.ldc + 2 * GUARD) * sizeof *o.guarded);
    ck_assert_ptr_nonnull(o.guarded);
    o.c = o.guarded + GUARD;
    fill_with_nan(&o);
    return o;
}

static void operands_free(operands *o)
{
    for (size_t t = 0; t < o->what->n_terms; t++) {
        free(o->a[t]);
        free(o->b[t]);
    }
    free(o->guarded);
}

/* The terms as they stand for the granules of the sum from `first` on: a rank whose run begins
 * inside a group of query heads begins with the next group's key head. */
static void terms_from(const operands *o, size_t first, ls_gemm_term *ret_terms)
{
    for (size_t t = 0; t < o->what->n_terms; t++) {
        size_t every = o->what->every[t];
        size_t skipped = (first + every - 1) / every * o->what->granule[t];
        ret_terms[t] = (ls_gemm_term){
            .a = o->a[t] + (o->ta == LS_TRANS ? skipped * o->lda[t] : skipped),
            .lda = o->lda[t],
            .b = o->b[t] + (o->tb == LS_TRANS ? skipped : skipped * o->ldb[t]),
            .ldb = o->ldb[t],
            .granule = o->what->granule[t],
            .every = every,
            .phase = first % every,
        };
    }
}

static void compute(const operands *o, ls_engine engine)
{
    ls_gemm_term terms[MAX_TERMS];
    terms_from(o, 0, terms);
    ck_assert_int_eq(ls_gemm_fused(engine, o->ta, o->tb, o->what->m, o->what->n, o->what->granules,
                                   terms, o->what->n_terms, o->c, o->ldc),
                     LS_OK);
}

static ls_real a_at(const operands *o, size_t t, size_t i, size_t k)
{
    return o->ta == LS_TRANS ? o->a[t][k * o->lda[t] + i] : o->a[t][i * o->lda[t] + k];
}

static ls_real b_at(const operands *o, size_t t, size_t k, size_t j)
{
    return o->tb == LS_TRANS ? o->b[t][j * o->ldb[t] + k] : o->b[t][k * o->ldb[t] + j];
}

static ls_real fused_multiply_add(ls_real a, ls_real b, ls_real c)
{
#ifdef LS_REAL_IS_F64
    return fma(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

/* One element from the words of rules 5, 6 and 11. */
static ls_real expected(const operands *o, size_t i, size_t j)
{
    enum { ROOM = 64 };
    ls_real granule[ROOM], leaf[ROOM];
    for (size_t g = 0; g < o->what->granules; g++)
        for (size_t t = 0; t < o->what->n_terms; t++) {
            if (g % o->what->every[t] != 0) continue;
            size_t width = o->what->granule[t], begin = g / o->what->every[t] * width, leaves = 0;
            for (size_t at = 0; at < width; at += LS_LEAF, leaves++) {
                leaf[leaves] = 0;
                for (size_t k = at; k < width && k < at + LS_LEAF; k++)
                    leaf[leaves] = fused_multiply_add(a_at(o, t, i, begin + k),
                                                      b_at(o, t, begin + k, j), leaf[leaves]);
            }
            ls_real product = reference_tree(leaf, leaves);
            granule[g] = t == 0 ? product : granule[g] + product;
        }
    return reference_tree(granule, o->what->granules);
}

/* The elements between the rows, and around all of them, are as they were: NaN. */
static int untouched_outside(const operands *o)
{
    for (size_t i = 0; i < GUARD; i++)
        if (!isnan(o->guarded[i]) || !isnan(o->c[o->M * o->ldc + i])) return 0;
    for (size_t i = 0; i < o->M; i++)
        for (size_t j = o->N; j < o->ldc; j++)
            if (!isnan(o->c[i * o->ldc + j])) return 0;
    return 1;
}

static size_t differing(const operands *o)
{
    size_t count = 0;
    for (size_t i = 0; i < o->M; i++)
        for (size_t j = 0; j < o->N; j++) {
            ls_real e = expected(o, i, j);
            if (memcmp(&e, &o->c[i * o->ldc + j], sizeof e) != 0) count++;
        }
    return count;
}

/* Integers: every engine, every transpose, each twice. */
START_TEST(exact_with_integers)
{
    for (size_t n = 0; n < N_CASES; n++)
        for (int transposes = 0; transposes < 4; transposes++) {
            operands o =
                operands_of(&cases[n], (ls_trans)(transposes & 1), (ls_trans)(transposes >> 1), 1);
            for (size_t e = 0; e < 2 * N_CONTRACT_ENGINES; e++) {
                fill_with_nan(&o);
                compute(&o, contract_engines[e / 2]);
                ck_assert_msg(differing(&o) == 0, "case %zu transposes %d engine %zu", n,
                              transposes, e / 2);
                ck_assert(untouched_outside(&o));
            }
#ifdef LS_HAVE_OPENBLAS
            fill_with_nan(&o);
            compute(&o, LS_ENGINE_PLAIN);
            for (size_t i = 0; i < o.M; i++)
                for (size_t j = 0; j < o.N; j++)
                    ck_assert(o.c[i * o.ldc + j] == expected(&o, i, j));
            ck_assert(untouched_outside(&o));
#endif
            operands_free(&o);
        }
}
END_TEST

/* Noise: the order is that of the rules. */
START_TEST(order_of_the_rules)
{
    for (size_t n = 0; n < N_CASES; n++)
        for (int transposes = 0; transposes < 4; transposes++) {
            operands o =
                operands_of(&cases[n], (ls_trans)(transposes & 1), (ls_trans)(transposes >> 1), 0);
            compute(&o, LS_ENGINE_PORTABLE);
            ck_assert_msg(differing(&o) == 0, "case %zu transposes %d", n, transposes);
            operands_free(&o);
        }
}
END_TEST

/* Posts the forest of a run of granules: one part per node. */
static size_t post_run(const operands *o, ls_engine engine, size_t lo, size_t hi, ls_real **parts,
                       ls_node *nodes)
{
    ls_gemm_term terms[MAX_TERMS];
    size_t count = ls_tree_forest(o->what->granules, lo, hi, nodes);
    for (size_t p = 0; p < count; p++) {
        parts[p] = malloc(o->M * o->N * sizeof **parts);
        ck_assert_ptr_nonnull(parts[p]);
        for (size_t i = 0; i < o->M * o->N; i++) parts[p][i] = (ls_real)NAN;
        terms_from(o, nodes[p].lo, terms);
        ck_assert_int_eq(ls_gemm_fused(engine, o->ta, o->tb, o->what->m, o->what->n,
                                       nodes[p].hi - nodes[p].lo, terms, o->what->n_terms, parts[p],
                                       o->N),
                         LS_OK);
    }
    return count;
}

/* Ranks that own equal runs of granules, also inside a group of query heads, finish to the bits of
 * the whole sum: shared key heads count once, on the first query head of their group. */
START_TEST(runs_finish_to_the_whole)
{
    for (size_t n = 0; n < N_CASES; n++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (size_t e = 0; e < N_CONTRACT_ENGINES; e++)
                for (size_t ranks = 1; ranks <= cases[n].granules; ranks++) {
                    operands o = operands_of(&cases[n], (ls_trans)(transposes & 1),
                                             (ls_trans)(transposes >> 1), 0);
                    ls_real *parts[LS_FOREST_MAX];
                    ls_node nodes[LS_FOREST_MAX];
                    size_t n_parts = 0, G = cases[n].granules;
                    for (size_t r = 0; r < ranks; r++) /* uneven where ranks does not divide G */
                        n_parts += post_run(&o, contract_engines[e], r * G / ranks,
                                            (r + 1) * G / ranks, parts + n_parts, nodes + n_parts);
                    ls_tree_finish(parts[0], (const ls_real *const *)parts, nodes, n_parts, G,
                                   o.M * o.N);
                    compute(&o, contract_engines[e]);
                    for (size_t i = 0; i < o.M; i++)
                        ck_assert_msg(
                            memcmp(parts[0] + i * o.N, o.c + i * o.ldc, o.N * sizeof *o.c) == 0,
                            "case %zu engine %zu ranks %zu", n, e, ranks);
                    for (size_t p = 0; p < n_parts; p++) free(parts[p]);
                    operands_free(&o);
                }
}
END_TEST

/* A rank that holds only some granules of the rows gets those rows of the whole result. */
START_TEST(granules_of_rows_stand_alone)
{
    for (size_t n = 0; n < N_CASES; n++)
        for (int transposes = 0; transposes < 4; transposes++)
            for (size_t e = 0; e < N_CONTRACT_ENGINES; e++) {
                operands o = operands_of(&cases[n], (ls_trans)(transposes & 1),
                                         (ls_trans)(transposes >> 1), 0);
                ls_axis m = cases[n].m;
                compute(&o, contract_engines[e]);
                for (size_t g = 0; g < m.granules; g++) {
                    ls_gemm_term terms[MAX_TERMS];
                    size_t row = g * m.granule;
                    ls_real *c = malloc(m.granule * o.N * sizeof *c);
                    ck_assert_ptr_nonnull(c);
                    terms_from(&o, 0, terms);
                    for (size_t t = 0; t < cases[n].n_terms; t++)
                        terms[t].a += o.ta == LS_TRANS ? row : row * terms[t].lda;
                    ck_assert_int_eq(ls_gemm_fused(contract_engines[e], o.ta, o.tb,
                                                   ls_axis_of(1, m.granule), cases[n].n,
                                                   cases[n].granules, terms, cases[n].n_terms, c,
                                                   o.N),
                                     LS_OK);
                    for (size_t i = 0; i < m.granule; i++)
                        ck_assert(memcmp(c + i * o.N, o.c + (row + i) * o.ldc, o.N * sizeof *c) ==
                                  0);
                    free(c);
                }
                operands_free(&o);
            }
}
END_TEST

/* Axes without elements: no rows, no columns, no granules (a sum of nothing is +0). */
START_TEST(empty_axes)
{
    ls_real one[2] = {1, 2}, c[4] = {5, 6, 7, 8};
    const ls_real zero = 0;
    ls_gemm_term term = {one, 1, one, 2, 1, 1, 0};
    ck_assert_int_eq(ls_gemm_fused(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, ls_axis_of(0, 3),
                                   ls_axis_whole(2), 1, &term, 1, c, 2),
                     LS_OK);
    ck_assert_int_eq(ls_gemm_fused(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, ls_axis_of(2, 1),
                                   ls_axis_whole(0), 1, &term, 1, c, 2),
                     LS_OK);
    ck_assert(c[0] == 5 && c[1] == 6 && c[2] == 7 && c[3] == 8);
    ck_assert_int_eq(ls_gemm_fused(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, ls_axis_of(2, 1),
                                   ls_axis_whole(2), 0, &term, 1, c, 2),
                     LS_OK);
    for (size_t i = 0; i < 4; i++) ck_assert(memcmp(&c[i], &zero, sizeof zero) == 0);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("gemm_fused", 60);
    tcase_add_test(tc, exact_with_integers);
    tcase_add_test(tc, order_of_the_rules);
    tcase_add_test(tc, runs_finish_to_the_whole);
    tcase_add_test(tc, granules_of_rows_stand_alone);
    tcase_add_test(tc, empty_axes);
    return run_tests();
}
