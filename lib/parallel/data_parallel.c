#include "lockstep/parallel/data_parallel.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "parallel/fault_parts.h"

static int64_t count(const int32_t *labels, size_t n)
{
    int64_t valid = 0;
    for (size_t i = 0; i < n; i++) valid += labels[i] != LS_IGNORE;
    return valid;
}

ls_status ls_count_valid(ls_group *dp, const ls_config *config, const ls_batch *batch,
                         ls_valid *ret_valid)
{
    ls_status status = LS_OK;
    int64_t valid[2] = {count(batch->targets, batch->B * batch->S), 0};
    if (config->sentence_order && batch->order) valid[1] = count(batch->order, batch->B);
    if (ls_group_size(dp) > 1)
        LS_TRY(
            ls_all_reduce(dp, valid, valid, config->sentence_order ? 2 : 1, LS_I64, LS_REDUCE_SUM));
    *ret_valid = (ls_valid){valid[0], valid[1]};
exit:
    return status;
}

ls_status ls_reduce_gradients(ls_group *dp, ls_store *store, ls_batch_cut cut)
{
    ls_status status = LS_OK;
    ls_forest forest = {cut.sequences, cut.bounds};
    if (ls_group_size(dp) == 1) return LS_OK;
    if (ls_faulty(LS_FAULT_REPLICAS_NOT_REDUCED)) return ls_fault_own_replica(dp, store, cut);
    LS_TRY(ls_all_reduce_forest(dp, store->gradient_slab, store->gradient_slab,
                                store->gradient_count, LS_REAL_DTYPE, &forest));
    if (ls_faulty_any()) ls_fault_replicas(dp, store);
exit:
    return status;
}

/* Ended, divided once (rules 9 and 15). */
static ls_real mean(ls_real sum, int64_t valid)
{
    ls_end_sum(&sum, 1);
    return valid > 0 ? sum / (ls_real)valid : 0;
}

ls_status ls_reduce_loss(ls_group *dp, ls_sequence_losses sequences, ls_batch_cut cut,
                         ls_valid valid, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_forest forest = {cut.sequences, cut.bounds};
    ls_node nodes[LS_FOREST_MAX];
    ls_real partials[2 * LS_FOREST_MAX];
    size_t member = (size_t)ls_group_rank(dp), first = cut.bounds[member];
    size_t n = ls_tree_forest(cut.sequences, first, cut.bounds[member + 1], nodes);
    size_t kinds = sequences.order ? 2 : 1;

    for (size_t j = 0; j < n; j++) {
        size_t at = nodes[j].lo - first, under = nodes[j].hi - nodes[j].lo;
        partials[j * kinds] = ls_tree_sum(sequences.tokens + at, under, 1);
        if (sequences.order) partials[j * kinds + 1] = ls_tree_sum(sequences.order + at, under, 1);
    }
    if (ls_group_size(dp) > 1)
        LS_TRY(ls_all_reduce_forest(dp, partials, partials, kinds, LS_REAL_DTYPE, &forest));
    *ret_loss = mean(partials[0], valid.targets);
    /* losses in order (rule 11) */
    if (sequences.order) *ret_loss = *ret_loss + mean(partials[1], valid.labels);
exit:
    return status;
}
