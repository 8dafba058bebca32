/* graph_index.c - look-ups in a graph without going through its nodes. */
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "step_graph/graph_build.h"

/* -1 stands for "none" throughout. */
struct ls_graph_index {
    size_t names;  /* a power of two, at least twice the nodes         */
    int *by_name;  /* open addressing                                  */
    int *gradient; /* by forward node                                  */
    int *point[2]; /* [backward][(layer + 1) * LS_POINTS + point]      */
    int *param[5]; /* by parameter: whole gradient, of its uses, clipped, updated */
    int loss, norm, image_loss;
    int twice; /* a node whose name another one had */
};

enum { WHOLE = 0, INPUT_USE, HEAD_USE, CLIPPED, UPDATED };

static size_t hash(const char *name)
{
    size_t h = 14695981039346656037u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ^ h >> 32;
}

/* Layers that a point may be of. */
static size_t layers_of(const ls_graph *graph)
{
    const ls_config *config = &graph->table->config;
    return config->kind == LS_MODEL_NET ? config->net.count : config->layers;
}

static ls_status none(int **ret_places, size_t count)
{
    ls_status status = LS_OK;
    LS_ROOM(*ret_places, count);
    for (size_t i = 0; i < count; i++) (*ret_places)[i] = -1;
exit:
    return status;
}

ls_status ls_graph_index_create(ls_graph *graph)
{
    ls_status status = LS_OK;
    const size_t points = (layers_of(graph) + 1) * LS_POINTS;
    ls_graph_index *index = NULL;
    LS_NEW(index, 1);
    graph->index = index;
    index->loss = index->norm = index->image_loss = index->twice = -1;
    for (index->names = 64; index->names < 2 * graph->room;) index->names *= 2;
    LS_TRY(none(&index->by_name, index->names));
    LS_TRY(none(&index->gradient, graph->room));
    for (int i = 0; i < 2; i++) LS_TRY(none(&index->point[i], points));
    for (int i = 0; i < 5; i++) LS_TRY(none(&index->param[i], graph->table->count));
exit:
    return status;
}

void ls_graph_index_destroy(ls_graph_index *index)
{
    if (!index) return;
    free(index->by_name);
    free(index->gradient);
    for (int i = 0; i < 2; i++) free(index->point[i]);
    for (int i = 0; i < 5; i++) free(index->param[i]);
    free(index);
}

/* Where a name is, or would be. */
static size_t place_of(const ls_graph *graph, const char *name)
{
    const ls_graph_index *index = graph->index;
    size_t at = hash(name) & (index->names - 1);
    while (index->by_name[at] >= 0 && strcmp(graph->nodes[index->by_name[at]].name, name) != 0)
        at = (at + 1) & (index->names - 1);
    return at;
}

static int *at_point(const ls_graph_index *index, bool backward, int layer, ls_point point)
{
    return &index->point[backward][(size_t)(layer + 1) * LS_POINTS + (size_t)point];
}

void ls_graph_index_add(ls_graph *graph, int node)
{
    ls_graph_index *index = graph->index;
    const ls_graph_node *n = &graph->nodes[node];
    const int param = n->params[0];
    int *named = &index->by_name[place_of(graph, n->name)];
    if (*named >= 0) index->twice = node;
    *named = node;
    if (n->point < LS_POINTS)
        *at_point(index, n->phase == LS_GRAPH_BACKWARD, n->layer, n->point) = node;
    switch (n->make) {
    case LS_MAKE_GRADIENT:
        index->gradient[n->of] = node;
        break;
    case LS_MAKE_PARAM_GRADIENT:
        if (n->of < 0)
            index->param[WHOLE][param] = node;
        else if (graph->nodes[n->of].make == LS_MAKE_LOGITS)
            index->param[HEAD_USE][param] = node;
        else
            index->param[INPUT_USE][param] = node;
        break;
    case LS_MAKE_CLIPPED:
        index->param[CLIPPED][param] = node;
        break;
    case LS_MAKE_UPDATED:
    case LS_MAKE_RUNNING:
        index->param[UPDATED][param] = node;
        break;
    case LS_MAKE_MEAN:
        index->loss = node;
        break;
    case LS_MAKE_GRADIENT_NORM:
        index->norm = node;
        break;
    case LS_MAKE_IMAGE_LOSS:
        index->image_loss = node;
        break;
    default:
        break;
    }
}

