/* window.c - which pixels a convolution or a pooling reads.
 *
 * Rows and columns are two times the same thing: one dimension of a window is an `along`. */
#include "lockstep/kernels/window.h"

#include <stdint.h>

typedef struct along {
    const char *pixels; /* "rows" or "columns"       */
    const char *way;    /* "height" or "width"       */
    size_t in, kernel, stride, dilation, before, after;
} along;

/* A run of pixels, first .. end. */
typedef struct run {
    size_t first, end;
} run;

static along rows_of(const ls_window *w)
{
    return (along){"rows",      "height",      w->in_h,    w->kernel_h,
                   w->stride_h, w->dilation_h, w->pad_top, w->pad_bottom};
}

static along columns_of(const ls_window *w)
{
    return (along){"columns",   "width",       w->in_w,     w->kernel_w,
                   w->stride_w, w->dilation_w, w->pad_left, w->pad_right};
}

/* From a window's first pixel to its last: the last kernel pixel has no dilation after it. */
static size_t extent(along a)
{
    return (a.kernel - 1) * a.dilation + 1;
}

static size_t outputs(along a)
{
    return (a.in + a.before + a.after - extent(a)) / a.stride + 1;
}

/* Whether output o reads any of the run of inputs. */
static bool reads_any(along a, size_t o, run inputs)
{
    for (size_t i = 0; i < a.kernel; i++) {
        size_t padded = o * a.stride + i * a.dilation;
        if (padded >= inputs.first + a.before && padded < inputs.end + a.before) return true;
    }
    return false;
}

static run reads(along a, run out)
{
    run none = {0, 0}, in = {a.in, 0};
    if (out.first >= out.end) return none;
    for (size_t i = 0; i < a.kernel; i++) {
        /* The outputs of the run whose kernel pixel i is inside the image. */
        size_t shift = i * a.dilation, low = 0;
        if (shift + out.first * a.stride < a.before)
            low = (a.before - shift + a.stride - 1) / a.stride;
        if (low < out.first) low = out.first;
        if (a.in + a.before <= shift) continue;
        size_t high = (a.in + a.before - shift - 1) / a.stride + 1;
        if (high > out.end) high = out.end;
        if (low >= high) continue;
        size_t first = low * a.stride + shift - a.before;
        size_t end = (high - 1) * a.stride + shift - a.before + 1;
        if (first < in.first) in.first = first;
        if (end > in.end) in.end = end;
    }
    return in.first < in.end ? in : none;
}

static run read_by(along a, run in)
{
    run none = {0, 0};
    if (in.first >= in.end) return none;
    /* The windows that span the run; at its ends some may step over it. */
    size_t reach = extent(a) - 1, first = 0;
    if (in.first + a.before > reach)
        first = (in.first + a.before - reach + a.stride - 1) / a.stride;
    size_t end = (in.end - 1 + a.before) / a.stride + 1, all = outputs(a);
    if (end > all) end = all;
    while (first < end && !reads_any(a, first, in)) first++;
    while (first < end && !reads_any(a, end - 1, in)) end--;
    return first < end ? (run){first, end} : none;
}

/* ---- rectangles ---- */

static run rows_in(ls_rectangle r)
{
    return (run){r.top, ls_rectangle_is_empty(r) ? r.top : r.top + r.height};
}

static run columns_in(ls_rectangle r)
{
    return (run){r.left, ls_rectangle_is_empty(r) ? r.left : r.left + r.width};
}

static ls_rectangle rectangle(run rows, run columns)
{
    if (rows.first >= rows.end || columns.first >= columns.end) return (ls_rectangle){0, 0, 0, 0};
    return (ls_rectangle){rows.first, columns.first, rows.end - rows.first,
                          columns.end - columns.first};
}

bool ls_rectangle_inside(ls_rectangle inner, ls_rectangle outer)
{
    return ls_rectangle_is_empty(inner) || (inner.top >= outer.top && inner.left >= outer.left &&
                                            inner.top + inner.height <= outer.top + outer.height &&
                                            inner.left + inner.width <= outer.left + outer.width);
}

size_t ls_window_out_h(const ls_window *window)
{
    return outputs(rows_of(window));
}

size_t ls_window_out_w(const ls_window *window)
{
    return outputs(columns_of(window));
}

ls_rectangle ls_window_inputs(const ls_window *window)
{
    return (ls_rectangle){0, 0, window->in_h, window->in_w};
}

ls_rectangle ls_window_outputs(const ls_window *window)
{
    return (ls_rectangle){0, 0, ls_window_out_h(window), ls_window_out_w(window)};
}

ls_rectangle ls_window_reads(const ls_window *window, ls_rectangle r)
{
    return rectangle(reads(rows_of(window), rows_in(r)), reads(columns_of(window), columns_in(r)));
}

ls_rectangle ls_window_read_by(const ls_window *window, ls_rectangle r)
{
    return rectangle(read_by(rows_of(window), rows_in(r)),
                     read_by(columns_of(window), columns_in(r)));
}

/* ---- checks ---- */

static ls_status check_along(const char *name, along a)
{
    ls_status status = LS_OK;
    const struct {
        const char *what;
        size_t value, least;
    } numbers[] = {{"image", a.in, 1},
                   {"kernel", a.kernel, 1},
                   {"stride", a.stride, 1},
                   {"dilation", a.dilation, 1},
                   {"padding before", a.before, 0},
                   {"padding after", a.after, 0}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value < numbers[i].least || numbers[i].value > LS_WINDOW_MOST)
            LS_FAIL(LS_ERR_INPUT, "%s: %s of %zu in %s: %zu to %d are allowed", name,
                    numbers[i].what, numbers[i].value, a.way, numbers[i].least, LS_WINDOW_MOST);
    if (extent(a) > a.in + a.before + a.after)
        LS_FAIL(LS_ERR_INPUT,
                "%s: a kernel of %zu with dilation %zu spans %zu %s, the padded image has %zu: the "
                "kernel may span no more",
                name, a.kernel, a.dilation, extent(a), a.pixels, a.in + a.before + a.after);
exit:
    return status;
}

ls_status ls_window_check(const char *name, const ls_window *window)
{
    ls_status status = LS_OK;
    LS_TRY(check_along(name, rows_of(window)));
    LS_TRY(check_along(name, columns_of(window)));
exit:
    return status;
}

static ls_status check_pool_along(const char *name, along a)
{
    ls_status status = LS_OK;
    for (size_t o = 0, n = outputs(a); o < n; o++)
        if (!reads_any(a, o, (run){0, a.in}))
            LS_FAIL(LS_ERR_INPUT,
                    "%s: the window at output %zu of the %s lies in the padding (%zu before, %zu "
                    "after): each window needs a pixel of the image",
                    name, o, a.pixels, a.before, a.after);
exit:
    return status;
}

ls_status ls_window_check_pool(const char *name, const ls_window *window)
{
    ls_status status = LS_OK;
    LS_TRY(ls_window_check(name, window));
    LS_TRY(check_pool_along(name, rows_of(window)));
    LS_TRY(check_pool_along(name, columns_of(window)));
    if (window->in_h > INT32_MAX / window->in_w)
        LS_FAIL(LS_ERR_INPUT, "%s: an image of %zu x %zu: pooling takes at most %ld pixels", name,
                window->in_h, window->in_w, (long)INT32_MAX);
exit:
    return status;
}
