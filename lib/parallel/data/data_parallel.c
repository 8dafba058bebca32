/* data_parallel.c - sums over replicas: counts of targets, gradients, losses. */
#include "lockstep/parallel/data/data_parallel.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "parallel/data/observe_step.h"

static int64_t count(const int32_t *labels, size_t n)
{
    int64_t valid = 0;
    for (size_t i = 0; i < n; i++) valid += labels[i] != LS_IGNORE;
    return valid;
}

ls_status ls_count_valid_seen(ls_step_observer look, ls_group *dp, const ls_config *config,
                              const ls_batch *batch, ls_valid *ret_valid)
{
    ls_status status = LS_OK;
    int64_t valid[2] = {count(batch->targets, batch->B * batch->S), 0};
    size_t kinds = config->sentence_order ? 2 : 1, own = (size_t)ls_group_rank(dp);
    if (config->sentence_order && batch->order) valid[1] = count(batch->order, batch->B);
    if (ls_group_size(dp) > 1) {
        LS_TRY(ls_observe_at_step(look, dp, LS_VIEW_TARGET_COUNTS, LS_I64, (ls_node){own, own + 1},
                                  (size_t)ls_group_size(dp), kinds, valid));
        LS_TRY(ls_all_reduce(dp, valid, valid, kinds, LS_I64, LS_REDUCE_SUM));
        LS_TRY(ls_observe_at_step(look, dp, LS_VIEW_TARGET_COUNTS, LS_I64, (ls_node){0, 0}, 0,
                                  kinds, valid));
    }
    *ret_valid = (ls_valid){valid[0], valid[1]};
exit:
    return status;
}

ls_status ls_count_valid(ls_group *dp, const ls_config *config, const ls_batch *batch,
                         ls_valid *ret_valid)
{
    return ls_count_valid_seen((ls_step_observer){NULL, 0}, dp, config, batch, ret_valid);
}

/* Shows slot `slot` of the gradients that are made here: node lo .. hi of the tree over the
 * sequences, or (leaves 0) the total. */
static ls_status look_at_gradients(ls_step_observer look, ls_group *dp, const ls_store *store,
                                   size_t slot, ls_node node, size_t leaves)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    for (size_t i = 0; look.observer && i < table->count; i++) {
        const ls_slot *own = &store->slots[i];
        const bool tied = table->params[i].uses > 1;
        for (int use = 0; use < table->params[i].uses; use++) {
            const ls_observed_param at = {.kind =
                                              tied ? LS_VIEW_USE_GRADIENT : LS_VIEW_PARAM_GRADIENT,
                                          .use = tied ? use : -1,
                                          .step = look.step,
                                          .dtype = LS_REAL_DTYPE,
                                          .comm = leaves > 0 ? LS_COMM_PARTIAL : LS_COMM_TOTAL,
                                          .lo = node.lo,
                                          .hi = node.hi,
                                          .leaves = leaves};
            if (own->made[use])
                LS_TRY(ls_observe_at_param(look.observer, ls_group_owner(dp), at, table, i,
                                           own->shard,
                                           own->grad[use] + slot * store->gradient_count));
        }
    }
exit:
    return status;
}

ls_status ls_reduce_gradients_seen(ls_step_observer look, ls_group *dp, ls_store *store,
                                   ls_batch_cut cut)
{
    ls_status status = LS_OK;
    ls_forest forest = {cut.sequences, cut.bounds};
    ls_node nodes[LS_FOREST_MAX];
    size_t own = (size_t)ls_group_rank(dp);
    if (ls_group_size(dp) == 1) return LS_OK;
    const size_t n = ls_tree_forest(cut.sequences, cut.bounds[own], cut.bounds[own + 1], nodes);
    for (size_t j = 0; j < n; j++)
        LS_TRY(look_at_gradients(look, dp, store, j, nodes[j], cut.sequences));
    LS_TRY(ls_all_reduce_forest(dp, store->gradient_slab, store->gradient_slab,
                                store->gradient_count, LS_REAL_DTYPE, &forest));
    LS_TRY(look_at_gradients(look, dp, store, 0, (ls_node){0, 0}, 0));
exit:
    return status;
}

ls_status ls_reduce_gradients(ls_group *dp, ls_store *store, ls_batch_cut cut)
{
    return ls_reduce_gradients_seen((ls_step_observer){NULL, 0}, dp, store, cut);
}

/* Ended, divided once (rules 9 and 15). */
static ls_real mean(ls_real sum, int64_t valid)
{
    ls_normalize_zero(&sum, 1);
    return valid > 0 ? sum / (ls_real)valid : 0;
}

ls_status ls_reduce_loss_seen(ls_step_observer look, ls_group *dp, ls_sequence_losses sequences,
                              ls_batch_cut cut, ls_valid valid, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_forest forest = {cut.sequences, cut.bounds};
    ls_node nodes[LS_FOREST_MAX];
    ls_real partials[2 * LS_FOREST_MAX];
    size_t member = (size_t)ls_group_rank(dp), first = cut.bounds[member];
    size_t n = ls_tree_forest(cut.sequences, first, cut.bounds[member + 1], nodes);
    size_t kinds = sequences.order ? 2 : 1;
    if (ls_group_size(dp) == 1) look.observer = NULL; /* nothing crosses */

    for (size_t j = 0; j < n; j++) {
        size_t at = nodes[j].lo - first, under = nodes[j].hi - nodes[j].lo;
        partials[j * kinds] = ls_tree_sum(sequences.tokens + at, under, 1);
        if (sequences.order) partials[j * kinds + 1] = ls_tree_sum(sequences.order + at, under, 1);
        LS_TRY(ls_observe_at_step(look, dp, LS_VIEW_LOSS_SUMS, LS_REAL_DTYPE, nodes[j],
                                  cut.sequences, kinds, partials + j * kinds));
    }
    if (ls_group_size(dp) > 1)
        LS_TRY(ls_all_reduce_forest(dp, partials, partials, kinds, LS_REAL_DTYPE, &forest));
    LS_TRY(ls_observe_at_step(look, dp, LS_VIEW_LOSS_SUMS, LS_REAL_DTYPE, (ls_node){0, 0}, 0, kinds,
                              partials));
    *ret_loss = mean(partials[0], valid.targets);
    /* losses in order (rule 11) */
    if (sequences.order) *ret_loss = *ret_loss + mean(partials[1], valid.labels);
exit:
    return status;
}

ls_status ls_reduce_loss(ls_group *dp, ls_sequence_losses sequences, ls_batch_cut cut,
                         ls_valid valid, ls_real *ret_loss)
{
    return ls_reduce_loss_seen((ls_step_observer){NULL, 0}, dp, sequences, cut, valid, ret_loss);
}
