/* weight_gradient.c - dW = x^T dy and db = sum of dy over the tokens. */
#include "parallel/tensor/weight_gradient.h"

#include <string.h>

#include "lockstep/numerics/tree.h"

ls_status ls_weight_gradient(const ls_tensor_parallel *tp, ls_real *dw, ls_real *dbias,
                             const ls_real *x, ls_axis in, const ls_real *dy, ls_axis out,
                             ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t rows = ls_axis_extent(in), cols = ls_axis_extent(out);

    for (size_t j = 0; j < ls_batch_sums_count(tp->sums); j++) {
        ls_batch_sum sum = ls_batch_sums_get(tp->sums, j, tokens);
        const ls_real *x_j = x + sum.first * tokens.granule * rows;
        const ls_real *dy_j = dy + sum.first * tokens.granule * cols;
        /* y += bias */
        if (dbias) ls_tree_sum_rows(dbias + sum.offset, dy_j, sum.tokens, cols, cols);
        /* y = x w */
        if (dw)
            LS_TRY(ls_gemm(tp->engine, LS_TRANS, LS_NO_TRANS, in, out, sum.tokens, x_j, rows, dy_j,
                           cols, dw + sum.offset, cols, false));
    }
exit:
    return status;
}

void ls_no_gradient(const ls_tensor_parallel *tp, ls_real *d, size_t count)
{
    ls_axis any = {0, 0};
    for (size_t j = 0; j < ls_batch_sums_count(tp->sums); j++)
        memset(d + ls_batch_sums_get(tp->sums, j, any).offset, 0, count * sizeof *d);
}
