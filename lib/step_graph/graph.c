/* graph.c - the backward pass and the update, drawn from the forward pass. */
#include "step_graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step_graph/graph_build.h"
#include "step_graph/tensor_name.h"
#include "base/allocate.h"

static void read_node(ls_graph_node *node, int input)
{
    int i = 0;
    if (input < 0) return;
    for (; i < LS_NODE_INPUTS && node->inputs[i] >= 0; i++)
        if (node->inputs[i] == input) return;
    if (i < LS_NODE_INPUTS)
        node->inputs[i] = input;
    else
        node->crowded = true;
}

/* What a gradient needs of a reader: the gradient of what it made, and what it read, unless it is
 * linear in that. by_param: the gradient is a parameter's. */
static void read_reader(const ls_graph *graph, ls_graph_node *node, int place, bool by_param)
{
    const ls_graph_node *reader = &graph->nodes[place];
    if (!ls_kind_has(reader->make, LS_IS_LOSS)) read_node(node, ls_graph_gradient(graph, place));
    if (reader->make == LS_MAKE_POOLED) read_node(node, place);
    if (!by_param && reader->through >= 0 && reader->through == node->of) {
        read_node(node, reader->inputs[2]); /* heads are linear in the probabilities: the values */
        return;
    }
    for (int i = 0; (by_param || !ls_kind_has(reader->make, LS_IS_LINEAR)) && i < LS_NODE_INPUTS;
         i++)
        read_node(node, reader->inputs[i]);
}

/* The node that was appended last is complete and can be found. */
static void index_last(ls_graph *graph)
{
    ls_graph_index_add(graph, (int)graph->count - 1);
}

static bool sends_back(const ls_graph_node *reader)
{
    return reader->phase == LS_GRAPH_FORWARD && !ls_kind_has(reader->make, LS_IS_SHOWN) &&
           reader->make != LS_MAKE_MEAN;
}

/* ---- backward ---- */

static void append_gradient(ls_graph *graph, size_t forward, int place)
{
    char name[sizeof graph->nodes->name];
    const ls_graph_node *of = &graph->nodes[place];
    /* Of what no operation reads only the probabilities have one: the heads go through them. */
    if (ls_kind_has(of->make, LS_IS_LOSS) || of->make == LS_MAKE_MEAN ||
        (ls_kind_has(of->make, LS_IS_SHOWN) && of->make != LS_MAKE_PROBABILITIES))
        return;
    snprintf(name, sizeof name, "d.%.120s", of->name);
    ls_graph_node *node =
        &graph->nodes[ls_graph_append(graph, LS_GRAPH_BACKWARD, LS_MAKE_GRADIENT, name)];
    node->of = place;
    node->layer = of->layer;
    node->point = of->point;
    node->n_dims = of->n_dims;
    memcpy(node->dims, of->dims, sizeof node->dims);
    memcpy(node->dim_names, of->dim_names, sizeof node->dim_names);
    for (size_t r = forward; r-- > 0;)
        if (sends_back(&graph->nodes[r]) && ls_graph_back_slot(&graph->nodes[r], place) >= 0)
            read_reader(graph, node, (int)r, false);
    index_last(graph);
}

/* Rows and columns of a role's tensor by name. */
static void param_names(const ls_param *param, const char *names[2])
{
    names[0] = "D", names[1] = "D";
    switch (param->role) {
    case LS_TOKEN_EMBEDDING:
    case LS_HEAD_WEIGHT:
    case LS_VOCAB_BIAS:
        names[0] = "V";
        break;
    case LS_POSITION_EMBEDDING:
        names[0] = "positions";
        break;
    case LS_TYPE_EMBEDDING:
        names[0] = "types";
        break;
    case LS_KEY_WEIGHT:
    case LS_VALUE_WEIGHT:
        names[1] = "Dkv";
        break;
    case LS_KEY_BIAS:
    case LS_VALUE_BIAS:
        names[0] = "Dkv";
        break;
    case LS_MLP_GATE_WEIGHT:
    case LS_MLP_UP_WEIGHT:
        names[1] = "F";
        break;
    case LS_MLP_UP_BIAS:
    case LS_MLP_DOWN_WEIGHT:
        names[0] = "F";
        break;
    case LS_ORDER_WEIGHT:
        names[1] = "2";
        break;
    case LS_ORDER_BIAS:
        names[0] = "2";
        break;
    default:
        break;
    }
}

