/* wrap_layers.c - layers of a transformer done otherwise: biases, masks, scales, activations,
 * epsilons, positions, the vocabulary. */
#include <math.h>

#include "call.h"
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/rotary.h"
#include "lockstep/parallel/layout/own_tokens.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"
#include "parallel/transformer/norm_layer.h"
#include "parallel/transformer/stage_ends.h"
#include "wrapped.h"
#include "wrong_values.h"

LS_RIGHT(row_linear_forward);
LS_RIGHT(column_linear_forward);
LS_RIGHT(mlp_forward);
LS_RIGHT(mlp_backward);
LS_RIGHT(attention_forward);
LS_RIGHT(attention_backward);
LS_RIGHT(rotary_forward);
LS_RIGHT(rotary_backward);
LS_RIGHT(attention_block_backward);
LS_RIGHT(norm_bind);
LS_RIGHT(embed_forward);
LS_RIGHT(own_share);
LS_RIGHT(vocab_cross_entropy_forward);
LS_RIGHT(vocab_cross_entropy_backward);

/* ---- linear layers ---- */

ls_status ls_row_linear_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                                const ls_real *w, const ls_real *bias, ls_axis tokens,
                                const ls_cut *in, size_t out)
{
    ls_status status = LS_OK;
    LS_TRY(right_row_linear_forward(tp, y, x, w, bias, tokens, in, out));
    if (ls_faulty(LS_FAULT_BIAS_PER_RANK) && bias)
        for (int r = 1; r < ls_group_size(tp->group); r++)
            ls_add_bias(y, bias, ls_axis_extent(ls_own_tokens(tp, tokens)), out, out);
exit:
    return status;
}

ls_status ls_column_linear_forward(const ls_tensor_parallel *tp, ls_real *y, const ls_real *x,
                                   const ls_real *w, const ls_real *bias, ls_axis tokens, size_t in,
                                   const ls_cut *out)
{
    if (ls_faulty(LS_FAULT_BIAS_MISSING)) bias = NULL;
    return right_column_linear_forward(tp, y, x, w, bias, tokens, in, out);
}

/* ---- MLP ---- */

static ls_mlp wrong_mlp(const ls_mlp *mlp)
{
    ls_mlp wrong = *mlp;
    if (ls_faulty(LS_FAULT_GELU_VARIANT) && mlp->activation != LS_SWIGLU)
        wrong.activation = mlp->activation == LS_GELU_TANH ? LS_GELU_ERF : LS_GELU_TANH;
    if (ls_faulty(LS_FAULT_GATE_UP_SWAPPED) && mlp->w_gate) {
        wrong.w_gate = mlp->w_up;
        wrong.w_up = mlp->w_gate;
        wrong.dw_gate = mlp->dw_up;
        wrong.dw_up = mlp->dw_gate;
    }
    return wrong;
}

ls_status ls_mlp_forward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *y,
                         const ls_mlp_saved *saved, const ls_real *x, ls_axis tokens)
{
    const ls_mlp wrong = wrong_mlp(mlp);
    return right_mlp_forward(tp, &wrong, y, saved, x, tokens);
}

ls_status ls_mlp_backward(const ls_tensor_parallel *tp, const ls_mlp *mlp, ls_real *dx,
                          const ls_real *dy, const ls_mlp_saved *saved, const ls_real *x,
                          ls_axis tokens)
{
    const ls_mlp wrong = wrong_mlp(mlp);
    return right_mlp_backward(tp, &wrong, dx, dy, saved, x, tokens);
}

/* ---- attention ---- */

static bool is_shifted(const ls_attention_shape *shape)
{
    return shape->causal && (ls_faulty(LS_FAULT_CAUSAL_AHEAD) || ls_faulty(LS_FAULT_CAUSAL_BEHIND));
}

static ls_attention_shape wrong_shape(const ls_attention_shape *shape)
{
    ls_attention_shape wrong = *shape;
    if (ls_faulty(LS_FAULT_SCORE_SCALE)) wrong.scale = 1.0 / (double)shape->head_width;
    if (ls_faulty(LS_FAULT_SCORE_UNSCALED)) wrong.scale = 1.0;
    if (ls_faulty(LS_FAULT_CAUSAL_ABSENT) || is_shifted(shape)) wrong.causal = false;
    return wrong;
}

