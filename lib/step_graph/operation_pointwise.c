/* operation_pointwise.c - dropout, residual sums, activations: element by element.
 *
 *     dropout: y = mask x, mask 0 or 1 / (1 - p), rounded once
 *     residual: y = mask x0 + x1
 *     GELU, exact: x (1 + erf(x / sqrt 2)) / 2; tanh form: x (1 + tanh(c (x + 0.044715 x^3))) / 2
 *     SwiGLU: gate / (1 + exp(-gate)) up
 *
 * Far to the left 1 + erf and 1 + tanh cancel: the rounding of the function, u, counts relative to
 * x itself. The bound says so: it is of the order u |x| there, not u |y|. */
#include "lockstep/numerics/random.h"
#include "step_graph/formula.h"
#include "step_graph/operation_parts.h"

/* Of GELU by tanh: sqrt(2 / pi), and the factor of x^3. */
#define ROOT 0.79788456080286536
#define CUBED 0.044715

/* The number that another numbering gives an element: of sequences that begin again at 0, or of
 * tokens that do, as in a shard that counts its own. */
static size_t numbered(const evaluation *e, const ls_graph_node *node, size_t index)
{
    const ls_variant *v = &e->variant;
    const bool heads = node->make == LS_MAKE_HEADS; /* the mask is that of the probabilities */
    const size_t token = heads ? e->config->heads * e->S : elements_of(e, node) / (e->B * e->S);
    const size_t sequence = token * e->S;
    if (v->mask_sequences) index %= v->mask_sequences * sequence;
    if (v->mask_tokens && !heads) {
        const size_t s = index % sequence / token % v->mask_tokens;
        index = (index / sequence * v->mask_tokens + s) * token + index % token;
    }
    return index;
}

approx ls_evaluate_mask(const evaluation *e, const ls_graph_node *node, size_t index)
{
    const ls_variant *v = &e->variant;
    const double p = ls_graph_dropout(e->graph, node);
    const int layer = v->mask_layer > 0 && node->layer >= 0 ? v->mask_layer - 1 : node->layer;
    const ls_stream stream = {e->batch->seed, (uint32_t)node->purpose,
                              layer < 0 ? 0 : (uint32_t)layer, e->batch->step};
    if (!e->batch->training || p == 0) return approx_exact(1);
    if (v->mask_sequences || v->mask_tokens) index = numbered(e, node, index);
    const bool kept = ls_random_keep(stream, index, p) != 0;
    if (kept == v->mask_complement) return approx_exact(0);
    return v->mask_unscaled ? approx_exact(1) : approx_constant(e->p, 1 / (1 - p));
}

/* GELU and its derivative; exact: with erf, else with tanh and these two numbers. */
static void gelu(const ls_precision *p, bool exact, double root, double cubed, approx x,
                 approx *ret_y, approx *ret_slope)
{
    const approx one = approx_exact(1), half_x = approx_multiply(p, approx_exact(0.5), x);
    approx t, slope;
    if (exact) {
        const approx inner = approx_multiply(p, x, approx_constant(p, 0.70710678118654752));
        t = approx_erf(p, inner);
        const approx square = approx_multiply(p, inner, inner);
        /* d erf(x / sqrt 2) / dx = sqrt(2 / pi) exp(-x^2 / 2) */
        slope = approx_multiply(p, approx_constant(p, 0.79788456080286536),
                                approx_exp(p, approx_negative(square)));
    } else {
        const approx c = approx_constant(p, root);
        const approx square = approx_multiply(p, x, x);
        const approx cubic = approx_multiply(p, approx_constant(p, cubed), square);
        t = approx_tanh(p, approx_multiply(p, c, approx_add(p, x, approx_multiply(p, cubic, x))));
        const approx inner =
            approx_add(p, one, approx_multiply(p, approx_constant(p, 3 * cubed), square));
        slope = approx_multiply(p, approx_subtract(p, one, approx_multiply(p, t, t)),
                                approx_multiply(p, c, inner));
    }
    const approx sum = approx_add(p, one, t);
    *ret_y = approx_multiply(p, half_x, sum);
    *ret_slope = approx_add(p, approx_multiply(p, approx_exact(0.5), sum),
                            approx_multiply(p, half_x, slope));
}

/* g sigma(c g) and its derivative sigma (1 + c g (1 - sigma)); silu: c = 1. */
static void silu(const ls_precision *p, double factor, approx g, approx *ret_y, approx *ret_slope)
{
    const approx c = factor == 1 ? approx_exact(1) : approx_constant(p, factor);
    const approx x = factor == 1 ? g : approx_multiply(p, c, g);
    const approx one = approx_exact(1), minus = approx_negative(x);
    const approx sigma = approx_divide(p, one, approx_add(p, one, approx_exp(p, minus)));
    const approx rest = approx_subtract(p, one, sigma);
    *ret_y = approx_multiply(p, g, sigma);
    *ret_slope = approx_multiply(p, sigma, approx_add(p, one, approx_multiply(p, x, rest)));
}

