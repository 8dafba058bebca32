/* graph_paper.c - tensors that are zero on paper: what a program has there is rounding noise.
 *
 * A key's bias adds the same to all scores of a query, which softmax does not see, unless keys are
 * turned by position. A bias before a batch norm is subtracted with the mean. Their gradients are
 * zero, whatever the batch; clipping multiplies nothing, and AdamW, which divides by the size of
 * what it is given, makes steps of it as large as any other. */
#include "step_graph/graph.h"

/* Whether the second parameter of a product is added to what only such readers read. */
static bool adds_unseen(const ls_graph *graph, int product)
{
    const ls_graph_node *node = &graph->nodes[product];
    size_t readers = 0;
    if (node->make != LS_MAKE_LINEAR && node->make != LS_MAKE_CONV) return false;
    for (size_t r = 0; r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        const int slot = ls_graph_slot(reader, product);
        if (reader->phase == LS_GRAPH_BACKWARD || slot < 0) continue;
        if (!(ls_kind_of(reader->make)->unseen & LS_INPUT(slot))) return false;
        readers++;
    }
    return readers > 0;
}

bool ls_graph_zero_on_paper(const ls_graph *graph, int place)
{
    const ls_graph_node *node = &graph->nodes[place];
    const bool of_param = node->make == LS_MAKE_PARAM_GRADIENT || node->make == LS_MAKE_CLIPPED ||
                          node->make == LS_MAKE_UPDATED;
    const int param = of_param ? node->params[0] : -1;
    bool added = false;
    for (size_t r = 0; param >= 0 && r < graph->count; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD || ls_graph_param_slot(reader, param) < 0) continue;
        if (ls_graph_param_slot(reader, param) != 1 || !adds_unseen(graph, (int)r)) return false;
        added = true;
    }
    return added;
}
