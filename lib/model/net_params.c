/* net_params.c - the parameters of a convolutional network, from the rows of its layers' kinds. */
#include "model/net_params.h"

#include <math.h>
#include <stdio.h>

#include "model/net_parts.h"

/* A number for each channel made. */
static void fill_vector(ls_param *param)
{
    param->n_dims = 1;
    param->dims[0] = ls_axis_extent(param->axis);
    param->dims[1] = 1;
    param->cut = 0;
}

/* terms: of the sum that makes one output. */
static void fill_weight(ls_param *param, size_t terms, int cut)
{
    param->n_dims = 2;
    param->cut = cut;
    param->dims[cut] = ls_axis_extent(param->axis);
    param->dims[1 - cut] = terms;
    param->std = sqrt(2 / (double)terms);
    param->decay = true;
}

/* The dimensions of a window's weight: made, read, kernel rows and columns. */
static void fill_window(ls_param *param, const ls_net_layer *layer, const ls_net_shape *in)
{
    param->n_shape = 4;
    param->shape[0] = layer->channels;
    param->shape[1] = in->channels / layer->groups;
    param->shape[2] = layer->kernel_h;
    param->shape[3] = layer->kernel_w;
}

static void add(ls_param_table *table, size_t l, const ls_net_param *is, const ls_net_shape *in,
                ls_axis axis)
{
    const ls_net_layer *layer = &table->config.net.layers[l];
    if (is->form == LS_NET_NO_PARAM || (is->form == LS_NET_BIAS && !layer->bias)) return;
    ls_param *param = &table->params[table->count++];
    *param = (ls_param){.role = is->role,
                        .layer = l,
                        .stage = LS_STAGE_LAYER,
                        .uses = is->form == LS_NET_STATE ? 0 : 1,
                        .state = is->form == LS_NET_STATE,
                        .init = is->init,
                        .kind = LS_GRANULE_CHANNELS,
                        .axis = axis};
    snprintf(param->name, sizeof param->name, "%s.%s", layer->name, is->name);
    if (is->form == LS_NET_WEIGHT_ROWS || is->form == LS_NET_WEIGHT_COLUMNS)
        fill_weight(param, ls_net_terms(layer, in), is->form == LS_NET_WEIGHT_ROWS ? 0 : 1);
    else
        fill_vector(param);
    if (is->form == LS_NET_WEIGHT_ROWS) fill_window(param, layer, in);
}

void ls_net_params_add(ls_param_table *table)
{
    const ls_net *net = &table->config.net;
    ls_net_shapes shapes;
    ls_net_shapes_of(net, &shapes);
    for (size_t l = 0; l < net->count; l++) {
        const ls_net_kind_row *row = ls_net_kind_row_of(net->layers[l].kind);
        for (int i = 0; i < LS_NET_PARAMS; i++)
            add(table, l, &row->params[i], ls_net_shape_at(&shapes, net->layers[l].from),
                shapes.layer[l].axis);
    }
}
