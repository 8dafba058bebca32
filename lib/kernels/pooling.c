/* pooling.c - maximum and average over windows, forward beside backward. */
#include "lockstep/kernels/pooling.h"

#include <math.h>

/* Calls for every pixel of a rectangle, in every channel of every image. */
#define EACH_PIXEL(pixels, images, channels, n, ch, row, column)                                   \
    for (size_t n = 0; n < (images); n++)                                                          \
        for (size_t ch = 0; ch < (channels); ch++)                                                 \
            for (size_t row = (pixels).top; row < (pixels).top + (pixels).height; row++)           \
                for (size_t column = (pixels).left; column < (pixels).left + (pixels).width;       \
                     column++)

static size_t element(ls_image_layout layout, size_t n, size_t ch, size_t row, size_t column)
{
    return n * layout.stride + ch * ls_rectangle_count(layout.held) +
           (row - layout.held.top) * layout.held.width + (column - layout.held.left);
}

/* The places of a kernel, from .. end, that are inside the image for output o. */
typedef struct places {
    size_t from, end;
} places;

static places places_inside(size_t o, size_t kernel, size_t stride, size_t dilation, size_t pad,
                            size_t in)
{
    const size_t start = o * stride; /* in the padded image */
    places p = {start < pad ? (pad - start + dilation - 1) / dilation : 0, 0};
    if (start < pad + in) p.end = (pad + in - start - 1) / dilation + 1;
    if (p.end > kernel) p.end = kernel;
    if (p.from > p.end) p.from = p.end;
    return p;
}

/* The outputs, from .. end, whose windows span the input q. */
static places windows_over(size_t q, size_t kernel, size_t stride, size_t dilation, size_t pad,
                           size_t out)
{
    const size_t reach = (kernel - 1) * dilation;
    places p = {q + pad > reach ? (q + pad - reach + stride - 1) / stride : 0,
                (q + pad) / stride + 1};
    if (p.end > out) p.end = out;
    return p;
}

static places rows_inside(const ls_window *w, size_t row)
{
    return places_inside(row, w->kernel_h, w->stride_h, w->dilation_h, w->pad_top, w->in_h);
}

static places columns_inside(const ls_window *w, size_t column)
{
    return places_inside(column, w->kernel_w, w->stride_w, w->dilation_w, w->pad_left, w->in_w);
}

static places rows_over(const ls_window *w, size_t row)
{
    return windows_over(row, w->kernel_h, w->stride_h, w->dilation_h, w->pad_top,
                        ls_window_out_h(w));
}

static places columns_over(const ls_window *w, size_t column)
{
    return windows_over(column, w->kernel_w, w->stride_w, w->dilation_w, w->pad_left,
                        ls_window_out_w(w));
}

/* Whether output (r, c), whose window spans input (row, column), has a place of its kernel there.
 */
static bool reads(const ls_window *w, size_t r, size_t c, size_t row, size_t column)
{
    return (row + w->pad_top - r * w->stride_h) % w->dilation_h == 0 &&
           (column + w->pad_left - c * w->stride_w) % w->dilation_w == 0;
}

static size_t input_row(const ls_window *w, size_t row, size_t i)
{
    return row * w->stride_h + i * w->dilation_h - w->pad_top;
}

static size_t input_column(const ls_window *w, size_t column, size_t j)
{
    return column * w->stride_w + j * w->dilation_w - w->pad_left;
}

/* ---- maximum ---- */

/* Whether v beats `best` (rule 3); an equal one does not. */
static bool beats(ls_real v, ls_real best)
{
    if (best != best) return false;
    return v != v || v > best || (v == best && signbit(best) && !signbit(v));
}

