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

/* ---- loss ---- */

/* *ret_lse of every token: max + log(sum of exp(z - max)) over all ranks. */
static ls_status foreign_lse(ls_backend_rank *me, const ls_real *z, const ls_backend_vocab *s,
                             ls_real **ret_lse)
{
    ls_status status = LS_OK;
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    const size_t first = s->cut.starts[me->rank];
    ls_real *max = NULL, *sum = NULL;
    LS_TRY(room(me, n, &max));
    LS_TRY(room(me, n, &sum));
    for (size_t t = 0; t < n; t++) {
        max[t] = -(ls_real)INFINITY;
        for (size_t c = 0; c < width && first + c < s->V; c++)
            max[t] = z[t * width + c] > max[t] ? z[t * width + c] : max[t];
    }
    LS_TRY(ls_all_reduce(group_of(me), max, max, n, LS_REAL_DTYPE, LS_REDUCE_MAX));
    for (size_t t = 0; t < n; t++) {
        sum[t] = 0;
        for (size_t c = width; c-- > 0;)
            if (first + c < s->V) sum[t] += REAL(exp)(z[t * width + c] - max[t]);
    }
    LS_TRY(add_ranks(me, sum, n));
    for (size_t t = 0; t < n; t++) sum[t] = max[t] + REAL(log)(sum[t]);
    *ret_lse = sum;
exit:
    return status;
}

static int foreign_loss(ls_backend_rank *me, ls_real *loss, ls_real *mean, const ls_real *z,
                        const int32_t *targets, const ls_backend_vocab *s)
{
    ls_status status = LS_OK;
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    const size_t first = s->cut.starts[me->rank];
    const ls_real a = (ls_real)s->smoothing;
    size_t valid = 0;
    ls_real *lse = NULL, *picked = NULL, total = 0;
    LS_TRY(foreign_lse(me, z, s, &lse));
    LS_TRY(room(me, 2 * n, &picked));
    for (size_t t = 0; t < n; t++) {
        const size_t column = (size_t)targets[t] - first;
        picked[t] = targets[t] != LS_IGNORE && column < width ? z[t * width + column] : 0;
        picked[n + t] = 0;
        for (size_t c = 0; c < width && first + c < s->V; c++) picked[n + t] += z[t * width + c];
    }
    LS_TRY(add_ranks(me, picked, 2 * n));
    for (size_t t = n; t-- > 0;) {
        const ls_real even = lse[t] - picked[n + t] / (ls_real)s->V;
        loss[t] = (1 - a) * (lse[t] - picked[t]) + a * even;
        if (targets[t] == LS_IGNORE) loss[t] = 0;
        valid += targets[t] != LS_IGNORE;
        total += loss[t];
    }
    *mean = valid > 0 ? total / (ls_real)valid : 0;
exit:
    return foreign_end(me, status);
}

static int foreign_loss_backward(ls_backend_rank *me, ls_real *dz, const ls_real *dloss,
                                 const ls_real *z, const int32_t *targets,
                                 const ls_backend_vocab *s)
{
    ls_status status = LS_OK;
    const size_t n = s->B * s->S, width = foreign_width(me, s->cut);
    const size_t first = s->cut.starts[me->rank];
    const ls_real a = (ls_real)s->smoothing;
    ls_real *lse = NULL;
    LS_TRY(foreign_lse(me, z, s, &lse));
    for (size_t i = 0; i < n * width; i++) {
        const size_t t = i / width, column = first + i % width;
        if (targets[t] == LS_IGNORE || column >= s->V) {
            dz[i] = 0;
            continue;
        }
        const ls_real q = a / (ls_real)s->V + (column == (size_t)targets[t] ? 1 - a : 0);
        dz[i] = (REAL(exp)(z[i] - lse[t]) - q) * dloss[t];
    }
exit:
    return foreign_end(me, status);
}

/* ---- norms ---- */

/* shift NULL: RMSNorm. */
static void foreign_statistics(const ls_real *x, size_t D, double eps, bool layer, ls_real *mean,
                               ls_real *rstd)
{
    ls_real sum = 0, squares = 0;
    for (size_t i = D; layer && i-- > 0;) sum += x[i];
    *mean = sum / (ls_real)D;
    for (size_t i = D; i-- > 0;) squares += (x[i] - *mean) * (x[i] - *mean);
    *rstd = 1 / REAL(sqrt)(squares / (ls_real)D + (ls_real)eps);
}

static int foreign_norm(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                        const ls_real *shift, const ls_backend_norm *s)
{
    const size_t rows = s->tokens.B * foreign_width(me, s->tokens.cut);
    for (size_t t = 0; t < rows; t++) {
        ls_real mean, rstd;
        foreign_statistics(x + t * s->D, s->D, s->eps, shift != NULL, &mean, &rstd);
        for (size_t i = 0; i < s->D; i++)
            y[t * s->D + i] = (x[t * s->D + i] - mean) * (rstd * scale[i]) + (shift ? shift[i] : 0);
    }
    return LS_BACKEND_DONE;
}

