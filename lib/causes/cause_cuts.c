/* cause_cuts.c - how a batch may have been cut, and by which numbers a loss is divided then. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "causes/families.h"

/* dp shares of B sequences, each in micro_batches. */
static void add_cut(ls_cause_cut cuts[LS_CUTS], size_t *count, size_t B, size_t dp,
                    size_t micro_batches, const char *name)
{
    if (*count == LS_CUTS || dp * micro_batches < 2 || dp * micro_batches > 64 ||
        dp * micro_batches > B)
        return;
    ls_cause_cut *cut = &cuts[*count];
    cut->count = 0;
    for (size_t d = 0; d < dp; d++) {
        const ls_share share = ls_share_of(B, dp, d);
        for (size_t m = 0; m < micro_batches; m++)
            cut->bounds[cut->count++] =
                share.first + ls_share_of(share.count, micro_batches, m).first;
    }
    cut->bounds[cut->count] = B;
    snprintf(cut->name, sizeof cut->name, "%s", name);
    for (size_t i = 0; i < *count; i++)
        if (cuts[i].count == cut->count &&
            memcmp(cuts[i].bounds, cut->bounds, (cut->count + 1) * sizeof *cut->bounds) == 0)
            return;
    ++*count;
}

static void add_layout(ls_cause_cut cuts[LS_CUTS], size_t *count, size_t B, const ls_layout *l)
{
    const size_t dp = l->dp > 0 ? (size_t)l->dp : 1;
    const size_t parts = l->micro_batches > 0 ? (size_t)l->micro_batches : 1;
    if (parts > 1) add_cut(cuts, count, B, dp, parts, "micro-batch");
    add_cut(cuts, count, B, dp, 1, "data-parallel rank");
}

const char *ls_search_elements(const ls_search *search)
{
    return search->config->kind == LS_MODEL_NET ? "images" : "sequences";
}

size_t ls_search_cuts(const ls_search *search, ls_cause_cut cuts[LS_CUTS])
{
    size_t count = 0;
    const size_t B = search->graph->B;
    const ls_case *of = search->of;
    if (of->whole && of->whole->has_layout) add_layout(cuts, &count, B, &of->whole->layout);
    if (of->golden) add_layout(cuts, &count, B, &of->golden->run.layout);
    const bool net = search->config->kind == LS_MODEL_NET;
    const char *run = net ? "run of images" : "run of sequences";
    for (size_t n = 2; n <= 8 && n <= B; n++) add_cut(cuts, &count, B, n, 1, run);
    add_cut(cuts, &count, B, B, 1, net ? "image" : "sequence");
    return count;
}

/* Targets in sequences from .. to - 1. */
size_t ls_targets_in(const ls_search *search, size_t from, size_t to)
{
    const ls_batch *batch = search->of->operands.batch;
    size_t n = 0;
    if (batch->labels) return to - from; /* every image has one */
    for (size_t t = from * batch->S; batch->targets && t < to * batch->S; t++)
        n += batch->targets[t] != LS_IGNORE;
    return n;
}

void ls_weights_of_means(const ls_search *search, const ls_cause_cut *cut, bool divided,
                         double *weights)
{
    const size_t B = search->graph->B;
    const double all = (double)ls_targets_in(search, 0, B);
    for (size_t m = 0; m < cut->count; m++) {
        const size_t n = ls_targets_in(search, cut->bounds[m], cut->bounds[m + 1]);
        for (size_t b = cut->bounds[m]; b < cut->bounds[m + 1]; b++)
            weights[b] = n == 0 ? 0 : all / ((divided ? (double)cut->count : 1) * (double)n);
    }
}

bool ls_weights_are_a_factor(const double *weights, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (fabs(weights[i] - weights[0]) > 1e-9 * fabs(weights[0])) return false;
    return true;
}

/* Labels of the sequences' order that count. */
size_t ls_order_labels(const ls_batch *batch)
{
    size_t n = 0;
    for (size_t b = 0; batch->order && b < batch->B; b++) n += batch->order[b] != LS_IGNORE;
    return n;
}

/* What a sum of losses may be divided by; order: those of the sequences' order. */
bool ls_other_count_of(const ls_search *search, bool order, int i, double *ret_factor,
                       char text[LS_EVIDENCE])
{
    const ls_batch *batch = search->of->operands.batch;
    const size_t B = search->graph->B, S = search->graph->S;
    const size_t all = order ? ls_order_labels(batch) : ls_targets_in(search, 0, B);
    size_t present = 0;
    for (size_t b = 0; batch->lengths && b < B; b++) present += (size_t)batch->lengths[b];
    const struct {
        size_t count;
        const char *text;
    } counts[] = {{1, "not divided at all"},
                  {B, "divided by the number of sequences"},
                  {B * S, "divided by the number of all tokens"},
                  {present, "divided by the number of tokens that are no padding"},
                  {B * (S - 1), "divided by the number of tokens but each sequence's last"},
                  {S, "divided by the tokens of one sequence"}};
    if (i >= (order ? 2 : (int)(sizeof counts / sizeof *counts)) || all == 0) return false;
    *ret_factor = counts[i].count > 0 ? (double)all / (double)counts[i].count : 1;
    snprintf(text, LS_EVIDENCE, "the sum of the %slosses is %s (%zu), not by that of %s (%zu)",
             order ? "order " : "", counts[i].text, counts[i].count,
             order ? "labels that count" : "targets", all);
    return true;
}

bool ls_other_count(const ls_search *search, int i, double *ret_factor, char text[LS_EVIDENCE])
{
    return ls_other_count_of(search, false, i, ret_factor, text);
}
