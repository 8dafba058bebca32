/* test_gemm.c - the portable product against the contract, element by element (rules 5, 6, 7). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/isa.h"
#include "numerics/gemm_case.h"
#include "run_tests.h"

static const ls_trans both[] = {LS_NO_TRANS, LS_TRANS};
#define FOR_TRANSPOSES(ta, tb)                                                                     \
    for (size_t ta##_ = 0; ta##_ < 2; ta##_++)                                                     \
        for (size_t tb##_ = 0; tb##_ < 2; tb##_++)                                                 \
            for (ls_trans ta = both[ta##_], tb = both[tb##_], *once = &ta; once; once = NULL)

/* Every element, or every `stride`-th of a large product, against the words of the contract. */
static void check_contract(const gemm_case *g, size_t stride)
{
    size_t en = ls_axis_extent(g->n), count = ls_axis_extent(g->m) * en;
    for (size_t e = 0; e < count; e += stride) {
        size_t i = e / en, j = e % en;
        ls_real expected = gemm_element(g, i, j), found = g->c[i * g->ldc + j];
        ck_assert_msg(gemm_same(expected, found),
                      "(%zu, %zu) of %zu x %zu, k %zu x %zu, transposes %d %d, %s: %a, not %a", i,
                      j, ls_axis_extent(g->m), en, g->k.granules, g->k.granule, (int)g->ta,
                      (int)g->tb, ls_isa_name(ls_isa_current()), (double)found, (double)expected);
    }
}

static void check(ls_trans ta, ls_trans tb, size_t m, size_t n, ls_axis k, size_t pad,
                  size_t stride)
{
    gemm_case g = gemm_case_make(ta, tb, ls_axis_whole(m), ls_axis_whole(n), k, pad, false,
                                 m * 31 + n * 7 + k.granules);
    gemm_run(&g, LS_ENGINE_PORTABLE, false);
    gemm_check_bands(&g);
    check_contract(&g, stride);
    gemm_case_free(&g);
}

/* One test per instruction set that this CPU has. */
static ls_isa isa_of(int i)
{
    ls_isa isa = (ls_isa)i;
    if (ls_isa_available(isa)) ls_isa_force(isa);
    return isa;
}
#define SKIP_UNLESS_AVAILABLE(i)                                                                   \
    if (!ls_isa_available(isa_of(i))) return

/* Granule sizes around the leaf, granule counts whose trees are all different. */
START_TEST(contract_over_granules)
{
    SKIP_UNLESS_AVAILABLE(_i);
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 64, 255, 256, 257, 513};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t granules = 1; granules <= 13; granules++) {
            ls_axis k = ls_axis_of(granules, sizes[s]);
            size_t stride = 1 + ls_axis_extent(k) / 150;
            check(both[s % 2], both[granules % 2], 5 + granules, 19 + s, k, s % 3, stride);
        }
}
END_TEST

/* Every size of edge tile, every transpose, leading dimensions above the width. */
START_TEST(contract_over_shapes)
{
    SKIP_UNLESS_AVAILABLE(_i);
    FOR_TRANSPOSES(ta, tb)
    for (size_t m = 1; m <= 14; m++)
        for (size_t n = 1; n <= 35; n += m % 3 + 1)
            check(ta, tb, m, n, ls_axis_of(1 + m % 3, 1 + n % 5), m % 2, 1);
}
END_TEST

/* Larger than one block in every direction. */
START_TEST(contract_over_blocks)
{
    SKIP_UNLESS_AVAILABLE(_i);
    if (_i == LS_ISA_SCALAR) return; /* the blocking is the same code for all */
    check(LS_NO_TRANS, LS_TRANS, 1031, 23, ls_axis_of(3, 300), 1, 997);
    check(LS_TRANS, LS_NO_TRANS, 41, 1601, ls_axis_of(5, 261), 2, 1999);
    check(LS_TRANS, LS_TRANS, 389, 787, ls_axis_of(12, 4), 1, 1013);
    check(LS_NO_TRANS, LS_NO_TRANS, 7, 18, ls_axis_of(12, 4192), 0, 11); /* a vocabulary */
    check(LS_NO_TRANS, LS_TRANS, 3, 5, ls_axis_of(2500, 1), 0, 1);       /* many leaves of one */
    /* runs of many leaves in many tiles, each run taking over what the last ones left */
    check(LS_TRANS, LS_TRANS, 41, 70, ls_axis_of(300, 3), 1, 7);
    check(LS_NO_TRANS, LS_NO_TRANS, 29, 53, ls_axis_of(97, 11), 0, 7);
    check(LS_NO_TRANS, LS_TRANS, 15, 101, ls_axis_of(43, 27), 2, 7);
}
END_TEST

