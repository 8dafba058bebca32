/* tensor_parallel_mlp.c - the MLP: column-cut matrix, activation, row-cut matrix (mlp.h). */
#include "base/size.h"
#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/kernels/activation.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/hooks/observe.h"
#include "parallel/tensor/mlp_row_first.h"

static size_t own_width(const ls_tensor_parallel *tp, const ls_mlp *mlp)
{
    return ls_axis_extent(ls_cut_held(&mlp->ff, ls_group_rank(tp->group)));
}

ls_status ls_mlp_keep(const ls_tensor_parallel *tp, const ls_mlp *mlp, size_t tokens,
                      ls_arena *arena, ls_mlp_saved *ret_kept)
{
    ls_status status = LS_OK;
    ls_mlp_saved saved = {0};
    size_t width = own_width(tp, mlp);
    size_t up_width = mlp->cut == LS_MLP_ROW_FIRST ? ls_axis_extent(mlp->ff.whole) : width;

    if (tp->sequence_parallel && mlp->cut == LS_MLP_ROW_FIRST)
        LS_FAIL(LS_ERR_INPUT, "the row-first MLP has no sequence parallelism; use the column-first "
                              "one");
    if (mlp->activation == LS_SWIGLU)
        LS_TRY(ls_arena_alloc(arena, ls_size_product(tokens, width), sizeof(ls_real),
                              (void *)&saved.gate));
    LS_TRY(ls_arena_alloc(arena, ls_size_product(tokens, up_width), sizeof(ls_real),
                          (void *)&saved.up));
    LS_TRY(
        ls_arena_alloc(arena, ls_size_product(tokens, width), sizeof(ls_real), (void *)&saved.u));
    *ret_kept = saved;
exit:
    return status;
}

ls_status ls_mlp_forward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *y,
                         const ls_mlp_saved *saved, const ls_real *x, ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t n = ls_axis_extent(tokens) * own_width(tp, mlp);
    ls_tensor_parallel inside = ls_inside_block(tp);

    if (mlp->cut == LS_MLP_ROW_FIRST) return ls_mlp_row_first_forward(tp, mlp, y, saved, x, tokens);

    /* [u_1, u_2, ...] = [act(x W_1), act(x W_2), ...]: every rank's columns only (equation 3). One
     * x serves both matrices. */
    ls_observe_next(tp, LS_POINT_NORM2, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, mlp->D, &x));
    LS_TRY(ls_column_linear_forward(&inside, saved->up, x, mlp->w_up, mlp->b_up, tokens, mlp->D,
                                    &mlp->ff));
    switch (mlp->activation) {
    case LS_GELU_TANH:
        ls_gelu_tanh_forward(saved->u, saved->up, n);
        break;
    case LS_GELU_ERF:
        ls_gelu_erf_forward(saved->u, saved->up, n);
        break;
    case LS_SWIGLU:
        LS_TRY(ls_column_linear_forward(&inside, saved->gate, x, mlp->w_gate, NULL, tokens, mlp->D,
                                        &mlp->ff));
        LS_TRY(ls_observe_cut(tp, LS_POINT_GATE, false, &mlp->ff, saved->gate));
        ls_swiglu_forward(saved->u, saved->gate, saved->up, n);
        break;
    }
    ls_arena_release(tp->temporary, mark);
    LS_TRY(ls_observe_cut(tp, LS_POINT_UP, false, &mlp->ff, saved->up));
    LS_TRY(ls_observe_cut(tp, LS_POINT_ACTIVATION, false, &mlp->ff, saved->u));
    /* y = sum over ranks of u_r W_down,r, then the bias: the block's only reduction */
    ls_observe_next(tp, LS_POINT_MLP, false);
    LS_TRY(
        ls_row_linear_forward(tp, y, saved->u, mlp->w_down, mlp->b_down, tokens, &mlp->ff, mlp->D));
    LS_TRY(ls_observe_own(tp, LS_POINT_MLP, false, mlp->D, y));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_mlp_backward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *dx,
                          const ls_real *dy, const ls_mlp_saved *saved, const ls_real *x,
                          ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t width = own_width(tp, mlp), n = ls_axis_extent(tokens) * width;
    ls_tensor_parallel inside = ls_inside_block(tp);
    ls_real *du, *dup, *dgate = NULL;

    if (mlp->cut == LS_MLP_ROW_FIRST)
        return ls_mlp_row_first_backward(tp, mlp, dx, dy, saved, x, tokens);

    LS_TRY(ls_arena_alloc(tp->temporary, n, sizeof *du, (void *)&du));
    dup = du; /* unless both are wanted */
    /* y = u W_down + b_down */
    LS_TRY(ls_observe_own(tp, LS_POINT_MLP, true, mlp->D, dy));
    ls_observe_next(tp, LS_POINT_MLP, true);
    LS_TRY(ls_row_linear_backward(tp, du, mlp->dw_down, mlp->db_down, dy, saved->u, mlp->w_down,
                                  tokens, &mlp->ff, mlp->D));
    LS_TRY(ls_observe_cut(tp, LS_POINT_ACTIVATION, true, &mlp->ff, du));
    /* One matrix reads x, or two: dx is then one sum of two terms per granule (rule 11). */
    ls_gemm_term terms[2];
    size_t n_terms = 0, granule = mlp->ff.whole.granule;
    if (mlp->activation == LS_SWIGLU) {
        /* u = silu(gate) * up */
        LS_TRY(ls_arena_alloc(tp->temporary, n, sizeof *dup, (void *)&dup));
        dgate = du;
        ls_swiglu_backward(dgate, dup, du, saved->gate, saved->up, n);
        LS_TRY(ls_observe_cut(tp, LS_POINT_GATE, true, &mlp->ff, dgate));
        terms[n_terms++] = (ls_gemm_term){dgate, width, mlp->w_gate, width, granule, 1, 0};
    } else if (mlp->activation == LS_GELU_TANH) {
        ls_gelu_tanh_backward(dup, du, saved->up, n);
    } else {
        ls_gelu_erf_backward(dup, du, saved->up, n);
    }
    LS_TRY(ls_observe_cut(tp, LS_POINT_UP, true, &mlp->ff, dup));
    terms[n_terms++] = (ls_gemm_term){dup, width, mlp->w_up, width, granule, 1, 0};

    /* gate = x W_gate, up = x W_up + b_up */
    ls_observe_next(tp, LS_POINT_NORM2, false);
    LS_TRY(ls_gather_tokens(tp, x, tokens, mlp->D, &x));
    if (dgate)
        LS_TRY(ls_column_linear_backward(&inside, NULL, mlp->dw_gate, NULL, dgate, x, mlp->w_gate,
                                         tokens, mlp->D, &mlp->ff));
    LS_TRY(ls_column_linear_backward(&inside, NULL, mlp->dw_up, mlp->db_up, dup, x, mlp->w_up,
                                     tokens, mlp->D, &mlp->ff));
    ls_observe_next(tp, LS_POINT_NORM2, true);
    LS_TRY(ls_reduced_product(tp, LS_TRANS, tokens, ls_axis_whole(mlp->D), &mlp->ff, terms, n_terms,
                              dx));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
