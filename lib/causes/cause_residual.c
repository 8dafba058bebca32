/* cause_residual.c - a residual sum whose second term is another tensor or nothing, and backward a
 * gradient that a residual connection does not send back, or sends elsewhere. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "causes/families.h"

static bool is_alike(const ls_graph_node *a, const ls_graph_node *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dims, b->dims, sizeof a->dims) == 0 &&
           strcmp(a->dim_names, b->dim_names) == 0;
}

/* What is added to the branch: nothing, or another tensor of the stream, of this layer or of the
 * one before. */
static ls_status try_sum(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    const ls_graph_node *node = search->node;
    const int beside = node->inputs[1];
    ls_change change = {0};
    char text[LS_EVIDENCE];
    double *value;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, beside, &value));
    memset(value, 0, search->n * sizeof *value);
    snprintf(text, sizeof text, "candidate is the branch alone: %s is not added",
             graph->nodes[beside].name);
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_RESIDUAL, &change.operands, text));
    for (int other = 0; other < search->of->node; other++) {
        const ls_graph_node *from = &graph->nodes[other];
        bool there;
        if (!is_alike(from, node) || from->layer < node->layer - 1) continue;
        if (other == beside || other == node->inputs[0]) continue;
        LS_TRY(ls_search_need(search, other, &there));
        if (!there) continue;
        memcpy(value, search->values[other], search->n * sizeof *value);
        snprintf(text, sizeof text, "what is added to the branch is %.64s, not %.64s", from->name,
                 graph->nodes[beside].name);
        LS_TRY(ls_search_evaluate(search, LS_CAUSE_RESIDUAL, &change.operands, text));
    }
exit:
    ls_change_end(&change);
    return status;
}

/* Of a gradient: without what one residual sum sends back. */
static ls_status try_dropped(ls_search *search, int sum)
{
    ls_status status = LS_OK;
    const int gradient = ls_graph_gradient(search->graph, sum);
    ls_change change = {0};
    char text[LS_EVIDENCE];
    double *value;
    if (gradient < 0 || !search->values[gradient]) goto exit;
    LS_TRY(ls_change_begin(&change, &search->of->operands));
    LS_TRY(ls_change_value(&change, gradient, &value));
    memset(value, 0, search->n * sizeof *value);
    snprintf(text, sizeof text,
             "the gradient that the residual connection of %s sends back is "
             "left out",
             search->graph->nodes[sum].name);
    LS_TRY(ls_search_evaluate(search, LS_CAUSE_RESIDUAL, &change.operands, text));
exit:
    ls_change_end(&change);
    return status;
}

/* ... and with what one sends back whose second term it is not. */
static ls_status try_added(ls_search *search, int sum)
{
    ls_status status = LS_OK;
    const int gradient = ls_graph_gradient(search->graph, sum);
    char text[LS_EVIDENCE];
    bool there = false;
    if (gradient < 0) goto exit;
    LS_TRY(ls_search_need(search, gradient, &there));
    if (!there) goto exit;
    const double *more = search->values[gradient], u = search->of->precision.u;
    for (size_t i = 0; i < search->n; i++) {
        search->trial[i] = search->of->right[i] + more[i];
        search->trial_bound[i] =
            search->of->bound[i] + 4 * u * (fabs(more[i]) + fabs(search->trial[i]));
    }
    snprintf(text, sizeof text,
             "the gradient of the residual connection of %s is sent back here, where nothing is "
             "added from",
             search->graph->nodes[sum].name);
    ls_search_propose(search, LS_CAUSE_RESIDUAL, search->trial, search->trial_bound, text);
exit:
    return status;
}

ls_status ls_cause_residuals(ls_search *search)
{
    ls_status status = LS_OK;
    const ls_graph *graph = search->graph;
    const ls_graph_node *node = search->node;
    if (node->make == LS_MAKE_RESIDUAL) LS_TRY(try_sum(search));
    if (node->make != LS_MAKE_GRADIENT || node->of < 0) goto exit;
    for (int sum = node->of + 1; sum < (int)graph->count; sum++) {
        const ls_graph_node *reader = &graph->nodes[sum];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (reader->make != LS_MAKE_RESIDUAL || !is_alike(reader, node)) continue;
        if (ls_graph_back_slot(reader, node->of) == 1)
            LS_TRY(try_dropped(search, sum));
        else if (ls_graph_back_slot(reader, node->of) < 0 && reader->layer <= node->layer + 1)
            LS_TRY(try_added(search, sum));
    }
exit:
    return status;
}
