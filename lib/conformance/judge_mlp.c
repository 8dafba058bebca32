/* judge_mlp.c - the cases of the MLP: a column-parallel linear, GELU, a row-parallel linear.
 *
 *     h = x W_up + b_up    u = gelu(h)    y = sum over r of u_r W_down_r, then + b_down
 *     dW_down = u^T dy   db_down = sum dy   du = dy W_down^T   dh = du gelu'(h)
 *     dW_up = x^T dh     db_up = sum dh     dx = sum over r of dh_r W_up_r^T
 *
 * The error of h is carried through gelu into every sum after it. */
#include <stdio.h>

#include "lockstep/kernels/activation.h"
#include "conformance/judge_operations.h"
#include "conformance/judge_product.h"
#include "step_graph/formula.h"

enum { SHAPES = 6 };

typedef struct mlp_case {
    size_t B, S, D;
    size_t per_rank, more; /* granules: per_rank P + more */
    size_t granule;
    int cut;
    ls_backend_gelu gelu;
} mlp_case;

static const mlp_case CASES[SHAPES] = {
    {1, 1, 3, 1, 0, 1, 0, LS_BACKEND_GELU_TANH},  {2, 3, 5, 1, 0, 4, 0, LS_BACKEND_GELU_ERF},
    {1, 7, 11, 3, 0, 2, 0, LS_BACKEND_GELU_TANH}, {3, 2, 7, 1, 1, 3, 0, LS_BACKEND_GELU_ERF},
    {2, 2, 9, 2, 0, 5, 3, LS_BACKEND_GELU_TANH},  {1, 4, 6, 0, 1, 13, 0, LS_BACKEND_GELU_TANH}};

/* One case: shape, inputs, and what is computed of them. Arrays of tokens x F unless said. */
typedef struct mlp_view {
    ls_backend_mlp shape;
    size_t tokens;
    ls_axis token_axis, cut_axis;
    judge_tensor *x, *w_up, *b_up, *w_down, *b_down, *dy;
    double *h, *u, *slope;             /* gelu(h) and gelu'(h) */
    double *h_off, *u_off, *slope_off; /* their errors */
} mlp_view;

static ls_status prepare_shape(judge_trial *trial, mlp_view **ret_view)
{
    ls_status status = LS_OK;
    const mlp_case *c = &CASES[trial->number % SHAPES];
    const size_t G = c->per_rank * (size_t)trial->ranks + c->more;
    mlp_view *v = NULL;
    LS_TRY(ls_trial_room(trial, 1, sizeof *v, &v));
    trial->shape = v;
    v->tokens = c->B * c->S;
    v->token_axis = ls_axis_of(c->B, c->S);
    v->cut_axis = ls_axis_of(G, c->granule);
    v->shape = (ls_backend_mlp){.B = c->B,
                                .S = c->S,
                                .D = c->D,
                                .F = G * c->granule,
                                .cut = {.granule = c->granule},
                                .gelu = c->gelu};
    LS_TRY(ls_trial_cut(trial, G, c->granule, c->cut, &v->shape.cut.starts));
    if (c->B > 1) trial->traits |= JUDGE_SEVERAL_SEQUENCES;
    snprintf(trial->label, sizeof trial->label,
             "tokens %zu x %zu, D %zu, F %zu in shares of %zu, %s", c->B, c->S, c->D, v->shape.F,
             c->granule, c->gelu == LS_BACKEND_GELU_ERF ? "gelu erf" : "gelu tanh");
    *ret_view = v;
exit:
    return status;
}

