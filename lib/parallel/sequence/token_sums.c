/* token_sums.c - gradients of the norms' parameters when each rank has a part of the tokens. */
#include "parallel/sequence/token_sums.h"

#include "base/size.h"
#include "parallel/hooks/observe.h"

ls_status ls_token_sums_open(ls_token_sums *ret_sums, const ls_tensor_parallel *tp, ls_axis tokens,
                             size_t D, size_t vectors)
{
    ls_status status = LS_OK;
    size_t S = tokens.granule;
    ls_share own = ls_own_share(tp, S);
    ls_token_sums sums = {.tp = tp, .tokens = tokens, .D = D, .vectors = vectors};

    if (vectors > LS_TOKEN_SUMS_MAX)
        LS_FAIL(LS_ERR_INTERNAL, "%zu sums over tokens; at most %d go together", vectors,
                LS_TOKEN_SUMS_MAX);
    if (!tp->sequence_parallel) {
        *ret_sums = sums;
        return LS_OK;
    }
    sums.n_nodes = ls_tree_forest(S, own.first, own.first + own.count, sums.nodes);
    for (size_t j = 0; j < sums.n_nodes; j++) {
        sums.nodes[j].lo -= own.first;
        sums.nodes[j].hi -= own.first;
    }
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(sums.n_nodes, tokens.granules, vectors, D),
                          sizeof *sums.partials, (void *)&sums.partials));
    *ret_sums = sums;
exit:
    return status;
}

ls_status ls_token_sums_add(ls_token_sums *sums, ls_real *target, const ls_param_table *table,
                            size_t place, size_t *ret_vector)
{
    ls_status status = LS_OK;
    if (sums->added == sums->vectors)
        LS_FAIL(LS_ERR_INTERNAL, "one more sum over tokens than the %zu that were announced",
                sums->vectors);
    sums->table = table;
    sums->places[sums->added] = place;
    sums->targets[sums->added] = target;
    *ret_vector = sums->added++;
exit:
    return status;
}

ls_real *ls_token_sums_part(const ls_token_sums *sums, size_t vector, size_t j, size_t b)
{
    return sums->partials + ((j * sums->tokens.granules + b) * sums->vectors + vector) * sums->D;
}

/* per_sequence: B x vectors x D */
static void sum_sequences(const ls_token_sums *sums, const ls_real *per_sequence)
{
    size_t count = sums->vectors * sums->D;
    for (size_t v = 0; v < sums->added; v++)
        for (size_t j = 0; j < ls_batch_sums_count(sums->tp->sums); j++) {
            ls_batch_sum sum = ls_batch_sums_get(sums->tp->sums, j, sums->tokens);
            ls_tree_sum_rows(sums->targets[v] + sum.offset,
                             per_sequence + sum.first * count + v * sums->D,
                             ls_axis_whole(sum.tokens.granules), sums->D, count);
        }
}

/* Shows every vector of values [B][vectors][D], the node `nodes[j]` or the totals (n_nodes). */
static ls_status look(const ls_token_sums *sums, size_t j, const ls_real *values)
{
    ls_status status = LS_OK;
    const bool total = j == sums->n_nodes;
    const size_t own = ls_own_share(sums->tp, sums->tokens.granule).first;
    const ls_view_run width = ls_whole_run(sums->D);
    for (size_t v = 0; sums->tp->observation && v < sums->added; v++) {
        ls_view view = {.kind = LS_VIEW_SEQUENCE_GRADIENT,
                        .param = (int)sums->places[v],
                        .name = sums->table->params[sums->places[v]].name,
                        .point = LS_POINTS,
                        .gradient = true,
                        .comm = total ? LS_COMM_TOTAL : LS_COMM_PARTIAL};
        if (!total) {
            view.lo = own + sums->nodes[j].lo;
            view.hi = own + sums->nodes[j].hi;
            view.leaves = sums->tokens.granule;
        }
        LS_TRY(ls_observe_show(sums->tp, view, 1, &width, values + v * sums->D,
                               sums->vectors * sums->D));
    }
exit:
    return status;
}

ls_status ls_token_sums_finish(ls_token_sums *sums)
{
    ls_status status = LS_OK;
    const ls_tensor_parallel *tp = sums->tp;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t members = (size_t)ls_group_size(tp->group);
    size_t count = sums->tokens.granules * sums->vectors * sums->D;
    ls_forest forest = {sums->tokens.granule, NULL};
    size_t *bounds;
    ls_real *per_sequence;

    if (!tp->sequence_parallel || sums->vectors == 0) return LS_OK;
    if (sums->added != sums->vectors)
        LS_FAIL(LS_ERR_INTERNAL, "%zu sums over tokens of %zu", sums->added, sums->vectors);
    LS_TRY(ls_arena_alloc(tp->temporary, members + 1, sizeof *bounds, (void *)&bounds));
    ls_share_bounds(forest.leaves, members, bounds);
    forest.bounds = bounds;
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof *per_sequence, (void *)&per_sequence));
    for (size_t j = 0; j < sums->n_nodes; j++) LS_TRY(look(sums, j, sums->partials + j * count));
    LS_TRY(ls_all_reduce_forest(tp->group, per_sequence, sums->partials, count, LS_REAL_DTYPE,
                                &forest));
    LS_TRY(look(sums, sums->n_nodes, per_sequence));
    sum_sequences(sums, per_sequence);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
