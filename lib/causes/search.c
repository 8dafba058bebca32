/* search.c - what a hypothesis may do: compute the node from other operands, for as long as there
 * is work left to spend. */
#include "causes/search.h"

#include <stdio.h>

#include "base/append.h"

/* ---- what an evaluation costs ---- */

static double depth_of(const ls_graph *graph, const ls_graph_node *node)
{
    return (double)graph->table->params[node->params[0]].dims[node->make == LS_MAKE_LINEAR ? 0 : 1];
}

/* Of making what `node` makes once, or of what goes back through it. */
static double net_once(const ls_graph *graph, int place)
{
    const ls_graph_node *node = &graph->nodes[place];
    const double n = (double)ls_graph_elements(graph, place);
    if (ls_kind_has(node->make, LS_IS_PRODUCT | LS_IS_CONVOLUTION))
        return n * (1 + depth_of(graph, node));
    return 16 * n;
}

static double net_work(const ls_graph *graph, int place)
{
    const ls_graph_node *node = &graph->nodes[place];
    double work = 8 * (double)ls_graph_elements(graph, place);
    if (node->phase == LS_GRAPH_FORWARD) return net_once(graph, place);
    for (size_t r = 0; node->phase == LS_GRAPH_BACKWARD && r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (node->make == LS_MAKE_GRADIENT ? ls_graph_slot(reader, node->of) >= 0
                                           : ls_graph_param_slot(reader, node->params[0]) >= 0)
            work += net_once(graph, (int)r);
    }
    return work;
}

/* Of what every reader sends back. */
static double work_of_gradient(const ls_graph *graph, const ls_graph_node *node, double n)
{
    const double S = (double)graph->S, tokens = (double)graph->B * S;
    double work = 8 * n;
    for (int r = node->of + 1; r < (int)graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (ls_graph_back_slot(reader, node->of) < 0) continue;
        const double made = (double)ls_graph_elements(graph, r) / tokens;
        const bool attention =
            reader->make == LS_MAKE_PROBABILITIES || reader->make == LS_MAKE_HEADS;
        const bool product = ls_kind_has(reader->make, LS_IS_PRODUCT);
        work += attention ? 4 * tokens * S * (double)graph->table->config.d_model
                : product ? n * made
                          : 8 * n;
    }
    return work;
}

double ls_search_work_of(const ls_graph *graph, int place)
{
    const ls_graph_node *node = &graph->nodes[place];
    const ls_config *config = &graph->table->config;
    if (config->kind == LS_MODEL_NET) return net_work(graph, place);
    const double n = (double)ls_graph_elements(graph, place), S = (double)graph->S;
    const double D = (double)config->d_model, tokens = (double)graph->B * S;
    if (ls_kind_has(node->make, LS_IS_PRODUCT))
        return n * (double)ls_graph_elements(graph, node->inputs[0]) / tokens;
    switch (node->make) {
    case LS_MAKE_PROBABILITIES:
    case LS_MAKE_HEADS:
        return 2 * tokens * S * D;
    case LS_MAKE_PARAM_GRADIENT:
        return n * tokens;
    case LS_MAKE_GRADIENT:
        return work_of_gradient(graph, node, n);
    default:
        return 8 * n;
    }
}

/* ---- evaluations ---- */

ls_status ls_search_compute(ls_search *search, int node, const ls_operands *operands,
                            double *values, double *bound, bool *ret_done)
{
    const double work = ls_search_work_of(search->graph, node);
    *ret_done = work <= search->work;
    if (!*ret_done) {
        search->cut_short = true;
        return LS_OK;
    }
    search->work -= work;
    return ls_operation_evaluate(operands, node, search->of->precision, values, bound);
}

ls_status ls_search_evaluate(ls_search *search, ls_cause cause, const ls_operands *operands,
                             const char *evidence)
{
    ls_status status = LS_OK;
    bool done;
    LS_TRY(ls_search_compute(search, search->of->node, operands, search->trial, search->trial_bound,
                             &done));
    if (done) ls_search_propose(search, cause, search->trial, search->trial_bound, evidence);
exit:
    return status;
}

const char *ls_search_size(const ls_search *search, size_t k, char text[64])
{
    const ls_layout *l =
        search->of->whole && search->of->whole->has_layout ? &search->of->whole->layout : NULL;
    text[0] = 0;
    if (!l || k < 2) return text;
    const struct {
        size_t size;
        const char *name;
    } axes[] = {{(size_t)l->tp, "tp"},
                {(size_t)l->channels, "channel"},
                {(size_t)l->down * (size_t)l->across, "spatial"},
                {(size_t)l->dp, "dp"},
                {(size_t)l->pp, "pp"},
                {(size_t)l->micro_batches, "micro-batches"},
                {(size_t)l->dp * (size_t)l->micro_batches, "dp x micro-batches"},
                {(size_t)l->dp * (size_t)l->tp, "dp x tp"}};
    size_t length = 0;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (axes[i].size != k || length > 40) continue;
        length = ls_append(text, 64, length, "%s%s", length ? " or " : " = ", axes[i].name);
        if (i == 5 && length) break; /* a product with 1 is no news */
    }
    return text;
}

bool ls_search_concerns(const ls_search *search, ls_kind_set kinds)
{
    const ls_graph_node *node = search->node;
    if (ls_kind_in(kinds, node->make)) return true;
    for (size_t r = 0; r < search->graph->count; r++) {
        const ls_graph_node *reader = &search->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (!ls_kind_in(kinds, reader->make)) continue;
        if (node->make == LS_MAKE_GRADIENT && ls_graph_back_slot(reader, node->of) >= 0)
            return true;
        if (node->make == LS_MAKE_PARAM_GRADIENT && (node->of < 0 || node->of == (int)r) &&
            ls_graph_param_slot(reader, node->params[0]) >= 0)
            return true;
    }
    return false;
}
