/* conv2d_naive.c - convolution as it is defined, one element at a time.
 *
 * Each function below says what its terms are; `contract` adds them as rules 5 to 7 say. */
#include "lockstep/kernels/conv2d_naive.h"

#include <math.h>

#include "lockstep/numerics/tree.h"

#ifdef LS_REAL_IS_F64
#define FMA fma
#else
#define FMA fmaf
#endif

typedef struct factors {
    ls_real a, b;
    bool absent; /* no term: nothing is multiplied */
} factors;

/* The element at hand, and where its terms come from. */
typedef struct element {
    const ls_conv2d *conv;
    size_t ci, co; /* of all channels; the one that is summed over is its group's first */
    size_t row, column;
    const ls_real *weight;
    size_t ld_weight;
    const ls_real *x, *dy;
    ls_image_layout x_layout, dy_layout;
    ls_rectangle pixels; /* of a weight gradient */
} element;

typedef factors term_of(const element *e, size_t k);

/* Terms first .. first + n in leaves of at most LS_LEAF, T over the leaves. */
static ls_real granule(const element *e, term_of *term, size_t first, size_t n)
{
    size_t leaves = (n + LS_LEAF - 1) / LS_LEAF;
    if (leaves > 1) {
        size_t left = ls_tree_split(leaves) * LS_LEAF;
        ls_real sum = granule(e, term, first, left);
        return sum + granule(e, term, first + left, n - left);
    }
    ls_real sum = 0;
    for (size_t k = first; k < first + n; k++) {
        factors f = term(e, k);
        if (!f.absent) sum = FMA(f.a, f.b, sum);
    }
    return sum;
}

/* T over the granules of the axis, which begins at granule `first`. */
static ls_real contract(const element *e, term_of *term, size_t first, ls_axis k)
{
    if (k.granules == 1) return granule(e, term, first * k.granule, k.granule);
    size_t left = ls_tree_split(k.granules);
    ls_real sum = contract(e, term, first, ls_axis_of(left, k.granule));
    return sum + contract(e, term, first + left, ls_axis_of(k.granules - left, k.granule));
}

static size_t group_in(const ls_conv2d *c)
{
    return c->in_channels / c->groups;
}

static size_t group_out(const ls_conv2d *c)
{
    return c->out_channels / c->groups;
}

static size_t kernel_size(const ls_conv2d *c)
{
    return c->window.kernel_h * c->window.kernel_w;
}

static size_t place(ls_image_layout layout, size_t channel, size_t row, size_t column)
{
    return channel * ls_rectangle_count(layout.held) + (row - layout.held.top) * layout.held.width +
           (column - layout.held.left);
}

/* The input that output (row, column) reads at kernel place (i, j): +0 in the padding. */
static ls_real read_input(const element *e, size_t channel, size_t row, size_t column, size_t i,
                          size_t j)
{
    const ls_window *w = &e->conv->window;
    size_t r = row * w->stride_h + i * w->dilation_h; /* in the padded image */
    size_t c = column * w->stride_w + j * w->dilation_w;
    if (r < w->pad_top || r >= w->pad_top + w->in_h || c < w->pad_left ||
        c >= w->pad_left + w->in_w)
        return (ls_real)0;
    return e->x[place(e->x_layout, channel, r - w->pad_top, c - w->pad_left)];
}

/* ---- y ---- */

static factors forward_term(const element *e, size_t k)
{
    const size_t kernel = kernel_size(e->conv), width = e->conv->window.kernel_w;
    const size_t ci = k / kernel, i = k % kernel / width, j = k % width;
    return (factors){e->weight[e->co * e->ld_weight + k],
                     read_input(e, e->ci + ci, e->row, e->column, i, j), false};
}

void ls_conv2d_naive_forward(const ls_conv2d *conv, size_t images, ls_real *y,
                             ls_image_layout y_layout, ls_rectangle outputs, const ls_real *x,
                             ls_image_layout x_layout, const ls_real *weight, size_t ld_weight,
                             const ls_real *bias)
{
    const ls_axis k =
        ls_axis_of(conv->in_granules, group_in(conv) / conv->in_granules * kernel_size(conv));
    element e = {.conv = conv, .weight = weight, .ld_weight = ld_weight, .x_layout = x_layout};
    for (size_t n = 0; n < images; n++)
        for (e.co = 0; e.co < conv->out_channels; e.co++)
            for (e.row = outputs.top; e.row < outputs.top + outputs.height; e.row++)
                for (e.column = outputs.left; e.column < outputs.left + outputs.width; e.column++) {
                    e.x = x + n * x_layout.stride;
                    e.ci = e.co / group_out(conv) * group_in(conv);
                    ls_real sum = contract(&e, forward_term, 0, k);
                    if (bias != NULL) sum = sum + bias[e.co];
                    y[n * y_layout.stride + place(y_layout, e.co, e.row, e.column)] = sum;
                }
}

