/* Spatial shares and halos: every small window and grid counted out. */
#include <check.h>
#include <stdlib.h>

#include "lockstep/partition/spatial.h"
#include "partition/reach.h"
#include "run_tests.h"

/* The picture in the header. */
START_TEST(thirteen_rows)
{
    reach axis = {13, 3, 2, 1, 0, 1};
    ls_spatial_grid grid = {4, 1, 4, 1};
    static const size_t reads[4][2] = {{0, 3}, {2, 5}, {6, 3}, {8, 5}};
    ck_assert_uint_eq(reach_outputs(&axis), 6);
    for (size_t r = 0; r < 4; r++) {
        ls_rectangle y = ls_spatial_pixels(&grid, r, 6, 1);
        ls_share x = reach_reads(&axis, (ls_share){y.top, y.height});
        ck_assert(x.first == reads[r][0] && x.count == reads[r][1]);
    }
}
END_TEST

/* ---- every small window */

static int reads_input(const reach *axis, size_t o, size_t q)
{
    for (size_t k = 0; k < axis->kernel; k++)
        if (o * axis->stride + k * axis->dilation == q + axis->pad_before) return 1;
    return 0;
}

static size_t outputs_by_counting(const reach *axis)
{
    size_t n = 0, padded = axis->extent + axis->pad_before + axis->pad_after;
    while (n * axis->stride + (axis->kernel - 1) * axis->dilation < padded) n++;
    return n;
}

START_TEST(every_window)
{
    for (size_t extent = 1; extent <= 9; extent++)
        for (size_t kernel = 1; kernel <= 5; kernel++)
            for (size_t stride = 1; stride <= 4; stride++)
                for (size_t dilation = 1; dilation <= 3; dilation++)
                    for (size_t pads = 0; pads < 16; pads++) {
                        reach r = {extent, kernel, stride, dilation, pads / 4, pads % 4};
                        size_t outputs = outputs_by_counting(&r);
                        ck_assert_uint_eq(reach_outputs(&r), outputs);
                        for (size_t a = 0; a <= outputs; a++)
                            for (size_t b = a; b <= outputs; b++) {
                                size_t first = 99, end = 0;
                                for (size_t o = a; o < b; o++)
                                    for (size_t q = 0; q < extent; q++) {
                                        if (!reads_input(&r, o, q)) continue;
                                        if (q < first) first = q;
                                        if (q + 1 > end) end = q + 1;
                                    }
                                ls_share got = reach_reads(&r, (ls_share){a, b - a});
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
                                ls_share got = reach_read_by(&r, (ls_share){a, b - a});
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
    static const reach windows[][2] = {{{7, 3, 1, 1, 1, 1}, {9, 5, 1, 1, 2, 2}},
                                       {{9, 3, 2, 1, 0, 1}, {8, 2, 2, 1, 0, 0}},
                                       {{6, 3, 1, 2, 2, 2}, {11, 7, 3, 1, 3, 3}},
                                       {{5, 5, 1, 1, 4, 0}, {5, 1, 1, 1, 0, 0}},
                                       {{8, 1, 2, 1, 0, 0}, {7, 4, 1, 1, 1, 2}}};
    for (size_t v = 0; v < sizeof windows / sizeof windows[0]; v++)
        for (size_t down = 1; down <= 4; down++)
            for (size_t across = 1; across <= 4; across++)
                for (int backward = 0; backward < 2; backward++) {
                    stencil s = {windows[v][0], windows[v][1]};
                    ls_spatial_grid grid = {down, across, v % 2 == 0 ? 4 : 8, 5};
                    size_t members = ls_spatial_members(&grid), n = 0, comm = 0, counted = 0;
                    size_t x_h = s.rows.extent, x_w = s.columns.extent;
                    size_t y_h = reach_outputs(&s.rows), y_w = reach_outputs(&s.columns);
                    ls_rectangle made[16];
                    ls_image_box owned[16], wanted[16];
                    for (size_t m = 0; m < members; m++) {
                        ls_rectangle x = ls_spatial_pixels(&grid, m, x_h, x_w);
                        ls_rectangle y = ls_spatial_pixels(&grid, m, y_h, y_w);
                        made[m] = backward ? x : y;
                        owned[m] = (ls_image_box){{3, 2}, {1, 4}, backward ? y : x};
                    }
                    halo_wanted(wanted, made, members, backward, &s, (ls_share){3, 2},
                                (ls_share){1, 4});
                    ls_transfer *list = NULL;
                    ck_assert_int_eq(ls_transfers_create(&list, &n, owned, wanted, members), LS_OK);
                    for (size_t m = 0; m < members; m++) {
                        ls_rectangle mine = owned[m].area, want = wanted[m].area;
                        comm += ls_transfers_received(list, n, m);
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
                    ck_assert_uint_eq(comm, counted);
                    free(list);
                }
}
END_TEST

/* The formula against the list: the middle rank of 3 x 3, kernels 3 x 5, blocks of 4 x 6; corners
 * come from the diagonal neighbours. */
START_TEST(bytes_by_formula)
{
    stencil s = {{12, 3, 1, 1, 1, 1}, {18, 5, 1, 1, 2, 2}};
    ls_spatial_grid grid = {3, 3, 3, 3};
    ls_rectangle own[9];
    ls_image_box owned[9], wanted[9];
    ls_share images = {0, 2}, channels = {0, 7};
    for (size_t m = 0; m < 9; m++) {
        own[m] = ls_spatial_pixels(&grid, m, 12, 18);
        owned[m] = (ls_image_box){images, channels, own[m]};
    }
    halo_wanted(wanted, own, 9, false, &s, images, channels);
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
    reach axis = {4, 7, 1, 1, 1, 1};
    ck_assert_uint_eq(reach_outputs(&axis), 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {thirteen_rows,       every_window,     grids_own_once,
                                  halos_of_every_grid, bytes_by_formula, refusals};
    TCase *tcase = test_case("spatial", 60);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) tcase_add_test(tcase, tests[i]);
    return run_tests();
}
