/* test_engines.c - what the engines of the product promise beside the portable bits: OpenBLAS on
 * canonical blocks gives the same bits for every layout; all are near the truth; nobody stops
 * anybody. */
#include <check.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/gemm.h"
#include "numerics/blas.h"
#include "numerics/gemm_case.h"
#include "numerics/gemm_plan.h"
#include "run_tests.h"

#ifdef LS_REAL_IS_F64
static const long double unit = DBL_EPSILON / 2;
#else
static const long double unit = FLT_EPSILON / 2;
#endif

#ifdef LS_HAVE_OPENBLAS
static const ls_engine engines[] = {LS_ENGINE_PORTABLE, LS_ENGINE_OPENBLAS, LS_ENGINE_PLAIN};
#else
static const ls_engine engines[] = {LS_ENGINE_PORTABLE};
#endif
enum { ENGINES = sizeof engines / sizeof engines[0] };

static ls_trans trans(size_t bit)
{
    return bit ? LS_TRANS : LS_NO_TRANS;
}

/* Small integers: any order of addition must give the sum, so all engines are held to it. */
START_TEST(engines_are_exact_on_small_integers)
{
    static const ls_axis ms[] = {{1, 5}, {3, 4}, {4, 1}}, ns[] = {{1, 7}, {5, 3}, {2, 9}};
    static const ls_axis ks[] = {{1, 8}, {3, 5}, {2, 300}, {7, 1}};
    for (size_t e = 0; e < ENGINES; e++)
        for (size_t s = 0; s < 3 * 3 * 4 * 8; s++) {
            ls_axis m = ms[s % 3], n = ns[s / 3 % 3], k = ks[s / 9 % 4];
            ls_trans ta = trans(s / 36 % 2), tb = trans(s / 72 % 2);
            bool accumulate = s / 144 % 2;
            gemm_case g = gemm_case_make(ta, tb, m, n, k, s % 4, true, s);
            size_t en = ls_axis_extent(n), em = ls_axis_extent(m);
            for (size_t i = 0; accumulate && i < em; i++)
                for (size_t j = 0; j < en; j++) g.c[i * g.ldc + j] = (ls_real)(3 * i + j);
            gemm_run(&g, engines[e], accumulate);
            gemm_check_bands(&g);
            for (size_t i = 0; i < em; i++)
                for (size_t j = 0; j < en; j++) {
                    long sum = accumulate ? (long)(3 * i + j) : 0;
                    for (size_t l = 0; l < ls_axis_extent(k); l++)
                        sum += (long)*gemm_a(&g, i, l) * (long)*gemm_b(&g, l, j);
                    ck_assert_msg((long)g.c[i * g.ldc + j] == sum, "%s",
                                  ls_engine_name(engines[e]));
                }
            gemm_case_free(&g);
        }
}
END_TEST

/* |c - exact| <= (longest chain of roundings) * unit * sum |a| |b|, the classical bound; for the
 * contract the chain is a leaf and the depth of the tree, for a plain product k. */
START_TEST(engines_are_near_the_truth)
{
    static const ls_axis ks[] = {{1, 3}, {1, 768}, {12, 64}, {12, 4}, {5, 513}};
    for (size_t e = 0; e < ENGINES; e++)
        for (size_t s = 0; s < sizeof ks / sizeof ks[0]; s++) {
            ls_axis k = ks[s];
            size_t em = 21, en = 34, ek = ls_axis_extent(k);
            gemm_case g = gemm_case_make(trans(s % 2), trans(s / 2 % 2), ls_axis_of(3, 7),
                                         ls_axis_of(2, 17), k, 1, false, 60 + s);
            size_t chain = (k.granule < LS_LEAF ? k.granule : LS_LEAF) + ls_leaf_walk_depth(k);
            if (engines[e] == LS_ENGINE_PLAIN) chain = ek;
            gemm_run(&g, engines[e], false);
            for (size_t i = 0; i < em; i++)
                for (size_t j = 0; j < en; j++) {
                    long double exact = 0, size = 0;
                    for (size_t l = 0; l < ek; l++) {
                        long double term =
                            (long double)*gemm_a(&g, i, l) * (long double)*gemm_b(&g, l, j);
                        exact += term;
                        size += fabsl(term);
                    }
                    long double error = fabsl((long double)g.c[i * g.ldc + j] - exact);
                    ck_assert_msg(!!(error <= 1.1L * (long double)chain * unit * size),
                                  "%s, k %zu x %zu: error %Lg of %Lg", ls_engine_name(engines[e]),
                                  k.granules, k.granule, error, size);
                }
            gemm_case_free(&g);
        }
}
END_TEST

