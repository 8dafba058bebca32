/* net_slot.c - the slot of a layer's parameter, with what of it this rank must have. */
#include "parallel/spatial/net_layer_state.h"

ls_status ls_net_slot(const ls_sharded_net *net, const ls_net_layer_state *l, ls_role role,
                      ls_slot **ret_slot)
{
    ls_status status = LS_OK;
    const ls_param_table *table = net->store->table;
    const size_t param = ls_param_find(table, role, l->number);
    if (param == (size_t)-1)
        LS_FAIL(LS_ERR_INPUT, "layer %s: the store's table has no such parameter (role %d)",
                l->layer->name, (int)role);
    const ls_param *p = &table->params[param];
    ls_slot *slot = &net->store->slots[param];
    if (slot->value == NULL || slot->shard.first != l->granules.first ||
        slot->shard.count != l->granules.count)
        LS_FAIL(LS_ERR_INPUT,
                "%s: the store holds granules %zu to below %zu, this rank's are %zu "
                "to below %zu",
                p->name, slot->shard.first, slot->value ? slot->shard.first + slot->shard.count : 0,
                l->granules.first, l->granules.first + l->granules.count);
    if (!p->state && slot->grad[0] == NULL)
        LS_FAIL(LS_ERR_INPUT, "%s: the store has no gradient of it", p->name);
    *ret_slot = slot;
exit:
    return status;
}
