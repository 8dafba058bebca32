/* cause_update.c - the end of a step by another formula: an epsilon beside the norm in clipping. */
#include <math.h>
#include <stdio.h>

#include "oracle/cause_parts.h"

#define KIND(kind) (1u << LS_MAKE_##kind)

/* ---- clipping ---- */

static ls_status try_epsilon(ls_search *search, double eps)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    char text[LS_EVIDENCE];
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant.clip_eps = eps;
    snprintf(text, sizeof text, "gradients are scaled by %g / (norm + %.3g), not %g / norm",
             search->of->operands.max_norm, eps, search->of->operands.max_norm);
    LS_TRY(ls_search_try(search, LS_CAUSE_CLIPPING_EPSILON, KIND(CLIPPED), &change, text));
exit:
    ls_change_end(&change);
    return status;
}

/* Whatever was added, from how the candidate is scaled: the power of ten that it is near, as people
 * write epsilons, or itself where it is too small for another explanation. */
static ls_status fit_epsilon(ls_search *search)
{
    ls_status status = LS_OK;
    const double *g = search->of->operands.values[search->node->inputs[0]];
    const double norm = *search->of->operands.values[search->node->inputs[1]];
    const double largest = 1e-2, unnamed = 1e-4;
    double along = 0, squares = 0;
    for (size_t i = 0; i < search->n; i++) {
        along += search->candidate[i] * g[i];
        squares += g[i] * g[i];
    }
    const double eps = search->of->operands.max_norm * squares / along - norm;
    if (!(squares > 0 && eps > 0 && eps <= largest)) goto exit;
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

ls_status ls_cause_updates(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase != LS_GRAPH_UPDATE) goto exit;
    LS_TRY(try_clipping(search));
exit:
    return status;
}
