/* judge_own_tokens.h - the loss, sequence parallelism, what needs no communication, and the update.
 */
#ifndef LS_TEST_JUDGE_OWN_TOKENS_H
#define LS_TEST_JUDGE_OWN_TOKENS_H

#include "judge_own_layers.h"
#include "lockstep/kernels/norm.h"
#include "lockstep/kernels/optimizer.h"
#include "lockstep/kernels/softmax.h"
#include "lockstep/numerics/ignore.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "lockstep/parallel/tensor/vocab_cross_entropy.h"

/* ---- loss ---- */

/* The logits of all ranks, for who makes mistakes. */
static ls_status all_logits(ls_backend_rank *me, const ls_real *z, const ls_backend_vocab *s,
                            ls_real **ret_all)
{
    ls_status status = LS_OK;
    LS_TRY(room(me, s->B * s->S * s->cut.starts[me->ranks], ret_all));
    LS_TRY(ls_all_gather_columns(group_of(me), *ret_all, z, s->B * s->S, s->cut.starts,
                                 LS_REAL_DTYPE));
exit:
    return status;
}

/* log of the sum of exp(row[c]) over lo .. hi, and the mean. */
static double lse_of(const ls_real *row, size_t lo, size_t hi, double *ret_mean)
{
    double largest = -HUGE_VAL, sum = 0, plain = 0;
    for (size_t c = lo; c < hi; c++) largest = fmax(largest, (double)row[c]);
    for (size_t c = lo; c < hi; c++) sum += exp((double)row[c] - largest), plain += (double)row[c];
    if (ret_mean) *ret_mean = plain / (double)(hi - lo);
    return largest + log(sum);
}

static bool loss_is_wrong(void)
{
    return mistake >= LOSS_PADDED && mistake <= LOSS_OTHER_TARGET;
}

static double wrong_loss(const ls_backend_rank *me, const ls_real *row, int32_t target,
                         const ls_backend_vocab *s)
{
    double mean = 0, own_mean = 0, lse = lse_of(row, 0, s->V, &mean);
    const size_t lo = s->cut.starts[me->rank], end = s->cut.starts[me->rank + 1];
    const size_t hi = end < s->V ? end : s->V;
    const bool mine = target >= 0 && (size_t)target >= lo && (size_t)target < end;
    const double a = s->smoothing;
    double largest = -HUGE_VAL, z = 0;
    for (size_t c = 0; c < s->V; c++) largest = fmax(largest, (double)row[c]);
    if (target == LS_IGNORE) return mistake == LOSS_IGNORED ? lse - largest : 0;
    if (mistake == LOSS_PADDED) lse = lse_of(row, 0, s->cut.starts[me->ranks], NULL);
    if (hi > lo) {
        const double own_lse = lse_of(row, lo, hi, &own_mean);
        if (mistake == LOSS_OWN_COLUMNS) lse = own_lse;
        if (mistake == LOSS_SMOOTHED_LOCALLY) mean = own_mean;
    }
    if (mistake == LOSS_EXP_PER_RANK) lse += log(me->ranks);
    z = mine || mistake != LOSS_TARGET_OF_OWNER ? (double)row[target] : largest;
    return (1 - a) * (lse - z) + a * (lse - mean);
}

