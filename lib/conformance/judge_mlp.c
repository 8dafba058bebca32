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
#include "step_graph/operation_parts.h"

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
    approx *h, *u, *slope;
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

/* h, u = gelu(h), gelu'(h), each with its error. */
static ls_status go_up(judge_trial *trial, mlp_view *v)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    const size_t n = v->tokens * v->shape.F, D = v->shape.D, F = v->shape.F;
    double *h = NULL, *error = NULL;
    LS_TRY(ls_trial_numbers(trial, n, &h));
    LS_TRY(ls_trial_numbers(trial, n, &error));
    LS_TRY(ls_trial_room(trial, n, sizeof *v->h, &v->h));
    LS_TRY(ls_trial_room(trial, n, sizeof *v->u, &v->u));
    LS_TRY(ls_trial_room(trial, n, sizeof *v->slope, &v->slope));
    const judge_factor X = {v->x->before, D, 1}, W = {v->w_up->before, F, 1};
    ls_judge_product(p, h, error, X, W, v->tokens, F, 0, D, v->b_up->before);
    for (size_t i = 0; i < n; i++) {
        v->h[i] = approx_within(h[i], error[i]);
        ls_evaluate_gelu(p, v->shape.gelu == LS_BACKEND_GELU_ERF, v->h[i], &v->u[i], &v->slope[i]);
    }
exit:
    return status;
}

