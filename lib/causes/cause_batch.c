/* cause_batch.c - how a batch may have been cut; the loss and its gradient as a mean of means, of a
 * part only, or scaled. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/families.h"

/* ---- the loss and its gradient, token by token ---- */

#define LOSSES (LS_KIND(TOKEN_LOSS) | LS_KIND(ORDER_LOSS) | LS_KIND(IMAGE_LOSS) | LS_KIND(MEAN))

/* A gradient further back is that of its sequences' losses: scaled as they are. */
static void propose_scaled(ls_search *search, ls_cause cause, const double *weights,
                           const char *text)
{
    const size_t sequence = search->n / search->graph->B;
    for (size_t i = 0; i < search->n; i++) {
        search->trial[i] = weights[i / sequence] * search->of->right[i];
        search->trial_bound[i] = fmax(1, weights[i / sequence]) * search->of->bound[i];
    }
    ls_search_propose(search, cause, search->trial, search->trial_bound, text);
}

static ls_status try_weights(ls_search *search, ls_cause cause, const double *weights,
                             const char *text)
{
    const ls_variant variant = {.weights = weights};
    if (cause == LS_CAUSE_NONE) return LS_OK;
    if (search->node->make != LS_MAKE_GRADIENT || ls_search_concerns(search, LOSSES))
        return ls_search_try_variant(search, cause, LOSSES, &variant, text);
    propose_scaled(search, cause, weights, text);
    return LS_OK;
}

static ls_status try_means(ls_search *search, const ls_cause_cut *cut)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t B = search->graph->B;
    double *weights = NULL;
    LS_ROOM(weights, 2 * B);
    double *const others = weights + B;
    ls_weights_of_means(search, cut, true, weights);
    snprintf(
        text, sizeof text,
        "the mean of the means over %zu parts (each a %s; first part %zu of %zu targets), not over "
        "all targets",
        cut->count, cut->name, ls_targets_in(search, 0, cut->bounds[1]),
        ls_targets_in(search, 0, B));
    const bool even = ls_weights_are_a_factor(weights, B); /* then the mean of means is right */
    if (!even) LS_TRY(try_weights(search, LS_CAUSE_MEAN_OF_MEANS, weights, text));
    ls_weights_of_means(search, cut, false, weights);
    snprintf(text, sizeof text, "each of %zu parts (%s) has a mean of its own, and these are added",
             cut->count, cut->name);
    if (!even) LS_TRY(try_weights(search, LS_CAUSE_MEAN_OF_MEANS, weights, text));
    /* By another number than that of the parts, of which a stated layout has so many. */
    for (size_t k = 2; k <= 16 && strncmp(cut->name, "run of", 6) != 0; k++) {
        if (k == cut->count) continue;
        for (size_t b = 0; b < B; b++) others[b] = weights[b] / (double)k;
        snprintf(text, sizeof text,
                 "the sum of the means over %zu parts (each a %s) is divided by %zu", cut->count,
                 cut->name, k);
        if (!ls_weights_are_a_factor(others, B))
            LS_TRY(try_weights(search, LS_CAUSE_MEAN_OF_MEANS, others, text));
    }
    for (size_t m = 0; m < cut->count; m++) { /* one part only */
        const size_t from = cut->bounds[m], to = cut->bounds[m + 1];
        const size_t n = ls_targets_in(search, from, to);
        if (n == 0) continue;
        for (int own = 0; own < 2; own++) {
            for (size_t b = 0; b < B; b++)
                weights[b] = b < from || b >= to ? 0
                             : own               ? (double)ls_targets_in(search, 0, B) / (double)n
                                                 : 1;
            snprintf(text, sizeof text,
                     "candidate is of %s %zu to %zu of %zu alone (%s %zu of %zu)%s",
                     ls_search_elements(search), from, to - 1, B, cut->name, m, cut->count,
                     own ? ", divided by their own targets" : "");
            LS_TRY(try_weights(search, LS_CAUSE_NOT_REDUCED, weights, text));
        }
    }
exit:
    free(weights);
    return status;
}

