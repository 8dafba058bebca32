/* cause_dropout.c - another dropout mask: one that can be told (another step's, layer's, a shard's
 * own), or any whose elements are each dropped or kept. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "causes/families.h"

#define MASKS (LS_KIND(DROPOUT) | LS_KIND(RESIDUAL) | LS_KIND(HEADS))

/* The rate of the node's dropout, or of one that it goes back through; 0: there is none. */
static double rate_of(const ls_search *search)
{
    const ls_graph *graph = search->graph;
    double rate = search->config->dropout;
    if (search->config->kind != LS_MODEL_NET) return rate;
    if (search->node->make == LS_MAKE_DROPOUT) return ls_graph_dropout(graph, search->node);
    for (size_t r = 0; search->node->make == LS_MAKE_GRADIENT && r < graph->count; r++)
        if (graph->nodes[r].make == LS_MAKE_DROPOUT &&
            ls_graph_slot(&graph->nodes[r], search->node->of) >= 0)
            rate = ls_graph_dropout(graph, &graph->nodes[r]);
    return rate;
}

/* A mask that another variant or batch draws. */
static ls_status try_mask(ls_search *search, const ls_variant *variant, const ls_batch *batch,
                          const char *text)
{
    return ls_search_try_batch(search, LS_CAUSE_DROPOUT_MASK, MASKS, variant, batch, text);
}

static ls_status try_known(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_batch *right = search->of->operands.batch;
    const ls_variant none = {0};
    ls_batch batch = *right;
    batch.training = false;
    LS_TRY(try_mask(search, &none, &batch, "no dropout: every element is kept, unscaled"));
    for (int by = -1; by <= 8; by++) {
        batch = *right;
        batch.seed += (uint64_t)(int64_t)by;
        snprintf(text, sizeof text, "the mask of seed %llu, not %llu",
                 (unsigned long long)batch.seed, (unsigned long long)right->seed);
        if (by != 0) LS_TRY(try_mask(search, &none, &batch, text));
    }
    for (int by = -1; by <= 2; by++) {
        batch = *right;
        batch.step = by == 2 ? 0 : right->step + (uint32_t)by;
        snprintf(text, sizeof text, "the mask of step %u, not %u", batch.step, right->step);
        if (batch.step != right->step) LS_TRY(try_mask(search, &none, &batch, text));
    }
    const bool net = search->config->kind == LS_MODEL_NET;
    const size_t layers = net ? search->config->net.count - 1 : search->config->layers;
    for (int layer = 0; layer <= (int)layers; layer++) {
        const ls_variant variant = {.mask_layer = 1 + layer};
        snprintf(text, sizeof text, "the mask of layer %d", layer);
        if (search->node->layer >= 0 && layer != search->node->layer)
            LS_TRY(try_mask(search, &variant, right, text));
    }
    const ls_variant complement = {.mask_complement = true}, unscaled = {.mask_unscaled = true};
    LS_TRY(
        try_mask(search, &complement, right, "what should be dropped is kept, the rest dropped"));
    LS_TRY(try_mask(search, &unscaled, right, "what is kept is not divided by 1 - p"));
    for (size_t n = 1; n <= 8 && n < search->graph->B; n++) {
        const ls_variant variant = {.mask_sequences = n};
        snprintf(text, sizeof text, "the mask begins again after every %zu sequences", n);
        LS_TRY(try_mask(search, &variant, right, text));
    }
    for (size_t T = 2; T <= 8 && T <= search->graph->S; T++) {
        const ls_variant variant = {.mask_tokens = search->graph->S / T};
        snprintf(text, sizeof text, "the mask is the same in all %zu shares of the tokens", T);
        if (search->graph->S % T == 0) LS_TRY(try_mask(search, &variant, right, text));
    }
exit:
    return status;
}

/* Whether the node's elements are each kept or dropped by one mask. */
static bool is_elementwise(const ls_search *search)
{
    const ls_graph_node *node = search->node;
    if (node->make == LS_MAKE_RESIDUAL || node->make == LS_MAKE_DROPOUT) return true;
    if (node->make != LS_MAKE_GRADIENT) return false;
    int readers = 0;
    for (size_t r = 0; r < search->graph->count; r++) {
        const ls_graph_node *reader = &search->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        const int slot = ls_graph_back_slot(reader, node->of);
        if (slot < 0) continue;
        if (slot > 0 || (reader->make != LS_MAKE_RESIDUAL && reader->make != LS_MAKE_DROPOUT))
            return false;
        readers++;
    }
    return readers == 1;
}

/* Any mask: every element is right or what it would be were it dropped or kept the other way. */
static ls_status try_any(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE];
    const ls_case *of = search->of;
    ls_change change = {0};
    bool done;
    size_t other = 0, kept = 0;
    LS_TRY(ls_change_begin(&change, &of->operands));
    change.variant.mask_complement = true;
    LS_TRY(ls_search_compute(search, of->node, &change.operands, search->trial, search->trial_bound,
                             &done));
    if (!done) goto exit;
    /* kept: the one of the two that is further from what is there without the branch */
    const double *beside = search->node->make == LS_MAKE_RESIDUAL
                               ? of->operands.values[search->node->inputs[1]]
                               : NULL;
    for (size_t i = 0; i < search->n; i++) {
        const double from_right = fabs(search->candidate[i] - of->right[i]);
        const double from_other = fabs(search->candidate[i] - search->trial[i]);
        if (from_right <= of->bound[i] || !(from_other <= search->trial_bound[i])) {
            search->trial[i] = of->right[i], search->trial_bound[i] = of->bound[i];
        } else {
            other++;
        }
        if (fabs(search->trial[i] - (beside ? beside[i] : 0)) > search->trial_bound[i]) kept++;
    }
    snprintf(text, sizeof text,
             "%s: %zu of %zu elements are dropped for kept or kept for dropped; %.3g kept, 1 - p = "
             "%.3g",
             search->node->phase == LS_GRAPH_BACKWARD ? "backward another mask than forward"
                                                      : "another mask",
             other, search->n, (double)kept / (double)search->n, 1 - rate_of(search));
    if (search->n > 1)
        ls_search_propose(search, LS_CAUSE_DROPOUT_MASK, search->trial, search->trial_bound, text);
exit:
    ls_change_end(&change);
    return status;
}

ls_status ls_cause_dropout(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_batch *batch = search->of->operands.batch;
    if (!batch->training || rate_of(search) == 0) goto exit;
    if (search->of->own_inputs && !ls_search_concerns(search, MASKS)) goto exit;
    LS_TRY(try_known(search));
    if (is_elementwise(search) && !search->fits[LS_CAUSE_DROPOUT_MASK]) LS_TRY(try_any(search));
exit:
    return status;
}