static ls_status add_inputs(judge_trial *trial, mlp_view *v)
{
    ls_status status = LS_OK;
    const size_t D = v->shape.D, F = v->shape.F, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "x", JUDGE_GIVEN, v->tokens, D, 1, NULL, &v->x));
    LS_TRY(ls_trial_add(trial, "w_up", JUDGE_GIVEN, D, F, 1, starts, &v->w_up));
    LS_TRY(ls_trial_add(trial, "b_up", JUDGE_GIVEN, 1, F, 1, starts, &v->b_up));
    LS_TRY(ls_trial_add(trial, "w_down", JUDGE_GIVEN, 1, F, D, starts, &v->w_down));
    LS_TRY(ls_trial_add(trial, "b_down", JUDGE_GIVEN, 1, D, 1, NULL, &v->b_down));
    LS_TRY(ls_trial_add(trial, "dy", JUDGE_GIVEN, v->tokens, D, 1, NULL, &v->dy));
    judge_tensor *all[] = {v->x, v->w_up, v->b_up, v->w_down, v->b_down, v->dy};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) ls_trial_draw(trial, all[k], 1);
exit:
    return status;
}

/* A matrix of rows of n elements; the same turned; with errors. */
static judge_factor matrix(const double *x, size_t n, const double *error)
{
    return (judge_factor){x, n, 1, error};
}

static judge_factor turned(const double *x, size_t n, const double *error)
{
    return (judge_factor){x, 1, n, error};
}

static ls_activation_form form_of(const mlp_view *v)
{
    return v->shape.gelu == LS_BACKEND_GELU_ERF ? LS_ACTIVATION_ERF : LS_ACTIVATION_TANH;
}

/* h, u = gelu(h), gelu'(h), each with its error. */
static ls_status go_up(judge_trial *trial, mlp_view *v)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const ls_variant right = {0};
    const size_t n = v->tokens * v->shape.F, D = v->shape.D, F = v->shape.F;
    double **all[] = {&v->h, &v->u, &v->slope, &v->h_off, &v->u_off, &v->slope_off};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        LS_TRY(ls_trial_numbers(trial, n, all[k]));
    ls_judge_product(p, v->h, v->h_off, matrix(v->x->before, D, NULL),
                     matrix(v->w_up->before, F, NULL), v->tokens, F, 0, D, v->b_up->before);
    for (size_t i = 0; i < n; i++) {
        approx u, slope;
        ls_formula_activation(p, &right, form_of(v), approx_within(v->h[i], v->h_off[i]), &u,
                              &slope);
        v->u[i] = u.value, v->u_off[i] = u.error;
        v->slope[i] = slope.value, v->slope_off[i] = slope.error;
    }
exit:
    return status;
}

/* ---- forward ---- */

static void gelu_bits(ls_backend_gelu form, ls_real *u, const ls_real *h, size_t n)
{
    if (form == LS_BACKEND_GELU_ERF)
        ls_gelu_erf_forward(u, h, n);
    else
        ls_gelu_tanh_forward(u, h, n);
}

