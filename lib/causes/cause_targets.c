/* cause_targets.c - the loss with counts or maxima of a shard's own. Which targets count:
 * cause_target_set.c; by what it is divided: cause_batch.c. */
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/partition/share.h"
#include "causes/cause_targets.h"

int ls_search_token_loss(const ls_search *search)
{
    for (int r = 0; r < (int)search->graph->count; r++)
        if (search->graph->nodes[r].make == LS_MAKE_TOKEN_LOSS) return r;
    return -1;
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
    double *weights = malloc(n * sizeof *weights);
    if (!weights) LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for weights of tokens");
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
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_LOCAL_MAXIMUM, 1u << LS_MAKE_TOKEN_LOSS,
                                     &variant, text));
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
