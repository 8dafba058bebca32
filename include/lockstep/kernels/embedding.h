/* embedding.h - rows of a table by index, whole or a shard of the rows; forward and backward. */
#ifndef LS_KERNELS_EMBEDDING_H
#define LS_KERNELS_EMBEDDING_H

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

/* y[t] = table[ids[t] - first_row], or -0 in every column where that row is not among the `rows`
 * held (contract rule 14). y: n x D; table: rows x D. ids must have been checked against the
 * vocabulary by the caller (ls_ids_check). */
#define ls_embedding_forward LS_TYPED(ls_embedding_forward)
LS_API void ls_embedding_forward(ls_real *y, const ls_real *table, const int32_t *ids, size_t n,
                                 size_t D, size_t first_row, size_t rows);

/* dtable[v] = sum of dy[t] over the tokens with ids[t] == first_row + v: T inside each granule
 * (sequence) of `tokens`, T over them, the others standing as -0, so a row that no token names is
 * -0 until the caller ends the sum (ls_normalize_zero). dtable: rows x D, overwritten. Cost:
 * at most extent(tokens) * D additions. Errors: LS_ERR_MEMORY (an index of the tokens by row),
 * LS_ERR_INPUT (sizes that no memory has). */
#define ls_embedding_backward LS_TYPED(ls_embedding_backward)
LS_API ls_status ls_embedding_backward(ls_real *dtable, const ls_real *dy, const int32_t *ids,
                                       ls_axis tokens, size_t D, size_t first_row,
                                       size_t rows) LS_MUST_USE;

/* Ends sums whose terms may all be missing: x = x + (+0), so that -0 becomes +0 (rule 14). */
#define ls_normalize_zero LS_TYPED(ls_normalize_zero)
LS_API void ls_normalize_zero(ls_real *x, size_t n);

/* LS_ERR_INPUT, naming the first place and the value, unless 0 <= ids[t] < vocab for all n;
 * `ignore` (such as -100) is allowed too when allow_ignore is set. what: "token" or "target", for
 * the text. */
LS_API ls_status ls_ids_check(const int32_t *ids, size_t n, size_t vocab, int allow_ignore,
                              const char *what) LS_MUST_USE;

/* LS_ERR_INPUT, naming the first place and the value, unless 0 <= lengths[b] <= S for the B
 * sequences of a batch; lengths may be NULL: all are whole. */
LS_API ls_status ls_lengths_check(const int32_t *lengths, size_t B, size_t S) LS_MUST_USE;

LS_END_DECLS

#endif