START_TEST(names_go_there_and_back)
{
    ls_engine engine = LS_ENGINE_PLAIN;
    for (int e = LS_ENGINE_PORTABLE; e <= LS_ENGINE_PLAIN; e++) {
        ck_assert(ls_engine_parse(ls_engine_name((ls_engine)e), &engine) == LS_OK);
        ck_assert_int_eq(engine, e);
    }
    static const char *const bad[] = {"", "mkl", "Portable", "openblas ", "plain\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        engine = LS_ENGINE_OPENBLAS;
        ls_error_clear();
        ck_assert(ls_engine_parse(bad[i], &engine) == LS_ERR_INPUT);
        ck_assert_int_eq(engine, LS_ENGINE_OPENBLAS);
        ck_assert_ptr_nonnull(strstr(ls_error_text(), "portable, openblas or plain"));
        ck_assert_ptr_null(strchr(ls_error_text(), '\n'));
    }
    char text[64], tiny[5];
    ls_engine_describe(LS_ENGINE_PORTABLE, text, sizeof text);
    ck_assert_ptr_eq(strstr(text, "portable "), text);
    ls_engine_describe(LS_ENGINE_PORTABLE, tiny, sizeof tiny);
    ck_assert_str_eq(tiny, "port");
    ck_assert_str_eq(ls_engine_warning(LS_ENGINE_PORTABLE), "");
}
END_TEST

/* "Prescott kernels on an AVX-512 machine": six times slower, and nobody notices. */
START_TEST(slow_kernel_sets_are_named_with_the_remedy)
{
    char text[320];
    ls_blas_cpu sse = {0, false, false}, avx = {1, false, false}, avx2 = {2, false, false};
    ls_blas_cpu avx512 = {3, false, false}, other = {-1, false, false};
    ck_assert(ls_blas_judge("Prescott", avx512, text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "Prescott"));
    ck_assert_ptr_nonnull(strstr(text, "OPENBLAS_CORETYPE=SkylakeX"));
    ck_assert(ls_blas_judge("Sandybridge", avx2, text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "OPENBLAS_CORETYPE=Haswell"));
    ck_assert_ptr_null(strchr(text, '\n'));
    const struct {
        const char *name;
        ls_blas_cpu cpu;
    } well[] = {{"Zen", avx2},     {"Haswell", avx2}, {"SkylakeX", avx512}, {"Sandybridge", avx},
                {"Prescott", sse}, {"Zen", other},    {"ARMV8", other},     {"NewThing", avx512}};
    for (size_t i = 0; i < sizeof well / sizeof well[0]; i++) {
        ck_assert(ls_blas_judge(well[i].name, well[i].cpu, text, sizeof text));
        ck_assert_str_eq(text, "");
    }
}
END_TEST

/* OPENBLAS_CORETYPE=SkylakeX on a machine without AVX-512 would end in an illegal instruction. */
START_TEST(kernel_sets_that_the_cpu_cannot_run_are_refused)
{
    char text[320];
    ls_blas_cpu avx = {1, false, false}, avx2 = {2, false, false}, avx512 = {3, false, false};
    ls_blas_cpu fma4 = {1, true, false}, now3d = {0, false, true};
    const struct {
        const char *name;
        ls_blas_cpu cpu;
        const char *lacks, *use;
    } bad[] = {{"SkylakeX", avx2, "AVX-512", "use Haswell"},
               {"Haswell", avx, "AVX2", "use Sandybridge"},
               {"Piledriver", avx512, "FMA4", "use SkylakeX"},
               {"Excavator", now3d, "AVX", "use Prescott"},
               {"Opteron", avx2, "3DNow!", "use Haswell"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!ls_blas_judge(bad[i].name, bad[i].cpu, text, sizeof text), "%s",
                      bad[i].name);
        ck_assert_ptr_nonnull(strstr(text, bad[i].name));
        ck_assert_ptr_nonnull(strstr(text, bad[i].lacks));
        ck_assert_ptr_nonnull(strstr(text, bad[i].use));
        ck_assert_ptr_nonnull(strstr(text, "OPENBLAS_CORETYPE"));
    }
    ck_assert(ls_blas_judge("Piledriver", fma4, text, sizeof text));
    ck_assert(ls_blas_judge("Opteron", now3d, text, sizeof text));
    ck_assert(ls_engine_check(LS_ENGINE_PORTABLE) == LS_OK);
}
END_TEST

#ifdef LS_HAVE_OPENBLAS

/* Runs of granules of m and n and nodes of k, as ranks hold them, from operands with other leading
 * dimensions at other addresses: the slice of the whole, bit for bit. */
