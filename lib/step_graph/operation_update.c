/* operation_update.c - norm of the gradient, clipping, AdamW and SGD.
 *
 *     norm = sqrt(sum of g^2)      clipped = g, or g max_norm / norm where norm > max_norm
 *     AdamW, SGD: as lockstep/kernels/optimizer.h writes them
 *
 * Where the norm is so near the largest one allowed that either branch may be taken, the bound
 * covers both. beta1, beta2 and 1 - beta are each rounded once. AdamW divides by sqrt(v) + eps: for
 * a gradient of the size of eps or less the bound is of the size of the update itself. */
#include <math.h>

#include "step_graph/formula.h"
#include "step_graph/operation_parts.h"

/* x0 of the node: the clipped gradient. */
static double moment_of(const double *const *moments, int param, size_t i)
{
    return moments && moments[param] ? moments[param][i] : 0;
}

static approx times(const ls_precision *p, double constant, approx a)
{
    return approx_multiply(p, approx_constant(p, constant), a);
}

/* What divides the step: sqrt(v c2) + eps. */
static approx root_of(const ls_precision *p, const ls_variant *how, double eps, approx c2, approx v)
{
    const approx e = approx_constant(p, eps);
    switch (how->root) {
    case LS_ROOT_EPS_INSIDE:
        return approx_root(p, approx_add(p, approx_multiply(p, c2, v), e));
    case LS_ROOT_EPS_UNCORRECTED:
        return times(p, sqrt(c2.value), approx_add(p, approx_root(p, v), e));
    case LS_ROOT_EPS_DEEPEST:
        return approx_root(p, approx_multiply(p, c2, approx_add(p, v, e)));
    default:
        return approx_add(p, approx_root(p, approx_multiply(p, c2, v)), e);
    }
}

/* 1 - power, as it is computed: roundings units of roundoff off; 0: rounded once. */
static approx rest_of(const ls_precision *p, double power, double roundings)
{
    return roundings > 0 ? approx_within(1 - power, roundings * p->u)
                         : approx_constant(p, 1 - power);
}

/* 1 / (1 - beta^t), the same way. */
static approx correction_of(const ls_precision *p, double beta, double t, double roundings)
{
    const double rest = 1 - pow(beta, t);
    if (roundings > 0)
        return approx_divide(p, approx_exact(1), approx_within(rest, roundings * p->u));
    return approx_constant(p, 1 / rest);
}

ls_optimizer_state ls_formula_adamw(const ls_precision *p, const ls_update *u,
                                    const ls_variant *variant, bool decay,
                                    ls_adamw_constants constants, ls_optimizer_state at, approx g)
{
    const double t = (double)u->t;
    const approx one = approx_exact(1);
    const approx c1 =
        variant->uncorrected_mean ? one : correction_of(p, u->beta1, t, constants.power);
    const approx c2 =
        variant->uncorrected_square ? one : correction_of(p, u->beta2, t, constants.power);
    if (decay && variant->decay == LS_DECAY_IN_GRADIENT)
        g = approx_add(p, g, times(p, u->weight_decay, at.w));
    at.m = approx_add(p, times(p, u->beta1, at.m),
                      approx_multiply(p, rest_of(p, u->beta1, constants.rest), g));
    at.v = approx_add(
        p, times(p, u->beta2, at.v),
        approx_multiply(p, rest_of(p, u->beta2, constants.rest), approx_multiply(p, g, g)));
    const approx mean = approx_multiply(p, c1, at.m);
    const approx below = root_of(p, variant, u->eps, c2, at.v);
    if (decay && variant->decay != LS_DECAY_IN_GRADIENT) {
        const double rate = variant->decay == LS_DECAY_WITHOUT_RATE ? 1 : u->lr;
        at.w = approx_subtract(p, at.w, times(p, rate * u->weight_decay, at.w));
    }
    at.w = approx_subtract(p, at.w, times(p, u->lr, approx_divide(p, mean, below)));
    return at;
}

static ls_optimizer_state sgd(const ls_precision *p, const ls_update *u, const ls_variant *how,
                              bool decay, ls_optimizer_state at, approx g)
{
    const approx w = at.w;
    const bool apart = how->decay == LS_DECAY_DECOUPLED || how->decay == LS_DECAY_WITHOUT_RATE;
    const double rate = how->decay == LS_DECAY_WITHOUT_RATE ? 1 : u->lr;
    if (decay && !apart) g = approx_add(p, g, times(p, u->weight_decay, w));
    if (decay && apart) at.w = approx_subtract(p, w, times(p, rate * u->weight_decay, w));
    at.m = approx_add(p, times(p, u->beta1, at.m), g);
    at.w = approx_subtract(p, at.w, times(p, u->lr, at.m));
    return at;
}

