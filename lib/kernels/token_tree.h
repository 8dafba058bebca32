/* token_tree.h - sums down the tokens whose terms are made on the fly (contract rule 9).
 *
 * ls_tree_sum_rows and ls_tree_dot_rows want their factors in memory; the gradient of a norm's
 * scale has terms dy * xhat with an xhat that is not stored. */
#ifndef LS_KERNELS_TOKEN_TREE_H
#define LS_KERNELS_TOKEN_TREE_H

#include "lockstep/base/real.h"
#include "lockstep/numerics/axis.h"

/* Writes the terms of one token, columns first .. first + width, to y. */
#define token_term LS_TYPED(token_term)
typedef void token_term(ls_real *y, const void *context, size_t token, size_t first, size_t width);

/* y[c] = T over the granules of `tokens` of T over the tokens of each, of term(token, c). y: cols,
 * overwritten, +0 when there are no tokens. */
#define ls_token_tree LS_TYPED(ls_token_tree)
void ls_token_tree(ls_real *y, token_term *term, const void *context, ls_axis tokens, size_t cols);

#endif
