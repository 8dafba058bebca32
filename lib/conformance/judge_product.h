/* judge_product.h - products and sums in binary64, with the bound of a foreign order. */
#ifndef LS_CONFORMANCE_JUDGE_PRODUCT_H
#define LS_CONFORMANCE_JUDGE_PRODUCT_H

#include "conformance/judge_trial.h"

/* Element (i, j) at x[i * row + j * col], off by up to error[the same]; error NULL: by nothing. */
typedef struct judge_factor {
    const double *x;
    size_t row, col;
    const double *error;
} judge_factor;

/* c[i][j] = sum over lo <= k < hi of a(i, k) b(k, j), then + bias[j]; rows x cols. bias, bound may
 * be NULL. */
void ls_judge_product(const ls_precision *p, double *c, double *bound, judge_factor a,
                      judge_factor b, size_t rows, size_t cols, size_t lo, size_t hi,
                      const double *bias);

/* The same where ranks add parts: rank r's, into tensor->part, is the sum over starts[r] ..
 * starts[r
 * + 1]; bias, which may be NULL, is added once. */
ls_status ls_judge_product_of_ranks(judge_trial *trial, judge_tensor *tensor, judge_factor a,
                                    judge_factor b, size_t rows, size_t cols, const size_t *starts,
                                    const double *bias) LS_MUST_USE;

/* c[j] = sum over rows of x(i, j). */
void ls_judge_add_rows(const ls_precision *p, double *c, double *bound, judge_factor x, size_t rows,
                       size_t cols);

#endif
