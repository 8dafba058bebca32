/* net_channel_sums.c - dx where channels are cut:
 *
 *     dx = sum over granules g of output channels of W_g^T dy_g
 *
 * Each rank adds its own granules, one partial sum per node of the tree; a reduce-scatter among the
 * ranks of one group of channels adds the nodes and leaves each rank its share of dx. */
#include "parallel/spatial/net_channel_sums.h"

/* What place `channel` next to the own one takes of the input. */
static ls_image_box takes_at(const ls_sharded_net *net, const ls_net_layer_state *l, size_t channel)
{
    ls_grid_place at = l->at;
    at.channel = (int)channel;
    return ls_net_takes(net->net, &net->shapes, l->number, &l->grid, net->setup.batch,
                        ls_layer_grid_rank(&l->grid, at));
}

ls_status ls_net_channel_sums_create(ls_net_channel_sums **ret_sums, ls_sharded_net *net,
                                     const ls_net_layer_state *l, size_t first, size_t sharers,
                                     ls_share channels)
{
    ls_status status = LS_OK;
    const size_t own = (size_t)l->at.channel;
    ls_net_channel_sums *made = NULL;
    size_t *bounds = NULL, *starts = NULL;
    *ret_sums = NULL;
    if (sharers == 1) goto exit;
    LS_TRY(ls_arena_zalloc(net->lasting, 1, sizeof *made, (void *)&made));
    LS_TRY(ls_arena_alloc(net->lasting, sharers + 1, sizeof *bounds, (void *)&bounds));
    LS_TRY(ls_arena_alloc(net->lasting, sharers + 1, sizeof *starts, (void *)&starts));
    made->group = l->columns;
    if (sharers < (size_t)l->grid.channels)
        LS_TRY(ls_group_split(l->columns, (int)first, l->at.channel, "channels of a group",
                              &made->group));
    const size_t lowest = ls_net_channel_granules(l->shape, &l->grid, (int)first).first;
    bounds[0] = starts[0] = 0;
    for (size_t m = 0; m < sharers; m++) {
        const int at = (int)(first + m);
        bounds[m + 1] = bounds[m] + ls_net_channel_granules(l->shape, &l->grid, at).count;
        const ls_image_box takes = takes_at(net, l, first + m);
        starts[m + 1] = starts[m] + takes.channels.count;
        if (!ls_image_box_is_empty(&takes)) made->box = takes;
    }
    made->box.channels = channels;
    if (starts[sharers] == 0) made->box = (ls_image_box){.area = {0, 0, 0, 0}};
    if (starts[sharers] != made->box.channels.count)
        LS_FAIL(LS_ERR_INTERNAL, "layer %s: of %zu channels of its input %zu are taken",
                l->layer->name, channels.count, starts[sharers]);
    made->forest = (ls_forest){bounds[sharers], bounds};
    made->first = l->granules.first - lowest;
    made->n_nodes = ls_tree_forest(made->forest.leaves, bounds[own - first],
                                   bounds[own - first + 1], made->nodes);
    made->starts = starts;
    *ret_sums = made;
exit:
    return status;
}

ls_status ls_net_channel_sums_take(ls_sharded_net *net, const ls_net_channel_sums *sums,
                                   ls_real **ret_parts)
{
    return ls_arena_alloc(net->handed, sums->n_nodes * ls_image_box_count(&sums->box),
                          sizeof **ret_parts, (void *)ret_parts);
}

ls_status ls_net_channel_sums_finish(ls_sharded_net *net, const ls_net_layer_state *l,
                                     const ls_net_channel_sums *sums, const ls_real *parts,
                                     ls_real *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const size_t members = (size_t)ls_group_size(sums->group);
    const size_t area = ls_rectangle_count(sums->box.area);
    const size_t count = ls_image_box_count(&sums->box);
    size_t *starts = NULL;
    if (count == 0) goto exit; /* so it is for all of the group */
    for (size_t j = 0; j < sums->n_nodes; j++)
        LS_TRY(ls_net_show_sum(net, (size_t)l->input[0].from, &sums->box, sums->nodes[j],
                               sums->forest.leaves, parts + j * count));
    LS_TRY(ls_arena_alloc(net->temporary, members + 1, sizeof *starts, (void *)&starts));
    for (size_t m = 0; m <= members; m++) starts[m] = sums->starts[m] * area;
    LS_TRY(ls_reduce_scatter_columns_forest(sums->group, dx, parts, sums->box.images.count, starts,
                                            LS_REAL_DTYPE, &sums->forest));
    LS_TRY(
        ls_net_show_sum(net, (size_t)l->input[0].from, &l->input[0].takes, (ls_node){0, 0}, 0, dx));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}
