/* cause_formula.c - another formula in the place of the right one: mask and scale of attention,
 * activations, norms, targets, vocabulary, positions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle/cause_parts.h"

#define KIND(kind) (1u << LS_MAKE_##kind)

enum {
    SCORES = KIND(PROBABILITIES) | KIND(HEADS),
    LOSSES = KIND(TOKEN_LOSS) | KIND(MEAN),
    POSITIONS = KIND(EMBEDDING) | KIND(LINEAR_TURNED)
};

/* Tries one variant of operations of these kinds. */
static ls_status try(ls_search *search, ls_cause cause, unsigned kinds, const ls_variant *variant,
                     const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant = *variant;
    LS_TRY(ls_search_try(search, cause, kinds, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

/* Whether a hypothesis about these kinds can matter at all. */
static bool can_concern(const ls_search *search, unsigned kinds)
{
    return !search->of->own_inputs || ls_search_concerns(search, kinds);
}

/* ---- attention ---- */

static ls_status try_mask(ls_search *search)
{
    ls_status status = LS_OK;
    const bool causal = search->config->causal;
    static const struct {
        ls_variant variant;
        int of_causal; /* 1: of a causal model alone, 0: of another, 2: of any */
        const char *text;
    } masks[] = {
        {{.mask = LS_MASK_SHIFTED, .mask_shift = 1}, 1, "token i sees tokens up to i + 1"},
        {{.mask = LS_MASK_SHIFTED, .mask_shift = -1},
         1,
         "token i sees tokens up to i - 1, the first none (zeros)"},
        {{.mask = LS_MASK_SHIFTED, .mask_shift = -1, .mask_even = true},
         1,
         "token i sees tokens up to i - 1, the first all alike"},
        {{.mask = LS_MASK_ABSENT}, 1, "every token sees every token: there is no mask"},
        {{.mask = LS_MASK_REVERSED}, 1, "token i sees tokens from i on: the mask is transposed"},
        {{.mask = LS_MASK_CAUSAL}, 0, "token i sees tokens up to i, though it should see all"},
        {{.mask_padding = true}, 2, "padded tokens are seen"},
        {{.mask = LS_MASK_ABSENT, .mask_padding = true},
         1,
         "there is no mask, neither causal nor of padding"}};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++)
        if (masks[i].of_causal == 2 || (masks[i].of_causal == 1) == causal)
            LS_TRY(try(search, LS_CAUSE_CAUSAL_MASK, SCORES, &masks[i].variant, masks[i].text));
exit:
    return status;
}

static ls_status try_scale(ls_search *search)
{
    ls_status status = LS_OK;
    const double dh = (double)ls_config_head_width(search->config);
    const double D = (double)search->config->d_model;
    const struct {
        double scale;
        const char *text;
    } scales[] = {
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
    char text[LS_EVIDENCE];
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        const ls_variant variant = {.score_scale = scales[i].scale};
        if (fabs(scales[i].scale * sqrt(dh) - 1) < 1e-9) continue;
        snprintf(text, sizeof text, "scores scaled by %.6g = %s, not 1 / sqrt(head width) = %.6g",
                 scales[i].scale, scales[i].text, 1 / sqrt(dh));
        LS_TRY(try(search, LS_CAUSE_SCORE_SCALE, SCORES, &variant, text));
    }
exit:
    return status;
}

/* Any scale, from probabilities: their logarithm is the score, but for the row's constant. */
static ls_status fit_scale(ls_search *search)
{
    ls_status status = LS_OK;
    const size_t S = search->graph->S;
    const double *c = search->candidate, *right = search->of->right;
    double along = 0, squares = 0;
    char text[LS_EVIDENCE];
    for (size_t row = 0; row < search->n; row += S)
        for (size_t j = 1; j < S; j++) {
            if (!(c[row] > 1e-4 && c[row + j] > 1e-4 && right[row] > 1e-4 && right[row + j] > 1e-4))
                continue;
            const double x = log(right[row + j] / right[row]), y = log(c[row + j] / c[row]);
            along += x * y, squares += x * x;
        }
    const double by = squares > 0 ? along / squares : 1;
    if (!(by > 0.01 && by < 100)) goto exit;
    const double right_scale = 1 / sqrt((double)ls_config_head_width(search->config));
    const ls_variant variant = {.score_scale = by * right_scale};
    snprintf(text, sizeof text, "scores scaled by %.6g, not 1 / sqrt(head width) = %.6g",
             by * right_scale, right_scale);
    LS_TRY(try(search, LS_CAUSE_SCORE_SCALE, SCORES, &variant, text));
exit:
    return status;
}

static ls_status try_attention(ls_search *search)
{
    ls_status status = LS_OK;
    if (!can_concern(search, SCORES)) goto exit;
    LS_TRY(try_mask(search));
    LS_TRY(try_scale(search));
    if (search->node->make == LS_MAKE_PROBABILITIES && !search->fits[LS_CAUSE_SCORE_SCALE])
        LS_TRY(fit_scale(search));
    if (search->config->kv_heads < search->config->heads && search->config->kv_heads > 1) {
        const ls_variant variant = {.kv_modulo = true};
        char text[LS_EVIDENCE];
        snprintf(text, sizeof text, "query head h uses key/value head h mod %zu, not h / %zu",
                 search->config->kv_heads, search->config->heads / search->config->kv_heads);
        LS_TRY(try(search, LS_CAUSE_INTERLEAVED, SCORES, &variant, text));
    }
exit:
    return status;
}

/* ---- activations and norms ---- */

static ls_status try_activation(ls_search *search)
{
    ls_status status = LS_OK;
    const unsigned kinds = KIND(ACTIVATION) | KIND(GELU);
    static const char *const names[] = {[LS_ACTIVATION_TANH] = "GELU by tanh",
                                        [LS_ACTIVATION_ERF] = "GELU by erf",
                                        [LS_ACTIVATION_SIGMOID] = "x sigmoid(1.702 x)",
                                        [LS_ACTIVATION_SILU] = "SiLU",
                                        [LS_ACTIVATION_RELU] = "ReLU"};
    static const char *const right[] = {[LS_GELU_TANH] = "GELU by tanh",
                                        [LS_GELU_ERF] = "GELU by erf",
                                        [LS_SWIGLU] = "SiLU times up"};
    char text[LS_EVIDENCE];
    if (!can_concern(search, kinds)) goto exit;
    for (int form = LS_ACTIVATION_TANH; form <= LS_ACTIVATION_RELU; form++) {
        const ls_variant variant = {.activation = (ls_activation_form)form};
        const bool head = ls_search_concerns(search, KIND(GELU));
        if (form == (search->config->activation == LS_SWIGLU     ? LS_ACTIVATION_SILU
                     : search->config->activation == LS_GELU_ERF ? LS_ACTIVATION_ERF
                     : head                                      ? LS_ACTIVATION_AS_IS
                                                                 : LS_ACTIVATION_TANH))
            continue;
        snprintf(text, sizeof text, "candidate is %s, not %s", names[form],
                 head ? "GELU by erf" : right[search->config->activation]);
        LS_TRY(try(search, LS_CAUSE_GELU_VARIANT, kinds, &variant, text));
    }
exit:
    return status;
}

static ls_status try_norm(ls_search *search)
{
    ls_status status = LS_OK;
    static const double list[] = {1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, -1};
    const double right = search->config->norm_eps;
    char text[LS_EVIDENCE];
    if (!can_concern(search, KIND(NORM))) goto exit;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (int outside = 0; outside < 2; outside++) {
            const ls_variant variant = {.norm_eps = list[i], .eps_outside = outside};
            if (fabs(list[i] - right) < 1e-3 * right && !outside) continue;
            snprintf(text, sizeof text, "epsilon %g%s, not %g", fmax(0, list[i]),
                     outside ? " added to the root" : "", right);
            if (search->fits[LS_CAUSE_NORM_EPSILON] && (outside || list[i] < 1e-8)) continue;
            LS_TRY(try(search, LS_CAUSE_NORM_EPSILON, KIND(NORM), &variant, text));
        }
    const ls_variant unbiased = {.unbiased = true};
    snprintf(text, sizeof text, "the variance is divided by %zu, not %zu",
             search->config->d_model - 1, search->config->d_model);
    LS_TRY(try(search, LS_CAUSE_VARIANCE_UNBIASED, KIND(NORM), &unbiased, text));
exit:
    return status;
}

/* ---- loss ---- */

/* How an end without a successor is filled. */
enum { END_IGNORED, END_FIRST, END_LAST, END_NEXT_ROW, ENDS };

static void shift_targets(const ls_batch *batch, int by, int end, int32_t *targets)
{
    const size_t S = batch->S, n = batch->B * S;
    for (size_t t = 0; t < n; t++) {
        const size_t row = t / S * S, s = t % S;
        const long to = (long)s + by;
        if (to >= 0 && to < (long)S)
            targets[t] = batch->targets[row + (size_t)to];
        else if (end == END_FIRST)
            targets[t] = batch->targets[row + (by > 0 ? 0 : S - 1)];
        else if (end == END_LAST)
            targets[t] = batch->targets[t];
        else if (end == END_NEXT_ROW)
            targets[t] = batch->targets[((long)t + by + (long)n) % (long)n];
        else
            targets[t] = LS_IGNORE;
    }
}

static ls_status try_targets_given(ls_search *search, const int32_t *targets, size_t valid,
                                   const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.batch.targets = targets;
    change.variant.valid = valid;
    LS_TRY(ls_search_try(search, LS_CAUSE_TARGET_SHIFT, LOSSES, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

static ls_status try_targets(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_batch *batch = search->of->operands.batch;
    const size_t n = batch->B * batch->S;
    static const char *const ends[] = {", the last having none", ", the last that of the first",
                                       ", the last its own",
                                       ", the last that of the next sequence's first"};
    char text[LS_EVIDENCE];
    int32_t *targets = NULL;
    size_t valid = 0;
    if (!can_concern(search, LOSSES) || !batch->targets) goto exit;
    if (!(targets = malloc(n * sizeof *targets)))
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for other targets");
    for (size_t t = 0; t < n; t++) valid += batch->targets[t] != LS_IGNORE;
    for (int by = -1; by <= 1; by += 2)
        for (int end = 0; end < ENDS; end++)
            for (int counted = 0; counted < 2; counted++) {
                shift_targets(batch, by, end, targets);
                snprintf(text, sizeof text, "the target of token t is that of token t %s 1%s%s",
                         by > 0 ? "+" : "-", by > 0 ? ends[end] : "",
                         counted ? ", divided by the right number of targets" : "");
                LS_TRY(try_targets_given(search, targets, counted ? valid : 0, text));
                if (search->fits[LS_CAUSE_TARGET_SHIFT]) goto exit;
            }
    for (size_t by = 1; by < batch->B; by++) { /* as of another micro-batch */
        for (size_t t = 0; t < n; t++) targets[t] = batch->targets[(t + by * batch->S) % n];
        snprintf(text, sizeof text, "sequence b has the targets of sequence b + %zu (mod %zu)", by,
                 batch->B);
        LS_TRY(try_targets_given(search, targets, 0, text));
        if (search->fits[LS_CAUSE_TARGET_SHIFT]) goto exit;
    }
    for (int all = 0; all < 2; all++) {
        for (size_t t = 0; t < n; t++)
            targets[t] = all || batch->targets[t] != LS_IGNORE ? batch->tokens[t] : LS_IGNORE;
        LS_TRY(try_targets_given(search, targets, 0, "the target of a token is the token itself"));
    }
exit:
    free(targets);
    return status;
}

static ls_status try_padding(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t V = search->config->vocab;
    const size_t own = ls_axis_extent(ls_config_vocab_axis(search->config)) - V;
    size_t tried[32], n = 0;
    if (!can_concern(search, LOSSES)) goto exit;
    if (own > 0) tried[n++] = own;
    for (size_t multiple = 2; multiple <= 1024; multiple++) {
        const bool usual = (multiple & (multiple - 1)) == 0 || multiple % 128 == 0;
        const size_t more = (multiple - V % multiple) % multiple;
        bool new = usual &&more > 0 && n < sizeof tried / sizeof *tried;
        for (size_t i = 0; i < n; i++) new &= tried[i] != more;
        if (new) tried[n++] = more;
    }
    for (size_t i = 0; i < n; i++) {
        const ls_variant variant = {.padded_words = tried[i]};
        snprintf(text, sizeof text,
                 "padded words with logits of 0 are in the softmax: %zu of them, a vocabulary of "
                 "%zu, not "
                 "%zu",
                 tried[i], V + tried[i], V);
        LS_TRY(try(search, LS_CAUSE_PADDED_VOCABULARY, LOSSES, &variant, text));
        if (search->fits[LS_CAUSE_PADDED_VOCABULARY]) break;
    }
exit:
    return status;
}

/* ---- positions ---- */

static ls_status try_positions(ls_search *search)
{
    ls_status status = LS_OK;
    const bool rotary = search->config->position == LS_ROTARY;
    const unsigned kinds = rotary ? KIND(LINEAR_TURNED) : KIND(EMBEDDING);
    const size_t S = search->graph->S;
    char text[LS_EVIDENCE];
    if (!can_concern(search, kinds)) goto exit;
    for (size_t T = 2; T <= 16 && T <= S; T++) {
        const ls_variant variant = {.position_restart = (S + T - 1) / T};
        if (variant.position_restart < 2 || (T > 2 && (S + T - 1) / T == (S + T - 2) / (T - 1)))
            continue;
        snprintf(text, sizeof text,
                 "positions begin again at 0 after every %zu tokens, as in %zu "
                 "shards",
                 variant.position_restart, T);
        LS_TRY(try(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
    }
    for (size_t T = 2; T <= 16 && T < S; T++) {
        const ls_variant variant = {.position_shares = T};
        if (S % T == 0) continue;
        snprintf(text, sizeof text,
                 "positions begin again at 0 in each of %zu shares of %zu tokens", T, S);
        LS_TRY(try(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
    }
    for (size_t by = 1; by <= 2; by++) {
        const ls_variant variant = {.position_offset = by};
        snprintf(text, sizeof text, "positions begin at %zu", by);
        LS_TRY(try(search, LS_CAUSE_POSITIONS, kinds, &variant, text));
    }
    if (!rotary) goto exit;
    static const struct {
        ls_variant variant;
        const char *text;
    } turns[] = {{{.adjacent_pairs = true},
                  "features 2i and 2i + 1 of a head are turned as a pair, not i and i + half"},
                 {{.unturned = true}, "queries and keys are not turned by position"},
                 {{.turned_back = true}, "queries and keys are turned the other way"},
                 {{.rope_theta = 10000}, "rotary base 10000"},
                 {{.rope_theta = 500000}, "rotary base 500000"},
                 {{.rope_theta = 1000000}, "rotary base 1000000"}};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        LS_TRY(try(search, LS_CAUSE_POSITIONS, kinds, &turns[i].variant, turns[i].text));
exit:
    return status;
}

ls_status ls_cause_formulas(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    LS_TRY(try_targets(search));
    LS_TRY(try_padding(search));
    LS_TRY(try_attention(search));
    LS_TRY(try_activation(search));
    LS_TRY(try_norm(search));
    LS_TRY(try_positions(search));
exit:
    return status;
}
