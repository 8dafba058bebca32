#include "lockstep/parallel/placement.h"

#include "lockstep/parallel/sharding.h"

int ls_stage_of_param(const ls_layout *layout, const ls_param_table *table, size_t param)
{
    size_t bounds[LS_MAX_STAGES + 1];
    int stages = ls_layout_stages(layout), s = 0;
    const ls_param *p = &table->params[param];
    if (p->stage == LS_STAGE_FIRST) return 0;
    if (p->stage == LS_STAGE_LAST) return stages - 1;
    ls_layout_stage_bounds(layout, table->config.layers, bounds);
    while (p->layer >= bounds[s + 1]) s++;
    return s;
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
