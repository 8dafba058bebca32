/* replicated_linear.h - a linear whose matrix no rank cuts: the heads of a masked-token model.
 *
 * Every rank has the whole matrix and, without sequence parallelism, does the same work on the same
 * tokens. With it a rank wants own tokens only; but the rows of a product are one sequence each (a
 * product on token shares gathers first), so each rank gathers x, multiplies all of it and keeps
 * own rows. The work is not shared; what is kept is. */
#ifndef LS_PARALLEL_TENSOR_REPLICATED_LINEAR_H
#define LS_PARALLEL_TENSOR_REPLICATED_LINEAR_H

#include "lockstep/model/store.h"
#include "lockstep/parallel/layout/tensor_parallel.h"

#define ls_replicated_linear LS_TYPED(ls_replicated_linear)
typedef struct ls_replicated_linear {
    size_t in, out;
    const ls_real *w, *bias; /* in x out; out, or NULL */
    ls_real *dw, *dbias;
} ls_replicated_linear;

/* Points it at its parameters in the store: `weight` is the weight's role, the next its bias's. */
#define ls_replicated_bind LS_TYPED(ls_replicated_bind)
void ls_replicated_bind(ls_replicated_linear *linear, const ls_store *store, ls_role weight);

/* y = x w + bias. x: own tokens x in, y: own tokens x out. Sequence parallel: 1 all-gather of x. */
#define ls_replicated_forward LS_TYPED(ls_replicated_forward)
ls_status ls_replicated_forward(const ls_tensor_parallel *tp, const ls_replicated_linear *linear,
                                ls_real *y, const ls_real *x, ls_axis tokens) LS_MUST_USE;

/* dw = x^T dy and dbias over all tokens, where tp->sums says, and dx = dy w^T. dx, x: own tokens x
 * in, dy: own tokens x out; dx may be dy. The gradients are the same on every rank, and none is a
 * sum over ranks. Sequence parallel: 2 all-gathers (dy, x again). */
#define ls_replicated_backward LS_TYPED(ls_replicated_backward)
ls_status ls_replicated_backward(const ls_tensor_parallel *tp, const ls_replicated_linear *linear,
                                 ls_real *dx, const ls_real *dy, const ls_real *x,
                                 ls_axis tokens) LS_MUST_USE;

#endif
