/* row_linear.c - y = sum over ranks of x_r W_r, then + bias (linear.h). */
#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/tensor/weight_gradient.h"

ls_status ls_row_linear_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                                const ls_real *w, const ls_real *bias, ls_axis tokens,
                                const ls_cut *in, size_t out)
{
    ls_status status = LS_OK;
    ls_axis held = ls_cut_held(in, ls_group_rank(tp->group));
    ls_gemm_term term = {x, ls_axis_extent(held), w, out, held.granule, 1, 0};

    LS_TRY(ls_reduced_product(tp, LS_NO_TRANS, tokens, ls_axis_whole(out), in, &term, 1, y));
    /* After the reduction: added before it, the bias would come in once per rank. */
    if (bias) ls_add_bias(y, bias, ls_axis_extent(ls_own_tokens(tp, tokens)), out, out);
exit:
    return status;
}

ls_status ls_row_linear_backward(const ls_tensor_parallel *tp, ls_real *dx, ls_real *dw,
                                 ls_real *dbias, const ls_real *dy, const ls_real *x,
                                 const ls_real *w, ls_axis tokens, const ls_cut *in, size_t out)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_axis held = ls_cut_held(in, ls_group_rank(tp->group));
    size_t width = ls_axis_extent(held);

    LS_TRY(ls_gather_tokens(tp, dy, tokens, out, &dy));
    /* dy is now the same on every member (g backward is the identity or a gather), so dbias is too
     */
    LS_TRY(ls_weight_gradient(tp, dw, dbias, x, held, dy, ls_axis_whole(out), tokens));
    /* y = x w + bias: dx = dy w^T, own columns */
    if (dx)
        LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_TRANS, tokens, held, ls_axis_whole(out), dy, out,
                       w, out, dx, width, false));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
