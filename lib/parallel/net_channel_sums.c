#include "parallel/net_channel_sums.h"

/* The input's channels that place `channel` of the layer's grid has. */
static ls_share channels_at(const ls_net_layer_state *l, size_t channel)
{
    const ls_net_shape *in = l->input[0].shape;
    const ls_share granules = ls_net_channel_granules(in, &l->grid, (int)channel);
    return (ls_share){granules.first * in->axis.granule, granules.count * in->axis.granule};
}

/* That these ranks have, together and in order, what they all read. */
static ls_status check_channels(const ls_net_layer_state *l, size_t first, size_t sharers,
                                ls_share channels)
{
    ls_status status = LS_OK;
    const ls_share lowest = channels_at(l, first), highest = channels_at(l, first + sharers - 1);
    if (lowest.first != channels.first ||
        highest.first + highest.count != channels.first + channels.count)
        LS_FAIL(LS_ERR_INPUT,
                "layer %s: ranks that have channels %zu to below %zu of its input would read %zu "
                "to below %zu: cut its channels so that these are the same",
                l->layer->name, lowest.first, highest.first + highest.count, channels.first,
                channels.first + channels.count);
exit:
    return status;
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
    LS_TRY(check_channels(l, first, sharers, channels));
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
        starts[m + 1] = starts[m] + channels_at(l, first + m).count;
    }
    made->forest = (ls_forest){bounds[sharers], bounds};
    made->first = l->granules.first - lowest;
    made->n_nodes = ls_tree_forest(made->forest.leaves, bounds[own - first],
                                   bounds[own - first + 1], made->nodes);
    made->channels = channels;
    made->starts = starts;
    *ret_sums = made;
exit:
    return status;
}

ls_status ls_net_channel_sums_take(ls_sharded_net *net, const ls_net_layer_state *l,
                                   const ls_net_channel_sums *sums, ls_image_box *ret_box,
                                   ls_real **ret_parts)
{
    ls_image_box box = l->input[0].takes;
    if (!ls_image_box_is_empty(&box)) box.channels = sums->channels;
    *ret_box = box;
    return ls_arena_alloc(net->handed, sums->n_nodes * ls_image_box_count(&box), sizeof **ret_parts,
                          (void *)ret_parts);
}

ls_status ls_net_channel_sums_finish(ls_sharded_net *net, const ls_net_layer_state *l,
                                     const ls_net_channel_sums *sums, const ls_image_box *box,
                                     const ls_real *parts, ls_real *dx)
{
    ls_status status = LS_OK;
    const size_t mark = ls_arena_mark(net->temporary);
    const size_t members = (size_t)ls_group_size(sums->group);
    const size_t area = ls_rectangle_count(box->area), count = ls_image_box_count(box);
    size_t *starts = NULL;
    /* The others of the group have the same images and pixels, so none of them has anything. */
    if (count == 0) goto exit;
    for (size_t j = 0; j < sums->n_nodes; j++)
        LS_TRY(ls_net_show_partial(net, (size_t)l->input[0].from, box, sums->nodes[j],
                                   sums->forest.leaves, parts + j * count));
    LS_TRY(ls_arena_alloc(net->temporary, members + 1, sizeof *starts, (void *)&starts));
    for (size_t m = 0; m <= members; m++) starts[m] = sums->starts[m] * area;
    LS_TRY(ls_reduce_scatter_columns_forest(sums->group, dx, parts, box->images.count, starts,
                                            LS_REAL_DTYPE, &sums->forest));
exit:
    ls_arena_release(net->temporary, mark);
    return status;
}
