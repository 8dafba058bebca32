/* im2col.c - the pixels that each place of a kernel meets, as rows of a matrix. */
#include "kernels/im2col.h"

#include <string.h>

/* Where a run of targets meets sources at one place of the kernel: target first + k * step (counted
 * from the run's beginning) meets source + k * source_step, k < count. */
typedef struct meeting {
    size_t first, step, count, source, source_step;
} meeting;

static size_t divide_up(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

/* `from` .. `from` + n are outputs; the place is `shift` behind the window's first pixel. */
static meeting outputs_meet(size_t from, size_t n, size_t shift, size_t stride, size_t pad,
                            size_t in)
{
    meeting none = {0, 1, 0, 0, 1};
    size_t low = shift < pad ? divide_up(pad - shift, stride) : 0;
    if (in + pad <= shift) return none;
    size_t end = (in + pad - shift - 1) / stride + 1;
    if (low < from) low = from;
    if (end > from + n) end = from + n;
    if (low >= end) return none;
    return (meeting){low - from, 1, end - low, low * stride + shift - pad, stride};
}

/* `from` .. `from` + n are inputs. */
static meeting inputs_meet(size_t from, size_t n, size_t shift, size_t stride, size_t pad,
                           size_t out)
{
    meeting none = {0, 1, 0, 0, 1};
    if (from + n + pad <= shift) return none;
    size_t low = from + pad > shift ? divide_up(from + pad - shift, stride) : 0;
    size_t end = (from + n - 1 + pad - shift) / stride + 1;
    if (end > out) end = out;
    if (low >= end) return none;
    return (meeting){low * stride + shift - pad - from, stride, end - low, low, 1};
}

static meeting rows_meet(ls_im2col_way way, const ls_window *w, ls_rectangle targets, size_t i)
{
    size_t shift = i * w->dilation_h;
    return way == LS_OUTPUTS_FROM_INPUTS
               ? outputs_meet(targets.top, targets.height, shift, w->stride_h, w->pad_top, w->in_h)
               : inputs_meet(targets.top, targets.height, shift, w->stride_h, w->pad_top,
                             ls_window_out_h(w));
}

static meeting columns_meet(ls_im2col_way way, const ls_window *w, ls_rectangle targets, size_t j)
{
    size_t shift = j * w->dilation_w;
    return way == LS_OUTPUTS_FROM_INPUTS
               ? outputs_meet(targets.left, targets.width, shift, w->stride_w, w->pad_left, w->in_w)
               : inputs_meet(targets.left, targets.width, shift, w->stride_w, w->pad_left,
                             ls_window_out_w(w));
}

static void zero(ls_real *to, size_t n)
{
    for (size_t i = 0; i < n; i++) to[i] = (ls_real)0;
}

/* One row of targets, `width` of them; from: the source at the first meeting. */
static void fill_row(ls_real *restrict to, size_t width, const ls_real *restrict from, meeting m)
{
    if (m.step == 1) {
        zero(to, m.first);
        if (m.source_step == 1)
            for (size_t k = 0; k < m.count; k++) to[m.first + k] = from[k];
        else
            for (size_t k = 0; k < m.count; k++) to[m.first + k] = from[k * m.source_step];
        zero(to + m.first + m.count, width - m.first - m.count);
    } else {
        zero(to, width);
        for (size_t k = 0; k < m.count; k++) to[m.first + k * m.step] = from[k];
    }
}

/* One channel at one place of the kernel. */
static void fill_channel(ls_real *to, ls_rectangle targets, const ls_real *source, size_t line,
                         meeting rows, meeting columns)
{
    size_t next = 0;
    for (size_t k = 0; k < rows.count; k++) {
        size_t row = rows.first + k * rows.step;
        zero(to + next * targets.width, (row - next) * targets.width);
        fill_row(to + row * targets.width, targets.width, source + k * rows.source_step * line,
                 columns);
        next = row + 1;
    }
    zero(to + next * targets.width, (targets.height - next) * targets.width);
}

void ls_im2col(ls_real *to, size_t ld, ls_im2col_way way, const ls_window *window,
               ls_rectangle targets, const ls_real *source, ls_rectangle held, size_t channels)
{
    const size_t kernel = window->kernel_h * window->kernel_w;
    for (size_t i = 0; i < window->kernel_h; i++)
        for (size_t j = 0; j < window->kernel_w; j++) {
            meeting rows = rows_meet(way, window, targets, i);
            meeting columns = columns_meet(way, window, targets, j);
            size_t corner = 0;
            if (columns.count == 0)
                rows.count = 0;
            else if (rows.count > 0)
                corner = (rows.source - held.top) * held.width + (columns.source - held.left);
            for (size_t ch = 0; ch < channels; ch++)
                fill_channel(to + (ch * kernel + i * window->kernel_w + j) * ld, targets,
                             source + ch * ls_rectangle_count(held) + corner, held.width, rows,
                             columns);
        }
}
