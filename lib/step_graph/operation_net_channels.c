/* operation_net_channels.c - response normalisation across channels.
 *
 *     d[c] = k + alpha sum of x[c']^2 over c' = c - span / 2 .. c + span / 2
 *     y[c] = x[c] d[c]^-beta
 *     dx[c] = dy[c] d[c]^-beta - 2 alpha beta x[c] sum of dy[c'] x[c'] d[c']^-beta / d[c']
 *
 * at every pixel by itself; channels that do not exist are left out. */
#include <stdlib.h>

#include "step_graph/operation_net.h"
#include "base/allocate.h"

/* All channels of one pixel. */
typedef struct column {
    size_t channels, pixels;
    approx *x, *power, *d;
} column;

static approx minus_power(const ls_precision *p, approx d, double beta)
{
    const approx log_d = approx_log(p, d);
    return approx_exp(p, approx_multiply(p, approx_constant(p, -beta), log_d));
}

static void first_and_end(const net_layer *l, size_t c, size_t *ret_first, size_t *ret_end)
{
    const size_t before = l->layer->span / 2, behind = l->layer->span - before;
    *ret_first = c > before ? c - before : 0;
    *ret_end = c + behind < l->in.channels ? c + behind : l->in.channels;
}

static double alpha_of(const evaluation *e, const net_layer *l)
{
    return l->layer->alpha / (e->variant.alpha_over_span ? (double)l->layer->span : 1);
}

static void load(const evaluation *e, const net_layer *l, const double *x, column *of)
{
    const ls_precision *p = e->p;
    for (size_t c = 0; c < of->channels; c++) of->x[c] = approx_input(p, x[c * of->pixels]);
    for (size_t c = 0; c < of->channels; c++) {
        size_t first, end;
        approx_sum sum = {0};
        first_and_end(l, c, &first, &end);
        for (size_t i = first; i < end; i++)
            approx_sum_add(&sum, approx_product(of->x[i], of->x[i]));
        const approx scaled =
            approx_multiply(p, approx_constant(p, alpha_of(e, l)), approx_sum_end(p, &sum));
        of->d[c] = approx_add(p, approx_constant(p, l->layer->k), scaled);
        of->power[c] = minus_power(p, of->d[c], l->layer->beta);
    }
}

static ls_status column_create(const evaluation *e, const net_layer *l, column *ret_column)
{
    ls_status status = LS_OK;
    approx *room = NULL;
    (void)e;
    LS_ROOM(room, 3 * l->in.channels);
    *ret_column = (column){l->in.channels, l->in_pixels, room, room + l->in.channels,
                           room + 2 * l->in.channels};
exit:
    return status;
}

ls_status ls_evaluate_response_norm(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const net_layer l = ls_net_layer_at(e, node);
    const double *x = operand_of(e, node, 0);
    column of = {0};
    LS_TRY(column_create(e, &l, &of));
    for (size_t k = 0; k < l.images * l.in_pixels; k++) {
        const size_t at = k / l.in_pixels * l.in.channels * l.in_pixels + k % l.in_pixels;
        load(e, &l, x + at, &of);
        for (size_t c = 0; c < of.channels; c++)
            approx_sum_add(&out[at + c * of.pixels], approx_multiply(e->p, of.x[c], of.power[c]));
    }
exit:
    free(of.x);
    return status;
}

ls_status ls_evaluate_response_norm_backward(const evaluation *e, const ls_graph_node *reader,
                                             int slot, approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision *p = e->p;
    const net_layer l = ls_net_layer_at(e, reader);
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    const approx twice = approx_constant(p, 2 * alpha_of(e, &l) * l.layer->beta);
    column of = {0};
    (void)slot;
    LS_TRY(column_create(e, &l, &of));
    for (size_t k = 0; k < l.images * l.in_pixels; k++) {
        const size_t at = k / l.in_pixels * l.in.channels * l.in_pixels + k % l.in_pixels;
        load(e, &l, x + at, &of);
        for (size_t c = 0; c < of.channels; c++) {
            size_t first, end;
            approx_sum sum = {0};
            first_and_end(&l, c, &first, &end);
            for (size_t i = first; i < end; i++) {
                approx t = approx_multiply(p, approx_input(p, dy[at + i * of.pixels]), of.x[i]);
                t = approx_multiply(p, t, of.power[i]);
                approx_sum_add(&sum, approx_divide(p, t, of.d[i]));
            }
            const approx direct =
                approx_multiply(p, approx_input(p, dy[at + c * of.pixels]), of.power[c]);
            const approx through =
                approx_multiply(p, approx_multiply(p, twice, of.x[c]), approx_sum_end(p, &sum));
            approx_sum_add(&out[at + c * of.pixels], approx_subtract(p, direct, through));
        }
    }
exit:
    free(of.x);
    return status;
}
