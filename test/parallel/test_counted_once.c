/* Biases, residuals, gradients: once, not once per rank, and not left as one rank's part. Small
 * cases from mistakes in other programs, with the right values (EXACT unless they are no integers)
 * and what the mistake would give. */
#include "lockstep/parallel/tensor/attention_block.h"
#include "lockstep/parallel/tensor/linear.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "stage_fixture.h"
#include "run_tests.h"

/* ---- a layer that is nothing but biases and residuals ---- */

enum { B = 2, S = 3, D = 12, ROWS = B * S };

typedef struct bare_layer {
    const ls_param_table *table;
    const double *values;
    ls_real x[ROWS * D], dy[ROWS * D];
    ls_real y[MOST_RANKS][ROWS * D], dx[MOST_RANKS][ROWS * D];
    ls_store *store[MOST_RANKS];
} bare_layer;

static ls_status bare_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    bare_layer *b = argument;
    int r = ls_rank_index(rank);
    ls_stage_setup inner = {.engine = LS_ENGINE_PORTABLE, .layers = b->table->config.layers};
    ls_batch batch = {.B = B, .S = S};
    const ls_real *out;
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), b->table, inner, b->values));
    LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &batch, b->x, &out));
    memcpy(b->y[r], out, sizeof b->y[r]);
    LS_TRY(ls_stage_backward(m.stage, m.micro_batch, b->dy, (ls_valid){1, 0}, &out));
    memcpy(b->dx[r], out, sizeof b->dx[r]);
exit:
    model_end(&m, &b->store[r]);
    return status;
}

/* All weights 0, attention bias 1, MLP bias 2, two layers: y = x + 3 + 3, at every degree, by both
 * cuts. With the biases once per rank it is x + 6 T, with the residual too T (x + 6). Backward the
 * residual passes dy through once, and each bias gets the sum over the tokens, once. */
START_TEST(biases_and_residuals)
{
    ls_config config = tiny_base("biases");
    ls_param_table *table;
    static bare_layer b;
    config.heads = config.kv_heads = config.d_model = D;
    config.d_ff = 24;
    config.dropout = 0;
    config.mlp_cut = _i ? LS_MLP_ROW_FIRST : LS_MLP_COLUMN_FIRST;
    ck_assert_msg(ls_param_table_create(&table, &config) == LS_OK, "%s", ls_error_text());
    double *values = calloc(ls_param_table_elements(table), sizeof *values), sum[D] = {0};
    for (size_t layer = 0; layer < 2; layer++)
        for (size_t e = 0; e < D; e++) {
            values[place_in_table(table, ls_param_find(table, LS_ATTN_OUT_BIAS, layer)) + e] = 1;
            values[place_in_table(table, ls_param_find(table, LS_MLP_DOWN_BIAS, layer)) + e] = 2;
            values[place_in_table(table, ls_param_find(table, LS_NORM1_SCALE, layer)) + e] = 1;
            values[place_in_table(table, ls_param_find(table, LS_NORM2_SCALE, layer)) + e] = 1;
        }
    for (size_t i = 0; i < ROWS * D; i++) {
        b.x[i] = (ls_real)(i % 2 ? 7 : 5);
        b.dy[i] = (ls_real)((int)(i * 5 % 7) - 3);
        sum[i % D] += (double)b.dy[i];
    }
    b.table = table;
    b.values = values;
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        run_ranks(legal_degrees[i], bare_rank, &b);
        for (int r = 0; r < legal_degrees[i]; r++) {
            for (size_t k = 0; k < ROWS * D; k++) {
                ck_assert_msg(b.y[r][k] == b.x[k] + 6, "tp %d, rank %d: %g", legal_degrees[i], r,
                              (double)b.y[r][k]);
                ck_assert_msg(b.dx[r][k] == b.dy[k], "tp %d, rank %d: dx %g, dy %g",
                              legal_degrees[i], r, (double)b.dx[r][k], (double)b.dy[k]);
            }
            for (size_t e = 0; e < 2 * D; e++) {
                ls_role role = e < D ? LS_ATTN_OUT_BIAS : LS_MLP_DOWN_BIAS;
                double found = (double)ls_store_slot(b.store[r], role, 1)->grad[0][e % D];
                ck_assert_msg(found == sum[e % D], "tp %d, rank %d: bias %zu has %g, right is %g",
                              legal_degrees[i], r, e, found, sum[e % D]);
            }
            ls_store_destroy(&b.store[r]);
        }
    }
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- linear layers ---- */

