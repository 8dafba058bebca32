/* judge_linear.c - the cases of the column- and the row-parallel linear layer.
 *
 * What others got wrong here: the bias added on every rank before the sum, or to the sum's average;
 * products or input gradients that were never summed, or were summed twice; the gradient of the
 * replicated bias summed over ranks that all have it already. */
#include <stdio.h>

#include "conformance/judge_operations.h"
#include "conformance/judge_product.h"
#include "base/append.h"

enum { SHAPES = 9, RANGE = 9 };

/* Granules of the cut axis, told by the number of ranks. */
typedef enum granules { ONE = 0, LESS, RANKS, MORE, TWICE, THRICE } granules;

typedef struct linear_case {
    size_t B, S, other; /* other: the axis that is not cut */
    granules granules;
    size_t granule;
    int cut; /* ls_trial_cut */
    bool bias, zero;
} linear_case;

/* All dimensions different from each other; zero: x is 0, so that the bias stands alone. */
static const linear_case CASES[SHAPES] = {
    {1, 1, 1, RANKS, 1, 0, true, false},   {2, 3, 5, RANKS, 2, 0, true, false},
    {1, 7, 11, THRICE, 3, 0, true, false}, {3, 2, 7, MORE, 3, 0, false, false},
    {1, 5, 13, TWICE, 2, 3, true, false},  {2, 2, 3, LESS, 5, 1, true, false},
    {1, 4, 19, ONE, 17, 0, true, false},   {2, 3, 4, RANKS, 2, 0, true, true},
    {2, 13, 31, THRICE, 1, 1, true, false}};

static size_t count_granules(granules which, size_t P)
{
    const size_t counts[] = {1, P - 1, P, P + 1, 2 * P, 3 * P};
    return counts[which];
}

/* Everything of a case: the axes, and whether the cut one is `out`. */
typedef struct linear_view {
    ls_backend_linear shape;
    bool bias;
    size_t tokens, width; /* of the cut axis */
    ls_axis token_axis, cut_axis;
} linear_view;

static ls_status prepare_shape(judge_trial *trial, bool column, linear_view **ret_view)
{
    ls_status status = LS_OK;
    const linear_case *c = &CASES[trial->number % SHAPES];
    const size_t G = count_granules(c->granules, (size_t)trial->ranks);
    linear_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->bias = c->bias;
    v->tokens = c->B * c->S;
    v->width = G * c->granule;
    v->token_axis = ls_axis_of(c->B, c->S);
    v->cut_axis = ls_axis_of(G, c->granule);
    v->shape = (ls_backend_linear){.B = c->B,
                                   .S = c->S,
                                   .in = column ? c->other : v->width,
                                   .out = column ? v->width : c->other,
                                   .cut = {.granule = c->granule}};
    LS_TRY(ls_trial_cut(trial, G, c->granule, c->cut, &v->shape.cut.starts));
    if (!c->bias) trial->traits |= JUDGE_NO_BIAS;
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    size_t at = ls_append(trial->label, sizeof trial->label, 0,
                          "tokens %zu x %zu, in %zu, out %zu, %s%s", c->B, c->S, v->shape.in,
                          v->shape.out, c->bias ? "bias" : "no bias", c->zero ? ", x 0" : "");
    at = ls_append(trial->label, sizeof trial->label, at, ", cut");
    for (int r = 0; r <= trial->ranks; r++)
        at = ls_append(trial->label, sizeof trial->label, at, " %zu", v->shape.cut.starts[r]);
    *ret_view = v;
exit:
    return status;
}

static void draw_x(judge_trial *trial, judge_tensor *x)
{
    ls_trial_draw(trial, x, RANGE);
    for (size_t i = 0; CASES[trial->number % SHAPES].zero && i < x->n; i++) x->before[i] = 0;
}

/* ---- column: y_r = x w_r + b_r ---- */

