/* Column- and row-parallel linear layers: known mistakes with their right values (EXACT), and every
 * degree against the unsplit product (ORDERED). */
#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/tensor/linear.h"
#include "parallel_fixture.h"
#include "run_tests.h"

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

/* Shapes, all different: 3 sequences, 7 features beside an axis of 12 granules of 2. */
enum { SEQUENCES = 3, WHOLE = 7, G = 12, W = 2, CUT = G * W };

typedef struct job {
    ls_engine engine;
    size_t S, rows; /* tokens of a sequence, of all */
    bool sequence_parallel;
    /* whole arrays, read by all */
    ls_real *x, *w, *bias, *dy;
    /* what the ranks give: whole arrays put together, and per rank what must be replicated */
    ls_real *y, *dx, *dw, *dbias;
    ls_real *replica[12][2];
    sent sent[12]; /* in both passes of two */
} job;

static ls_status column_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    member m = {0};
    ls_cut out;
    LS_TRY(member_begin(rank, j->engine, &m));
    LS_TRY(member_cut(&m, G, W, &out));
    m.tp.sequence_parallel = j->sequence_parallel;
    ls_axis tokens = ls_axis_of(SEQUENCES, j->S);
    size_t first = out.bounds[m.rank] * W,
           width = (out.bounds[m.rank + 1] - out.bounds[m.rank]) * W;
    ls_real *w = columns_of(j->w, WHOLE, CUT, first, width), *y = room(j->rows * width);
    ls_real *dy = columns_of(j->dy, j->rows, CUT, first, width), *dw = room(WHOLE * width);
    ls_real *x = own_tokens_of(&m, j->x, SEQUENCES, j->S, WHOLE);
    ls_real *dx = own_room(&m, SEQUENCES, j->S, WHOLE);
    for (int twice = 0; twice < 2 && status == LS_OK; twice++) {
        status = ls_column_linear_forward(&m.tp, y, x, w, j->bias + first, tokens, WHOLE, &out);
        if (status == LS_OK)
            status = ls_column_linear_backward(&m.tp, dx, dw, j->dbias + first, dy, x, w, tokens,
                                               WHOLE, &out);
    }
    put_columns(j->y, y, j->rows, CUT, first, width);
    put_columns(j->dw, dw, WHOLE, CUT, first, width);
    if (j->sequence_parallel)
        put_own_tokens(&m, j->dx, dx, SEQUENCES, j->S, WHOLE);
    else
        memcpy(j->replica[m.rank][0], dx, j->rows * WHOLE * sizeof *dx);
    j->sent[m.rank] = sent_by(rank);
    free(w), free(y), free(dy), free(dw), free(x), free(dx);
exit:
    member_end(&m);
    return status;
}

static ls_status row_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    member m = {0};
    ls_cut in;
    LS_TRY(member_begin(rank, j->engine, &m));
    LS_TRY(member_cut(&m, G, W, &in));
    m.tp.sequence_parallel = j->sequence_parallel;
    ls_axis tokens = ls_axis_of(SEQUENCES, j->S);
    size_t first = in.bounds[m.rank] * W, width = (in.bounds[m.rank + 1] - in.bounds[m.rank]) * W;
    ls_real *x = columns_of(j->x, j->rows, CUT, first, width), *dx = room(j->rows * width);
    ls_real *dy = own_tokens_of(&m, j->dy, SEQUENCES, j->S, WHOLE);
    ls_real *y = own_room(&m, SEQUENCES, j->S, WHOLE);
    for (int twice = 0; twice < 2 && status == LS_OK; twice++) {
        status =
            ls_row_linear_forward(&m.tp, y, x, j->w + first * WHOLE, j->bias, tokens, &in, WHOLE);
        if (status == LS_OK)
            status = ls_row_linear_backward(&m.tp, dx, j->dw + first * WHOLE, j->replica[m.rank][1],
                                            dy, x, j->w + first * WHOLE, tokens, &in, WHOLE);
    }
    put_columns(j->dx, dx, j->rows, CUT, first, width);
    if (j->sequence_parallel)
        put_own_tokens(&m, j->y, y, SEQUENCES, j->S, WHOLE);
    else
        memcpy(j->replica[m.rank][0], y, j->rows * WHOLE * sizeof *y);
    j->sent[m.rank] = sent_by(rank);
    free(x), free(dx), free(dy), free(y);