static void put(judge_tensor *tensor, size_t i, const ls_precision *p, const approx_sum *sum)
{
    const approx total = approx_sum_end(p, sum);
    tensor->value[i] = total.value;
    tensor->bound[i] = total.error;
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

/* y as if the activation were fn of h. */
static void down_of(const mlp_view *v, const approx *u, double *y)
{
    const size_t D = v->shape.D, F = v->shape.F;
    for (size_t t = 0; t < v->tokens; t++)
        for (size_t d = 0; d < D; d++) {
            y[t * D + d] = v->b_down->before[d];
            for (size_t f = 0; f < F; f++)
                y[t * D + d] += u[t * F + f].value * v->w_down->before[f * D + d];
        }
}

static ls_status prepare_forward(judge_trial *trial)
{
    ls_status status = LS_OK;
    const ls_precision *p = &trial->precision;
    mlp_view *v = NULL;
    judge_tensor *y = NULL;
    ls_real *h = NULL;
    double *u = NULL, *other = NULL, *without = NULL;
    approx *wrong = NULL, slope;
    LS_TRY(prepare_shape(trial, &v));
    LS_TRY(ls_trial_add(trial, "y", JUDGE_WANTED, v->tokens, v->shape.D, 1, NULL, &y));
    LS_TRY(add_inputs(trial, v));
    LS_TRY(go_up(trial, v));
    LS_TRY(ls_trial_parts(trial, y));
    const size_t D = v->shape.D, F = v->shape.F, *starts = v->shape.cut.starts;
    for (size_t i = 0; i < y->n; i++) {
        const size_t t = i / D, d = i % D;
        approx_sum sum = {0};
        for (int r = 0; r < trial->ranks; r++)
            for (size_t f = starts[r]; f < starts[r + 1]; f++) {
                const approx term =
                    approx_product(v->u[t * F + f], approx_exact(v->w_down->before[f * D + d]));
                approx_sum_add(&sum, term);
                y->part[(size_t)r * y->n + i] += term.value;
            }
        y->once[i] = v->b_down->before[d];
        approx_sum_add(&sum, approx_exact(y->once[i]));
        put(y, i, p, &sum);
    }
    LS_TRY(up_bits(trial, v, &h, &u));
    LS_TRY(ls_judge_order_product(trial, y, LS_NO_TRANS, LS_NO_TRANS, v->token_axis,
                                  ls_axis_whole(D), v->cut_axis, u, v->w_down->before,
                                  v->b_down->before));
    LS_TRY(ls_trial_variant(trial, y, "gelu in its other form", false, &other));
    LS_TRY(ls_trial_variant(trial, y, "no activation", false, &without));
    LS_TRY(ls_trial_room(trial, v->tokens * F, sizeof *wrong, &wrong));
    for (size_t i = 0; i < v->tokens * F; i++)
        ls_evaluate_gelu(p, v->shape.gelu != LS_BACKEND_GELU_ERF, v->h[i], &wrong[i], &slope);
    down_of(v, wrong, other);
    down_of(v, v->h, without);
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

/* dh = (dy W_down^T) gelu'(h) */
static void go_back(const mlp_view *v, const ls_precision *p, approx *dh)
{
    const size_t D = v->shape.D, F = v->shape.F;
    for (size_t t = 0; t < v->tokens; t++)
        for (size_t f = 0; f < F; f++) {
            approx_sum du = {0};
            for (size_t d = 0; d < D; d++)
                approx_sum_add(
                    &du, approx_exact(v->dy->before[t * D + d] * v->w_down->before[f * D + d]));
            dh[t * F + f] = approx_multiply(p, approx_sum_end(p, &du), v->slope[t * F + f]);
        }
}

static void weight_gradients(const mlp_view *v, const ls_precision *p, const mlp_gradients *g,
                             const approx *dh)
{
    const size_t D = v->shape.D, F = v->shape.F, n = v->tokens;
    for (size_t f = 0; f < F; f++) {
        approx_sum bias = {0};
        for (size_t t = 0; t < n; t++) approx_sum_add(&bias, dh[t * F + f]);
        put(g->db_up, f, p, &bias);
        for (size_t d = 0; d < D; d++) {
            approx_sum up = {0}, down = {0};
            for (size_t t = 0; t < n; t++) {
                approx_sum_add(
                    &up, approx_product(approx_exact(v->x->before[t * D + d]), dh[t * F + f]));
                approx_sum_add(
                    &down, approx_product(v->u[t * F + f], approx_exact(v->dy->before[t * D + d])));
            }
            put(g->dw_up, d * F + f, p, &up);
            put(g->dw_down, f * D + d, p, &down);
        }
    }
    ls_judge_add_rows(p, g->db_down->value, g->db_down->bound, v->dy->before, n, D);
}

static void input_gradient(const judge_trial *trial, const mlp_view *v, judge_tensor *dx,
                           const approx *dh)
{
    const size_t D = v->shape.D, F = v->shape.F, *starts = v->shape.cut.starts;
    for (size_t i = 0; i < dx->n; i++) {
        approx_sum sum = {0};
        for (int r = 0; r < trial->ranks; r++)
            for (size_t f = starts[r]; f < starts[r + 1]; f++) {
                const approx term =
                    approx_product(dh[i / D * F + f], approx_exact(v->w_up->before[i % D * F + f]));
                approx_sum_add(&sum, term);
                dx->part[(size_t)r * dx->n + i] += term.value;
            }
        put(dx, i, &trial->precision, &sum);
    }
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
    approx *dh = NULL;
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
    LS_TRY(ls_trial_room(trial, v->tokens * F, sizeof *dh, &dh));
    go_back(v, &trial->precision, dh);
    LS_TRY(ls_trial_parts(trial, g.dx));
    input_gradient(trial, v, g.dx, dh);
    weight_gradients(v, &trial->precision, &g, dh);
    LS_TRY(order_gradients(trial, v, &g));
    LS_TRY(ls_trial_variant(trial, g.db_down, "summed over ranks that all have the whole gradient",
                            false, &summed));
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

JUDGE_HAS(mlp_forward)
JUDGE_HAS(mlp_backward)

static const judge_operation operations[] = {
    {"mlp_forward", false, true, 1, SHAPES, has_mlp_forward, prepare_forward, call_forward, NULL},
    {"mlp_backward", false, true, 1, SHAPES, has_mlp_backward, prepare_backward, call_backward,
     NULL},
};

const judge_chapter ls_judge_mlp = {operations, sizeof operations / sizeof operations[0]};