void ls_formula_activation(const ls_precision *p, const ls_variant *variant,
                           ls_activation_form right, approx x, approx *ret_y, approx *ret_slope)
{
    const ls_activation_form form =
        variant->activation == LS_ACTIVATION_AS_IS ? right : variant->activation;
    switch (form) {
    case LS_ACTIVATION_SILU:
    case LS_ACTIVATION_SIGMOID:
        silu(p, form == LS_ACTIVATION_SILU ? 1 : 1.702, x, ret_y, ret_slope);
        break;
    case LS_ACTIVATION_RELU:
        *ret_y = x.value > 0 ? x : approx_exact(0);
        *ret_slope = approx_exact(x.value > 0 ? 1 : 0);
        break;
    default:
        gelu(p, form == LS_ACTIVATION_ERF, variant->gelu_root > 0 ? variant->gelu_root : ROOT,
             variant->gelu_cubic > 0 ? variant->gelu_cubic : CUBED, x, ret_y, ret_slope);
        break;
    }
    if (variant->lost_term == LS_TERM_ACTIVATION_SLOPE) /* y / x, which the other term has not */
        *ret_slope = x.value != 0 ? approx_divide(p, *ret_y, x) : approx_exact(0.5);
}

static bool is_gated(const evaluation *e, const ls_graph_node *node)
{
    return node->make == LS_MAKE_ACTIVATION && e->config->activation == LS_SWIGLU;
}

static void activation(const evaluation *e, const ls_graph_node *node, approx x, approx *ret_y,
                       approx *ret_slope)
{
    const bool exact = node->make == LS_MAKE_GELU || e->config->activation == LS_GELU_ERF;
    const ls_activation_form right = is_gated(e, node) ? LS_ACTIVATION_SILU
                                     : exact           ? LS_ACTIVATION_ERF
                                                       : LS_ACTIVATION_TANH;
    ls_formula_activation(e->p, &e->variant, right, x, ret_y, ret_slope);
}

ls_status ls_evaluate_pointwise(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    const size_t n = elements_of(e, node);
    const double *x0 = operand_of(e, node, 0), *x1 = operand_of(e, node, 1);
    for (size_t i = 0; i < n; i++) {
        approx y = approx_input(e->p, x0[i]), slope;
        if (node->make == LS_MAKE_DROPOUT || node->make == LS_MAKE_RESIDUAL) {
            const approx mask = ls_evaluate_mask(e, node, i);
            if (mask.value != 1) y = approx_multiply(e->p, y, mask);
            if (node->make == LS_MAKE_RESIDUAL) y = approx_add(e->p, y, approx_input(e->p, x1[i]));
        } else {
            activation(e, node, y, &y, &slope);
            if (is_gated(e, node)) y = approx_multiply(e->p, y, approx_input(e->p, x1[i]));
        }
        approx_sum_add(&out[i], y);
    }
    return LS_OK;
}

ls_status ls_evaluate_pointwise_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                         approx_sum *out)
{
    const size_t n = elements_of(e, reader);
    const double *x0 = operand_of(e, reader, 0), *x1 = operand_of(e, reader, 1);
    /* A network may add an output to itself. */
    const bool twice = reader->make == LS_MAKE_RESIDUAL && reader->inputs[0] == reader->inputs[1];
    const double *dy = gradient_of(e, reader);
    for (size_t i = 0; i < n; i++) {
        approx d = approx_input(e->p, dy[i]), y, slope;
        if (reader->make == LS_MAKE_DROPOUT || reader->make == LS_MAKE_RESIDUAL) {
            const approx mask = slot == 0 ? ls_evaluate_mask(e, reader, i) : approx_exact(1);
            if (mask.value != 1) d = approx_multiply(e->p, d, mask);
        } else {
            activation(e, reader, approx_input(e->p, x0[i]), &y, &slope);
            if (is_gated(e, reader) && slot == 0)
                d = approx_multiply(e->p, d, approx_input(e->p, x1[i]));
            d = approx_multiply(e->p, d, slot == 0 ? slope : y);
        }
        approx_sum_add(&out[i], d);
        if (twice) approx_sum_add(&out[i], d);
    }
    return LS_OK;
}

/* ---- ReLU of a network ---- */

ls_status ls_evaluate_relu(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    const double *x = operand_of(e, node, 0);
    for (size_t i = 0, n = elements_of(e, node); i < n; i++) {
        const double y = isnan(x[i]) || x[i] > 0 ? x[i] : 0;
        approx_sum_add(&out[i], approx_input(e->p, y));
    }
    return LS_OK;
}

/* dx = dy where x > 0. */
ls_status ls_evaluate_relu_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    const double *x = operand_of(e, reader, 0), *dy = gradient_of(e, reader);
    (void)slot;
    for (size_t i = 0, n = elements_of(e, reader); i < n; i++)
        approx_sum_add(&out[i], x[i] > 0 ? approx_input(e->p, dy[i]) : approx_exact(0));
    return LS_OK;
}