/* ---- dx ---- */

/* Weight and the gradient of the output that reads input (row, column) at kernel place (i, j): +0
 * beyond the border, no term where the stride steps over the place. */
static factors backward_term(const element *e, size_t k)
{
    const ls_window *w = &e->conv->window;
    const size_t kernel = kernel_size(e->conv), width = w->kernel_w;
    const size_t co = e->co + k / kernel, i = k % kernel / width, j = k % width;
    const size_t ci = e->ci % group_in(e->conv);
    factors f = {e->weight[co * e->ld_weight + ci * kernel + k % kernel], (ls_real)0, false};
    const long r = (long)(e->row + w->pad_top) - (long)(i * w->dilation_h);
    const long c = (long)(e->column + w->pad_left) - (long)(j * w->dilation_w);
    const long down = (long)w->stride_h, across = (long)w->stride_w;
    if (r % down != 0 || c % across != 0)
        f.absent = true;
    else if (r >= 0 && c >= 0 && r / down < (long)ls_window_out_h(w) &&
             c / across < (long)ls_window_out_w(w))
        f.b = e->dy[place(e->dy_layout, co, (size_t)(r / down), (size_t)(c / across))];
    return f;
}

void ls_conv2d_naive_backward(const ls_conv2d *conv, size_t images, ls_real *dx,
                              ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                              ls_image_layout dy_layout, const ls_real *weight, size_t ld_weight)
{
    const ls_axis k =
        ls_axis_of(conv->out_granules, group_out(conv) / conv->out_granules * kernel_size(conv));
    element e = {.conv = conv, .weight = weight, .ld_weight = ld_weight, .dy_layout = dy_layout};
    for (size_t n = 0; n < images; n++)
        for (e.ci = 0; e.ci < conv->in_channels; e.ci++)
            for (e.row = inputs.top; e.row < inputs.top + inputs.height; e.row++)
                for (e.column = inputs.left; e.column < inputs.left + inputs.width; e.column++) {
                    e.dy = dy + n * dy_layout.stride;
                    e.co = e.ci / group_in(conv) * group_out(conv);
                    dx[n * dx_layout.stride + place(dx_layout, e.ci, e.row, e.column)] =
                        contract(&e, backward_term, 0, k);
                }
}

/* ---- dweight ---- */

/* Here row and column are the kernel's place. */
static factors weight_term(const element *e, size_t k)
{
    const size_t r = e->pixels.top + k / e->pixels.width;
    const size_t c = e->pixels.left + k % e->pixels.width;
    return (factors){e->dy[place(e->dy_layout, e->co, r, c)],
                     read_input(e, e->ci, r, c, e->row, e->column), false};
}

void ls_conv2d_naive_weight_leaf(const ls_conv2d *conv, ls_real *dweight, size_t ld_weight,
                                 const ls_real *dy, ls_image_layout dy_layout, ls_rectangle outputs,
                                 const ls_real *x, ls_image_layout x_layout)
{
    const ls_axis k = ls_axis_whole(ls_rectangle_count(outputs));
    element e = {.conv = conv,
                 .x = x,
                 .dy = dy,
                 .x_layout = x_layout,
                 .dy_layout = dy_layout,
                 .pixels = outputs};
    for (e.co = 0; e.co < conv->out_channels; e.co++)
        for (size_t in = 0; in < group_in(conv); in++)
            for (e.row = 0; e.row < conv->window.kernel_h; e.row++)
                for (e.column = 0; e.column < conv->window.kernel_w; e.column++) {
                    e.ci = e.co / group_out(conv) * group_in(conv) + in;
                    ls_real *to = dweight + e.co * ld_weight + in * kernel_size(conv) +
                                  e.row * conv->window.kernel_w + e.column;
                    *to = ls_rectangle_is_empty(outputs) ? (ls_real)-0.0
                                                         : contract(&e, weight_term, 0, k);
                }
}
