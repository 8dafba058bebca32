/* cause_uses.c - a parameter's gradient gone wrong as a sum over the batch: from a run of the
 * sequences or tokens only, from one use of a tied parameter, scaled, or as a mean of means. */
#include <math.h>
#include <stdio.h>

#include "lockstep/partition/share.h"
#include "base/append.h"
#include "causes/families.h"

enum { USES = 2 };

typedef struct uses {
    ls_parts parts;
    int count;
    int reader[USES];
    size_t each; /* parts of each use */
} uses;

/* Parts: of each reader's gradient, blocks of sequences (bounds) or of tokens of each. */
static void take_uses(uses *u, const ls_search *search, const size_t *bounds, size_t n, bool tokens)
{
    const ls_graph *graph = search->graph;
    u->parts.count = 0, u->count = 0, u->each = n;
    for (size_t r = 0; r < graph->count && u->count < USES; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (ls_graph_param_slot(reader, search->node->params[0]) < 0 ||
            (search->node->of >= 0 && search->node->of != (int)r))
            continue;
        const int gradient = ls_graph_gradient(graph, (int)r);
        const size_t sequence = ls_graph_elements(graph, gradient) / graph->B;
        if (tokens && graph->nodes[gradient].n_dims != 3) { /* has no tokens */
            u->parts.count = 0;
            return;
        }
        for (size_t i = 0; i < n; i++)
            ls_parts_add(&u->parts, search, false, gradient,
                         tokens ? sequence / graph->S : sequence, tokens ? graph->S : graph->B,
                         bounds[i], bounds[i + 1], u->count);
        u->reader[u->count++] = (int)r;
    }
}

static bool is_plain(double k)
{
    return (k >= 0 && k == rint(k) && k <= 4096) || (k > 0 && fabs(1 / k - rint(1 / k)) < 1e-9);
}

/* What a gradient of a part of the batch is called. */
static ls_cause not_reduced(const ls_search *search)
{
    return search->config->kind == LS_MODEL_NET ? LS_CAUSE_WEIGHT_GRADIENT : LS_CAUSE_NOT_REDUCED;
}

/* One factor per use. */
static ls_status explain_uses(uses *u, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64], a[16], b[16];
    double k[USES] = {1, 1};
    for (int use = 0; use < u->count; use++) {
        bool same;
        k[use] = ls_parts_common(&u->parts, (size_t)use * u->each, u->each, &same);
        if (!same) goto exit;
        if (isnan(k[use])) k[use] = 1;
        if (!is_plain(k[use])) goto exit;
        ls_parts_set(&u->parts, (size_t)use * u->each, u->each, k[use]);
    }
    if (u->count == 2 && k[0] != k[1]) {
        if (k[0] * k[1] == 0 && k[0] + k[1] == 1)
            snprintf(
                text, sizeof text,
                "candidate is the gradient from use as %s alone, that from use as %s is missing",
                k[0] == 1 ? "input" : "head", k[0] == 1 ? "head" : "input");
        else
            snprintf(text, sizeof text,
                     "candidate = %s x gradient from use as input + %s x gradient from use as head",
                     ls_factor_text(k[0], a), ls_factor_text(k[1], b));
        LS_TRY(ls_parts_propose(&u->parts, search, LS_CAUSE_TIED_ONE_SIDE, text));
    } else if (k[0] > 0) {
        ls_search_size(search, (size_t)rint(k[0] >= 1 ? k[0] : 1 / k[0]), size);
        snprintf(text, sizeof text, "candidate = %s x right%s", ls_factor_text(k[0], a), size);
        const ls_cause cause = ls_search_factor(search, k[0]);
        if (cause != LS_CAUSE_FACTOR) /* else ls_cause_factors says more */
            LS_TRY(ls_parts_propose(&u->parts, search, cause, text));
    }
exit:
    return status;
}

/* Where parts that can be seen are 1 in one run and 0 next to it: the run, as wide as it can be. */
static bool run_of(const uses *u, int use, size_t *ret_from, size_t *ret_to)
{
    size_t from = u->each, to = 0;
    for (size_t i = 0; i < u->each; i++) {
        const ls_part *part = &u->parts.part[(size_t)use * u->each + i];
        if (!part->known || part->factor == 0) continue;
        if (part->factor != 1) return false;
        if (from == u->each) from = i;
        to = i + 1;
    }
    for (size_t i = from; i < to; i++) {
        const ls_part *part = &u->parts.part[(size_t)use * u->each + i];
        if (part->known && part->factor == 0) return false;
    }
    *ret_from = from, *ret_to = to;
    return from < to;
}

