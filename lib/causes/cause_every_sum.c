/* cause_every_sum.c - the same mistake in every sum over ranks of a forward pass, seen from a
 * tensor further on: the candidate lacks the tensors in between. */
#include <stdio.h>
#include <stdlib.h>

#include "causes/families.h"

/* What is done to the linears that a reduction follows. */
typedef struct spoiled {
    double weight, bias; /* factors */
    size_t ranks, rank;  /* ranks > 0: the rows of one rank alone */
    bool columns;        /* the bias of linears that are cut by columns, instead */
} spoiled;

static bool is_reduced(const ls_param *weight)
{
    return weight->cut == 0 &&
           (weight->role == LS_ATTN_OUT_WEIGHT || weight->role == LS_MLP_DOWN_WEIGHT ||
            weight->role == LS_MLP_UP_WEIGHT);
}

static ls_status spoil(ls_search *search, const spoiled *how, ls_change *change)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    for (size_t r = 0; r < graph->count; r++) {
        const ls_graph_node *node = &graph->nodes[r];
        if (node->phase != LS_GRAPH_FORWARD) break;
        if (node->make != LS_MAKE_LINEAR && node->make != LS_MAKE_LINEAR_TURNED) continue;
        const ls_param *w = &graph->table->params[node->params[0]];
        double *values;
        if (how->columns ? w->cut != 1 : !is_reduced(w)) continue;
        if (how->bias != 1 && node->params[1] >= 0) {
            LS_TRY(ls_change_param(change, node->params[1], &values));
            const size_t n = ls_param_elements(&graph->table->params[node->params[1]]);
            for (size_t i = 0; i < n; i++) values[i] *= how->bias;
        }
        if (how->weight == 1 && how->ranks == 0) continue;
        LS_TRY(ls_change_param(change, node->params[0], &values));
        const size_t share = how->ranks ? w->axis.granules / how->ranks * w->axis.granule : 1;
        for (size_t i = 0, n = ls_param_elements(w); i < n; i++) {
            if (how->ranks && i / w->dims[1] / share != how->rank) values[i] = 0;
            values[i] *= how->weight;
        }
    }
exit:
    return status;
}

static ls_status try_one(ls_search *search, ls_cause cause, const spoiled *how, const char *text)
{
    ls_status status = LS_OK;
    ls_change change = {0};
    if (search->fits[cause]) return LS_OK;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(spoil(search, how, &change));
    LS_TRY(ls_search_try(search, cause, 0, &change, text));
exit:
    ls_change_end(&change);
    return status;
}

static bool cuts_all(const ls_search *search, size_t ranks)
{
    for (size_t p = 0; p < search->graph->table->count; p++) {
        const ls_param *param = &search->graph->table->params[p];
        if (is_reduced(param) && param->axis.granules % ranks) return false;
    }
    return true;
}

ls_status ls_cause_every_sum(ls_search *search)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], size[64];
    const bool bias = search->config->bias;
    if (search->of->own_inputs) goto exit;
    const spoiled no_bias = {1, 0, 0, 0, false}, no_column_bias = {1, 0, 0, 0, true};
    if (bias) {
        LS_TRY(try_one(search, LS_CAUSE_BIAS_MISSING, &no_bias,
                       "no bias is added behind the sums over ranks, in every layer"));
        LS_TRY(try_one(search, LS_CAUSE_BIAS_MISSING, &no_column_bias,
                       "no bias is added in linears that are cut by columns, in every layer"));
    }
    for (size_t k = 2; k <= 16; k++) {
        if (!cuts_all(search, k)) continue;
        ls_search_size(search, k, size);
        const spoiled biases = {1, (double)k, 0, 0, false}, sums = {(double)k, 1, 0, 0, false};
        const spoiled both = {(double)k, (double)k, 0, 0, false};
        const spoiled mean = {1 / (double)k, 1, 0, 0, false};
        if (bias) {
            snprintf(text, sizeof text,
                     "the bias behind the sums over ranks is added %zu times%s, in every layer", k,
                     size);
            LS_TRY(try_one(search, LS_CAUSE_BIAS_PER_RANK, &biases, text));
        }
        snprintf(text, sizeof text, "every sum over ranks of a layer counts %zu times%s", k, size);
        LS_TRY(try_one(search, LS_CAUSE_REDUCED_TWICE, &sums, text));
        if (bias) LS_TRY(try_one(search, LS_CAUSE_REDUCED_TWICE, &both, text));
        snprintf(text, sizeof text, "every sum over ranks of a layer counts 1/%zu%s", k, size);
        LS_TRY(try_one(search, LS_CAUSE_AVERAGED, &mean, text));
        for (size_t rank = 0; rank < k; rank++) {
            const spoiled own = {1, 1, k, rank, false};
            snprintf(text, sizeof text,
                     "in every layer, sums over ranks are the part of rank %zu of tp %zu alone",
                     rank, k);
            LS_TRY(try_one(search, LS_CAUSE_NOT_REDUCED, &own, text));
        }
    }
exit:
    return status;
}
