/* judge_foreign_tokens.h - somebody else's loss, norms and update, and the whole table. */
#ifndef LS_TEST_JUDGE_FOREIGN_TOKENS_H
#define LS_TEST_JUDGE_FOREIGN_TOKENS_H

#include "judge_foreign.h"

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
