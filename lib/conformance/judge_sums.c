/* judge_sums.c - what the ranks add together: the right sum with its bound, and the tree's bits. */
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/tree.h"
#include "step_graph/approx.h"
#include "conformance/judge_operations.h"

void ls_judge_sum_parts(const judge_trial *trial, judge_tensor *tensor)
{
    for (size_t i = 0; i < tensor->n; i++) {
        approx_sum sum = {0};
        for (int r = 0; r < trial->ranks; r++)
            approx_sum_add(&sum, approx_exact(tensor->part[(size_t)r * tensor->n + i]));
        if (tensor->once[i] != 0) approx_sum_add(&sum, approx_exact(tensor->once[i]));
        const approx total = approx_sum_end(&trial->precision, &sum);
        tensor->value[i] = total.value;
        tensor->bound[i] = total.error;
    }
}

ls_status ls_judge_reals(judge_trial *trial, size_t n, const double *numbers, ls_real **ret_reals)
{
    ls_status status = LS_OK;
    ls_real *reals = NULL;
    LS_TRY(ls_trial_room(trial, n, sizeof *reals, &reals));
    for (size_t i = 0; numbers != NULL && i < n; i++) reals[i] = (ls_real)numbers[i];
    *ret_reals = reals;
exit:
    return status;
}

ls_status ls_judge_order_parts(judge_trial *trial, judge_tensor *tensor)
{
    ls_status status = LS_OK;
    const size_t ranks = (size_t)trial->ranks;
    ls_real *parts = NULL, *bits = NULL;
    LS_TRY(ls_judge_reals(trial, ranks * tensor->n, tensor->part, &parts));
    LS_TRY(ls_judge_reals(trial, tensor->n, NULL, &bits));
    for (size_t i = 0; i < tensor->n; i++) {
        bits[i] = ls_tree_sum(parts + i, ranks, tensor->n);
        if (tensor->once[i] != 0) bits[i] += (ls_real)tensor->once[i];
    }
    tensor->ordered = bits;
exit:
    return status;
}

ls_status ls_judge_order_product(judge_trial *trial, judge_tensor *tensor, ls_trans ta, ls_trans tb,
                                 ls_axis m, ls_axis n, ls_axis k, const double *a, const double *b,
                                 const double *bias)
{
    ls_status status = LS_OK;
    const size_t M = ls_axis_extent(m), N = ls_axis_extent(n), K = ls_axis_extent(k);
    ls_real *A = NULL, *B = NULL, *C = NULL, *added = NULL;
    LS_TRY(ls_judge_reals(trial, M * K, a, &A));
    LS_TRY(ls_judge_reals(trial, K * N, b, &B));
    LS_TRY(ls_judge_reals(trial, M * N, NULL, &C));
    LS_TRY(ls_judge_reals(trial, N, bias, &added));
    LS_TRY(ls_gemm(LS_ENGINE_PORTABLE, ta, tb, m, n, k, A, ta == LS_TRANS ? M : K, B,
                   tb == LS_TRANS ? K : N, C, N, false));
    if (bias) ls_add_bias(C, added, M, N, N);
    tensor->ordered = C;
exit:
    return status;
}

ls_status ls_judge_order_rows(judge_trial *trial, judge_tensor *tensor, const double *x,
                              ls_axis rows, size_t cols)
{
    ls_status status = LS_OK;
    ls_real *X = NULL, *sum = NULL;
    LS_TRY(ls_judge_reals(trial, ls_axis_extent(rows) * cols, x, &X));
    LS_TRY(ls_judge_reals(trial, cols, NULL, &sum));
    ls_tree_sum_rows(sum, X, rows, cols, cols);
    tensor->ordered = sum;
exit:
    return status;
}