/* A run of sequences only; in one use of a tied parameter or in all. */
static ls_status explain_run(uses *u, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    ls_cause_cut cuts[LS_CUTS];
    size_t from = 0, to = 0;
    bool partial[USES] = {false};
    int parts = 0;
    for (int use = 0; use < u->count; use++) {
        bool same;
        const double all = ls_parts_common(&u->parts, (size_t)use * u->each, u->each, &same);
        if (same && !(all == 0)) continue;
        if (!run_of(u, use, &from, &to)) goto exit;
        partial[use] = true, parts++;
    }
    if (parts == 0) goto exit;
    const size_t n_cuts = ls_search_cuts(search, cuts);
    const char *name = "";
    size_t number = 0, of = 0;
    for (size_t c = 0; c < n_cuts && !*name; c++)
        for (size_t m = 0; m < cuts[c].count && !*name; m++)
            if (cuts[c].bounds[m] == from && cuts[c].bounds[m + 1] == to)
                name = cuts[c].name, number = m, of = cuts[c].count;
    for (int use = 0; use < u->count; use++)
        for (size_t i = 0; i < u->each; i++)
            u->parts.part[(size_t)use * u->each + i].factor =
                !partial[use] || (i >= from && i < to) ? 1 : 0;
    const size_t length = ls_append(
        text, sizeof text, 0, "candidate%s is of %s %zu to %zu of %zu alone",
        parts < u->count ? partial[0] ? "'s part from the input" : "'s part from the head" : "",
        ls_search_elements(search), from, to - 1, u->each);
    if (*name) ls_append(text, sizeof text, length, " (%s %zu of %zu)", name, number, of);
    LS_TRY(ls_parts_propose(&u->parts, search,
                            parts < u->count ? LS_CAUSE_TIED_ONE_SIDE : not_reduced(search), text));
exit:
    return status;
}

/* All sequences by the factor of a loss that is divided by something else. */
static ls_status explain_divisor(uses *u, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    double factor;
    for (int i = 0; ls_other_count(search, i, &factor, text); i++) {
        bool near = factor != 1;
        for (size_t p = 0; p < u->parts.count && near; p++)
            near =
                !u->parts.part[p].known || fabs(u->parts.part[p].factor - factor) <= 0.01 * factor;
        if (!near) continue;
        ls_parts_set(&u->parts, 0, u->parts.count, factor);
        LS_TRY(ls_parts_propose(&u->parts, search, LS_CAUSE_TARGET_COUNT, text));
    }
exit:
    return status;
}

/* Any small whole factors, sequence by sequence: some left out, some counted several times. Where
 * a rank has nothing at all and others have something, what they hold together says more. */
static ls_status explain_counts(uses *u, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], number[16];
    bool missing = false, other = false, any = false, uneven = false;
    double first = (double)NAN;
    size_t length = ls_append(text, sizeof text, 0, "%s count", ls_search_elements(search));
    if (u->each < 2) goto exit;
    for (size_t p = 0; p < u->parts.count; p++) {
        const ls_part *part = &u->parts.part[p];
        if (!part->known) continue;
        if (part->factor != rint(part->factor) || part->factor > 16) goto exit;
        if (part->factor == 0) missing = true;
        if (part->factor != 0) any = true;
        if (part->factor != 1) other = true;
        if (isnan(first)) first = part->factor;
        if (part->factor != first) uneven = true;
    }
    if (any && !uneven) goto exit; /* a factor of the whole */
    if (!other || (!any && search->of->as_given && search->of->as_given->replicas_differ))
        goto exit;
    for (int use = 0; use < u->count; use++) {
        for (size_t i = 0; i < u->each && length < sizeof text - 60; i++)
            length =
                ls_append(text, sizeof text, length, " %s",
                          ls_factor_text(u->parts.part[(size_t)use * u->each + i].factor, number));
        if (u->count == 2)
            length = ls_append(text, sizeof text, length, " times in use as %s%s",
                               use == 0 ? "input" : "head", use == 0 ? "," : "");
    }
    if (u->count == 1) ls_append(text, sizeof text, length, " times");
    LS_TRY(ls_parts_propose(&u->parts, search,
                            missing ? not_reduced(search) : LS_CAUSE_REDUCED_TWICE, text));
exit:
    return status;
}

