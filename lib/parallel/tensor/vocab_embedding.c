/* vocab_embedding.c - the embedding with its table cut by rows: -0 for words of other ranks. */
#include "lockstep/parallel/tensor/vocab_embedding.h"

#include "base/size.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "comm/all_reduce_owned.h"
#include "parallel/hooks/observe.h"

ls_status ls_vocab_embedding_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *table,
                                     const int32_t *ids, ls_axis tokens, size_t D,
                                     const ls_cut *vocab)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group), n = ls_axis_extent(tokens);
    const ls_node own = {rank, rank + 1};
    ls_forest one_each;
    ls_real *part;

    LS_TRY(ls_ids_check(ids, n, ls_axis_extent(vocab->whole), 0, "token"));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(n, D), sizeof *part, (void *)&part));
    ls_embedding_forward(part, table, ids, n, D, vocab->bounds[rank] * vocab->whole.granule,
                         ls_axis_extent(ls_cut_held(vocab, (int)rank)));
    ls_observe_next(tp, LS_POINT_EMBEDDING, false);
    LS_TRY(ls_observe_partials(tp, (size_t)ls_group_size(tp->group), &own, 1, D, part));
    LS_TRY(ls_one_leaf_each(tp->group, tp->temporary, &one_each));
    LS_TRY(ls_sum_to_own_tokens(tp, y, part, tokens, D, &one_each));
    LS_TRY(ls_observe_total(tp, D, y));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_vocab_embedding_backward(const ls_tensor_parallel *tp, ls_real *dtable,
                                      const ls_real *dy, const int32_t *ids, ls_axis tokens,
                                      size_t D, const ls_cut *vocab)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group);

    LS_TRY(ls_ids_check(ids, ls_axis_extent(tokens), ls_axis_extent(vocab->whole), 0, "token"));
    LS_TRY(ls_gather_tokens(tp, dy, tokens, D, &dy));
    for (size_t j = 0; j < ls_batch_sums_count(tp->sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(tp->sums, j, tokens);
        size_t first = sum.first * tokens.granule;
        LS_TRY(ls_embedding_backward(dtable + sum.offset, dy + first * D, ids + first, sum.tokens,
                                     D, vocab->bounds[rank] * vocab->whole.granule,
                                     ls_axis_extent(ls_cut_held(vocab, (int)rank))));
    }
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