exit:
    member_end(&m);
    return status;
}

static job job_begin(ls_engine engine, size_t S, size_t in, size_t out, int exact)
{
    job j = {.engine = engine, .S = S, .rows = SEQUENCES * S};
    j.x = filled(j.rows * in, 1, exact);
    j.w = filled(in * out, 2, exact);
    j.bias = filled(out, 3, exact);
    j.dy = filled(j.rows * out, 4, exact);
    j.y = room(j.rows * out);
    j.dx = room(j.rows * in);
    j.dw = room(in * out);
    j.dbias = room(out);
    for (int r = 0; r < 12; r++)
        for (int k = 0; k < 2; k++) j.replica[r][k] = room(j.rows * (in > out ? in : out));
    return j;
}

static void job_end(job *j)
{
    free(j->x), free(j->w), free(j->bias), free(j->dy), free(j->y), free(j->dx), free(j->dw),
        free(j->dbias);
    for (int r = 0; r < 12; r++)
        for (int k = 0; k < 2; k++) free(j->replica[r][k]);
}

static void product(ls_engine engine, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis k,
                    const ls_real *a, size_t lda, const ls_real *b, size_t ldb, ls_real *c)
{
    ck_assert_int_eq(ls_gemm(engine, ta, tb, m, n, k, a, lda, b, ldb, c, ls_axis_extent(n), false),
                     LS_OK);
}

/* The unsplit layer, from the products themselves. */
static void unsplit(job *j, ls_axis in, ls_axis out, ls_real *y, ls_real *dx, ls_real *dw,
                    ls_real *dbias)
{
    ls_axis tokens = ls_axis_of(SEQUENCES, j->S);
    size_t n_in = ls_axis_extent(in), n_out = ls_axis_extent(out);
    product(j->engine, LS_NO_TRANS, LS_NO_TRANS, tokens, out, in, j->x, n_in, j->w, n_out, y);
    ls_add_bias(y, j->bias, j->rows, n_out, n_out);
    product(j->engine, LS_NO_TRANS, LS_TRANS, tokens, in, out, j->dy, n_out, j->w, n_out, dx);
    product(j->engine, LS_TRANS, LS_NO_TRANS, in, out, tokens, j->x, n_in, j->dy, n_out, dw);
    ls_tree_sum_rows(dbias, j->dy, tokens, n_out, n_out);
}

START_TEST(column_every_degree)
{
    int exact = _i % 2;
    ls_engine engine = _i / 2 ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    if (!ls_engine_available(engine)) SKIP_TEST("built without OpenBLAS");
    job j = job_begin(engine, 5, WHOLE, CUT, exact);
    ls_real *y = room(j.rows * CUT), *dx = room(j.rows * WHOLE), *dw = room(WHOLE * CUT),
            *db = room(CUT);
    unsplit(&j, ls_axis_whole(WHOLE), ls_axis_of(G, W), y, dx, dw, db);
    for (int d = 0; d < DEGREES; d++) {
        run_ranks(degrees[d], column_rank, &j);
        ck_same(j.y, y, j.rows * CUT, "y", degrees[d]);
        ck_same(j.dw, dw, WHOLE * CUT, "dw", degrees[d]);
        ck_same(j.dbias, db, CUT, "dbias", degrees[d]);
        for (int r = 0; r < degrees[d]; r++)
            ck_same(j.replica[r][0], dx, j.rows * WHOLE, "dx", degrees[d]);
    }
    free(y), free(dx), free(dw), free(db);
    job_end(&j);
}
END_TEST

