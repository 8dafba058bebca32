/* operation_update.c - norm of the gradient, clipping, AdamW and SGD.
 *
 *     norm = sqrt(sum of g^2)      clipped = g, or g max_norm / norm where norm > max_norm
 *     AdamW, SGD: as lockstep/kernels/optimizer.h writes them
 *
 * Where the norm is so near the largest one allowed that either branch may be taken, the bound
 * covers both. beta1, beta2 and 1 - beta are each rounded once. AdamW divides by sqrt(v) + eps: for
 * a gradient of the size of eps or less the bound is of the size of the update itself. */
#include "step_graph/operation_parts.h"

/* x0 of the node: the clipped gradient. */
static double moment_of(const double *const *moments, int param, size_t i)
{
    return moments && moments[param] ? moments[param][i] : 0;
}

typedef struct updated {
    approx w, m, v;
} updated;

static approx times(const ls_precision *p, double constant, approx a)
{
    return approx_multiply(p, approx_constant(p, constant), a);
}

/* What divides the step: sqrt(v c2) + eps. */
static approx root_of(const ls_precision *p, const ls_variant *how, double eps, double c2, approx v)
{
    const approx e = approx_constant(p, eps);
    switch (how->root) {
    case LS_ROOT_EPS_INSIDE:
        return approx_root(p, approx_add(p, times(p, c2, v), e));
    case LS_ROOT_EPS_UNCORRECTED:
        return times(p, sqrt(c2), approx_add(p, approx_root(p, v), e));
    case LS_ROOT_EPS_DEEPEST:
        return approx_root(p, times(p, c2, approx_add(p, v, e)));
    default:
        return approx_add(p, approx_root(p, times(p, c2, v)), e);
    }
}

static updated adamw(const ls_precision *p, const ls_update *u, const ls_variant *how, bool decay,
                     updated at, approx g)
{
    const double t = (double)u->t;
    const double c1 = how->uncorrected_mean ? 1 : 1 / (1 - pow(u->beta1, t));
    const double c2 = how->uncorrected_square ? 1 : 1 / (1 - pow(u->beta2, t));
    if (decay && how->decay == LS_DECAY_IN_GRADIENT)
        g = approx_add(p, g, times(p, u->weight_decay, at.w));
    at.m = approx_add(p, times(p, u->beta1, at.m), times(p, 1 - u->beta1, g));
    at.v =
        approx_add(p, times(p, u->beta2, at.v), times(p, 1 - u->beta2, approx_multiply(p, g, g)));
    const approx mean = times(p, c1, at.m), below = root_of(p, how, u->eps, c2, at.v);
    if (decay && how->decay != LS_DECAY_IN_GRADIENT) {
        const double rate = how->decay == LS_DECAY_WITHOUT_RATE ? 1 : u->lr;
        at.w = approx_subtract(p, at.w, times(p, rate * u->weight_decay, at.w));
    }
    at.w = approx_subtract(p, at.w, times(p, u->lr, approx_divide(p, mean, below)));
    return at;
}

static updated sgd(const ls_precision *p, const ls_update *u, const ls_variant *how, bool decay,
                   updated at, approx g)
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

static updated update_element(const evaluation *e, const ls_graph_node *node, size_t i)
{
    const int param = node->params[0];
    const ls_update *u = e->o->update;
    const ls_variant *how = &e->variant;
    const bool decay = e->graph->table->params[param].decay != how->decay_flipped;
    const approx g = approx_input(e->p, value_of(e, node->inputs[0])[i]);
    const updated at = {approx_exact(param_of(e, param)[i]),
                        approx_exact(moment_of(e->o->moment1, param, i)),
                        approx_exact(moment_of(e->o->moment2, param, i))};
    return u->optimizer == LS_ADAMW ? adamw(e->p, u, how, decay, at, g)
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

static approx clip(const evaluation *e, double g, approx norm)
{
    const double most = e->o->max_norm;
    if (!(most > 0)) return approx_exact(g);
    const double slack = 16 * e->p->u * most;
    if (e->variant.clip_eps > 0)
        norm = approx_add(e->p, norm, approx_constant(e->p, e->variant.clip_eps));
    approx clipped = approx_input(e->p, g);
    if (norm.value > most)
        clipped =
            approx_multiply(e->p, clipped, approx_divide(e->p, approx_constant(e->p, most), norm));
    if (fabs(norm.value - most) <= slack)
        clipped = approx_add_error(clipped, fabs(g) * slack / most);
    return clipped;
}

approx ls_evaluate_update(const evaluation *e, const ls_graph_node *node, size_t i)
{
    switch (node->make) {
    case LS_MAKE_GRADIENT_NORM:
        return gradient_norm(e);
    case LS_MAKE_CLIPPED:
        return clip(e, value_of(e, node->inputs[0])[i],
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
        const updated at = update_element(&e, &graph->nodes[node], i);
        ret_moment1[i] = at.m.value;
        if (ret_moment2) ret_moment2[i] = at.v.value;
    }
exit:
    return status;
}