static ls_optimizer_state update_element(const evaluation *e, const ls_graph_node *node, size_t i)
{
    const int param = node->params[0];
    const ls_update *u = e->o->update;
    const ls_variant *how = &e->variant;
    const bool decay = e->graph->table->params[param].decay != how->decay_flipped;
    const approx g = approx_input(e->p, value_of(e, node->inputs[0])[i]);
    const ls_optimizer_state at = {approx_exact(param_of(e, param)[i]),
                                   approx_exact(moment_of(e->o->moment1, param, i)),
                                   approx_exact(moment_of(e->o->moment2, param, i))};
    const ls_adamw_constants exact = {0, 0};
    return u->optimizer == LS_ADAMW ? ls_formula_adamw(e->p, u, how, decay, exact, at, g)
                                    : sgd(e->p, u, how, decay, at, g);
}

/* A sum of squares: of nothing that cancels. Its terms are rounded in their own formats, each
 * counts as much as it is large. Roundings of the additions have either sign, so of N of them a few
 * sqrt(N) are left (Higham & Mary, see approx.h), and the root halves that. Parts of ranks meet in
 * the precision of the sums. */
static approx gradient_norm(const evaluation *e)
{
    enum { ROOTS = 8, MORE = 16 };
    const ls_precision *p = e->p;
    double sum = 0, error = 0, count = 0;
    for (int param = 0; param < (int)e->graph->table->count; param++) {
        if (e->graph->table->params[param].state) continue;
        const int gradient = ls_graph_param_gradient(e->graph, param);
        const double *g = value_of(e, gradient);
        const size_t n = ls_graph_elements(e->graph, gradient);
        double squares = 0;
        for (size_t i = 0; i < n; i++) squares += g[i] * g[i];
        sum += squares;
        error += 2 * (e->o->roundoff ? e->o->roundoff[gradient] : p->sum) * squares;
        count += (double)n;
    }
    error += fmin(count + 2, ROOTS * sqrt(count) + MORE) * (p->sum * sum + p->tiny);
    return approx_root(p, approx_within(sum, error));
}

approx ls_formula_clip(const ls_precision *p, const ls_variant *variant, double most, approx g,
                       approx norm)
{
    const double slack = 16 * p->u * most;
    const approx given = g;
    if (!(most > 0)) return g;
    if (variant->clip_eps > 0) norm = approx_add(p, norm, approx_constant(p, variant->clip_eps));
    if (norm.value > most)
        g = approx_multiply(p, g, approx_divide(p, approx_constant(p, most), norm));
    if (fabs(norm.value - most) <= slack) g = approx_add_error(g, fabs(given.value) * slack / most);
    return g;
}

approx ls_evaluate_update(const evaluation *e, const ls_graph_node *node, size_t i)
{
    switch (node->make) {
    case LS_MAKE_GRADIENT_NORM:
        return gradient_norm(e);
    case LS_MAKE_CLIPPED:
        return ls_formula_clip(e->p, &e->variant, e->o->max_norm,
                               approx_input(e->p, value_of(e, node->inputs[0])[i]),
                               approx_input(e->p, value_of(e, node->inputs[1])[0]));
    default:
        return update_element(e, node, i).w;
    }
}

ls_status ls_operation_moments(const ls_operands *operands, int node, double *ret_moment1,
                               double *ret_moment2)
{
    ls_status status = LS_OK;
    const ls_precision exact = {0};
    const ls_variant none = {0};
    const ls_graph *graph = operands->graph;
    const evaluation e = {.o = operands,
                          .variant = operands->variant ? *operands->variant : none,
                          .graph = graph,
                          .config = &graph->table->config,
                          .batch = operands->batch,
                          .p = &exact,
                          .B = graph->B,
                          .S = graph->S};
    if (graph->nodes[node].make != LS_MAKE_UPDATED || !operands->update)
        LS_FAIL(LS_ERR_INTERNAL, "moments of %s, which the optimizer does not make",
                graph->nodes[node].name);
    for (size_t i = 0, n = ls_graph_elements(graph, node); i < n; i++) {
        const ls_optimizer_state at = update_element(&e, &graph->nodes[node], i);
        ret_moment1[i] = at.m.value;
        if (ret_moment2) ret_moment2[i] = at.v.value;
    }
exit:
    return status;
}
