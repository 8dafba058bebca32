/* cause_update.c - the end of a step by another formula: an epsilon next to the norm in clipping;
 * another decay, bias correction, epsilon, beta, learning rate or optimizer; moments that were not
 * kept; no step at all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/widen.h"
#include "base/allocate.h"
#include "causes/families.h"

/* ---- clipping ---- */

static ls_status try_epsilon(ls_search *search, double eps)
{
    char text[LS_EVIDENCE];
    const ls_variant variant = {.clip_eps = eps};
    snprintf(text, sizeof text, "gradients are scaled by %g / (norm + %.3g), not %g / norm",
             search->of->operands.max_norm, eps, search->of->operands.max_norm);
    return ls_search_try_variant(search, LS_CAUSE_CLIPPING_EPSILON, LS_KIND(CLIPPED), &variant,
                                 text);
}

/* Whatever was added, from how the candidate is scaled: the power of ten that it is near, as people
 * write epsilons, or itself where it is too small for another explanation. */
static ls_status fit_epsilon(ls_search *search)
{
    ls_status status = LS_OK;
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double norm = *search->of->operands.values[search->node->inputs[1]];
    const double largest = 1e-2, unnamed = 1e-4;
    const double eps = search->of->operands.max_norm / ls_search_ratio(search, g) - norm;
    if (!(eps > 0 && eps <= largest)) goto exit;
    const double round = pow(10, nearbyint(log10(eps)));
    if (fabs(eps - round) <= 0.01 * round + 4 * search->of->precision.u * norm)
        LS_TRY(try_epsilon(search, round));
    if (!search->fits[LS_CAUSE_CLIPPING_EPSILON] && eps <= unnamed)
        LS_TRY(try_epsilon(search, eps));
exit:
    return status;
}

static ls_status try_clipping(ls_search *search)
{
    ls_status status = LS_OK;
    static const double usual[] = {1e-6, 1e-8, 1e-5};
    if (!(search->of->operands.max_norm > 0)) goto exit;
    if (search->node->make == LS_MAKE_CLIPPED)
        LS_TRY(fit_epsilon(search));
    else
        for (size_t i = 0; i < sizeof usual / sizeof *usual && !search->of->own_inputs; i++)
            LS_TRY(try_epsilon(search, usual[i]));
exit:
    return status;
}

/* ---- the optimizer's step ---- */

/* A step by another formula. */
typedef struct other_step {
    ls_variant variant;
    ls_update update;
    bool fresh;   /* from moments of zero */
    bool history; /* the steps before gave other moments, too */
} other_step;

static other_step as_it_is(const ls_search *search)
{
    const other_step step = {.update = *search->of->operands.update};
    return step;
}

/* A tensor of an earlier step, the candidate's or else the golden one; NULL. */
static ls_status earlier(const ls_search *search, uint64_t step, int node, double *values,
                         bool *ret_there)
{
    const ls_candidate *whole = search->of->whole;
    const ls_candidate_tensor *mine = whole ? ls_candidate_find(whole, step, node) : NULL;
    const ls_golden_tensor *golden = ls_golden_find(search->of->golden, step, node);
    *ret_there = mine || golden;
    if (*ret_there)
        ls_widen(LS_F64, values, mine ? mine->dtype : golden->dtype,
                 mine ? mine->values : golden->values, search->n);
    return LS_OK;
}

/* The moments that the steps before leave by this formula, from the candidate's own gradients. */
static ls_status replay(ls_search *search, ls_change *change, const double **moments[2],
                        double *const kept[2], bool *ret_there)
{
    ls_status status = LS_OK;
    const ls_golden *golden = search->of->golden;
    const int node = search->of->node, param = search->node->params[0];
    const int clipped = search->node->inputs[0];
    const double *const now_gradient = change->values[clipped], *const now = change->params[param];
    double *past = NULL;
    *ret_there = true;
    LS_ROOM(past, 2 * search->n);
    for (int which = 0; which < 2; which++) {
        ls_dtype dtype = LS_F64;
        const void *given = golden->files ? ls_golden_moment(golden, param, which, &dtype) : NULL;
        memset(kept[which], 0, search->n * sizeof **kept);
        if (given) ls_widen(LS_F64, kept[which], dtype, given, search->n);
        moments[which][param] = kept[which];
    }
    change->values[clipped] = past, change->params[param] = past + search->n;
    for (uint64_t s = golden->first_step; s < search->of->step && *ret_there; s++) {
        LS_TRY(earlier(search, s, clipped, past, ret_there));
        if (!*ret_there) break;
        if (s > golden->first_step) {
            LS_TRY(earlier(search, s - 1, node, past + search->n, ret_there));
        } else {
            ls_dtype dtype = LS_F64;
            const void *given = golden->files ? ls_golden_param(golden, s, param, &dtype) : NULL;
            *ret_there = given != NULL;
            if (given) ls_widen(LS_F64, past + search->n, dtype, given, search->n);
        }
        if (*ret_there) LS_TRY(ls_operation_moments(&change->operands, node, kept[0], kept[1]));
    }
exit:
    change->values[clipped] = now_gradient, change->params[param] = now;
    free(past);
    return status;
}

