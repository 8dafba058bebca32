/* judge_loss.c - the cases of the vocabulary-parallel cross-entropy.
 *
 * What others got wrong here: the padded columns inside the softmax; a softmax, or a sum of
 * exponentials, over the own columns only; the target's logit on the owner only; a target of
 * another rank that hits an own column; ignored targets in the mean, or with a gradient; label
 * smoothing by the local width; one upstream gradient for all tokens; exp of large logits. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "conformance/judge_operations.h"
#include "step_graph/formula.h"

enum { SHAPES = 9 };

typedef struct loss_case {
    size_t B, S;
    size_t per_rank, more, granule; /* granules: per_rank P + more */
    size_t padding;                 /* columns */
    int cut;
    double smoothing, scale; /* scale: of the logits, a power of two */
    size_t ignored;          /* every how manyth; 0: none */
} loss_case;

static const loss_case CASES[SHAPES] = {
    {1, 1, 1, 0, 1, 0, 0, 0, 1, 0},    {2, 3, 1, 0, 3, 1, 0, 0, 1, 0},
    {1, 7, 2, 0, 2, 0, 0, 0, 1, 3},    {3, 2, 1, 1, 4, 2, 0, 0.125, 1, 0},
    {1, 5, 3, 0, 1, 0, 3, 0.25, 1, 2}, {2, 2, 1, 0, 5, 3, 0, 0, 64, 0},
    {1, 4, 1, 0, 6, 0, 0, 0, 2, 1},    {1, 9, 2, 0, 8, 7, 1, 0.125, 4, 4},
    {2, 5, 0, 1, 19, 2, 0, 0, 1, 5}};

typedef struct loss_view {
    ls_backend_vocab shape;
    size_t tokens, columns, G, valid;
    ls_axis token_axis;
    judge_tensor *z, *targets;
    double *lse, *smooth; /* per token: log sum exp over V, mean of z over V */
} loss_view;

static bool is_ignored(const loss_view *v, size_t t)
{
    return v->targets->before[t] == LS_IGNORE;
}

static double z_at(const loss_view *v, size_t t, size_t column)
{
    return v->z->before[t * v->columns + column];
}

static double target_logit(const loss_view *v, size_t t)
{
    return z_at(v, t, (size_t)v->targets->before[t]);
}

/* log of the sum of exp over columns lo .. hi. */
static double log_sum(const loss_view *v, size_t t, size_t lo, size_t hi)
{
    double largest = -HUGE_VAL, sum = 0;
    for (size_t c = lo; c < hi; c++) largest = fmax(largest, z_at(v, t, c));
    for (size_t c = lo; c < hi; c++) sum += exp(z_at(v, t, c) - largest);
    return largest + log(sum);
}

static double mean_of(const loss_view *v, size_t t, size_t lo, size_t hi)
{
    double sum = 0;
    for (size_t c = lo; c < hi; c++) sum += z_at(v, t, c);
    return sum / (double)(hi - lo);
}

static ls_status prepare_shape(judge_trial *trial, loss_view **ret_view)
{
    ls_status status = LS_OK;
    const loss_case *c = &CASES[trial->number % SHAPES];
    loss_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->tokens = c->B * c->S;
    v->token_axis = ls_axis_of(c->B, c->S);
    v->G = c->per_rank * (size_t)trial->ranks + c->more;
    v->columns = v->G * c->granule;
    v->shape = (ls_backend_vocab){.B = c->B,
                                  .S = c->S,
                                  .V = v->columns - c->padding,
                                  .cut = {.granule = c->granule},
                                  .smoothing = c->smoothing};
    LS_TRY(ls_trial_cut(trial, v->G, c->granule, c->cut, &v->shape.cut.starts));
    if (c->padding > 0) trial->traits |= JUDGE_PADDED;
    if (c->ignored > 0) trial->traits |= JUDGE_IGNORED;
    if (c->smoothing > 0) trial->traits |= JUDGE_SMOOTHED;
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label,
             "tokens %zu x %zu, V %zu padded to %zu, smoothing %g, %s targets ignored", c->B, c->S,
             v->shape.V, v->columns, c->smoothing,
             c->ignored == 0   ? "no"
             : c->ignored == 1 ? "all"
                               : "some");
    *ret_view = v;
