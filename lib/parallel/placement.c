#include "lockstep/parallel/placement.h"

#include "lockstep/parallel/sharding.h"

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
    if (p->stage == LS_STAGE_FIRST) return 0;
    if (p->stage == LS_STAGE_LAST) return ls_layout_stages(layout) - 1;
    return stage_of_layer(layout, table->config.layers, p->layer);
}

ls_holding ls_holding_of(const ls_param_table *table, const ls_layout *layout, int rank,
                         size_t param)
{
    ls_holding holding = {.held = false};
    const ls_param *p = &table->params[param];
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
    int first = layout->tp * (ls_stage_of_param(layout, table, param) % layout->pp);
    for (int r = 0; r < layout->tp; r++) {
        ls_shard shard = ls_shard_of(&table->config, table->params[param].kind, layout->tp, r);
        if (shard.first <= granule && granule < shard.first + shard.count) return first + r;
    }
    return first;
}
