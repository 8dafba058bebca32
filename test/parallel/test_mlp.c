/* The MLP block, every activation and both cuts: each tensor-parallel degree against the unsplit
 * block written out here (ORDERED and EXACT), and its gradient against central differences
 * (GRADIENT, binary64). */
#include "lockstep/kernels/activation.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/numerics/gemm_fused.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/tensor/mlp.h"
#include "parallel_fixture.h"
#include "run_tests.h"

/* 2 sequences, of 5 tokens where nothing else is said; D = 12 granules of 1, F = 12 granules of 3
 */
enum { B = 2, FIVE = 5, H = 12, D = 12, G = 12, W = 3, F = G * W };

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

/* The whole block: parameters, input, upstream gradient, and results. */
typedef struct block {
    ls_engine engine;
    ls_activation_kind activation;
    ls_mlp_cut cut;
    size_t S, rows; /* tokens of a sequence, of both */
    ls_real *w_gate, *w_up, *b_up, *w_down, *b_down, *x, *dy;
    ls_real *y, *dx, *dw_gate, *dw_up, *db_up, *dw_down, *db_down;
} block;

static void results(block *b)
{
    b->y = room(b->rows * D), b->dx = room(b->rows * D);
    b->dw_gate = room(D * F), b->dw_up = room(D * F), b->db_up = room(F);
    b->dw_down = room(F * D), b->db_down = room(D);
}

static void results_end(block *b)
{
    free(b->y), free(b->dx), free(b->dw_gate), free(b->dw_up), free(b->db_up), free(b->dw_down),
        free(b->db_down);
}

static block block_begin(ls_engine engine, size_t S, ls_activation_kind activation, ls_mlp_cut cut)
{
    block b = {.engine = engine, .activation = activation, .cut = cut, .S = S, .rows = B * S};
    b.w_gate = filled(D * F, 1, 0), b.w_up = filled(D * F, 2, 0), b.b_up = filled(F, 3, 0);
    b.w_down = filled(F * D, 4, 0), b.b_down = filled(D, 5, 0);
    b.x = filled(b.rows * D, 6, 0), b.dy = filled(b.rows * D, 7, 0);
    results(&b);
    return b;
}

static void block_end(block *b)
{
    free(b->w_gate), free(b->w_up), free(b->b_up), free(b->w_down), free(b->b_down), free(b->x),
        free(b->dy);
    results_end(b);
}

static void product(const block *b, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k,
                    const ls_real *a, const ls_real *w, ls_real *c)
{
    size_t lda = ls_axis_extent(ta ? m : k), ldb = ls_axis_extent(tb ? k : n);
    ck_assert_int_eq(
        ls_gemm(b->engine, ta, tb, m, n, k, a, lda, w, ldb, c, ls_axis_extent(n), false), LS_OK);
}

