/* cause_formula.c - another formula in the place of the right one: activations, epsilons, shifted
 * targets, vocabulary, positions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causes/families.h"

/* ---- activations and norms ---- */

static ls_status try_activation(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_kind_set kinds = LS_KIND(ACTIVATION) | LS_KIND(GELU);
    static const char *const names[] = {[LS_ACTIVATION_TANH] = "GELU by tanh",
                                        [LS_ACTIVATION_ERF] = "GELU by erf",
                                        [LS_ACTIVATION_SIGMOID] = "x sigmoid(1.702 x)",
                                        [LS_ACTIVATION_SILU] = "SiLU",
                                        [LS_ACTIVATION_RELU] = "ReLU"};
    static const char *const right[] = {[LS_GELU_TANH] = "GELU by tanh",
                                        [LS_GELU_ERF] = "GELU by erf",
                                        [LS_SWIGLU] = "SiLU times up"};
    char text[LS_EVIDENCE];
    if (!ls_search_can_concern(search, kinds)) goto exit;
    for (int form = LS_ACTIVATION_TANH; form <= LS_ACTIVATION_RELU; form++) {
        const ls_variant variant = {.activation = (ls_activation_form)form};
        const bool head = ls_search_concerns(search, LS_KIND(GELU));
        if (form == (search->config->activation == LS_SWIGLU     ? LS_ACTIVATION_SILU
                     : search->config->activation == LS_GELU_ERF ? LS_ACTIVATION_ERF
                     : head                                      ? LS_ACTIVATION_AS_IS
                                                                 : LS_ACTIVATION_TANH))
            continue;
        snprintf(text, sizeof text, "candidate is %s, not %s", names[form],
                 head ? "GELU by erf" : right[search->config->activation]);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_GELU_VARIANT, kinds, &variant, text));
    }
exit:
    return status;
}

/* Another epsilon inside the root, or one that is added to the root. */
static ls_status try_epsilons(ls_search *search)
{
    ls_status status = LS_OK;
    static const struct {
        double value;
        const char *name, *added;
    } list[] = {
        {1e-5, "1e-05", "1e-05 added to the root"},  {1e-6, "1e-06", "1e-06 added to the root"},
        {1e-12, "1e-12", "1e-12 added to the root"}, {1e-8, "1e-08", "1e-08 added to the root"},
        {1e-7, "1e-07", "1e-07 added to the root"},  {1e-4, "0.0001", "0.0001 added to the root"},
        {1e-3, "0.001", "0.001 added to the root"},  {-1, "0", NULL}};
    const double right = search->config->norm_eps;
    char text[LS_EVIDENCE];
    ls_choice choice;
    ls_choice_begin(&choice, search, LS_CAUSE_NORM_EPSILON);
    for (size_t k = 0; k < 2 * sizeof list / sizeof *list; k++) {
        const size_t i = k / 2;
        const bool outside = k % 2;
        const ls_variant variant = {.norm_eps = list[i].value, .eps_outside = outside};
        const bool same = fabs(list[i].value - right) < 1e-3 * right;
        if ((same && !outside) || (outside && !list[i].added)) continue;
        if (same)
            snprintf(text, sizeof text, "epsilon added to the root, not inside it");
        else if (outside)
            snprintf(text, sizeof text, "epsilon %s, not %g inside it", list[i].added, right);
        else
            snprintf(text, sizeof text, "epsilon %s, not %g", list[i].name, right);
        ls_choice_next(&choice);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_NORM_EPSILON, LS_KIND(NORM), &variant, text));
        ls_choice_note(&choice, 1, outside ? list[i].added : list[i].name);
    }
exit:
    ls_choice_end(&choice);
    return status;
}

static ls_status try_norm(ls_search *search)
{
    ls_status status = LS_OK;
    if (!ls_search_can_concern(search, LS_KIND(NORM))) goto exit;
    LS_TRY(try_epsilons(search));
    char text[LS_EVIDENCE];
    const ls_variant unbiased = {.unbiased = true};
    snprintf(text, sizeof text, "the variance is divided by %zu, not %zu",
             search->config->d_model - 1, search->config->d_model);
    LS_TRY(
        ls_search_try_variant(search, LS_CAUSE_VARIANCE_UNBIASED, LS_KIND(NORM), &unbiased, text));
exit:
    return status;
}

/* ---- the pooler ---- */

static ls_status try_pooled_token(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t S = search->graph->S;
    if (!ls_search_concerns(search, LS_KIND(POOLED))) goto exit;
    for (size_t s = 1; s <= S; s++) { /* S: the last one that is no padding */
        const ls_variant variant = {.pooled_token = s % S, .pooled_last = s == S};
        if (s == S)
            snprintf(text, sizeof text,
                     "the first token of a sequence is expected, the last one "
                     "that is no padding was read");
        else
            snprintf(text, sizeof text,
                     "the first token of a sequence is expected, token %zu was read", s);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POOLING, LS_KIND(POOLED), &variant, text));
    }
exit:
    return status;
}

/* ---- positions ---- */

static const ls_form turns[] = {
    LS_FORM(POSITIONS, LS_KIND(LINEAR_TURNED),
            "features 2i and 2i + 1 of a head are turned as a pair, not i and i + half",
            .adjacent_pairs = true),
    LS_FORM(POSITIONS, LS_KIND(LINEAR_TURNED), "queries and keys are not turned by position",
            .unturned = true),
    LS_FORM(POSITIONS, LS_KIND(LINEAR_TURNED), "queries and keys are turned the other way",
            .turned_back = true)};

static ls_status try_positions(ls_search *search)
{
    ls_status status = LS_OK;
    const bool rotary = search->config->position == LS_ROTARY;
    const ls_kind_set kinds = rotary ? LS_KIND(LINEAR_TURNED) : LS_KIND(EMBEDDING);
    const size_t S = search->graph->S;
    char text[LS_EVIDENCE];
    if (!ls_search_can_concern(search, kinds)) goto exit;
    for (size_t T = 2; T <= 16 && T <= S; T++) {
        const ls_variant variant = {.position_restart = (S + T - 1) / T};
        if (variant.position_restart < 2 || (T > 2 && (S + T - 1) / T == (S + T - 2) / (T - 1)))
            continue;
        snprintf(text, sizeof text,
                 "positions begin again at 0 after every %zu tokens, as in %zu "
                 "shards",
                 variant.position_restart, T);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
    }
    for (size_t T = 2; T <= 16 && T < S; T++) {
        const ls_variant variant = {.position_shares = T};
        if (S % T == 0) continue;
        snprintf(text, sizeof text,
                 "positions begin again at 0 in each of %zu shares of %zu tokens", T, S);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
    }
    for (int wraps = 0; wraps < (rotary ? 1 : 2); wraps++)
        for (size_t by = 1; by <= 2; by++) {
            const ls_variant variant = {.position_offset = by, .position_wraps = wraps};
            snprintf(text, sizeof text, "positions begin at %zu%s", by,
                     wraps ? ", and after the table's last row the first follows" : "");
            LS_TRY(ls_search_try_variant(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
        }
    if (!rotary) {
        const ls_variant before = {.position_offset = search->config->seq - 1,
                                   .position_wraps = true};
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POSITIONS, kinds, &before,
                                     "positions begin at the table's last row, the first follows"));
        goto exit;
    }
    LS_TRY_FORMS(search, turns);
exit:
    return status;
}

ls_status ls_cause_formulas(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    LS_TRY(try_activation(search));
    LS_TRY(try_norm(search));
    LS_TRY(try_pooled_token(search));
    LS_TRY(try_positions(search));
exit:
    return status;
}
