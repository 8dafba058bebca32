/* cause_attention.c - attention by another formula: its mask and scale, the term that
 * a gradient lacks, biases of scores, keys of another sequence. Which other keys a query sees:
 * cause_keys.c. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "causes/cause_attention.h"

#define PADDING_SEEN                                                                               \
    LS_FORM(ATTENTION_SET, LS_SCORES, "padded tokens are seen", .mask_padding = true)

static const ls_form causal_masks[] = {
    LS_FORM(CAUSAL_MASK, LS_SCORES, "token i sees tokens up to i + 1", .mask = LS_MASK_SHIFTED,
            .mask_shift = 1),
    LS_FORM(CAUSAL_MASK, LS_SCORES, "token i sees tokens up to i - 1, the first none (zeros)",
            .mask = LS_MASK_SHIFTED, .mask_shift = -1),
    LS_FORM(CAUSAL_MASK, LS_SCORES, "token i sees tokens up to i - 1, the first all alike",
            .mask = LS_MASK_SHIFTED, .mask_shift = -1, .mask_even = true),
    LS_FORM(CAUSAL_MASK, LS_SCORES, "every token sees every token: there is no mask",
            .mask = LS_MASK_ABSENT),
    LS_FORM(CAUSAL_MASK, LS_SCORES, "token i sees tokens from i on: the mask is transposed",
            .mask = LS_MASK_REVERSED),
    PADDING_SEEN,
    LS_FORM(CAUSAL_MASK, LS_SCORES, "there is no mask, neither causal nor of padding",
            .mask = LS_MASK_ABSENT, .mask_padding = true)};

static const ls_form other_masks[] = {
    LS_FORM(CAUSAL_MASK, LS_SCORES, "token i sees tokens up to i, though it should see all",
            .mask = LS_MASK_CAUSAL),
    PADDING_SEEN};

static ls_status try_mask(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->config->causal)
        LS_TRY_FORMS(search, causal_masks);
    else
        LS_TRY_FORMS(search, other_masks);
exit:
    return status;
}

/* ---- scale ---- */

typedef struct known_scale {
    double scale;
    const char *text;
} known_scale;

/* A scale that people write: tried, unless another was fitted. */
static ls_status try_known(ls_search *search, const known_scale *of, double right, double fitted)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_variant variant = {.score_scale = of->scale};
    if (fabs(of->scale / right - 1) < 1e-9) goto exit;
    if (fitted > 0 && fabs(fitted / of->scale - 1) > ls_search_fit_slack(search)) goto exit;
    snprintf(text, sizeof text, "scores scaled by %.6g = %s, not 1 / sqrt(head width) = %.6g",
             of->scale, of->text, right);
    LS_TRY(ls_search_try_variant(search, LS_CAUSE_SCORE_SCALE, LS_SCORES, &variant, text));
exit:
    return status;
}

/* From probabilities: their logarithm is the score, but for the row's constant. 0: they do not
 * tell. */
static double scale_of_probabilities(const ls_search *search, double right)
{
    const size_t S = search->graph->S;
    const double *c = search->candidate, *r = search->of->right;
    double along = 0, squares = 0;
    for (size_t row = 0; row < search->n; row += S)
        for (size_t j = 1; j < S; j++) {
            const double least = fmin(fmin(c[row], c[row + j]), fmin(r[row], r[row + j]));
            if (!(least > 1e-4)) continue;
            const double x = log(r[row + j] / r[row]), y = log(c[row + j] / c[row]);
            along += x * y, squares += x * x;
        }
    const double by = squares > 0 ? along / squares : 0;
    return by > 0.01 && by < 100 ? by * right : 0;
}

static ls_status fit_scale(ls_search *search, double right, double *ret_scale)
{
    ls_status status = LS_OK;
    bool done;
    *ret_scale = 0;
    if (search->n == 1 || search->fits[LS_CAUSE_CAUSAL_MASK]) goto exit;
    if (!ls_search_concerns(search, LS_SCORES)) goto exit;
    if (search->node->make == LS_MAKE_PROBABILITIES) {
        *ret_scale = scale_of_probabilities(search, right);
        goto exit;
    }
    LS_TRY(ls_search_fit(search, offsetof(ls_variant, score_scale), right, ret_scale, &done));
    if (!done) *ret_scale = 0;
exit:
    return status;
}