exit:
    return status;
}

static ls_status add_inputs(judge_trial *trial, loss_view *v)
{
    ls_status status = LS_OK;
    const loss_case *c = &CASES[trial->number % SHAPES];
    const size_t V = v->shape.V;
    LS_TRY(ls_trial_add(trial, "z", JUDGE_GIVEN, v->tokens, v->columns, 1, v->shape.cut.starts,
                        &v->z));
    LS_TRY(ls_trial_add(trial, "targets", JUDGE_GIVEN, 1, v->tokens, 1, NULL, &v->targets));
    LS_TRY(ls_trial_numbers(trial, v->tokens, &v->lse));
    LS_TRY(ls_trial_numbers(trial, v->tokens, &v->smooth));
    ls_trial_draw(trial, v->z, 9);
    const double larger = trial->dtype == LS_F64 && c->scale > 1 ? 8 : 1; /* exp overflows */
    for (size_t i = 0; i < v->z->n; i++) v->z->before[i] *= c->scale * larger;
    v->targets->integer = true;
    for (size_t t = 0; t < v->tokens; t++) {
        const size_t id = t == 0 ? V - 1 : (size_t)(ls_trial_word(trial) % V);
        const bool ignored = c->ignored > 0 && t % c->ignored == c->ignored - 1;
        v->targets->before[t] = ignored ? LS_IGNORE : (double)id;
        v->valid += !ignored;
        v->lse[t] = log_sum(v, t, 0, V);
        v->smooth[t] = mean_of(v, t, 0, V);
    }
exit:
    return status;
}

/* ---- forward ---- */

static approx right_loss(const judge_trial *trial, const loss_view *v, size_t t, approx *row)
{
    const ls_loss_form form = {v->shape.smoothing, 0, 1};
    for (size_t c = 0; c < v->shape.V; c++) row[c] = approx_exact(z_at(v, t, c));
    return ls_formula_cross_entropy(&trial->precision, &form, row, v->shape.V,
                                    (size_t)v->targets->before[t]);
}

/* (1 - a) (lse - z_target) + a (lse - mean) */
static double loss_of(double lse, double target, double mean, double a)
{
    return (1 - a) * (lse - target) + a * (lse - mean);
}

static ls_status loss_variants(judge_trial *trial, const loss_view *v, judge_tensor *loss)
{
    ls_status status = LS_OK;
    const double a = v->shape.smoothing;
    const size_t V = v->shape.V, n = loss->n, *starts = v->shape.cut.starts;
    double *padded = NULL, *own = NULL, *owner = NULL, *all = NULL, *width = NULL, *ignored = NULL;
    LS_TRY(ls_trial_variant(trial, loss, LS_CAUSE_PADDED_VOCABULARY,
                            "the padded columns are inside the softmax", &padded));
    LS_TRY(ls_trial_variant_by_rank(trial, loss, LS_CAUSE_NOT_REDUCED,
                                    "the sum of exponentials over the own columns alone", &own));
    LS_TRY(ls_trial_variant_by_rank(trial, loss, LS_CAUSE_NOT_REDUCED,
                                    "the target's logit on its owner alone", &owner));
    LS_TRY(ls_trial_variant(trial, loss, LS_CAUSE_NONE,
                            "the sum of exponentials counted once per rank", &all));
    LS_TRY(ls_trial_variant_by_rank(trial, loss, LS_CAUSE_NONE,
                                    "label smoothing by the own columns alone", &width));
    LS_TRY(ls_trial_variant(trial, loss, LS_CAUSE_TARGET_SET, "ignored targets have a loss",
                            &ignored));
    for (size_t t = 0; t < n; t++) {
        double largest = -HUGE_VAL;
        for (size_t c = 0; c < V; c++) largest = fmax(largest, z_at(v, t, c));
        if (is_ignored(v, t)) {
            ignored[t] = v->lse[t] - largest;
            continue;
        }
        const double z = target_logit(v, t), mean = v->smooth[t];
        padded[t] = loss_of(log_sum(v, t, 0, v->columns), z, mean, a);
        all[t] = loss_of(v->lse[t] + log(trial->ranks), z, mean, a);
        for (size_t r = 0; r < (size_t)trial->ranks; r++) {
            const size_t lo = starts[r], hi = starts[r + 1] < V ? starts[r + 1] : V;
            const double id = v->targets->before[t];
            if (lo >= hi) continue;
            own[r * n + t] = loss_of(log_sum(v, t, lo, hi), z, mean, a);
            width[r * n + t] = loss_of(v->lse[t], z, mean_of(v, t, lo, hi), a);
            if (id < (double)lo || id >= (double)hi)
                owner[r * n + t] = loss_of(v->lse[t], largest, mean, a);
        }
    }
exit:
    return status;
}

