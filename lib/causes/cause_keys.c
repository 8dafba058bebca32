/* cause_keys.c - attention that sees another set of keys: a sliding window, blocks of tokens, or
 * any other run for each query, read from the zeros of the candidate's probabilities. Where these
 * are missing, windows and blocks are tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "causes/cause_attention.h"

int ls_search_heads(const ls_search *search)
{
    const ls_graph *graph = search->graph;
    for (int r = 0; r < (int)graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->make != LS_MAKE_HEADS) continue;
        if (r == search->of->node || reader->through == search->of->node) return r;
        if (search->node->make == LS_MAKE_GRADIENT &&
            ls_graph_back_slot(reader, search->node->of) >= 0)
            return r;
    }
    return -1;
}

/* Keys first .. end - 1. */
typedef struct range {
    size_t first, end;
} range;

static range right_range(const ls_search *search, size_t b, size_t i)
{
    const ls_batch *batch = search->of->operands.batch;
    range r = {0, search->config->causal ? i + 1 : search->graph->S};
    if (batch->lengths && (size_t)batch->lengths[b] < r.end) r.end = (size_t)batch->lengths[b];
    return r;
}

/* The run of a row that is not 0; false: there are gaps in it. */
static bool run_of(const double *row, size_t S, range *ret_run)
{
    range r = {0, S};
    while (r.first < S && row[r.first] == 0) r.first++;
    while (r.end > r.first && row[r.end - 1] == 0) r.end--;
    for (size_t j = r.first; j < r.end; j++)
        if (!(row[j] > 0)) return false;
    if (r.first == S) r.first = r.end = 0;
    *ret_run = r;
    return true;
}

/* Of every token, the keys that all heads see. false: heads differ, or there are gaps. */
static bool read_ranges(const ls_search *search, const double *P, range *ranges)
{
    const size_t S = search->graph->S, B = search->graph->B, H = search->config->heads;
    for (size_t b = 0; b < B; b++)
        for (size_t i = 0; i < S; i++)
            for (size_t h = 0; h < H; h++) {
                range r;
                if (!run_of(P + ((b * H + h) * S + i) * S, S, &r)) return false;
                if (h > 0 && memcmp(&r, &ranges[b * S + i], sizeof r) != 0) return false;
                ranges[b * S + i] = r;
            }
    return true;
}

typedef struct key_set {
    size_t different, first; /* tokens whose keys are other ones, the first of them */
    size_t window, chunk;    /* that say it all; 0: they do not */
} key_set;

static range cut(range r, size_t first, size_t end)
{
    if (r.first < first) r.first = first;
    if (r.end > end) r.end = end;
    if (r.first >= r.end) r.first = r.end = 0;
    return r;
}

static bool is_everywhere(const ls_search *search, const range *ranges, size_t window, size_t chunk)
{
    const size_t S = search->graph->S;
    for (size_t t = 0; t < search->graph->B * S; t++) {
        const size_t i = t % S,
                     first = window ? (i + 1 > window ? i + 1 - window : 0) : i / chunk * chunk;
        const range is =
            cut(right_range(search, t / S, i), first, window ? i + window : first + chunk);
        if (memcmp(&is, &ranges[t], sizeof is) != 0) return false;
    }
    return true;
}

static key_set classify(const ls_search *search, const range *ranges)
{
    const size_t S = search->graph->S;
    key_set set = {0};
    for (size_t t = search->graph->B * S; t-- > 0;) {
        const range r = right_range(search, t / S, t % S);
        if (memcmp(&r, &ranges[t], sizeof r) != 0) set.different++, set.first = t;
    }
    for (size_t n = 1; n < S && set.different > 0; n++) {
        if (!set.window && is_everywhere(search, ranges, n, 0)) set.window = n;
        if (!set.chunk && n > 1 && is_everywhere(search, ranges, 0, n)) set.chunk = n;
    }
    return set;
}

static ls_status try_window(ls_search *search, size_t window, size_t chunk)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_variant variant = {.window = window, .chunk = chunk};
    if (window)
        snprintf(text, sizeof text,
                 "a query sees only keys fewer than %zu tokens away: a sliding "
                 "window of %zu",
                 window, window);
    else
        snprintf(text, sizeof text, "a query sees only keys of its own block of %zu tokens", chunk);
    LS_TRY(ls_search_try_variant(search, LS_CAUSE_ATTENTION_SET, LS_SCORES, &variant, text));
exit:
    return status;
}

static ls_status try_ranges(ls_search *search, const range *ranges)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const size_t S = search->graph->S;
    const key_set set = classify(search, ranges);
    ls_change change = {0};
    if (set.different == 0) goto exit;
    if (set.window || set.chunk) {
        LS_TRY(try_window(search, set.window, set.window ? 0 : set.chunk));
        goto exit;
    }
    const range right = right_range(search, set.first / S, set.first % S);
    const range is = ranges[set.first];
    snprintf(
        text, sizeof text,
        "%zu of %zu queries see other keys: token %zu of sequence %zu those from %zu to before "
        "%zu, not from %zu to before %zu",
        set.different, search->graph->B * S, set.first % S, set.first / S, is.first, is.end,
        right.first, right.end);
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    change.variant.ranges = &ranges[0].first;
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_ATTENTION_SET, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

/* Blocks first, those that the sequence has without a rest: the layouts' own mistakes. */
static ls_status try_all(ls_search *search)
{
    ls_status status = LS_OK;
    const size_t S = search->graph->S;
    const bool here = ls_search_concerns(search, LS_SCORES);
    const double least = search->work / 2; /* what is left for other hypotheses */
    for (size_t n = 1; n < S && n <= 256 && search->work > least; n++) {
        const bool usual = (n & (n - 1)) == 0 || S % n == 0;
        if (search->fits[LS_CAUSE_ATTENTION_SET] || (!here && (!usual || n == 1))) continue;
        LS_TRY(try_window(search, n, 0));
        if (n > 1 && S > n) LS_TRY(try_window(search, 0, n));
    }
exit:
    return status;
}

ls_status ls_search_keys(ls_search *search)
{
    ls_status status = LS_OK;
    const int heads = ls_search_heads(search);
    range *ranges = NULL;
    bool there = false;
    if (search->fits[LS_CAUSE_CAUSAL_MASK] || search->fits[LS_CAUSE_SCORE_SCALE] ||
        search->fits[LS_CAUSE_ATTENTION_SET])
        goto exit;
    if (heads >= 0) {
        const int P = search->graph->nodes[heads].through;
        const bool own = P == search->of->node;
        const double *values = own ? search->candidate : NULL;
        LS_NEW(ranges, search->graph->B * search->graph->S);
        if (!own) LS_TRY(ls_search_need(search, P, &there));
        if (!own && there) values = search->values[P];
        if (values && read_ranges(search, values, ranges)) LS_TRY(try_ranges(search, ranges));
        if (own || search->fits[LS_CAUSE_ATTENTION_SET]) goto exit;
    }
    LS_TRY(try_all(search));
exit:
    free(ranges);
    return status;
}