static ls_status try_step(ls_search *search, const other_step *step, const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    const size_t params = search->graph->table->count;
    const double **moments[2] = {NULL, NULL};
    double *kept[2] = {NULL, NULL};
    bool there = true;
    if (search->fits[LS_CAUSE_OPTIMIZER_VARIANT]) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant = step->variant;
    change.operands.update = &step->update;
    if (step->fresh) change.operands.moment1 = change.operands.moment2 = NULL;
    if (step->history && search->of->golden && search->of->step > search->of->golden->first_step) {
        for (int i = 0; i < 2; i++) {
            LS_NEW(moments[i], params);
            LS_ROOM(kept[i], search->n);
        }
        change.operands.moment1 = moments[0], change.operands.moment2 = moments[1];
        LS_TRY(replay(search, &change, moments, kept, &there));
    }
    if (there)
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_OPTIMIZER_VARIANT, &change.operands, text));
exit:
    for (int i = 0; i < 2; i++) free(moments[i]), free(kept[i]);
    ls_change_end(&change);
    return status;
}

/* One decision made otherwise, and where the parameter decays or not. */
static ls_status try_with_decay(ls_search *search, const other_step *step, const char *text)
{
    ls_status status = LS_OK;
    other_step other = *step;
    char both[LS_EVIDENCE];
    const bool decays = search->graph->table->params[search->node->params[0]].decay;
    LS_TRY(try_step(search, step, text));
    if (!(step->update.weight_decay > 0)) goto exit;
    other.variant.decay_flipped = true;
    snprintf(both, sizeof both, "%.150s, and %s", text,
             decays ? "without its weight decay" : "with a weight decay that it should not have");
    LS_TRY(try_step(search, &other, both));
exit:
    return status;
}

static ls_status try_decay(ls_search *search)
{
    ls_status status = LS_OK;
    const bool decays = search->graph->table->params[search->node->params[0]].decay;
    const bool adam = search->of->operands.update->optimizer == LS_ADAMW;
    other_step step = as_it_is(search);
    if (!(step.update.weight_decay > 0)) goto exit;
    step.variant.decay_flipped = true;
    LS_TRY(try_step(search, &step,
                    decays ? "the step without weight decay, which this parameter has"
                           : "the step with weight decay, which this parameter does not have"));
    step.variant.decay_flipped = !decays;
    step.variant.decay = adam ? LS_DECAY_IN_GRADIENT : LS_DECAY_DECOUPLED;
    step.history = true;
    LS_TRY(try_step(search, &step,
                    adam ? "weight decay is added to the gradient (L2), not taken off the weight"
                         : "weight decay is taken off the weight, not added to the gradient"));
    step.variant.decay = LS_DECAY_WITHOUT_RATE;
    step.history = !adam;
    LS_TRY(try_step(search, &step, "weight decay is not multiplied by the learning rate"));
exit:
    return status;
}

/* The step from the candidate's gradient where it should be from its clipped one. */
static ls_status try_unclipped(ls_search *search)
{
    ls_status status = LS_OK;
    const int clipped = search->node->inputs[0];
    const int gradient = search->graph->nodes[clipped].inputs[0];
    const ls_candidate *whole = search->of->whole;
    ls_change change = {0};
    double *values;
    bool there;
    if (whole && !ls_candidate_find(whole, search->of->step, gradient)) goto exit;
    LS_TRY(ls_search_need(search, gradient, &there));
    if (!there) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, clipped, &values));
    memcpy(values, search->values[gradient], search->n * sizeof *values);
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_OPTIMIZER_VARIANT, &change.operands,
                              "the step is from the gradient before clipping"));
exit:
    ls_change_end(&change);
    return status;
}

