/* mlp_row_first.c - the MLP with its first matrix cut by rows: one more all-reduce. */
#include "parallel/tensor/mlp_row_first.h"

#include <string.h>

#include "base/size.h"
#include "lockstep/parallel/tensor/reduced_product.h"
#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/elementwise.h"
#include "parallel/hooks/observe.h"
#include "parallel/tensor/weight_gradient.h"

/* own = columns first .. first + width of a rows x cols array */
static void take_columns(ls_real *own, const ls_real *whole, size_t rows, size_t cols, size_t first,
                         size_t width)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(own + r * width, whole + r * cols + first, width * sizeof *own);
}

/* In elements, where each member's columns of a cut axis begin: group size + 1 numbers. */
static ls_status column_starts(const ls_tensor_parallel *tp, const ls_cut *cut, size_t **ret_starts)
{
    ls_status status = LS_OK;
    size_t members = (size_t)ls_group_size(tp->group);
    size_t *starts;
    LS_TRY(ls_arena_alloc(tp->temporary, members + 1, sizeof *starts, (void *)&starts));
    for (size_t r = 0; r <= members; r++) starts[r] = cut->bounds[r] * cut->whole.granule;
    *ret_starts = starts;
exit:
    return status;
}

/* Shows what goes into a gather of columns, own ones, or what comes out. */
static ls_status look_columns(const ls_tensor_parallel *tp, ls_point point, const ls_cut *cut,
                              bool own, const ls_real *values)
{
    if (!tp->observation) return LS_OK;
    const size_t member = (size_t)ls_group_rank(tp->group), whole = ls_axis_extent(cut->whole);
    const ls_view_run columns = {whole, cut->bounds[member] * cut->whole.granule,
                                 ls_axis_extent(ls_cut_held(cut, (int)member))};
    const ls_view_run dims[] = {ls_whole_run(tp->observation->batch->S),
                                own ? columns : ls_whole_run(whole)};
    const ls_view view = {
        .point = point, .gradient = true, .comm = own ? LS_COMM_SHARE : LS_COMM_GATHERED};
    return ls_observe_show(tp, view, 2, dims, values, 0);
}

/* up = g(x_r W_up,r) + b_up, whole on every member: the extra all-reduce. u_r = gelu(own columns of
 * up). */
