/* test_window_reach.c - what a window reads (window.h), against its definition in loops. */
#include <check.h>
#include <stdlib.h>

#include "lockstep/kernels/window.h"
#include "partition/reach.h"
#include "run_tests.h"

/* ---- the definition, input by input and output by output */

static size_t by_loops_outputs(const reach *r)
{
    if (r->extent == 0 || r->kernel == 0 || r->stride == 0 || r->dilation == 0) return 0;
    size_t padded = r->extent + r->pad_before + r->pad_after;
    size_t span = (r->kernel - 1) * r->dilation + 1;
    return span > padded ? 0 : (padded - span) / r->stride + 1;
}

static ls_share by_loops_reads(const reach *r, ls_share outputs)
{
    if (outputs.count == 0) return (ls_share){0, 0};
    /* Counted from the beginning of the padding; input 0 is at pad_before. Output by output,
     * because with dilation the outermost one may step over all inputs. */
    size_t first = r->extent, end = 0;
    for (size_t o = outputs.first; o < outputs.first + outputs.count; o++)
        for (size_t k = 0; k < r->kernel; k++) {
            size_t at = o * r->stride + k * r->dilation;
            if (at < r->pad_before || at >= r->pad_before + r->extent) continue;
            at -= r->pad_before;
            if (at < first) first = at;
            if (at + 1 > end) end = at + 1;
        }
    return first < end ? (ls_share){first, end - first} : (ls_share){0, 0};
}

static ls_share by_loops_read_by(const reach *r, ls_share inputs)
{
    if (inputs.count == 0) return (ls_share){0, 0};
    size_t outputs = by_loops_outputs(r), first = outputs, end = 0;
    for (size_t q = inputs.first; q < inputs.first + inputs.count; q++)
        for (size_t k = 0; k < r->kernel; k++) {
            /* o stride = q + pad_before - k dilation */
            size_t at = q + r->pad_before, back = k * r->dilation;
            if (back > at || (at - back) % r->stride != 0) continue;
            size_t o = (at - back) / r->stride;
            if (o >= outputs) continue;
            if (o < first) first = o;
            if (o + 1 > end) end = o + 1;
        }
    return first < end ? (ls_share){first, end - first} : (ls_share){0, 0};
}

static ls_rectangle of_both(ls_share rows, ls_share columns)
{
    if (rows.count == 0 || columns.count == 0) return (ls_rectangle){0, 0, 0, 0};
    return (ls_rectangle){rows.first, columns.first, rows.count, columns.count};
}

static ls_rectangle stencil_reads(const stencil *s, ls_rectangle outputs)
{
    if (ls_rectangle_is_empty(outputs)) return (ls_rectangle){0, 0, 0, 0};
    return of_both(by_loops_reads(&s->rows, (ls_share){outputs.top, outputs.height}),
                   by_loops_reads(&s->columns, (ls_share){outputs.left, outputs.width}));
}

static ls_rectangle stencil_read_by(const stencil *s, ls_rectangle inputs)
{
    if (ls_rectangle_is_empty(inputs)) return (ls_rectangle){0, 0, 0, 0};
    return of_both(by_loops_read_by(&s->rows, (ls_share){inputs.top, inputs.height}),
                   by_loops_read_by(&s->columns, (ls_share){inputs.left, inputs.width}));
}

/* ---- random windows */

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

static stencil stencil_of(const ls_window *w)
{
    return (stencil){{w->in_h, w->kernel_h, w->stride_h, w->dilation_h, w->pad_top, w->pad_bottom},
                     {w->in_w, w->kernel_w, w->stride_w, w->dilation_w, w->pad_left, w->pad_right}};
}

static void compare(const ls_window *w, size_t rectangles)
{
    const stencil s = stencil_of(w);
    ck_assert_uint_eq(ls_window_out_h(w), by_loops_outputs(&s.rows));
    ck_assert_uint_eq(ls_window_out_w(w), by_loops_outputs(&s.columns));
    for (size_t i = 0; i < rectangles; i++) {
        const ls_rectangle out = draw_rectangle(ls_window_outputs(w));
        const ls_rectangle in = draw_rectangle(ls_window_inputs(w));
        ck_assert_msg(alike(ls_window_reads(w, out), stencil_reads(&s, out)),
                      "%zu x %zu, kernel %zu x %zu, stride %zu x %zu, dilation %zu x %zu: reads of "
                      "(%zu, %zu) %zu x %zu",
                      w->in_h, w->in_w, w->kernel_h, w->kernel_w, w->stride_h, w->stride_w,
                      w->dilation_h, w->dilation_w, out.top, out.left, out.height, out.width);
        ck_assert_msg(
            alike(ls_window_read_by(w, in), stencil_read_by(&s, in)),
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
        const stencil s = stencil_of(&w);
        const int is_one = ls_window_check("w", &w) == LS_OK;
        ls_error_clear();
        ck_assert(is_one == (by_loops_outputs(&s.rows) > 0 && by_loops_outputs(&s.columns) > 0));
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
