/* cause_factor.c - the right tensor times one number: zeros, where nothing was computed; the scale
 * of the scores, left out or applied twice on the way back; a plain factor. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "causes/families.h"

/* Whether the candidate is 0 where the right tensor is not. */
static bool is_zero(const ls_search *search)
{
    bool wrong = false;
    for (size_t i = 0; i < search->n; i++) {
        if (search->held && !search->held[i]) continue;
        if (search->candidate[i] != 0) return false;
        wrong |= fabs(search->of->right[i]) > search->of->bound[i];
    }
    return wrong;
}

/* The gradients of queries and keys have the scale of the scores as a factor, once. */
static void try_scale(ls_search *search, double k)
{
    const ls_point point =
        search->node->of >= 0 ? search->graph->nodes[search->node->of].point : LS_POINTS;
    char text[LS_EVIDENCE];
    if (search->node->make != LS_MAKE_GRADIENT) return;
    if (point != LS_POINT_QUERY && point != LS_POINT_KEY) return;
    const double scale = 1 / sqrt((double)ls_config_head_width(search->config));
    const double missing = 1 / scale;
    if (fabs(k - missing) <= 0.01 * missing) {
        snprintf(text, sizeof text,
                 "on the way back the scores' scale, 1 / sqrt(head width) = %.6g, is left out: the "
                 "gradient is %.6g times too large",
                 scale, k);
        ls_search_propose_scaled(search, LS_CAUSE_SCORE_SCALE, missing, 0, text);
    } else if (fabs(k - scale) <= 0.01 * scale) {
        snprintf(text, sizeof text,
                 "on the way back the scores' scale, 1 / sqrt(head width) = %.6g, counts twice: "
                 "the gradient is %.6g times the right one",
                 scale, k);
        ls_search_propose_scaled(search, LS_CAUSE_SCORE_SCALE, scale, 0, text);
    }
}

static bool is_power_of_two(double k)
{
    int exponent;
    return frexp(k, &exponent) == 0.5;
}

/* A loss scale is a power of two; in a narrow format the fit of a large one is some units off. */
static double rounded(double k)
{
    const double power = k >= 128 ? exp2(rint(log2(k))) : 0;
    return fabs(k - power) <= 0.01 * power ? power : ls_round_factor(k);
}

ls_status ls_cause_factors(ls_search *search)
{
    char text[LS_EVIDENCE], number[16];
    const double k = ls_search_ratio(search, search->of->right), round = rounded(k);
    const ls_graph_node *node = search->node;
    const bool backward = node->phase == LS_GRAPH_BACKWARD && node->n_dims > 0;
    if (!backward) return LS_OK;
    if (!search->held && is_zero(search)) {
        ls_search_propose_scaled(search, LS_CAUSE_NEVER_COMPUTED, 0, 0,
                                 "candidate is 0 everywhere, where the right gradient is not");
        return LS_OK;
    }
    try_scale(search, k);
    if (fabs(round - k) <= 0.01 * fabs(k)) {
        snprintf(text, sizeof text, "candidate = %s x right (fitted %.6g)%s",
                 ls_factor_text(round, number), k,
                 round >= 128 && is_power_of_two(round) ? ": a loss scale that was left in" : "");
        ls_search_propose_scaled(search, ls_search_factor(search, round), round, 0, text);
    }
    return LS_OK;
}
