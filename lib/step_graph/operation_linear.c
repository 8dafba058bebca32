/* operation_linear.c - matrix products: linears, turned by position or not, logits, the pooler.
 *
 * y = x W + b:   bound of a dot product of k terms, (k + 2) u sum |x| |W|, the bias being one more.
 * Rotary: the pair is turned after the product: two products and a sum more; the tables are rounded
 * once, and a program that computes the angle in binary32 is off by u |angle|, which is added.
 * Backward: dx = dy W^T, dW = x^T dy, db = sum of dy, bounds alike, k the width of y or the rows.
 */
#include <stdlib.h>

#include "step_graph/operation_parts.h"
#include "base/allocate.h"

typedef struct product {
    size_t rows, in, out;
    size_t row_stride; /* of x: the pooler reads first tokens only */
    bool transposed;   /* W is out x in */
    const double *x, *w, *b;
} product;

static product product_of(const evaluation *e, const ls_graph_node *node)
{
    const ls_param *weight = &e->graph->table->params[node->params[0]];
    product m = {.transposed = node->make == LS_MAKE_LOGITS};
    m.in = weight->dims[m.transposed ? 1 : 0];
    m.out = weight->dims[m.transposed ? 0 : 1];
    m.rows = elements_of(e, node) / m.out;
    m.row_stride = node->make == LS_MAKE_POOLED ? e->S * m.in : m.in;
    m.x = operand_of(e, node, 0);
    m.w = param_of(e, node->params[0]);
    m.b = param_of(e, node->params[1]);
    return m;
}

/* Where row t of x begins. */
static size_t row_begin(const evaluation *e, const ls_graph_node *node, const product *m, size_t t)
{
    const ls_variant *v = &e->variant;
    size_t token = 0;
    if (node->make == LS_MAKE_POOLED)
        token = v->pooled_last && e->batch->lengths ? (size_t)e->batch->lengths[t] - 1
                                                    : v->pooled_token;
    return t * m->row_stride + token * m->in;
}

static double to_bf16(double value)
{
    const int exponent = value == 0 ? 0 : ilogb(value);
    return ldexp(rint(ldexp(value, 7 - exponent)), exponent - 7);
}

/* The cosine and sine of pair i at position s. */
static void rotation(const evaluation *e, size_t s, size_t i, approx *ret_cos, approx *ret_sin)
{
    const ls_variant *v = &e->variant;
    const double theta = v->rope_theta > 0 ? v->rope_theta : e->config->rope_theta;
    double frequency = v->rope_frequencies
                           ? v->rope_frequencies[i]
                           : pow(theta, -2.0 * (double)i / (double)ls_config_head_width(e->config));
    if (v->rope_rounding == LS_ROPE_FREQUENCIES) frequency = to_bf16(frequency);
    double angle = (double)position_of(e, s) * frequency;
    if (v->rope_rounding == LS_ROPE_ANGLES) angle = to_bf16(angle);
    const double off = (2 + 4 * fabs(angle)) * e->p->u;
    const double once = e->p->u * e->p->u; /* angles are seldom taken in a narrow format */
    *ret_cos = (approx){cos(angle), off, once}, *ret_sin = (approx){sin(angle), off, once};
    if (v->rope_rounding == LS_ROPE_TABLES)
        ret_cos->value = to_bf16(ret_cos->value), ret_sin->value = to_bf16(ret_sin->value);
}

/* Turns the pairs of every head of a row at position s; backward: the other way. */
static void turn(const evaluation *e, approx *row, size_t width, size_t s, bool backward)
{
    const size_t dh = ls_config_head_width(e->config), half = dh / 2;
    const ls_variant *v = &e->variant;
    if (v->unturned) return;
    if (v->turned_back) backward = !backward;
    for (size_t h = 0; h < width / dh; h++)
        for (size_t i = 0; i < half; i++) {
            approx *first = row + h * dh + (v->adjacent_pairs ? 2 * i : i);
            approx *second = first + (v->adjacent_pairs ? 1 : half);
            approx c, t;
            rotation(e, s, i, &c, &t);
            if (backward) t.value = -t.value;
            const approx a = *first, b = *second;
            *first =
                approx_subtract(e->p, approx_multiply(e->p, a, c), approx_multiply(e->p, b, t));
            *second = approx_add(e->p, approx_multiply(e->p, b, c), approx_multiply(e->p, a, t));
        }
}

/* y += x W, the weight along its rows: most of the time of a judgement goes by here. */
static void add_products(approx_sum *y, const product *m, const double *x, bool sparse)
{
    if (m->transposed) {
        for (size_t j = 0; j < m->out; j++)
            for (size_t i = 0; i < m->in; i++)
                approx_sum_add(&y[j], approx_exact(x[i] * m->w[j * m->in + i]));
    } else {
        for (size_t i = 0; i < m->in; i++) {
            if (sparse && x[i] == 0) continue;
            for (size_t j = 0; j < m->out; j++)
                approx_sum_add(&y[j], approx_exact(x[i] * m->w[i * m->out + j]));
        }
    }
}