START_TEST(openblas_slices_at_granules)
{
    static const ls_axis ks[] = {{6, 40}, {3, 300}, {1, 513}, {12, 4}};
    for (size_t s = 0; s < 16; s++) {
        ls_axis m = ls_axis_of(4, 24), n = ls_axis_of(6, 20), k = ks[s / 4];
        ls_trans ta = trans(s % 2), tb = trans(s / 2 % 2);
        gemm_case g = gemm_case_make(ta, tb, m, n, k, 1, false, 40 + s);
        gemm_run(&g, LS_ENGINE_OPENBLAS, false);
        for (size_t cut = 0; cut < 20; cut++) {
            size_t gm = cut % m.granules, gn = cut % n.granules;
            ls_axis rows = ls_axis_of(1 + cut % (m.granules - gm), m.granule);
            ls_axis cols = ls_axis_of(1 + cut * 5 % (n.granules - gn), n.granule);
            size_t er = ls_axis_extent(rows), ec = ls_axis_extent(cols), ek = ls_axis_extent(k);
            gemm_case part = gemm_case_make(ta, tb, rows, cols, k, 3 + cut % 3, false, 1);
            for (size_t l = 0; l < ek; l++) {
                for (size_t i = 0; i < er; i++)
                    *gemm_a(&part, i, l) = *gemm_a(&g, gm * m.granule + i, l);
                for (size_t j = 0; j < ec; j++)
                    *gemm_b(&part, l, j) = *gemm_b(&g, l, gn * n.granule + j);
            }
            gemm_run(&part, LS_ENGINE_OPENBLAS, false);
            gemm_check_bands(&part);
            for (size_t i = 0; i < er; i++)
                ck_assert(memcmp(part.c + i * part.ldc,
                                 g.c + (gm * m.granule + i) * g.ldc + gn * n.granule,
                                 ec * sizeof *g.c) == 0);
            gemm_case_free(&part);
        }
        gemm_case_free(&g);
    }
}
END_TEST

START_TEST(openblas_nodes_of_granules_finish_the_product)
{
    enum { M = 26, N = 18 };
    for (size_t granules = 1; granules <= 13; granules++)
        for (size_t ranks = 1; ranks <= granules; ranks += 1 + ranks / 4) {
            ls_axis k = ls_axis_of(granules, granules % 2 ? 24 : 270);
            gemm_case g = gemm_case_make(LS_TRANS, LS_NO_TRANS, ls_axis_of(2, M / 2),
                                         ls_axis_of(3, N / 3), k, 0, false, granules);
            gemm_run(&g, LS_ENGINE_OPENBLAS, false);
            ls_node nodes[LS_FOREST_MAX];
            const ls_real *parts[LS_FOREST_MAX];
            ls_real *values = gemm_nans((size_t)16 * M * N), *y = gemm_nans((size_t)M * N);
            size_t count = 0;
            for (size_t r = 0; r < ranks; r++) {
                size_t own = ls_tree_forest(granules, r * granules / ranks,
                                            (r + 1) * granules / ranks, nodes + count);
                for (; own > 0; own--, count++) {
                    ls_node node = nodes[count];
                    parts[count] = values + count * M * N;
                    ck_assert(ls_gemm(LS_ENGINE_OPENBLAS, g.ta, g.tb, g.m, g.n,
                                      ls_axis_of(node.hi - node.lo, k.granule),
                                      gemm_a(&g, 0, node.lo * k.granule), g.lda,
                                      gemm_b(&g, node.lo * k.granule, 0), g.ldb,
                                      values + count * M * N, N, false) == LS_OK);
                }
            }
            ls_tree_finish(y, parts, nodes, count, granules, (size_t)M * N);
            ck_assert(memcmp(y, g.c, (size_t)M * N * sizeof *y) == 0);
            free(values), free(y);
            gemm_case_free(&g);
        }
}
END_TEST

/* Accumulation is one rounded addition to the finished sum, with one leaf as with many. */
START_TEST(openblas_accumulates_once)
{
    for (size_t s = 0; s < 2; s++) {
        gemm_case g = gemm_case_make(LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(9), ls_axis_of(2, 11),
                                     ls_axis_of(1 + 2 * s, 100), 1, false, 3);
        ls_real first[9 * 22], sum[9 * 22];
        gemm_run(&g, LS_ENGINE_OPENBLAS, false);
        for (size_t i = 0; i < 9 * 22; i++) sum[i] = g.c[i / 22 * g.ldc + i % 22];
        reference_fill(first, 9 * 22, 5);
        for (size_t i = 0; i < 9 * 22; i++) g.c[i / 22 * g.ldc + i % 22] = first[i];
        gemm_run(&g, LS_ENGINE_OPENBLAS, true);
        for (size_t i = 0; i < 9 * 22; i++)
            ck_assert(gemm_same(g.c[i / 22 * g.ldc + i % 22], first[i] + sum[i]));
        gemm_case_free(&g);
    }
}
END_TEST

