/* operation_net_conv.c - two-dimensional convolution.
 *
 *     y[n][co][r][c] = b[co] + sum over ci, i, j of w[co][ci][i][j] x[n][ci][R][C]
 *     R = r stride - pad + i dilation, C alike; what lies outside the image is 0
 *     dx[n][ci][R][C] += dy w    dw[co][ci][i][j] = sum over n, r, c of dy x    db[co] = sum of dy
 *
 * all over the same index sets; with groups, run g of the channels made reads run g of those read.
 * A bound is that of a sum of products in any order. */
#include "step_graph/operation_net.h"

/* What goes on for each kernel place: an output's pixel and the input's that it reads. */
typedef struct conv {
    net_layer l;
    size_t read, made; /* channels of a group */
    size_t depth;      /* of a row of the weight */
    net_halo halo;
    const double *w;
} conv;

static conv conv_of(const evaluation *e, const ls_graph_node *node, bool backward)
{
    conv c = {.l = ls_net_layer_at(e, node)};
    c.read = c.l.in.channels / c.l.layer->groups;
    c.made = c.l.out.channels / c.l.layer->groups;
    c.depth = c.read * c.l.window.kernel_h * c.l.window.kernel_w;
    c.w = param_of(e, node->params[0]);
    ls_net_halo_begin(&c.halo, e, &c.l, backward);
    return c;
}

/* The kernel's place in a row of the weight. */
static size_t tap_of(const evaluation *e, const conv *c, size_t ci, size_t i, size_t j)
{
    const size_t kh = c->l.window.kernel_h, kw = c->l.window.kernel_w;
    if (e->variant.flipped) i = kh - 1 - i, j = kw - 1 - j;
    return (ci * kh + i) * kw + j;
}

/* Of an output pixel, kernel place (i, j): the input pixel. */
static bool input_of(const conv *c, size_t row, size_t column, size_t i, size_t j, size_t *ret_row,
                     size_t *ret_column)
{
    const ls_window *w = &c->l.window;
    return net_reads(row, i, w->stride_h, w->dilation_h, w->pad_top, w->in_h, ret_row) &&
           net_reads(column, j, w->stride_w, w->dilation_w, w->pad_left, w->in_w, ret_column);
}

/* One output pixel of one image, all channels. */
static void add_outputs(const evaluation *e, conv *c, const double *x, size_t row, size_t column,
                        approx_sum *y)
{
    const net_layer *l = &c->l;
    ls_net_halo_at(&c->halo, l, false, row, column);
    for (size_t i = 0; i < l->window.kernel_h; i++)
        for (size_t j = 0; j < l->window.kernel_w; j++) {
            size_t R, C;
            if (!input_of(c, row, column, i, j, &R, &C) || !ls_net_halo_source(&c->halo, &R, &C))
                continue;
            for (size_t co = 0; co < l->out.channels; co++) {
                const double *from =
                    x + co / c->made * c->read * l->in_pixels + R * l->in.width + C;
                const double *w = c->w + co * c->depth;
                approx_sum *sum = &y[co * l->out_pixels + row * l->out.width + column];
                for (size_t ci = 0; ci < c->read; ci++)
                    approx_sum_add(
                        sum, approx_exact(from[ci * l->in_pixels] * w[tap_of(e, c, ci, i, j)]));
            }
        }
}

ls_status ls_evaluate_conv(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    conv c = conv_of(e, node, false);
    const net_layer *l = &c.l;
    const double *x = operand_of(e, node, 0), *b = param_of(e, node->params[1]);
    for (size_t n = 0; n < l->images; n++) {
        approx_sum *y = out + n * l->out.channels * l->out_pixels;
        for (size_t p = 0; p < l->out_pixels; p++)
            add_outputs(e, &c, x + n * l->in.channels * l->in_pixels, p / l->out.width,
                        p % l->out.width, y);
        for (size_t i = 0; b && i < l->out.channels * l->out_pixels; i++)
            approx_sum_add(&y[i], approx_exact(b[i / l->out_pixels]));
    }
    return LS_OK;
}