ls_status ls_evaluate_linear(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const product m = product_of(e, node);
    approx *row = NULL;
    LS_ROOM(row, m.out);
    for (size_t t = 0; t < m.rows; t++) {
        approx_sum *y = out + t * m.out;
        add_products(y, &m, m.x + row_begin(e, node, &m, t), e->variant.sparse);
        for (size_t j = 0; m.b && j < m.out; j++) approx_sum_add(&y[j], approx_exact(m.b[j]));
        if (node->make != LS_MAKE_LINEAR_TURNED && node->make != LS_MAKE_POOLED) continue;
        for (size_t j = 0; j < m.out; j++) row[j] = approx_sum_end(e->p, &y[j]);
        if (node->make == LS_MAKE_LINEAR_TURNED) turn(e, row, m.out, t % e->S, false);
        for (size_t j = 0; j < m.out; j++) {
            const approx_sum none = {0};
            if (node->make == LS_MAKE_POOLED) row[j] = approx_tanh(e->p, row[j]);
            y[j] = none;
            approx_sum_add(&y[j], row[j]);
        }
    }
exit:
    free(row);
    return status;
}

/* The gradient of the product itself: through the turn, or through tanh. Row t. */
static void product_gradient(const evaluation *e, const ls_graph_node *reader, const product *m,
                             const double *dy, size_t t, approx *row)
{
    const double *made = value_of(e, (int)(reader - e->graph->nodes));
    for (size_t j = 0; j < m->out; j++) {
        row[j] = approx_input(e->p, dy[t * m->out + j]);
        if (reader->make == LS_MAKE_POOLED) {
            const approx p = approx_input(e->p, made[t * m->out + j]);
            const approx slope =
                approx_subtract(e->p, approx_exact(1), approx_multiply(e->p, p, p));
            row[j] = approx_multiply(e->p, row[j], slope);
        }
    }
    if (reader->make == LS_MAKE_LINEAR_TURNED) turn(e, row, m->out, t % e->S, true);
}

/* dx += dy W^T, the weight along its rows. */
static void add_products_back(approx_sum *dx, const product *m, const approx *dy, bool sparse)
{
    if (m->transposed) {
        for (size_t j = 0; j < m->out; j++) {
            if (sparse && dy[j].value == 0) continue;
            for (size_t i = 0; i < m->in; i++)
                approx_sum_add(&dx[i], approx_product(dy[j], approx_exact(m->w[j * m->in + i])));
        }
    } else {
        for (size_t i = 0; i < m->in; i++)
            for (size_t j = 0; j < m->out; j++)
                approx_sum_add(&dx[i], approx_product(dy[j], approx_exact(m->w[i * m->out + j])));
    }
}

static bool all_zero(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] != 0) return false;
    return true;
}

ls_status ls_evaluate_linear_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                      approx_sum *out)
{
    ls_status status = LS_OK;
    const product m = product_of(e, reader);
    const double *dy = gradient_of(e, reader);
    approx *row = NULL;
    (void)slot;
    LS_ROOM(row, m.out);
    for (size_t t = 0; t < m.rows; t++) {
        if (e->variant.sparse && all_zero(dy + t * m.out, m.out)) continue;
        product_gradient(e, reader, &m, dy, t, row);
        add_products_back(out + row_begin(e, reader, &m, t), &m, row, e->variant.sparse);
    }
exit:
    free(row);
    return status;
}

ls_status ls_evaluate_linear_params(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    ls_status status = LS_OK;
    const product m = product_of(e, reader);
    const double *dy = gradient_of(e, reader);
    approx *row = NULL;
    LS_ROOM(row, m.out);
    for (size_t t = 0; t < m.rows; t++) {
        if (e->variant.sparse && all_zero(dy + t * m.out, m.out)) continue;
        product_gradient(e, reader, &m, dy, t, row);
        const double *x = m.x + row_begin(e, reader, &m, t);
        if (slot == 1) {
            for (size_t j = 0; j < m.out; j++) approx_sum_add(&out[j], row[j]);
        } else if (m.transposed) {
            for (size_t j = 0; j < m.out; j++)
                for (size_t i = 0; i < m.in; i++)
                    approx_sum_add(&out[j * m.in + i], approx_product(row[j], approx_exact(x[i])));
        } else {
            for (size_t i = 0; i < m.in; i++)
                for (size_t j = 0; j < m.out; j++)
                    approx_sum_add(&out[i * m.out + j], approx_product(row[j], approx_exact(x[i])));
        }
    }
exit:
    free(row);
    return status;
}
