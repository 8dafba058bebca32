#include "model/net_params.h"

#include <math.h>
#include <stdio.h>

/* What is being written: the entries of one layer. */
typedef struct builder {
    ls_param_table *table;
    size_t layer;
    const char *layer_name;
    ls_axis axis; /* of the channels made */
} builder;

static ls_param *add(const builder *b, ls_role role, const char *name)
{
    ls_param *param = &b->table->params[b->table->count++];
    *param = (ls_param){.role = role,
                        .layer = b->layer,
                        .stage = LS_STAGE_LAYER,
                        .uses = 1,
                        .kind = LS_GRANULE_CHANNELS,
                        .axis = b->axis};
    snprintf(param->name, sizeof param->name, "%s.%s", b->layer_name, name);
    return param;
}

static ls_param *add_vector(const builder *b, ls_role role, const char *name, ls_init_kind init)
{
    ls_param *param = add(b, role, name);
    param->n_dims = 1;
    param->dims[0] = ls_axis_extent(b->axis);
    param->dims[1] = 1;
    param->cut = 0;
    param->init = init;
    return param;
}

/* terms: of the sum that makes one output. */
static ls_param *add_matrix(const builder *b, ls_role role, size_t rows, size_t columns, int cut,
                            size_t terms)
{
    ls_param *param = add(b, role, "weight");
    param->n_dims = 2;
    param->dims[0] = rows;
    param->dims[1] = columns;
    param->cut = cut;
    param->init = LS_INIT_NORMAL;
    param->std = sqrt(2 / (double)terms);
    param->decay = true;
    return param;
}

static void add_conv(const builder *b, const ls_net_layer *layer, const ls_net_shape *in)
{
    const size_t read = in->channels / layer->groups;
    const size_t terms = read * layer->kernel_h * layer->kernel_w;
    ls_param *param = add_matrix(b, LS_CONV_WEIGHT, layer->channels, terms, 0, terms);
    param->n_shape = 4;
    param->shape[0] = layer->channels;
    param->shape[1] = read;
    param->shape[2] = layer->kernel_h;
    param->shape[3] = layer->kernel_w;
    if (layer->bias) add_vector(b, LS_CONV_BIAS, "bias", LS_INIT_ZERO);
}

static void add_state(const builder *b, ls_role role, const char *name, ls_init_kind init)
{
    ls_param *param = add_vector(b, role, name, init);
    param->state = true;
    param->uses = 0;
}

/* Under PyTorch's names. */
static void add_batch_norm(const builder *b)
{
    add_vector(b, LS_BATCH_NORM_SCALE, "weight", LS_INIT_ONE);
    add_vector(b, LS_BATCH_NORM_SHIFT, "bias", LS_INIT_ZERO);
    add_state(b, LS_BATCH_NORM_MEAN, "running_mean", LS_INIT_ZERO);
    add_state(b, LS_BATCH_NORM_VARIANCE, "running_var", LS_INIT_ONE);
}

static void add_dense(const builder *b, const ls_net_layer *layer, const ls_net_shape *in)
{
    const size_t read = ls_net_shape_elements(in);
    add_matrix(b, LS_DENSE_WEIGHT, read, layer->channels, 1, read);
    if (layer->bias) add_vector(b, LS_DENSE_BIAS, "bias", LS_INIT_ZERO);
}

void ls_net_params_add(ls_param_table *table)
{
    const ls_net *net = &table->config.net;
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l < net->count; l++) {
        const ls_net_layer *layer = &net->layers[l];
        const ls_net_shape *in = ls_net_shape_at(&shapes, layer->from);
        const builder b = {table, l, layer->name, shapes.layer[l].axis};
        if (layer->kind == LS_NET_CONV) add_conv(&b, layer, in);
        if (layer->kind == LS_NET_BATCH_NORM) add_batch_norm(&b);
        if (layer->kind == LS_NET_DENSE) add_dense(&b, layer, in);
    }
}
