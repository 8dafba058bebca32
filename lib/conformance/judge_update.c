/* judge_update.c - the cases of gradient clipping and AdamW.
 *
 * What others got wrong here: the norm of the own shard; replicated parameters counted once per
 * rank; norms added instead of squares; 1e-6 added to the norm; no bias correction, or one step
 * off; weight decay inside the gradient; epsilon inside the root. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/optimizer.h"
#include "step_graph/formula.h"
#include "conformance/judge_operations.h"

enum { CLIP_SHAPES = 8, ADAMW_SHAPES = 7 };

/* ---- clipping ---- */

typedef struct clip_view {
    size_t n, n_shared;
    const size_t *starts;
    double max_norm;
} clip_view;

typedef struct clip_case {
    size_t per_rank, more, shared;
    int cut;
    double scale;   /* of the gradients */
    bool too_large; /* the norm */
} clip_case;

static const clip_case CLIPS[CLIP_SHAPES] = {
    {1, 0, 1, 0, 1, true},         {5, 1, 7, 0, 1, true},  {3, 0, 0, 0, 1, false},
    {97, 2, 13, 3, 1, true},       {0, 0, 5, 0, 1, true},  {2, 1, 3, 1, 64, true},
    {4, 0, 9, 0, 0.0078125, true}, {11, 0, 2, 0, 1, false}};

static double squares_of(const double *x, size_t lo, size_t hi)
{
    double sum = 0;
    for (size_t i = lo; i < hi; i++) sum += x[i] * x[i];
    return sum;
}

static approx norm_of(const ls_precision *p, const judge_tensor *own, const judge_tensor *shared)
{
    approx_sum sum = {0};
    for (size_t i = 0; i < own->n; i++)
        approx_sum_add(&sum, approx_exact(own->before[i] * own->before[i]));
    for (size_t i = 0; i < shared->n; i++)
        approx_sum_add(&sum, approx_exact(shared->before[i] * shared->before[i]));
    return approx_root(p, approx_sum_end(p, &sum));
}

static void clip(const judge_trial *trial, const clip_view *v, approx norm, judge_tensor *g)
{
    const ls_variant right = {0};
    for (size_t i = 0; i < g->n; i++) {
        const approx a = ls_formula_clip(&trial->precision, &right, v->max_norm,
                                         approx_exact(g->before[i]), norm);
        g->value[i] = a.value;
        g->bound[i] = a.error;
    }
}

static ls_status norm_variants(judge_trial *trial, const clip_view *v, judge_tensor *norm,
                               const judge_tensor *own, const judge_tensor *shared)
{
    ls_status status = LS_OK;
    const double once = squares_of(shared->before, 0, shared->n), P = trial->ranks;
    const double cut = squares_of(own->before, 0, own->n);
    double *alone = NULL, *doubled = NULL, *unrooted = NULL, *norms = NULL, *larger = NULL;
    LS_TRY(ls_trial_variant_by_rank(trial, norm, LS_CAUSE_CLIPPING_PER_RANK,
                                    "the norm of a rank's own shard", &alone));
    LS_TRY(ls_trial_variant(trial, norm, LS_CAUSE_REPLICAS_COUNTED,
                            "replicated parameters counted once per rank", &doubled));
    LS_TRY(ls_trial_variant(trial, norm, LS_CAUSE_NONE, "the root is not taken", &unrooted));
    LS_TRY(ls_trial_variant(trial, norm, LS_CAUSE_CLIPPING_PER_RANK,
                            "norms of the ranks added instead of their squares", &norms));
    LS_TRY(ls_trial_variant(trial, norm, LS_CAUSE_CLIPPING_EPSILON, "1e-6 added to the norm",
                            &larger));
    norms[0] = 0;
    for (int r = 0; r < trial->ranks; r++) {
        const double squares = squares_of(own->before, v->starts[r], v->starts[r + 1]);
        alone[r] = sqrt(squares + once);
        norms[0] += sqrt(squares + once);
    }
    doubled[0] = sqrt(cut + P * once);
    unrooted[0] = cut + once;
    larger[0] += 1e-6;
exit:
    return status;
}

/* Scaled by a factor of the mistake's own. */
static void scale_by(const judge_tensor *g, double *v, double factor)
{
    for (size_t i = 0; i < g->n; i++) v[i] = g->before[i] * factor;
}

