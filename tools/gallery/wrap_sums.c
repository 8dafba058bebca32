/* wrap_sums.c - sums over ranks that are left out, made twice or averaged. */
#include "call.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "lockstep/parallel/tensor/reduced_product.h"
#include "parallel/data/observe_step.h"
#include "parallel/sequence/token_sums.h"
#include "wrapped.h"
#include "wrong_values.h"

LS_RIGHT(reduced_product);
LS_RIGHT(sum_to_own_tokens);
LS_RIGHT(gather_tokens);
LS_RIGHT(token_sums_finish);
LS_RIGHT(all_reduce_forest);
LS_RIGHT(reduce_gradients_seen);

_Thread_local ls_call ls_call_now;

/* Nodes of a forest that this member has. */
static size_t nodes_of(const ls_group *group, const ls_forest *forest)
{
    const size_t member = (size_t)ls_group_rank(group);
    ls_node nodes[LS_FOREST_MAX];
    return ls_tree_forest(forest->leaves, forest->bounds[member], forest->bounds[member + 1],
                          nodes);
}

ls_status ls_reduced_product(const ls_tensor_parallel *tp, ls_trans tb, ls_axis m, ls_axis n,
                             const ls_cut *k, const ls_gemm_term *terms, size_t n_terms, ls_real *c)
{
    const product before = ls_call_now.product;
    ls_call_now.product = tb == LS_NO_TRANS ? ROW_FORWARD : COLUMN_BACKWARD;
    const ls_status status = right_reduced_product(tp, tb, m, n, k, terms, n_terms, c);
    ls_call_now.product = before;
    return status;
}

/* partials is changed: the caller has no further use for it. */
ls_status ls_sum_to_own_tokens(const ls_tensor_parallel *tp, ls_real *own, const ls_real *partials,
                               ls_axis tokens, size_t width, const ls_forest *forest)
{
    ls_status status = LS_OK;
    ls_real *parts = (ls_real *)(uintptr_t)partials;
    const size_t nodes = nodes_of(tp->group, forest);
    LS_TRY(right_sum_to_own_tokens(tp, own, partials, tokens, width, forest));
    if (ls_call_now.product != NO_PRODUCT)
        ls_wrong_reduction(tp, ls_call_now.product == ROW_FORWARD, own, parts, nodes, tokens,
                           width);
    else if (ls_faulty(LS_FAULT_EMBEDDING_NOT_REDUCED))
        ls_wrong_own_tokens(tp, own, parts, nodes, tokens, width);
exit:
    return status;
}

/* With sequence parallelism: the members' shares in another order. */
ls_status ls_gather_tokens(const ls_tensor_parallel *tp, const ls_real *own, ls_axis tokens,
                           size_t width, const ls_real **ret_whole)
{
    ls_status status = LS_OK;
    LS_TRY(right_gather_tokens(tp, own, tokens, width, ret_whole));
    if (*ret_whole == own) goto exit;
    if (ls_faulty(LS_FAULT_TOKENS_ROTATED) || ls_faulty(LS_FAULT_TOKENS_JOINED))
        LS_TRY(ls_wrong_token_order(tp, (ls_real *)(uintptr_t)*ret_whole, own, tokens, width));
exit:
    return status;
}

ls_status ls_token_sums_finish(ls_token_sums *sums)
{
    ls_call_now.token_sums = true;
    const ls_status status = right_token_sums_finish(sums);
    ls_call_now.token_sums = false;
    return status;
}

ls_status ls_all_reduce_forest(ls_group *group, void *out, const void *in, size_t count,
                               ls_dtype dtype, const ls_forest *forest)
{
    const bool norm = ls_faulty(LS_FAULT_NORM_NOT_REDUCED) && ls_call_now.token_sums;
    const bool shared_head = ls_faulty(LS_FAULT_KV_NOT_REDUCED) && ls_call_now.attention != NULL &&
                             ls_call_now.attention != group;
    if (!norm && !shared_head) return right_all_reduce_forest(group, out, in, count, dtype, forest);
    ls_wrong_own_sum(out, in, nodes_of(group, forest), count);
    return LS_OK;
}

ls_status ls_reduce_gradients_seen(ls_step_observer look, ls_group *dp, ls_store *store,
                                   ls_batch_cut cut)
{
    ls_status status = LS_OK;
    const ls_real replicas = (ls_real)ls_group_size(dp);
    const ls_forest forest = {cut.sequences, cut.bounds};
    if (ls_faulty(LS_FAULT_REPLICAS_NOT_REDUCED) && ls_group_size(dp) > 1) {
        ls_wrong_own_sum(store->gradient_slab, store->gradient_slab, nodes_of(dp, &forest),
                         store->gradient_count);
        goto exit;
    }
    LS_TRY(right_reduce_gradients_seen(look, dp, store, cut));
    if (ls_faulty(LS_FAULT_REPLICAS_TWICE)) ls_wrong_scale(store, replicas);
    if (ls_faulty(LS_FAULT_AVERAGED_REPLICAS)) ls_wrong_scale(store, 1 / replicas);
exit:
    return status;
}
