/* test_tree.c - tree, forest and the sums down columns (contract rules 5, 6, 8, 9). */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/tree.h"
#include "numerics/tree_reference.h"
#include "run_tests.h"

static void fill_nan(ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)NAN;
}

START_TEST(split_is_half_or_the_largest_power_of_two_below)
{
    static const size_t expected[][2] = {
        {2, 1},   {3, 2},   {4, 2},   {5, 4},   {6, 3},   {7, 4},    {8, 4},    {9, 8},
        {10, 5},  {11, 8},  {12, 6},  {13, 8},  {14, 7},  {15, 8},   {17, 16},  {31, 16},
        {33, 32}, {50, 25}, {63, 32}, {65, 64}, {96, 48}, {127, 64}, {129, 128}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_uint_eq(ls_tree_split(expected[i][0]), expected[i][1]);
    ck_assert_uint_eq(ls_tree_split(SIZE_MAX), SIZE_MAX / 2 + 1);
}
END_TEST

/* 12 heads: one partial per rank at tp 1, 2, 4, 12; three at tp 3 (middle rank); two at tp 6. */
START_TEST(forest_of_twelve_heads)
{
    ls_node nodes[LS_FOREST_MAX];
    ck_assert_uint_eq(ls_tree_forest(12, 0, 12, nodes), 1);
    ck_assert(nodes[0].lo == 0 && nodes[0].hi == 12);
    ck_assert_uint_eq(ls_tree_forest(12, 6, 12, nodes), 1);
    ck_assert(nodes[0].lo == 6 && nodes[0].hi == 12);
    for (size_t r = 0; r < 4; r++) ck_assert_uint_eq(ls_tree_forest(12, 3 * r, 3 * r + 3, NULL), 1);
    for (size_t r = 0; r < 12; r++) ck_assert_uint_eq(ls_tree_forest(12, r, r + 1, NULL), 1);

    static const ls_node tp3[3][3] = {
        {{0, 3}, {3, 4}}, {{4, 5}, {5, 6}, {6, 8}}, {{8, 9}, {9, 12}}};
    static const size_t tp3_count[3] = {2, 3, 2};
    for (size_t r = 0; r < 3; r++) {
        ck_assert_uint_eq(ls_tree_forest(12, 4 * r, 4 * r + 4, nodes), tp3_count[r]);
        for (size_t i = 0; i < tp3_count[r]; i++)
            ck_assert(nodes[i].lo == tp3[r][i].lo && nodes[i].hi == tp3[r][i].hi);
    }
    static const size_t tp6_count[6] = {1, 2, 2, 1, 2, 2};
    for (size_t r = 0; r < 6; r++)
        ck_assert_uint_eq(ls_tree_forest(12, 2 * r, 2 * r + 2, NULL), tp6_count[r]);
}
END_TEST

START_TEST(forest_of_an_empty_run_is_empty)
{
    for (size_t n = 0; n < 10; n++)
        for (size_t lo = 0; lo <= n; lo++) ck_assert_uint_eq(ls_tree_forest(n, lo, lo, NULL), 0);
}
END_TEST

/* Whatever the size, a forest fits into LS_FOREST_MAX nodes. */
START_TEST(forest_of_a_huge_tree_is_bounded)
{
    static ls_node nodes[LS_FOREST_MAX];
    size_t half = (size_t)1 << 62;
    ck_assert_uint_le(ls_tree_forest(2 * half, 1, 2 * half - 1, nodes), LS_FOREST_MAX);
    ck_assert_uint_le(ls_tree_forest(SIZE_MAX, 1, SIZE_MAX - 1, nodes), LS_FOREST_MAX);
}
END_TEST

/* Every node that a tree has, by walking it. */
static int tree_has(size_t lo, size_t hi, ls_node node)
{
    if (node.lo == lo && node.hi == hi) return 1;
    if (hi - lo < 2) return 0;
    size_t middle = lo + ls_tree_split(hi - lo);
    return node.hi <= middle ? tree_has(lo, middle, node) : tree_has(middle, hi, node);
}

START_TEST(forest_is_complete_disjoint_and_of_largest_nodes)
{
    for (size_t n = 1; n <= 64; n++)
        for (size_t lo = 0; lo < n; lo++)
            for (size_t hi = lo + 1; hi <= n; hi++) {
                ls_node nodes[LS_FOREST_MAX];
                size_t count = ls_tree_forest(n, lo, hi, nodes), at = lo;
                ck_assert_uint_le(count, LS_FOREST_MAX);
                ck_assert_uint_eq(count, ls_tree_forest(n, lo, hi, NULL));
                for (size_t i = 0; i < count; i++) {
                    ck_assert_uint_eq(nodes[i].lo, at);
                    ck_assert(tree_has(0, n, nodes[i]));
                    /* not the half of a node that also lies inside */
                    if (i > 0) ck_assert(!tree_has(0, n, (ls_node){nodes[i - 1].lo, nodes[i].hi}));
                    at = nodes[i].hi;
                }
                ck_assert_uint_eq(at, hi);
            }
}
END_TEST

START_TEST(sum_is_the_definition)
{
    enum { MAX = 1100, STRIDE = 3 };
    static ls_real x[MAX], wide[MAX * STRIDE];
    reference_fill(x, MAX, 1);
    fill_nan(wide, MAX * STRIDE);
    for (size_t i = 0; i < MAX; i++) wide[i * STRIDE] = x[i];
    for (size_t n = 0; n < MAX; n++) {
        ls_real expected = reference_tree(x, n);
        ls_real sum = ls_tree_sum(x, n, 1), strided = ls_tree_sum(wide, n, STRIDE);
        ck_assert(memcmp(&sum, &expected, sizeof sum) == 0);
        ck_assert(memcmp(&strided, &expected, sizeof sum) == 0);
    }
    ls_real nothing = ls_tree_sum(x, 0, 1);
    ck_assert(nothing == (ls_real)0 && !signbit(nothing));
}
END_TEST

/* A tree is not a chain: the data tells the two apart, so the comparisons of this file can fail. */
START_TEST(tree_differs_from_a_running_sum)
{
    enum { N = 64 };
    ls_real x[N], chain = 0;
    reference_fill(x, N, 2);
    for (size_t i = 0; i < N; i++) chain += x[i];
    ck_assert(chain != ls_tree_sum(x, N, 1));
}
END_TEST

/* Sums down the columns, column by column from the definition; guard bands and NaN around all. */
static void check_rows(ls_axis rows, size_t cols, size_t pad, bool dot)
{
    enum { GUARD = 8 };
    size_t n = ls_axis_extent(rows), lda = cols + pad, ldb = cols + 2 * pad;
    ls_real *a = malloc((n * lda + 1) * sizeof *a), *b = malloc((n * ldb + 1) * sizeof *b);
    ls_real *y = malloc((cols + 2 * GUARD) * sizeof *y), *again = malloc((cols + 1) * sizeof *y);
    ls_real *column = malloc((n + 1) * sizeof *column);
    ls_real *granule = malloc((rows.granules + 1) * sizeof *granule);
    fill_nan(a, n * lda);
    fill_nan(b, n * ldb);
    fill_nan(y, cols + 2 * GUARD);
    fill_nan(again, cols);
    for (size_t r = 0; r < n; r++) {
        reference_fill(a + r * lda, cols, 100 + r);
        reference_fill(b + r * ldb, cols, 2000 + r);
    }
    for (int time = 0; time < 2; time++) {
        ls_real *out = time ? again : y + GUARD;
        if (dot)
            ls_tree_dot_rows(out, a, lda, b, ldb, rows, cols);
        else
            ls_tree_sum_rows(out, a, rows, cols, lda);
    }
    for (size_t c = 0; c < cols; c++) {
        for (size_t r = 0; r < n; r++) {
            ls_real product = a[r * lda + c] * b[r * ldb + c];
            column[r] = dot ? product : a[r * lda + c];
        }
        for (size_t g = 0; g < rows.granules; g++)
            granule[g] = reference_tree(column + g * rows.granule, rows.granule);
        ls_real expected = reference_tree(granule, rows.granules);
        ck_assert_msg(memcmp(&expected, y + GUARD + c, sizeof expected) == 0,
                      "%zu x %zu rows, column %zu of %zu: %a, not %a", rows.granules, rows.granule,
                      c, cols, (double)y[GUARD + c], (double)expected);
    }
    ck_assert(memcmp(again, y + GUARD, cols * sizeof *y) == 0);
    for (size_t i = 0; i < GUARD; i++) ck_assert(isnan(y[i]) && isnan(y[GUARD + cols + i]));
    free(a), free(b), free(y), free(again), free(column), free(granule);
}

START_TEST(rows_are_summed_in_granules_then_over_granules)
{
    static const size_t granules[] = {0, 1, 2, 3, 5, 7, 12, 13},
                        sizes[] = {0, 1, 2, 3, 4, 7, 24, 65};
    static const size_t widths[] = {0, 1, 5, 127, 257, 300};
    for (size_t g = 0; g < sizeof granules / sizeof granules[0]; g++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                ls_axis rows = ls_axis_of(granules[g], sizes[s]);
                check_rows(rows, widths[w], 0, false);
                check_rows(rows, widths[w], 3, true);
            }
    check_rows(ls_axis_of(3, 700), 130, 1, false);
    check_rows(ls_axis_of(2, 1023), 17, 0, true);
}
END_TEST

/* All n up to 64, cut into 1..8 contiguous runs: every rank finishes the nodes of its run alone,
 * and any set of runs put together gives T(n), bit for bit. Runs of all cuts into up to 3 ranks,
 * equal and uneven cuts (empty runs too) into more. */
enum { MAX_LEAVES = 64, MAX_RANKS = 8, COUNT = 3 };

static void check_cut(const ls_real leaves[MAX_LEAVES][COUNT], size_t n, const size_t *bounds,
                      size_t ranks, const ls_real expected[COUNT])
{
    static ls_real values[MAX_LEAVES][COUNT];
    static ls_node nodes[MAX_LEAVES + LS_FOREST_MAX];
    const ls_real *parts[MAX_LEAVES];
    size_t count = 0;
    for (size_t r = 0; r < ranks; r++) {
        size_t own = ls_tree_forest(n, bounds[r], bounds[r + 1], nodes + count);
        for (size_t i = count; i < count + own; i++) {
            /* The rank knows how many leaves its node has, not where it hangs. */
            ls_tree_sum_rows(values[i], leaves[nodes[i].lo],
                             ls_axis_whole(nodes[i].hi - nodes[i].lo), COUNT, COUNT);
            parts[i] = values[i];
        }
        count += own;
    }
    ls_real y[COUNT];
    fill_nan(y, COUNT);
    ls_tree_finish(y, parts, nodes, count, n, COUNT);
    ck_assert_msg(memcmp(y, expected, sizeof y) == 0, "n %zu, %zu ranks", n, ranks);
    /* in place: the result over any one of the parts */
    size_t into = (n * 31 + ranks) % count;
    ls_tree_finish(values[into], parts, nodes, count, n, COUNT);
    ck_assert(memcmp(values[into], expected, sizeof y) == 0);
}

static size_t cut_everywhere(const ls_real leaves[MAX_LEAVES][COUNT], size_t n, size_t *bounds,
                             size_t rank, size_t ranks, size_t step, const ls_real expected[COUNT])
{
    if (rank == ranks) {
        bounds[ranks] = n;
        check_cut(leaves, n, bounds, ranks, expected);
        return 1;
    }
    size_t cuts = 0;
    for (size_t at = bounds[rank - 1]; at <= n; at += step) {
        bounds[rank] = at;
        cuts += cut_everywhere(leaves, n, bounds, rank + 1, ranks, step, expected);
    }
    return cuts;
}

START_TEST(partials_of_any_cut_finish_the_tree)
{
    static ls_real leaves[MAX_LEAVES][COUNT];
    size_t cuts = 0;
    reference_fill(leaves[0], (size_t)MAX_LEAVES * COUNT, 3);
    for (size_t n = 1; n <= MAX_LEAVES; n++) {
        ls_real expected[COUNT], column[MAX_LEAVES];
        for (size_t c = 0; c < COUNT; c++) {
            for (size_t r = 0; r < n; r++) column[r] = leaves[r][c];
            expected[c] = reference_tree(column, n);
        }
        for (size_t ranks = 1; ranks <= MAX_RANKS; ranks++) {
            size_t bounds[MAX_RANKS + 1] = {0};
            /* every cut while they are few, then cuts on a coarser grid */
            size_t step = ranks <= 2 ? 1 : ranks == 3 ? 1 + n / 24 : 1 + n / (ranks < 6 ? 6 : 3);
            cuts += cut_everywhere(leaves, n, bounds, 1, ranks, step, expected);
            for (size_t r = 0; r <= ranks; r++) bounds[r] = r * n / ranks; /* as even as it goes */
            check_cut(leaves, n, bounds, ranks, expected);
            cuts++;
        }
    }
    ck_assert_uint_gt(cuts, 28315);
}
END_TEST

/* 7 sequences on 2 ranks and 2 micro-batches; partials kept per node are merged in whatever order
 * they come. The order is drawn, the result is one. */
START_TEST(order_of_arrival_is_no_order_of_addition)
{
    static ls_real leaves[MAX_LEAVES][COUNT];
    reference_fill(leaves[0], (size_t)MAX_LEAVES * COUNT, 4);
    for (size_t n = 2; n <= 13; n++) {
        ls_real expected[COUNT], column[MAX_LEAVES];
        for (size_t c = 0; c < COUNT; c++) {
            for (size_t r = 0; r < n; r++) column[r] = leaves[r][c];
            expected[c] = reference_tree(column, n);
        }
        for (uint64_t draw = 0; draw < 40; draw++) {
            /* a store of nodes: a leaf comes in, siblings merge while both are there */
            ls_node have[MAX_LEAVES];
            ls_real value[MAX_LEAVES][COUNT];
            size_t count = 0;
            bool seen[MAX_LEAVES] = {false};
            uint64_t state = draw * 2654435761u + n;
            for (size_t arrived = 0; arrived < n; arrived++) {
                size_t leaf;
                do {
                    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
                    leaf = (size_t)(state >> 33) % n;
                } while (seen[leaf]);
                seen[leaf] = true;
                have[count] = (ls_node){leaf, leaf + 1};
                memcpy(value[count++], leaves[leaf], sizeof value[0]);
                for (size_t i = 0; i < count; i++)
                    for (size_t j = 0; j < count; j++) {
                        ls_node both = {have[i].lo, have[j].hi};
                        if (i == j || have[i].hi != have[j].lo || !tree_has(0, n, both)) continue;
                        if (both.lo + ls_tree_split(both.hi - both.lo) != have[i].hi) continue;
                        const ls_real *parts[2] = {value[i], value[j]};
                        ls_node pair[2] = {{0, have[i].hi - both.lo},
                                           {have[i].hi - both.lo, both.hi - both.lo}};
                        ls_tree_finish(value[i], parts, pair, 2, both.hi - both.lo, COUNT);
                        have[i] = both;
                        have[j] = have[--count];
                        memcpy(value[j], value[count], sizeof value[0]);
                        i = j = 0; /* start over: a merged node may have a sibling */
                    }
            }
            ck_assert_uint_eq(count, 1);
            ck_assert(memcmp(value[0], expected, sizeof expected) == 0);
        }
    }
}
END_TEST

START_TEST(finish_of_long_arrays_and_of_nothing)
{
    enum { LONG = 1000, N = 5 };
    static ls_real leaves[N][LONG], y[LONG + 1];
    static const ls_node nodes[N] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
    const ls_real *parts[N];
    for (size_t r = 0; r < N; r++) {
        reference_fill(leaves[r], LONG, 50 + r);
        parts[r] = leaves[r];
    }
    for (size_t count = 0; count <= LONG; count += count < 300 ? 1 : 99) {
        fill_nan(y, LONG + 1);
        ls_tree_finish(y, parts, nodes, N, N, count);
        for (size_t i = 0; i < count; i++) {
            ls_real column[N];
            for (size_t r = 0; r < N; r++) column[r] = leaves[r][i];
            ls_real expected = reference_tree(column, N);
            ck_assert(memcmp(&expected, y + i, sizeof expected) == 0);
        }
        ck_assert(isnan(y[count]));
    }
    fill_nan(y, 3);
    ls_tree_finish(y, NULL, NULL, 0, 0, 2);
    ck_assert(y[0] == (ls_real)0 && !signbit(y[0]) && y[1] == (ls_real)0 && isnan(y[2]));
}
END_TEST

/* Nothing to add is -0: a rank without a term leaves the sum alone, the sign of zero included. */
START_TEST(minus_zero_is_neutral)
{
    ls_real x[4] = {(ls_real)-0.0, (ls_real)-0.0, (ls_real)-0.0, (ls_real)-0.0};
    ck_assert(signbit(ls_tree_sum(x, 4, 1)));
    x[2] = (ls_real)0.0;
    ck_assert(!signbit(ls_tree_sum(x, 4, 1)));
    x[2] = (ls_real)1.5;
    ck_assert(ls_tree_sum(x, 4, 1) == (ls_real)1.5);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("tree", 120);
    tcase_add_test(tc, split_is_half_or_the_largest_power_of_two_below);
    tcase_add_test(tc, forest_of_twelve_heads);
    tcase_add_test(tc, forest_of_an_empty_run_is_empty);
    tcase_add_test(tc, forest_of_a_huge_tree_is_bounded);
    tcase_add_test(tc, forest_is_complete_disjoint_and_of_largest_nodes);
    tcase_add_test(tc, sum_is_the_definition);
    tcase_add_test(tc, tree_differs_from_a_running_sum);
    tcase_add_test(tc, rows_are_summed_in_granules_then_over_granules);
    tcase_add_test(tc, partials_of_any_cut_finish_the_tree);
    tcase_add_test(tc, order_of_arrival_is_no_order_of_addition);
    tcase_add_test(tc, finish_of_long_arrays_and_of_nothing);
    tcase_add_test(tc, minus_zero_is_neutral);
    return run_tests();
}