static ls_status try_factors(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64], number[16];
    const size_t all = ls_targets_in(search, 0, search->graph->B);
    double *weights = NULL;
    LS_ROOM(weights, search->graph->B);
    const double fitted = ls_search_ratio(search, search->of->right), k = ls_round_factor(fitted);
    const ls_cause cause = ls_search_factor(search, k);
    if (fabs(fitted - k) > 0.01 * k || k > 64 || k == (double)all) goto exit;
    for (size_t b = 0; b < search->graph->B; b++) weights[b] = k;
    ls_search_size(search, (size_t)rint(k >= 1 ? k : 1 / fmax(k, 1e-6)), size);
    snprintf(text, sizeof text, "candidate = %s x right%s (fitted %.6g)", ls_factor_text(k, number),
             size, fitted);
    LS_TRY(try_weights(search, cause, weights, text));
exit:
    free(weights);
    return status;
}

/* The loss of a step is the mean of one or two kinds of losses, each with a divisor of its own. */
static void try_mean_counts(ls_search *search)
{
    char text[LS_EVIDENCE];
    double factor;
    for (int kind = 0; kind < 2 && search->node->inputs[kind] >= 0; kind++) {
        const int node = search->node->inputs[kind];
        const bool order = search->graph->nodes[node].make == LS_MAKE_ORDER_LOSS;
        const double *losses = search->of->operands.values[node];
        const size_t n = ls_graph_elements(search->graph, node);
        const double all = order ? (double)ls_order_labels(search->of->operands.batch)
                                 : (double)ls_targets_in(search, 0, search->graph->B);
        double sum = 0;
        for (size_t t = 0; losses && t < n; t++) sum += losses[t];
        for (int i = 0; losses && ls_other_count_of(search, order, i, &factor, text); i++) {
            if (factor == 1) continue;
            const double value = search->of->right[0] + (factor - 1) * sum / all;
            const double bound = fmax(1, factor) * search->of->bound[0];
            ls_search_propose(search, LS_CAUSE_TARGET_COUNT, &value, &bound, text);
        }
    }
}

/* The loss is divided by something else than the number of targets. */
static ls_status try_counts(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t B = search->graph->B;
    const bool order =
        search->node->make == LS_MAKE_GRADIENT && ls_search_concerns(search, LS_KIND(ORDER_LOSS));
    double *weights = NULL, factor;
    LS_ROOM(weights, B);
    if (search->node->make == LS_MAKE_MEAN) try_mean_counts(search);
    for (int i = 0; ls_other_count_of(search, order, i, &factor, text); i++) {
        if (factor == 1 || (search->node->make == LS_MAKE_MEAN && search->of->own_inputs)) continue;
        for (size_t b = 0; b < B; b++) weights[b] = factor;
        LS_TRY(try_weights(search, LS_CAUSE_TARGET_COUNT, weights, text));
    }
exit:
    free(weights);
    return status;
}

/* The log of the sum of exponentials is off by log k: the sum was reduced k times. */
static ls_status try_exponentials(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64];
    ls_change change = {0};
    for (size_t k = 2; k <= 16; k++) {
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        change.variant.softmax_factor = (double)k;
        snprintf(text, sizeof text,
                 "the sum of exponentials counts %zu times: losses are larger by log %zu%s", k, k,
                 ls_search_size(search, k, size));
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_REDUCED_TWICE, &change.operands, text));
        ls_change_end(&change);
    }
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_cause_batch(ls_search *search)
{
    ls_status status = LS_OK;
    const bool losses = ls_search_concerns(search, LOSSES);
    const bool backward = search->node->make == LS_MAKE_GRADIENT &&
                          (losses || !search->of->own_inputs) &&
                          search->node->dims[0] == search->graph->B;
    if (search->node->make == LS_MAKE_MEAN || backward) {
        ls_cause_cut cuts[LS_CUTS];
        const size_t n = ls_search_cuts(search, cuts);
        LS_TRY(try_counts(search));
        for (size_t c = 0; c < n; c++) LS_TRY(try_means(search, &cuts[c]));
        LS_TRY(try_factors(search));
    }
    if (search->node->make == LS_MAKE_TOKEN_LOSS || (backward && losses))
        LS_TRY(try_exponentials(search));
exit:
    return status;
}