/* Another epsilon; unclipped: or the gradient before clipping, which has the same effect as a
 * smaller epsilon and is named where both leave about as much. */
static ls_status try_adam_epsilons(ls_search *search, bool unclipped)
{
    ls_status status = LS_OK;
    static const struct {
        double value;
        const char *name;
    } list[] = {{1e-8, "1e-08"},  {1e-6, "1e-06"},  {1e-7, "1e-07"}, {1e-5, "1e-05"},
                {1e-10, "1e-10"}, {1e-12, "1e-12"}, {0, "0"}};
    const double right = search->of->operands.update->eps;
    char text[LS_EVIDENCE];
    ls_choice choice;
    ls_choice_begin(&choice, search, LS_CAUSE_OPTIMIZER_VARIANT);
    if (unclipped) {
        ls_choice_next(&choice);
        LS_TRY(try_unclipped(search));
        ls_choice_note(&choice, 0.25, "the gradient before clipping");
        if (choice.count == 0) goto exit;
    }
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        other_step step = as_it_is(search);
        if (fabs(list[i].value - right) <= 1e-3 * right) continue;
        step.update.eps = list[i].value;
        snprintf(text, sizeof text, "epsilon %s, not %g", list[i].name, right);
        ls_choice_next(&choice);
        LS_TRY(try_with_decay(search, &step, text));
        ls_choice_note(&choice, 1, list[i].name);
    }
exit:
    ls_choice_end(&choice);
    return status;
}