/* Factors that a mean of means would have, or that doubling at every micro-batch would. */
static ls_status explain_cuts(uses *u, ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    double weights[LS_PARTS];
    ls_cause_cut cuts[LS_CUTS];
    const size_t n_cuts = ls_search_cuts(search, cuts);
    for (size_t c = 0; c < n_cuts; c++)
        for (int kind = 0; kind < 3; kind++) {
            const ls_cause_cut *cut = &cuts[c];
            bool near = true;
            if (kind < 2) ls_weights_of_means(search, cut, kind == 0, weights);
            if (kind < 2 && ls_weights_are_a_factor(weights, u->each)) continue;
            for (size_t m = 0; kind == 2 && m < cut->count; m++)
                for (size_t b = cut->bounds[m]; b < cut->bounds[m + 1]; b++)
                    weights[b] = ldexp(1, (int)(cut->count - 1 - m));
            for (size_t p = 0; p < u->parts.count; p++)
                if (u->parts.part[p].known &&
                    !(fabs(u->parts.part[p].factor - weights[p % u->each]) <=
                      0.02 * (1 + weights[p % u->each])))
                    near = false;
            if (!near) continue;
            for (size_t p = 0; p < u->parts.count; p++)
                u->parts.part[p].factor = weights[p % u->each];
            if (kind < 2)
                snprintf(
                    text, sizeof text,
                    "%s of the means over %zu parts (each a %s), not the mean over all targets",
                    kind == 0 ? "the mean" : "the sum", cut->count, cut->name);
            else
                snprintf(text, sizeof text,
                         "with each of %zu parts (each a %s) what was there before is doubled",
                         cut->count, cut->name);
            LS_TRY(ls_parts_propose(&u->parts, search,
                                    kind < 2 ? LS_CAUSE_MEAN_OF_MEANS : LS_CAUSE_REDUCED_TWICE,
                                    text));
        }
exit:
    return status;
}

/* Tokens of each sequence in T shares, as sequence parallelism cuts them: one share only. */
static ls_status try_token_shares(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_param *param = &search->graph->table->params[search->node->params[0]];
    for (size_t T = 2; T <= 16 && T <= search->graph->S; T++) {
        uses u;
        size_t bounds[17], from, to;
        bool done;
        ls_share_bounds(search->graph->S, T, bounds);
        take_uses(&u, search, bounds, T, true);
        LS_TRY(ls_parts_fit(&u.parts, search, &done));
        if (!done) goto exit;
        ls_parts_round(&u.parts);
        if (!run_of(&u, 0, &from, &to) || to - from == T) continue;
        if (to - from != 1 && to - from != T - 1) continue;
        for (int use = 0; use < u.count; use++)
            for (size_t i = 0; i < T; i++)
                u.parts.part[(size_t)use * T + i].factor = i >= from && i < to ? 1 : 0;
        snprintf(text, sizeof text,
                 "candidate is of tokens %zu to %zu of %zu of every sequence alone, a share of "
                 "sequence parallelism over %zu",
                 bounds[from], bounds[to] - 1, search->graph->S, T);
        LS_TRY(ls_parts_propose(
            &u.parts, search, param->cut < 0 ? LS_CAUSE_REPLICATED_GRADIENT : LS_CAUSE_NOT_REDUCED,
            text));
    }
exit:
    return status;
}

ls_status ls_cause_uses(ls_search *search)
{
    ls_status status = LS_OK;
    uses u, fitted;
    bool done;
    size_t bounds[65];
    const size_t B = search->graph->B, blocks = B < 64 ? B : 64;
    if (search->node->make != LS_MAKE_PARAM_GRADIENT) goto exit;
    ls_share_bounds(B, blocks, bounds);
    take_uses(&u, search, bounds, blocks, false);
    LS_TRY(ls_parts_fit(&u.parts, search, &done));
    if (!done) goto exit;
    fitted = u;
    LS_TRY(explain_divisor(&u, search));
    u = fitted;
    if (blocks == B) LS_TRY(explain_cuts(&u, search));
    u = fitted;
    ls_parts_round(&u.parts);
    fitted = u;
    LS_TRY(explain_uses(&u, search));
    u = fitted;
    if (blocks == B) LS_TRY(explain_run(&u, search));
    u = fitted;
    if (blocks == B && search->best.cause == LS_CAUSE_NONE) LS_TRY(explain_counts(&u, search));
    LS_TRY(try_token_shares(search));
exit:
    return status;
}