/* The contract's bits of the losses and their mean. */
static ls_status order_loss(judge_trial *trial, const loss_view *v, judge_tensor *loss,
                            judge_tensor *mean)
{
    ls_status status = LS_OK;
    const size_t n = v->tokens;
    const ls_vocab_shard whole = {ls_axis_of(v->G, v->shape.cut.granule), 0, v->shape.V};
    ls_real *z = NULL, *bits = NULL, *max = NULL, *exps = NULL, *plain = NULL, *target = NULL;
    ls_real *sum_exp = NULL, *sum_z = NULL, *total = NULL;
    int32_t *ids = NULL;
    LS_TRY(ls_judge_reals(trial, v->z->n, v->z->before, &z));
    ls_real **columns[] = {&bits, &max, &target, &sum_exp, &sum_z};
    for (size_t k = 0; k < 5; k++) LS_TRY(ls_judge_reals(trial, n, NULL, columns[k]));
    LS_TRY(ls_judge_reals(trial, v->G * n, NULL, &exps));
    LS_TRY(ls_judge_reals(trial, v->G * n, NULL, &plain));
    LS_TRY(ls_judge_reals(trial, 1, NULL, &total));
    LS_TRY(ls_trial_room(trial, n, sizeof *ids, &ids));
    for (size_t t = 0; t < n; t++) ids[t] = (int32_t)v->targets->before[t];
    ls_cross_entropy_max(max, z, n, v->columns, whole);
    ls_cross_entropy_sums(exps, plain, target, z, max, ids, n, v->columns, whole);
    ls_tree_sum_rows(sum_exp, exps, ls_axis_whole(v->G), n, n);
    ls_tree_sum_rows(sum_z, plain, ls_axis_whole(v->G), n, n);
    ls_cross_entropy_loss(bits, max, sum_exp, sum_z, target, ids, n, v->shape.V,
                          v->shape.smoothing);
    ls_tree_sum_rows(total, bits, v->token_axis, 1, 1);
    ls_normalize_zero(total, 1);
    total[0] = v->valid > 0 ? total[0] / (ls_real)v->valid : (ls_real)0;
    loss->ordered = bits;
    mean->ordered = total;
exit:
    return status;
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    loss_view *v = NULL;
    judge_tensor *loss = NULL, *mean = NULL;
    double *over_all = NULL, *sum_alone = NULL;
    approx *row = NULL;
    approx_sum sum = {0};
    LS_TRY(prepare_shape(trial, &v));
    LS_TRY(ls_trial_room(trial, v->columns, sizeof *row, &row));
    LS_TRY(ls_trial_add(trial, "loss", JUDGE_WANTED, 1, v->tokens, 1, NULL, &loss));
    LS_TRY(ls_trial_add(trial, "mean", JUDGE_WANTED, 1, 1, 1, NULL, &mean));
    LS_TRY(add_inputs(trial, v));
    for (size_t t = 0; t < v->tokens; t++) {
        if (is_ignored(v, t)) continue;
        const approx one = right_loss(trial, v, t, row);
        loss->value[t] = one.value;
        loss->bound[t] = one.error;
        approx_sum_add(&sum, one);
    }
    const approx total = approx_sum_end(p, &sum);
    if (v->valid > 0) {
        const approx m = approx_divide(p, total, approx_exact((double)v->valid));
        mean->value[0] = m.value;
        mean->bound[0] = m.error;
    }
    LS_TRY(order_loss(trial, v, loss, mean));
    LS_TRY(loss_variants(trial, v, loss));
    LS_TRY(ls_trial_variant(trial, mean, LS_CAUSE_TARGET_COUNT,
                            "the mean over all targets, ignored ones too", &over_all));
    LS_TRY(ls_trial_variant(trial, mean, LS_CAUSE_TARGET_COUNT, "the sum instead of the mean",
                            &sum_alone));
    over_all[0] = total.value / (double)v->tokens;
    sum_alone[0] = total.value;
exit:
    return status;
}

