/* graph_net.c - the nodes of a network's forward pass, layer by layer, and the shapes of its
 * parameters.
 *
 * A layer's output has the layer's name. Next to a batch norm are the statistics that it made,
 * NAME.batch_mean and NAME.batch_rstd: nothing reads them, since a norm is computed again, and
 * differentiated, from what it read. */
#include <stdio.h>

#include "lockstep/numerics/random.h"
#include "step_graph/graph_build.h"

typedef struct forward {
    ls_graph *graph;
    const ls_net *net;
    ls_net_shapes shapes;
    int outputs[LS_NET_LAYERS]; /* nodes */
    int layer;                  /* -1: none */
} forward;

size_t ls_graph_net_most(const ls_net *net)
{
    return 3 * net->count + 2;
}

static const ls_operation_kind makes[LS_NET_KINDS] = {
    [LS_NET_CONV] = LS_MAKE_CONV,
    [LS_NET_MAX_POOL] = LS_MAKE_MAX_POOL,
    [LS_NET_AVG_POOL] = LS_MAKE_AVERAGE_POOL,
    [LS_NET_GLOBAL_POOL] = LS_MAKE_GLOBAL_POOL,
    [LS_NET_BATCH_NORM] = LS_MAKE_BATCH_NORM,
    [LS_NET_RELU] = LS_MAKE_RELU,
    [LS_NET_RESPONSE_NORM] = LS_MAKE_RESPONSE_NORM,
    [LS_NET_DROPOUT] = LS_MAKE_DROPOUT,
    [LS_NET_DENSE] = LS_MAKE_LINEAR,
    [LS_NET_ADD] = LS_MAKE_RESIDUAL,
};

/* What a layer reads besides the image, which is no node. */
static void read_outputs(const forward *f, ls_graph_node *made)
{
    const ls_net_layer *layer = &f->net->layers[f->layer];
    int used = 0;
    if (layer->from >= 0) made->inputs[used++] = f->outputs[layer->from];
    if (layer->kind == LS_NET_ADD && layer->beside >= 0)
        made->inputs[used] = f->outputs[layer->beside];
}

static ls_graph_node *node(const forward *f, ls_operation_kind make, ls_point point,
                           const char *name)
{
    ls_graph_node *made = &f->graph->nodes[ls_graph_append(f->graph, LS_GRAPH_FORWARD, make, name)];
    made->layer = f->layer;
    made->point = point;
    return made;
}

static int place_of(const forward *f, const ls_graph_node *made)
{
    return (int)(made - f->graph->nodes);
}

/* A batch norm's statistics, one number a channel. */
static void statistics(const forward *f, ls_operation_kind make, ls_point point)
{
    char name[LS_NET_NAME_BYTES + 16];
    snprintf(name, sizeof name, "%s.%s", f->net->layers[f->layer].name, ls_point_name(point));
    ls_graph_node *made = node(f, make, point, name);
    read_outputs(f, made);
    made->n_dims = 1;
    made->dims[0] = f->shapes.layer[f->layer].channels;
    snprintf(made->dim_names, sizeof made->dim_names, "C[channel]");
}

static int param(const forward *f, ls_role role)
{
    const size_t place = ls_param_find(f->graph->table, role, (size_t)f->layer);
    return place == (size_t)-1 ? -1 : (int)place;
}

static void read_params(const forward *f, ls_graph_node *made)
{
    switch (made->make) {
    case LS_MAKE_CONV:
        made->params[0] = param(f, LS_CONV_WEIGHT);
        made->params[1] = param(f, LS_CONV_BIAS);
        break;
    case LS_MAKE_LINEAR:
        made->params[0] = param(f, LS_DENSE_WEIGHT);
        made->params[1] = param(f, LS_DENSE_BIAS);
        break;
    case LS_MAKE_BATCH_NORM:
        made->params[0] = param(f, LS_BATCH_NORM_SCALE);
        made->params[1] = param(f, LS_BATCH_NORM_SHIFT);
        break;
    default:
        break;
    }
}

static void output(forward *f)
{
    const ls_net_layer *layer = &f->net->layers[f->layer];
    const ls_net_shape *shape = &f->shapes.layer[f->layer];
    if (layer->kind == LS_NET_BATCH_NORM) {
        statistics(f, LS_MAKE_BATCH_MEAN, LS_POINT_BATCH_MEAN);
        statistics(f, LS_MAKE_BATCH_RSTD, LS_POINT_BATCH_RSTD);
    }
    ls_graph_node *made = node(f, makes[layer->kind], LS_POINT_OUTPUT, layer->name);
    read_outputs(f, made);
    read_params(f, made);
    if (layer->kind == LS_NET_DROPOUT) made->purpose = LS_RANDOM_DROPOUT_NET;
    made->n_dims = 4;
    made->dims[0] = f->graph->B;
    made->dims[1] = shape->channels;
    made->dims[2] = shape->height;
    made->dims[3] = shape->width;
    snprintf(made->dim_names, sizeof made->dim_names, "N[dp] C[channel] H[down] W[across]");
    f->outputs[f->layer] = place_of(f, made);
}

void ls_graph_net_forward(ls_graph *graph)
{
    forward f = {.graph = graph, .net = &graph->table->config.net};
    ls_net_shapes_of(f.net, &f.shapes);
    for (f.layer = 0; f.layer < (int)f.net->count; f.layer++) output(&f);
    const int logits = f.outputs[f.net->count - 1];
    f.layer = -1;
    ls_graph_node *made = node(&f, LS_MAKE_IMAGE_LOSS, LS_POINT_IMAGE_LOSS, "image_loss");
    made->inputs[0] = logits;
    made->n_dims = 1;
    made->dims[0] = graph->B;
    snprintf(made->dim_names, sizeof made->dim_names, "N[dp]");
    node(&f, LS_MAKE_MEAN, LS_POINTS, "loss")->inputs[0] = place_of(&f, made);
}

void ls_graph_net_param(ls_graph_node *made, const ls_param *param)
{
    const char *names = "C[channel]";
    made->n_dims = param->n_shape;
    for (int d = 0; d < made->n_dims; d++) made->dims[d] = param->shape[d];
    if (param->role == LS_CONV_WEIGHT) names = "C[channel] I KH KW";
    if (param->role == LS_DENSE_WEIGHT) names = "I C[channel]";
    snprintf(made->dim_names, sizeof made->dim_names, "%s", names);
}