/* Small integers: every partial sum is exact, any order must agree, so this finds what an ORDERED
 * test that shares a mistake with its expectation would not: a wrong transpose, a missing or
 * doubled term. */
START_TEST(small_integers_are_exact)
{
    SKIP_UNLESS_AVAILABLE(_i);
    static const size_t shapes[][3] = {{1, 1, 1},   {1, 17, 3},  {13, 1, 5},   {2, 3, 4},
                                       {7, 16, 9},  {6, 33, 31}, {25, 18, 70}, {12, 32, 259},
                                       {19, 49, 8}, {31, 5, 600}};
    FOR_TRANSPOSES(ta, tb)
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t accumulate = 0; accumulate < 2; accumulate++) {
            const size_t *d = shapes[s];
            ls_axis k = d[2] % 2 ? ls_axis_whole(d[2]) : ls_axis_of(2, d[2] / 2);
            gemm_case g =
                gemm_case_make(ta, tb, ls_axis_whole(d[0]), ls_axis_whole(d[1]), k, s % 4, true, s);
            for (size_t i = 0; accumulate && i < d[0]; i++)
                for (size_t j = 0; j < d[1]; j++) g.c[i * g.ldc + j] = (ls_real)(i + 2 * j);
            gemm_run(&g, LS_ENGINE_PORTABLE, accumulate);
            gemm_check_bands(&g);
            for (size_t i = 0; i < d[0]; i++)
                for (size_t j = 0; j < d[1]; j++) {
                    long sum = accumulate ? (long)(i + 2 * j) : 0;
                    for (size_t l = 0; l < d[2]; l++)
                        sum += (long)*gemm_a(&g, i, l) * (long)*gemm_b(&g, l, j);
                    ck_assert((long)g.c[i * g.ldc + j] == sum);
                }
            gemm_case_free(&g);
        }
}
END_TEST

/* C + T is one rounded addition to the finished T, and the same call twice gives the same bits. */
START_TEST(accumulate_adds_once)
{
    SKIP_UNLESS_AVAILABLE(_i);
    gemm_case g = gemm_case_make(LS_NO_TRANS, LS_TRANS, ls_axis_whole(13), ls_axis_whole(37),
                                 ls_axis_of(3, 300), 2, false, 8);
    ls_real *first = malloc(g.c_total * sizeof *first), *sum = malloc(g.c_total * sizeof *sum);
    gemm_run(&g, LS_ENGINE_PORTABLE, false);
    memcpy(sum, g.c_start, g.c_total * sizeof *sum);
    gemm_run(&g, LS_ENGINE_PORTABLE, false);
    for (size_t i = 0; i < 13; i++)
        for (size_t j = 0; j < 37; j++)
            ck_assert(gemm_same(g.c[i * g.ldc + j], sum[GEMM_GUARD + i * g.ldc + j]));
    reference_fill(first, g.c_total, 77);
    for (size_t i = 0; i < 13; i++)
        for (size_t j = 0; j < 37; j++) g.c[i * g.ldc + j] = first[i * 37 + j];
    gemm_run(&g, LS_ENGINE_PORTABLE, true);
    gemm_check_bands(&g);
    for (size_t i = 0; i < 13; i++)
        for (size_t j = 0; j < 37; j++) {
            ls_real expected = first[i * 37 + j] + sum[GEMM_GUARD + i * g.ldc + j];
            ck_assert(gemm_same(g.c[i * g.ldc + j], expected));
        }
    free(first), free(sum);
    gemm_case_free(&g);
}
END_TEST

/* A sub-block of rows and columns and any node of the k tree, computed from the sliced operands, is
 * the slice of the whole: what every rank relies on. */