static int call_forward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const loss_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->vocab_cross_entropy_forward(me, b[0], b[1], b[2], b[3], &v->shape);
}

/* ---- backward ---- */

/* What the target asks for in a column. */
static double asked(const loss_view *v, size_t t, size_t column)
{
    const double a = v->shape.smoothing, even = a / (double)v->shape.V;
    return even + (v->targets->before[t] == (double)column ? 1 - a : 0);
}

static void right_gradient(const judge_trial *trial, const loss_view *v, judge_tensor *dz,
                           const judge_tensor *dloss, approx *row)
{
    const ls_precision *p = &trial->precision;
    const size_t V = v->shape.V;
    const ls_loss_form form = {v->shape.smoothing, 0, 1};
    for (size_t t = 0; t < v->tokens; t++) {
        if (is_ignored(v, t)) continue;
        for (size_t c = 0; c < V; c++) row[c] = approx_exact(z_at(v, t, c));
        ls_formula_cross_entropy_gradient(p, &form, row, V, (size_t)v->targets->before[t]);
        for (size_t c = 0; c < V; c++) {
            const approx d = approx_multiply(p, row[c], approx_exact(dloss->before[t]));
            /* exp(z - lse) in place of exp(z - max) / sum: rounded at the size of lse */
            const double softmax = exp(z_at(v, t, c) - v->lse[t]);
            const double other = 4 * p->u * fabs(v->lse[t]) * softmax;
            dz->value[t * v->columns + c] = d.value;
            dz->bound[t * v->columns + c] = d.error + other * fabs(dloss->before[t]);
        }
    }
}

static ls_status gradient_variants(judge_trial *trial, const loss_view *v, judge_tensor *dz,
                                   const judge_tensor *dloss)
{
    ls_status status = LS_OK;
    const size_t V = v->shape.V, W = v->columns, *starts = v->shape.cut.starts;
    double *bare = NULL, *scalar = NULL, *padded = NULL, *own = NULL, *ignored = NULL, *hit = NULL;
    LS_TRY(
        ls_trial_variant(trial, dz, LS_CAUSE_LOST_TERM, "the target's 1 is not taken away", &bare));
    LS_TRY(ls_trial_variant(trial, dz, LS_CAUSE_NONE, "the first token's upstream gradient for all",
                            &scalar));
    LS_TRY(ls_trial_variant(trial, dz, LS_CAUSE_PADDED_VOCABULARY,
                            "the padded columns are inside the softmax", &padded));
    LS_TRY(ls_trial_variant_by_rank(trial, dz, LS_CAUSE_NOT_REDUCED,
                                    "the sum of exponentials over the own columns alone", &own));
    LS_TRY(ls_trial_variant(trial, dz, LS_CAUSE_TARGET_SET, "ignored targets have a gradient",
                            &ignored));
    LS_TRY(ls_trial_variant(trial, dz, LS_CAUSE_NONE,
                            "a target of another rank hits the own first column", &hit));
    for (size_t i = 0; i < dz->n; i++) {
        const size_t t = i / W, c = i % W;
        size_t r = 0;
        while (c >= starts[r + 1]) r++;
        const double lse = v->lse[t], up = dloss->before[t], id = v->targets->before[t];
        const double softmax = c < V ? exp(z_at(v, t, c) - lse) : 0;
        if (is_ignored(v, t)) {
            ignored[i] = softmax * up;
            continue;
        }
        const double a = v->shape.smoothing;
        const double q = c < V ? asked(v, t, c) : 0;
        bare[i] = (softmax - (c < V ? a / (double)V : 0)) * up;
        scalar[i] = (softmax - q) * dloss->before[0];
        padded[i] = (exp(z_at(v, t, c) - log_sum(v, t, 0, W)) - q) * up;
        if (c == starts[r] && (id < (double)starts[r] || id >= (double)starts[r + 1]))
            hit[i] = (softmax - q - (1 - a)) * up;
        const size_t end = starts[r + 1] < V ? starts[r + 1] : V;
        if (c < V)
            own[r * dz->n + i] = (exp(z_at(v, t, c) - log_sum(v, t, starts[r], end)) - q) * up;
    }
exit:
    return status;
}

