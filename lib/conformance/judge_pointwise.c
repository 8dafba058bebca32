/* judge_pointwise.c - the cases of GELU and of the softmax of rows: no communication, own numbers
 * on every rank. */
#include <math.h>
#include <stdio.h>

#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/softmax.h"
#include "conformance/judge_operations.h"
#include "step_graph/formula.h"

enum { GELU_SHAPES = 10, SOFTMAX_SHAPES = 8 };

/* judge_operation.form of GELU */
enum { FORWARD = 0, BACKWARD };

/* ---- GELU ---- */

typedef struct gelu_view {
    size_t n;
    ls_backend_gelu form;
} gelu_view;

static ls_status prepare_gelu_shape(judge_trial *trial, gelu_view **ret_view)
{
    ls_status status = LS_OK;
    static const size_t counts[] = {1, 97, 0, 1009, 7};
    gelu_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->n = counts[trial->number / 2 % 5];
    v->form = trial->number % 2 ? LS_BACKEND_GELU_ERF : LS_BACKEND_GELU_TANH;
    snprintf(trial->label, sizeof trial->label, "n %zu, %s", v->n,
             v->form == LS_BACKEND_GELU_ERF ? "erf" : "tanh");
    *ret_view = v;
exit:
    return status;
}

/* Some near 0, some where tanh is 1 or -1. */
static void draw_wide(judge_trial *trial, judge_tensor *x)
{
    ls_trial_draw(trial, x, 9);
    for (size_t i = 0; i < x->n; i += 3) x->before[i] *= i % 2 ? 8 : 0.125;
}

static ls_status gelu_bits(judge_trial *trial, const gelu_view *v, judge_tensor *out,
                           const judge_tensor *x, const judge_tensor *dy)
{
    ls_status status = LS_OK;
    ls_real *in = NULL, *up = NULL, *bits = NULL;
    const bool exact = v->form == LS_BACKEND_GELU_ERF;
    LS_TRY(ls_judge_reals(trial, x->n, x->before, &in));
    LS_TRY(ls_judge_reals(trial, x->n, dy ? dy->before : NULL, &up));
    LS_TRY(ls_judge_reals(trial, x->n, NULL, &bits));
    if (dy == NULL && exact) ls_gelu_erf_forward(bits, in, x->n);
    if (dy == NULL && !exact) ls_gelu_tanh_forward(bits, in, x->n);
    if (dy != NULL && exact) ls_gelu_erf_backward(bits, up, in, x->n);
    if (dy != NULL && !exact) ls_gelu_tanh_backward(bits, up, in, x->n);
    out->ordered = bits;
exit:
    return status;
}

static ls_status prepare_gelu(judge_trial *trial)
{
    ls_status status = LS_OK;
    const bool backward = trial->form == BACKWARD;
    gelu_view *v = NULL;
    judge_tensor *out = NULL, *x = NULL, *dy = NULL;
    LS_TRY(prepare_gelu_shape(trial, &v));
    LS_TRY(ls_trial_add_own(trial, backward ? "dx" : "y", JUDGE_WANTED, v->n, &out));
    LS_TRY(ls_trial_add_own(trial, "x", JUDGE_GIVEN, v->n, &x));
    draw_wide(trial, x);
    if (backward) {
        LS_TRY(ls_trial_add_own(trial, "dy", JUDGE_GIVEN, v->n, &dy));
        ls_trial_draw(trial, dy, 9);
    }
    const ls_activation_form form =
        v->form == LS_BACKEND_GELU_ERF ? LS_ACTIVATION_ERF : LS_ACTIVATION_TANH;
    const struct {
        const char *text;
        ls_variant how;
    } ways[] = {
        {NULL, {0}},
        {"gelu in its other form",
         {.activation = form == LS_ACTIVATION_ERF ? LS_ACTIVATION_TANH : LS_ACTIVATION_ERF}},
        {"x sigmoid(1.702 x) in place of gelu", {.activation = LS_ACTIVATION_SIGMOID}}};
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        double *values = out->value;
        if (k > 0)
            LS_TRY(ls_trial_variant(trial, out, LS_CAUSE_GELU_VARIANT, ways[k].text, &values));
        for (size_t i = 0; i < out->n; i++) {
            approx y, slope;
            ls_formula_activation(&trial->precision, &ways[k].how, form, approx_exact(x->before[i]),
                                  &y, &slope);
            if (backward)
                y = approx_multiply(&trial->precision, slope, approx_exact(dy->before[i]));
            values[i] = y.value;
            if (k == 0) out->bound[i] = y.error;
        }
    }
    LS_TRY(gelu_bits(trial, v, out, x, dy));