/* The block on one processor, from products and activations alone. */
static void unsplit(block *b)
{
    ls_axis tokens = ls_axis_of(B, b->S), ff = ls_axis_of(G, W), whole = ls_axis_whole(D);
    ls_axis in = b->cut == LS_MLP_ROW_FIRST ? ls_axis_of(H, D / H) : whole;
    ls_real *gate = room(b->rows * F), *up = room(b->rows * F), *u = room(b->rows * F);
    ls_real *du = room(b->rows * F), *dgate = room(b->rows * F), *dup = room(b->rows * F);

    product(b, LS_NO_TRANS, LS_NO_TRANS, tokens, ff, in, b->x, b->w_up, up);
    ls_add_bias(up, b->b_up, b->rows, F, F);
    if (b->activation == LS_SWIGLU)
        product(b, LS_NO_TRANS, LS_NO_TRANS, tokens, ff, in, b->x, b->w_gate, gate);
    if (b->activation == LS_GELU_TANH) ls_gelu_tanh_forward(u, up, b->rows * F);
    if (b->activation == LS_GELU_ERF) ls_gelu_erf_forward(u, up, b->rows * F);
    if (b->activation == LS_SWIGLU) ls_swiglu_forward(u, gate, up, b->rows * F);
    product(b, LS_NO_TRANS, LS_NO_TRANS, tokens, whole, ff, u, b->w_down, b->y);
    ls_add_bias(b->y, b->b_down, b->rows, D, D);

    product(b, LS_NO_TRANS, LS_TRANS, tokens, ff, whole, b->dy, b->w_down, du);
    product(b, LS_TRANS, LS_NO_TRANS, ff, whole, tokens, u, b->dy, b->dw_down);
    ls_tree_sum_rows(b->db_down, b->dy, tokens, D, D);
    if (b->activation == LS_GELU_TANH) ls_gelu_tanh_backward(dup, du, up, b->rows * F);
    if (b->activation == LS_GELU_ERF) ls_gelu_erf_backward(dup, du, up, b->rows * F);
    if (b->activation == LS_SWIGLU) ls_swiglu_backward(dgate, dup, du, gate, up, b->rows * F);
    product(b, LS_TRANS, LS_NO_TRANS, in, ff, tokens, b->x, dup, b->dw_up);
    ls_tree_sum_rows(b->db_up, dup, tokens, F, F);
    if (b->activation == LS_SWIGLU) {
        ls_gemm_term terms[2] = {{dgate, F, b->w_gate, F, W, 1, 0}, {dup, F, b->w_up, F, W, 1, 0}};
        product(b, LS_TRANS, LS_NO_TRANS, in, ff, tokens, b->x, dgate, b->dw_gate);
        ck_assert_int_eq(
            ls_gemm_fused(b->engine, LS_NO_TRANS, LS_TRANS, tokens, in, G, terms, 2, b->dx, D),
            LS_OK);
    } else {
        product(b, LS_NO_TRANS, LS_TRANS, tokens, in, ff, dup, b->w_up, b->dx);
    }
    free(gate), free(up), free(u), free(du), free(dgate), free(dup);
}

/* What the ranks share: the whole block, and where each puts its results. */
typedef struct job {
    const block *whole;
    bool sequence_parallel;
    block *
        got; /* whole arrays put together from the shards, with sequence parallelism y and dx too */
    ls_real *y[12], *dx[12], *db_down[12];
    sent sent[12]; /* in both passes of two */
} job;

static ls_status mlp_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    const block *b = j->whole;
    member m = {0};
    ls_mlp mlp = {.activation = b->activation, .cut = b->cut, .D = D};
    ls_mlp_saved saved;
    ls_axis tokens = ls_axis_of(B, b->S);
    LS_TRY(member_begin(rank, b->engine, &m));
    LS_TRY(member_cut(&m, G, W, &mlp.ff));
    LS_TRY(member_cut(&m, H, D / H, &mlp.model));
    m.tp.sequence_parallel = j->sequence_parallel;
    size_t f0 = mlp.ff.bounds[m.rank] * W, f = mlp.ff.bounds[m.rank + 1] * W - f0;
    size_t d0 = mlp.model.bounds[m.rank];
    bool row_first = b->cut == LS_MLP_ROW_FIRST;
    ls_real *w_gate = columns_of(b->w_gate, D, F, f0, f), *w_up = columns_of(b->w_up, D, F, f0, f);
    ls_real *dw_gate = room(D * F), *dw_up = room(D * F);
    ls_real *x = own_tokens_of(&m, b->x, B, b->S, D), *dy = own_tokens_of(&m, b->dy, B, b->S, D);
    ls_real *y = own_room(&m, B, b->S, D), *dx = own_room(&m, B, b->S, D);
    mlp.w_gate = b->activation == LS_SWIGLU ? w_gate : NULL;
    mlp.w_up = row_first ? b->w_up + d0 * F : w_up;
    mlp.b_up = row_first ? b->b_up : b->b_up + f0;
    mlp.w_down = b->w_down + f0 * D;
    mlp.b_down = b->b_down;
    mlp.dw_gate = dw_gate;
    mlp.dw_up = row_first ? j->got->dw_up + d0 * F : dw_up;
    ls_real *db_up = room(F);
    mlp.db_up = db_up;
    mlp.dw_down = j->got->dw_down + f0 * D;
    mlp.db_down = j->db_down[m.rank];
    LS_TRY(ls_mlp_keep(&m.tp, &mlp, b->rows, m.lasting, &saved));
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_mlp_forward(&m.tp, &mlp, y, &saved, x, tokens));
        LS_TRY(ls_mlp_backward(&m.tp, &mlp, dx, dy, &saved, x, tokens));
    }
    if (!row_first) put_columns(j->got->dw_up, dw_up, D, F, f0, f);
    put_columns(j->got->dw_gate, dw_gate, D, F, f0, f);
    memcpy(j->got->db_up + (row_first ? 0 : f0), db_up, (row_first ? F : f) * sizeof *db_up);
    put_own_tokens(&m, j->y[m.rank], y, B, b->S, D);
    put_own_tokens(&m, j->dx[m.rank], dx, B, b->S, D);
    if (j->sequence_parallel) {
        put_own_tokens(&m, j->got->y, y, B, b->S, D);
        put_own_tokens(&m, j->got->dx, dx, B, b->S, D);
    }
    j->sent[m.rank] = sent_by(rank);
    free(w_gate), free(w_up), free(dw_gate), free(dw_up), free(db_up);
    free(x), free(dy), free(y), free(dx);
