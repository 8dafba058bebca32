/* judge_product.c - plain loops. */
#include "conformance/judge_product.h"

#include "step_graph/approx.h"

static approx at(judge_factor a, size_t i, size_t j)
{
    const size_t place = i * a.row + j * a.col;
    return a.error ? approx_within(a.x[place], a.error[place]) : approx_exact(a.x[place]);
}

void ls_judge_product(const ls_precision *p, double *c, double *bound, judge_factor a,
                      judge_factor b, size_t rows, size_t cols, size_t lo, size_t hi,
                      const double *bias)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            approx_sum sum = {0};
            for (size_t k = lo; k < hi; k++)
                approx_sum_add(&sum, approx_product(at(a, i, k), at(b, k, j)));
            if (bias != NULL) approx_sum_add(&sum, approx_exact(bias[j]));
            const approx total = approx_sum_end(p, &sum);
            c[i * cols + j] = total.value;
            if (bound != NULL) bound[i * cols + j] = total.error;
        }
}

ls_status ls_judge_product_of_ranks(judge_trial *trial, judge_tensor *tensor, judge_factor a,
                                    judge_factor b, size_t rows, size_t cols, const size_t *starts,
                                    const double *bias)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const size_t ranks = (size_t)trial->ranks;
    LS_TRY(ls_trial_parts(trial, tensor));
    for (size_t r = 0; r < ranks; r++)
        ls_judge_product(p, tensor->part + r * tensor->n, NULL, a, b, rows, cols, starts[r],
                         starts[r + 1], NULL);
    for (size_t i = 0; bias != NULL && i < tensor->n; i++) tensor->once[i] = bias[i % cols];
    ls_judge_product(p, tensor->value, tensor->bound, a, b, rows, cols, 0, starts[ranks], bias);
exit:
    return status;
}

void ls_judge_add_rows(const ls_precision *p, double *c, double *bound, judge_factor x, size_t rows,
                       size_t cols)
{
    static const double one = 1;
    const judge_factor ones = {&one, 0, 0, NULL};
    ls_judge_product(p, c, bound, ones, x, 1, cols, 0, rows, NULL);
}
