/* row_sum.h - sums along a row that no layout cuts (contract rule 10).
 *
 * 16 lanes; lane l adds elements l, l + 16, ... in ascending order, starting from the first of them
 * (a lane without elements is -0), then T(16) over the lanes. An empty row gives +0. Products and
 * squares are rounded before they are added. */
#ifndef LS_NUMERICS_ROW_SUM_H
#define LS_NUMERICS_ROW_SUM_H

#include <stddef.h>

#include "lockstep/base/real.h"

LS_BEGIN_DECLS

#define ls_row_sum LS_TYPED(ls_row_sum)
LS_API ls_real ls_row_sum(const ls_real *x, size_t n); /* sum of x[i] */

#define ls_row_dot LS_TYPED(ls_row_dot)
LS_API ls_real ls_row_dot(const ls_real *x, const ls_real *y, size_t n); /* sum of x[i] * y[i] */

#define ls_row_squares LS_TYPED(ls_row_squares)
LS_API ls_real ls_row_squares(const ls_real *x, ls_real center,
                              size_t n); /* sum of (x[i] - center)^2 */

/* Largest element under rule 3: -0 below +0, NaN wins; *ret_index (may be NULL) the first place of
 * it. n >= 1. */
#define ls_row_max LS_TYPED(ls_row_max)
LS_API ls_real ls_row_max(const ls_real *x, size_t n, size_t *ret_index);

/* Sum in binary64 of the squares (in binary64) of a rows x cols block with row stride ld, element
 * (r, c) being number r * cols + c of the row: the leaf of the gradient norm (rule 16). */
#define ls_block_squares LS_TYPED(ls_block_squares)
LS_API double ls_block_squares(const ls_real *x, size_t rows, size_t cols, size_t ld);

LS_END_DECLS

#endif