#else

START_TEST(without_openblas_the_engines_say_so)
{
    ls_real x[1] = {1}, c[1] = {7};
    for (ls_engine e = LS_ENGINE_OPENBLAS; e <= LS_ENGINE_PLAIN; e++) {
        ls_error_clear();
        ck_assert(ls_gemm(e, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(1), ls_axis_whole(1),
                          ls_axis_whole(1), x, 1, x, 1, c, 1, false) == LS_ERR_INPUT);
        ck_assert(c[0] == 7);
        ck_assert_ptr_nonnull(strstr(ls_error_text(), "no OpenBLAS"));
        ck_assert_ptr_nonnull(strstr(ls_error_text(), ls_engine_name(e)));
    }
}
END_TEST

#endif

/* More threads than cores, each with its own product of its own shape, again and again: equal to
 * what one thread gets. Threads fill their slot; the main thread looks. */
enum { THREADS = 24, ROUNDS = 6 };

typedef struct worker {
    gemm_case g;
    ls_engine engine;
    ls_real *expected;
    size_t wrong;
    ls_status status;
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    gemm_case *g = &w->g;
    for (size_t round = 0; round < ROUNDS && w->status == LS_OK; round++) {
        w->status = ls_gemm(w->engine, g->ta, g->tb, g->m, g->n, g->k, g->a, g->lda, g->b, g->ldb,
                            g->c, g->ldc, false);
        for (size_t i = 0; i < g->c_total; i++)
            if (!isnan(w->expected[i]) && !gemm_same(w->expected[i], g->c_start[i])) w->wrong++;
    }
    return NULL;
}

START_TEST(many_threads_at_once)
{
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        w->engine = engines[t % ENGINES];
        w->g = gemm_case_make(trans(t % 2), trans(t / 2 % 2), ls_axis_of(2, 20 + t),
                              ls_axis_of(3, 10 + t), ls_axis_of(4, 70), 1, false, t);
        gemm_run(&w->g, w->engine, false);
        w->expected = malloc(w->g.c_total * sizeof *w->expected);
        memcpy(w->expected, w->g.c_start, w->g.c_total * sizeof *w->expected);
    }
    for (size_t t = 0; t < THREADS; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, work, &workers[t]), 0);
    for (size_t t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (size_t t = 0; t < THREADS; t++) {
        ck_assert(workers[t].status == LS_OK);
        ck_assert_uint_eq(workers[t].wrong, 0);
        free(workers[t].expected);
        gemm_case_free(&workers[t].g);
    }
}
END_TEST

START_TEST(impossible_sizes_are_errors)
{
    ls_real x[1] = {1}, c[1] = {7};
    ls_error_clear();
    ck_assert(ls_gemm((ls_engine)9, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(1), ls_axis_whole(1),
                      ls_axis_whole(1), x, 1, x, 1, c, 1, false) == LS_ERR_INPUT);
    ck_assert(c[0] == 7);
#ifdef LS_HAVE_OPENBLAS
    ls_error_clear();
    ck_assert(ls_gemm(LS_ENGINE_OPENBLAS, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(1),
                      ls_axis_whole(SIZE_MAX / 2), ls_axis_whole(1), x, 1, x, 1, c, 1,
                      false) == LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "--gemm portable"));
#endif
}
END_TEST

int main(void)
{
    TCase *tc = test_case("engines", 120);
    tcase_add_test(tc, engines_are_exact_on_small_integers);
    tcase_add_test(tc, engines_are_near_the_truth);
    tcase_add_test(tc, names_go_there_and_back);
    tcase_add_test(tc, slow_kernel_sets_are_named_with_the_remedy);
    tcase_add_test(tc, kernel_sets_that_the_cpu_cannot_run_are_refused);
#ifdef LS_HAVE_OPENBLAS
    tcase_add_test(tc, openblas_slices_at_granules);
    tcase_add_test(tc, openblas_nodes_of_granules_finish_the_product);
    tcase_add_test(tc, openblas_accumulates_once);
#else
    tcase_add_test(tc, without_openblas_the_engines_say_so);
    note_skip("openblas_slices_at_granules", "built without OpenBLAS");
    note_skip("openblas_nodes_of_granules_finish_the_product", "built without OpenBLAS");
    note_skip("openblas_accumulates_once", "built without OpenBLAS");
#endif
    tcase_add_test(tc, many_threads_at_once);
    tcase_add_test(tc, impossible_sizes_are_errors);
    return run_tests();
}