ls_status ls_attention_forward(ls_engine engine, const ls_attention_shape *shape, ls_real *o,
                               ls_real *P, const ls_real *q, const ls_real *k, const ls_real *v,
                               ls_real *scratch)
{
    ls_status status = LS_OK;
    const ls_attention_shape wrong = wrong_shape(shape);
    LS_TRY(right_attention_forward(engine, &wrong, o, P, q, k, v, scratch));
    if (is_shifted(shape)) ls_wrong_mask(&wrong, o, P, v);
exit:
    return status;
}

ls_status ls_attention_backward(ls_engine engine, const ls_attention_shape *shape, ls_real *dq,
                                ls_real *dk, ls_real *dv, const ls_real *d_o, const ls_real *P,
                                const ls_real *q, const ls_real *k, const ls_real *v,
                                ls_real *scratch)
{
    const ls_attention_shape wrong = wrong_shape(shape);
    return right_attention_backward(engine, &wrong, dq, dk, dv, d_o, P, q, k, v, scratch);
}

void ls_rotary_forward(ls_real *x, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                       size_t head_width, size_t ld)
{
    if (ls_faulty(LS_FAULT_ROTARY_PAIRS))
        ls_wrong_rotary(x, cos, sin, S, heads, head_width, ld, 1);
    else
        right_rotary_forward(x, cos, sin, S, heads, head_width, ld);
}

void ls_rotary_backward(ls_real *dx, const ls_real *cos, const ls_real *sin, size_t S, size_t heads,
                        size_t head_width, size_t ld)
{
    if (ls_faulty(LS_FAULT_ROTARY_PAIRS))
        ls_wrong_rotary(dx, cos, sin, S, heads, head_width, ld, -1);
    else
        right_rotary_backward(dx, cos, sin, S, heads, head_width, ld);
}

/* Sums over the ranks that share a key/value head are those over another group than tp. */
ls_status ls_attention_block_backward(const ls_tensor_parallel *tp, const ls_attention_block *block,
                                      ls_real *dx, const ls_real *dy,
                                      const ls_attention_saved *saved, const ls_real *x,
                                      const ls_batch *batch)
{
    ls_call_now.attention = tp->group;
    const ls_status status = right_attention_block_backward(tp, block, dx, dy, saved, x, batch);
    ls_call_now.attention = NULL;
    return status;
}

/* ---- norms ---- */

void ls_norm_bind(ls_norm *norm, const ls_store *store, ls_role scale, ls_role shift, size_t layer)
{
    right_norm_bind(norm, store, scale, shift, layer);
    if (ls_faulty(LS_FAULT_NORM_EPSILON)) norm->eps = norm->eps < 5e-6 ? 1e-5 : 1e-6;
}

/* ---- both ends ---- */

/* The first share that the embedding asks for says where its positions begin. */
ls_status ls_embed_forward(ls_stage *stage, ls_micro_batch *mb)
{
    ls_call_now.positions = true;
    const ls_status status = right_embed_forward(stage, mb);
    ls_call_now.positions = false;
    return status;
}

ls_share ls_own_share(const ls_tensor_parallel *tp, size_t S)
{
    ls_share own = right_own_share(tp, S);
    if (ls_faulty(LS_FAULT_POSITIONS_RESTART) && ls_call_now.positions) own.first = 0;
    ls_call_now.positions = false;
    return own;
}

/* Words in the softmax: with the fault, padding too. */
static size_t words(const ls_cut *vocab, size_t V)
{
    return ls_faulty(LS_FAULT_PADDED_VOCABULARY) ? ls_axis_extent(vocab->whole) : V;
}

ls_status ls_vocab_cross_entropy_forward(const ls_tensor_parallel *tp, ls_real *ret_loss,
                                         ls_real *ret_max, ls_real *ret_sum_exp, const ls_real *z,
                                         const int32_t *targets, size_t n, const ls_cut *vocab,
                                         size_t V, double smoothing)
{
    return right_vocab_cross_entropy_forward(tp, ret_loss, ret_max, ret_sum_exp, z, targets, n,
                                             vocab, words(vocab, V), smoothing);
}

void ls_vocab_cross_entropy_backward(const ls_tensor_parallel *tp, ls_real *dz, const ls_real *z,
                                     const ls_real *max, const ls_real *sum_exp,
                                     const int32_t *targets, size_t n, const ls_cut *vocab,
                                     size_t V, double smoothing, ls_real factor)
{
    right_vocab_cross_entropy_backward(tp, dz, z, max, sum_exp, targets, n, vocab, words(vocab, V),
                                       smoothing, factor);
}