/* The output that reads an input pixel by kernel place k on one axis; false: there is none. */
static bool output_of(size_t at, size_t k, size_t stride, size_t dilation, size_t pad,
                      size_t outputs, size_t *ret_output)
{
    const size_t above = at + pad;
    if (above < k * dilation || (above - k * dilation) % stride != 0) return false;
    *ret_output = (above - k * dilation) / stride;
    return *ret_output < outputs;
}

/* One input pixel of one image, all channels. */
static void add_inputs(const evaluation *e, conv *c, const double *dy, size_t row, size_t column,
                       approx_sum *dx)
{
    const net_layer *l = &c->l;
    const ls_window *w = &l->window;
    ls_net_halo_at(&c->halo, l, true, row, column);
    for (size_t i = 0; i < w->kernel_h; i++)
        for (size_t j = 0; j < w->kernel_w; j++) {
            size_t r, s;
            if (!output_of(row, i, w->stride_h, w->dilation_h, w->pad_top, l->out.height, &r) ||
                !output_of(column, j, w->stride_w, w->dilation_w, w->pad_left, l->out.width, &s) ||
                !ls_net_halo_source(&c->halo, &r, &s))
                continue;
            for (size_t co = 0; co < l->out.channels; co++) {
                const approx d = approx_input(e->p, dy[co * l->out_pixels + r * l->out.width + s]);
                const double *weight = c->w + co * c->depth;
                approx_sum *sum =
                    dx + co / c->made * c->read * l->in_pixels + row * l->in.width + column;
                for (size_t ci = 0; ci < c->read; ci++)
                    approx_sum_add(&sum[ci * l->in_pixels],
                                   approx_product(d, approx_exact(weight[tap_of(e, c, ci, i, j)])));
            }
        }
}

ls_status ls_evaluate_conv_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    conv c = conv_of(e, reader, true);
    const net_layer *l = &c.l;
    const double *dy = gradient_of(e, reader);
    (void)slot;
    for (size_t n = 0; n < l->images; n++)
        for (size_t p = 0; p < l->in_pixels; p++)
            add_inputs(e, &c, dy + n * l->out.channels * l->out_pixels, p / l->in.width,
                       p % l->in.width, out + n * l->in.channels * l->in_pixels);
    return LS_OK;
}

/* dw of one output channel from one of its pixels. */
static void add_weight(const evaluation *e, conv *c, const double *x, approx d, size_t row,
                       size_t column, approx_sum *dw)
{
    const net_layer *l = &c->l;
    for (size_t i = 0; i < l->window.kernel_h; i++)
        for (size_t j = 0; j < l->window.kernel_w; j++) {
            size_t R, C;
            if (!input_of(c, row, column, i, j, &R, &C) || !ls_net_halo_source(&c->halo, &R, &C))
                continue;
            for (size_t ci = 0; ci < c->read; ci++)
                approx_sum_add(
                    &dw[tap_of(e, c, ci, i, j)],
                    approx_product(d, approx_exact(x[ci * l->in_pixels + R * l->in.width + C])));
        }
}

ls_status ls_evaluate_conv_params(const evaluation *e, const ls_graph_node *reader, int slot,
                                  approx_sum *out)
{
    conv c = conv_of(e, reader, false);
    const net_layer *l = &c.l;
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    const size_t made = l->out.channels * l->out_pixels;
    for (size_t k = 0; k < l->images * made; k++) {
        const size_t n = k / made, co = k % made / l->out_pixels, p = k % l->out_pixels;
        const approx d = approx_input(e->p, dy[k]);
        if (slot == 1) {
            approx_sum_add(&out[co], d);
            continue;
        }
        if (e->variant.sparse && d.value == 0) continue;
        ls_net_halo_at(&c.halo, l, false, p / l->out.width, p % l->out.width);
        add_weight(e, &c, x + (n * l->in.channels + co / c.made * c.read) * l->in_pixels, d,
                   p / l->out.width, p % l->out.width, out + co * c.depth);
    }
    return LS_OK;
}