/* h and u as the contract has them, in binary64 again for the next product. */
static ls_status up_bits(judge_trial *trial, const mlp_view *v, ls_real **ret_h, double **ret_u)
{
    ls_status status = LS_OK;
    const size_t n = v->tokens * v->shape.F;
    judge_tensor h = {0};
    ls_real *bits = NULL;
    LS_TRY(ls_judge_order_product(trial, &h, LS_NO_TRANS, LS_NO_TRANS, v->token_axis, v->cut_axis,
                                  ls_axis_whole(v->shape.D), v->x->before, v->w_up->before,
                                  v->b_up->before));
    LS_TRY(ls_judge_reals(trial, n, NULL, &bits));
    LS_TRY(ls_trial_numbers(trial, n, ret_u));
    LS_TRY(ls_judge_reals(trial, n, NULL, ret_h));
    for (size_t i = 0; i < n; i++) (*ret_h)[i] = ((const ls_real *)h.ordered)[i];
    gelu_bits(v->shape.gelu, bits, *ret_h, n);
    for (size_t i = 0; i < n; i++) (*ret_u)[i] = (double)bits[i];
exit:
    return status;
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    mlp_view *v = NULL;
    judge_tensor *y = NULL;
    ls_real *h = NULL;
    double *bits = NULL, *other = NULL, *without = NULL, *wrong = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const size_t D = v->shape.D, F = v->shape.F, n = v->tokens;
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, n, D, 1, NULL, &y));
    LS_TRY(add_inputs(trial, v));
    LS_TRY(go_up(trial, v));
    const double *bias = v->b_down->before;
    const judge_factor down = matrix(v->w_down->before, D, NULL);
    LS_TRY(ls_judge_product_of_ranks(trial, y, matrix(v->u, F, v->u_off), down, n, D,
                                     v->shape.cut.starts, bias));
    LS_TRY(up_bits(trial, v, &h, &bits));
    LS_TRY(ls_judge_order_product(trial, y, LS_NO_TRANS, LS_NO_TRANS, v->token_axis,
                                  ls_axis_whole(D), v->cut_axis, bits, v->w_down->before, bias));
    LS_TRY(ls_trial_variant(trial, y, LS_CAUSE_GELU_VARIANT, "gelu in its other form", &other));
    LS_TRY(ls_trial_variant(trial, y, LS_CAUSE_GELU_VARIANT, "no activation", &without));
    LS_TRY(ls_trial_numbers(trial, n * F, &wrong));
    const ls_variant how = {.activation = form_of(v) == LS_ACTIVATION_ERF ? LS_ACTIVATION_TANH
                                                                          : LS_ACTIVATION_ERF};
    for (size_t i = 0; i < n * F; i++) {
        approx u, slope;
        ls_formula_activation(p, &how, form_of(v), approx_exact(v->h[i]), &u, &slope);
        wrong[i] = u.value;
    }
    ls_judge_product(p, other, NULL, matrix(wrong, F, NULL), down, n, D, 0, F, bias);
    ls_judge_product(p, without, NULL, matrix(v->h, F, NULL), down, n, D, 0, F, bias);
exit:
    return status;
}

static int call_forward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                        void *const *b)
{
    const mlp_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->mlp_forward(me, b[0], b[1], b[2], b[3], b[4], b[5], &v->shape);
}

/* ---- backward ---- */

typedef struct mlp_gradients {
    judge_tensor *dx, *dw_up, *db_up, *dw_down, *db_down;
} mlp_gradients;

/* dh = (dy W_down^T) gelu'(h), and all that follows from it. */
static ls_status gradients_of(judge_trial *trial, const mlp_view *v, const mlp_gradients *g)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const size_t D = v->shape.D, F = v->shape.F, n = v->tokens;
    const judge_factor dy = matrix(v->dy->before, D, NULL);
    double *d = NULL, *off = NULL;
    LS_TRY(ls_trial_numbers(trial, n * F, &d));
    LS_TRY(ls_trial_numbers(trial, n * F, &off));
    ls_judge_product(p, d, off, dy, turned(v->w_down->before, D, NULL), n, F, 0, D, NULL);
    for (size_t i = 0; i < n * F; i++) {
        const approx dh = approx_multiply(p, approx_within(d[i], off[i]),
                                          approx_within(v->slope[i], v->slope_off[i]));
        d[i] = dh.value, off[i] = dh.error;
    }
    const judge_factor dh = matrix(d, F, off);
    LS_TRY(ls_judge_product_of_ranks(trial, g->dx, dh, turned(v->w_up->before, F, NULL), n, D,
                                     v->shape.cut.starts, NULL));
    ls_judge_product(p, g->dw_up->value, g->dw_up->bound, turned(v->x->before, D, NULL), dh, D, F,
                     0, n, NULL);
    ls_judge_product(p, g->dw_down->value, g->dw_down->bound, turned(v->u, F, v->u_off), dy, F, D,
                     0, n, NULL);
    ls_judge_add_rows(p, g->db_up->value, g->db_up->bound, dh, n, F);
    ls_judge_add_rows(p, g->db_down->value, g->db_down->bound, dy, n, D);
exit:
    return status;
}