static ls_status prepare_column(judge_trial *trial)
{
    ls_status status = LS_OK;
    linear_view *v = NULL;
    judge_tensor *y = NULL, *x = NULL, *w = NULL, *b = NULL;
    double *bare = NULL;
    LS_TRY(prepare_shape(trial, true, &v));
    const size_t in = v->shape.in, out = v->shape.out, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, v->tokens, out, 1, starts, &y));
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, v->tokens, in, 1, NULL, &x));
    LS_TRY(ls_trial_add(trial, "w", JUDGE_GIVEN, in, out, 1, starts, &w));
    LS_TRY(ls_trial_add(trial, "bias", JUDGE_GIVEN, 1, out, 1, starts, &b));
    draw_x(trial, x);
    ls_trial_draw(trial, w, RANGE);
    ls_trial_draw(trial, b, RANGE);
    const double *bias = v->bias ? b->before : NULL;
    const judge_factor X = {x->before, in, 1, NULL}, W = {w->before, out, 1, NULL};
    ls_judge_product(&trial->precision, y->value, y->bound, X, W, v->tokens, out, 0, in, bias);
    LS_TRY(ls_judge_order_product(trial, y, LS_NO_TRANS, LS_NO_TRANS, v->token_axis, v->cut_axis,
                                  ls_axis_whole(in), x->before, w->before, bias));
    LS_TRY(ls_trial_variant(trial, y, LS_CAUSE_BIAS_MISSING, NULL, &bare));
    ls_judge_product(&trial->precision, bare, NULL, X, W, v->tokens, out, 0, in, NULL);
exit:
    return status;
}

static int call_column(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                       void *const *b)
{
    const linear_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->column_linear_forward(me, b[0], b[1], b[2], v->bias ? b[3] : NULL, &v->shape);
}

/* dx = sum over r of dy_r w_r^T, dw_r = x^T dy_r, db_r = sum of dy_r */
static ls_status prepare_column_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    linear_view *v = NULL;
    judge_tensor *dx = NULL, *dw = NULL, *db = NULL, *dy = NULL, *x = NULL, *w = NULL;
    LS_TRY(prepare_shape(trial, true, &v));
    const size_t in = v->shape.in, out = v->shape.out, n = v->tokens;
    const size_t *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "dx", JUDGE_WANTED, n, in, 1, NULL, &dx));
    LS_TRY(ls_trial_add(trial, "dw", JUDGE_WANTED, in, out, 1, starts, &dw));
    LS_TRY(ls_trial_add(trial, "dy", JUDGE_GIVEN, n, out, 1, starts, &dy));
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, n, in, 1, NULL, &x));
    LS_TRY(ls_trial_add(trial, "w", JUDGE_GIVEN, in, out, 1, starts, &w));
    if (v->bias) LS_TRY(ls_trial_add(trial, "dbias", JUDGE_WANTED, 1, out, 1, starts, &db));
    ls_trial_draw(trial, dy, RANGE);
    draw_x(trial, x);
    ls_trial_draw(trial, w, RANGE);
    const judge_factor DY = {dy->before, out, 1, NULL}, WT = {w->before, 1, out, NULL},
                       XT = {x->before, 1, in, NULL};
    LS_TRY(ls_judge_product_of_ranks(trial, dx, DY, WT, n, in, starts, NULL));
    ls_judge_product(p, dw->value, dw->bound, XT, DY, in, out, 0, n, NULL);
    LS_TRY(ls_judge_order_product(trial, dx, LS_NO_TRANS, LS_TRANS, v->token_axis,
                                  ls_axis_whole(in), v->cut_axis, dy->before, w->before, NULL));
    LS_TRY(ls_judge_order_product(trial, dw, LS_TRANS, LS_NO_TRANS, ls_axis_whole(in), v->cut_axis,
                                  v->token_axis, x->before, dy->before, NULL));
    if (db != NULL) {
        ls_judge_add_rows(p, db->value, db->bound, DY, n, out);
        LS_TRY(ls_judge_order_rows(trial, db, dy->before, v->token_axis, out));
    }
exit:
    return status;
}

static int call_column_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                                void *const *b)
{
    const linear_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->column_linear_backward(me, b[0], b[1], v->bias ? b[5] : NULL, b[2], b[3], b[4],
                                 &v->shape);
}

/* ---- row: y = sum over r of x_r w_r, then + b ---- */