void ls_max_pool_forward(const ls_window *window, size_t images, size_t channels, ls_real *y,
                         int32_t *place, ls_image_layout y_layout, ls_rectangle outputs,
                         const ls_real *x, ls_image_layout x_layout)
{
    EACH_PIXEL(outputs, images, channels, n, ch, row, column)
    {
        const places rows = rows_inside(window, row), columns = columns_inside(window, column);
        ls_real best = (ls_real)-INFINITY;
        size_t where = SIZE_MAX;
        for (size_t i = rows.from; i < rows.end; i++)
            for (size_t j = columns.from; j < columns.end; j++) {
                const size_t r = input_row(window, row, i), c = input_column(window, column, j);
                const ls_real v = x[element(x_layout, n, ch, r, c)];
                if (where == SIZE_MAX || beats(v, best)) {
                    best = v;
                    where = r * window->in_w + c;
                }
            }
        y[element(y_layout, n, ch, row, column)] = best;
        place[element(y_layout, n, ch, row, column)] = (int32_t)where;
    }
}

/* Differentiates y = x[place]. */
void ls_max_pool_backward(const ls_window *window, size_t images, size_t channels, ls_real *dx,
                          ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                          const int32_t *place, ls_image_layout dy_layout)
{
    EACH_PIXEL(inputs, images, channels, n, ch, row, column)
    {
        const places rows = rows_over(window, row), columns = columns_over(window, column);
        const int32_t here = (int32_t)(row * window->in_w + column);
        ls_real sum = 0;
        bool any = false;
        for (size_t r = rows.from; r < rows.end; r++)
            for (size_t c = columns.from; c < columns.end; c++) {
                if (!reads(window, r, c, row, column)) continue;
                const size_t at = element(dy_layout, n, ch, r, c);
                if (place[at] != here) continue;
                sum = any ? sum + dy[at] : dy[at];
                any = true;
            }
        dx[element(dx_layout, n, ch, row, column)] = sum;
    }
}

/* ---- average ---- */

static ls_real divisor(const ls_window *w, bool count_padding, places rows, places columns)
{
    return count_padding ? (ls_real)(w->kernel_h * w->kernel_w)
                         : (ls_real)((rows.end - rows.from) * (columns.end - columns.from));
}

void ls_average_pool_forward(const ls_window *window, bool count_padding, size_t images,
                             size_t channels, ls_real *y, ls_image_layout y_layout,
                             ls_rectangle outputs, const ls_real *x, ls_image_layout x_layout)
{
    EACH_PIXEL(outputs, images, channels, n, ch, row, column)
    {
        const places rows = rows_inside(window, row), columns = columns_inside(window, column);
        ls_real sum = (ls_real)-0.0; /* so that the sum begins with the first pixel */
        for (size_t i = rows.from; i < rows.end; i++)
            for (size_t j = columns.from; j < columns.end; j++)
                sum = sum + x[element(x_layout, n, ch, input_row(window, row, i),
                                      input_column(window, column, j))];
        y[element(y_layout, n, ch, row, column)] =
            sum / divisor(window, count_padding, rows, columns);
    }
}

/* Differentiates y = sum of x / count: each pixel of a window gets dy / count. */
void ls_average_pool_backward(const ls_window *window, bool count_padding, size_t images,
                              size_t channels, ls_real *dx, ls_image_layout dx_layout,
                              ls_rectangle inputs, const ls_real *dy, ls_image_layout dy_layout)
{
    EACH_PIXEL(inputs, images, channels, n, ch, row, column)
    {
        const places rows = rows_over(window, row), columns = columns_over(window, column);
        ls_real sum = 0;
        bool any = false;
        for (size_t r = rows.from; r < rows.end; r++)
            for (size_t c = columns.from; c < columns.end; c++) {
                if (!reads(window, r, c, row, column)) continue;
                const ls_real term = dy[element(dy_layout, n, ch, r, c)] /
                                     divisor(window, count_padding, rows_inside(window, r),
                                             columns_inside(window, c));
                sum = any ? sum + term : term;
                any = true;
            }
        dx[element(dx_layout, n, ch, row, column)] = sum;
    }
}

void ls_global_pool_backward(ls_real *dx, ls_image_layout dx_layout, ls_rectangle pixels,
                             size_t images, size_t channels, const ls_real *dy, size_t count)
{
    EACH_PIXEL(pixels, images, channels, n, ch, row, column)
    dx[element(dx_layout, n, ch, row, column)] = dy[n * channels + ch] / (ls_real)count;
}
