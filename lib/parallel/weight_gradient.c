#include "parallel/weight_gradient.h"

#include "lockstep/numerics/tree.h"

ls_status ls_weight_gradient(const ls_tensor_parallel *tp, ls_real *dw, ls_real *dbias,
                             const ls_real *x, ls_axis in, const ls_real *dy, ls_axis out,
                             ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t rows = ls_axis_extent(in), cols = ls_axis_extent(out);

    /* y += bias */
    if (dbias) ls_tree_sum_rows(dbias, dy, tokens, cols, cols);
    /* y = x w */
    if (dw)
        LS_TRY(ls_gemm(tp->engine, LS_TRANS, LS_NO_TRANS, in, out, tokens, x, rows, dy, cols, dw,
                       cols, false));
exit:
    return status;
}
