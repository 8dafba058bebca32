/* mlp_row_first.h - the cut that Megatron rejects, for ls_mlp_forward and ls_mlp_backward. */
#ifndef LS_PARALLEL_TENSOR_MLP_ROW_FIRST_H
#define LS_PARALLEL_TENSOR_MLP_ROW_FIRST_H

#include "lockstep/parallel/tensor/mlp.h"

#define ls_mlp_row_first_forward LS_TYPED(ls_mlp_row_first_forward)
ls_status ls_mlp_row_first_forward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *y,
                                   const ls_mlp_saved *saved, const ls_real *x,
                                   ls_axis tokens) LS_MUST_USE;

#define ls_mlp_row_first_backward LS_TYPED(ls_mlp_row_first_backward)
ls_status ls_mlp_row_first_backward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *dx,
                                    const ls_real *dy, const ls_mlp_saved *saved, const ls_real *x,
                                    ls_axis tokens) LS_MUST_USE;

#endif
