/* update.c - the norm of the gradient over all shards, and the optimizer's step. */
#include "lockstep/parallel/data/update.h"

#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/layout/placement.h"
#include "comm/all_reduce_owned.h"
#include "parallel/data/observe_step.h"

void ls_add_uses(ls_store *store)
{
    for (size_t i = 0; i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        for (int use = 1; use < LS_MAX_USES; use++)
            if (slot->grad[0] && slot->grad[use])
                ls_add(slot->grad[0], slot->grad[0], slot->grad[use], slot->rows * slot->cols);
    }
}

ls_status ls_shared_squares_seen(ls_step_observer look, ls_group *model, const ls_layout *layout,
                                 const ls_store *store, ls_arena *temporary, double *ret_squares)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(temporary);
    const ls_param_table *table = store->table;
    size_t n = ls_param_table_granules(table), at = 0;
    int own = ls_group_rank(model);
    double *squares;

    LS_TRY(ls_arena_zalloc(temporary, n, sizeof *squares, (void *)&squares));
    ls_store_squares(store, squares);
    /* Only the first holder of a granule contributes its squares. */
    for (size_t i = 0; i < table->count; i++)
        for (size_t g = 0; !table->params[i].state && g < table->params[i].axis.granules; g++, at++)
            if (!store->slots[i].value || ls_first_holder(table, layout, i, g) != own)
                squares[at] = -0.0;
    const ls_node leaf = {(size_t)own, (size_t)own + 1};
    LS_TRY(ls_observe_at_step(look, model, LS_VIEW_SQUARES, LS_F64, leaf,
                              (size_t)ls_group_size(model), n, squares));
    LS_TRY(ls_all_reduce_owned(model, squares, squares, n, LS_F64, temporary));
    LS_TRY(
        ls_observe_at_step(look, model, LS_VIEW_SQUARES, LS_F64, (ls_node){0, 0}, 0, n, squares));
    *ret_squares = ls_tree_sum_f64(squares, n, 1);
exit:
    ls_arena_release(temporary, mark);
    return status;
}

ls_status ls_shared_squares(ls_group *model, const ls_layout *layout, const ls_store *store,
                            ls_arena *temporary, double *ret_squares)
{
    return ls_shared_squares_seen((ls_step_observer){NULL, 0}, model, layout, store, temporary,
                                  ret_squares);
}

void ls_shard_clip(ls_store *store, double squares, double max_norm)
{
    double factor = ls_clip_factor(squares, max_norm);
    for (size_t i = 0; factor != 1 && i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        if (slot->value && !store->table->params[i].state)
            ls_scale(slot->grad[0], slot->grad[0], (ls_real)factor, slot->rows * slot->cols);
    }
}

void ls_shard_step(ls_store *store, const ls_update *update)
{
    for (size_t i = 0; i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        if (slot->value && !store->table->params[i].state)
            ls_update_apply(update, store->table->params[i].decay, slot->value, slot->m, slot->v,
                            slot->grad[0], slot->rows * slot->cols);
    }
}

void ls_shard_update(ls_store *store, const ls_update *update, double squares, double max_norm)
{
    ls_shard_clip(store, squares, max_norm);
    ls_shard_step(store, update);
}
