/* test_row_sum.c - sums and maxima along a row (contract rules 3, 10, 16). */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/row_sum.h"
#include "numerics/tree_reference.h"
#include "run_tests.h"

enum { MAX = 600, LANES = 16 };

/* Rule 10 from its words: lanes l, l + 16, ... ascending, T(16) over them. */
static ls_real lanes_then_tree(const ls_real *term, size_t n)
{
    ls_real lane[LANES];
    if (n == 0) return (ls_real)0;
    for (size_t l = 0; l < LANES; l++) {
        lane[l] = (ls_real)-0.0;
        if (l < n) lane[l] = term[l];
        for (size_t i = l + LANES; i < n; i += LANES) lane[l] = lane[l] + term[i];
    }
    return reference_tree(lane, LANES);
}

static int same(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

START_TEST(sums_are_lanes_then_tree)
{
    static ls_real x[MAX], y[MAX], product[MAX], square[MAX];
    const ls_real center = (ls_real)0.3;
    reference_fill(x, MAX, 1);
    reference_fill(y, MAX, 2);
    for (size_t i = 0; i < MAX; i++) {
        ls_real d = x[i] - center;
        product[i] = x[i] * y[i];
        square[i] = d * d;
    }
    for (size_t n = 0; n <= MAX; n++) {
        ck_assert(same(ls_row_sum(x, n), lanes_then_tree(x, n)));
        ck_assert(same(ls_row_dot(x, y, n), lanes_then_tree(product, n)));
        ck_assert(same(ls_row_squares(x, center, n), lanes_then_tree(square, n)));
    }
    ck_assert(same(ls_row_sum(x, 0), (ls_real)0));
    /* the order matters for this data, so the comparison above can fail */
    ls_real chain = 0;
    for (size_t i = 0; i < MAX; i++) chain += x[i];
    ck_assert(!same(ls_row_sum(x, MAX), chain));
}
END_TEST

START_TEST(sums_of_signed_zeros)
{
    ls_real x[3] = {(ls_real)-0.0, (ls_real)-0.0, (ls_real)-0.0};
    ck_assert(same(ls_row_sum(x, 3), (ls_real)-0.0));
    x[1] = (ls_real)0.0;
    ck_assert(same(ls_row_sum(x, 3), (ls_real)0.0));
}
END_TEST

START_TEST(maximum_orders_zeros_and_takes_the_first)
{
    const ls_real pos = (ls_real)0.0, neg = (ls_real)-0.0, inf = (ls_real)INFINITY;
    size_t at = 99;
    ls_real zeros[4] = {neg, pos, neg, pos};
    ck_assert(same(ls_row_max(zeros, 4, &at), pos));
    ck_assert_uint_eq(at, 1);
    ck_assert(same(ls_row_max(zeros, 1, &at), neg));
    ck_assert_uint_eq(at, 0);
    ls_real tie[6] = {-5, 2, 7, (ls_real)7.0, 7, -1};
    ck_assert(same(ls_row_max(tie, 6, &at), 7));
    ck_assert_uint_eq(at, 2);
    ls_real below[5] = {-inf, -inf, (ls_real)-3.5, (ls_real)-2.5, -inf};
    ck_assert(same(ls_row_max(below, 5, &at), (ls_real)-2.5));
    ck_assert_uint_eq(at, 3);
    ck_assert(same(ls_row_max(below, 2, &at), -inf));
    ck_assert_uint_eq(at, 0);
    ls_real above[3] = {1, inf, inf};
    ck_assert(same(ls_row_max(above, 3, NULL), inf));
}
END_TEST

START_TEST(maximum_lets_nan_win)
{
    size_t at = 99;
    ls_real x[5] = {1, (ls_real)INFINITY, (ls_real)-NAN, (ls_real)NAN, 2};
    ck_assert(isnan(ls_row_max(x, 5, &at)));
    ck_assert_uint_eq(at, 2);
    ck_assert(isnan(ls_row_max(x, 5, NULL)));
    ck_assert(same(ls_row_max(x, 2, &at), (ls_real)INFINITY));
}
END_TEST

START_TEST(maximum_of_noise)
{
    static ls_real x[MAX];
    reference_fill(x, MAX, 5);
    for (size_t n = 1; n <= MAX; n++) {
        size_t first = 0, at = 99;
        for (size_t i = 1; i < n; i++)
            if (x[i] > x[first]) first = i;
        ck_assert(same(ls_row_max(x, n, &at), x[first]));
        ck_assert_uint_eq(at, first);
    }
}
END_TEST

/* The block is one row of rows * cols elements in binary64, whatever its stride. */
START_TEST(block_squares_are_one_row_in_binary64)
{
    static const size_t shapes[][2] = {{0, 5},  {5, 0},  {1, 1},  {1, 40},  {40, 1}, {3, 5},
                                       {7, 16}, {5, 48}, {6, 17}, {13, 33}, {2, 15}};
    static ls_real x[MAX * 2];
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t pad = 0; pad < 4; pad += 3) {
            size_t rows = shapes[s][0], cols = shapes[s][1], ld = cols + pad, n = 0;
            double lane[LANES];
            for (size_t i = 0; i < MAX * 2; i++) x[i] = (ls_real)NAN;
            for (size_t r = 0; r < rows; r++) reference_fill(x + r * ld, cols, 70 + r);
            for (size_t l = 0; l < LANES; l++) lane[l] = -0.0;
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < cols; c++, n++)
                    lane[n % LANES] += (double)x[r * ld + c] * (double)x[r * ld + c];
            for (size_t w = LANES; w > 1; w /= 2)
                for (size_t l = 0; l < w / 2; l++) lane[l] = lane[2 * l] + lane[2 * l + 1];
            double expected = n ? lane[0] : 0.0, sum = ls_block_squares(x, rows, cols, ld);
            ck_assert(memcmp(&sum, &expected, sizeof sum) == 0);
        }
    /* binary64 also when the numbers are binary32: no overflow, no loss */
    ls_real large[2] = {(ls_real)3e38, (ls_real)3e38};
    double l = (double)large[0];
    ck_assert(ls_block_squares(large, 1, 2, 2) == l * l + l * l);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("row_sum", 0);
    tcase_add_test(tc, sums_are_lanes_then_tree);
    tcase_add_test(tc, sums_of_signed_zeros);
    tcase_add_test(tc, maximum_orders_zeros_and_takes_the_first);
    tcase_add_test(tc, maximum_lets_nan_win);
    tcase_add_test(tc, maximum_of_noise);
    tcase_add_test(tc, block_squares_are_one_row_in_binary64);
    return run_tests();
}