/* One token through a row-parallel layer of one output. */
typedef struct row_case {
    size_t in;
    ls_real x[12], w[12], bias, dy;
    ls_real y[MOST_RANKS], dw[12], dbias[MOST_RANKS];
} row_case;

static ls_status row_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    row_case *c = argument;
    member m = {0};
    ls_cut in;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, c->in, 1, &in));
    size_t first = in.bounds[m.rank];
    LS_TRY(ls_row_linear_forward(&m.tp, &c->y[m.rank], c->x + first, c->w + first, &c->bias,
                                 ls_axis_of(1, 1), &in, 1));
    LS_TRY(ls_row_linear_backward(&m.tp, NULL, c->dw + first, &c->dbias[m.rank], &c->dy,
                                  c->x + first, c->w + first, ls_axis_of(1, 1), &in, 1));
exit:
    member_end(&m);
    return status;
}

/* 0 + 1 + ... + 9 over the ranks, and 10: 55. Added before the sum is finished: 65 at tp 2. */
START_TEST(number_added_to_a_sum)
{
    for (int tp = 1; tp <= 12; tp++) {
        row_case c = {.in = 10, .bias = 10, .dy = 7};
        for (int i = 0; i < 10; i++) c.x[i] = (ls_real)i, c.w[i] = 1;
        run_ranks(tp, row_rank, &c);
        for (int r = 0; r < tp; r++) {
            ck_assert_msg(c.y[r] == 55, "tp %d, rank %d: %g", tp, r, (double)c.y[r]);
            ck_assert(c.dbias[r] == 7);
        }
    }
}
END_TEST

/* Two inputs on four ranks, of which two hold nothing: a share of no columns adds nothing. */
START_TEST(ranks_without_a_share)
{
    for (int tp = 2; tp <= 12; tp += 2) {
        row_case c = {.in = 2, .x = {3, 5}, .w = {7, 11}, .bias = -1, .dy = 2};
        run_ranks(tp, row_rank, &c);
        for (int r = 0; r < tp; r++) ck_assert(c.y[r] == 75 && c.dbias[r] == 2);
        ck_assert(c.dw[0] == 6 && c.dw[1] == 10);
    }
}
END_TEST

/* loss = sum over ranks of (w^2 + 1) d at w = 1, d = 0 and 1: 2 on both ranks. The gradient's parts
 * are 2 w d, 0 and 2; when the sum's backward sums again, 0 and 4. */
START_TEST(loss_that_every_rank_holds)
{
    row_case c = {.in = 2, .x = {0, 1}, .w = {2, 2}, .bias = 0, .dy = 1};
    run_ranks(2, row_rank, &c);
    for (int r = 0; r < 2; r++) ck_assert(c.y[r] == 2);
    ck_assert(2 * c.dw[0] == 0 && 2 * c.dw[1] == 2); /* 2 w = 2 times d loss / d (w^2 + 1) */
}
END_TEST

/* One input that every rank reads, through own weights: its gradient is 3 + 5 = 8 on both, not 3
 * and 5, not 16. Beside it an input whose parts 10 and 30 come from elsewhere and are summed as
 * such, 40; the first must not be summed with it again: [4, 40], not [8, 40]. */
typedef struct boundary {
    ls_real w[2][2]; /* by case, by rank */
    ls_real part[2];
    ls_real dx[2][2], sum[2]; /* by rank */
} boundary;

static ls_status boundary_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    boundary *b = argument;
    member m = {0};
    ls_cut out;
    static const ls_real dy = 1, x = 2;
    static const size_t one_each[] = {0, 1, 2};
    ls_forest forest = {2, one_each};
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 1, &out));
    for (int k = 0; k < 2; k++)
        LS_TRY(ls_column_linear_backward(&m.tp, &b->dx[m.rank][k], NULL, NULL, &dy, &x,
                                         &b->w[k][m.rank], ls_axis_of(1, 1), 1, &out));
    LS_TRY(ls_all_reduce_forest(m.tp.group, &b->sum[m.rank], &b->part[m.rank], 1, LS_REAL_DTYPE,
                                &forest));
exit:
    member_end(&m);
    return status;
}

START_TEST(gradient_of_what_all_ranks_read)
{
    boundary b = {.w = {{3, 5}, {1, 3}}, .part = {10, 30}};
    run_ranks(2, boundary_rank, &b);
    for (int r = 0; r < 2; r++) ck_assert(b.dx[r][0] == 8 && b.dx[r][1] == 4 && b.sum[r] == 40);
}
END_TEST

/* The gradient of columns gathered from two ranks: the sum of both ranks' gradients, each rank its
 * own column, written where the caller wants it and nowhere beside. */