exit:
    member_end(&m);
    return status;
}

static void split(const block *whole, block *got, int tp, job *j)
{
    got->S = whole->S, got->rows = whole->rows;
    results(got);
    j->whole = whole;
    j->got = got;
    for (int r = 0; r < tp; r++)
        j->y[r] = room(whole->rows * D), j->dx[r] = room(whole->rows * D), j->db_down[r] = room(D);
    run_ranks(tp, mlp_rank, j);
}

static void split_end(job *j, int tp)
{
    for (int r = 0; r < tp; r++) free(j->y[r]), free(j->dx[r]), free(j->db_down[r]);
    results_end(j->got);
}

static const struct {
    ls_activation_kind activation;
    ls_mlp_cut cut;
} kinds[] = {{LS_GELU_TANH, LS_MLP_COLUMN_FIRST},
             {LS_GELU_ERF, LS_MLP_COLUMN_FIRST},
             {LS_SWIGLU, LS_MLP_COLUMN_FIRST},
             {LS_GELU_TANH, LS_MLP_ROW_FIRST},
             {LS_GELU_ERF, LS_MLP_ROW_FIRST}};
enum { KINDS = sizeof kinds / sizeof kinds[0], COLUMN_FIRST = 3 };

static void ck_parameters(const block *got, const block *whole, int tp)
{
    ck_same(got->dw_up, whole->dw_up, D * F, "dw_up", tp);
    ck_same(got->db_up, whole->db_up, F, "db_up", tp);
    ck_same(got->dw_down, whole->dw_down, F * D, "dw_down", tp);
    if (whole->activation == LS_SWIGLU) ck_same(got->dw_gate, whole->dw_gate, D * F, "dw_gate", tp);
}

START_TEST(every_degree)
{
    ls_engine engine = _i >= KINDS ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    if (!ls_engine_available(engine)) SKIP_TEST("built without OpenBLAS");
    block whole = block_begin(engine, FIVE, kinds[_i % KINDS].activation, kinds[_i % KINDS].cut);
    unsplit(&whole);
    for (int i = 0; i < DEGREES; i++) {
        int tp = degrees[i];
        block got = {0};
        job j = {0};
        split(&whole, &got, tp, &j);
        for (int r = 0; r < tp; r++) {
            ck_same(j.y[r], whole.y, whole.rows * D, "y", tp);
            ck_same(j.dx[r], whole.dx, whole.rows * D, "dx", tp);
            ck_same(j.db_down[r], whole.db_down, D, "db_down", tp);
        }
        ck_parameters(&got, &whole, tp);
        /* Megatron-LM's f and g: one all-reduce each way; row-first needs one more forward, and two
         * gathers backward */
        ck_assert_uint_eq(j.sent[0].reduces.calls, 2 * 2);
        ck_assert_uint_eq(j.sent[0].gathers.calls, whole.cut == LS_MLP_ROW_FIRST ? 2 * 2 : 0);
        ck_assert_uint_eq(j.sent[0].scatters.calls, 0);
        split_end(&j, tp);
    }
    block_end(&whole);
}
END_TEST

