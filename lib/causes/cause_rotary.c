/* cause_rotary.c - queries and keys turned by other angles. The angle of each pair is read from the
 * candidate: the product before the turn is computed, the turn between the two is fitted as angle
 * = position x frequency of the pair, and the frequencies are compared with rules: another base,
 * positions divided by a factor, Llama-3's scaling. Where the turned tensors are missing, rules in
 * use are tried. Angles that are rounded to bf16 follow no frequency and are tried. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/append.h"
#include "causes/families.h"

enum { PAIRS = 1024 };
#define TURNED LS_KIND(LINEAR_TURNED)

static ls_status try(ls_search *search, const ls_variant *variant, size_t fitted, const char *text)
{
    return ls_search_try_fitted(search, LS_CAUSE_ROTARY, TURNED, variant, fitted, text);
}

static size_t pairs_of(const ls_search *search)
{
    return ls_config_head_width(search->config) / 2;
}

static double right_frequency(const ls_search *search, size_t i)
{
    return pow(search->config->rope_theta, -(double)i / (double)pairs_of(search));
}

/* ---- the frequencies that the candidate has ---- */

/* The turned product that the node is, or that it goes back through; -1. */
static int turned_of(const ls_search *search)
{
    const ls_graph *graph = search->graph;
    const ls_graph_node *node = search->node;
    if (node->make == LS_MAKE_LINEAR_TURNED) return search->of->node;
    for (int r = 0; r < (int)graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->make != LS_MAKE_LINEAR_TURNED) continue;
        if (node->make == LS_MAKE_GRADIENT && ls_graph_back_slot(reader, node->of) >= 0) return r;
        if (node->make == LS_MAKE_PARAM_GRADIENT &&
            ls_graph_param_slot(reader, node->params[0]) >= 0)
            return r;
    }
    return -1;
}

/* How far pair i at position s is turned, over all sequences and heads, and the weight of that. */
static double angle_at(const ls_search *search, const double *before, const double *after,
                       size_t width, size_t s, size_t i, double *ret_weight)
{
    const size_t S = search->graph->S, half = pairs_of(search);
    double along = 0, across = 0;
    for (size_t b = 0; b < search->graph->B; b++)
        for (size_t h = 0; h < width / (2 * half); h++) {
            const size_t p = (b * S + s) * width + h * 2 * half + i, q = p + half;
            along += before[p] * after[p] + before[q] * after[q];
            across += before[p] * after[q] - before[q] * after[p];
        }
    *ret_weight = hypot(along, across);
    return atan2(across, along);
}

/* From position to position, each angle being known up to whole turns. */
static double frequency_of(const ls_search *search, const double *before, const double *after,
                           size_t width, size_t i)
{
    const double turn = 2 * acos(-1);
    double frequency = 0, along = 0, squares = 0;
    for (size_t s = 1; s < search->graph->S; s++) {
        double weight;
        const double angle = angle_at(search, before, after, width, s, i, &weight);
        const double off = remainder(angle - (double)s * frequency, turn);
        along += weight * (double)s * ((double)s * frequency + off);
        squares += weight * (double)s * (double)s;
        if (squares > 0) frequency = along / squares;
    }
    return frequency;
}

static ls_status read_frequencies(ls_search *search, double *frequencies, bool *ret_done)
{
    ls_status status = LS_OK;
    const int place = turned_of(search);
    ls_change change = {0};
    double *before = NULL;
    bool there = place >= 0 && search->graph->S > 1 && pairs_of(search) <= PAIRS;
    *ret_done = false;
    if (!there) goto exit;
    LS_TRY(ls_search_need_inputs(search, place, NULL, &there));
    if (!there) goto exit;
    if (place != search->of->node) LS_TRY(ls_search_need(search, place, &there));
    const double *after = place == search->of->node ? search->candidate : search->values[place];
    if (!there || !search->of->operands.params[search->graph->nodes[place].params[0]]) goto exit;
    const size_t n = ls_graph_elements(search->graph, place);
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant.unturned = true;
    LS_ROOM(before, n);
    LS_TRY(ls_search_compute(search, place, &change.operands, before, NULL, ret_done));
    const size_t width = n / (search->graph->B * search->graph->S);
    for (size_t i = 0; *ret_done && i < pairs_of(search); i++)
        frequencies[i] = frequency_of(search, before, after, width, i);
exit:
    free(before);
    ls_change_end(&change);
    return status;
}

/* ---- rules ---- */

/* A number as people write it, if one is near. */
static double round_number(double value, double slack)
{
    const double unit = pow(10, floor(log10(value)));
    for (double digits = 1; digits < 1e4; digits *= 10) {
        const double round = rint(value / unit * digits) / digits * unit;
        if (fabs(round - value) <= slack * value) return round;
    }
    return value;
}

static ls_status try_base(ls_search *search, double base, size_t fitted)
{
    char text[LS_EVIDENCE];
    const ls_variant variant = {.rope_theta = base};
    if (fabs(base / search->config->rope_theta - 1) < 1e-9) return LS_OK;
    snprintf(text, sizeof text, "rotary base %.10g, not %.10g", base, search->config->rope_theta);
    return try(search, &variant, fitted, text);
}

static ls_status try_factor(ls_search *search, double factor, size_t fitted)
{
    char text[LS_EVIDENCE];
    double frequencies[PAIRS];
    const ls_variant variant = {.rope_frequencies = frequencies};
    if (fabs(factor - 1) < 1e-9) return LS_OK;
    for (size_t i = 0; i < pairs_of(search); i++)
        frequencies[i] = right_frequency(search, i) / factor;
    snprintf(text, sizeof text, "positions divided by %.6g: linear rotary scaling", factor);
    return try(search, &variant, fitted, text);
}