static ls_status clip_variants(judge_trial *trial, const clip_view *v, judge_tensor *g,
                               const judge_tensor *own, const judge_tensor *shared, double norm)
{
    ls_status status = LS_OK;
    const double once = squares_of(shared->before, 0, shared->n);
    double *always = NULL, *never = NULL, *alone = NULL, *twice = NULL, *more = NULL;
    LS_TRY(ls_trial_variant(trial, g, LS_CAUSE_NONE, "scaled to the largest norm, above it or not",
                            &always));
    LS_TRY(ls_trial_variant(trial, g, LS_CAUSE_NOT_CLIPPED, "not clipped", &never));
    LS_TRY(ls_trial_variant_by_rank(trial, g, LS_CAUSE_CLIPPING_PER_RANK,
                                    "clipped by the norm of a rank's own shard", &alone));
    LS_TRY(ls_trial_variant(trial, g, LS_CAUSE_NONE, "clipped twice", &twice));
    LS_TRY(ls_trial_variant(trial, g, LS_CAUSE_CLIPPING_EPSILON, "1e-6 added to the norm", &more));
    const double factor = v->max_norm / norm;
    scale_by(g, always, factor);
    scale_by(g, never, 1);
    scale_by(g, twice, factor < 1 ? factor * factor : 1);
    scale_by(g, more, v->max_norm / (norm + 1e-6));
    for (size_t r = 0; r < (size_t)trial->ranks; r++) {
        const double mine = sqrt(squares_of(own->before, v->starts[r], v->starts[r + 1]) + once);
        scale_by(g, alone + r * g->n, mine > v->max_norm ? v->max_norm / mine : 1);
    }
exit:
    return status;
}

static ls_status prepare_clip(judge_trial *trial)
{
    ls_status status = LS_OK;
    const clip_case *c = &CLIPS[trial->number % CLIP_SHAPES];
    clip_view *v = NULL;
    judge_tensor *norm = NULL, *own = NULL, *shared = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->n = c->per_rank * (size_t)trial->ranks + c->more;
    v->n_shared = c->shared;
    LS_TRY(ls_trial_cut(trial, v->n, 1, c->cut, &v->starts));
    LS_TRY(ls_trial_add(trial, "norm", JUDGE_WANTED, 1, 1, 1, NULL, &norm));
    LS_TRY(ls_trial_add(trial, "own", JUDGE_CHANGED, 1, v->n, 1, v->starts, &own));
    LS_TRY(ls_trial_add(trial, "shared", JUDGE_CHANGED, 1, c->shared, 1, NULL, &shared));
    ls_trial_draw(trial, own, 9);
    ls_trial_draw(trial, shared, 9);
    for (size_t i = 0; i < own->n; i++) own->before[i] *= c->scale;
    for (size_t i = 0; i < shared->n; i++) shared->before[i] *= c->scale;
    const approx right = norm_of(&trial->precision, own, shared);
    v->max_norm = c->too_large ? right.value * 0.4 : right.value * 3;
    norm->value[0] = right.value;
    norm->bound[0] = right.error;
    clip(trial, v, right, own);
    clip(trial, v, right, shared);
    snprintf(trial->label, sizeof trial->label,
             "%zu cut and %zu replicated elements, norm %.3g, %s", v->n, c->shared, right.value,
             c->too_large ? "too large" : "small enough");
    LS_TRY(norm_variants(trial, v, norm, own, shared));
    LS_TRY(clip_variants(trial, v, own, own, shared, right.value));
    LS_TRY(clip_variants(trial, v, shared, own, shared, right.value));
exit:
    return status;
}

static int call_clip(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                     void *const *b)
{
    const clip_view *v = trial->shape;
    const size_t own = v->starts[me->rank + 1] - v->starts[me->rank];
    return ((const ls_backend *)backend)
        ->clip_gradient(me, b[0], b[1], own, b[2], v->n_shared, v->max_norm);
}

/* ---- AdamW ---- */

typedef struct adamw_view {
    size_t n;
    ls_update u;
} adamw_view;

/* What a mistake changes. */
typedef struct adamw_way {
    ls_cause cause;
    const char *text;
    ls_variant how;
    int later; /* than its step, for the bias correction */
    bool undecayed, twice;
} adamw_way;

static const adamw_way WAYS[] = {
    {LS_CAUSE_OPTIMIZER_VARIANT, "no bias correction",
     .how = {.uncorrected_mean = true, .uncorrected_square = true}},
    {LS_CAUSE_OPTIMIZER_VARIANT, "bias correction of the step after", .later = 1},
    {LS_CAUSE_OPTIMIZER_VARIANT, "bias correction of the step before", .later = -1},
    {LS_CAUSE_OPTIMIZER_VARIANT, "weight decay inside the gradient",
     .how = {.decay = LS_DECAY_IN_GRADIENT}},
    {LS_CAUSE_OPTIMIZER_VARIANT, "weight decay missing", .undecayed = true},
    {LS_CAUSE_OPTIMIZER_VARIANT, "epsilon inside the root", .how = {.root = LS_ROOT_EPS_INSIDE}},
    {.cause = LS_CAUSE_UPDATE_TWICE, .twice = true}};

/* 1 - beta may have been taken from a rounded beta, beta^t by t products. */
static ls_optimizer_state step(const ls_precision *p, const ls_update *u, const adamw_way *way,
                               ls_optimizer_state s, approx g)
{
    ls_update at = *u;
    at.t = (uint64_t)((int64_t)u->t + way->later);
    const ls_adamw_constants constants = {2, 2 + (double)at.t};
    return ls_formula_adamw(p, &at, &way->how, !way->undecayed, constants, s, g);
}