static ls_status try_adam(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    static const struct {
        ls_variant variant;
        const char *text;
    } forms[] = {
        {{.uncorrected_mean = true, .uncorrected_square = true}, "no bias correction, of m and v"},
        {{.uncorrected_mean = true}, "no bias correction of m"},
        {{.uncorrected_square = true}, "no bias correction of v"},
        {{.root = LS_ROOT_EPS_INSIDE}, "epsilon inside the root, sqrt(v + eps)"},
        {{.root = LS_ROOT_EPS_DEEPEST}, "epsilon added to v before its bias correction"},
        {{.root = LS_ROOT_EPS_UNCORRECTED}, "epsilon added to sqrt(v) before the bias correction"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        other_step step = as_it_is(search);
        step.variant = forms[i].variant;
        LS_TRY(try_with_decay(search, &step, forms[i].text));
    }
    const ls_update right = *search->of->operands.update;
    const double betas[][2] = {
        {right.beta2, right.beta1}, {0.9, 0.999}, {0.9, 0.95}, {0.9, 0.98}, {0.9, 0.99}};
    for (size_t i = 0; i < sizeof betas / sizeof *betas; i++) {
        other_step step = as_it_is(search);
        step.update.beta1 = betas[i][0], step.update.beta2 = betas[i][1], step.history = true;
        snprintf(text, sizeof text, "beta1 and beta2 are %g and %g%s, not %g and %g", betas[i][0],
                 betas[i][1], i == 0 ? ", exchanged" : "", right.beta1, right.beta2);
        LS_TRY(try_with_decay(search, &step, text));
    }
    if (!search->fits[LS_CAUSE_OPTIMIZER_VARIANT]) LS_TRY(try_adam_epsilons(search, false));
    for (int by = 1; by >= -1; by -= 2) {
        other_step step = as_it_is(search);
        if (by < 0 && right.t < 2) continue;
        step.update.t = by < 0 ? right.t - 1 : right.t + 1;
        snprintf(text, sizeof text, "bias corrected as in update %llu, not %llu",
                 (unsigned long long)step.update.t, (unsigned long long)right.t);
        LS_TRY(try_with_decay(search, &step, text));
    }
exit:
    return status;
}

static ls_status try_moments(ls_search *search)
{
    ls_status status = LS_OK;
    other_step step = as_it_is(search);
    step.fresh = true;
    LS_TRY(try_with_decay(search, &step, "the step from moments of zero: they were not kept"));
    step.update.t = 1;
    LS_TRY(try_with_decay(search, &step,
                          "the step from moments of zero, as a first one: they were not kept"));
    if (step.update.optimizer != LS_ADAMW) goto exit;
    for (int momentum = 0; momentum < 2; momentum++) {
        other_step sgd = as_it_is(search);
        sgd.update.optimizer = LS_SGD, sgd.fresh = !momentum, sgd.history = momentum != 0;
        LS_TRY(try_with_decay(search, &sgd,
                              momentum ? "the step of SGD with momentum beta1, not of AdamW"
                                       : "the step of plain SGD, w - lr g, not of AdamW"));
    }
exit:
    return status;
}

/* The number of two digits that one is near to, as people write them; else itself. */
static double of_few_digits(double value)
{
    const double unit = pow(10, floor(log10(fabs(value))) - 1), digits = nearbyint(value / unit);
    if (!(fabs(value / unit - digits) < 0.01 * fabs(digits))) return value;
    return unit < 1 ? digits / nearbyint(1 / unit) : digits * unit;
}

/* Any learning rate and any decay: the candidate as w - lr' step - decay' w, each by itself, then
 * both together. */
static ls_status fit_rates(ls_search *search)
{
    ls_status status = LS_OK;
    enum { ENOUGH = 8 }; /* elements, for two numbers to be found in them */
    const ls_operands *o = &search->of->operands;
    const ls_update right = *o->update;
    const bool decays = search->graph->table->params[search->node->params[0]].decay;
    const double *w = o->params[search->node->params[0]], *c = search->candidate;
    const double old = decays ? right.weight_decay : 0;
    char text[LS_EVIDENCE];
    double ww = 0, ss = 0, ws = 0, cw = 0, cs = 0, dd = 0, cd = 0;
    if (right.optimizer != LS_ADAMW || search->n < ENOUGH || !(right.lr > 0)) goto exit;
    for (size_t i = 0; i < search->n; i++) {
        const double whole = w[i] - search->of->right[i], step = whole - right.lr * old * w[i];
        const double change = w[i] - c[i];
        ww += w[i] * w[i], ss += step * step, ws += w[i] * step;
        cw += change * w[i], cs += change * step;
        dd += whole * whole, cd += change * whole;
    }
    const double determinant = ww * ss - ws * ws;
    const double k = cd / dd;                                         /* of the whole step */
    const double decay = (cw - ws) / (right.lr * ww);                 /* by itself */
    const double rate = (cs * ww - cw * ws) / determinant * right.lr; /* both */
    const double beside = (cw * ss - cs * ws) / determinant / rate;
    const double rates[] = {of_few_digits(k) * right.lr, k * right.lr};
    for (int i = 0; i < 2 && k > 1e-3 && k < 1e3; i++) {
        other_step step = as_it_is(search);
        step.update.lr = rates[i];
        snprintf(text, sizeof text, "learning rate %.6g = %.4g x %.6g", rates[i],
                 rates[i] / right.lr, right.lr);
        LS_TRY(try_step(search, &step, text));
    }
    const double decays_by[] = {of_few_digits(decay), decay};
    for (int i = 0; i < 2 && decay > 1e-5 && decay <= 1; i++) {
        other_step step = as_it_is(search);
        step.update.weight_decay = decays_by[i];
        step.variant.decay_flipped = !decays;
        snprintf(text, sizeof text, "weight decay %.4g, not %g", decays_by[i], old);
        LS_TRY(try_step(search, &step, text));
    }
    if (!(rate > 1e-3 * right.lr && rate < 1e3 * right.lr && beside > -1e-3 && beside <= 1))
        goto exit;
    other_step step = as_it_is(search);
    step.update.lr = rate, step.update.weight_decay = fmax(0, beside);
    step.variant.decay_flipped = !decays;
    snprintf(text, sizeof text, "learning rate %.4g and weight decay %.3g, not %.4g and %g", rate,
             fmax(0, beside), right.lr, old);
    LS_TRY(try_step(search, &step, text));
exit:
    return status;
}

static ls_status try_optimizer(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_operands *o = &search->of->operands;
    const double *before = o->params[search->node->params[0]];
    if (!o->update || !before || !o->values[search->node->inputs[0]]) goto exit;
    ls_search_propose(search, LS_CAUSE_OPTIMIZER_VARIANT, before, NULL,
                      "not updated: candidate is the parameter before the step");
    if (o->update->optimizer == LS_ADAMW && search->of->own_inputs && o->max_norm > 0)
        LS_TRY(try_adam_epsilons(search, true));
    LS_TRY(try_decay(search));
    if (o->update->optimizer == LS_ADAMW) LS_TRY(try_adam(search));
    LS_TRY(try_moments(search));
    LS_TRY(fit_rates(search));
exit:
    return status;
}

ls_status ls_cause_updates(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase != LS_GRAPH_UPDATE) goto exit;
    if (search->node->make == LS_MAKE_UPDATED) LS_TRY(try_optimizer(search));
    LS_TRY(try_clipping(search));
exit:
    return status;
}
