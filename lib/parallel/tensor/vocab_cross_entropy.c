/* vocab_cross_entropy.c - the loss from logits whose columns are cut over ranks. */
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"

#include "base/size.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "parallel/hooks/observe.h"

static ls_vocab_shard own_shard(const ls_tensor_parallel *tp, const ls_cut *vocab, size_t V)
{
    int rank = ls_group_rank(tp->group);
    ls_vocab_shard shard = {ls_cut_held(vocab, rank), vocab->bounds[rank], V};
    return shard;
}

/* The numbers of one token that cross ranks after the maximum; sum_z only with label smoothing. */
enum { SUM_EXP = 0, TARGET = 1, SUM_Z = 2 };

/* Shows them: [kinds][n]. */
static ls_status look_numbers(const ls_tensor_parallel *tp, ls_view view, size_t kinds, size_t n,
                              const ls_real *values)
{
    static const ls_point points[] = {[SUM_EXP] = LS_POINT_SUM_EXP,
                                      [TARGET] = LS_POINT_TARGET_LOGIT,
                                      [SUM_Z] = LS_POINT_SUM_LOGITS};
    ls_status status = LS_OK;
    for (size_t i = 0; i < kinds; i++) {
        view.point = points[i];
        LS_TRY(ls_observe_per_token(tp, view, values + i * n));
    }
exit:
    return status;
}

/* The operand of granules lo .. hi of the vocabulary's G, or for (0, 0, 0) the result. */
static ls_view comm(size_t lo, size_t hi, size_t G)
{
    return (ls_view){.point = LS_POINT_LARGEST_LOGIT,
                     .comm = G > 0 ? LS_COMM_PARTIAL : LS_COMM_TOTAL,
                     .lo = lo,
                     .hi = hi,
                     .leaves = G};
}

ls_status ls_vocab_cross_entropy_forward(const ls_tensor_parallel *tp, ls_real *ret_loss,
                                         ls_real *ret_max, ls_real *ret_sum_exp, const ls_real *z,
                                         const int32_t *targets, size_t n, const ls_cut *vocab,
                                         size_t V, double smoothing)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_vocab_shard shard = own_shard(tp, vocab, V);
    size_t G = shard.held.granules, width = ls_axis_extent(shard.held);
    size_t kinds = smoothing != 0 ? 3 : 2, count = ls_size_product(kinds, n);
    ls_forest forest = {vocab->whole.granules, vocab->bounds};
    ls_node nodes[LS_FOREST_MAX];
    size_t n_nodes =
        ls_tree_forest(forest.leaves, shard.first_granule, shard.first_granule + G, nodes);
    ls_real *sum_exp, *sum_z = NULL, *target, *partials, *finished;

    /* Every member holds all targets: no word about them need cross. */
    LS_TRY(ls_ids_check(targets, n, V, 1, "target"));
    ls_cross_entropy_max(ret_max, z, n, width, shard);
    LS_TRY(ls_observe_per_token(
        tp, comm(shard.first_granule, shard.first_granule + G, forest.leaves), ret_max));
    LS_TRY(ls_all_reduce(tp->group, ret_max, ret_max, n, LS_REAL_DTYPE, LS_REDUCE_MAX));
    LS_TRY(ls_observe_per_token(tp, comm(0, 0, 0), ret_max));

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(G, n), sizeof(ls_real), (void *)&sum_exp));
    if (smoothing != 0)
        LS_TRY(
            ls_arena_alloc(tp->temporary, ls_size_product(G, n), sizeof(ls_real), (void *)&sum_z));
    LS_TRY(ls_arena_alloc(tp->temporary, n, sizeof(ls_real), (void *)&target));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(n_nodes, count), sizeof(ls_real),
                          (void *)&partials));
    LS_TRY(ls_arena_alloc(tp->temporary, count, sizeof(ls_real), (void *)&finished));
    ls_cross_entropy_sums(sum_exp, sum_z, target, z, ret_max, targets, n, width, shard);

    /* One partial per node of the tree over the vocabulary's granules (rule 8). */
    for (size_t j = 0; j < n_nodes; j++) {
        ls_real *partial = partials + j * count;
        ls_axis granules = ls_axis_whole(nodes[j].hi - nodes[j].lo);
        size_t lo = nodes[j].lo - shard.first_granule;
        ls_tree_sum_rows(partial + SUM_EXP * n, sum_exp + lo * n, granules, n, n);
        if (sum_z) ls_tree_sum_rows(partial + SUM_Z * n, sum_z + lo * n, granules, n, n);
        /* The target's logit is one term; wherever it is, the others are -0. */
        for (size_t t = 0; t < n; t++) partial[TARGET * n + t] = j == 0 ? target[t] : (ls_real)-0.0;
        LS_TRY(look_numbers(tp, comm(nodes[j].lo, nodes[j].hi, forest.leaves), kinds, n, partial));
    }
    LS_TRY(ls_all_reduce_forest(tp->group, finished, partials, count, LS_REAL_DTYPE, &forest));
    LS_TRY(look_numbers(tp, comm(0, 0, 0), kinds, n, finished));

    for (size_t t = 0; t < n; t++) ret_sum_exp[t] = finished[SUM_EXP * n + t];
    ls_cross_entropy_loss(ret_loss, ret_max, ret_sum_exp, sum_z ? finished + SUM_Z * n : NULL,
                          finished + TARGET * n, targets, n, V, smoothing);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

