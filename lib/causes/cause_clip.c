/* cause_clip.c - gradients that are not scaled by max_norm / norm: not at all, to another norm, or
 * each element cut off by itself. */
#include <math.h>
#include <stdio.h>

#include "lockstep/base/widen.h"
#include "causes/cause_norm.h"

/* Of a clipped gradient and the gradient itself, both the candidate's, the first some elements:
 * whether their ratio is `by`; other: they are there and differ from that. */
static bool has_ratio(const ls_search *search, int clipped, double by, bool *ret_other)
{
    enum { SOME = 1024 };
    double c[SOME], g[SOME], error = 0;
    const ls_graph *graph = search->graph;
    const ls_candidate_tensor *mine =
        ls_candidate_find(search->of->whole, search->of->step, clipped);
    const ls_candidate_tensor *from =
        ls_candidate_find(search->of->whole, search->of->step, graph->nodes[clipped].inputs[0]);
    if (!mine || !from) return false;
    const size_t all = ls_graph_elements(graph, clipped), n = all < SOME ? all : SOME;
    ls_widen(LS_F64, c, mine->dtype, mine->values, n);
    ls_widen(LS_F64, g, from->dtype, from->values, n);
    for (size_t i = 0; i < n; i++)
        error =
            fmax(error, fabs(c[i] - by * g[i]) - 64 * search->of->precision.u * fabs(by * g[i]));
    *ret_other |= !(error <= search->of->precision.tiny);
    return n > 1 && error <= search->of->precision.tiny;
}

/* One ratio for all parameters; one parameter by itself shows none. */
static ls_status try_other_norm(ls_search *search)
{
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double by = ls_search_ratio(search, g), u = search->of->precision.u;
    char text[LS_EVIDENCE], number[16];
    size_t others = 0;
    bool other = false, known = false;
    ls_status status = LS_OK;
    if (!search->of->whole || !(by > 0) || search->best.cause != LS_CAUSE_NONE) goto exit;
    for (size_t i = 0; i < search->graph->count && !other; i++)
        if (search->graph->nodes[i].make == LS_MAKE_CLIPPED && (int)i != search->of->node &&
            has_ratio(search, (int)i, by, &other))
            others++;
    if (other || others == 0) goto exit;
    LS_TRY(ls_search_norm_is_right(search, &known));
    for (size_t i = 0; i < search->n; i++) {
        search->trial[i] = by * g[i];
        search->trial_bound[i] = 16 * u * fabs(by * g[i]) + search->of->precision.tiny;
    }
    const double most = search->of->operands.max_norm;
    const double norm = *search->of->operands.values[search->node->inputs[1]];
    const double right = fmin(1, most / norm), k = ls_round_factor(by / right);
    const bool plain =
        known && (k == rint(k) || 1 / k == rint(1 / k)) && fabs(by - k * right) <= 64 * u * by;
    if (plain)
        snprintf(text, sizeof text,
                 "all clipped gradients are %s x right, the norm of the candidate is right",
                 ls_factor_text(k, number));
    else if (known)
        snprintf(text, sizeof text,
                 "all gradients are scaled by %.6g, as to a largest norm of %.6g, not %g; the norm "
                 "of the candidate is right",
                 by, by * norm, most);
    else
        snprintf(text, sizeof text,
                 "all gradients are scaled by %.6g = %g / %.6g, where the norm is %.6g", by, most,
                 most / by, norm);
    ls_search_propose_fitted(search, plain ? LS_CAUSE_FACTOR : LS_CAUSE_CLIPPED_ELSEWHERE, 1,
                             search->trial, search->trial_bound, text);
exit:
    return status;
}

/* Everything beyond +-c is +-c, and the rest is as it was. */
static ls_status try_by_value(ls_search *search)
{
    const double *g = search->of->operands.values[search->node->inputs[0]];
    double most = 0;
    size_t cut = 0;
    char text[LS_EVIDENCE];
    for (size_t i = 0; i < search->n; i++) most = fmax(most, fabs(search->candidate[i]));
    if (!(most > 0)) return LS_OK;
    for (size_t i = 0; i < search->n; i++) {
        const bool beyond = fabs(g[i]) > most * (1 + 4 * search->of->precision.u);
        search->trial[i] = beyond ? copysign(most, g[i]) : g[i];
        if (beyond) cut++;
    }
    snprintf(text, sizeof text,
             "%zu of %zu elements are cut off at +-%.6g, the others are the gradient itself", cut,
             search->n, most);
    const bool known = fabs(most - search->of->operands.max_norm) <= 1e-6 * most;
    const size_t fitted = known ? 0 : 1;
    if (cut > fitted)
        ls_search_propose_fitted(search, LS_CAUSE_CLIPPED_BY_VALUE, fitted, search->trial, NULL,
                                 text);
    return LS_OK;
}

/* What the parameter becomes from a gradient that was not clipped, or element by element, where the
 * candidate does not have what was. AdamW's step hardly depends on the scale: there the gradient
 * itself must be the candidate's. */
static ls_status try_update(ls_search *search)
{
    ls_status status = LS_OK;
    const int clipped = search->node->inputs[0];
    const int gradient = search->graph->nodes[clipped].inputs[0];
    const double most = search->of->operands.max_norm;
    char text[LS_EVIDENCE];
    ls_change change = {0};
    double *values;
    size_t cut = 0;
    bool there;
    if (search->of->own_inputs || !search->of->operands.update) goto exit;
    if (search->of->operands.update->optimizer == LS_ADAMW && search->of->whole &&
        !ls_candidate_find(search->of->whole, search->of->step, gradient))
        goto exit;
    LS_TRY(ls_search_need(search, gradient, &there));
    if (!there || !search->values[clipped]) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, clipped, &values));
    for (size_t i = 0; i < search->n; i++) values[i] = search->values[gradient][i];
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_NOT_CLIPPED, &change.operands,
                              "the step with the gradient as it is, not scaled"));
    for (size_t i = 0; i < search->n; i++) {
        if (!(fabs(values[i]) > most)) continue;
        values[i] = copysign(most, values[i]);
        cut++;
    }
    snprintf(text, sizeof text,
             "the step with the gradient as it is, but %zu of %zu elements cut off at +-%g", cut,
             search->n, most);
    if (cut > 0)
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_CLIPPED_BY_VALUE, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

static ls_status try_clipped(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const double *g = search->of->operands.values[search->node->inputs[0]];
    snprintf(text, sizeof text,
             "candidate is the gradient itself: its norm is %.6g, the largest allowed %.6g",
             *search->of->operands.values[search->node->inputs[1]], search->of->operands.max_norm);
    ls_search_propose(search, LS_CAUSE_NOT_CLIPPED, g, NULL, text);
    LS_TRY(try_by_value(search));
    LS_TRY(try_other_norm(search));
exit:
    return status;
}

ls_status ls_cause_clips(ls_search *search)
{
    ls_status status = LS_OK;
    if (!(search->of->operands.max_norm > 0)) goto exit;
    if (search->node->make == LS_MAKE_CLIPPED) LS_TRY(try_clipped(search));
    if (search->node->make == LS_MAKE_UPDATED) LS_TRY(try_update(search));
exit:
    return status;
}
