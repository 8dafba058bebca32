/* cause_target_set.c - targets that are lost, or that count though they are ignored: which ones is
 * read from the zeros of the candidate's token losses, or of their gradient by the logits. Where it
 * gives neither, the sets are tried that are usual. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/partition/share.h"
#include "base/allocate.h"
#include "causes/cause_targets.h"

typedef struct target_set {
    int32_t *targets; /* the candidate's */
    size_t lost, added;
    size_t first_lost;
    int32_t label; /* of those that were added */
} target_set;

int ls_search_token_loss(const ls_search *search)
{
    for (int r = 0; r < (int)search->graph->count; r++)
        if (search->graph->nodes[r].make == LS_MAKE_TOKEN_LOSS) return r;
    return -1;
}

static ls_status try_set(ls_search *search, const target_set *set, const char *text)
{
    ls_status status = LS_OK;
    ls_batch batch = *search->of->operands.batch;
    char counted[LS_EVIDENCE];
    batch.targets = set->targets;
    for (int all = 0; all < 2; all++) {
        const ls_variant variant = {.valid = all ? ls_targets_in(search, 0, batch.B) : 0};
        snprintf(counted, sizeof counted, "%s%s", text,
                 all ? ", the divisor being the right number of targets" : "");
        LS_TRY(ls_search_try_batch(search, LS_CAUSE_TARGET_SET, LS_TOKEN_LOSSES, &variant, &batch,
                                   counted));
    }
exit:
    return status;
}

/* ---- what the candidate tells ---- */

/* Of ignored tokens that have a loss: the word that gives these losses best. */
static int32_t label_of_losses(const ls_search *search, const double *losses, const double *logits)
{
    const ls_batch *batch = search->of->operands.batch;
    const size_t V = search->config->vocab;
    double least = HUGE_VAL;
    int32_t best = 0;
    for (size_t word = 0; word < V; word++) {
        double off = 0;
        for (size_t t = 0, seen = 0; t < batch->B * batch->S && seen < 16; t++) {
            const double *z = logits + t * V;
            double sum = 0, largest = -HUGE_VAL;
            if (batch->targets[t] != LS_IGNORE || losses[t] == 0) continue;
            for (size_t j = 0; j < V; j++) largest = fmax(largest, z[j]);
            for (size_t j = 0; j < V; j++) sum += exp(z[j] - largest);
            off += fabs(losses[t] - (log(sum) + largest - z[word]));
            seen++;
        }
        if (off < least) least = off, best = (int32_t)word;
    }
    return best;
}

/* ... that have a gradient: the word whose is negative. */
static int32_t label_of_gradient(const double *row, size_t V)
{
    size_t least = 0;
    for (size_t j = 1; j < V; j++)
        if (row[j] < row[least]) least = j;
    return (int32_t)least;
}

static bool is_zero(const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] != 0) return false;
    return true;
}

/* values: token losses (width 1), or the gradient of logits (width V). */
static void read_set(const ls_search *search, const double *values, size_t width,
                     const double *logits, target_set *set)
{
    const ls_batch *batch = search->of->operands.batch;
    const size_t n = batch->B * batch->S;
    set->lost = set->added = 0;
    for (size_t t = 0; t < n; t++) {
        const bool none = is_zero(values + t * width, width);
        const bool ignored = batch->targets[t] == LS_IGNORE;
        set->targets[t] = batch->targets[t];
        if (none && !ignored) {
            if (set->lost++ == 0) set->first_lost = t;
            set->targets[t] = LS_IGNORE;
        }
        if (none || !ignored) continue;
        if (set->added++ == 0)
            set->label = width > 1 ? label_of_gradient(values + t * width, width)
                                   : label_of_losses(search, values, logits);
        set->targets[t] = set->label;
    }
}

/* ---- which tokens these are ---- */

static bool ends_a_share(size_t S, size_t T, size_t s)
{
    for (size_t k = 0; k < T; k++) {
        const ls_share share = ls_share_of(S, T, k);
        if (share.count > 0 && s == share.first + share.count - 1) return true;
    }
    return false;
}

/* Of T shards the last tokens, of every sequence, whose targets are there. */
static bool are_ends(const ls_batch *batch, const int32_t *targets, size_t T)
{
    for (size_t t = 0; t < batch->B * batch->S; t++) {
        if (batch->targets[t] == LS_IGNORE) continue;
        if ((targets[t] == LS_IGNORE) != ends_a_share(batch->S, T, t % batch->S)) return false;
    }
    return true;
}