exit:
    return status;
}

static int call_gelu(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                     void *const *b)
{
    const gelu_view *v = trial->shape;
    return ((const ls_backend *)backend)->gelu_forward(me, b[0], b[1], v->n, v->form);
}

static int call_gelu_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                              void *const *b)
{
    const gelu_view *v = trial->shape;
    return ((const ls_backend *)backend)->gelu_backward(me, b[0], b[2], b[1], v->n, v->form);
}

/* ---- softmax ---- */

typedef struct softmax_view {
    size_t rows, n;
} softmax_view;

static ls_status prepare_softmax_shape(judge_trial *trial, softmax_view **ret_view)
{
    ls_status status = LS_OK;
    static const size_t rows[SOFTMAX_SHAPES] = {1, 2, 3, 5, 1, 0, 7, 4};
    static const size_t n[SOFTMAX_SHAPES] = {1, 3, 17, 64, 1009, 5, 2, 33};
    const size_t s = trial->number % SOFTMAX_SHAPES;
    softmax_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    *v = (softmax_view){rows[s], n[s]};
    snprintf(trial->label, sizeof trial->label, "rows %zu, n %zu%s", v->rows, v->n,
             s % 2 ? ", large numbers" : "");
    *ret_view = v;
exit:
    return status;
}

/* Rows of ranks x rows, one after another. */
static ls_status prepare_softmax(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    softmax_view *v = NULL;
    judge_tensor *y = NULL, *x = NULL;
    approx *row = NULL;
    ls_real *in = NULL, *bits = NULL;
    LS_TRY(prepare_softmax_shape(trial, &v));
    const size_t all = v->rows * v->n, n = v->n;
    LS_TRY(ls_trial_add_own(trial, "y", JUDGE_WANTED, all, &y));
    LS_TRY(ls_trial_add_own(trial, "x", JUDGE_GIVEN, all, &x));
    ls_trial_draw(trial, x, 9);
    /* Large: exp of them overflows. */
    for (size_t i = 0; trial->number % 2 && i < x->n; i++)
        x->before[i] *= trial->dtype == LS_F64 ? 512 : 64;
    LS_TRY(ls_trial_room(trial, n, sizeof *row, &row));
    LS_TRY(ls_judge_reals(trial, x->n, x->before, &in));
    LS_TRY(ls_judge_reals(trial, x->n, NULL, &bits));
    for (size_t r = 0; r < v->rows * (size_t)trial->ranks; r++) {
        for (size_t i = 0; i < n; i++) row[i] = approx_exact(x->before[r * n + i]);
        ls_formula_softmax(p, row, n);
        for (size_t i = 0; i < n; i++) {
            y->value[r * n + i] = row[i].value;
            y->bound[r * n + i] = row[i].error;
        }
        ls_softmax_forward(bits + r * n, in + r * n, NULL, n);
    }
    y->ordered = bits;
exit:
    return status;
}

static int call_softmax(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const softmax_view *v = trial->shape;
    return ((const ls_backend *)backend)->softmax_forward(me, b[0], b[1], v->rows, v->n);
}