static ls_status try_scale(ls_search *search)
{
    ls_status status = LS_OK;
    const double dh = (double)ls_config_head_width(search->config), right = 1 / sqrt(dh);
    const double D = (double)search->config->d_model;
    const known_scale scales[] = {
        {1 / dh, "1 / head width"},
        {1, "1, no scale at all"},
        {1 / sqrt(D), "1 / sqrt(model width)"},
        {1 / D, "1 / model width"},
        {sqrt(dh), "sqrt(head width), multiplied"},
        {dh, "head width, multiplied"},
        {pow(dh, -0.25), "1 / head width^(1/4), applied to one side"},
        {1 / sqrt(2 * dh), "1 / sqrt(2 head width)"},
        {1 / sqrt(D / (double)search->config->kv_heads), "1 / sqrt(model width / key/value heads)"},
        {1 / (sqrt(dh) * (search->node->layer + 1)), "1 / (sqrt(head width) (layer + 1))"}};
    double fitted;
    LS_TRY(fit_scale(search, right, &fitted));
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        LS_TRY(try_known(search, &scales[i], right, fitted));
    if (fitted == 0 || search->fits[LS_CAUSE_SCORE_SCALE]) goto exit;
    if (fabs(fitted / right - 1) <= ls_search_fit_slack(search)) goto exit;
    const ls_variant variant = {.score_scale = fitted};
    char text[LS_EVIDENCE];
    snprintf(text, sizeof text,
             "scores scaled by %.4g, not 1 / sqrt(head width) = %.6g: %.4g times the right ones",
             fitted, right, fitted / right);
    LS_TRY(ls_search_try_fitted(search, LS_CAUSE_SCORE_SCALE, LS_SCORES, &variant, 1, text));
exit:
    return status;
}

/* ---- other scores ---- */

/* Sequences of the candidate that are wrong; *ret_count of them, the first two in `which`. */
static void wrong_sequences(const ls_search *search, size_t *ret_count, size_t which[2])
{
    const size_t B = search->graph->B, each = search->n / B;
    *ret_count = 0;
    for (size_t b = 0; b < B; b++)
        for (size_t i = b * each; i < (b + 1) * each; i++) {
            if (!ls_search_is_wrong(search, i)) continue;
            if (*ret_count < 2) which[*ret_count] = b;
            ++*ret_count;
            break;
        }
}

static void exchange(double *values, size_t each, const size_t which[2])
{
    for (size_t i = 0; i < each; i++) {
        const double kept = values[which[0] * each + i];
        values[which[0] * each + i] = values[which[1] * each + i];
        values[which[1] * each + i] = kept;
    }
}

/* Two sequences have each other's queries, keys, values, or keys and values. */
static ls_status try_exchanged(ls_search *search)
{
    ls_status status = LS_OK;
    static const struct {
        unsigned inputs;
        const char *name;
    } sets[] = {{2, "keys"}, {4, "values"}, {1, "queries"}, {6, "keys and values"}};
    const int heads = ls_search_heads(search);
    const size_t B = search->graph->B;
    size_t count, which[2];
    char text[LS_EVIDENCE];
    ls_change change = {0};
    if (heads < 0 || B < 2) goto exit;
    const ls_graph_node *node = &search->graph->nodes[heads];
    wrong_sequences(search, &count, which);
    if (count != 2) goto exit;
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        LS_TRY(ls_change_begin(&change, &search->of->operands));
        for (int i = 0; i < 3; i++) {
            double *values;
            const int input = node->inputs[i];
            if (!(sets[s].inputs >> i & 1) || !change.values[input]) continue;
            LS_TRY(ls_change_value(&change, input, &values));
            exchange(values, ls_graph_elements(search->graph, input) / B, which);
        }
        snprintf(text, sizeof text, "sequences %zu and %zu have each other's %s", which[0],
                 which[1], sets[s].name);
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_OTHER_SEQUENCE, &change.operands, text));
        ls_change_end(&change);
    }
exit:
    ls_change_end(&change);
    return status;
}

static ls_status try_scores(ls_search *search)
{
    ls_status status = LS_OK;
    static const ls_form forms[] = {
        LS_FORM(POSITION_BIAS, LS_SCORES,
                "scores less 2^(-8 (h + 1) / heads) (i - j), as of ALiBi, which this model does "
                "not use",
                .alibi = true),
        LS_FORM(LOST_TERM, LS_HEADS_BACK,
                "the softmax's gradient is P dP, without - P (sum of P dP over the row)",
                .lost_term = LS_TERM_SOFTMAX_MEAN)};
    char text[LS_EVIDENCE];
    LS_TRY_FORMS(search, forms);
    if (search->config->kv_heads < search->config->heads && search->config->kv_heads > 1) {
        const ls_variant modulo = {.kv_modulo = true};
        snprintf(text, sizeof text, "query head h uses key/value head h mod %zu, not h / %zu",
                 search->config->kv_heads, search->config->heads / search->config->kv_heads);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_INTERLEAVED, LS_SCORES, &modulo, text));
    }
exit:
    return status;
}

ls_status ls_cause_attention(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    if (!ls_search_can_concern(search, LS_SCORES)) goto exit;
    LS_TRY(try_mask(search));
    LS_TRY(try_scale(search));
    LS_TRY(ls_search_keys(search));
    LS_TRY(try_scores(search));
    LS_TRY(try_exchanged(search));
exit:
    return status;
}