static ls_graph_node *append_param(ls_graph *graph, ls_graph_phase phase, ls_operation_kind make,
                                   const char *before, int place, const char *behind)
{
    char whole[sizeof graph->nodes->name];
    const char *names[2];
    const ls_param *param = &graph->table->params[place];
    snprintf(whole, sizeof whole, "%s.%s%s", before, param->name, behind);
    ls_graph_node *node = &graph->nodes[ls_graph_append(graph, phase, make, whole)];
    node->params[0] = place;
    node->layer = param->stage == LS_STAGE_LAYER ? (int)param->layer : -1;
    if (graph->table->config.kind == LS_MODEL_NET) {
        ls_graph_net_param(node, param);
        return node;
    }
    node->n_dims = param->n_dims;
    for (int d = 0; d < param->n_dims; d++) node->dims[d] = param->dims[d];
    param_names(param, names);
    if (param->n_dims == 1)
        snprintf(node->dim_names, sizeof node->dim_names, "%s%s", names[0],
                 param->cut == 0 ? "[tp]" : "");
    else
        snprintf(node->dim_names, sizeof node->dim_names, "%s%s %s%s", names[0],
                 param->cut == 0 ? "[tp]" : "", names[1], param->cut == 1 ? "[tp]" : "");
    return node;
}

/* The gradients of what forward node `place` reads of the parameters. A tied parameter has one for
 * each use, and the sum of both when the later one, the input's, is there. */
static void append_param_gradients(ls_graph *graph, size_t forward, int place)
{
    for (int i = 0; i < LS_NODE_PARAMS; i++) {
        const int param = graph->nodes[place].params[i];
        if (param < 0) continue;
        ls_graph_node *node;
        const bool tied = graph->table->params[param].uses > 1;
        const bool head = graph->nodes[place].make == LS_MAKE_LOGITS;
        if (tied) {
            node = append_param(graph, LS_GRAPH_BACKWARD, LS_MAKE_PARAM_GRADIENT, "grad", param,
                                head ? ".as_head" : ".as_input");
            node->of = place;
            read_reader(graph, node, place, true);
            index_last(graph);
            if (head) continue;
        }
        node = append_param(graph, LS_GRAPH_BACKWARD, LS_MAKE_PARAM_GRADIENT, "grad", param, "");
        for (size_t r = 0; r < forward; r++)
            if (ls_graph_param_slot(&graph->nodes[r], param) >= 0)
                read_reader(graph, node, (int)r, true);
        index_last(graph);
    }
}

/* ---- update ---- */

/* A running statistic: from what the batch norm of its layer read. */
static void append_state(ls_graph *graph, int place)
{
    ls_graph_node *node = append_param(graph, LS_GRAPH_UPDATE, LS_MAKE_RUNNING, "param", place, "");
    for (size_t r = 0; r < graph->count; r++)
        if (graph->nodes[r].make == LS_MAKE_BATCH_NORM && graph->nodes[r].layer == node->layer)
            read_node(node, graph->nodes[r].inputs[0]);
    index_last(graph);
}

