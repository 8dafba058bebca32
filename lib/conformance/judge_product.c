/* judge_product.c - plain loops. */
#include "conformance/judge_product.h"

#include "step_graph/approx.h"

void ls_judge_product(const ls_precision *p, double *c, double *bound, judge_factor a,
                      judge_factor b, size_t rows, size_t cols, size_t lo, size_t hi,
                      const double *bias)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            approx_sum sum = {0};
            for (size_t k = lo; k < hi; k++)
                approx_sum_add(
                    &sum, approx_exact(a.x[i * a.row + k * a.col] * b.x[k * b.row + j * b.col]));
            if (bias != NULL) approx_sum_add(&sum, approx_exact(bias[j]));
            const approx total = approx_sum_end(p, &sum);
            c[i * cols + j] = total.value;
            if (bound != NULL) bound[i * cols + j] = total.error;
        }
}

void ls_judge_add_rows(const ls_precision *p, double *c, double *bound, const double *x,
                       size_t rows, size_t cols)
{
    static const double one = 1;
    const judge_factor ones = {&one, 0, 0}, all = {x, cols, 1};
    ls_judge_product(p, c, bound, ones, all, 1, cols, 0, rows, NULL);
}