/* All whose word is that of the first: the token's own, or the target. */
static bool are_word(const ls_batch *batch, const target_set *set, const int32_t *words)
{
    for (size_t t = 0; t < batch->B * batch->S; t++) {
        if (batch->targets[t] == LS_IGNORE) continue;
        if ((set->targets[t] == LS_IGNORE) != (words[t] == words[set->first_lost])) return false;
    }
    return true;
}

static void name_lost(const ls_search *search, const target_set *set, char text[LS_EVIDENCE])
{
    const ls_batch *batch = search->of->operands.batch;
    const size_t first = set->first_lost;
    for (size_t T = 2; T <= batch->S / 2; T++)
        if (are_ends(batch, set->targets, T)) {
            snprintf(text, LS_EVIDENCE, "the last target of each of %zu token shards is lost", T);
            return;
        }
    if (are_word(batch, set, batch->targets))
        snprintf(text, LS_EVIDENCE, "targets that are word %d are lost, as if it were padding",
                 (int)batch->targets[first]);
    else if (are_word(batch, set, batch->tokens))
        snprintf(text, LS_EVIDENCE, "targets of tokens that are word %d are lost",
                 (int)batch->tokens[first]);
    else
        snprintf(text, LS_EVIDENCE,
                 "%zu targets are lost, the first that of token %zu of sequence "
                 "%zu",
                 set->lost, first % batch->S, first / batch->S);
}

static void name_added(const target_set *set, char text[LS_EVIDENCE])
{
    snprintf(text, LS_EVIDENCE, "%zu tokens without a target count as if it were word %d",
             set->added, (int)set->label);
}

static ls_status try_told(ls_search *search, const target_set *set)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE] = "";
    if (set->lost > 0 && set->added > 0) {
        snprintf(text, sizeof text, "%zu targets are lost, %zu tokens without one count as word %d",
                 set->lost, set->added, (int)set->label);
    } else if (set->lost > 0) {
        name_lost(search, set, text);
    } else if (set->added > 0) {
        name_added(set, text);
    }
    if (*text) LS_TRY(try_set(search, set, text));
exit:
    return status;
}

/* ---- where the candidate tells nothing ---- */

static ls_status try_usual(ls_search *search, target_set *set)
{
    ls_status status = LS_OK;
    const ls_batch *batch = search->of->operands.batch;
    const size_t n = batch->B * batch->S;
    char text[LS_EVIDENCE];
    for (size_t T = 2; T <= 8 && 2 * T <= batch->S; T++) {
        for (size_t t = 0; t < n; t++)
            set->targets[t] =
                ends_a_share(batch->S, T, t % batch->S) ? LS_IGNORE : batch->targets[t];
        snprintf(text, sizeof text, "the last target of each of %zu token shards is lost", T);
        LS_TRY(try_set(search, set, text));
    }
    set->added = 0, set->label = 0;
    for (size_t t = 0; t < n; t++) {
        set->targets[t] = batch->targets[t] == LS_IGNORE ? 0 : batch->targets[t];
        set->added += batch->targets[t] == LS_IGNORE;
    }
    name_added(set, text);
    if (set->added > 0) LS_TRY(try_set(search, set, text));
exit:
    return status;
}

ls_status ls_search_target_set(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    const ls_batch *batch = search->of->operands.batch;
    const int loss = ls_search_token_loss(search);
    target_set set = {0};
    bool there = false, logits = false;
    if (!batch->targets || loss < 0 || search->fits[LS_CAUSE_TARGET_SHIFT]) goto exit;
    LS_ROOM(set.targets, batch->B * batch->S);
    const int z = graph->nodes[loss].inputs[0], dz = ls_graph_gradient(graph, z);
    if (search->of->node == dz) {
        read_set(search, search->candidate, search->config->vocab, NULL, &set);
        LS_TRY(try_told(search, &set));
        goto exit;
    }
    if (search->node->make == LS_MAKE_MEAN || search->of->node == loss) {
        const bool own = search->of->node == loss;
        LS_TRY(ls_search_need(search, z, &logits));
        if (!own) LS_TRY(ls_search_need(search, loss, &there));
        if (logits && (own || there)) {
            read_set(search, own ? search->candidate : search->values[loss], 1, search->values[z],
                     &set);
            LS_TRY(try_told(search, &set));
            if (own) goto exit;
        }
    }
    if (!search->of->own_inputs && (search->n > 1 || search->only_hint))
        LS_TRY(try_usual(search, &set));
exit:
    free(set.targets);
    return status;
}
