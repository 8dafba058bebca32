/* placement.c - which rank holds which granules of each parameter. */
#include "lockstep/parallel/layout/placement.h"

#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/layout/sharding.h"

/* The stage s with bounds[s] <= layer < bounds[s + 1] of ls_layout_stage_bounds. Even shares are
 * found without going through the stages: every rank asks this of every parameter. */
static int stage_of_layer(const ls_layout *layout, size_t layers, size_t layer)
{
    size_t stages = (size_t)ls_layout_stages(layout);
    if (!layout->given) {
        size_t base = layers / stages, longer = layers % stages, in_longer = longer * (base + 1);
        if (layer < in_longer) return (int)(layer / (base + 1));
        return (int)(longer + (layer - in_longer) / base);
    }
    int s = 0;
    for (size_t end = (size_t)layout->stage_layers[0]; layer >= end; s++)
        end += (size_t)layout->stage_layers[s + 1];
    return s;
}

int ls_stage_of_param(const ls_layout *layout, const ls_param_table *table, size_t param)
{
    const ls_param *p = &table->params[param];
    if (p->stage == LS_STAGE_FIRST || p->kind == LS_GRANULE_CHANNELS) return 0;
    if (p->stage == LS_STAGE_LAST) return ls_layout_stages(layout) - 1;
    return stage_of_layer(layout, table->config.layers, p->layer);
}

/* ---- convolutional networks ---- */

/* The granules of channel coordinate `channel` in the grid of the parameter's layer. */
static ls_shard net_shard(const ls_param *param, const ls_layer_grid *grid, int channel)
{
    const ls_share share =
        ls_share_of(param->axis.granules, (size_t)grid->channels, (size_t)channel);
    return (ls_shard){share.first, share.count};
}

/* Every rank holds a part, since channels divide the granules. A state has no use. */
static ls_holding net_holding(const ls_param *param, const ls_layer_grid *grid, int rank)
{
    ls_holding holding = {.held = true,
                          .shard = net_shard(param, grid, ls_layer_grid_place(grid, rank).channel)};
    for (int use = 0; use < param->uses; use++) holding.use_held[use] = true;
    return holding;
}

static bool has(ls_shard shard, size_t granule)
{
    return shard.first <= granule && granule < shard.first + shard.count;
}

/* The first rank of each channel coordinate is that number: channels are the fastest. */
static int net_first_holder(const ls_param *param, const ls_layer_grid *grid, size_t granule)
{
    int channel = 0;
    while (!has(net_shard(param, grid, channel), granule)) channel++;
    return channel;
}

static ls_layer_grid grid_of(const ls_param_table *table, const ls_layout *layout, size_t param)
{
    return ls_net_grid_of(layout, &table->config.net, (int)table->params[param].layer);
}

/* ---- all ---- */

ls_holding ls_holding_of(const ls_param_table *table, const ls_layout *layout, int rank,
                         size_t param)
{
    ls_holding holding = {.held = false};
    const ls_param *p = &table->params[param];
    if (p->kind == LS_GRANULE_CHANNELS) {
        const ls_layer_grid grid = grid_of(table, layout, param);
        return net_holding(p, &grid, rank);
    }
    ls_coordinates at = ls_layout_coordinates(layout, rank);
    bool makes[LS_MAX_USES];
    makes[0] = ls_stage_of_param(layout, table, param) % layout->pp == at.pp;
    makes[1] = p->also_last && at.pp == layout->pp - 1;
    for (int use = 0; use < LS_MAX_USES; use++) holding.held |= makes[use];
    if (!holding.held) return holding;
    for (int use = 0; use < p->uses; use++) {
        holding.use_held[use] = makes[use];
        holding.use_received[use] = !makes[use];
    }
    holding.shard = ls_shard_of(&table->config, p->kind, layout->tp, at.tp);
    return holding;
}

void ls_holdings_of(const ls_param_table *table, const ls_layout *layout, int rank,
                    ls_holding *ret_holdings)
{
    for (size_t i = 0; i < table->count; i++)
        ret_holdings[i] = ls_holding_of(table, layout, rank, i);
}

int ls_first_holder(const ls_param_table *table, const ls_layout *layout, size_t param,
                    size_t granule)
{
    const ls_param *p = &table->params[param];
    if (p->kind == LS_GRANULE_CHANNELS) {
        const ls_layer_grid grid = grid_of(table, layout, param);
        return net_first_holder(p, &grid, granule);
    }
    int first = layout->tp * (ls_stage_of_param(layout, table, param) % layout->pp);
    for (int r = 0; r < layout->tp; r++)
        if (has(ls_shard_of(&table->config, p->kind, layout->tp, r), granule)) return first + r;
    return first;
}
