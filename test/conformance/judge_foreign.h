/* judge_foreign.h - the same functions written by somebody else: plain loops from the last term to
 * the first, the C library's functions, everything in ls_real, the ranks' parts added in a ring's
 * order. Right, and in no order of Lockstep's: the bounds must let it pass. */
#ifndef LS_TEST_JUDGE_FOREIGN_H
#define LS_TEST_JUDGE_FOREIGN_H

#include "judge_own.h"
#include "lockstep/numerics/ignore.h"

#ifdef LS_REAL_IS_F64
#define REAL(name) name
#else
#define REAL(name) name##f
#endif

/* x = sum over ranks, from the last to the first. */
static ls_status add_ranks(ls_backend_rank *me, ls_real *x, size_t n)
{
    ls_status status = LS_OK;
    size_t starts[OWN_RANKS + 1];
    ls_real *all = NULL;
    for (int r = 0; r <= me->ranks; r++) starts[r] = (size_t)r * n;
    LS_TRY(room(me, (size_t)me->ranks * n, &all));
    LS_TRY(ls_all_gather(group_of(me), all, x, starts, LS_REAL_DTYPE));
    for (size_t i = 0; i < n; i++) {
        ls_real sum = 0;
        for (int r = me->ranks - 1; r >= 0; r--) sum += all[(size_t)r * n + i];
        x[i] = sum;
    }
exit:
    return status;
}

static int foreign_end(ls_backend_rank *me, ls_status status)
{
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int foreign_all_reduce(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n,
                              ls_backend_reduction reduction)
{
    if (reduction == LS_BACKEND_MAX)
        return ended(me, ls_all_reduce(group_of(me), out, in, n, LS_REAL_DTYPE, LS_REDUCE_MAX));
    if (n > 0 && out != in) memcpy(out, in, n * sizeof *out);
    return foreign_end(me, add_ranks(me, out, n));
}

/* c = a b from the last term on: rows x cols, n terms; element (i, k) of a at i ar + k ac. */
static void multiply(ls_real *c, const ls_real *a, size_t ar, size_t ac, const ls_real *b,
                     size_t br, size_t bc, size_t rows, size_t cols, size_t n)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++) {
            ls_real sum = 0;
            for (size_t k = n; k-- > 0;) sum += a[i * ar + k * ac] * b[k * br + j * bc];
            c[i * cols + j] = sum;
        }
}

static void add_down(ls_real *sum, const ls_real *x, size_t rows, size_t cols)
{
    for (size_t j = 0; j < cols; j++) {
        sum[j] = 0;
        for (size_t i = rows; i-- > 0;) sum[j] += x[i * cols + j];
    }
}

static size_t foreign_width(const ls_backend_rank *me, ls_backend_cut cut)
{
    return cut.starts[me->rank + 1] - cut.starts[me->rank];
}

static int foreign_row(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w,
                       const ls_real *bias, const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    multiply(y, x, width, 1, w, s->out, 1, n, s->out, width);
    /* The bias on one rank before the sum: another order, and right. */
    for (size_t i = 0; bias != NULL && me->rank == 0 && i < n * s->out; i++)
        y[i] += bias[i % s->out];
    return foreign_end(me, add_ranks(me, y, n * s->out));
}

static int foreign_column_backward(ls_backend_rank *me, ls_real *dx, ls_real *dw, ls_real *dbias,
                                   const ls_real *dy, const ls_real *x, const ls_real *w,
                                   const ls_backend_linear *s)
{
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    multiply(dx, dy, width, 1, w, 1, width, n, s->in, width);
    multiply(dw, x, 1, s->in, dy, width, 1, s->in, width, n);
    if (dbias != NULL) add_down(dbias, dy, n, width);
    return foreign_end(me, add_ranks(me, dx, n * s->in));
}

/* ---- mlp ---- */

