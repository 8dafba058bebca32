#include "lockstep/parallel/vocab_embedding.h"

#include "lockstep/kernels/embedding.h"
#include "parallel/bring_together.h"

ls_status ls_vocab_embedding_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *table,
                                     const int32_t *ids, size_t n, size_t D, const ls_cut *vocab)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group);
    ls_real *part;

    LS_TRY(ls_arena_alloc(tp->temporary, n * D, sizeof *part, (void *)&part));
    ls_embedding_forward(part, table, ids, n, D, vocab->bounds[rank] * vocab->whole.granule,
                         ls_axis_extent(ls_cut_held(vocab, (int)rank)));
    LS_TRY(ls_bring_together(tp->group, y, part, n * D, LS_REAL_DTYPE, tp->temporary));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_vocab_embedding_backward(const ls_tensor_parallel *tp, ls_real *dtable,
                                      const ls_real *dy, const int32_t *ids, ls_axis tokens,
                                      size_t D, const ls_cut *vocab)
{
    size_t rank = (size_t)ls_group_rank(tp->group);
    return ls_embedding_backward(dtable, dy, ids, tokens, D,
                                 vocab->bounds[rank] * vocab->whole.granule,
                                 ls_axis_extent(ls_cut_held(vocab, (int)rank)));
}