static ls_status order_gradient(judge_trial *trial, const loss_view *v, judge_tensor *dz,
                                const judge_tensor *dloss)
{
    ls_status status = LS_OK;
    const ls_vocab_shard whole = {ls_axis_of(v->G, v->shape.cut.granule), 0, v->shape.V};
    const size_t W = v->columns;
    ls_real *z = NULL, *bits = NULL, *exps = NULL, *up = NULL;
    LS_TRY(ls_judge_reals(trial, v->z->n, v->z->before, &z));
    LS_TRY(ls_judge_reals(trial, v->z->n, NULL, &bits));
    LS_TRY(ls_judge_reals(trial, v->G, NULL, &exps));
    LS_TRY(ls_judge_reals(trial, v->tokens, dloss->before, &up));
    for (size_t t = 0; t < v->tokens; t++) {
        ls_real max, target, sum;
        const int32_t id = (int32_t)v->targets->before[t];
        ls_cross_entropy_max(&max, z + t * W, 1, W, whole);
        ls_cross_entropy_sums(exps, NULL, &target, z + t * W, &max, &id, 1, W, whole);
        sum = ls_tree_sum(exps, v->G, 1);
        ls_cross_entropy_backward(bits + t * W, z + t * W, &max, &sum, &id, 1, W, whole,
                                  v->shape.smoothing, up[t]);
    }
    dz->ordered = bits;
exit:
    return status;
}

static ls_status prepare_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    loss_view *v = NULL;
    judge_tensor *dz = NULL, *dloss = NULL;
    approx *row = NULL;
    LS_TRY(prepare_shape(trial, &v));
    LS_TRY(ls_trial_add(trial, "dz", JUDGE_WANTED, v->tokens, v->columns, 1, v->shape.cut.starts,
                        &dz));
    LS_TRY(ls_trial_add(trial, "dloss", JUDGE_GIVEN, 1, v->tokens, 1, NULL, &dloss));
    LS_TRY(add_inputs(trial, v));
    ls_trial_draw(trial, dloss, 9);
    LS_TRY(ls_trial_room(trial, v->columns, sizeof *row, &row));
    right_gradient(trial, v, dz, dloss, row);
    LS_TRY(order_gradient(trial, v, dz, dloss));
    LS_TRY(gradient_variants(trial, v, dz, dloss));
exit:
    return status;
}

static int call_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const loss_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->vocab_cross_entropy_backward(me, b[0], b[1], b[2], b[3], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(vocab_cross_entropy_forward, SHAPES, prepare_forward, call_forward, 0),
    JUDGE_BOUNDED(vocab_cross_entropy_backward, SHAPES, prepare_backward, call_backward, 0),
};

const judge_chapter ls_judge_loss = JUDGE_CHAPTER(operations);
