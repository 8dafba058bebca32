/* vocab_embedding.h - the token embedding cut by vocabulary rows (arXiv 1909.08053, section 3). */
#ifndef LS_PARALLEL_TENSOR_VOCAB_EMBEDDING_H
#define LS_PARALLEL_TENSOR_VOCAB_EMBEDDING_H

#include "lockstep/parallel/layout/tensor_parallel.h"

LS_BEGIN_DECLS

/* y[t] = row ids[t] of the whole table, on every member: a member without the row contributes
 * -0, so the all-reduce gives the row's own bits (contract rule 14). table: own rows x D; vocab:
 * the padded vocabulary and who owns it; ids: of all tokens, on every member; y: tokens x D,
 * sequence parallel: own tokens. 1 all-reduce (reduce-scatter) of tokens D. Errors, before anything
 * is sent: LS_ERR_INPUT, an id outside the padded vocabulary, named by its place and value. */
#define ls_vocab_embedding_forward LS_TYPED(ls_vocab_embedding_forward)
LS_API ls_status ls_vocab_embedding_forward(const ls_tensor_parallel *tp, ls_real *y,
                                            const ls_real *table, const int32_t *ids,
                                            ls_axis tokens, size_t D,
                                            const ls_cut *vocab) LS_MUST_USE;

/* dtable = own rows of the gradient (ls_embedding_backward: rows without a token are -0 until
 * ls_normalize_zero). dy: tokens x D, the same on every member: no communication. Sequence
 * parallel: dy of own tokens, 1 all-gather. Errors as forward. */
#define ls_vocab_embedding_backward LS_TYPED(ls_vocab_embedding_backward)
LS_API ls_status ls_vocab_embedding_backward(const ls_tensor_parallel *tp, ls_real *dtable,
                                             const ls_real *dy, const int32_t *ids, ls_axis tokens,
                                             size_t D, const ls_cut *vocab) LS_MUST_USE;

LS_END_DECLS

#endif
