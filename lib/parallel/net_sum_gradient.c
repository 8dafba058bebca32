/* net_sum_gradient.c - the gradient of a parameter of a network, from the ranks that have other
 * images and pixels. */
#include "parallel/look_at_param.h"
#include "parallel/net_layer_state.h"

/* A part, of node j, or all of the gradient. Nothing crosses ranks when there is one. */
static ls_status look(const ls_sharded_net *net, const ls_net_sums *sums, const ls_slot *slot,
                      const ls_real *values, size_t j, bool part)
{
    const ls_param_look at = {.kind = LS_VIEW_PARAM_GRADIENT,
                              .use = -1,
                              .step = net->batch.step,
                              .dtype = LS_REAL_DTYPE,
                              .crossing = part ? LS_CROSSING_PARTIAL : LS_CROSSING_TOTAL,
                              .lo = part ? sums->nodes[j].lo : 0,
                              .hi = part ? sums->nodes[j].hi : 0,
                              .leaves = part ? sums->tree.leaves : 0};
    if (net->setup.tap == NULL || sums->plan->members == 1) return LS_OK;
    return ls_look_at_param(net->setup.tap, ls_group_owner(sums->members), at, net->store->table,
                            (size_t)(slot - net->store->slots), slot->shard, values);
}

ls_status ls_net_sum_gradient(const ls_sharded_net *net, const ls_net_layer_state *l, ls_slot *slot,
                              const ls_real *values)
{
    ls_status status = LS_OK;
    const ls_net_sums *sums = l->sums;
    const size_t count = slot->rows * slot->cols;
    for (size_t j = 0; j < sums->n_nodes; j++)
        LS_TRY(look(net, sums, slot, values + j * count, j, true));
    LS_TRY(
        ls_all_reduce_plan(sums->members, slot->grad[0], values, count, LS_REAL_DTYPE, sums->plan));
    LS_TRY(look(net, sums, slot, slot->grad[0], 0, false));
exit:
    return status;
}
