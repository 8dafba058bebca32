/* operation_norm.c - LayerNorm and RMSNorm.
 *
 *     xhat = (x - mean) rstd,  rstd = 1 / sqrt(mean of (x - mean)^2 + eps),  y = xhat scale + shift
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)),  g = dy scale          (RMSNorm: without means)
 *     dscale = sum of dy xhat,  dshift = sum of dy
 *
 * The errors are carried from mean to rstd to y. The variance is that of differences from the mean:
 * one taken as mean(x^2) - mean^2 loses more where the mean is large, and is not covered then. */
#include <stdlib.h>

#include "step_graph/formula.h"
#include "step_graph/operation_parts.h"
#include "base/allocate.h"

/* Whether the mean is subtracted. */
static bool is_centred(const ls_norm_form *form)
{
    return form->centred != form->variant->centred_flipped;
}

static approx weight_of(const evaluation *e, double weight)
{
    if (e->variant.unweighted) return approx_exact(1);
    return approx_exact(e->variant.weight_plus_one ? 1 + weight : weight);
}

approx ls_formula_normalize(const ls_precision *p, const ls_norm_form *form, approx *x, size_t D)
{
    const ls_variant *how = form->variant;
    const approx width = approx_exact((double)D);
    approx mean = approx_exact(0);
    approx_sum sum = {0}, squares = {0};
    if (is_centred(form)) {
        for (size_t i = 0; i < D; i++) approx_sum_add(&sum, x[i]);
        mean = approx_divide(p, approx_sum_end(p, &sum), width);
    }
    for (size_t i = 0; i < D; i++) {
        if (is_centred(form)) x[i] = approx_subtract(p, x[i], mean);
        approx_sum_add(&squares, approx_product(x[i], x[i]));
    }
    const approx over = approx_exact((double)(how->unbiased && D > 1 ? D - 1 : D));
    const approx variance = approx_divide(p, approx_sum_end(p, &squares), over);
    const double other = fmax(0, how->norm_eps);
    const approx eps = approx_constant(p, how->norm_eps != 0 ? other : form->eps);
    const approx below = how->eps_outside ? approx_add(p, approx_root(p, variance), eps)
                                          : approx_root(p, approx_add(p, variance, eps));
    const approx rstd = approx_divide(p, approx_exact(1), below);
    for (size_t i = 0; i < D; i++) x[i] = approx_multiply(p, x[i], rstd);
    return rstd;
}

void ls_formula_norm_gradient(const ls_precision *p, const ls_norm_form *form, approx rstd,
                              const approx *xhat, approx *g, size_t D)
{
    const approx width = approx_exact((double)D);
    const ls_lost_term lost = form->variant->lost_term;
    const bool both = lost == LS_TERM_NORM_BOTH;
    approx_sum sum = {0}, along = {0};
    for (size_t i = 0; i < D; i++) {
        approx_sum_add(&sum, g[i]);
        approx_sum_add(&along, approx_product(g[i], xhat[i]));
    }
    const approx mean = approx_divide(p, approx_sum_end(p, &sum), width);
    const approx mean_x = approx_divide(p, approx_sum_end(p, &along), width);
    for (size_t i = 0; i < D; i++) {
        if (is_centred(form) && lost != LS_TERM_NORM_MEAN && !both)
            g[i] = approx_subtract(p, g[i], mean);
        if (lost != LS_TERM_NORM_ALONG && !both)
            g[i] = approx_subtract(p, g[i], approx_multiply(p, xhat[i], mean_x));
        g[i] = approx_multiply(p, rstd, g[i]);
    }
}

/* The form of the model's norms. */
static ls_norm_form form_of(const evaluation *e)
{
    return (ls_norm_form){e->config->norm == LS_LAYER_NORM, e->config->norm_eps, &e->variant};
}

/* xhat of a row of D elements, and its rstd. */
static approx normalize(const evaluation *e, const double *x, size_t D, approx *xhat)
{
    const ls_norm_form form = form_of(e);
    for (size_t i = 0; i < D; i++) xhat[i] = approx_input(e->p, x[i]);
    return ls_formula_normalize(e->p, &form, xhat, D);
}

ls_status ls_evaluate_norm(const evaluation *e, const ls_graph_node *node, approx_sum *out)
{
    ls_status status = LS_OK;
    const size_t D = e->config->d_model, rows = elements_of(e, node) / D;
    const double *x = value_of(e, node->inputs[0]);
    const double *scale = param_of(e, node->params[0]), *shift = param_of(e, node->params[1]);
    approx *xhat = NULL;
    LS_ROOM(xhat, D);
    for (size_t t = 0; t < rows; t++) {
        normalize(e, x + t * D, D, xhat);
        for (size_t i = 0; i < D; i++) {
            approx y = approx_multiply(e->p, xhat[i], weight_of(e, scale[i]));
            if (shift) y = approx_add(e->p, y, approx_exact(shift[i]));
            approx_sum_add(&out[t * D + i], y);
        }
    }
exit:
    free(xhat);
    return status;
}

ls_status ls_evaluate_norm_backward(const evaluation *e, const ls_graph_node *reader, int slot,
                                    approx_sum *out)
{
    ls_status status = LS_OK;
    const ls_precision *p = e->p;
    const size_t D = e->config->d_model, rows = elements_of(e, reader) / D;
    const double *x = value_of(e, reader->inputs[0]), *dy = gradient_of(e, reader);
    const double *scale = param_of(e, reader->params[0]);
    const ls_norm_form form = form_of(e);
    approx *xhat = NULL, *g = NULL;
    (void)slot;
    LS_ROOM(xhat, 2 * D);
    g = xhat + D;
    for (size_t t = 0; t < rows; t++) {
        const approx rstd = normalize(e, x + t * D, D, xhat);
        for (size_t i = 0; i < D; i++)
            g[i] = approx_multiply(p, approx_input(p, dy[t * D + i]), weight_of(e, scale[i]));
        ls_formula_norm_gradient(p, &form, rstd, xhat, g, D);
        for (size_t i = 0; i < D; i++) approx_sum_add(&out[t * D + i], g[i]);
    }
exit:
    free(xhat);
    return status;
}

ls_status ls_evaluate_norm_params(const evaluation *e, const ls_graph_node *reader, int slot,
                                  approx_sum *out)
{
    ls_status status = LS_OK;
    const size_t D = e->config->d_model, rows = elements_of(e, reader) / D;
    const double *x = value_of(e, reader->inputs[0]), *dy = gradient_of(e, reader);
    approx *xhat = NULL;
    LS_ROOM(xhat, D);
    for (size_t t = 0; t < rows; t++) {
        if (slot == 0) normalize(e, x + t * D, D, xhat);
        for (size_t i = 0; i < D; i++) {
            const approx d = approx_input(e->p, dy[t * D + i]);
            approx_sum_add(&out[i], slot == 0 ? approx_product(d, xhat[i]) : d);
        }
    }
exit:
    free(xhat);
    return status;
}