START_TEST(slices_of_operands_give_slices_of_the_result)
{
    SKIP_UNLESS_AVAILABLE(_i);
    enum { M = 29, N = 45 };
    ls_axis k = ls_axis_of(12, 20);
    FOR_TRANSPOSES(ta, tb)
    {
        gemm_case g = gemm_case_make(ta, tb, ls_axis_whole(M), ls_axis_whole(N), k, 1, false, 12);
        gemm_run(&g, LS_ENGINE_PORTABLE, false);
        for (size_t cut = 0; cut < 60; cut++) {
            size_t i0 = cut * 7 % M, j0 = cut * 11 % N;
            size_t rows = 1 + cut * 5 % (M - i0), cols = 1 + cut * 13 % (N - j0);
            ls_real *part = gemm_nans(rows * cols);
            ck_assert(ls_gemm(LS_ENGINE_PORTABLE, ta, tb, ls_axis_whole(rows), ls_axis_whole(cols),
                              k, gemm_a(&g, i0, 0), g.lda, gemm_b(&g, 0, j0), g.ldb, part, cols,
                              false) == LS_OK);
            for (size_t i = 0; i < rows; i++)
                ck_assert(
                    memcmp(part + i * cols, g.c + (i0 + i) * g.ldc + j0, cols * sizeof *part) == 0);
            free(part);
        }
        gemm_case_free(&g);
    }
}
END_TEST