static ls_status prepare_row(judge_trial *trial)
{
    ls_status status = LS_OK;
    linear_view *v = NULL;
    judge_tensor *y = NULL, *x = NULL, *w = NULL, *b = NULL;
    LS_TRY(prepare_shape(trial, false, &v));
    const size_t in = v->shape.in, out = v->shape.out, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, v->tokens, out, 1, NULL, &y));
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, v->tokens, in, 1, starts, &x));
    LS_TRY(ls_trial_add(trial, "w", JUDGE_GIVEN, 1, in, out, starts, &w));
    LS_TRY(ls_trial_add(trial, "bias", JUDGE_GIVEN, 1, out, 1, NULL, &b));
    draw_x(trial, x);
    ls_trial_draw(trial, w, RANGE);
    ls_trial_draw(trial, b, RANGE);
    const double *bias = v->bias ? b->before : NULL;
    const judge_factor X = {x->before, in, 1, NULL}, W = {w->before, out, 1, NULL};
    LS_TRY(ls_judge_product_of_ranks(trial, y, X, W, v->tokens, out, starts, bias));
    LS_TRY(ls_judge_order_product(trial, y, LS_NO_TRANS, LS_NO_TRANS, v->token_axis,
                                  ls_axis_whole(out), v->cut_axis, x->before, w->before, bias));
exit:
    return status;
}

static int call_row(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                    void *const *b)
{
    const linear_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->row_linear_forward(me, b[0], b[1], b[2], v->bias ? b[3] : NULL, &v->shape);
}

/* dx_r = dy w_r^T, dw_r = x_r^T dy, db = sum of dy, which every rank has whole */
static ls_status prepare_row_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    linear_view *v = NULL;
    judge_tensor *dx = NULL, *dw = NULL, *db = NULL, *dy = NULL, *x = NULL, *w = NULL;
    LS_TRY(prepare_shape(trial, false, &v));
    const size_t in = v->shape.in, out = v->shape.out, n = v->tokens;
    const size_t *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "dx", JUDGE_WANTED, n, in, 1, starts, &dx));
    LS_TRY(ls_trial_add(trial, "dw", JUDGE_WANTED, 1, in, out, starts, &dw));
    LS_TRY(ls_trial_add(trial, "dy", JUDGE_GIVEN, n, out, 1, NULL, &dy));
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, n, in, 1, starts, &x));
    LS_TRY(ls_trial_add(trial, "w", JUDGE_GIVEN, 1, in, out, starts, &w));
    if (v->bias) LS_TRY(ls_trial_add(trial, "dbias", JUDGE_WANTED, 1, out, 1, NULL, &db));
    ls_trial_draw(trial, dy, RANGE);
    draw_x(trial, x);
    ls_trial_draw(trial, w, RANGE);
    const judge_factor DY = {dy->before, out, 1, NULL}, WT = {w->before, 1, out, NULL},
                       XT = {x->before, 1, in, NULL};
    ls_judge_product(p, dx->value, dx->bound, DY, WT, n, in, 0, out, NULL);
    ls_judge_product(p, dw->value, dw->bound, XT, DY, in, out, 0, n, NULL);
    LS_TRY(ls_judge_order_product(trial, dx, LS_NO_TRANS, LS_TRANS, v->token_axis, v->cut_axis,
                                  ls_axis_whole(out), dy->before, w->before, NULL));
    LS_TRY(ls_judge_order_product(trial, dw, LS_TRANS, LS_NO_TRANS, v->cut_axis, ls_axis_whole(out),
                                  v->token_axis, x->before, dy->before, NULL));
    if (db != NULL) {
        double *summed = NULL, *shared = NULL;
        ls_judge_add_rows(p, db->value, db->bound, DY, n, out);
        LS_TRY(ls_judge_order_rows(trial, db, dy->before, v->token_axis, out));
        LS_TRY(ls_trial_variant(trial, db, LS_CAUSE_REDUCED_TWICE,
                                "summed over ranks that all have the whole gradient", &summed));
        LS_TRY(ls_trial_variant(trial, db, LS_CAUSE_AVERAGED, "divided by the number of ranks",
                                &shared));
        for (size_t i = 0; i < db->n; i++) {
            summed[i] *= trial->ranks;
            shared[i] /= trial->ranks;
        }
    }
exit:
    return status;
}

static int call_row_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                             void *const *b)
{
    const linear_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->row_linear_backward(me, b[0], b[1], v->bias ? b[5] : NULL, b[2], b[3], b[4], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOTH(column_linear_forward, SHAPES, prepare_column, call_column),
    JUDGE_BOTH(column_linear_backward, SHAPES, prepare_column_backward, call_column_backward),
    JUDGE_BOTH(row_linear_forward, SHAPES, prepare_row, call_row),
    JUDGE_BOTH(row_linear_backward, SHAPES, prepare_row_backward, call_row_backward),
};

const judge_chapter ls_judge_linear = JUDGE_CHAPTER(operations);