START_TEST(row_every_degree)
{
    int exact = _i % 2;
    ls_engine engine = _i / 2 ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    if (!ls_engine_available(engine)) SKIP_TEST("built without OpenBLAS");
    job j = job_begin(engine, 5, CUT, WHOLE, exact);
    ls_real *y = room(j.rows * WHOLE), *dx = room(j.rows * CUT), *dw = room(CUT * WHOLE),
            *db = room(WHOLE);
    unsplit(&j, ls_axis_of(G, W), ls_axis_whole(WHOLE), y, dx, dw, db);
    for (int d = 0; d < DEGREES; d++) {
        run_ranks(degrees[d], row_rank, &j);
        ck_same(j.dx, dx, j.rows * CUT, "dx", degrees[d]);
        ck_same(j.dw, dw, CUT * WHOLE, "dw", degrees[d]);
        for (int r = 0; r < degrees[d]; r++) {
            ck_same(j.replica[r][0], y, j.rows * WHOLE, "y", degrees[d]);
            ck_same(j.replica[r][1], db, WHOLE, "dbias", degrees[d]);
        }
    }
    free(y), free(dx), free(dw), free(db);
    job_end(&j);
}
END_TEST

/* Sequence parallelism: the same bits from token shares, equal or not, also where there are fewer
 * tokens than ranks; all-gather and reduce-scatter stand where there was nothing and an all-reduce.
 */
static void ck_passes(const job *j, size_t gathers, int tp, int rank)
{
    size_t own = SEQUENCES * ls_share_of(j->S, (size_t)tp, (size_t)rank).count * WHOLE;
    size_t partials = nodes_of(G, tp, rank) * j->rows * WHOLE;
    ck_sent(j->sent[rank].reduces, 0, 0, "all-reduces", tp, rank);
    ck_sent(j->sent[rank].scatters, 2, 2 * partials, "reduce-scatters", tp, rank);
    ck_sent(j->sent[rank].gathers, 2 * gathers, 2 * gathers * own, "all-gathers", tp, rank);
}

/* NaN in every result, so that nothing passes for what an earlier degree left. */
static void job_clear(job *j, size_t in, size_t out)
{
    for (size_t i = 0; i < j->rows * out; i++) j->y[i] = (ls_real)NAN;
    for (size_t i = 0; i < j->rows * in; i++) j->dx[i] = (ls_real)NAN;
    for (size_t i = 0; i < in * out; i++) j->dw[i] = (ls_real)NAN;
    for (size_t i = 0; i < out; i++) j->dbias[i] = (ls_real)NAN;
}

START_TEST(column_sequence_parallel)
{
    for (size_t i = 0; i < SEQUENCE_LENGTHS; i++) {
        job j = job_begin(LS_ENGINE_PORTABLE, sequence_lengths[i], WHOLE, CUT, _i);
        ls_real *y = room(j.rows * CUT), *dx = room(j.rows * WHOLE), *dw = room(WHOLE * CUT),
                *db = room(CUT);
        unsplit(&j, ls_axis_whole(WHOLE), ls_axis_of(G, W), y, dx, dw, db);
        j.sequence_parallel = true;
        for (int d = 0; d < DEGREES; d++) {
            int tp = degrees[d];
            job_clear(&j, WHOLE, CUT);
            run_ranks(tp, column_rank, &j);
            ck_same(j.y, y, j.rows * CUT, "y", tp);
            ck_same(j.dx, dx, j.rows * WHOLE, "dx", tp);
            ck_same(j.dw, dw, WHOLE * CUT, "dw", tp);
            ck_same(j.dbias, db, CUT, "dbias", tp);
            for (int r = 0; r < tp; r++) ck_passes(&j, 2, tp, r);
        }
        free(y), free(dx), free(dw), free(db);
        job_end(&j);
    }
}
END_TEST

START_TEST(row_sequence_parallel)
{
    for (size_t i = 0; i < SEQUENCE_LENGTHS; i++) {
        job j = job_begin(LS_ENGINE_PORTABLE, sequence_lengths[i], CUT, WHOLE, _i);
        ls_real *y = room(j.rows * WHOLE), *dx = room(j.rows * CUT), *dw = room(CUT * WHOLE),
                *db = room(WHOLE);
        unsplit(&j, ls_axis_of(G, W), ls_axis_whole(WHOLE), y, dx, dw, db);
        j.sequence_parallel = true;
        for (int d = 0; d < DEGREES; d++) {
            int tp = degrees[d];
            job_clear(&j, CUT, WHOLE);
            run_ranks(tp, row_rank, &j);
            ck_same(j.y, y, j.rows * WHOLE, "y", tp);
            ck_same(j.dx, dx, j.rows * CUT, "dx", tp);
            ck_same(j.dw, dw, CUT * WHOLE, "dw", tp);
            for (int r = 0; r < tp; r++) {
                ck_same(j.replica[r][1], db, WHOLE, "dbias", tp);
                ck_passes(&j, 1, tp, r);
            }
        }
        free(y), free(dx), free(dw), free(db);
        job_end(&j);
    }
}
END_TEST

