/* Spatial shares and halos: literal cases, and every small window counted out. */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/spatial.h"

enum { MOST = 16 };

/* ---- one axis, simulated: what each rank has, gets and makes */

/* y over all ranks when rank r owns x_of[r] and makes y_of[r], weights all 1; NaN where a rank
 * reads what it has not got. Returns the transfers. */
static size_t convolve(double *y, const ls_reach *reach, const double *x, const ls_share *x_of,
                       const ls_share *y_of, size_t ranks, ls_transfer *ret_list)
{
    ls_box owned[MOST], wanted[MOST];
    ls_rectangle made[MOST];
    ls_stencil stencil = {*reach, {1, 1, 1, 1, 0, 0}};
    for (size_t r = 0; r < ranks; r++) {
        owned[r] = (ls_box){{0, 1}, {0, 1}, {x_of[r].first, 0, x_of[r].count, 1}};
        made[r] = (ls_rectangle){y_of[r].first, 0, y_of[r].count, 1};
    }
    ls_halo_wanted(wanted, made, ranks, ls_stencil_reads, &stencil, (ls_share){0, 1},
                   (ls_share){0, 1});
    ls_transfer *list = NULL;
    size_t n = 0;
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, ranks), LS_OK);
    for (size_t r = 0; r < ranks; r++) {
        double have[64];
        for (int i = 0; i < 64; i++) have[i] = NAN;
        for (size_t t = 0; t < n; t++) {
            ls_rectangle area = list[t].box.area;
            if (list[t].to != r) continue;
            ck_assert_uint_ge(area.top, x_of[list[t].from].first);
            for (size_t i = area.top; i < area.top + area.height; i++) have[i] = x[i];
        }
        for (size_t o = y_of[r].first; o < y_of[r].first + y_of[r].count; o++) {
            y[o] = 0;
            for (size_t k = 0; k < reach->kernel; k++) {
                size_t at = o * reach->stride + k * reach->dilation;
                if (at >= reach->pad_before && at < reach->pad_before + reach->extent)
                    y[o] += have[at - reach->pad_before];
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

static const double COUNTING[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* A partition of size 1 is the plain convolution. */
START_TEST(one_rank)
{
    ls_reach reach = {5, 3, 1, 1, 1, 1};
    ls_share all = {0, 5};
    ls_transfer list[MOST];
    double y[5];
    ck_assert_uint_eq(convolve(y, &reach, COUNTING, &all, &all, 1, list), 1);
    ck_assert_uint_eq(ls_transfers_sent(list, 1, 0), 0);
    ck_assert(y[0] == 3 && y[1] == 6 && y[2] == 9 && y[3] == 12 && y[4] == 9);
}
END_TEST

/* One-sided padding on a sharded axis: 80 rows on 4 ranks, two pads before the first and two after
 * the last: 22, 20, 20, 22 rows with padding; ranks in the middle do not pad. */
START_TEST(one_sided_padding)
{
    ls_reach reach = {80, 1, 1, 1, 2, 2};
    static const size_t counts[] = {22, 20, 20, 22};
    ck_assert_uint_eq(ls_reach_outputs(&reach), 84);
    size_t first = 0;
    for (size_t r = 0; r < 4; r++) {
        ls_share y = {first, counts[r]}, x = ls_reach_reads(&reach, y);
        size_t before = 99, after = 99;
        ls_reach_pads(&reach, y, &before, &after);
        ck_assert(x.first == 20 * r && x.count == 20);
        ck_assert_uint_eq(before, r == 0 ? 2 : 0);
        ck_assert_uint_eq(after, r == 3 ? 2 : 0);
        ck_assert_uint_eq(before + x.count + after, counts[r]);
        first += counts[r];
    }
    /* Padding at one end alone, a kernel that uses it. */
    ls_reach causal = {80, 3, 1, 1, 2, 0};
    ck_assert_uint_eq(ls_reach_outputs(&causal), 80);
    for (size_t r = 0; r < 4; r++) {
        ls_share y = ls_share_of(80, 4, r), x = ls_reach_reads(&causal, y);
        size_t before = 99, after = 99;
        ls_reach_pads(&causal, y, &before, &after);
        ck_assert_uint_eq(before, r == 0 ? 2 : 0);
        ck_assert_uint_eq(after, 0);
        ck_assert_uint_eq(before + x.count, 22);
    }
}
END_TEST

/* 12 rows on 8 ranks, rounded up: 2 2 2 2 2 2 0 0, kernel 3. Empty ranks get and give nothing. */
START_TEST(empty_ranks_at_the_end)
{
    ls_reach reach = {12, 3, 1, 1, 1, 1};
    ls_share of[8];
    ls_transfer list[64];
    double y[12];
    for (size_t r = 0; r < 8; r++) of[r] = (ls_share){r < 6 ? 2 * r : 12, r < 6 ? 2 : 0};
    size_t n = convolve(y, &reach, COUNTING, of, of, 8, list);
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
    ls_reach reach = {4, 3, 1, 1, 1, 1};
    ls_share of[] = {{0, 2}, {2, 0}, {2, 2}};
    ls_transfer list[16];
    double y[4];
    size_t n = convolve(y, &reach, COUNTING, of, of, 3, list);
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
    ls_reach reach = {8, 7, 1, 1, 3, 3};
    ls_share of[4];
    ls_transfer list[16];
    double y[8];
    cut_evenly(of, 8, 4);
    size_t n = convolve(y, &reach, COUNTING, of, of, 4, list);
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
    ls_reach reach = {8, 3, 1, 2, 0, 0};
    ck_assert_uint_eq(ls_reach_outputs(&reach), 4);
    static const double right[] = {9, 12, 15, 18};
    for (size_t ranks = 1; ranks <= 4; ranks++) {
        ls_share x_of[4], y_of[4];
        ls_transfer list[16];
        double y[4];
        cut_evenly(x_of, 8, ranks);
        cut_evenly(y_of, 4, ranks);
        convolve(y, &reach, COUNTING, x_of, y_of, ranks, list);
        for (size_t o = 0; o < 4; o++) ck_assert(y[o] == right[o]);
    }
}
END_TEST

/* No pad before, one after, stride 2: 6 rows on 2 ranks give 6, 12, 11. */
START_TEST(one_pad_after_with_stride)
{
    ls_reach reach = {6, 3, 2, 1, 0, 1};
    ck_assert_uint_eq(ls_reach_outputs(&reach), 3);
    ls_share x_of[2], y_of[2];
    ls_transfer list[16];
    double y[3];
    cut_evenly(x_of, 6, 2);
    cut_evenly(y_of, 3, 2);
    size_t n = convolve(y, &reach, COUNTING, x_of, y_of, 2, list);
    ck_assert(y[0] == 6 && y[1] == 12 && y[2] == 11);
    /* Rank 0 makes 6 and 12 from rows 0 .. 4; rank 1 makes 11 from row 4, 5 and the pad. */
    ck_assert(passes(list, n, 1, 0, 3, 2));
    ck_assert_uint_eq(ls_transfers_received(list, n, 1), 0);
    size_t before = 9, after = 9;
    ls_reach_pads(&reach, y_of[1], &before, &after);
    ck_assert(before == 0 && after == 1);
}
END_TEST

/* The picture in the header. */
START_TEST(thirteen_rows)
{
    ls_reach reach = {13, 3, 2, 1, 0, 1};
    ls_spatial_grid grid = {4, 1, 4, 1};
    static const size_t reads[4][2] = {{0, 3}, {2, 5}, {6, 3}, {8, 5}};
    ck_assert_uint_eq(ls_reach_outputs(&reach), 6);
    for (size_t r = 0; r < 4; r++) {
        ls_rectangle y = ls_spatial_pixels(&grid, r, 6, 1);
        ls_share x = ls_reach_reads(&reach, (ls_share){y.top, y.height});
        ck_assert(x.first == reads[r][0] && x.count == reads[r][1]);
    }
}
END_TEST

/* ---- every small window */

static int reads_input(const ls_reach *reach, size_t o, size_t q)
{
    for (size_t k = 0; k < reach->kernel; k++)
        if (o * reach->stride + k * reach->dilation == q + reach->pad_before) return 1;
    return 0;
}

static size_t outputs_by_counting(const ls_reach *reach)
{
    size_t n = 0, padded = reach->extent + reach->pad_before + reach->pad_after;
    while (n * reach->stride + (reach->kernel - 1) * reach->dilation < padded) n++;
    return n;
}

START_TEST(every_window)
{
    for (size_t extent = 1; extent <= 9; extent++)
        for (size_t kernel = 1; kernel <= 5; kernel++)
            for (size_t stride = 1; stride <= 4; stride++)
                for (size_t dilation = 1; dilation <= 3; dilation++)
                    for (size_t pads = 0; pads < 16; pads++) {
                        ls_reach r = {extent, kernel, stride, dilation, pads / 4, pads % 4};
                        size_t outputs = outputs_by_counting(&r);
                        ck_assert_uint_eq(ls_reach_outputs(&r), outputs);
                        for (size_t a = 0; a <= outputs; a++)
                            for (size_t b = a; b <= outputs; b++) {
                                size_t first = 99, end = 0;
                                for (size_t o = a; o < b; o++)
                                    for (size_t q = 0; q < extent; q++) {
                                        if (!reads_input(&r, o, q)) continue;
                                        if (q < first) first = q;
                                        if (q + 1 > end) end = q + 1;
                                    }
                                ls_share got = ls_reach_reads(&r, (ls_share){a, b - a});
                                ck_assert_uint_eq(got.count, end > 0 ? end - first : 0);
                                ck_assert(end == 0 || got.first == first);
                            }
                        for (size_t a = 0; a <= extent; a++)
                            for (size_t b = a; b <= extent; b++) {
                                size_t first = 99, end = 0;
                                for (size_t o = 0; o < outputs; o++)
                                    for (size_t q = a; q < b; q++) {
                                        if (!reads_input(&r, o, q)) continue;
                                        if (o < first) first = o;
                                        if (o + 1 > end) end = o + 1;
                                    }
                                ls_share got = ls_reach_read_by(&r, (ls_share){a, b - a});
                                ck_assert_uint_eq(got.count, end > 0 ? end - first : 0);
                                ck_assert(end == 0 || got.first == first);
                            }
                    }
}
END_TEST

/* ---- grids */

/* Every pixel of every layer has one owner, rank after rank, and the rectangles of two layers lie
 * over each other in the granules. */
START_TEST(grids_own_once)
{
    for (size_t down = 1; down <= 5; down++)
        for (size_t across = 1; across <= 4; across++)
            for (size_t height = 1; height <= 11; height++) {
                ls_spatial_grid grid = {down, across, 8, 6};
                size_t width = (height * 7) % 13 + 1, owner[11][13] = {{0}};
                for (size_t m = 0; m < ls_spatial_members(&grid); m++) {
                    ls_rectangle own = ls_spatial_pixels(&grid, m, height, width);
                    for (size_t r = own.top; r < own.top + own.height; r++)
                        for (size_t c = own.left; c < own.left + own.width; c++) {
                            ck_assert_uint_eq(owner[r][c], 0);
                            owner[r][c] = m + 1;
                        }
                }
                for (size_t r = 0; r < height; r++)
                    for (size_t c = 0; c < width; c++) {
                        ck_assert_uint_gt(owner[r][c], 0);
                        if (c > 0) ck_assert_uint_ge(owner[r][c], owner[r][c - 1]);
                        if (r > 0) ck_assert_uint_ge(owner[r][c], owner[r - 1][c]);
                    }
            }
}
END_TEST

/* Both ways, every grid: what a rank gets is what it reads and has not got, from its owner; the
 * pixels that pass, counted one by one. */
START_TEST(halos_of_every_grid)
{
    static const ls_reach windows[][2] = {{{7, 3, 1, 1, 1, 1}, {9, 5, 1, 1, 2, 2}},
                                          {{9, 3, 2, 1, 0, 1}, {8, 2, 2, 1, 0, 0}},
                                          {{6, 3, 1, 2, 2, 2}, {11, 7, 3, 1, 3, 3}},
                                          {{5, 5, 1, 1, 4, 0}, {5, 1, 1, 1, 0, 0}},
                                          {{8, 1, 2, 1, 0, 0}, {7, 4, 1, 1, 1, 2}}};
    for (size_t v = 0; v < sizeof windows / sizeof windows[0]; v++)
        for (size_t down = 1; down <= 4; down++)
            for (size_t across = 1; across <= 4; across++)
                for (int backward = 0; backward < 2; backward++) {
                    ls_stencil s = {windows[v][0], windows[v][1]};
                    ls_spatial_grid grid = {down, across, v % 2 == 0 ? 4 : 8, 5};
                    size_t members = ls_spatial_members(&grid), n = 0, crossing = 0, counted = 0;
                    size_t x_h = s.rows.extent, x_w = s.columns.extent;
                    size_t y_h = ls_reach_outputs(&s.rows), y_w = ls_reach_outputs(&s.columns);
                    ls_rectangle made[16];
                    ls_box owned[16], wanted[16];
                    for (size_t m = 0; m < members; m++) {
                        ls_rectangle x = ls_spatial_pixels(&grid, m, x_h, x_w);
                        ls_rectangle y = ls_spatial_pixels(&grid, m, y_h, y_w);
                        made[m] = backward ? x : y;
                        owned[m] = (ls_box){{3, 2}, {1, 4}, backward ? y : x};
                    }
                    ls_halo_wanted(wanted, made, members,
                                   backward ? ls_stencil_read_by : ls_stencil_reads, &s,
                                   (ls_share){3, 2}, (ls_share){1, 4});
                    ls_transfer *list = NULL;
                    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, members), LS_OK);
                    for (size_t m = 0; m < members; m++) {
                        ls_rectangle mine = owned[m].area, want = wanted[m].area;
                        crossing += ls_transfers_received(list, n, m);
                        /* Every input that one of its outputs really reads is inside. */
                        for (size_t r = 0; r < (backward ? y_h : x_h); r++)
                            for (size_t c = 0; c < (backward ? y_w : x_w); c++) {
                                int needed = 0;
                                for (size_t i = made[m].top; i < made[m].top + made[m].height; i++)
                                    for (size_t j = made[m].left; j < made[m].left + made[m].width;
                                         j++)
                                        needed |= backward ? reads_input(&s.rows, r, i) &&
                                                                 reads_input(&s.columns, c, j)
                                                           : reads_input(&s.rows, i, r) &&
                                                                 reads_input(&s.columns, j, c);
                                int has = r >= want.top && r < want.top + want.height &&
                                          c >= want.left && c < want.left + want.width;
                                int own = r >= mine.top && r < mine.top + mine.height &&
                                          c >= mine.left && c < mine.left + mine.width;
                                ck_assert(has || !needed);
                                counted += has && !own ? 2 * 4 : 0;
                            }
                    }
                    ck_assert_uint_eq(crossing, counted);
                    free(list);
                }
}
END_TEST

/* The formula against the list: the middle rank of 3 x 3, kernels 3 x 5, blocks of 4 x 6; corners
 * come from the diagonal neighbours. */
START_TEST(bytes_by_formula)
{
    ls_stencil s = {{12, 3, 1, 1, 1, 1}, {18, 5, 1, 1, 2, 2}};
    ls_spatial_grid grid = {3, 3, 3, 3};
    ls_rectangle own[9];
    ls_box owned[9], wanted[9];
    ls_share images = {0, 2}, channels = {0, 7};
    for (size_t m = 0; m < 9; m++) {
        own[m] = ls_spatial_pixels(&grid, m, 12, 18);
        owned[m] = (ls_box){images, channels, own[m]};
    }
    ls_halo_wanted(wanted, own, 9, ls_stencil_reads, &s, images, channels);
    ls_transfer *list = NULL;
    size_t n = 0, corners = 0;
    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, 9), LS_OK);
    ck_assert_uint_eq(ls_halo_elements(4, 6, 1, 2), 2 * 6 + 4 * 4 + 8);
    ck_assert_uint_eq(ls_transfers_received(list, n, 4), 2 * 7 * 36);
    ck_assert_uint_eq(ls_transfers_sent(list, n, 4), 2 * 7 * 36);
    for (size_t i = 0; i < n; i++)
        if (list[i].to == 4 && (list[i].from == 0 || list[i].from == 8)) {
            ck_assert_uint_eq(ls_rectangle_count(list[i].box.area), 1 * 2);
            corners++;
        }
    ck_assert_uint_eq(corners, 2);
    /* One axis uncut: O x edge, twice. */
    ck_assert_uint_eq(ls_halo_elements(4, 18, 1, 0), 2 * 18);
    free(list);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        ls_spatial_grid grid;
        const char *text;
    } cases[] = {
        {{0, 1, 8, 8}, "a spatial grid of 0 x 1 ranks: at least 1 x 1"},
        {{1, 1, 8, 0}, "8 x 0 granules of an image: at least 1 x 1"},
        {{7, 1, 8, 8},
         "a spatial grid of 7 x 1 ranks is larger than the image of 6 x 5 pixels; at most one rank "
         "per row and column"}};
    for (size_t i = 0; i < 3; i++) {
        ls_error_clear();
        ck_assert_int_eq(ls_spatial_check(&cases[i].grid, 6, 5, "the image"), LS_ERR_INPUT);
        ck_assert_str_eq(ls_error_text(), cases[i].text);
    }
    ls_spatial_grid largest = {6, 5, 4, 4};
    ck_assert_int_eq(ls_spatial_check(&largest, 6, 5, "the image"), LS_OK);
    /* A kernel larger than the padded image makes nothing. */
    ls_reach reach = {4, 7, 1, 1, 1, 1};
    ck_assert_uint_eq(ls_reach_outputs(&reach), 0);
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
                                  one_pad_after_with_stride,
                                  thirteen_rows,
                                  every_window,
                                  grids_own_once,
                                  halos_of_every_grid,
                                  bytes_by_formula,
                                  refusals};
    Suite *suite = suite_create("spatial");
    TCase *tcase = tcase_create("spatial");
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) tcase_add_test(tcase, tests[i]);
    tcase_set_timeout(tcase, 60);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