START_TEST(nodes_of_granules_finish_the_product)
{
    SKIP_UNLESS_AVAILABLE(_i);
    enum { M = 7, N = 18 };
    for (size_t granules = 1; granules <= 13; granules++)
        for (size_t ranks = 1; ranks <= granules; ranks++) {
            ls_axis k = ls_axis_of(granules, granules % 2 ? 24 : 270);
            gemm_case g = gemm_case_make(LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(M),
                                         ls_axis_whole(N), k, 0, false, granules);
            gemm_run(&g, LS_ENGINE_PORTABLE, false);
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
                    ck_assert(ls_gemm(LS_ENGINE_PORTABLE, g.ta, g.tb, g.m, g.n,
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

START_TEST(instruction_sets_agree)
{
    static const ls_axis ks[] = {{1, 768}, {12, 4}, {12, 256}, {7, 3}, {2, 1023}};
    for (size_t s = 0; s < sizeof ks / sizeof ks[0]; s++) {
        gemm_case g = gemm_case_make(both[s % 2], both[s / 2 % 2], ls_axis_whole(37),
                                     ls_axis_whole(61), ks[s], 1, false, 30 + s);
        ls_isa_force(LS_ISA_SCALAR);
        gemm_run(&g, LS_ENGINE_PORTABLE, false);
        ls_real *scalar = malloc(g.c_total * sizeof *scalar);
        memcpy(scalar, g.c_start, g.c_total * sizeof *scalar);
        for (int isa = 0; isa < LS_ISA_COUNT; isa++) {
            if (!ls_isa_available((ls_isa)isa)) continue;
            ls_isa_force((ls_isa)isa);
            gemm_run(&g, LS_ENGINE_PORTABLE, false);
            for (size_t i = 0; i < 37; i++)
                ck_assert(memcmp(g.c + i * g.ldc, scalar + GEMM_GUARD + i * g.ldc,
                                 61 * sizeof *scalar) == 0);
        }
        free(scalar);
        gemm_case_free(&g);
    }
}
END_TEST

/* The same bits on every machine and compiler: a hash (FNV-1a) of products over all kinds of axes,
 * as one machine once computed them. */
START_TEST(bits_are_the_same_everywhere)
{
    static const ls_axis ks[] = {{1, 1}, {12, 4}, {12, 64}, {1, 768}, {7, 300}, {13, 17}};
#ifdef LS_REAL_IS_F64
    const uint64_t expected = UINT64_C(0x09aac318f1e05de1);
#else
    const uint64_t expected = UINT64_C(0x28c21a2c326a7400);
#endif
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t s = 0; s < sizeof ks / sizeof ks[0]; s++) {
        gemm_case g = gemm_case_make(both[s % 2], both[s / 2 % 2], ls_axis_whole(19),
                                     ls_axis_whole(35), ks[s], 0, false, 90 + s);
        gemm_run(&g, LS_ENGINE_PORTABLE, false);
        for (size_t i = 0; i < 19 * 35; i++) {
            uint64_t bits = 0;
            memcpy(&bits, g.c + i, sizeof g.c[i]);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            bits >>= 64 - 8 * sizeof g.c[i];
#endif
            for (size_t byte = 0; byte < sizeof g.c[i]; byte++, bits >>= 8)
                hash = (hash ^ (bits & 255)) * UINT64_C(0x100000001b3);
        }
        gemm_case_free(&g);
    }
    ck_assert_msg(hash == expected, "%016llx", (unsigned long long)hash);
}
END_TEST

START_TEST(empty_axes)
{
    ls_real c[6], x[6] = {1, 2, 3, 4, 5, 6};
    const ls_axis none[] = {{0, 3}, {3, 0}, {0, 0}};
    for (size_t z = 0; z < 3; z++)
        for (ls_engine e = LS_ENGINE_PORTABLE; e <= LS_ENGINE_PORTABLE; e++) {
            for (size_t i = 0; i < 6; i++) c[i] = (ls_real)-0.0;
            ck_assert(ls_gemm(e, LS_NO_TRANS, LS_NO_TRANS, none[z], ls_axis_whole(2),
                              ls_axis_whole(2), x, 2, x, 2, c, 2, false) == LS_OK);
            ck_assert(ls_gemm(e, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(2), none[z],
                              ls_axis_whole(2), x, 2, x, 2, c, 2, true) == LS_OK);
            for (size_t i = 0; i < 6; i++) ck_assert(signbit(c[i]));
            /* no term at all: +0, and -0 + (+0) = +0 */
            ck_assert(ls_gemm(e, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(1), ls_axis_whole(2),
                              none[z], x, 2, x, 2, c, 2, false) == LS_OK);
            ck_assert(ls_gemm(e, LS_TRANS, LS_TRANS, ls_axis_whole(1), ls_axis_whole(2), none[z], x,
                              2, x, 2, c + 2, 2, true) == LS_OK);
            for (size_t i = 0; i < 4; i++) ck_assert(c[i] == 0 && !signbit(c[i]));
            ck_assert(signbit(c[4]) && signbit(c[5]));
        }
}
END_TEST

/* NaN and infinity reach exactly the elements whose row or column holds them; edge tiles are padded
 * with zeros, and infinity times a padding zero must not leak. */
START_TEST(nan_and_infinity_go_where_they_belong)
{
    SKIP_UNLESS_AVAILABLE(_i);
    enum { M = 8, N = 19, K = 300 };
    gemm_case g = gemm_case_make(LS_NO_TRANS, LS_TRANS, ls_axis_whole(M), ls_axis_whole(N),
                                 ls_axis_whole(K), 1, false, 9);
    *gemm_a(&g, 7, 299) = (ls_real)NAN;
    *gemm_a(&g, 2, 3) = (ls_real)INFINITY;
    *gemm_b(&g, 5, 18) = (ls_real)-INFINITY;
    *gemm_b(&g, 3, 4) = (ls_real)0; /* infinity times 0 */
    ck_assert(ls_gemm(LS_ENGINE_PORTABLE, g.ta, g.tb, g.m, g.n, g.k, g.a, g.lda, g.b, g.ldb, g.c,
                      g.ldc, false) == LS_OK);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            ls_real c = g.c[i * g.ldc + j], expected = gemm_element(&g, i, j);
            ck_assert(isnan(c) == isnan(expected) && (isnan(c) || gemm_same(c, expected)));
            if (i != 2 && i != 7 && j != 18) ck_assert(isfinite(c));
        }
    ck_assert(isnan(g.c[7 * g.ldc]) && isnan(g.c[2 * g.ldc + 4]) && isinf(g.c[2 * g.ldc + 3]));
    for (size_t i = 0; i < M; i++) ck_assert(isnan(g.c[i * g.ldc + N]));
    gemm_case_free(&g);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("gemm", 120);
    tcase_add_loop_test(tc, contract_over_granules, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, contract_over_shapes, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, contract_over_blocks, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, small_integers_are_exact, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, accumulate_adds_once, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, slices_of_operands_give_slices_of_the_result, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, nodes_of_granules_finish_the_product, 0, LS_ISA_COUNT);
    tcase_add_loop_test(tc, nan_and_infinity_go_where_they_belong, 0, LS_ISA_COUNT);
    tcase_add_test(tc, instruction_sets_agree);
    tcase_add_test(tc, bits_are_the_same_everywhere);
    tcase_add_test(tc, empty_axes);
    return run_tests();
}
