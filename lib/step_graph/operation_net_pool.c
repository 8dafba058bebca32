/* operation_net_pool.c - maximum and mean of windows, mean of all pixels.
 *
 *     max      y = the largest of the window's pixels; dx gets dy where it stood, the first one of
 *              equals in the order of rows and columns
 *     average  y = sum / count; dx gets dy / count; count: the window's pixels that are of the
 * image, or all with count_pad global   y = sum / (rows x columns)
 *
 * Where two pixels are as large within what their format leaves open, either may be the largest
 * one: the bound of both gradients has dy in it. */
#include "step_graph/operation_net.h"

/* The pixels of a window. */
typedef struct pixels {
    size_t rows[2], columns[2]; /* first and end */
} pixels;

static void span_of(size_t o, size_t kernel, size_t stride, size_t pad, size_t extent,
                    size_t ret_span[2])
{
    const size_t first = o * stride, end = first + kernel;
    ret_span[0] = first > pad ? first - pad : 0;
    ret_span[1] = end > pad ? (end - pad < extent ? end - pad : extent) : 0;
}

static pixels window_of(const net_layer *l, size_t p)
{
    const ls_window *w = &l->window;
    pixels of;
    span_of(p / l->out.width, w->kernel_h, w->stride_h, w->pad_top, w->in_h, of.rows);
    span_of(p % l->out.width, w->kernel_w, w->stride_w, w->pad_left, w->in_w, of.columns);
    return of;
}

static size_t count_of(const evaluation *e, const net_layer *l, const pixels *of)
{
    if (e->variant.pool_summed) return 1;
    if (l->layer->count_pad != e->variant.pad_counts)
        return l->window.kernel_h * l->window.kernel_w;
    return (of->rows[1] - of->rows[0]) * (of->columns[1] - of->columns[0]);
}

/* The value at a pixel, through the halo. */
static double value_at(const net_halo *halo, const net_layer *l, const double *x, size_t r,
                       size_t c)
{
    return ls_net_halo_source(halo, &r, &c) ? x[r * l->in.width + c] : 0;
}

static size_t largest_of(const evaluation *e, const net_halo *halo, const net_layer *l,
                         const double *x, const pixels *of)
{
    size_t at = of->rows[0] * l->in.width + of->columns[0];
    double most = value_at(halo, l, x, of->rows[0], of->columns[0]);
    for (size_t r = of->rows[0]; r < of->rows[1]; r++)
        for (size_t c = of->columns[0]; c < of->columns[1]; c++) {
            const double value = value_at(halo, l, x, r, c);
            if (!(value > most || (e->variant.last_of_ties && value == most) ||
                  (isnan(value) && !isnan(most))))
                continue;
            most = value;
            at = r * l->in.width + c;
        }
    return at;
}

ls_status ls_evaluate_pool(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    const net_layer l = ls_net_layer_at(e, node);
    const double *x = operand_of(e, node, 0);
    net_halo halo;
    ls_net_halo_begin(&halo, e, &l, false);
    for (size_t k = 0; k < l.images * l.out.channels * l.out_pixels; k++) {
        const pixels of = window_of(&l, k % l.out_pixels);
        const double *channel = x + k / l.out_pixels * l.in_pixels;
        approx_sum sum = {0};
        ls_net_halo_at(&halo, &l, false, k % l.out_pixels / l.out.width, k % l.out.width);
        if (node->make == LS_MAKE_MAX_POOL) {
            const size_t at = largest_of(e, &halo, &l, channel, &of);
            approx_sum_add(&out[k], approx_input(e->p, value_at(&halo, &l, channel, at / l.in.width,
                                                                at % l.in.width)));
            continue;
        }
        for (size_t r = of.rows[0]; r < of.rows[1]; r++)
            for (size_t c = of.columns[0]; c < of.columns[1]; c++)
                approx_sum_add(&sum, approx_input(e->p, value_at(&halo, &l, channel, r, c)));
        approx_sum_add(&out[k], approx_divide(e->p, approx_sum_end(e->p, &sum),
                                              approx_exact((double)count_of(e, &l, &of))));
    }
    return LS_OK;
}

