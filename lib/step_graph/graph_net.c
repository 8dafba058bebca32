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

/* The operation of each kind of layer. */
enum {
    make_conv = LS_MAKE_CONV,
    make_max_pool = LS_MAKE_MAX_POOL,
    make_avg_pool = LS_MAKE_AVERAGE_POOL,
    make_global_pool = LS_MAKE_GLOBAL_POOL,
    make_batch_norm = LS_MAKE_BATCH_NORM,
    make_relu = LS_MAKE_RELU,
    make_response_norm = LS_MAKE_RESPONSE_NORM,
    make_dropout = LS_MAKE_DROPOUT,
    make_dense = LS_MAKE_LINEAR,
    make_add = LS_MAKE_RESIDUAL
};
#define MAKES(KIND, name) [LS_NET_##KIND] = (ls_operation_kind)make_##name,
static const ls_operation_kind makes[LS_NET_KINDS] = {LS_NET_EACH_KIND(MAKES)};

/* What a layer reads besides the image, which is no node. */
static void read_outputs(const forward *f, ls_graph_node *made)
{
    const ls_net_layer *layer = &f->net->layers[f->layer];
    int used = 0;
    for (int i = 0; i < ls_net_traits_of(layer->kind)->inputs; i++)
        if (ls_net_input_of(layer, i) >= 0)
            made->inputs[used++] = f->outputs[ls_net_input_of(layer, i)];
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

/* The trained parameters of the layer, in the order of the table. */
static void read_params(const forward *f, ls_graph_node *made)
{
    const ls_param_table *table = f->graph->table;
    int used = 0;
    for (size_t i = 0; i < table->count && used < LS_NODE_PARAMS; i++)
        if (table->params[i].layer == (size_t)f->layer && !table->params[i].state)
            made->params[used++] = (int)i;
}

static void output(forward *f)
{
    const ls_net_layer *layer = &f->net->layers[f->layer];
    const ls_net_shape *shape = &f->shapes.layer[f->layer];
    if (ls_net_traits_of(layer->kind)->batch_statistics) {
        statistics(f, LS_MAKE_BATCH_MEAN, LS_POINT_BATCH_MEAN);
        statistics(f, LS_MAKE_BATCH_RSTD, LS_POINT_BATCH_RSTD);
    }
    ls_graph_node *made = node(f, makes[layer->kind], LS_POINT_OUTPUT, layer->name);
    read_outputs(f, made);
    read_params(f, made);
    if (made->make == LS_MAKE_DROPOUT) made->purpose = LS_RANDOM_DROPOUT_NET;
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
    if (made->n_dims == 4) names = "C[channel] I KH KW";
    if (made->n_dims == 2) names = "I C[channel]";
    snprintf(made->dim_names, sizeof made->dim_names, "%s", names);
}
