/* judge_norm.c - the cases of LayerNorm and RMSNorm on own tokens.
 *
 * What others got wrong here: the gradients of scale and shift left as the own tokens' sums, or
 * averaged; epsilon outside the root; the variance over D - 1, or as mean of squares minus square
 * of the mean, which large means destroy. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/norm.h"
#include "step_graph/formula.h"
#include "conformance/judge_operations.h"

enum { SHAPES = 8 };

/* judge_operation.form */
enum { LAYER = 0, RMS };

typedef struct norm_case {
    size_t B, D;
    int S;               /* below 0: -S per rank; else all */
    double scale, shift; /* of x; powers of two, so that x stays what was drawn */
} norm_case;

static const norm_case CASES[SHAPES] = {
    {1, 3, -1, 1, 0},         {2, 8, -2, 1, 0}, {1, 17, 5, 4, 0}, {3, 6, -1, 1, 32},
    {2, 10, 3, 1.0 / 512, 0}, {1, 64, 1, 1, 0}, {4, 5, -3, 2, 0}, {1, 33, 13, 1, 0}};

typedef struct norm_view {
    ls_backend_norm shape;
    bool layer;
    size_t tokens;
    judge_tensor *x, *scale, *shift, *dy;
} norm_view;

static ls_status prepare_shape(judge_trial *trial, norm_view **ret_view)
{
    ls_status status = LS_OK;
    const norm_case *c = &CASES[trial->number % SHAPES];
    const size_t S = c->S < 0 ? (size_t)-c->S * (size_t)trial->ranks : (size_t)c->S;
    norm_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->layer = trial->form == LAYER;
    v->tokens = c->B * S;
    v->shape =
        (ls_backend_norm){.D = c->D,
                          .eps = 1e-5,
                          .tokens = {.B = c->B, .S = S, .width = c->D, .cut = {.granule = 1}}};
    LS_TRY(ls_trial_cut(trial, S, 1, 0, &v->shape.tokens.cut.starts));
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label, "tokens %zu x %zu, D %zu, x near %g, spread %g",
             c->B, S, c->D, c->shift, c->scale);
    *ret_view = v;
exit:
    return status;
}

static ls_status add_inputs(judge_trial *trial, norm_view *v)
{
    ls_status status = LS_OK;
    const norm_case *c = &CASES[trial->number % SHAPES];
    const ls_backend_tokens *s = &v->shape.tokens;
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, s->B, s->S, v->shape.D, s->cut.starts, &v->x));
    LS_TRY(ls_trial_add(trial, "scale", JUDGE_GIVEN, 1, v->shape.D, 1, NULL, &v->scale));
    ls_trial_draw(trial, v->x, 9);
    ls_trial_draw(trial, v->scale, 9);
    for (size_t i = 0; i < v->x->n; i++)
        v->x->before[i] = ls_trial_round(trial, v->x->before[i] * c->scale + c->shift);
exit:
    return status;
}

static ls_norm_form form_of(const norm_view *v, const ls_variant *how)
{
    return (ls_norm_form){v->layer, v->shape.eps, how};
}

/* xhat of row t; returns rstd. */
static approx normalize(const ls_precision *p, const norm_view *v, const ls_variant *how, size_t t,
                        approx *xhat)
{
    const ls_norm_form form = form_of(v, how);
    const size_t D = v->shape.D;
    for (size_t i = 0; i < D; i++) xhat[i] = approx_exact(v->x->before[t * D + i]);
    return ls_formula_normalize(p, &form, xhat, D);
}

/* ---- forward ---- */

static void norm_of(const ls_precision *p, const norm_view *v, const ls_variant *how, approx *row,
                    double *y, double *bound)
{
    const size_t D = v->shape.D;
    for (size_t t = 0; t < v->tokens; t++) {
        normalize(p, v, how, t, row);
        for (size_t i = 0; i < D; i++) {
            approx a = approx_multiply(p, row[i], approx_exact(v->scale->before[i]));
            if (v->shift) a = approx_add(p, a, approx_exact(v->shift->before[i]));
            y[t * D + i] = a.value;
            if (bound) bound[t * D + i] = a.error;
        }
    }
}