ls_status ls_mlp_row_first_forward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *y,
                                   const ls_mlp_saved *saved, const ls_real *x, ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group), rows = ls_axis_extent(tokens);
    size_t D_r = ls_axis_extent(ls_cut_held(&mlp->model, (int)rank));
    size_t F = ls_axis_extent(mlp->ff.whole);
    size_t F_r = ls_axis_extent(ls_cut_held(&mlp->ff, (int)rank));
    ls_real *x_r;

    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, D_r), sizeof *x_r, (void *)&x_r));
    take_columns(x_r, x, rows, mlp->D, mlp->model.bounds[rank] * mlp->model.whole.granule, D_r);
    /* As ls_row_linear_forward, but its columns are the granules of F: a canonical call of the
     * openblas engine is one granule wide, and here it must be the one that the serial model makes.
     */
    ls_gemm_term term = {x_r, D_r, mlp->w_up, F, mlp->model.whole.granule, 1, 0};
    ls_observe_next(tp, LS_POINT_UP, false);
    LS_TRY(ls_reduced_product(tp, LS_NO_TRANS, tokens, mlp->ff.whole, &mlp->model, &term, 1,
                              saved->up));
    if (mlp->b_up) ls_add_bias(saved->up, mlp->b_up, rows, F, F);
    LS_TRY(ls_observe_run(tp, LS_POINT_UP, false, (ls_view_run){F, 0, F}, saved->up));
    take_columns(saved->u, saved->up, rows, F, mlp->ff.bounds[rank] * mlp->ff.whole.granule, F_r);
    if (mlp->activation == LS_GELU_TANH)
        ls_gelu_tanh_forward(saved->u, saved->u, rows * F_r);
    else
        ls_gelu_erf_forward(saved->u, saved->u, rows * F_r);
    LS_TRY(ls_observe_cut(tp, LS_POINT_ACTIVATION, false, &mlp->ff, saved->u));
    ls_observe_next(tp, LS_POINT_MLP, false);
    LS_TRY(
        ls_row_linear_forward(tp, y, saved->u, mlp->w_down, mlp->b_down, tokens, &mlp->ff, mlp->D));
    LS_TRY(ls_observe_own(tp, LS_POINT_MLP, false, mlp->D, y));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_mlp_row_first_backward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *dx,
                                    const ls_real *dy, const ls_mlp_saved *saved, const ls_real *x,
                                    ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary);
    size_t rank = (size_t)ls_group_rank(tp->group), rows = ls_axis_extent(tokens);
    ls_axis model_held = ls_cut_held(&mlp->model, (int)rank);
    size_t D_r = ls_axis_extent(model_held), F = ls_axis_extent(mlp->ff.whole);
    size_t F_r = ls_axis_extent(ls_cut_held(&mlp->ff, (int)rank));
    size_t *ff_starts, *model_starts;
    ls_real *du_r, *up_r, *dup, *x_r, *dx_r;

    LS_TRY(column_starts(tp, &mlp->ff, &ff_starts));
    LS_TRY(column_starts(tp, &mlp->model, &model_starts));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, F_r), sizeof *du_r, (void *)&du_r));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, F_r), sizeof *up_r, (void *)&up_r));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, F), sizeof *dup, (void *)&dup));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, D_r), sizeof *x_r, (void *)&x_r));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(rows, D_r), sizeof *dx_r, (void *)&dx_r));

    /* y = sum of u_r W_down,r + b_down; u_r = gelu(own columns of up) */
    LS_TRY(ls_observe_own(tp, LS_POINT_MLP, true, mlp->D, dy));
    ls_observe_next(tp, LS_POINT_MLP, true);
    LS_TRY(ls_row_linear_backward(tp, du_r, mlp->dw_down, mlp->db_down, dy, saved->u, mlp->w_down,
                                  tokens, &mlp->ff, mlp->D));
    LS_TRY(ls_observe_cut(tp, LS_POINT_ACTIVATION, true, &mlp->ff, du_r));
    take_columns(up_r, saved->up, rows, F, ff_starts[rank], F_r);
    if (mlp->activation == LS_GELU_TANH)
        ls_gelu_tanh_backward(du_r, du_r, up_r, rows * F_r);
    else
        ls_gelu_erf_backward(du_r, du_r, up_r, rows * F_r);
    /* up was needed whole, and so is its gradient: W_up,r is multiplied by every column of it */
    LS_TRY(look_columns(tp, LS_POINT_UP, &mlp->ff, true, du_r));
    LS_TRY(ls_all_gather_columns(tp->group, dup, du_r, rows, ff_starts, LS_REAL_DTYPE));
    LS_TRY(look_columns(tp, LS_POINT_UP, &mlp->ff, false, dup));
    LS_TRY(ls_observe_run(tp, LS_POINT_UP, true, (ls_view_run){F, 0, F}, dup));

    /* up = sum of x_r W_up,r + b_up */
    take_columns(x_r, x, rows, mlp->D, model_starts[rank], D_r);
    LS_TRY(ls_weight_gradient(tp, mlp->dw_up, mlp->db_up, x_r, model_held, dup, mlp->ff.whole,
                              tokens));
    LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_TRANS, tokens, model_held, mlp->ff.whole, dup, F,
                   mlp->w_up, F, dx_r, D_r, false));
    LS_TRY(look_columns(tp, LS_POINT_NORM2, &mlp->model, true, dx_r));
    LS_TRY(ls_all_gather_columns(tp->group, dx, dx_r, rows, model_starts, LS_REAL_DTYPE));
    LS_TRY(look_columns(tp, LS_POINT_NORM2, &mlp->model, false, dx));
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