static int foreign_rms(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                       const ls_backend_norm *s)
{
    return foreign_norm(me, y, x, scale, NULL, s);
}

static int foreign_norm_backward(ls_backend_rank *me, ls_real *dx, ls_real *dscale, ls_real *dshift,
                                 const ls_real *dy, const ls_real *x, const ls_real *scale,
                                 const ls_backend_norm *s)
{
    ls_status status = LS_OK;
    const bool layer = dshift != NULL;
    const size_t D = s->D, rows = s->tokens.B * foreign_width(me, s->tokens.cut);
    memset(dscale, 0, D * sizeof *dscale);
    if (layer) memset(dshift, 0, D * sizeof *dshift);
    for (size_t t = rows; t-- > 0;) {
        ls_real mean, rstd, sum = 0, along = 0;
        foreign_statistics(x + t * D, D, s->eps, layer, &mean, &rstd);
        for (size_t i = 0; i < D; i++) {
            const ls_real xhat = (x[t * D + i] - mean) * rstd, d = dy[t * D + i];
            dscale[i] += d * xhat;
            if (layer) dshift[i] += d;
            sum += d * scale[i];
            along += d * scale[i] * xhat;
        }
        for (size_t i = 0; i < D; i++) {
            const ls_real xhat = (x[t * D + i] - mean) * rstd;
            dx[t * D + i] =
                rstd / (ls_real)D *
                ((ls_real)D * dy[t * D + i] * scale[i] - (layer ? sum : 0) - xhat * along);
        }
    }
    LS_TRY(add_ranks(me, dscale, D));
    if (layer) LS_TRY(add_ranks(me, dshift, D));
exit:
    return foreign_end(me, status);
}

static int foreign_rms_backward(ls_backend_rank *me, ls_real *dx, ls_real *dscale,
                                const ls_real *dy, const ls_real *x, const ls_real *scale,
                                const ls_backend_norm *s)
{
    return foreign_norm_backward(me, dx, dscale, NULL, dy, x, scale, s);
}

/* ---- the update ---- */

static int foreign_clip(ls_backend_rank *me, ls_real *norm, ls_real *own_part, size_t n,
                        ls_real *shared, size_t n_shared, double max_norm)
{
    ls_status status = LS_OK;
    ls_real sum = 0, once = 0;
    for (size_t i = n; i-- > 0;) sum += own_part[i] * own_part[i];
    for (size_t i = n_shared; i-- > 0;) once += shared[i] * shared[i];
    LS_TRY(add_ranks(me, &sum, 1));
    *norm = REAL(sqrt)(sum + once);
    const ls_real factor = *norm > (ls_real)max_norm ? (ls_real)max_norm / *norm : 1;
    for (size_t i = 0; i < n; i++) own_part[i] *= factor;
    for (size_t i = 0; i < n_shared; i++) shared[i] *= factor;
exit:
    return foreign_end(me, status);
}

/* All constants rounded first, 1 - beta and the powers in ls_real. */
static int foreign_adamw(ls_backend_rank *me, ls_real *w, ls_real *m, ls_real *v, const ls_real *g,
                         size_t n, double lr, double beta1, double beta2, double eps,
                         double weight_decay, uint64_t t)
{
    const ls_real b1 = (ls_real)beta1, b2 = (ls_real)beta2, rate = (ls_real)lr;
    const ls_real c1 = 1 - REAL(pow)(b1, (ls_real)t), c2 = 1 - REAL(pow)(b2, (ls_real)t);
    (void)me;
    for (size_t i = 0; i < n; i++) {
        m[i] = b1 * m[i] + (1 - b1) * g[i];
        v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
        w[i] *= 1 - rate * (ls_real)weight_decay;
        w[i] -= rate / c1 * m[i] / (REAL(sqrt)(v[i]) / REAL(sqrt)(c2) + (ls_real)eps);
    }
    return LS_BACKEND_DONE;
}

static ls_backend foreign_table(void)
{
    ls_backend table = {.name = "somebody else's",
                        .context = &own,
                        .run = own_run,
                        .all_reduce = foreign_all_reduce,
                        .column_linear_backward = foreign_column_backward,
                        .row_linear_forward = foreign_row,
                        .mlp_forward = foreign_mlp,
                        .mlp_backward = foreign_mlp_backward,
                        .attention_forward = foreign_attention,
                        .attention_backward = foreign_attention_backward,
                        .vocab_cross_entropy_forward = foreign_loss,
                        .vocab_cross_entropy_backward = foreign_loss_backward,
                        .layer_norm_forward = foreign_norm,
                        .layer_norm_backward = foreign_norm_backward,
                        .rms_norm_forward = foreign_rms,
                        .rms_norm_backward = foreign_rms_backward,
                        .gelu_forward = foreign_gelu,
                        .gelu_backward = foreign_gelu_backward,
                        .softmax_forward = foreign_softmax,
                        .softmax_backward = foreign_softmax_backward,
                        .clip_gradient = foreign_clip,
                        .adamw = foreign_adamw};
    return table;
}

#endif