static ls_real foreign_gelu_of(ls_real x, ls_backend_gelu form, ls_real *ret_slope)
{
    const ls_real c = (ls_real)0.7978845608028654, half = (ls_real)0.5;
    ls_real t, slope;
    if (form == LS_BACKEND_GELU_ERF) {
        t = REAL(erf)(x / REAL(sqrt)((ls_real)2));
        slope = c * REAL(exp)(-half * x * x);
    } else {
        t = REAL(tanh)(c * (x + (ls_real)0.044715 * x * x * x));
        slope = (1 - t * t) * c * (1 + 3 * (ls_real)0.044715 * x * x);
    }
    *ret_slope = half * (1 + t) + half * x * slope;
    return half * x * (1 + t);
}

static int foreign_gelu(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t n,
                        ls_backend_gelu form)
{
    ls_real slope;
    (void)me;
    for (size_t i = 0; i < n; i++) y[i] = foreign_gelu_of(x[i], form, &slope);
    return LS_BACKEND_DONE;
}

static int foreign_gelu_backward(ls_backend_rank *me, ls_real *dx, const ls_real *dy,
                                 const ls_real *x, size_t n, ls_backend_gelu form)
{
    ls_real slope;
    (void)me;
    for (size_t i = 0; i < n; i++) {
        foreign_gelu_of(x[i], form, &slope);
        dx[i] = dy[i] * slope;
    }
    return LS_BACKEND_DONE;
}

static void foreign_up(const ls_backend_mlp *s, size_t width, ls_real *u, ls_real *slope,
                       const ls_real *x, const ls_real *w_up, const ls_real *b_up)
{
    const size_t n = s->B * s->S;
    multiply(u, x, s->D, 1, w_up, width, 1, n, width, s->D);
    for (size_t i = 0; i < n * width; i++)
        u[i] = foreign_gelu_of(u[i] + b_up[i % width], s->gelu, &slope[i]);
}

static int foreign_mlp(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *w_up,
                       const ls_real *b_up, const ls_real *w_down, const ls_real *b_down,
                       const ls_backend_mlp *s)
{
    ls_status status = LS_OK;
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    ls_real *u = NULL, *slope = NULL;
    LS_TRY(room(me, n * width, &u));
    LS_TRY(room(me, n * width, &slope));
    foreign_up(s, width, u, slope, x, w_up, b_up);
    multiply(y, u, width, 1, w_down, s->D, 1, n, s->D, width);
    LS_TRY(add_ranks(me, y, n * s->D));
    for (size_t i = 0; i < n * s->D; i++) y[i] += b_down[i % s->D];
exit:
    return foreign_end(me, status);
}

static int foreign_mlp_backward(ls_backend_rank *me, ls_real *dx, ls_real *dw_up, ls_real *db_up,
                                ls_real *dw_down, ls_real *db_down, const ls_real *dy,
                                const ls_real *x, const ls_real *w_up, const ls_real *b_up,
                                const ls_real *w_down, const ls_backend_mlp *s)
{
    ls_status status = LS_OK;
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    ls_real *u = NULL, *slope = NULL, *dh = NULL;
    LS_TRY(room(me, n * width, &u));
    LS_TRY(room(me, n * width, &slope));
    LS_TRY(room(me, n * width, &dh));
    foreign_up(s, width, u, slope, x, w_up, b_up);
    multiply(dw_down, u, 1, width, dy, s->D, 1, width, s->D, n);
    add_down(db_down, dy, n, s->D);
    multiply(dh, dy, s->D, 1, w_down, 1, s->D, n, width, s->D);
    for (size_t i = 0; i < n * width; i++) dh[i] *= slope[i];
    multiply(dw_up, x, 1, s->D, dh, width, 1, s->D, width, n);
    add_down(db_up, dh, n, width);
    multiply(dx, dh, width, 1, w_up, 1, width, n, s->D, width);
    LS_TRY(add_ranks(me, dx, n * s->D));
exit:
    return foreign_end(me, status);
}

/* ---- softmax and attention ---- */

static void foreign_softmax_row(ls_real *y, const ls_real *x, size_t n)
{
    ls_real largest = -(ls_real)INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = n; i-- > 0;) sum += y[i] = REAL(exp)(x[i] - largest);
    for (size_t i = 0; i < n; i++) y[i] /= sum;
}

static int foreign_softmax(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t rows, size_t n)
{
    (void)me;
    for (size_t r = 0; r < rows; r++) foreign_softmax_row(y + r * n, x + r * n, n);
    return LS_BACKEND_DONE;
}