typedef struct scattered {
    ls_real dx[2][4]; /* the middle two are the result's place */
} scattered;

static ls_status scatter_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    scattered *s = argument;
    int r = ls_rank_index(rank);
    /* dY = [[1, 2], [3, 4]] and ten times it, by columns */
    static const ls_real dy[2][4] = {{1, 3, 2, 4}, {10, 30, 20, 40}};
    static const size_t starts[] = {0, 2, 4}, one_each[] = {0, 1, 2};
    ls_forest forest = {2, one_each};
    for (int i = 0; i < 4; i++) s->dx[r][i] = -1;
    LS_TRY(ls_reduce_scatter_forest(ls_rank_world_group(rank), &s->dx[r][1], dy[r], starts,
                                    LS_REAL_DTYPE, &forest));
exit:
    return status;
}

START_TEST(gradient_of_a_gather)
{
    scattered s;
    static const ls_real right[2][4] = {{-1, 11, 33, -1}, {-1, 22, 44, -1}};
    run_ranks(2, scatter_rank, &s);
    ck_same(s.dx[0], right[0], 4, "dx", 2);
    ck_same(s.dx[1], right[1], 4, "dx", 2);
}
END_TEST

/* y = sum of x W W, the first product cut by columns, the second by rows: each use gives its own
 * gradient, and W's is their sum; neither counts twice. */
typedef struct two_uses {
    ls_real first[4], second[4]; /* 2 x 2 gradients, put together */
} two_uses;

static ls_status two_uses_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    two_uses *u = argument;
    member m = {0};
    ls_cut cut;
    static const ls_real x[2] = {(ls_real)1.1, (ls_real)-0.7}, dy[2] = {1, 1};
    static const ls_real W[4] = {(ls_real)0.4, (ls_real)-0.2, (ls_real)0.7, (ls_real)0.3};
    ls_real column[4], h[2], y[2], dh[2], dcolumn[4];
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 1, &cut));
    size_t first = cut.bounds[m.rank], width = cut.bounds[m.rank + 1] - first;
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < width; j++) column[i * width + j] = W[i * 2 + first + j];
    LS_TRY(ls_column_linear_forward(&m.tp, h, x, column, NULL, ls_axis_of(1, 1), 2, &cut));
    LS_TRY(ls_row_linear_forward(&m.tp, y, h, W + first * 2, NULL, ls_axis_of(1, 1), &cut, 2));
    LS_TRY(ls_row_linear_backward(&m.tp, dh, u->second + first * 2, NULL, dy, h, W + first * 2,
                                  ls_axis_of(1, 1), &cut, 2));
    LS_TRY(ls_column_linear_backward(&m.tp, NULL, dcolumn, NULL, dh, x, column, ls_axis_of(1, 1), 2,
                                     &cut));
    put_columns(u->first, dcolumn, 2, 2, first, width);
exit:
    member_end(&m);
    return status;
}

START_TEST(weight_used_twice_in_a_row)
{
    static const double right[4] = {0.17, 1.05, -0.57, -1.13};
    for (int tp = 1; tp <= 2; tp++) {
        two_uses u;
        run_ranks(tp, two_uses_rank, &u);
        for (int i = 0; i < 4; i++)
            ck_assert(fabs((double)u.first[i] + (double)u.second[i] - right[i]) <= 2e-7);
    }
}
END_TEST

/* ---- MLP cut by rows first ---- */

typedef struct nonlinear {
    ls_real y[2][2];
} nonlinear;

static ls_status nonlinear_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    nonlinear *n = argument;
    member m = {0};
    static const ls_real x[2] = {1, 1}, w_up[4] = {20, 30, -10, -18}, w_down[4] = {1, 0, 0, 1},
                         b_up[2] = {1, 2}, b_down[2] = {100, 200};
    ls_mlp mlp = {.activation = LS_GELU_TANH, .cut = LS_MLP_ROW_FIRST, .D = 2};
    ls_mlp_saved saved;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 1, &mlp.ff));
    LS_TRY(member_cut(&m, 2, 1, &mlp.model));
    size_t first = mlp.ff.bounds[m.rank];
    mlp.w_up = w_up + 2 * first, mlp.b_up = b_up;
    mlp.w_down = w_down + 2 * first, mlp.b_down = b_down;
    LS_TRY(ls_mlp_keep(&m.tp, &mlp, 1, m.lasting, &saved));
    LS_TRY(ls_mlp_forward(&m.tp, &mlp, n->y[m.rank], &saved, x, ls_axis_of(1, 1)));
exit:
    member_end(&m);
    return status;
}

