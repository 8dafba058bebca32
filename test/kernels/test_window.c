/* test_window.c - which pixels a window reads, against a table of all of them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/conv2d.h"
#include "lockstep/kernels/window.h"
#include "run_tests.h"

/* A window whose other dimension is one pixel. */
static ls_window tall(size_t in, size_t k, size_t s, size_t d, size_t before, size_t after)
{
    return (ls_window){in, 1, k, 1, s, 1, d, 1, before, after, 0, 0};
}

static ls_window wide(size_t in, size_t k, size_t s, size_t d, size_t before, size_t after)
{
    return (ls_window){1, in, 1, k, 1, s, 1, d, 0, 0, before, after};
}

/* Whether output o reads input q, with signed numbers. */
static int meets(const ls_window *w, long o, long q)
{
    for (long i = 0; i < (long)w->kernel_h; i++)
        if (o * (long)w->stride_h - (long)w->pad_top + i * (long)w->dilation_h == q) return 1;
    return 0;
}

static ls_rectangle turned(ls_rectangle r)
{
    return (ls_rectangle){r.left, r.top, r.width, r.height};
}

static int equal(ls_rectangle a, ls_rectangle b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

START_TEST(reads_and_read_by)
{
    size_t cases = 0;
    for (size_t in = 1; in <= 9; in++)
        for (size_t k = 1; k <= 5; k++)
            for (size_t s = 1; s <= 4; s++)
                for (size_t d = 1; d <= 3; d++)
                    for (size_t before = 0; before <= 3; before++)
                        for (size_t after = 0; after <= 2; after++) {
                            const size_t span = (k - 1) * d + 1;
                            const ls_window w = tall(in, k, s, d, before, after);
                            const ls_window v = wide(in, k, s, d, before, after);
                            if (span > in + before + after) continue;
                            const size_t out = ls_window_out_h(&w);
                            /* the next output would stand out */
                            ck_assert((out - 1) * s + span <= in + before + after);
                            ck_assert(out * s + span > in + before + after);
                            ck_assert(ls_window_out_w(&v) == out && ls_window_out_w(&w) == 1);
                            cases++;
                            for (size_t lo = 0; lo < out; lo++)
                                for (size_t hi = lo; hi <= out; hi++) {
                                    size_t first = in, end = 0;
                                    for (size_t o = lo; o < hi; o++)
                                        for (size_t q = 0; q < in; q++)
                                            if (meets(&w, (long)o, (long)q)) {
                                                if (q < first) first = q;
                                                if (q + 1 > end) end = q + 1;
                                            }
                                    const ls_rectangle r = {lo, 0, hi - lo, 1};
                                    ls_rectangle right = {first, 0, end - first, 1};
                                    if (end <= first) right = (ls_rectangle){0, 0, 0, 0};
                                    ck_assert(equal(ls_window_reads(&w, r), right));
                                    ck_assert(equal(ls_window_reads(&v, turned(r)), turned(right)));
                                }
                            for (size_t lo = 0; lo < in; lo++)
                                for (size_t hi = lo; hi <= in; hi++) {
                                    size_t first = out, end = 0;
                                    for (size_t q = lo; q < hi; q++)
                                        for (size_t o = 0; o < out; o++)
                                            if (meets(&w, (long)o, (long)q)) {
                                                if (o < first) first = o;
                                                if (o + 1 > end) end = o + 1;
                                            }
                                    const ls_rectangle r = {lo, 0, hi - lo, 1};
                                    ls_rectangle right = {first, 0, end - first, 1};
                                    if (end <= first) right = (ls_rectangle){0, 0, 0, 0};
                                    ck_assert(equal(ls_window_read_by(&w, r), right));
                                    ck_assert(
                                        equal(ls_window_read_by(&v, turned(r)), turned(right)));
                                }
                        }
    ck_assert(cases > 3000);
}
END_TEST

/* A dilated kernel spans (k - 1) d + 1 pixels, not k d: 8 rows, kernel 3, dilation 2 are 4 outputs.
 */
START_TEST(dilated_extent)
{
    const ls_window w = tall(8, 3, 1, 2, 0, 0);
    ck_assert(ls_window_out_h(&w) == 4);
}
END_TEST

/* One-sided padding on a cut axis: 80 rows on 4 ranks, 2 rows of padding before and 2 after, kernel
 * 5: what the ranks' inputs plus padding are is 22, 20, 20, 22 rows; those inside do not pad. */
START_TEST(padding_at_the_ends_alone)
{
    const size_t right[] = {22, 20, 20, 22};
    const ls_window w = tall(80, 5, 1, 1, 2, 2);
    for (size_t r = 0; r < 4; r++) {
        const ls_rectangle reads = ls_window_reads(&w, (ls_rectangle){20 * r, 0, 20, 1});
        /* 24 rows are read for 20 outputs; those that are not there are the rank's padding */
        ck_assert(20 + (24 - reads.height) == right[r]);
    }
}
END_TEST

/* A kernel wider than a neighbour's share: 8 rows on 4 ranks, kernel 7: rank 0's outputs read rows
 * up to two ranks away. */
START_TEST(halo_beyond_the_neighbour)
{
    const ls_window w = tall(8, 7, 1, 1, 3, 3);
    ck_assert(equal(ls_window_reads(&w, (ls_rectangle){0, 0, 2, 1}), (ls_rectangle){0, 0, 5, 1}));
    ck_assert(equal(ls_window_reads(&w, (ls_rectangle){4, 0, 2, 1}), (ls_rectangle){1, 0, 7, 1}));
}
END_TEST

START_TEST(granules_cover_the_image)
{
    for (size_t rows = 1; rows <= 9; rows++)
        for (size_t columns = 1; columns <= 5; columns++) {
            unsigned char seen[7][4] = {{0}};
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < columns; j++) {
                    const ls_rectangle g =
                        ls_pixel_granule((ls_pixel_grid){rows, columns}, 7, 4, i, j);
                    for (size_t r = g.top; r < g.top + g.height; r++)
                        for (size_t c = g.left; c < g.left + g.width; c++) seen[r][c]++;
                }
            for (size_t p = 0; p < 28; p++) ck_assert(seen[p / 4][p % 4] == 1);
        }
}
END_TEST

