/* attention.h - the core of attention for one sequence and one head, forward and backward.
 *
 *     P = softmax(scale * Q K^T + mask)     S x S
 *     O = dropout(P) V                      S x head_width
 *
 * Heads never meet here: tensor parallelism gives each rank whole heads. The sums run over the head
 * width (one granule), the keys or the queries (S, one granule, leaves of 256); masked terms are
 * zeros at their place, so the tree never depends on the mask. (An infinite or NaN value of a key
 * that is masked still comes through: 0 times it is NaN.) */
#ifndef LS_KERNELS_ATTENTION_H
#define LS_KERNELS_ATTENTION_H

#include <stdbool.h>

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/random.h"

LS_BEGIN_DECLS

/* One head of one sequence. */
typedef struct ls_attention_shape {
    size_t S, head_width;
    size_t ld_q;               /* elements from token to token in q, o, dq, do */
    size_t ld_kv;              /* in k, v, dk, dv                              */
    double scale;              /* 1 / sqrt(head_width), rounded to ls_real before use */
    bool causal;               /* query i sees keys 0 .. i; else all           */
    const unsigned char *keys; /* S bytes, 0: no query sees this key (padding); NULL: all seen */
    double dropout;            /* probability of dropping a P entry                          */
    ls_stream stream;          /* of the dropout mask                                        */
    uint64_t first_index;      /* logical index of P[0][0]: ((sequence * H + head) * S) * S  */
} ls_attention_shape;

/* Computes P (kept for the backward pass, before dropout: S x S contiguous) and o. A row that sees
 * no key gives zeros. q, o: S rows of head_width, stride ld_q; k, v: stride ld_kv. scratch: S x S.
 * Errors: those of ls_gemm. */
#define ls_attention_forward LS_TYPED(ls_attention_forward)
LS_API ls_status ls_attention_forward(ls_engine engine, const ls_attention_shape *shape, ls_real *o,
                                      ls_real *P, const ls_real *q, const ls_real *k,
                                      const ls_real *v, ls_real *scratch) LS_MUST_USE;

/* dq, dk, dv from d_o; all overwritten:
 *     dv = dropout(P)^T d_o      dP = dropout(d_o V^T)     dS = scale * (P * (dP - sum(dP * P)))
 *     dq = dS K                  dk = dS^T Q
 * The dropout mask is drawn again. Sums of a row over keys 0 .. i when causal, by rule 10.
 * dq, d_o, q: stride ld_q; dk, dv, k, v: stride ld_kv. scratch: 2 S x S, of which the first then
 * holds dP (undefined where the query does not see the key). Errors: those of ls_gemm.
 */
#define ls_attention_backward LS_TYPED(ls_attention_backward)
LS_API ls_status ls_attention_backward(ls_engine engine, const ls_attention_shape *shape,
                                       ls_real *dq, ls_real *dk, ls_real *dv, const ls_real *d_o,
                                       const ls_real *P, const ls_real *q, const ls_real *k,
                                       const ls_real *v, ls_real *scratch) LS_MUST_USE;

LS_END_DECLS

#endif
