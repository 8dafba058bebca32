#include "lockstep/parallel/data_parallel.h"

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"

ls_status ls_count_valid(ls_group *dp, const ls_batch *batch, int64_t *ret_valid)
{
    ls_status status = LS_OK;
    int64_t valid = 0;
    for (size_t t = 0; t < batch->B * batch->S; t++) valid += batch->targets[t] != LS_IGNORE;
    if (ls_group_size(dp) > 1)
        LS_TRY(ls_all_reduce(dp, &valid, &valid, 1, LS_I64, LS_REDUCE_SUM));
    *ret_valid = valid;
exit:
    return status;
}

ls_status ls_reduce_gradients(ls_group *dp, ls_store *store, ls_batch_cut cut)
{
    ls_forest forest = {cut.sequences, cut.bounds};
    if (ls_group_size(dp) == 1) return LS_OK;
    return ls_all_reduce_forest(dp, store->gradient_slab, store->gradient_slab,
                                store->gradient_count, LS_REAL_DTYPE, &forest);
}

ls_status ls_reduce_loss(ls_group *dp, const ls_real *sequence_losses, ls_batch_cut cut,
                         int64_t valid, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_forest forest = {cut.sequences, cut.bounds};
    ls_node nodes[LS_FOREST_MAX];
    ls_real partials[LS_FOREST_MAX], loss;
    size_t member = (size_t)ls_group_rank(dp), first = cut.bounds[member];
    size_t n = ls_tree_forest(cut.sequences, first, cut.bounds[member + 1], nodes);

    for (size_t j = 0; j < n; j++)
        partials[j] =
            ls_tree_sum(sequence_losses + nodes[j].lo - first, nodes[j].hi - nodes[j].lo, 1);
    if (ls_group_size(dp) > 1)
        LS_TRY(ls_all_reduce_forest(dp, partials, partials, 1, LS_REAL_DTYPE, &forest));
    /* ended, divided once (rules 9 and 15) */
    loss = partials[0];
    ls_end_sum(&loss, 1);
    *ret_loss = valid ? loss / (ls_real)valid : 0;
exit:
    return status;
}