static int own_loss(ls_backend_rank *me, ls_real *loss, ls_real *mean, const ls_real *z,
                    const int32_t *targets, const ls_backend_vocab *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const size_t n = s->B * s->S, W = s->cut.starts[me->ranks];
    size_t valid = 0;
    ls_real *max = NULL, *sum = NULL, *all = NULL, total;
    LS_TRY(room(me, n, &max));
    LS_TRY(room(me, n, &sum));
    LS_TRY(ls_vocab_cross_entropy_forward(&tp, loss, max, sum, z, targets, n,
                                          cut_of(&axis, me, s->cut), s->V, s->smoothing));
    if (loss_is_wrong()) LS_TRY(all_logits(me, z, s, &all));
    for (size_t t = 0; t < n; t++) {
        valid += targets[t] != LS_IGNORE;
        if (loss_is_wrong()) loss[t] = (ls_real)wrong_loss(me, all + t * W, targets[t], s);
    }
    ls_tree_sum_rows(&total, loss, ls_axis_of(s->B, s->S), 1, 1);
    ls_normalize_zero(&total, 1);
    if (mistake == MEAN_OF_ALL) valid = n;
    *mean = valid > 0 ? total / (ls_real)valid : (ls_real)0;
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_loss_backward(ls_backend_rank *me, ls_real *dz, const ls_real *dloss,
                             const ls_real *z, const int32_t *targets, const ls_backend_vocab *s)
{
    own_axis axis;
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = tp_of(me);
    const size_t n = s->B * s->S, width = own_width(me, s->cut), lo = s->cut.starts[me->rank];
    const ls_cut *cut = cut_of(&axis, me, s->cut);
    ls_real *max = NULL, *sum = NULL, *loss = NULL, *all = NULL;
    LS_TRY(room(me, n, &max));
    LS_TRY(room(me, n, &sum));
    LS_TRY(room(me, n, &loss));
    LS_TRY(ls_vocab_cross_entropy_forward(&tp, loss, max, sum, z, targets, n, cut, s->V,
                                          s->smoothing));
    if (loss_is_wrong()) LS_TRY(all_logits(me, z, s, &all));
    for (size_t t = 0; t < n; t++) {
        const ls_real up = dloss[mistake == LOSS_SCALAR ? 0 : t];
        int32_t target = targets[t];
        if (mistake == LOSS_IGNORED && target == LS_IGNORE)
            for (size_t c = 0; c < width; c++) /* the softmax alone */
                dz[t * width + c] =
                    lo + c < s->V
                        ? (ls_real)exp((double)z[t * width + c] -
                                       lse_of(all + t * s->cut.starts[me->ranks], 0, s->V, NULL)) *
                              up
                        : 0;
        if (mistake == LOSS_IGNORED && target == LS_IGNORE) continue;
        ls_vocab_cross_entropy_backward(&tp, dz + t * width, z + t * width, max + t, sum + t,
                                        &target, 1, cut, s->V, s->smoothing, up);
        const bool mine = target != LS_IGNORE && (size_t)target - lo < width;
        if (mistake == LOSS_OTHER_TARGET && target != LS_IGNORE && !mine && width > 0)
            dz[t * width] -= (ls_real)(1 - s->smoothing) * up;
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

/* ---- tokens ---- */

static ls_tensor_parallel sp_of(const ls_backend_rank *me)
{
    ls_tensor_parallel tp = tp_of(me);
    tp.sequence_parallel = true;
    return tp;
}

static int own_gather_tokens(ls_backend_rank *me, ls_real *whole, const ls_real *own_rows,
                             const ls_backend_tokens *s)
{
    ls_status status = LS_OK;
    const ls_tensor_parallel tp = sp_of(me);
    const ls_real *gathered = NULL;
    const size_t n = s->B * s->S * s->width;
    size_t flat[OWN_RANKS + 1];
    for (int r = 0; r <= me->ranks; r++) flat[r] = s->B * s->cut.starts[r] * s->width;
    if (mistake == TOKENS_FLAT) {
        LS_TRY(ls_all_gather(group_of(me), whole, own_rows, flat, LS_REAL_DTYPE));
        goto exit;
    }
    LS_TRY(ls_gather_tokens(&tp, own_rows, ls_axis_of(s->B, s->S), s->width, &gathered));
    if (n > 0) memcpy(whole, gathered, n * sizeof *whole);
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_scatter_tokens(ls_backend_rank *me, ls_real *own_rows, const ls_real *partial,
                              const ls_backend_tokens *s)
{
    const ls_tensor_parallel tp = sp_of(me);
    const ls_forest forest = {(size_t)me->ranks, one_each()};
    size_t flat[OWN_RANKS + 1];
    for (int r = 0; r <= me->ranks; r++) flat[r] = s->B * s->cut.starts[r] * s->width;
    if (mistake == TOKENS_FLAT)
        return ended(me, ls_reduce_scatter_forest(group_of(me), own_rows, partial, flat,
                                                  LS_REAL_DTYPE, &forest));
    return ended(me, ls_sum_to_own_tokens(&tp, own_rows, partial, ls_axis_of(s->B, s->S), s->width,
                                          &forest));
}

/* ---- norms ---- */

static size_t own_rows_of(const ls_backend_rank *me, const ls_backend_norm *s)
{
    return s->tokens.B * own_width(me, s->tokens.cut);
}

static int own_norm(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                    const ls_real *shift, const ls_backend_norm *s)
{
    ls_status status = LS_OK;
    const size_t rows = own_rows_of(me, s);
    ls_real *mean = NULL, *rstd = NULL;
    LS_TRY(room(me, rows, &mean));
    LS_TRY(room(me, rows, &rstd));
    if (shift != NULL)
        ls_layer_norm_forward(y, mean, rstd, x, scale, shift, rows, s->D, s->eps);
    else
        ls_rms_norm_forward(y, rstd, x, scale, rows, s->D, s->eps);
    for (size_t i = 0; i < rows * s->D; i++) {
        const double r = (double)rstd[i / s->D], D = (double)s->D;
        const double variance = 1 / (r * r) - s->eps;
        double other = r;
        if (mistake == NORM_EPS_OUTSIDE) other = 1 / (sqrt(fmax(0, variance)) + s->eps);
        if (mistake == NORM_UNBIASED) other = 1 / sqrt(variance * D / (D - 1) + s->eps);
        if (other != r)
            y[i] = (ls_real)(((double)x[i] - (double)mean[i / s->D]) * other *
                                 (double)scale[i % s->D] +
                             (double)shift[i % s->D]);
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_layer_norm(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                          const ls_real *shift, const ls_backend_norm *s)
{
    return own_norm(me, y, x, scale, shift, s);
}

static int own_rms_norm(ls_backend_rank *me, ls_real *y, const ls_real *x, const ls_real *scale,
                        const ls_backend_norm *s)
{
    return own_norm(me, y, x, scale, NULL, s);
}

/* dshift NULL: RMSNorm. The parameters' sums over all tokens, gathered. */
static ls_status norm_backward(ls_backend_rank *me, ls_real *dx, ls_real *dscale, ls_real *dshift,
                               const ls_real *dy, const ls_real *x, const ls_real *scale,
                               const ls_backend_norm *s)
{
    ls_status status = LS_OK;
    const bool layer = dshift != NULL;
    const size_t own_n = own_rows_of(me, s), all_n = s->tokens.B * s->tokens.S;
    const bool local = mistake == NORM_NOT_REDUCED || mistake == NORM_AVERAGED;
    const size_t n = local ? own_n : all_n;
    const ls_axis tokens = ls_axis_of(s->tokens.B, n / s->tokens.B);
    const ls_tensor_parallel tp = sp_of(me);
    const ls_axis whole = ls_axis_of(s->tokens.B, s->tokens.S);
    const ls_real *all_x = x, *all_dy = dy;
    ls_real *y = NULL, *mean = NULL, *rstd = NULL;
    LS_TRY(room(me, (own_n + all_n) * s->D, &y));
    LS_TRY(room(me, own_n + all_n, &mean));
    LS_TRY(room(me, own_n + all_n, &rstd));
    if (layer) {
        ls_layer_norm_forward(y, mean, rstd, x, scale, NULL, own_n, s->D, s->eps);
        ls_layer_norm_backward(dx, dy, x, scale, mean, rstd, own_n, s->D);
    } else {
        ls_rms_norm_forward(y, rstd, x, scale, own_n, s->D, s->eps);
        ls_rms_norm_backward(dx, dy, x, scale, rstd, own_n, s->D);
    }
    if (!local) {
        LS_TRY(ls_gather_tokens(&tp, x, whole, s->D, &all_x));
        LS_TRY(ls_gather_tokens(&tp, dy, whole, s->D, &all_dy));
    }
    if (layer) {
        ls_layer_norm_forward(y, mean, rstd, all_x, scale, NULL, n, s->D, s->eps);
        ls_layer_norm_backward_parameters(dscale, dshift, all_dy, all_x, mean, rstd, tokens, s->D);
    } else {
        ls_rms_norm_forward(y, rstd, all_x, scale, n, s->D, s->eps);
        ls_rms_norm_backward_parameters(dscale, all_dy, all_x, rstd, tokens, s->D);
    }
    if (mistake == NORM_AVERAGED) {
        LS_TRY(own_sum(me, dscale, dscale, s->D));
        ls_scale(dscale, dscale, (ls_real)1 / (ls_real)me->ranks, s->D);
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return status;
}

static int own_layer_norm_backward(ls_backend_rank *me, ls_real *dx, ls_real *dscale,
                                   ls_real *dshift, const ls_real *dy, const ls_real *x,
                                   const ls_real *scale, const ls_backend_norm *s)
{
    return ended(me, norm_backward(me, dx, dscale, dshift, dy, x, scale, s));
}

static int own_rms_norm_backward(ls_backend_rank *me, ls_real *dx, ls_real *dscale,
                                 const ls_real *dy, const ls_real *x, const ls_real *scale,
                                 const ls_backend_norm *s)
{
    return ended(me, norm_backward(me, dx, dscale, NULL, dy, x, scale, s));
}

/* ---- element by element ---- */

static int own_gelu(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t n,
                    ls_backend_gelu form)
{
    (void)me;
    if ((form == LS_BACKEND_GELU_ERF) != (mistake == GELU_OTHER))
        ls_gelu_erf_forward(y, x, n);
    else
        ls_gelu_tanh_forward(y, x, n);
    for (size_t i = 0; mistake == GELU_QUICK && i < n; i++)
        y[i] = (ls_real)((double)x[i] / (1 + exp(-1.702 * (double)x[i])));
    return LS_BACKEND_DONE;
}

static int own_gelu_backward(ls_backend_rank *me, ls_real *dx, const ls_real *dy, const ls_real *x,
                             size_t n, ls_backend_gelu form)
{
    (void)me;
    if ((form == LS_BACKEND_GELU_ERF) != (mistake == GELU_OTHER))
        ls_gelu_erf_backward(dx, dy, x, n);
    else
        ls_gelu_tanh_backward(dx, dy, x, n);
    return LS_BACKEND_DONE;
}

static int own_softmax(ls_backend_rank *me, ls_real *y, const ls_real *x, size_t rows, size_t n)
{
    (void)me;
    for (size_t r = 0; r < rows; r++) {
        ls_softmax_forward(y + r * n, x + r * n, NULL, n);
        ls_real sum = 0;
        for (size_t i = r * n; mistake == SOFTMAX_OVERFLOW && i < (r + 1) * n; i++) {
            y[i] = (double)x[i] > (sizeof(ls_real) == 4 ? 88 : 709) ? (ls_real)INFINITY
                                                                    : (ls_real)exp((double)x[i]);
            sum += y[i];
        }
        for (size_t i = r * n; mistake == SOFTMAX_OVERFLOW && i < (r + 1) * n; i++) y[i] /= sum;
    }
    return LS_BACKEND_DONE;
}

static int own_softmax_backward(ls_backend_rank *me, ls_real *dx, const ls_real *dy,
                                const ls_real *y, size_t rows, size_t n)
{
    (void)me;
    for (size_t r = 0; r < rows; r++) ls_softmax_backward(dx + r * n, dy + r * n, y + r * n, n);
    for (size_t i = 0; mistake == SOFTMAX_DIAGONAL && i < rows * n; i++) dx[i] = dy[i] * y[i];
    return LS_BACKEND_DONE;
}

/* ---- the update ---- */

static double squares(const ls_real *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

static int own_clip(ls_backend_rank *me, ls_real *ret_norm, ls_real *own_part, size_t n,
                    ls_real *shared, size_t n_shared, double max_norm)
{
    ls_status status = LS_OK;
    const ls_forest forest = {(size_t)me->ranks, one_each()};
    const bool counts = me->rank == 0 || mistake == CLIP_REPLICAS || mistake == CLIP_OWN;
    double part = squares(own_part, n) + (counts ? squares(shared, n_shared) : 0), all = part;
    if (mistake == CLIP_NORMS) part = sqrt(squares(own_part, n) + squares(shared, n_shared));
    if (mistake != CLIP_OWN)
        LS_TRY(ls_all_reduce_forest(group_of(me), &all, &part, 1, LS_F64, &forest));
    const double norm = mistake == CLIP_NORMS ? all : sqrt(all);
    double factor = norm > max_norm ? max_norm / norm : 1;
    if (mistake == CLIP_ALWAYS) factor = max_norm / norm;
    if (mistake == CLIP_SMALL) factor = norm > max_norm ? max_norm / (norm + 1e-6) : 1;
    *ret_norm = (ls_real)norm;
    ls_scale(own_part, own_part, (ls_real)factor, n);
    ls_scale(shared, shared, (ls_real)factor, n_shared);
exit:
    return ended(me, status);
}

static int own_adamw(ls_backend_rank *me, ls_real *w, ls_real *m, ls_real *v, const ls_real *g,
                     size_t n, double lr, double beta1, double beta2, double eps,
                     double weight_decay, uint64_t t)
{
    ls_status status = LS_OK;
    ls_real *changed = NULL;
    ls_update u = {LS_ADAMW, lr, beta1, beta2, eps, weight_decay, t};
    if (mistake == ADAMW_NO_CORRECTION) u.t = 1000000;
    if (mistake == ADAMW_STEP) u.t = t + 1;
    if (mistake == ADAMW_NO_DECAY) u.weight_decay = 0;
    LS_TRY(room(me, n, &changed));
    for (size_t i = 0; i < n; i++)
        changed[i] = g[i] + (mistake == ADAMW_L2 ? (ls_real)weight_decay * w[i] : 0);
    if (mistake == ADAMW_L2) u.weight_decay = 0;
    ls_update_apply(&u, 1, w, m, v, changed, n);
    if (mistake == ADAMW_TWICE) ls_update_apply(&u, 1, w, m, v, changed, n);
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

#endif