/* ---- look-ups ---- */

int ls_graph_find(const ls_graph *graph, const char *name)
{
    return graph->index->by_name[place_of(graph, name)];
}

static int find_param(const ls_graph *graph, int what, int param)
{
    if (param < 0 || (size_t)param >= graph->table->count) return -1;
    return graph->index->param[what][param];
}

int ls_graph_find_view(const ls_graph *graph, const ls_view *view)
{
    if (view->comm != LS_COMM_NONE) return -1;
    switch (view->kind) {
    case LS_VIEW_POINT:
        if (view->point == LS_POINT_IMAGE_LOSS) return graph->index->image_loss;
        if (view->point >= LS_POINTS || view->layer < -1 || view->layer >= (int)layers_of(graph))
            return -1;
        return *at_point(graph->index, view->gradient, view->layer, view->point);
    case LS_VIEW_USE_GRADIENT:
        if (view->use != 0 && view->use != 1) return -1;
        return find_param(graph, view->use == 0 ? INPUT_USE : HEAD_USE, view->param);
    case LS_VIEW_PARAM_GRADIENT:
        return find_param(graph, WHOLE, view->param);
    case LS_VIEW_CLIPPED:
        return find_param(graph, CLIPPED, view->param);
    case LS_VIEW_PARAM:
        return find_param(graph, UPDATED, view->param);
    case LS_VIEW_LOSS:
        return graph->index->loss;
    case LS_VIEW_NORM:
        return graph->index->norm;
    case LS_VIEW_SEQUENCE_GRADIENT:
    case LS_VIEW_TARGET_COUNTS:
    case LS_VIEW_LOSS_SUMS:
    case LS_VIEW_SQUARES:
        break;
    }
    return -1;
}

ls_view ls_graph_shape_view(const ls_graph *graph, const ls_view *view)
{
    ls_view shaped = *view, whole = *view;
    whole.comm = LS_COMM_NONE; /* what it is a part of */
    const int place = ls_graph_find_view(graph, &whole);
    const ls_graph_node *node = place < 0 ? NULL : &graph->nodes[place];
    if (!node || node->n_dims <= view->n_dims || view->n_dims != 2) return shaped;
    size_t columns = 1;
    for (int d = 1; d < node->n_dims; d++) columns *= node->dims[d];
    if (view->dims[1].count != columns || view->stride != columns) return shaped;
    shaped.n_dims = node->n_dims;
    for (int d = 1; d < node->n_dims; d++)
        shaped.dims[d] = (ls_view_run){node->dims[d], 0, node->dims[d]};
    shaped.stride = node->dims[node->n_dims - 1];
    return shaped;
}

int ls_graph_gradient(const ls_graph *graph, int node)
{
    return node < 0 || (size_t)node >= graph->count ? -1 : graph->index->gradient[node];
}

int ls_graph_param_gradient(const ls_graph *graph, int param)
{
    return find_param(graph, WHOLE, param);
}

int ls_graph_updated(const ls_graph *graph, int param)
{
    return find_param(graph, UPDATED, param);
}

int ls_graph_find_param(const ls_graph *graph, int param, ls_operation_kind make)
{
    return find_param(graph,
                      make == LS_MAKE_CLIPPED          ? CLIPPED
                      : make == LS_MAKE_PARAM_GRADIENT ? WHOLE
                                                       : UPDATED,
                      param);
}

const char *ls_graph_index_twice(const ls_graph *graph)
{
    return graph->index->twice < 0 ? NULL : graph->nodes[graph->index->twice].name;
}
