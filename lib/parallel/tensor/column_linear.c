/* column_linear.c - y_r = x W_r + bias_r (linear.h). */
#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/tensor/weight_gradient.h"

ls_status ls_column_linear_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                                   const ls_real *w, const ls_real *bias, ls_axis tokens, size_t in,
                                   const ls_cut *out)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_axis held = ls_cut_held(out, ls_group_rank(tp->group));
    size_t width = ls_axis_extent(held);

    LS_TRY(ls_gather_tokens(tp, x, tokens, in, &x));
    LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_NO_TRANS, tokens, held, ls_axis_whole(in), x, in, w,
                   width, y, width, false));
    if (bias) ls_add_bias(y, bias, ls_axis_extent(tokens), width, width);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_column_linear_backward(const ls_tensor_parallel *tp, ls_real *dx, ls_real *dw,
                                    ls_real *dbias, const ls_real *dy, const ls_real *x,
                                    const ls_real *w, ls_axis tokens, size_t in, const ls_cut *out)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    ls_axis held = ls_cut_held(out, ls_group_rank(tp->group));
    size_t width = ls_axis_extent(held);

    /* Sequence parallelism keeps own tokens of x and gathers it once more, for dw only. */
    if (dw) LS_TRY(ls_gather_tokens(tp, x, tokens, in, &x));
    LS_TRY(ls_weight_gradient(tp, dw, dbias, x, ls_axis_whole(in), dy, held, tokens));
    /* y = x w + bias: dx = dy w^T, summed over every member's columns (f backward) */
    if (dx) {
        ls_gemm_term term = {dy, width, w, width, held.granule, 1, 0};
        LS_TRY(ls_reduced_product(tp, LS_TRANS, tokens, ls_axis_whole(in), out, &term, 1, dx));
    }
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
