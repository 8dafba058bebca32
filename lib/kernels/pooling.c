/* pooling.c - maximum and average over windows, forward and backward. */
#include "lockstep/kernels/pooling.h"

#include <math.h>

/* Columns handled together: their windows are found once for all rows, channels and images. */
enum { COLUMNS = 64 };

/* Every run of such columns of a rectangle, from `left` on: `count` of them. columns[k]: what
 * of_column says of column left + k. */
#define EACH_RUN(window, pixels, of_column, columns, left, count)                                  \
    for (size_t left = (pixels).left, count;                                                       \
         left < (pixels).left + (pixels).width &&                                                  \
         (count = take_columns(window, pixels, left, of_column, columns), true);                   \
         left += count)

/* Every row of a rectangle in every channel of every image. */
#define EACH_ROW(pixels, images, channels, n, ch, row)                                             \
    for (size_t n = 0; n < (images); n++)                                                          \
        for (size_t ch = 0; ch < (channels); ch++)                                                 \
            for (size_t row = (pixels).top; row < (pixels).top + (pixels).height; row++)

/* Column 0 of a row of the image, wherever that is: only columns that are held are added to it. */
static size_t line(ls_image_layout layout, size_t n, size_t ch, size_t row)
{
    const ls_rectangle held = layout.held;
    return n * layout.stride + (ch * held.height + (row - held.top)) * held.width - held.left;
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

static size_t take_columns(const ls_window *w, ls_rectangle pixels, size_t left,
                           places (*of_column)(const ls_window *w, size_t column),
                           places ret_columns[COLUMNS])
{
    const size_t rest = pixels.left + pixels.width - left;
    const size_t count = rest < COLUMNS ? rest : COLUMNS;
    for (size_t k = 0; k < count; k++) ret_columns[k] = of_column(w, left + k);
    return count;
}

/* Whether output (r, c), whose window spans input (row, column), has a place of its kernel there.
 * Where it has not, it need not be held. */
static inline bool reads(const ls_window *w, size_t r, size_t c, size_t row, size_t column)
{
    if (w->dilation_h == 1 && w->dilation_w == 1) return true;
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

/* The largest of the window of output (row, column). x[origin + r w + c] is pixel (r, c). */
static ls_real largest(const ls_window *window, const ls_real *x, size_t origin, size_t w,
                       places rows, places columns, size_t row, size_t column, size_t *ret_where)
{
    const size_t top = input_row(window, row, rows.from);
    const size_t left = input_column(window, column, columns.from);
    size_t where = top * window->in_w + left;
    ls_real best = x[origin + top * w + left];
    for (size_t i = rows.from; i < rows.end; i++) {
        const size_t r = input_row(window, row, i);
        for (size_t j = columns.from; j < columns.end; j++) {
            const size_t c = input_column(window, column, j);
            const ls_real v = x[origin + r * w + c];
            if (v < best || !beats(v, best)) continue;
            best = v;
            where = r * window->in_w + c;
        }
    }
    *ret_where = where;
    return best;
}

void ls_max_pool_forward(const ls_window *window, size_t images, size_t channels, ls_real *y,
                         int32_t *place, ls_image_layout y_layout, ls_rectangle outputs,
                         const ls_real *x, ls_image_layout x_layout)
{
    places columns[COLUMNS];
    EACH_RUN(window, outputs, columns_inside, columns, left, n_columns)
    EACH_ROW(outputs, images, channels, n, ch, row)
    {
        const places rows = rows_inside(window, row);
        const size_t to = line(y_layout, n, ch, row), from = line(x_layout, n, ch, 0);
        for (size_t k = 0; k < n_columns; k++) {
            size_t where;
            y[to + left + k] = largest(window, x, from, x_layout.held.width, rows, columns[k], row,
                                       left + k, &where);
            place[to + left + k] = (int32_t)where;
        }
    }
}

/* Differentiates y = x[place]. */
void ls_max_pool_backward(const ls_window *window, size_t images, size_t channels, ls_real *dx,
                          ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                          const int32_t *place, ls_image_layout dy_layout)
{
    places columns[COLUMNS];
    EACH_RUN(window, inputs, columns_over, columns, left, n_columns)
    EACH_ROW(inputs, images, channels, n, ch, row)
    {
        const places rows = rows_over(window, row);
        const size_t to = line(dx_layout, n, ch, row) + left;
        for (size_t k = 0; k < n_columns; k++) {
            const int32_t here = (int32_t)(row * window->in_w + left + k);
            ls_real sum = (ls_real)-0.0; /* so that it begins with the first */
            bool any = false;
            for (size_t r = rows.from; r < rows.end; r++) {
                const size_t from = line(dy_layout, n, ch, r);
                for (size_t c = columns[k].from; c < columns[k].end; c++)
                    if (reads(window, r, c, row, left + k) && place[from + c] == here) {
                        sum = sum + dy[from + c];
                        any = true;
                    }
            }
            dx[to + k] = any ? sum : (ls_real)0;
        }
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
    places columns[COLUMNS];
    EACH_RUN(window, outputs, columns_inside, columns, left, n_columns)
    EACH_ROW(outputs, images, channels, n, ch, row)
    {
        const places rows = rows_inside(window, row);
        const size_t to = line(y_layout, n, ch, row) + left;
        for (size_t k = 0; k < n_columns; k++) {
            ls_real sum = (ls_real)-0.0; /* so that it begins with the first pixel */
            for (size_t i = rows.from; i < rows.end; i++) {
                const size_t from = line(x_layout, n, ch, input_row(window, row, i));
                for (size_t j = columns[k].from; j < columns[k].end; j++)
                    sum = sum + x[from + input_column(window, left + k, j)];
            }
            y[to + k] = sum / divisor(window, count_padding, rows, columns[k]);
        }
    }
}

/* Differentiates y = sum of x / count: each pixel of a window gets dy / count. */
void ls_average_pool_backward(const ls_window *window, bool count_padding, size_t images,
                              size_t channels, ls_real *dx, ls_image_layout dx_layout,
                              ls_rectangle inputs, const ls_real *dy, ls_image_layout dy_layout)
{
    places columns[COLUMNS];
    EACH_RUN(window, inputs, columns_over, columns, left, n_columns)
    EACH_ROW(inputs, images, channels, n, ch, row)
    {
        const places rows = rows_over(window, row);
        const size_t to = line(dx_layout, n, ch, row) + left;
        for (size_t k = 0; k < n_columns; k++) {
            ls_real sum = (ls_real)-0.0; /* so that it begins with the first */
            bool any = false;
            for (size_t r = rows.from; r < rows.end; r++) {
                const size_t from = line(dy_layout, n, ch, r);
                const places own_rows = rows_inside(window, r);
                for (size_t c = columns[k].from; c < columns[k].end; c++) {
                    if (!reads(window, r, c, row, left + k)) continue;
                    sum = sum + dy[from + c] / divisor(window, count_padding, own_rows,
                                                       columns_inside(window, c));
                    any = true;
                }
            }
            dx[to + k] = any ? sum : (ls_real)0;
        }
    }
}

void ls_global_pool_backward(ls_real *dx, ls_image_layout dx_layout, ls_rectangle pixels,
                             size_t images, size_t channels, const ls_real *dy, size_t count)
{
    EACH_ROW(pixels, images, channels, n, ch, row)
    {
        const ls_real each = dy[n * channels + ch] / (ls_real)count;
        const size_t to = line(dx_layout, n, ch, row) + pixels.left;
        for (size_t c = 0; c < pixels.width; c++) dx[to + c] = each;
    }
}