/* The contract's bits of all five. */
static ls_status order_gradients(judge_trial *trial, const mlp_view *v, const mlp_gradients *g)
{
    ls_status status = LS_OK;
    const size_t n = v->tokens * v->shape.F;
    const ls_axis tokens = v->token_axis, ff = v->cut_axis, model = ls_axis_whole(v->shape.D);
    judge_tensor du = {0};
    ls_real *h = NULL, *bits = NULL;
    double *u = NULL, *dh = NULL;
    LS_TRY(up_bits(trial, v, &h, &u));
    LS_TRY(ls_judge_order_product(trial, &du, LS_NO_TRANS, LS_TRANS, tokens, ff, model,
                                  v->dy->before, v->w_down->before, NULL));
    LS_TRY(ls_judge_reals(trial, n, NULL, &bits));
    LS_TRY(ls_trial_numbers(trial, n, &dh));
    if (v->shape.gelu == LS_BACKEND_GELU_ERF)
        ls_gelu_erf_backward(bits, du.ordered, h, n);
    else
        ls_gelu_tanh_backward(bits, du.ordered, h, n);
    for (size_t i = 0; i < n; i++) dh[i] = (double)bits[i];
    LS_TRY(ls_judge_order_product(trial, g->dx, LS_NO_TRANS, LS_TRANS, tokens, model, ff, dh,
                                  v->w_up->before, NULL));
    LS_TRY(ls_judge_order_product(trial, g->dw_up, LS_TRANS, LS_NO_TRANS, model, ff, tokens,
                                  v->x->before, dh, NULL));
    LS_TRY(ls_judge_order_product(trial, g->dw_down, LS_TRANS, LS_NO_TRANS, ff, model, tokens, u,
                                  v->dy->before, NULL));
    LS_TRY(ls_judge_order_rows(trial, g->db_up, dh, tokens, v->shape.F));
    LS_TRY(ls_judge_order_rows(trial, g->db_down, v->dy->before, tokens, v->shape.D));
exit:
    return status;
}

static ls_status prepare_backward(judge_trial *trial)
{
    ls_status status = LS_OK;
    mlp_view *v = NULL;
    mlp_gradients g = {0};
    double *summed = NULL;
    LS_TRY(prepare_shape(trial, &v));
    const size_t D = v->shape.D, F = v->shape.F, *starts = v->shape.cut.starts;
    LS_TRY(ls_trial_add(trial, "dx", JUDGE_WANTED, v->tokens, D, 1, NULL, &g.dx));
    LS_TRY(ls_trial_add(trial, "dw_up", JUDGE_WANTED, D, F, 1, starts, &g.dw_up));
    LS_TRY(ls_trial_add(trial, "db_up", JUDGE_WANTED, 1, F, 1, starts, &g.db_up));
    LS_TRY(ls_trial_add(trial, "dw_down", JUDGE_WANTED, 1, F, D, starts, &g.dw_down));
    LS_TRY(ls_trial_add(trial, "db_down", JUDGE_WANTED, 1, D, 1, NULL, &g.db_down));
    LS_TRY(add_inputs(trial, v));
    LS_TRY(go_up(trial, v));
    LS_TRY(gradients_of(trial, v, &g));
    LS_TRY(order_gradients(trial, v, &g));
    LS_TRY(ls_trial_variant(trial, g.db_down, LS_CAUSE_REDUCED_TWICE,
                            "summed over ranks that all have the whole gradient", &summed));
    for (size_t i = 0; i < D; i++) summed[i] *= trial->ranks;
exit:
    return status;
}

static int call_backward(const void *backend, ls_backend_rank *me, const judge_trial *trial,
                         void *const *b)
{
    const mlp_view *v = trial->shape;
    return ((const ls_backend *)backend)
        ->mlp_backward(me, b[0], b[1], b[2], b[3], b[4], b[10], b[5], b[6], b[7], b[8], &v->shape);
}

static const judge_operation operations[] = {
    JUDGE_BOUNDED(mlp_forward, SHAPES, prepare_forward, call_forward, 0),
    JUDGE_BOUNDED(mlp_backward, SHAPES, prepare_backward, call_backward, 0),
};

const judge_chapter ls_judge_mlp = JUDGE_CHAPTER(operations);