/* Of one window of the maximum: dy at the largest; all that may be it share its uncertainty. */
static void send_to_largest(const evaluation *e, const net_layer *l, const net_halo *as_is,
                            const double *x, const pixels *of, approx d, approx_sum *dx)
{
    const size_t at = largest_of(e, as_is, l, x, of);
    const approx most = approx_input(e->p, x[at]);
    bool open = false;
    for (size_t r = of->rows[0]; r < of->rows[1]; r++)
        for (size_t c = of->columns[0]; c < of->columns[1]; c++) {
            const size_t other = r * l->in.width + c;
            const approx value = approx_input(e->p, x[other]);
            /* Rounding keeps the order of what it does not make equal. */
            const double slack = e->p->sum < e->p->u ? value.error + most.error : 0;
            if (other == at || !(slack > 0) || value.value + slack < most.value) continue;
            dx[other].error += fabs(d.value);
            dx[other].variance += d.value * d.value;
            dx[other].count++;
            open = true;
        }
    if (open) d = approx_add_error(d, fabs(d.value));
    if (e->variant.assigned) dx[at] = (approx_sum){0};
    approx_sum_add(&dx[at], d);
}

/* Whether block of input pixel `at` gets the gradient of output p at all, with a dy halo that is
 * wrong: the output as that block has it. */
static bool gradient_source(const net_halo *halo, const net_layer *l, size_t p, size_t *ret_p)
{
    size_t r = p / l->out.width, c = p % l->out.width;
    if (!ls_net_halo_source(halo, &r, &c)) return false;
    *ret_p = r * l->out.width + c;
    return true;
}

ls_status ls_evaluate_pool_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    const net_layer l = ls_net_layer_at(e, reader);
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    const net_halo as_is = {.form = LS_HALO_AS_IS};
    net_halo halo;
    (void)slot;
    ls_net_halo_begin(&halo, e, &l, true);
    for (size_t k = 0; k < l.images * l.out.channels * l.out_pixels; k++) {
        const size_t p = k % l.out_pixels, plane = k / l.out_pixels;
        const pixels of = window_of(&l, p);
        approx_sum *dx = out + plane * l.in_pixels;
        const double *d = dy + plane * l.out_pixels;
        size_t source = p;
        if (reader->make == LS_MAKE_MAX_POOL) {
            const size_t at = largest_of(e, &as_is, &l, x + plane * l.in_pixels, &of);
            ls_net_halo_at(&halo, &l, true, at / l.in.width, at % l.in.width);
            const bool there = gradient_source(&halo, &l, p, &source);
            send_to_largest(e, &l, &as_is, x + plane * l.in_pixels, &of,
                            there ? approx_input(e->p, d[source]) : approx_exact(0), dx);
            continue;
        }
        const approx count = approx_exact((double)count_of(e, &l, &of));
        for (size_t r = of.rows[0]; r < of.rows[1]; r++)
            for (size_t c = of.columns[0]; c < of.columns[1]; c++) {
                ls_net_halo_at(&halo, &l, true, r, c);
                if (!gradient_source(&halo, &l, p, &source)) continue;
                approx_sum_add(&dx[r * l.in.width + c],
                               approx_divide(e->p, approx_input(e->p, d[source]), count));
            }
    }
    return LS_OK;
}

static approx count_of_all(const evaluation *e, const net_layer *l)
{
    return approx_exact(e->variant.pool_summed ? 1 : (double)l->in_pixels);
}

ls_status ls_evaluate_global_pool(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    const net_layer l = ls_net_layer_at(e, node);
    const double *x = operand_of(e, node, 0);
    for (size_t k = 0; k < l.images * l.in.channels; k++) {
        approx_sum sum = {0};
        for (size_t p = 0; p < l.in_pixels; p++)
            approx_sum_add(&sum, approx_input(e->p, x[k * l.in_pixels + p]));
        approx_sum_add(&out[k],
                       approx_divide(e->p, approx_sum_end(e->p, &sum), count_of_all(e, &l)));
    }
    return LS_OK;
}

ls_status ls_evaluate_global_pool_backward(const evaluation *e, const ls_graph_node *reader,
                                           int slot, approx_sum *out)
{
    const net_layer l = ls_net_layer_at(e, reader);
    const double *dy = gradient_of(e, reader);
    (void)slot;
    for (size_t k = 0; k < l.images * l.in.channels; k++) {
        const approx d = approx_divide(e->p, approx_input(e->p, dy[k]), count_of_all(e, &l));
        for (size_t p = 0; p < l.in_pixels; p++) approx_sum_add(&out[k * l.in_pixels + p], d);
    }
    return LS_OK;
}
