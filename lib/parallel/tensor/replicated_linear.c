/* replicated_linear.c - y = x W + bias with W whole on every rank. */
#include "parallel/tensor/replicated_linear.h"

#include <string.h>

#include "base/size.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "parallel/hooks/observe.h"
#include "parallel/tensor/weight_gradient.h"

void ls_replicated_bind(ls_replicated_linear *linear, const ls_store *store, ls_role weight)
{
    const ls_slot *w = ls_store_slot(store, weight, 0);
    const ls_slot *bias = ls_store_slot(store, (ls_role)(weight + 1), 0);
    linear->in = w->rows;
    linear->out = w->cols;
    linear->w = w->value;
    linear->dw = w->grad[0];
    linear->bias = bias ? bias->value : NULL;
    linear->dbias = bias ? bias->grad[0] : NULL;
}

/* own = own rows of all of them */
static void take_own(const ls_tensor_parallel *tp, ls_real *own, const ls_real *whole,
                     ls_axis tokens, size_t width)
{
    ls_share share = ls_own_share(tp, tokens.granule);
    for (size_t b = 0; b < tokens.granules; b++)
        memcpy(own + b * share.count * width, whole + (b * tokens.granule + share.first) * width,
               share.count * width * sizeof *own);
}

ls_status ls_replicated_forward(const ls_tensor_parallel *tp, const ls_replicated_linear *linear,
                                ls_real *y, const ls_real *x, ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary), in = linear->in, out = linear->out;
    ls_real *whole;

    LS_TRY(ls_gather_tokens(tp, x, tokens, in, &x));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(ls_axis_extent(tokens), out),
                          sizeof *whole, (void *)&whole));
    LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_NO_TRANS, tokens, ls_axis_whole(out),
                   ls_axis_whole(in), x, in, linear->w, out, whole, out, false));
    take_own(tp, y, whole, tokens, out);
    if (linear->bias)
        ls_add_bias(y, linear->bias, ls_axis_extent(ls_own_tokens(tp, tokens)), out, out);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}

ls_status ls_replicated_backward(const ls_tensor_parallel *tp, const ls_replicated_linear *linear,
                                 ls_real *dx, const ls_real *dy, const ls_real *x, ls_axis tokens)
{
    ls_status status = LS_OK;
    size_t mark = ls_arena_mark(tp->temporary), in = linear->in, out = linear->out;
    ls_real *whole;

    /* y = x w + bias: dw = x^T dy, dbias = sum of dy, dx = dy w^T */
    LS_TRY(ls_gather_tokens(tp, dy, tokens, out, &dy));
    ls_observe_next(tp, LS_POINT_FINAL_NORM, false); /* the one such linear that sees own tokens */
    LS_TRY(ls_gather_tokens(tp, x, tokens, in, &x));
    LS_TRY(ls_weight_gradient(tp, linear->dw, linear->dbias, x, ls_axis_whole(in), dy,
                              ls_axis_whole(out), tokens));
    LS_TRY(ls_arena_alloc(tp->temporary, ls_size_product(ls_axis_extent(tokens), in), sizeof *whole,
                          (void *)&whole));
    LS_TRY(ls_gemm(tp->engine, LS_NO_TRANS, LS_TRANS, tokens, ls_axis_whole(in), ls_axis_whole(out),
                   dy, out, linear->w, out, whole, in, false));
    take_own(tp, dx, whole, tokens, in);
exit:
    ls_arena_release(tp->temporary, mark);
    return status;
}