/* Llama-3's: waves shorter than context / high as they are, longer than context / low divided by
 * the factor, a passage between. */
static ls_status try_llama3(ls_search *search, double factor, double low, double high,
                            double context)
{
    char text[LS_EVIDENCE];
    double frequencies[PAIRS];
    const ls_variant variant = {.rope_frequencies = frequencies};
    bool changed = false;
    for (size_t i = 0; i < pairs_of(search); i++) {
        const double f = right_frequency(search, i), waves = context * f / (2 * acos(-1));
        const double smooth = fmax(0, fmin(1, (waves - low) / (high - low)));
        frequencies[i] = (1 - smooth) * f / factor + smooth * f;
        changed |= smooth < 1;
    }
    if (!changed) return LS_OK;
    snprintf(text, sizeof text,
             "Llama-3 rotary scaling: factor %g, low %g, high %g, original context %g", factor, low,
             high, context);
    return try(search, &variant, 0, text);
}

/* All that is left: the frequencies as they were fitted. */
static ls_status try_fitted(ls_search *search, const double *frequencies)
{
    char text[LS_EVIDENCE] = "angles per position are, pair by pair,";
    const ls_variant variant = {.rope_frequencies = frequencies};
    size_t length = strnlen(text, sizeof text);
    for (size_t i = 0; i < pairs_of(search) && length < 120; i++)
        length = ls_append(text, sizeof text, length, " %.4g",
                           frequencies[i] / right_frequency(search, i));
    ls_append(text, sizeof text, length, "%s times the right ones", length >= 120 ? " ..." : "");
    return try(search, &variant, pairs_of(search), text);
}

static const double bases_in_use[] = {10000, 500000, 1000000, 100000, 5000000};
enum { BASES = sizeof bases_in_use / sizeof *bases_in_use };

/* One in use that is near the fitted one, as near as its format tells; else a round number, else
 * itself. */
static ls_status try_bases(ls_search *search, double fitted)
{
    ls_status status = LS_OK;
    const double slack = fmax(0.02, 20 * ls_search_fit_slack(search));
    for (size_t i = 0; i < BASES; i++)
        if (fabs(fitted / bases_in_use[i] - 1) <= slack)
            LS_TRY(try_base(search, bases_in_use[i], 1));
    LS_TRY(try_base(search, round_number(fitted, slack), 1));
    LS_TRY(try_base(search, fitted, 1));
exit:
    return status;
}

static ls_status try_rules(ls_search *search, const double *frequencies)
{
    ls_status status = LS_OK;
    const size_t half = pairs_of(search);
    const double slack = ls_search_fit_slack(search);
    double least = HUGE_VAL, most = 0, along = 0, squares = 0;
    for (size_t i = 0; i < half; i++) {
        const double ratio = frequencies[i] / right_frequency(search, i);
        const double x = (double)i / (double)half;
        if (!(ratio > 0)) goto exit;
        least = fmin(least, ratio), most = fmax(most, ratio);
        along -= x * log(frequencies[i]), squares += x * x;
    }
    if (least > 1 - slack && most < 1 + slack) goto exit;
    if (most / least < 1 + 4 * slack)
        LS_TRY(try_factor(search, round_number(2 / (least + most), slack), 1));
    if (squares > 0 && along < 100 * squares) LS_TRY(try_bases(search, exp(along / squares)));
    static const double contexts[] = {8192, 4096, 2048, 16384, 32768, 131072};
    for (size_t c = 0; c < sizeof contexts / sizeof *contexts; c++)
        LS_TRY(try_llama3(search, round_number(1 / least, 0.01), 1, 4, contexts[c]));
    LS_TRY(try_fitted(search, frequencies));
exit:
    return status;
}

/* What is in use: where no frequencies can be read. */
static ls_status try_in_use(ls_search *search)
{
    ls_status status = LS_OK;
    static const double factors[] = {2, 4, 8};
    for (size_t i = 0; i < BASES; i++) LS_TRY(try_base(search, bases_in_use[i], 0));
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        LS_TRY(try_factor(search, factors[i], 0));
    LS_TRY(try_llama3(search, 8, 1, 4, 8192));
    LS_TRY(try_llama3(search, 32, 1, 4, 8192));
exit:
    return status;
}

static const ls_form roundings[] = {
    LS_FORM(ROTARY, TURNED, "cosines and sines of the rotary angles are rounded to bf16",
            .rope_rounding = LS_ROPE_TABLES),
    LS_FORM(ROTARY, TURNED, "rotary angles are rounded to bf16", .rope_rounding = LS_ROPE_ANGLES),
    LS_FORM(ROTARY, TURNED, "the inverse frequencies of rotary angles are rounded to bf16",
            .rope_rounding = LS_ROPE_FREQUENCIES)};

ls_status ls_cause_rotary(ls_search *search)
{
    ls_status status = LS_OK;
    double frequencies[PAIRS];
    bool done;
    if (search->config->position != LS_ROTARY || search->fits[LS_CAUSE_POSITIONS]) goto exit;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    if (!ls_search_can_concern(search, TURNED)) goto exit;
    LS_TRY_FORMS(search, roundings);
    LS_TRY(read_frequencies(search, frequencies, &done));
    if (done) LS_TRY(try_rules(search, frequencies));
    if (!search->fits[LS_CAUSE_ROTARY]) LS_TRY(try_in_use(search));
exit:
    return status;
}