/* Small cases of a row-parallel layer, whose wrong values are known: the bias on every rank would
 * give [24, 46] at tp 2, [44, 86] at tp 4. With sequence parallelism a sequence has as many equal
 * tokens as there are ranks, and each rank gets one. */
typedef struct small {
    const ls_real *x, *w, *bias;
    size_t k; /* inputs, a granule each */
    bool sequence_parallel;
    ls_real y[12][2];
} small;

static ls_status small_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    small *s = argument;
    member m = {0};
    ls_cut in;
    ls_real x[24];
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, s->k, 1, &in));
    m.tp.sequence_parallel = s->sequence_parallel;
    size_t tokens = s->sequence_parallel ? (size_t)m.size : 1;
    size_t first = in.bounds[m.rank], width = in.bounds[m.rank + 1] - first;
    for (size_t t = 0; t < tokens; t++) memcpy(x + t * width, s->x + first, width * sizeof *x);
    LS_TRY(ls_row_linear_forward(&m.tp, s->y[m.rank], x, s->w + 2 * first, s->bias,
                                 ls_axis_of(1, tokens), &in, 2));
exit:
    member_end(&m);
    return status;
}

START_TEST(bias_is_added_once)
{
    static const ls_real x[] = {1, 2, 3, 4}, w[] = {1, 0, 0, 1, 1, 0, 0, 1}, bias[] = {10, 20};
    small s = {x, w, bias, 4, _i, {{0}}};
    static const int tp[] = {1, 2, 4};
    for (int i = 0; i < 3; i++) {
        run_ranks(tp[i], small_rank, &s);
        for (int r = 0; r < tp[i]; r++) {
            ck_assert(s.y[r][0] == 14);
            ck_assert(s.y[r][1] == 26);
        }
    }
}
END_TEST

/* An input of zeros leaves exactly the bias, at an odd degree too (wrong: [30, 60]). */
START_TEST(bias_alone)
{
    static const ls_real x[6], w[] = {5, -1, 2, 7, 3, 1, 0, 4, -2, 6, 8, 9}, bias[] = {10, 20};
    small s = {x, w, bias, 6, _i, {{0}}};
    run_ranks(3, small_rank, &s);
    for (int r = 0; r < 3; r++) {
        ck_assert(s.y[r][0] == 10);
        ck_assert(s.y[r][1] == 20);
    }
}
END_TEST

/* f backward: the gradient of an input that every rank reads is the sum over ranks on all of them:
 * parts 1 and 2 give 3 (unreduced: 1 and 2), and with 12 granules of random data it is not T times
 * nor 1/T of it (the grids above). */
typedef struct input_gradient {
    ls_real dx[2];
} input_gradient;

static ls_status input_gradient_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    input_gradient *g = argument;
    member m = {0};
    ls_cut out;
    static const ls_real dy = 1, x = 1, w[2] = {1, 2};
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, 2, 1, &out));
    LS_TRY(ls_column_linear_backward(&m.tp, &g->dx[m.rank], NULL, NULL, &dy, &x, &w[m.rank],
                                     ls_axis_of(1, 1), 1, &out));
exit:
    member_end(&m);
    return status;
}

START_TEST(input_gradient_is_reduced)
{
    input_gradient g = {{0, 0}};
    run_ranks(2, input_gradient_rank, &g);
    ck_assert(g.dx[0] == 3);
    ck_assert(g.dx[1] == 3);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("linear", 60);
    tcase_add_loop_test(tests, column_every_degree, 0, 4);
    tcase_add_loop_test(tests, row_every_degree, 0, 4);
    tcase_add_loop_test(tests, column_sequence_parallel, 0, 2);
    tcase_add_loop_test(tests, row_sequence_parallel, 0, 2);
    tcase_add_loop_test(tests, bias_is_added_once, 0, 2);
    tcase_add_loop_test(tests, bias_alone, 0, 2);
    tcase_add_test(tests, input_gradient_is_reduced);
    return run_tests();
}