/* The contract's bits: whole tokens, as one rank would. */
static ls_status order_forward(judge_trial *trial, const norm_view *v, judge_tensor *y)
{
    ls_status status = LS_OK;
    ls_real *x = NULL, *scale = NULL, *shift = NULL, *bits = NULL, *mean = NULL, *rstd = NULL;
    LS_TRY(ls_judge_reals(trial, v->x->n, v->x->before, &x));
    LS_TRY(ls_judge_reals(trial, v->shape.D, v->scale->before, &scale));
    LS_TRY(ls_judge_reals(trial, v->shape.D, v->shift ? v->shift->before : NULL, &shift));
    LS_TRY(ls_judge_reals(trial, v->x->n, NULL, &bits));
    LS_TRY(ls_judge_reals(trial, v->tokens, NULL, &mean));
    LS_TRY(ls_judge_reals(trial, v->tokens, NULL, &rstd));
    if (v->layer)
        ls_layer_norm_forward(bits, mean, rstd, x, scale, shift, v->tokens, v->shape.D,
                              v->shape.eps);
    else
        ls_rms_norm_forward(bits, rstd, x, scale, v->tokens, v->shape.D, v->shape.eps);
    y->ordered = bits;
exit:
    return status;
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const struct {
        ls_variant how;
        ls_cause cause;
        const char *text;
    } ways[] = {{{.eps_outside = true}, LS_CAUSE_NORM_EPSILON, "epsilon outside the root"},
                {{.unbiased = true}, LS_CAUSE_VARIANCE_UNBIASED, "the variance over D - 1"},
                {{.centred_flipped = true},
                 LS_CAUSE_NORM_FORM,
                 trial->form == LAYER ? "the mean is not subtracted" : "the mean is subtracted"},
                {{.norm_eps = -1}, LS_CAUSE_NORM_EPSILON, "epsilon missing"}};
    const ls_variant right = {0};
    const ls_precision *p = &trial->precision;
    norm_view *v = NULL;
    judge_tensor *y = NULL;
    approx *row = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const ls_backend_tokens *s = &v->shape.tokens;
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, s->B, s->S, v->shape.D, s->cut.starts, &y));
    LS_TRY(add_inputs(trial, v));
    if (v->layer) {
        LS_TRY(ls_trial_add(trial, "shift", JUDGE_GIVEN, 1, v->shape.D, 1, NULL, &v->shift));
        ls_trial_draw(trial, v->shift, 9);
    }
    LS_TRY(ls_trial_room(trial, v->shape.D, sizeof *row, &row));
    norm_of(p, v, &right, row, y->value, y->bound);
    LS_TRY(order_forward(trial, v, y));
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        double *other = NULL;
        LS_TRY(ls_trial_variant(trial, y, ways[k].cause, ways[k].text, &other));
        norm_of(p, v, &ways[k].how, row, other, NULL);
    }
exit:
    return status;
}

static int call_forward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const ls_backend *table = backend;
    const norm_view *v = trial->shape;
    return v->layer ? table->layer_norm_forward(me, b[0], b[1], b[2], b[3], &v->shape)
                    : table->rms_norm_forward(me, b[0], b[1], b[2], &v->shape);
}

/* ---- backward ---- */

typedef struct norm_gradients {
    judge_tensor *dx, *dscale, *dshift;
} norm_gradients;

static size_t owner_of(const judge_trial *trial, const norm_view *v, size_t t)
{
    const size_t s = t % v->shape.tokens.S;
    size_t r = 0;
    while (r + 1 < (size_t)trial->ranks && s >= v->shape.tokens.cut.starts[r + 1]) r++;
    return r;
}

/* dx of row t, from its xhat and rstd. */
static void input_gradient(const ls_precision *p, const norm_view *v, const ls_variant *how,
                           size_t t, approx rstd, const approx *xhat, approx *g, double *dx,
                           double *bound)
{
    const size_t D = v->shape.D;
    const ls_norm_form form = form_of(v, how);
    for (size_t i = 0; i < D; i++)
        g[i] = approx_multiply(p, approx_exact(v->dy->before[t * D + i]),
                               approx_exact(v->scale->before[i]));
    ls_formula_norm_gradient(p, &form, rstd, xhat, g, D);
    for (size_t i = 0; i < D; i++) {
        dx[t * D + i] = g[i].value;
        if (bound) bound[t * D + i] = g[i].error;
    }
}

static ls_status gradients_of(judge_trial *trial, const norm_view *v, const norm_gradients *g,
                              double *without)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const size_t D = v->shape.D;
    approx *xhat = NULL, *room = NULL;
    approx_sum *scale = NULL, *shift = NULL;
    const ls_variant right = {0}, constants = {.lost_term = LS_TERM_NORM_BOTH};
    LS_TRY(ls_trial_room(trial, D, sizeof *xhat, &xhat));
    LS_TRY(ls_trial_room(trial, D, sizeof *room, &room));
    LS_TRY(ls_trial_room(trial, D, sizeof *scale, &scale));
    LS_TRY(ls_trial_room(trial, D, sizeof *shift, &shift));
    for (size_t t = 0; t < v->tokens; t++) {
        const approx rstd = normalize(p, v, &right, t, xhat);
        const size_t r = owner_of(trial, v, t);
        input_gradient(p, v, &right, t, rstd, xhat, room, g->dx->value, g->dx->bound);
        input_gradient(p, v, &constants, t, rstd, xhat, room, without, NULL);
        for (size_t i = 0; i < D; i++) {
            const approx d = approx_exact(v->dy->before[t * D + i]);
            const approx term = approx_product(d, xhat[i]);
            approx_sum_add(&scale[i], term);
            approx_sum_add(&shift[i], d);
            g->dscale->part[r * D + i] += term.value;
            if (g->dshift) g->dshift->part[r * D + i] += d.value;
        }
    }
    for (size_t i = 0; i < D; i++) {
        const approx a = approx_sum_end(p, &scale[i]), b = approx_sum_end(p, &shift[i]);
        g->dscale->value[i] = a.value, g->dscale->bound[i] = a.error;
        if (g->dshift) g->dshift->value[i] = b.value, g->dshift->bound[i] = b.error;
    }