/* Parts (20, 30) and (-10, -18) of the first product and a bias (1, 2): the sum (11, 14) goes
 * through GELU, which leaves it, and the second bias makes (111, 214). GELU before the reduction
 * would give (121, 232) or more, the first bias on both ranks (112, 216). */
START_TEST(nonlinear_after_the_reduction)
{
    for (int tp = 1; tp <= 2; tp++) {
        nonlinear n;
        run_ranks(tp, nonlinear_rank, &n);
        for (int r = 0; r < tp; r++) ck_assert(n.y[r][0] == 111 && n.y[r][1] == 214);
    }
}
END_TEST

/* ---- one kv head for all query heads ---- */

typedef struct shared_kv {
    ls_real dw[2][2][2], db[2][2]; /* by rank: key, value */
} shared_kv;

static ls_status shared_kv_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    shared_kv *s = argument;
    member m = {0};
    ls_kv_sharing kv;
    ls_attention_saved saved;
    ls_batch batch = {.B = 1, .S = 2};
    ls_attention_block a = {.D = 2, .head_width = 1, .kv_heads = 1, .kv = &kv};
    static const ls_real x[4] = {1, 0, 0, 1}, w_q[4] = {1, 0, 0, 2}, w_k[2] = {1, -1},
                         w_v[2] = {2, 3}, w_o[4] = {1, 0, 0, 1}, zero[2] = {0, 0},
                         dy[4] = {1, 3, 2, -1}; /* per token: to head 0, to head 1 */
    ls_real y[4], dx[4], dw_q[4], db_q[2], dw_o[4], db_o[2];
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 1, &a.heads));
    LS_TRY(ls_kv_sharing_create(m.tp.group, &a.heads, 1, m.lasting, &kv));
    size_t first = a.heads.bounds[m.rank], width = a.heads.bounds[m.rank + 1] - first;
    ls_real own_q[4];
    for (size_t i = 0; i < 2; i++)
        for (size_t h = 0; h < width; h++) own_q[i * width + h] = w_q[i * 2 + first + h];
    a.w_q = own_q, a.b_q = zero, a.w_k = w_k, a.b_k = zero, a.w_v = w_v, a.b_v = zero;
    a.w_o = w_o + 2 * first, a.b_o = zero;
    a.dw_q = dw_q, a.db_q = db_q, a.dw_o = dw_o, a.db_o = db_o;
    a.dw_k = s->dw[m.rank][0], a.db_k = &s->db[m.rank][0];
    a.dw_v = s->dw[m.rank][1], a.db_v = &s->db[m.rank][1];
    LS_TRY(ls_attention_keep(&m.tp, &a, 1, 2, m.lasting, &saved));
    LS_TRY(ls_attention_block_forward(&m.tp, &a, y, &saved, x, &batch));
    LS_TRY(ls_attention_block_backward(&m.tp, &a, dx, dy, &saved, x, &batch));
exit:
    member_end(&m);
    return status;
}

/* Two query heads on two ranks, one key and value head: its gradients are the sum of both ranks'
 * parts on both (dv alone: 3 and 2), and not twice that. */
START_TEST(gradient_of_a_shared_kv_head)
{
    static const double dw[2][2] = {{-0.0696681729769241, 0.06966817297692426},
                                    {2.398783287939974, 2.601216712060026}},
                        db[2] = {0, 5};
    for (int tp = 1; tp <= 2; tp++) {
        shared_kv s;
        run_ranks(tp, shared_kv_rank, &s);
        for (int r = 0; r < tp; r++)
            for (int k = 0; k < 2; k++) {
                for (int i = 0; i < 2; i++)
                    ck_assert_msg(fabs((double)s.dw[r][k][i] - dw[k][i]) <= 1e-6,
                                  "tp %d, rank %d: dw %d %d is %.9g", tp, r, k, i,
                                  (double)s.dw[r][k][i]);
                ck_assert(fabs((double)s.db[r][k] - db[k]) <= 1e-6);
            }
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("counted once", 60);
    tcase_add_loop_test(tests, biases_and_residuals, 0, 2);
    tcase_add_test(tests, number_added_to_a_sum);
    tcase_add_test(tests, ranks_without_a_share);
    tcase_add_test(tests, loss_that_every_rank_holds);
    tcase_add_test(tests, gradient_of_what_all_ranks_read);
    tcase_add_test(tests, gradient_of_a_gather);
    tcase_add_test(tests, weight_used_twice_in_a_row);
    tcase_add_test(tests, nonlinear_after_the_reduction);
    tcase_add_test(tests, gradient_of_a_shared_kv_head);
    return run_tests();
}
