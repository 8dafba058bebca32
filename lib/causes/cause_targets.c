/* cause_targets.c - the loss with counts or maxima of a shard's own. Which targets count:
 * cause_target_set.c; by what it is divided: cause_batch.c. */
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/partition/share.h"
#include "base/allocate.h"
#include "causes/cause_targets.h"

/* ---- shifted targets, padded words ---- */

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
    const ls_variant variant = {.valid = valid};
    ls_batch batch = *search->of->operands.batch;
    batch.targets = targets;
    return ls_search_try_batch(search, LS_CAUSE_TARGET_SHIFT, LS_TOKEN_LOSSES, &variant, &batch,
                               text);
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
    if (!ls_search_can_concern(search, LS_TOKEN_LOSSES) || !batch->targets) goto exit;
    LS_ROOM(targets, n);
    const size_t valid = ls_targets_in(search, 0, batch->B);
    for (int by = -1; by <= 1; by += 2)
        for (int end = 0; end < ENDS; end++)
            for (int counted = 0; counted < 2; counted++) {
                shift_targets(batch, by, end, targets);
                snprintf(text, sizeof text, "the target of token t is that of token t %s 1%s%s",
                         by > 0 ? "+" : "-", by > 0 ? ends[end] : "",
                         counted ? ", divided by the right number of targets" : "");
                LS_TRY(try_targets_given(search, targets, counted ? valid : 0, text));
            }
    for (size_t by = 1; by < batch->B; by++) { /* as of another micro-batch */
        for (size_t t = 0; t < n; t++) targets[t] = batch->targets[(t + by * batch->S) % n];
        snprintf(text, sizeof text, "sequence b has the targets of sequence b + %zu (mod %zu)", by,
                 batch->B);
        LS_TRY(try_targets_given(search, targets, 0, text));
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
    if (!ls_search_can_concern(search, LS_TOKEN_LOSSES)) goto exit;
    for (size_t i = 0, n = ls_search_paddings(search, tried); i < n; i++) {
        const ls_variant variant = {.padded_words = tried[i]};
        snprintf(text, sizeof text,
                 "padded words with logits of 0 are in the softmax: %zu of them, a vocabulary of "
                 "%zu, not "
                 "%zu",
                 tried[i], V + tried[i], V);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_PADDED_VOCABULARY, LS_TOKEN_LOSSES, &variant,
                                     text));
    }
exit:
    return status;
}

ls_status ls_cause_target_shift(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    LS_TRY(try_targets(search));
    LS_TRY(try_padding(search));
exit:
    return status;
}

/* ---- counts of a share of the tokens ---- */

static size_t targets_of_share(const ls_batch *batch, ls_share share)
{
    size_t n = 0;
    for (size_t t = 0; t < batch->B * batch->S; t++)
        if (t % batch->S - share.first < share.count && t % batch->S >= share.first)
            n += batch->targets[t] != LS_IGNORE;
    return n;
}

static ls_status try_token_shards(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_batch *batch = search->of->operands.batch;
    const size_t S = batch->S, n = batch->B * S;
    const double all = (double)targets_of_share(batch, (ls_share){0, S});
    char text[LS_EVIDENCE];
    double *weights = NULL;
    LS_ROOM(weights, n);
    for (size_t T = 2; T <= 8 && T <= S; T++)
        for (int divided = 1; divided >= 0; divided--) {
            for (size_t k = 0; k < T; k++) {
                const ls_share share = ls_share_of(S, T, k);
                const double own = (double)targets_of_share(batch, share);
                for (size_t t = 0; t < n; t++)
                    if (t % S >= share.first && t % S < share.first + share.count)
                        weights[t] = own > 0 ? all / own / (divided ? (double)T : 1) : 0;
            }
            const ls_variant variant = {.token_weights = weights};
            snprintf(text, sizeof text,
                     "each of %zu shares of a sequence's tokens divides by its "
                     "own number of targets%s",
                     T, divided ? ", and the means are averaged" : "");
            LS_TRY(ls_search_try_variant(search, LS_CAUSE_MEAN_OF_MEANS, LS_TOKEN_LOSSES, &variant,
                                         text));
        }
exit:
    free(weights);
    return status;
}

/* ---- shards of the vocabulary ---- */

static ls_status try_local_maximum(ls_search *search)
{
    ls_status status = LS_OK;
    const size_t extent = ls_axis_extent(ls_config_vocab_axis(search->config));
    char text[LS_EVIDENCE];
    for (size_t T = 2; T <= 16; T++) {
        const ls_variant variant = {.maximum_shards = T};
        if (extent % T) continue;
        snprintf(text, sizeof text,
                 "each of %zu shards of the vocabulary subtracts its own largest logit, and the "
                 "sums of exponentials are added as they are",
                 T);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_LOCAL_MAXIMUM, LS_KIND(TOKEN_LOSS), &variant,
                                     text));
    }
exit:
    return status;
}

ls_status ls_cause_targets(ls_search *search)
{
    ls_status status = LS_OK;
    if (search->node->phase == LS_GRAPH_UPDATE && search->of->own_inputs) goto exit;
    if (!ls_search_can_concern(search, LS_TOKEN_LOSSES) || !search->of->operands.batch->targets)
        goto exit;
    LS_TRY(ls_search_target_set(search));
    if (search->n > 1 || search->of->own_inputs || search->only_hint)
        LS_TRY(try_token_shards(search));
    LS_TRY(try_local_maximum(search));
exit:
    return status;
}
