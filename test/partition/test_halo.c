/* Halos: the mistakes others made, with their numbers, on one axis. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/spatial.h"
#include "partition/reach.h"
#include "run_tests.h"

enum { MOST = 16 };

/* ---- one axis, simulated: what each rank has, gets and makes */

/* y over all ranks when rank r owns x_of[r] and makes y_of[r], weights all 1; NaN where a rank
 * reads what it has not got. Returns the transfers. */
static size_t convolve(double *y, const reach *axis, const double *x, const ls_share *x_of,
                       const ls_share *y_of, size_t ranks, ls_transfer *ret_list)
{
    ls_image_box owned[MOST], wanted[MOST];
    ls_rectangle made[MOST];
    stencil both = {*axis, {1, 1, 1, 1, 0, 0}};
    for (size_t r = 0; r < ranks; r++) {
        owned[r] = (ls_image_box){{0, 1}, {0, 1}, {x_of[r].first, 0, x_of[r].count, 1}};
        made[r] = (ls_rectangle){y_of[r].first, 0, y_of[r].count, 1};
    }
    halo_wanted(wanted, made, ranks, false, &both, (ls_share){0, 1}, (ls_share){0, 1});
    ls_transfer *list = NULL;
    size_t n = 0;
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, ranks), LS_OK);
    for (size_t r = 0; r < ranks; r++) {
        double have[64];
        for (int i = 0; i < 64; i++) have[i] = (double)NAN;
        for (size_t t = 0; t < n; t++) {
            ls_rectangle area = list[t].box.area;
            if (list[t].to != r) continue;
            ck_assert_uint_ge(area.top, x_of[list[t].from].first);
            for (size_t i = area.top; i < area.top + area.height; i++) have[i] = x[i];
        }
        for (size_t o = y_of[r].first; o < y_of[r].first + y_of[r].count; o++) {
            y[o] = 0;
            for (size_t k = 0; k < axis->kernel; k++) {
                size_t at = o * axis->stride + k * axis->dilation;
                if (at >= axis->pad_before && at < axis->pad_before + axis->extent)
                    y[o] += have[at - axis->pad_before];
            }
        }
    }
    memcpy(ret_list, list, n * sizeof *list);
    free(list);
    return n;
}

static int passes(const ls_transfer *list, size_t n, size_t from, size_t to, size_t first,
                  size_t count)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].from == from && list[i].to == to)
            return list[i].box.area.top == first && list[i].box.area.height == count;
    return 0;
}

static void cut_evenly(ls_share *shares, size_t n, size_t ranks)
{
    for (size_t r = 0; r < ranks; r++) shares[r] = ls_share_of(n, ranks, r);
}

/* Padding that these outputs read before the first and after the last input: what a rank whose
 * buffer begins with reach_reads has to imagine around it. A rank in the middle has none. */
static void pads(const reach *axis, ls_share outputs, size_t *ret_before, size_t *ret_after)
{
    size_t begin = outputs.first * axis->stride, inputs_end = axis->pad_before + axis->extent;
    size_t end = (outputs.first + outputs.count - 1) * axis->stride +
                 (axis->kernel - 1) * axis->dilation + 1;
    *ret_before = begin < axis->pad_before ? axis->pad_before - begin : 0;
    *ret_after = end > inputs_end ? end - inputs_end : 0;
}

