/* net_sum_gradient.c - the gradient of a parameter of a network, from the ranks that have other
 * images and pixels. */
#include "parallel/hooks/observe_param.h"
#include "parallel/spatial/net_layer_state.h"

ls_status ls_net_show_gradient(const ls_sharded_net *net, const ls_net_layer_state *l,
                               const ls_slot *slot, const ls_real *values, size_t stride, bool part)
{
    ls_status status = LS_OK;
    const ls_net_sums *sums = l->sums;
    if (net->setup.observer == NULL || sums->plan->members == 1) return LS_OK; /* nothing crosses */
    for (size_t j = 0; j < (part ? sums->n_nodes : 1); j++) {
        ls_view node = {.comm = LS_COMM_TOTAL};
        if (part) ls_net_fill_node(&node, &sums->pixels, sums->nodes[j]);
        const ls_observed_param at = {.kind = LS_VIEW_PARAM_GRADIENT,
                                      .use = -1,
                                      .step = net->batch.step,
                                      .dtype = LS_REAL_DTYPE,
                                      .comm = node.comm,
                                      .lo = node.lo,
                                      .hi = node.hi,
                                      .leaves = node.leaves,
                                      .rows = node.rows,
                                      .columns = node.columns};
        LS_TRY(ls_observe_at_param(net->setup.observer, ls_group_owner(sums->members), at,
                                   net->store->table, (size_t)(slot - net->store->slots),
                                   slot->shard, values + j * stride));
    }
exit:
    return status;
}

ls_status ls_net_sum_gradient(const ls_sharded_net *net, const ls_net_layer_state *l, ls_slot *slot,
                              const ls_real *values)
{
    ls_status status = LS_OK;
    const ls_net_sums *sums = l->sums;
    const size_t count = slot->rows * slot->cols;
    LS_TRY(ls_net_show_gradient(net, l, slot, values, count, true));
    LS_TRY(
        ls_all_reduce_plan(sums->members, slot->grad[0], values, count, LS_REAL_DTYPE, sums->plan));
    LS_TRY(ls_net_show_gradient(net, l, slot, slot->grad[0], count, false));
exit:
    return status;
}