exit:
    return status;
}

static ls_status order_backward(judge_trial *trial, const norm_view *v, const norm_gradients *g)
{
    ls_status status = LS_OK;
    const size_t D = v->shape.D, n = v->tokens;
    const ls_axis tokens = ls_axis_of(v->shape.tokens.B, v->shape.tokens.S);
    ls_real *x = NULL, *dy = NULL, *scale = NULL, *y = NULL, *mean = NULL, *rstd = NULL;
    ls_real *dx = NULL, *dscale = NULL, *dshift = NULL;
    LS_TRY(ls_judge_reals(trial, v->x->n, v->x->before, &x));
    LS_TRY(ls_judge_reals(trial, v->x->n, v->dy->before, &dy));
    LS_TRY(ls_judge_reals(trial, D, v->scale->before, &scale));
    LS_TRY(ls_judge_reals(trial, v->x->n, NULL, &y));
    LS_TRY(ls_judge_reals(trial, v->x->n, NULL, &dx));
    LS_TRY(ls_judge_reals(trial, n, NULL, &mean));
    LS_TRY(ls_judge_reals(trial, n, NULL, &rstd));
    LS_TRY(ls_judge_reals(trial, D, NULL, &dscale));
    LS_TRY(ls_judge_reals(trial, D, NULL, &dshift));
    if (v->layer) {
        ls_layer_norm_forward(y, mean, rstd, x, scale, NULL, n, D, v->shape.eps);
        ls_layer_norm_backward(dx, dy, x, scale, mean, rstd, n, D);
        ls_layer_norm_backward_parameters(dscale, dshift, dy, x, mean, rstd, tokens, D);
        g->dshift->ordered = dshift;
    } else {
        ls_rms_norm_forward(y, rstd, x, scale, n, D, v->shape.eps);
        ls_rms_norm_backward(dx, dy, x, scale, rstd, n, D);
        ls_rms_norm_backward_parameters(dscale, dy, x, rstd, tokens, D);
    }
    g->dx->ordered = dx;
    g->dscale->ordered = dscale;
exit:
    return status;
}

static ls_status prepare_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    norm_view *v = NULL;
    norm_gradients g = {0};
    double *without = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const ls_backend_tokens *s = &v->shape.tokens;
    const size_t D = v->shape.D;
    LS_TRY(ls_trial_add(trial, "dx", JUDGE_WANTED, s->B, s->S, D, s->cut.starts, &g.dx));
    LS_TRY(ls_trial_add(trial, "dscale", JUDGE_WANTED, 1, D, 1, NULL, &g.dscale));
    LS_TRY(add_inputs(trial, v));
    LS_TRY(ls_trial_add(trial, "dy", JUDGE_GIVEN, s->B, s->S, D, s->cut.starts, &v->dy));
    if (v->layer) LS_TRY(ls_trial_add(trial, "dshift", JUDGE_WANTED, 1, D, 1, NULL, &g.dshift));
    ls_trial_draw(trial, v->dy, 9);
    LS_TRY(ls_trial_parts(trial, g.dscale));
    if (v->layer) LS_TRY(ls_trial_parts(trial, g.dshift));
    LS_TRY(ls_trial_variant(trial, g.dx, LS_CAUSE_LOST_TERM,
                            "the mean and variance taken for constants", &without));
    LS_TRY(gradients_of(trial, v, &g, without));
    LS_TRY(order_backward(trial, v, &g));
exit:
    return status;
}

static int call_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const ls_backend *table = backend;
    const norm_view *v = trial->shape;
    return v->layer ? table->layer_norm_backward(me, b[0], b[1], b[5], b[4], b[2], b[3], &v->shape)
                    : table->rms_norm_backward(me, b[0], b[1], b[4], b[2], b[3], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(layer_norm_forward, SHAPES, prepare_forward, call_forward, LAYER),
    JUDGE_BOUNDED(layer_norm_backward, SHAPES, prepare_backward, call_backward, LAYER),
    JUDGE_BOUNDED(rms_norm_forward, SHAPES, prepare_forward, call_forward, RMS),
    JUDGE_BOUNDED(rms_norm_backward, SHAPES, prepare_backward, call_backward, RMS)};

const judge_chapter ls_judge_norm = JUDGE_CHAPTER(operations);