static const double COUNTING[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* A partition of size 1 is the plain convolution. */
START_TEST(one_rank)
{
    reach axis = {5, 3, 1, 1, 1, 1};
    ls_share all = {0, 5};
    ls_transfer list[MOST];
    double y[5];
    ck_assert_uint_eq(convolve(y, &axis, COUNTING, &all, &all, 1, list), 1);
    ck_assert_uint_eq(ls_transfers_sent(list, 1, 0), 0);
    ck_assert(y[0] == 3 && y[1] == 6 && y[2] == 9 && y[3] == 12 && y[4] == 9);
}
END_TEST

/* One-sided padding on a sharded axis: 80 rows on 4 ranks, two pads before the first and two after
 * the last: 22, 20, 20, 22 rows with padding; ranks in the middle do not pad. */
START_TEST(one_sided_padding)
{
    reach axis = {80, 1, 1, 1, 2, 2};
    static const size_t counts[] = {22, 20, 20, 22};
    ck_assert_uint_eq(reach_outputs(&axis), 84);
    size_t first = 0;
    for (size_t r = 0; r < 4; r++) {
        ls_share y = {first, counts[r]}, x = reach_reads(&axis, y);
        size_t before = 99, after = 99;
        pads(&axis, y, &before, &after);
        ck_assert(x.first == 20 * r && x.count == 20);
        ck_assert_uint_eq(before, r == 0 ? 2 : 0);
        ck_assert_uint_eq(after, r == 3 ? 2 : 0);
        ck_assert_uint_eq(before + x.count + after, counts[r]);
        first += counts[r];
    }
    /* Padding at one end alone, a kernel that uses it. */
    reach causal = {80, 3, 1, 1, 2, 0};
    ck_assert_uint_eq(reach_outputs(&causal), 80);
    for (size_t r = 0; r < 4; r++) {
        ls_share y = ls_share_of(80, 4, r), x = reach_reads(&causal, y);
        size_t before = 99, after = 99;
        pads(&causal, y, &before, &after);
        ck_assert_uint_eq(before, r == 0 ? 2 : 0);
        ck_assert_uint_eq(after, 0);
        ck_assert_uint_eq(before + x.count, 22);
    }
}
END_TEST

/* 12 rows on 8 ranks, rounded up: 2 2 2 2 2 2 0 0, kernel 3. Empty ranks get and give nothing. */
START_TEST(empty_ranks_at_the_end)
{
    reach axis = {12, 3, 1, 1, 1, 1};
    ls_share of[8];
    ls_transfer list[64];
    double y[12];
    for (size_t r = 0; r < 8; r++) of[r] = (ls_share){r < 6 ? 2 * r : 12, r < 6 ? 2 : 0};
    size_t n = convolve(y, &axis, COUNTING, of, of, 8, list);
    ck_assert_uint_eq(n, 6 + 2 * 5);
    for (size_t o = 0; o < 12; o++) ck_assert(y[o] == (double)(o + 1) * 3 - (o == 11 ? 13 : 0));
    ck_assert(passes(list, n, 4, 5, 9, 1) && passes(list, n, 5, 4, 10, 1));
    ck_assert_uint_eq(ls_transfers_received(list, n, 6), 0);
    ck_assert_uint_eq(ls_transfers_sent(list, n, 7), 0);
}
END_TEST

/* Shares of 2, 0 and 2: the halo comes across the empty rank. Right 3 6 9 7; from the nearest rank
 * in number 3 3 7 7. */
START_TEST(empty_rank_between)
{
    reach axis = {4, 3, 1, 1, 1, 1};
    ls_share of[] = {{0, 2}, {2, 0}, {2, 2}};
    ls_transfer list[16];
    double y[4];
    size_t n = convolve(y, &axis, COUNTING, of, of, 3, list);
    ck_assert(y[0] == 3 && y[1] == 6 && y[2] == 9 && y[3] == 7);
    ck_assert(passes(list, n, 0, 2, 1, 1) && passes(list, n, 2, 0, 2, 1));
    ck_assert_uint_eq(n, 4);
    /* The same cut from granules: 2 rows in 3 granules of a grid of 3 leave the first empty. */
    ls_spatial_grid grid = {3, 1, 3, 1};
    ck_assert_uint_eq(ls_spatial_pixels(&grid, 0, 2, 1).height, 0);
    ck_assert_uint_eq(ls_spatial_pixels(&grid, 1, 2, 1).height, 1);
    ck_assert_uint_eq(ls_spatial_pixels(&grid, 2, 2, 1).height, 1);
    /* 4 rows in 8 granules on 8 ranks: every other rank is empty. */
    grid = (ls_spatial_grid){8, 1, 8, 1};
    for (size_t r = 0; r < 8; r++)
        ck_assert_uint_eq(ls_spatial_pixels(&grid, r, 4, 1).height, r % 2);
}
END_TEST

/* 8 rows on 4 ranks, kernel 7: the halo reaches two ranks away. */
START_TEST(halo_of_two_neighbours)
{
    reach axis = {8, 7, 1, 1, 3, 3};
    ls_share of[4];
    ls_transfer list[16];
    double y[8];
    cut_evenly(of, 8, 4);
    size_t n = convolve(y, &axis, COUNTING, of, of, 4, list);
    ck_assert(passes(list, n, 0, 2, 1, 1) && passes(list, n, 1, 2, 2, 2));
    ck_assert(passes(list, n, 3, 1, 6, 1) && passes(list, n, 2, 0, 4, 1));
    ck_assert(!passes(list, n, 0, 3, 0, 1));
    ck_assert_uint_eq(ls_transfers_received(list, n, 1), 5); /* two before, three after */
    static const double right[] = {10, 15, 21, 28, 35, 33, 30, 26};
    for (size_t o = 0; o < 8; o++) ck_assert(y[o] == right[o]);
}
END_TEST

/* The extent of a dilated kernel is (R - 1) d + 1: 8 rows, R 3, d 2 give 4 outputs, not 3. */
START_TEST(dilated_extent)
{
    reach axis = {8, 3, 1, 2, 0, 0};
    ck_assert_uint_eq(reach_outputs(&axis), 4);
    static const double right[] = {9, 12, 15, 18};
    for (size_t ranks = 1; ranks <= 4; ranks++) {
        ls_share x_of[4], y_of[4];
        ls_transfer list[16];
        double y[4];
        cut_evenly(x_of, 8, ranks);
        cut_evenly(y_of, 4, ranks);
        convolve(y, &axis, COUNTING, x_of, y_of, ranks, list);
        for (size_t o = 0; o < 4; o++) ck_assert(y[o] == right[o]);
    }
}
END_TEST

/* No pad before, one after, stride 2: 6 rows on 2 ranks give 6, 12, 11. */
START_TEST(one_pad_after_with_stride)
{
    reach axis = {6, 3, 2, 1, 0, 1};
    ck_assert_uint_eq(reach_outputs(&axis), 3);
    ls_share x_of[2], y_of[2];
    ls_transfer list[16];
    double y[3];
    cut_evenly(x_of, 6, 2);
    cut_evenly(y_of, 3, 2);
    size_t n = convolve(y, &axis, COUNTING, x_of, y_of, 2, list);
    ck_assert(y[0] == 6 && y[1] == 12 && y[2] == 11);
    /* Rank 0 makes 6 and 12 from rows 0 .. 4; rank 1 makes 11 from row 4, 5 and the pad. */
    ck_assert(passes(list, n, 1, 0, 3, 2));
    ck_assert_uint_eq(ls_transfers_received(list, n, 1), 0);
    size_t before = 9, after = 9;
    pads(&axis, y_of[1], &before, &after);
    ck_assert(before == 0 && after == 1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {one_rank,
                                  one_sided_padding,
                                  empty_ranks_at_the_end,
                                  empty_rank_between,
                                  halo_of_two_neighbours,
                                  dilated_extent,
                                  one_pad_after_with_stride};
    TCase *tcase = test_case("halo", 60);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) tcase_add_test(tcase, tests[i]);
    return run_tests();
}
