/* attention.c - the core of attention for one sequence and one head, forward and backward.
 *
 * The products run over whole rows of P, masked places being zeros there: no tree depends on the
 * mask. What is done element by element or row by row (scale, softmax, dropout) touches only keys
 * 0 .. i of query i when attention is causal; the rest of the row is set to +0. That leaves the
 * softmax sum of rule 10 unchanged: its terms are exponentials, and +0 adds nothing to them. */
#include "lockstep/kernels/attention.h"

#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/softmax.h"

/* Keys that the causal mask leaves to query i: the first this many. */
static size_t keys_of(const ls_attention_shape *shape, size_t i)
{
    return shape->causal ? i + 1 : shape->S;
}

static void zero(ls_real *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)0;
}

/* y = dropout(x), row by row: element (i, j) of the S x S matrix is number i * S + j. */
static void dropout_rows(const ls_attention_shape *shape, ls_real *y, const ls_real *x)
{
    const size_t S = shape->S;
    for (size_t i = 0; i < S; i++) {
        const size_t seen = keys_of(shape, i);
        ls_dropout(y + i * S, x + i * S, seen, shape->dropout, shape->stream,
                   shape->first_index + i * S);
        zero(y + i * S + seen, S - seen);
    }
}

ls_status ls_attention_forward(ls_engine engine, const ls_attention_shape *shape, ls_real *o,
                               ls_real *P, const ls_real *q, const ls_real *k, const ls_real *v,
                               ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t S = shape->S;
    const ls_axis tokens = ls_axis_whole(S), features = ls_axis_whole(shape->head_width);
    const ls_real scale = (ls_real)shape->scale;

    /* P = softmax(scale * Q K^T + mask) */
    LS_TRY(ls_gemm(engine, LS_NO_TRANS, LS_TRANS, tokens, tokens, features, q, shape->ld_q, k,
                   shape->ld_kv, P, S, false));
    for (size_t i = 0; i < S; i++) {
        ls_real *row = P + i * S;
        const size_t seen = keys_of(shape, i);
        ls_scale(row, row, scale, seen);
        ls_softmax_forward(row, row, shape->keys, seen);
        zero(row + seen, S - seen);
    }

    /* O = dropout(P) V */
    const ls_real *weights = P;
    if (shape->dropout > 0.0) {
        dropout_rows(shape, scratch, P);
        weights = scratch;
    }
    LS_TRY(ls_gemm(engine, LS_NO_TRANS, LS_NO_TRANS, tokens, features, tokens, weights, S, v,
                   shape->ld_kv, o, shape->ld_q, false));
exit:
    return status;
}

ls_status ls_attention_backward(ls_engine engine, const ls_attention_shape *shape, ls_real *dq,
                                ls_real *dk, ls_real *dv, const ls_real *d_o, const ls_real *P,
                                const ls_real *q, const ls_real *k, const ls_real *v,
                                ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t S = shape->S;
    const ls_axis tokens = ls_axis_whole(S), features = ls_axis_whole(shape->head_width);
    const ls_real scale = (ls_real)shape->scale;
    ls_real *dropped = scratch, *dP = scratch, *dS = scratch + S * S;

    /* O = dropout(P) V:  dV = dropout(P)^T dO */
    const ls_real *weights = P;
    if (shape->dropout > 0.0) {
        dropout_rows(shape, dropped, P);
        weights = dropped;
    }
    LS_TRY(ls_gemm(engine, LS_TRANS, LS_NO_TRANS, tokens, features, tokens, weights, S, d_o,
                   shape->ld_q, dv, shape->ld_kv, false));

    /* and dP = dropout(dO V^T), with the mask of the forward pass drawn again */
    LS_TRY(ls_gemm(engine, LS_NO_TRANS, LS_TRANS, tokens, tokens, features, d_o, shape->ld_q, v,
                   shape->ld_kv, dP, S, false));
    if (shape->dropout > 0.0) dropout_rows(shape, dP, dP);

    /* P = softmax(scale * Q K^T + mask):  d(Q K^T) = scale * softmax_backward(dP) */
    for (size_t i = 0; i < S; i++) {
        ls_real *row = dS + i * S;
        const size_t seen = keys_of(shape, i);
        ls_softmax_backward(row, dP + i * S, P + i * S, seen);
        ls_scale(row, row, scale, seen);
        zero(row + seen, S - seen);
    }

    /* dQ = d(Q K^T) K,  dK = d(Q K^T)^T Q */
    LS_TRY(ls_gemm(engine, LS_NO_TRANS, LS_NO_TRANS, tokens, features, tokens, dS, S, k,
                   shape->ld_kv, dq, shape->ld_q, false));
    LS_TRY(ls_gemm(engine, LS_TRANS, LS_NO_TRANS, tokens, features, tokens, dS, S, q, shape->ld_q,
                   dk, shape->ld_kv, false));
exit:
    return status;
}