static ls_status order_adamw(judge_trial *trial, const adamw_view *a, judge_tensor *w,
                             judge_tensor *m, judge_tensor *v, const judge_tensor *g)
{
    ls_status status = LS_OK;
    ls_real *W = NULL, *M = NULL, *V = NULL, *G = NULL;
    LS_TRY(ls_judge_reals(trial, w->n, w->before, &W));
    LS_TRY(ls_judge_reals(trial, w->n, m->before, &M));
    LS_TRY(ls_judge_reals(trial, w->n, v->before, &V));
    LS_TRY(ls_judge_reals(trial, w->n, g->before, &G));
    ls_update_apply(&a->u, 1, W, M, V, G, w->n);
    w->ordered = W, m->ordered = M, v->ordered = V;
exit:
    return status;
}

static ls_optimizer_state state_before(const judge_tensor *w, const judge_tensor *m,
                                       const judge_tensor *v, size_t i)
{
    const ls_optimizer_state s = {approx_exact(w->before[i]), approx_exact(m->before[i]),
                                  approx_exact(v->before[i])};
    return s;
}

static ls_status adamw_variants(judge_trial *trial, const adamw_view *a, judge_tensor *w,
                                judge_tensor *m, judge_tensor *v, const judge_tensor *g)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    for (size_t k = 0; k < sizeof WAYS / sizeof WAYS[0]; k++) {
        const adamw_way *way = &WAYS[k];
        double *of[3] = {NULL, NULL, NULL};
        LS_TRY(ls_trial_variant(trial, w, way->cause, way->text, &of[0]));
        LS_TRY(ls_trial_variant(trial, m, way->cause, way->text, &of[1]));
        LS_TRY(ls_trial_variant(trial, v, way->cause, way->text, &of[2]));
        for (size_t i = 0; i < w->n; i++) {
            const approx gradient = approx_exact(g->before[i]);
            ls_optimizer_state s = step(p, &a->u, way, state_before(w, m, v, i), gradient);
            if (way->twice) s = step(p, &a->u, way, s, gradient);
            of[0][i] = s.w.value, of[1][i] = s.m.value, of[2][i] = s.v.value;
        }
    }
exit:
    return status;
}

static ls_status prepare_adamw(judge_trial *trial)
{
    ls_status status = LS_OK;
    static const size_t counts[ADAMW_SHAPES] = {1, 97, 0, 1009, 7, 13, 31};
    static const uint64_t steps[ADAMW_SHAPES] = {1, 2, 3, 10, 1, 100, 4};
    const ls_precision *p = &trial->precision;
    const size_t s = trial->number % ADAMW_SHAPES;
    const adamw_way right = {.text = NULL};
    adamw_view *a = NULL;
    judge_tensor *w = NULL, *m = NULL, *v = NULL, *g = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *a, &a));
    trial->shape = a;
    a->n = counts[s];
    a->u = (ls_update){.optimizer = LS_ADAMW,
                       .lr = 0.015625,
                       .beta1 = 0.9,
                       .beta2 = s % 2 ? 0.95 : 0.999,
                       .eps = s == 4 ? 0.25 : 1e-8,
                       .weight_decay = 0.125,
                       .t = steps[s]};
    snprintf(trial->label, sizeof trial->label, "n %zu, step %u, beta2 %g, eps %g", a->n,
             (unsigned)steps[s], a->u.beta2, a->u.eps);
    LS_TRY(ls_trial_add_own(trial, "m", JUDGE_CHANGED, a->n, &m));
    LS_TRY(ls_trial_add_own(trial, "v", JUDGE_CHANGED, a->n, &v));
    LS_TRY(ls_trial_add_own(trial, "w", JUDGE_CHANGED, a->n, &w));
    LS_TRY(ls_trial_add_own(trial, "g", JUDGE_GIVEN, a->n, &g));
    judge_tensor *all[] = {m, v, w, g};
    for (size_t k = 0; k < 4; k++) ls_trial_draw(trial, all[k], 9);
    for (size_t i = 0; i < v->n; i++) {
        v->before[i] = steps[s] == 1 ? 0 : fabs(v->before[i]);
        m->before[i] = steps[s] == 1 ? 0 : m->before[i] * 0.5;
    }
    for (size_t i = 0; i < w->n; i++) {
        const ls_optimizer_state after =
            step(p, &a->u, &right, state_before(w, m, v, i), approx_exact(g->before[i]));
        w->value[i] = after.w.value, w->bound[i] = after.w.error;
        m->value[i] = after.m.value, m->bound[i] = after.m.error;
        v->value[i] = after.v.value, v->bound[i] = after.v.error;
    }
    LS_TRY(adamw_variants(trial, a, w, m, v, g));
    LS_TRY(order_adamw(trial, a, w, m, v, g));
exit:
    return status;
}

static int call_adamw(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                      void *const *b)
{
    const adamw_view *a = trial->shape;
    return ((const ls_backend *)backend)
        ->adamw(me, b[2], b[0], b[1], b[3], a->n, a->u.lr, a->u.beta1, a->u.beta2, a->u.eps,
                a->u.weight_decay, a->u.t);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(clip_gradient, CLIP_SHAPES, prepare_clip, call_clip, 0),
    JUDGE_BOUNDED(adamw, ADAMW_SHAPES, prepare_adamw, call_adamw, 0),
};

const judge_chapter ls_judge_update = JUDGE_CHAPTER(operations);
