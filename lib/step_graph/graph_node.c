/* graph_node.c - a node by itself: made, and asked what it reads. */
#include <string.h>

#include "step_graph/graph_build.h"

int ls_graph_append(ls_graph *graph, ls_graph_phase phase, ls_operation_kind make, const char *name)
{
    ls_graph_node *node = &graph->nodes[graph->count];
    memset(node, 0, sizeof *node);
    memcpy(node->name, name, strlen(name) + 1); /* fits: a parameter's name and 16 more */
    node->phase = phase;
    node->make = make;
    for (int i = 0; i < LS_NODE_INPUTS; i++) node->inputs[i] = -1;
    for (int i = 0; i < LS_NODE_PARAMS; i++) node->params[i] = -1;
    node->of = node->through = node->purpose = node->layer = -1;
    node->point = LS_POINTS;
    return (int)graph->count++;
}

int ls_graph_slot(const ls_graph_node *reader, int node)
{
    for (int i = 0; i < LS_NODE_INPUTS && reader->inputs[i] >= 0; i++)
        if (reader->inputs[i] == node) return i;
    return -1;
}

int ls_graph_back_slot(const ls_graph_node *reader, int node)
{
    return node >= 0 && reader->through == node ? LS_SLOT_THROUGH : ls_graph_slot(reader, node);
}

int ls_graph_param_slot(const ls_graph_node *reader, int param)
{
    for (int i = 0; i < LS_NODE_PARAMS; i++)
        if (reader->params[i] == param) return i;
    return -1;
}