/* Token shares, equal or not, also where there are fewer tokens than ranks: the same bits. Forward
 * a gather and a reduce-scatter, backward two gathers (dy, and x once more) and a reduce-scatter;
 * gate and up share theirs. */
START_TEST(sequence_parallel)
{
    for (size_t i = 0; i < SEQUENCE_LENGTHS; i++) {
        block whole = block_begin(LS_ENGINE_PORTABLE, sequence_lengths[i], kinds[_i].activation,
                                  kinds[_i].cut);
        unsplit(&whole);
        for (int d = 0; d < DEGREES; d++) {
            int tp = degrees[d];
            block got = {0};
            job j = {.sequence_parallel = true};
            split(&whole, &got, tp, &j);
            ck_same(got.y, whole.y, whole.rows * D, "y", tp);
            ck_same(got.dx, whole.dx, whole.rows * D, "dx", tp);
            ck_parameters(&got, &whole, tp);
            for (int r = 0; r < tp; r++) {
                size_t own = B * ls_share_of(whole.S, (size_t)tp, (size_t)r).count * D;
                size_t partials = nodes_of(G, tp, r) * whole.rows * D;
                ck_same(j.db_down[r], whole.db_down, D, "db_down", tp);
                ck_sent(j.sent[r].reduces, 0, 0, "all-reduces", tp, r);
                ck_sent(j.sent[r].scatters, 2 * 2, 2 * 2 * partials, "reduce-scatters", tp, r);
                ck_sent(j.sent[r].gathers, 2 * 3, 2 * 3 * own, "all-gathers", tp, r);
            }
            split_end(&j, tp);
        }
        block_end(&whole);
    }
}
END_TEST

/* loss = sum of y * dy: its derivative in any parameter, measured at tp 3, against the backward
 * pass. */
static double loss(const block *whole)
{
    block got = {0};
    job j = {0};
    double sum = 0;
    split(whole, &got, 3, &j);
    for (size_t i = 0; i < whole->rows * D; i++) sum += (double)j.y[1][i] * (double)whole->dy[i];
    split_end(&j, 3);
    return sum;
}

static void differences(const block *whole, ls_real *parameter, const ls_real *gradient, size_t n,
                        const char *what)
{
    for (size_t i = 0; i < n; i += n / 5 + 1) {
        const ls_real h = (ls_real)1e-6, at = parameter[i];
        parameter[i] = at + h;
        double above = loss(whole);
        parameter[i] = at - h;
        double below = loss(whole);
        parameter[i] = at;
        double measured = (above - below) / (2 * (double)h),
               error = fabs(measured - (double)gradient[i]);
        ck_assert_msg(error <= 1e-7 * (1 + fabs(measured)), "%s[%zu]: %.12g, by differences %.12g",
                      what, i, (double)gradient[i], measured);
    }
}

START_TEST(gradient)
{
    if (LS_REAL_DTYPE != LS_F64) return; /* differences need binary64 */
    block whole = block_begin(LS_ENGINE_PORTABLE, FIVE, kinds[_i].activation, kinds[_i].cut);
    unsplit(&whole);
    differences(&whole, whole.x, whole.dx, whole.rows * D, "x");
    differences(&whole, whole.w_up, whole.dw_up, D * F, "w_up");
    differences(&whole, whole.b_up, whole.db_up, F, "b_up");
    differences(&whole, whole.w_down, whole.dw_down, F * D, "w_down");
    differences(&whole, whole.b_down, whole.db_down, D, "b_down");
    if (whole.activation == LS_SWIGLU)
        differences(&whole, whole.w_gate, whole.dw_gate, D * F, "w_gate");
    block_end(&whole);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("mlp", 60);
    tcase_add_loop_test(tests, every_degree, 0, 2 * KINDS);
    tcase_add_loop_test(tests, sequence_parallel, 0, COLUMN_FIRST);
    tcase_add_loop_test(tests, gradient, 0, KINDS);
    return run_tests();
}
