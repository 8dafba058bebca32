/* sharded_net.c - a rank's part of a convolutional network, made and taken down. */
#include "lockstep/parallel/spatial/sharded_net.h"

#include <stdlib.h>

#include "parallel/spatial/net_boxes.h"
#include "base/allocate.h"

#define OPERATIONS(KIND, name) [LS_NET_##KIND] = &LS_NET_OPERATIONS(name),
static const ls_net_operations *const kinds[LS_NET_KINDS] = {LS_NET_EACH_KIND(OPERATIONS)};

static ls_status fill_layer(ls_sharded_net *net, size_t n)
{
    ls_status status = LS_OK;
    ls_net_layer_state *l = &net->layers[n];
    const ls_net_layer *layer = &net->net->layers[n];
    l->layer = layer;
    l->number = n;
    l->grid = net->grids.layer[n];
    l->at = ls_layer_grid_place(&l->grid, ls_group_rank(net->setup.world));
    l->shape = &net->shapes.layer[n];
    l->n_inputs = ls_net_traits_of(layer->kind)->inputs;
    for (int i = 0; i < l->n_inputs; i++) {
        l->input[i].from = ls_net_input_of(layer, i);
        l->input[i].shape = ls_net_shape_at(&net->shapes, l->input[i].from);
    }
    l->operations = kinds[layer->kind];
    if (ls_layer_grid_ranks(&l->grid) != ls_group_size(net->setup.world))
        LS_FAIL(LS_ERR_INPUT, "layer %s: a grid of %d ranks in a world of %d", layer->name,
                ls_layer_grid_ranks(&l->grid), ls_group_size(net->setup.world));
    if (ls_net_traits_of(layer->kind)->channels == LS_NET_GROUP &&
        !ls_net_channels_fit(layer, l->shape, (size_t)l->grid.channels))
        LS_FAIL(LS_ERR_INPUT,
                "layer %s: %zu granules of channels in %zu groups, cut into %d parts: allowed are "
                "equal parts that are whole groups, or parts of one",
                layer->name, l->shape->axis.granules, layer->groups, l->grid.channels);
    LS_TRY(ls_arena_create(&l->gradients, net->memory, LS_MEM_TEMPORARY));
exit:
    return status;
}

/* Sums in the grid of layer l over the pixels of `shape`: an earlier layer's, or new ones. */
static ls_status find_sums(ls_sharded_net *net, const ls_net_layer_state *l,
                           const ls_net_shape *shape, ls_net_sums **ret_sums)
{
    ls_status status = LS_OK;
    /* An image of one pixel, which is not cut: all granules but one would be empty. */
    const bool one = shape->height * shape->width == 1 && l->grid.down * l->grid.across == 1;
    const size_t rows = one ? 1 : net->net->row_granules;
    const size_t columns = one ? 1 : net->net->column_granules;
    ls_net_sums *sums = NULL;
    for (const ls_net_layer_state *other = net->layers; other <= l; other++)
        if (other->sums && ls_layer_grid_equal(other->grid, l->grid) &&
            other->sums->pixels.rows == rows && other->sums->pixels.columns == columns)
            sums = other->sums;
    if (sums == NULL) {
        LS_TRY(
            ls_net_sums_create(&sums, net->setup.world, &l->grid, rows, columns, net->setup.batch));
        net->sums[net->n_sums++] = sums;
    }
    *ret_sums = sums;
exit:
    return status;
}

/* The ranks of other channels: an earlier layer's, or a new group. */
static ls_status find_columns(ls_sharded_net *net, ls_net_layer_state *l)
{
    ls_status status = LS_OK;
    if (l->grid.channels == 1) goto exit;
    for (const ls_net_layer_state *other = net->layers; other < l; other++)
        if (ls_layer_grid_equal(other->grid, l->grid)) l->columns = other->columns;
    if (l->columns) goto exit;
    const int pixels = l->at.column + l->grid.across * (l->at.row + l->grid.down * l->at.sample);
    LS_TRY(ls_group_split(net->setup.world, pixels, l->at.channel, "channels", &l->columns));
exit:
    return status;
}

ls_status ls_sharded_net_create(ls_sharded_net **ret_net, const ls_sharded_net_setup *setup,
                                ls_store *store)
{
    ls_status status = LS_OK;
    const ls_config *config = &store->table->config;
    ls_sharded_net *net = NULL;
    LS_NEW(net, 1);
    net->net = &config->net;
    LS_TRY(ls_config_require(config, LS_MODEL_NET, "a sharded network"));
    net->setup = *setup;
    net->layout = *setup->layout;
    net->setup.layout = &net->layout;
    net->store = store;
    net->memory = ls_rank_memory(ls_group_owner(setup->world));
    ls_net_shapes_of(net->net, &net->shapes);
    ls_net_grids_of(&net->layout, net->net, &net->grids);
    LS_NEW(net->layers, net->net->count);
    LS_NEW(net->sums, net->net->count + 1);
    LS_TRY(ls_arena_create(&net->lasting, NULL, LS_MEM_TEMPORARY)); /* tables: as in stages */
    LS_TRY(ls_arena_create(&net->saved, net->memory, LS_MEM_ACTIVATIONS));
    LS_TRY(ls_arena_create(&net->temporary, net->memory, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&net->handed, net->memory, LS_MEM_COMMUNICATION));
    for (size_t n = 0; n < net->net->count; n++) LS_TRY(fill_layer(net, n));
    LS_TRY(ls_net_boxes_create(net));
    for (size_t n = 0; n < net->net->count; n++) {
        ls_net_layer_state *l = &net->layers[n];
        if (l->operations->sums != LS_NET_NO_SUMS)
            LS_TRY(find_sums(
                net, l, l->operations->sums == LS_NET_SUMS_INPUT ? l->input[0].shape : l->shape,
                &l->sums));
        LS_TRY(find_columns(net, l));
        if (l->operations->create) LS_TRY(l->operations->create(net, l));
    }
    /* The logits are single pixels, whatever the last layer sums over. */
    const ls_net_layer_state *last = &net->layers[net->net->count - 1];
    LS_TRY(find_sums(net, last, last->shape, &net->loss_sums));
    *ret_net = net;
    net = NULL;
exit:
    ls_sharded_net_destroy(&net);
    return status;
}

void ls_sharded_net_destroy(ls_sharded_net **net)
{
    if (net == NULL || *net == NULL) return;
    ls_sharded_net *old = *net;
    if (old->layers) {
        ls_net_boxes_destroy(old);
        for (size_t n = 0; n < old->net->count; n++) ls_arena_destroy(&old->layers[n].gradients);
    }
    for (size_t i = 0; i < old->n_sums; i++) ls_net_sums_destroy(&old->sums[i]);
    ls_arena_destroy(&old->handed);
    ls_arena_destroy(&old->temporary);
    ls_arena_destroy(&old->saved);
    ls_arena_destroy(&old->lasting);
    free(old->sums);
    free(old->layers);
    free(old);
    *net = NULL;
}