static void append_update(ls_graph *graph)
{
    const int count = (int)graph->table->count;
    const int norm = ls_graph_append(graph, LS_GRAPH_UPDATE, LS_MAKE_GRADIENT_NORM, "norm");
    index_last(graph);
    for (int p = 0; p < count; p++) {
        const int gradient = ls_graph_param_gradient(graph, p);
        if (graph->table->params[p].state) continue;
        ls_graph_node *node =
            append_param(graph, LS_GRAPH_UPDATE, LS_MAKE_CLIPPED, "clipped", p, "");
        read_node(node, gradient);
        read_node(node, norm);
        index_last(graph);
    }
    for (int p = 0; p < count; p++) {
        const ls_param *param = &graph->table->params[p];
        if (param->state) {
            append_state(graph, p);
            continue;
        }
        read_node(append_param(graph, LS_GRAPH_UPDATE, LS_MAKE_UPDATED, "param", p, ""),
                  ls_graph_find_param(graph, p, LS_MAKE_CLIPPED));
        index_last(graph);
    }
}

/* Layers of a network have the names that the user gave them. */
static ls_status check(const ls_graph *graph)
{
    ls_status status = LS_OK;
    const ls_param_table *table = graph->table;
    const char *twice = ls_graph_index_twice(graph);
    for (size_t p = 0; p < table->count && !twice; p++)
        if (ls_graph_find(graph, table->params[p].name) >= 0) twice = table->params[p].name;
    if (twice)
        LS_FAIL(LS_ERR_INPUT,
                "%s: two tensors of a step are called %s; give the layer of that name another one",
                table->config.name, twice);
    for (size_t i = 0; i < graph->count; i++)
        if (ls_tensor_name_parse(graph->nodes[i].name).comm)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: %s ends as what crosses ranks does; give the layer another name",
                    table->config.name, graph->nodes[i].name);
    for (size_t i = 0; i < graph->count; i++)
        if (graph->nodes[i].crowded)
            LS_FAIL(LS_ERR_INPUT, "%s: %s needs more than %d tensors: fewer layers may read one",
                    table->config.name, graph->nodes[i].name, LS_NODE_INPUTS);
exit:
    return status;
}

ls_status ls_graph_create(ls_graph **ret_graph, const ls_param_table *table, size_t B, size_t S)
{
    ls_status status = LS_OK;
    ls_graph *graph = NULL;
    const bool net = table->config.kind == LS_MODEL_NET;
    LS_NEW(graph, 1);
    graph->table = table;
    graph->B = B;
    graph->S = net ? 1 : S;
    /* At most 16 nodes of a layer and 16 at the ends, each with its gradient; of a parameter the
     * gradient (three times when tied), the clipped one and the update; loss and norm. */
    const size_t most =
        net ? ls_graph_net_most(&table->config.net) : 16 * table->config.layers + 16;
    graph->room = 2 * most + 5 * table->count;
    LS_NEW(graph->nodes, graph->room);
    LS_TRY(ls_graph_index_create(graph));

    if (net)
        ls_graph_net_forward(graph);
    else
        ls_graph_forward(graph);
    const size_t forward = graph->count;
    for (size_t i = 0; i < forward; i++) ls_graph_index_add(graph, (int)i);
    for (size_t i = forward; i-- > 0;) {
        append_gradient(graph, forward, (int)i);
        append_param_gradients(graph, forward, (int)i);
    }
    append_update(graph);
    LS_TRY(check(graph));
    *ret_graph = graph;
    graph = NULL;
exit:
    ls_graph_destroy(&graph);
    return status;
}

void ls_graph_destroy(ls_graph **graph)
{
    if (!*graph) return;
    free((*graph)->nodes);
    ls_graph_index_destroy((*graph)->index);
    free(*graph);
    *graph = NULL;
}

double ls_graph_dropout(const ls_graph *graph, const ls_graph_node *node)
{
    const ls_config *config = &graph->table->config;
    if (config->kind != LS_MODEL_NET) return config->dropout;
    return node->make == LS_MAKE_DROPOUT ? config->net.layers[node->layer].p : 0;
}

size_t ls_graph_elements(const ls_graph *graph, int node)
{
    size_t n = 1;
    for (int d = 0; d < graph->nodes[node].n_dims; d++) n *= graph->nodes[node].dims[d];
    return n;
}
