/* cause_sum_take.c - which addends a node has: the product by granules of the axis that tensor
 * parallelism cuts, the bias next to it; of a gradient what each reader sends back. */
#include <stdio.h>

#include "causes/cause_sum.h"

static ls_addend *begin_addend(ls_sum *s, const char *name)
{
    ls_addend *a = &s->group[s->groups++];
    snprintf(a->name, sizeof a->name, "%s", name);
    a->first = s->parts.count;
    a->is_bias = false;
    return a;
}

static void add_whole(ls_sum *s, const ls_search *search, bool is_param, int index,
                      const char *name, bool is_bias)
{
    ls_addend *a = begin_addend(s, name);
    ls_parts_add(&s->parts, search, is_param, index, 0, 0, 0, 0, s->groups - 1);
    a->count = a->granules = 1;
    a->is_bias = is_bias;
}

/* The last dimension of a node, `width` long, by granules of an axis. */
static void add_columns(ls_sum *s, const ls_search *search, int node, size_t width, ls_axis axis,
                        const char *name)
{
    ls_addend *a = begin_addend(s, name);
    const size_t most = (LS_PARTS - s->parts.count) / 2;
    size_t together = 1;
    while (axis.granules / together > most || axis.granules % together) together++;
    const size_t step = axis.granule * together;
    for (size_t from = 0; from < width; from += step) {
        const size_t to = from + step < width ? from + step : width;
        ls_parts_add(&s->parts, search, false, node, 1, width, from, to, s->groups - 1);
    }
    a->count = s->parts.count - a->first;
    a->granules = axis.granules / together;
}

static const ls_param *param_of_node(const ls_search *search, const ls_graph_node *node, int slot)
{
    return node->params[slot] < 0 ? NULL : &search->graph->table->params[node->params[slot]];
}

static size_t last_dim(const ls_search *search, int node)
{
    const ls_graph_node *n = &search->graph->nodes[node];
    return n->n_dims > 0 ? n->dims[n->n_dims - 1] : 1;
}

/* x0 w + b: parts by the rows of a weight that is cut by rows. */
static void take_linear(ls_sum *s, const ls_search *search)
{
    const ls_graph_node *node = search->node;
    const ls_param *w = param_of_node(search, node, 0), *b = param_of_node(search, node, 1);
    const int x = node->inputs[0];
    if (w->cut == 0 && node->make != LS_MAKE_LOGITS)
        add_columns(s, search, x, last_dim(search, x), w->axis, "product");
    else
        add_whole(s, search, false, x, "product", false);
    if (b) add_whole(s, search, true, node->params[1], b->name, true);
}

static void take_embedding(ls_sum *s, const ls_search *search)
{
    const ls_graph_node *node = search->node;
    for (int slot = 0; slot < LS_NODE_PARAMS; slot++) {
        const ls_param *p = param_of_node(search, node, slot);
        if (!p) continue;
        if (slot > 0) {
            add_whole(s, search, true, node->params[slot], p->name, false);
            continue;
        }
        ls_addend *a = begin_addend(s, p->name);
        for (size_t from = 0; from < p->dims[0]; from += p->axis.granule) {
            const size_t to = from + p->axis.granule;
            ls_parts_add(&s->parts, search, true, node->params[0], p->dims[1], p->dims[0], from,
                         to < p->dims[0] ? to : p->dims[0], s->groups - 1);
        }
        a->count = s->parts.count - a->first;
        a->granules = p->axis.granules;
    }
}

/* What each reader sends back; through a weight that is cut by columns (the vocabulary's: by rows)
 * by granules of its outputs, of keys and values by the query heads that use them. */
static void take_gradient(ls_sum *s, const ls_search *search)
{
    const ls_graph *graph = search->graph;
    for (size_t r = 0; r < graph->count && s->groups < LS_ADDENDS; r++) {
        const ls_graph_node *reader = &graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        const int slot = ls_graph_back_slot(reader, search->node->of);
        const int gradient = ls_graph_gradient(graph, (int)r);
        if (slot < 0 || gradient < 0 || reader->make == LS_MAKE_PROBABILITIES) continue;
        const ls_param *w = param_of_node(search, reader, 0);
        const size_t width = last_dim(search, gradient);
        const bool logits = reader->make == LS_MAKE_LOGITS;
        const bool linear =
            reader->make == LS_MAKE_LINEAR || reader->make == LS_MAKE_LINEAR_TURNED || logits;
        if (linear && w->cut == (logits ? 0 : 1))
            add_columns(s, search, gradient, width, w->axis, reader->name);
        else if (reader->make == LS_MAKE_HEADS && (slot == 1 || slot == 2) &&
                 search->config->kv_heads < search->config->heads)
            add_columns(s, search, gradient, width, ls_config_heads_axis(search->config),
                        reader->name);
        else
            add_whole(s, search, false, gradient, reader->name, false);
    }
}

static void take_residual(ls_sum *s, const ls_search *search)
{
    const ls_graph *graph = search->graph;
    for (int i = 0; i < 2; i++)
        add_whole(s, search, false, search->node->inputs[i],
                  graph->nodes[search->node->inputs[i]].name, false);
}

void ls_sum_take(ls_sum *sum, const ls_search *search)
{
    sum->groups = 0;
    sum->parts.count = 0;
    switch (search->node->make) {
    case LS_MAKE_LINEAR:
    case LS_MAKE_LINEAR_TURNED:
    case LS_MAKE_LOGITS:
        take_linear(sum, search);
        break;
    case LS_MAKE_EMBEDDING:
        take_embedding(sum, search);
        break;
    case LS_MAKE_GRADIENT:
        take_gradient(sum, search);
        break;
    case LS_MAKE_RESIDUAL:
        take_residual(sum, search);
        break;
    default:
        break;
    }
}
