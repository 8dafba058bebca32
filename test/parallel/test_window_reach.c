/* test_window_reach.c - two writings of one geometry: what the kernels read of an image (window.h)
 * and what partition hands round (spatial.h) are the same pixels. */
#include <check.h>
#include <stdlib.h>

#include "lockstep/kernels/window.h"
#include "lockstep/partition/spatial.h"
#include "run_tests.h"

static uint64_t state = 1;

/* 0 .. most. */
static size_t draw(size_t most)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(state >> 33) % (most + 1);
}

static int alike(ls_rectangle a, ls_rectangle b)
{
    if (ls_rectangle_is_empty(a) || ls_rectangle_is_empty(b))
        return ls_rectangle_is_empty(a) && ls_rectangle_is_empty(b);
    return ls_rectangle_equal(a, b);
}

static ls_rectangle draw_rectangle(ls_rectangle whole)
{
    ls_rectangle r = {draw(whole.height), draw(whole.width), 0, 0};
    r.height = draw(whole.height - r.top);
    r.width = draw(whole.width - r.left);
    return r;
}

static ls_stencil stencil_of(const ls_window *w)
{
    return (ls_stencil){
        {w->in_h, w->kernel_h, w->stride_h, w->dilation_h, w->pad_top, w->pad_bottom},
        {w->in_w, w->kernel_w, w->stride_w, w->dilation_w, w->pad_left, w->pad_right}};
}

static void compare(const ls_window *w, size_t rectangles)
{
    const ls_stencil s = stencil_of(w);
    ck_assert_uint_eq(ls_window_out_h(w), ls_reach_outputs(&s.rows));
    ck_assert_uint_eq(ls_window_out_w(w), ls_reach_outputs(&s.columns));
    for (size_t i = 0; i < rectangles; i++) {
        const ls_rectangle out = draw_rectangle(ls_window_outputs(w));
        const ls_rectangle in = draw_rectangle(ls_window_inputs(w));
        ck_assert_msg(alike(ls_window_reads(w, out), ls_stencil_reads(&s, out)),
                      "%zu x %zu, kernel %zu x %zu, stride %zu x %zu, dilation %zu x %zu: reads of "
                      "(%zu, %zu) %zu x %zu",
                      w->in_h, w->in_w, w->kernel_h, w->kernel_w, w->stride_h, w->stride_w,
                      w->dilation_h, w->dilation_w, out.top, out.left, out.height, out.width);
        ck_assert_msg(
            alike(ls_window_read_by(w, in), ls_stencil_read_by(&s, in)),
            "%zu x %zu, kernel %zu x %zu, stride %zu x %zu, dilation %zu x %zu: who reads "
            "(%zu, %zu) %zu x %zu",
            w->in_h, w->in_w, w->kernel_h, w->kernel_w, w->stride_h, w->stride_w, w->dilation_h,
            w->dilation_w, in.top, in.left, in.height, in.width);
    }
}

/* `size` bounds images, kernels and paddings. The two also agree on what is no window. */
static size_t random_windows(size_t windows, size_t size, size_t rectangles)
{
    size_t legal = 0;
    for (size_t i = 0; i < windows; i++) {
        const ls_window w = {1 + draw(size),     1 + draw(size),     1 + draw(size / 2),
                             1 + draw(size / 2), 1 + draw(size / 3), 1 + draw(size / 3),
                             1 + draw(3),        1 + draw(3),        draw(size / 2),
                             draw(size / 2),     draw(size / 2),     draw(size / 2)};
        const ls_stencil s = stencil_of(&w);
        const int is_one = ls_window_check("w", &w) == LS_OK;
        ls_error_clear();
        ck_assert(is_one == (ls_reach_outputs(&s.rows) > 0 && ls_reach_outputs(&s.columns) > 0));
        if (!is_one) continue;
        legal++;
        compare(&w, rectangles);
    }
    return legal;
}

START_TEST(small_windows)
{
    ck_assert_uint_gt(random_windows(20000, 9, 20), 10000);
}
END_TEST

START_TEST(large_windows)
{
    ck_assert_uint_gt(random_windows(2000, 300, 10), 500);
}
END_TEST

/* The largest numbers that a window may have. */
START_TEST(largest_windows)
{
    const size_t most = LS_WINDOW_MOST;
    const ls_window w[] = {{most, 1, 3, 1, 1, 1, most / 2, 1, most, most, 0, 0},
                           {1, most, 1, 2, 1, 1, 1, most, 0, 0, most, most},
                           {most, most, 7, 3, most, 2, 1, 1, most, most, 1, 0},
                           {1, 1, 5, 5, 1, 1, 1, 1, most, most, most, most}};
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        ck_assert_msg(ls_window_check("w", &w[i]) == LS_OK, "%s", ls_error_text());
        compare(&w[i], 8);
    }
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 60);
    tcase_add_test(all, small_windows);
    tcase_add_test(all, large_windows);
    tcase_add_test(all, largest_windows);
    return run_tests();
}
