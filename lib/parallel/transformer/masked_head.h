/* masked_head.h - BERT's masked-token head, before the vocabulary product.
 *
 *     t = xf W + b        u = gelu(t)        features = norm(u)
 *
 * W is D x D and whole on every rank; the GELU is the exact one, whatever the layers have. */
#ifndef LS_PARALLEL_TRANSFORMER_MASKED_HEAD_H
#define LS_PARALLEL_TRANSFORMER_MASKED_HEAD_H

#include "parallel/transformer/norm_layer.h"
#include "parallel/tensor/replicated_linear.h"

#define ls_masked_head LS_TYPED(ls_masked_head)
typedef struct ls_masked_head {
    ls_replicated_linear dense;
    ls_norm norm;
} ls_masked_head;

/* Own tokens x D each; the features are norm.y. */
#define ls_masked_saved LS_TYPED(ls_masked_saved)
typedef struct ls_masked_saved {
    ls_real *t, *u;
    ls_norm_saved norm;
} ls_masked_saved;

#define ls_masked_head_bind LS_TYPED(ls_masked_head_bind)
void ls_masked_head_bind(ls_masked_head *head, const ls_store *store);

/* n: own tokens. */
#define ls_masked_head_keep LS_TYPED(ls_masked_head_keep)
ls_status ls_masked_head_keep(const ls_masked_head *head, size_t n, ls_arena *arena,
                              ls_masked_saved *ret_kept) LS_MUST_USE;

/* From xf, own tokens x D, to the features. Sequence parallel: 1 all-gather. */
#define ls_masked_head_forward LS_TYPED(ls_masked_head_forward)
ls_status ls_masked_head_forward(const ls_tensor_parallel *tp, const ls_masked_head *head,
                                 const ls_masked_saved *saved, const ls_real *xf,
                                 ls_axis tokens) LS_MUST_USE;

/* From the gradient of the features to that of xf, in place, own tokens x D. The norm's parameters
 * go to `sums` (norm_layer.h). Sequence parallel: 2 all-gathers. */
#define ls_masked_head_backward LS_TYPED(ls_masked_head_backward)
ls_status ls_masked_head_backward(const ls_tensor_parallel *tp, const ls_masked_head *head,
                                  const ls_masked_saved *saved, ls_real *dx, const ls_real *xf,
                                  ls_axis tokens, ls_token_sums *sums) LS_MUST_USE;

#endif