START_TEST(rectangles)
{
    const ls_rectangle a = {1, 2, 4, 3}, b = {3, 0, 5, 4}, empty = {9, 9, 0, 4};
    ck_assert(equal(ls_rectangle_common(a, b), (ls_rectangle){3, 2, 2, 2}));
    ck_assert(ls_rectangle_is_empty(ls_rectangle_common(a, (ls_rectangle){5, 2, 1, 1})));
    ck_assert(ls_rectangle_inside((ls_rectangle){3, 2, 2, 2}, a) && !ls_rectangle_inside(b, a));
    ck_assert(ls_rectangle_inside(empty, a) && ls_rectangle_is_empty(empty));
    ck_assert(ls_rectangle_count(a) == 12);
}
END_TEST

static void refused(ls_status status, const char *words)
{
    ck_assert(status == LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), words) != NULL, "%s", ls_error_text());
    ck_assert(strchr(ls_error_text(), '\n') == NULL);
    ls_error_clear();
}

START_TEST(refusals)
{
    const ls_window good = {7, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1};
    ls_window w = good;
    ck_assert(ls_window_check("conv1", &w) == LS_OK);
    w.in_h = 0;
    refused(ls_window_check("conv1", &w), "conv1: image of 0 in height: 1 to");
    w = good, w.kernel_w = 0;
    refused(ls_window_check("conv1", &w), "kernel of 0 in width: 1 to");
    w = good, w.stride_h = 0;
    refused(ls_window_check("conv1", &w), "stride of 0 in height");
    w = good, w.dilation_w = 0;
    refused(ls_window_check("conv1", &w), "dilation of 0 in width");
    w = good, w.pad_left = (size_t)-1;
    refused(ls_window_check("conv1", &w), "padding before of 18446744073709551615 in width");
    w = good, w.kernel_h = 10;
    refused(ls_window_check("conv1", &w), "spans 10 rows, the padded image has 9");
    w.kernel_h = 9;
    ck_assert(ls_window_check("conv1", &w) == LS_OK);
    w = good, w.dilation_w = 4;
    refused(ls_window_check("conv1", &w), "dilation 4 spans 9 columns, the padded image has 7");
    w = good, w.pad_top = 3;
    ck_assert(ls_window_check("pool1", &w) == LS_OK);
    refused(ls_window_check_pool("pool1", &w), "pool1: the window at output 0 of the rows lies in "
                                               "the padding");
    ck_assert(ls_window_check_pool("pool1", &good) == LS_OK);

    ls_conv2d c = {good, 2, 4, 6, 2, 3, {8, 8}};
    ck_assert(ls_conv2d_check("conv2", &c) == LS_OK);
    c.groups = 0;
    refused(ls_conv2d_check("conv2", &c), "conv2: 0 groups");
    c.groups = 4, c.in_granules = 1;
    refused(ls_conv2d_check("conv2", &c), "6 output channels in 4 groups: the groups must divide");
    c.groups = 3;
    refused(ls_conv2d_check("conv2", &c), "4 input channels in 3 groups");
    c.groups = 2, c.in_channels = 0;
    refused(ls_conv2d_check("conv2", &c), "0 input channels");
    c.in_channels = 4, c.in_granules = 4;
    refused(ls_conv2d_check("conv2", &c), "2 input channels of a group in 4 granules");
    c.in_granules = 0;
    refused(ls_conv2d_check("conv2", &c), "in 0 granules");
    c.in_granules = 1, c.grid.columns = 0;
    refused(ls_conv2d_check("conv2", &c), "8 x 0 granules of pixels");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {reads_and_read_by,
                                  dilated_extent,
                                  padding_at_the_ends_alone,
                                  halo_beyond_the_neighbour,
                                  granules_cover_the_image,
                                  rectangles,
                                  refusals};
    TCase *tc = test_case("window", 120);
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) tcase_add_test(tc, tests[i]);
    return run_tests();
}
