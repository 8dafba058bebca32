/* cause_formula.c - another formula in the place of the right one: activations, epsilons, shifted
 * targets, vocabulary, positions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causes/cause_parts.h"

#define KIND(kind) (1u << LS_MAKE_##kind)

enum { LOSSES = KIND(TOKEN_LOSS) | KIND(MEAN), POSITIONS = KIND(EMBEDDING) | KIND(LINEAR_TURNED) };

ls_status ls_search_try_variant(ls_search *search, ls_cause cause, unsigned kinds,
                                const ls_variant *variant, const char *text)
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

bool ls_search_can_concern(const ls_search *search, unsigned kinds)
{
    return !search->of->own_inputs || ls_search_concerns(search, kinds);
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
    if (!ls_search_can_concern(search, kinds)) goto exit;
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
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_NORM_EPSILON, KIND(NORM), &variant, text));
        ls_choice_note(&choice, 1, outside ? list[i].added : list[i].name);
    }
exit:
    ls_choice_end(&choice);
    return status;
}

static ls_status try_norm(ls_search *search)
{
    ls_status status = LS_OK;
    if (!ls_search_can_concern(search, KIND(NORM))) goto exit;
    LS_TRY(try_epsilons(search));
    char text[LS_EVIDENCE];
    const ls_variant unbiased = {.unbiased = true};
    snprintf(text, sizeof text, "the variance is divided by %zu, not %zu",
             search->config->d_model - 1, search->config->d_model);
    LS_TRY(ls_search_try_variant(search, LS_CAUSE_VARIANCE_UNBIASED, KIND(NORM), &unbiased, text));
exit:
    return status;
}

/* ---- the pooler ---- */

static ls_status try_pooled_token(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t S = search->graph->S;
    if (!ls_search_concerns(search, KIND(POOLED))) goto exit;
    for (size_t s = 1; s <= S; s++) { /* S: the last one that is no padding */
        const ls_variant variant = {.pooled_token = s % S, .pooled_last = s == S};
        if (s == S)
            snprintf(text, sizeof text,
                     "the first token of a sequence is expected, the last one "
                     "that is no padding was read");
        else
            snprintf(text, sizeof text,
                     "the first token of a sequence is expected, token %zu was read", s);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POOLING, KIND(POOLED), &variant, text));
        if (search->fits[LS_CAUSE_POOLING]) goto exit;
    }
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
    if (!ls_search_can_concern(search, LOSSES) || !batch->targets) goto exit;
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

size_t ls_search_paddings(const ls_search *search, size_t words[LS_PADDINGS])
{
    const size_t V = search->config->vocab;
    const size_t own = ls_axis_extent(ls_config_vocab_axis(search->config)) - V;
    size_t n = 0;
    if (own > 0) words[n++] = own;
    for (size_t multiple = 2; multiple <= 1024; multiple++) {
        const bool usual = (multiple & (multiple - 1)) == 0 || multiple % 128 == 0;
        const size_t more = (multiple - V % multiple) % multiple;
        bool new = usual &&more > 0 && n < LS_PADDINGS;
        for (size_t i = 0; i < n; i++) new &= words[i] != more;
        if (new) words[n++] = more;
    }
    return n;
}

static ls_status try_padding(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t V = search->config->vocab;
    size_t tried[LS_PADDINGS];
    if (!ls_search_can_concern(search, LOSSES)) goto exit;
    for (size_t i = 0, n = ls_search_paddings(search, tried); i < n; i++) {
        const ls_variant variant = {.padded_words = tried[i]};
        snprintf(text, sizeof text,
                 "padded words with logits of 0 are in the softmax: %zu of them, a vocabulary of "
                 "%zu, not "
                 "%zu",
                 tried[i], V + tried[i], V);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_PADDED_VOCABULARY, LOSSES, &variant, text));
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
    static const struct {
        ls_variant variant;
        const char *text;
    } turns[] = {{{.adjacent_pairs = true},
                  "features 2i and 2i + 1 of a head are turned as a pair, not i and i + half"},
                 {{.unturned = true}, "queries and keys are not turned by position"},
                 {{.turned_back = true}, "queries and keys are turned the other way"}};
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_POSITIONS, kinds, &turns[i].variant,
                                     turns[i].text));
exit:
    return status;
}

ls_status ls_cause_formulas(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    LS_TRY(try_targets(search));
    LS_TRY(try_padding(search));
    LS_TRY(ls_cause_attention(search));
    LS_TRY(try_activation(search));
    LS_TRY(try_norm(search));
    LS_TRY(try_pooled_token(search));
    LS_TRY(try_positions(search));
    LS_TRY(ls_cause_rotary(search));
    LS_TRY(ls_cause_targets(search));
    LS_TRY(ls_cause_terms(search));
exit:
    return status;
}