/* y dy - y sum: the same in another way. */
static int foreign_softmax_backward(ls_backend_rank *me, ls_real *dx, const ls_real *dy,
                                    const ls_real *y, size_t rows, size_t n)
{
    (void)me;
    for (size_t r = 0; r < rows; r++) {
        ls_real sum = 0;
        for (size_t i = (r + 1) * n; i-- > r * n;) sum += y[i] * dy[i];
        for (size_t i = r * n; i < (r + 1) * n; i++) dx[i] = y[i] * dy[i] - y[i] * sum;
    }
    return LS_BACKEND_DONE;
}

/* Probabilities of query i: keys 0 .. seen. */
static size_t foreign_query(const ls_backend_attention *s, size_t ld, const ls_real *q,
                            const ls_real *k, size_t i, ls_real *P)
{
    const size_t seen = s->causal ? i + 1 : s->S;
    for (size_t j = 0; j < seen; j++) {
        P[j] = 0;
        for (size_t c = s->head_width; c-- > 0;) P[j] += q[i * ld + c] * k[j * ld + c];
        P[j] /= REAL(sqrt)((ls_real)s->head_width);
    }
    foreign_softmax_row(P, P, seen);
    return seen;
}

static int foreign_attention(ls_backend_rank *me, ls_real *o, const ls_real *q, const ls_real *k,
                             const ls_real *v, const ls_backend_attention *s)
{
    ls_status status = LS_OK;
    const size_t heads = foreign_width(me, s->cut), ld = heads * s->head_width;
    ls_real *P = NULL;
    LS_TRY(room(me, s->S, &P));
    for (size_t b = 0; b < s->B; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = 0; i < s->S; i++) {
                const size_t at = b * s->S * ld + h * s->head_width;
                const size_t seen = foreign_query(s, ld, q + at, k + at, i, P);
                for (size_t c = 0; c < s->head_width; c++) {
                    ls_real sum = 0;
                    for (size_t j = seen; j-- > 0;) sum += P[j] * v[at + j * ld + c];
                    o[at + i * ld + c] = sum;
                }
            }
exit:
    return foreign_end(me, status);
}

/* sum of P dP as do . o, which is the same number. */
static int foreign_attention_backward(ls_backend_rank *me, ls_real *dq, ls_real *dk, ls_real *dv,
                                      const ls_real *d_o, const ls_real *q, const ls_real *k,
                                      const ls_real *v, const ls_backend_attention *s)
{
    ls_status status = LS_OK;
    const size_t heads = foreign_width(me, s->cut), ld = heads * s->head_width;
    const size_t n = s->B * s->S * ld;
    const ls_real scale = 1 / REAL(sqrt)((ls_real)s->head_width);
    ls_real *P = NULL;
    LS_TRY(room(me, s->S, &P));
    memset(dq, 0, n * sizeof *dq);
    memset(dk, 0, n * sizeof *dk);
    memset(dv, 0, n * sizeof *dv);
    for (size_t b = 0; b < s->B; b++)
        for (size_t h = 0; h < heads; h++)
            for (size_t i = s->S; i-- > 0;) {
                const size_t at = b * s->S * ld + h * s->head_width, own_row = at + i * ld;
                const size_t seen = foreign_query(s, ld, q + at, k + at, i, P);
                ls_real along = 0;
                for (size_t c = 0; c < s->head_width; c++) {
                    ls_real o = 0;
                    for (size_t j = 0; j < seen; j++) o += P[j] * v[at + j * ld + c];
                    along += o * d_o[own_row + c];
                }
                for (size_t j = 0; j < seen; j++) {
                    ls_real dP = 0;
                    for (size_t c = 0; c < s->head_width; c++)
                        dP += d_o[own_row + c] * v[at + j * ld + c];
                    const ls_real dS = P[j] * (dP - along) * scale;
                    for (size_t c = 0; c < s->head_width; c++) {
                        dq[own_row + c] += dS * k[at + j * ld + c];
                        dk[at + j * ld + c] += dS * q[own_row + c];
                        dv[at + j * ld + c] += P[j] * d_o[own_row + c];
                    }
                }
            }
exit:
    return foreign_end(me, status);
}

#endif
