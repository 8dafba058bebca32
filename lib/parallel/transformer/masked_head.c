/* masked_head.c - BERT's masked-token head, before the vocabulary product. */
#include "parallel/transformer/masked_head.h"

#include "lockstep/kernels/activation.h"
#include "parallel/hooks/observe.h"

void ls_masked_head_bind(ls_masked_head *head, const ls_store *store)
{
    ls_replicated_bind(&head->dense, store, LS_MASKED_DENSE_WEIGHT);
    ls_norm_bind(&head->norm, store, LS_MASKED_NORM_SCALE, LS_MASKED_NORM_SHIFT, 0);
}

ls_status ls_masked_head_keep(const ls_masked_head *head, size_t n, ls_arena *arena,
                              ls_masked_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_masked_saved saved;
    LS_TRY(ls_arena_alloc(arena, n * head->dense.out, sizeof(ls_real), (void *)&saved.t));
    LS_TRY(ls_arena_alloc(arena, n * head->dense.out, sizeof(ls_real), (void *)&saved.u));
    LS_TRY(ls_norm_keep(&head->norm, n, arena, &saved.norm));
    *ret_kept = saved;
exit:
    return status;
}

ls_status ls_masked_head_forward(const ls_tensor_parallel *tp, const ls_masked_head *head,
                                 const ls_masked_saved *saved, const ls_real *xf, ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t n = ls_axis_extent(ls_own_tokens(tp, tokens));
    ls_observe_next(tp, LS_POINT_FINAL_NORM, false);
    LS_TRY(ls_replicated_forward(tp, &head->dense, saved->t, xf, tokens));
    ls_gelu_erf_forward(saved->u, saved->t, n * head->dense.out);
    ls_norm_forward(&head->norm, &saved->norm, saved->u, n);
    LS_TRY(ls_observe_own(tp, LS_POINT_MASKED_DENSE, false, head->dense.out, saved->t));
    LS_TRY(ls_observe_own(tp, LS_POINT_MASKED_ACTIVATION, false, head->dense.out, saved->u));
    LS_TRY(ls_observe_own(tp, LS_POINT_FEATURES, false, head->dense.out, saved->norm.y));
exit:
    return status;
}

ls_status ls_masked_head_backward(const ls_tensor_parallel *tp, const ls_masked_head *head,
                                  const ls_masked_saved *saved, ls_real *dx, const ls_real *xf,
                                  ls_axis tokens, ls_token_sums *sums)
{
    ls_status status = LS_OK;
    size_t n = ls_axis_extent(ls_own_tokens(tp, tokens)), D = head->dense.out;
    /* features = norm(u), u = gelu(t), t = xf W + b */
    LS_TRY(ls_observe_own(tp, LS_POINT_FEATURES, true, D, dx));
    LS_TRY(ls_norm_backward(tp, &head->norm, &saved->norm, dx, dx, saved->u, NULL, tokens, sums));
    LS_TRY(ls_observe_own(tp, LS_POINT_MASKED_ACTIVATION, true, D, dx));
    ls_gelu_erf_backward(dx, dx, saved->t, n * D);
    LS_TRY(ls_observe_own(tp, LS_POINT_MASKED_DENSE, true, D, dx));
    ls_observe_next(tp, LS_POINT_MASKED_DENSE, true);
    LS_TRY(ls_replicated_backward(tp, &head->dense, dx, dx, xf, tokens));
exit:
    return status;
}
