/* search_gate.c - what a hypothesis must show before it is believed. Every one passes here.
 *
 *     numbers    the candidate's and its own are finite, and so is its bound: what allows every
 *                value explains none
 *     follows    the candidate is within the bound of it on every element
 *     differs    it lies outside the bound around the right value: on more elements than numbers
 *                were fitted for it, and on half at least of those that are wrong; where its bound
 *                is larger than what it is to explain, it explains nothing
 *     agrees     nothing else that the candidate gives refutes it */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "causes/search.h"

void ls_search_take(ls_search *search, ls_cause cause, const char *evidence, double left,
                    double bound)
{
    const bool first = !search->fits[cause];
    search->fits[cause] = true;
    if (search->best.cause == cause && !first) return;
    if (search->best.cause != LS_CAUSE_NONE &&
        ls_mistake_of(search->best.cause)->order <= ls_mistake_of(cause)->order)
        return;
    search->best.cause = cause;
    char ending[80];
    snprintf(ending, sizeof ending, "; leaves at most %.2g (bound %.2g)", left, bound);
    const size_t room = sizeof search->best.evidence - strlen(ending) - strlen(search->whose);
    snprintf(search->best.evidence, sizeof search->best.evidence, "%s%.*s%s", search->whose,
             (int)room - 1, evidence, ending);
}

bool ls_search_explains(const ls_search *search, const double *values, const double *bound,
                        double *ret_left, double *ret_bound)
{
    const ls_case *of = search->of;
    /* Where every right value is exact, a wrong one (a third of it) need not be. */
    const double exact = of->precision.u > 0 ? 0 : 0x1p-23;
    size_t wrong = 0, apart = 0;
    double left = 0, there = 0;
    for (size_t i = 0; i < search->n; i++) {
        if (search->held && !search->held[i]) continue;
        const double c = search->candidate[i], v = values[i], right = of->right[i];
        const double own = of->bound[i];
        const double allowed = fmax(bound ? bound[i] : 0, own) + exact * (1 + fabs(v));
        if (!isfinite(c) || !isfinite(v) || !isfinite(right)) return false;
        if (!isfinite(own)) continue; /* says nothing of the right value, nor of another */
        if (!isfinite(allowed) || !(fabs(c - v) <= allowed)) return false;
        if (fabs(c - right) > own) {
            wrong++;
            if (fabs(c - right) > allowed && fabs(v - right) > allowed) apart++;
        }
        if (fabs(c - v) >= left) left = fabs(c - v), there = allowed;
    }
    *ret_left = left, *ret_bound = there;
    return apart > search->fitted && 2 * apart >= wrong;
}

/* The token losses are the candidate's and it is their mean that is wrong: not what made them. */
static bool is_refuted(const ls_search *search, ls_cause cause)
{
    if (search->node->make != LS_MAKE_MEAN || !search->of->own_inputs) return false;
    return cause == LS_CAUSE_TARGET_SHIFT || cause == LS_CAUSE_PADDED_VOCABULARY;
}

static double residual_of(const ls_search *search, const double *values)
{
    double sum = 0;
    for (size_t i = 0; i < search->n; i++) {
        if (search->held && !search->held[i]) continue;
        const double off = search->candidate[i] - values[i];
        sum += off * off;
    }
    return sum;
}

bool ls_search_propose(ls_search *search, ls_cause cause, const double *values, const double *bound,
                       const char *evidence)
{
    double left, there;
    if (cause == LS_CAUSE_NONE || is_refuted(search, cause)) return false;
    if (!ls_search_explains(search, values, bound, &left, &there)) return false;
    search->explained.residual = residual_of(search, values);
    search->explained.left = left, search->explained.bound = there;
    snprintf(search->explained.text, sizeof search->explained.text, "%s", evidence);
    ls_search_take(search, cause, evidence, left, there);
    return true;
}

bool ls_search_propose_fitted(ls_search *search, ls_cause cause, size_t fitted,
                              const double *values, const double *bound, const char *evidence)
{
    search->fitted = fitted;
    const bool fits = ls_search_propose(search, cause, values, bound, evidence);
    search->fitted = 0;
    return fits;
}

bool ls_search_propose_scaled(ls_search *search, ls_cause cause, double k, size_t fitted,
                              const char *evidence)
{
    for (size_t i = 0; i < search->n; i++) {
        search->trial[i] = k * search->of->right[i];
        search->trial_bound[i] = fmax(1, fabs(k)) * search->of->bound[i];
    }
    return ls_search_propose_fitted(search, cause, fitted, search->trial, search->trial_bound,
                                    evidence);
}

double ls_search_ratio(const ls_search *search, const double *to)
{
    double along = 0, squares = 0;
    for (size_t i = 0; i < search->n; i++) {
        if ((search->held && !search->held[i]) || !isfinite(search->candidate[i])) continue;
        along += search->candidate[i] * to[i], squares += to[i] * to[i];
    }
    return squares > 0 ? along / squares : 0;
}

/* Whether a layout has k of something that is summed over. */
static bool has(const ls_layout *l, size_t k)
{
    const size_t tp = (size_t)l->tp, dp = (size_t)l->dp, pp = (size_t)l->pp;
    const size_t channels = (size_t)l->channels, tiles = (size_t)l->down * (size_t)l->across;
    const size_t parts = (size_t)l->micro_batches;
    const size_t axes[] = {tp,    dp,      pp,         channels,   tiles,
                           parts, dp * tp, dp * parts, dp * tiles, (size_t)ls_layout_ranks(l)};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (axes[i] == k) return true;
    return false;
}

ls_cause ls_search_factor(const ls_search *search, double k)
{
    const ls_candidate *whole = search->of->whole;
    const double times = k >= 1 ? k : 1 / k;
    const size_t count = (size_t)rint(times);
    if (!(k > 0) || !isfinite(times) || fabs(k - 1) < 1e-3) return LS_CAUSE_NONE;
    const ls_cause about_ranks = k > 1 ? LS_CAUSE_REDUCED_TWICE : LS_CAUSE_AVERAGED;
    if (count < 2 || fabs(times - (double)count) > 1e-9 * times) return LS_CAUSE_NONE;
    if (whole && whole->has_layout && has(&whole->layout, count)) return about_ranks;
    if (whole && whole->has_layout && ls_layout_ranks(&whole->layout) == 1) return LS_CAUSE_FACTOR;
    if (search->of->golden && has(&search->of->golden->run.layout, count)) return about_ranks;
    return search->of->own_inputs && count <= 64 ? about_ranks : LS_CAUSE_FACTOR;
}