/* dx = y (dy - sum dy y) */
static ls_status prepare_softmax_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    softmax_view *v = NULL;
    judge_tensor *dx = NULL, *dy = NULL, *y = NULL;
    ls_real *up = NULL, *of = NULL, *bits = NULL;
    double *diagonal = NULL;
    approx *P = NULL, *dP = NULL;
    const ls_variant ways[2] = {{0}, {.lost_term = LS_TERM_SOFTMAX_MEAN}};
    LS_TRY(prepare_softmax_shape(trial, &v));
    const size_t all = v->rows * v->n, n = v->n;
    LS_TRY(ls_trial_room(trial, n, sizeof *P, &P));
    LS_TRY(ls_trial_room(trial, n, sizeof *dP, &dP));
    LS_TRY(ls_trial_add_own(trial, "dx", JUDGE_WANTED, all, &dx));
    LS_TRY(ls_trial_add_own(trial, "dy", JUDGE_GIVEN, all, &dy));
    LS_TRY(ls_trial_add_own(trial, "y", JUDGE_GIVEN, all, &y));
    ls_trial_draw(trial, dy, 9);
    ls_trial_draw(trial, y, 9);
    for (size_t r = 0; r < v->rows * (size_t)trial->ranks; r++) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += exp(y->before[r * n + i]);
        for (size_t i = 0; i < n; i++)
            y->before[r * n + i] = ls_trial_round(trial, exp(y->before[r * n + i]) / sum);
    }
    LS_TRY(ls_trial_variant(trial, dx, LS_CAUSE_LOST_TERM,
                            "the sum along the row is not taken away", &diagonal));
    LS_TRY(ls_judge_reals(trial, dx->n, dy->before, &up));
    LS_TRY(ls_judge_reals(trial, dx->n, y->before, &of));
    LS_TRY(ls_judge_reals(trial, dx->n, NULL, &bits));
    for (size_t r = 0; r < v->rows * (size_t)trial->ranks; r++) {
        for (int way = 0; way < 2; way++) {
            for (size_t i = 0; i < n; i++) P[i] = approx_exact(y->before[r * n + i]);
            for (size_t i = 0; i < n; i++) dP[i] = approx_exact(dy->before[r * n + i]);
            ls_formula_softmax_gradient(p, &ways[way], P, dP, n);
            for (size_t i = 0; i < n; i++) (way ? diagonal : dx->value)[r * n + i] = dP[i].value;
            for (size_t i = 0; way == 0 && i < n; i++) dx->bound[r * n + i] = dP[i].error;
        }
        double along = 0;
        for (size_t i = r * n; i < (r + 1) * n; i++) along += dy->before[i] * y->before[i];
        /* y dy - y sum: the same with other roundings */
        for (size_t i = r * n; i < (r + 1) * n; i++)
            dx->bound[i] += 2 * p->u * fabs(y->before[i]) * (fabs(dy->before[i]) + fabs(along));
        ls_softmax_backward(bits + r * n, up + r * n, of + r * n, n);
    }
    dx->ordered = bits;
exit:
    return status;
}

static int call_softmax_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                                 void *const *b)
{
    const softmax_view *v = trial->shape;
    return ((const ls_backend *)backend)->softmax_backward(me, b[0], b[1], b[2], v->rows, v->n);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(gelu_forward, GELU_SHAPES, prepare_gelu, call_gelu, FORWARD),
    JUDGE_BOUNDED(gelu_backward, GELU_SHAPES, prepare_gelu, call_gelu_backward, BACKWARD),
    JUDGE_BOUNDED(softmax_forward, SOFTMAX_SHAPES, prepare_softmax, call_softmax, 0),
    JUDGE_BOUNDED(softmax_backward, SOFTMAX_SHAPES, prepare_softmax_backward, call_softmax_backward,
                  0),
};

const judge_chapter ls_judge_pointwise = JUDGE_CHAPTER(operations);