void ls_vocab_cross_entropy_backward(const ls_tensor_parallel *tp, ls_real *dz, const ls_real *z,
                                     const ls_real *max, const ls_real *sum_exp,
                                     const int32_t *targets, size_t n, const ls_cut *vocab,
                                     size_t V, double smoothing, ls_real factor)
{
    ls_vocab_shard shard = own_shard(tp, vocab, V);
    ls_cross_entropy_backward(dz, z, max, sum_exp, targets, n, ls_axis_extent(shard.held), shard,
                              smoothing, factor);
}

/* Shows logits of the words first .. first + width, of which those from V on are padding. */
static ls_status look_logits(const ls_tensor_parallel *tp, ls_comm_kind how, const ls_real *z,
                             size_t first, size_t width, size_t V)
{
    if (!tp->observation) return LS_OK;
    const size_t end = first + width < V ? first + width : V, from = first < V ? first : V;
    const ls_view_run dims[] = {ls_whole_run(tp->observation->batch->S), {V, from, end - from}};
    const ls_view view = {.point = LS_POINT_LOGITS, .comm = how};
    return ls_observe_show(tp, view, 2, dims, z, width);
}

ls_status ls_gathered_cross_entropy_forward(const ls_tensor_parallel *tp, ls_real *ret_loss,
                                            ls_real *ret_max, ls_real *ret_sum_exp,
                                            const ls_real *z, const int32_t *targets, size_t n,
                                            const ls_cut *vocab, size_t V, double smoothing)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t members = (size_t)ls_group_size(tp->group), G = vocab->whole.granules;
    size_t width = ls_axis_extent(vocab->whole);
    ls_vocab_shard whole = {vocab->whole, 0, V};
    ls_real *logits, *sum_exp, *sum_z = NULL, *target, *finished_z = NULL;
    size_t *starts;

    LS_TRY(ls_ids_check(targets, n, V, 1, "target"));
    LS_TRY(ls_arena_alloc(tp->temporary, members + 1, sizeof *starts, (void *)&starts));
    for (size_t r = 0; r <= members; r++) starts[r] = vocab->bounds[r] * vocab->whole.granule;
    LS_TRY(
        ls_arena_alloc(tp->temporary, ls_size_product(n, width), sizeof(ls_real), (void *)&logits));
    size_t own = (size_t)ls_group_rank(tp->group);
    LS_TRY(look_logits(tp, LS_COMM_SHARE, z, starts[own], starts[own + 1] - starts[own], V));
    LS_TRY(ls_all_gather_columns(tp->group, logits, z, n, starts, LS_REAL_DTYPE));
    LS_TRY(look_logits(tp, LS_COMM_GATHERED, logits, 0, width, V));

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(G, n), sizeof(ls_real), (void *)&sum_exp));
    LS_TRY(ls_arena_alloc(tp->temporary, n, sizeof(ls_real), (void *)&target));
    if (smoothing != 0) {
        LS_TRY(
            ls_arena_alloc(tp->temporary, ls_size_product(G, n), sizeof(ls_real), (void *)&sum_z));
        LS_TRY(ls_arena_alloc(tp->temporary, n, sizeof(ls_real), (void *)&finished_z));
    }
    ls_cross_entropy_max(ret_max, logits, n, width, whole);
    ls_cross_entropy_sums(sum_exp, sum_z, target, logits, ret_max, targets, n, width, whole);
    ls_tree_sum_rows(ret_sum_exp, sum_exp, ls_axis_whole(G), n, n);
    if (sum_z) ls_tree_sum_rows(finished_z, sum_z, ls_axis_whole(G), n, n);
    ls_cross_entropy_loss(ret_loss, ret_max, ret_sum_exp, finished_z, target, targets, n, V,
                          smoothing);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
