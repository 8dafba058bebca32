/* Attention by heads, with grouped queries: every degree and every number of kv heads against the
 * unsplit block written out here (ORDERED), also where a kv head's queries are on several ranks;
 * its gradient against central differences (GRADIENT, binary64); and who holds and shares what. */
#include "lockstep/kernels/attention.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/kernels/rotary.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "parallel_fixture.h"
#include "run_tests.h"

/* 2 sequences, of 5 tokens where nothing else is said; D 24 in 12 heads of 2 */
enum { B = 2, FIVE = 5, LONGEST = 24, H = 12, W = 2, D = H * W };

static const int degrees[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
enum { DEGREES = sizeof degrees / sizeof degrees[0] };

typedef struct block {
    ls_engine engine;
    size_t S, rows; /* tokens of a sequence, of both */
    size_t kv_heads;
    bool causal, rotary;
    double dropout;
    ls_real *x, *dy, *w[4], *b[4]; /* query, key, value, output */
    ls_real *y, *dx, *dw[4], *db[4];
    ls_real cos[LONGEST * W / 2], sin[LONGEST * W / 2];
} block;

static void results(block *k)
{
    k->y = room(k->rows * D), k->dx = room(k->rows * D);
    for (int i = 0; i < 4; i++) k->dw[i] = room(D * D), k->db[i] = room(D);
}

static void results_end(block *k)
{
    free(k->y), free(k->dx);
    for (int i = 0; i < 4; i++) free(k->dw[i]), free(k->db[i]);
}

static block block_begin(ls_engine engine, size_t S, size_t kv_heads, bool causal, bool rotary)
{
    block k = {.engine = engine,
               .S = S,
               .rows = B * S,
               .kv_heads = kv_heads,
               .causal = causal,
               .rotary = rotary,
               .dropout = 0.25};
    k.x = filled(k.rows * D, 1, 0), k.dy = filled(k.rows * D, 2, 0);
    for (uint32_t i = 0; i < 4; i++) k.w[i] = filled(D * D, 3 + i, 0), k.b[i] = filled(D, 8 + i, 0);
    ls_rotary_table(k.cos, k.sin, S, W, 10000);
    results(&k);
    return k;
}

static void block_end(block *k)
{
    free(k->x), free(k->dy);
    for (int i = 0; i < 4; i++) free(k->w[i]), free(k->b[i]);
    results_end(k);
}

static ls_batch batch_of(size_t S)
{
    /* the third and fourth sequence of a global batch: dropout must count from there */
    ls_batch batch = {.B = B, .S = S, .first = 2, .seed = 5, .step = 3, .training = true};
    return batch;
}

static void product(const block *k, ls_trans ta, ls_trans tb, ls_axis m, ls_axis n, ls_axis depth,
                    const ls_real *a, const ls_real *w, ls_real *c)
{
    size_t lda = ls_axis_extent(ta ? m : depth), ldb = ls_axis_extent(tb ? depth : n);
    ck_assert_int_eq(
        ls_gemm(k->engine, ta, tb, m, n, depth, a, lda, w, ldb, c, ls_axis_extent(n), false),
        LS_OK);
}

/* The block on one processor. */
static void unsplit(block *k)
{
    size_t S = k->S, rows = k->rows;
    ls_axis tokens = ls_axis_of(B, S), heads = ls_axis_of(H, W), kv = ls_axis_of(k->kv_heads, W),
            whole = ls_axis_whole(D);
    size_t kw = k->kv_heads * W, group = H / k->kv_heads;
    ls_real *q = room(rows * D), *key = room(rows * kw), *value = room(rows * kw),
            *o = room(rows * D), *P = room(B * H * S * S);
    ls_real *d_o = room(rows * D), *dq = room(rows * D), *dk = room(rows * kw),
            *dv = room(rows * kw);
    ls_real *dk_of = room(group * rows * kw), *dv_of = room(group * rows * kw),
            scratch[2 * LONGEST * LONGEST];
    product(k, LS_NO_TRANS, LS_NO_TRANS, tokens, heads, whole, k->x, k->w[0], q);
    product(k, LS_NO_TRANS, LS_NO_TRANS, tokens, kv, whole, k->x, k->w[1], key);
    product(k, LS_NO_TRANS, LS_NO_TRANS, tokens, kv, whole, k->x, k->w[2], value);
    ls_add_bias(q, k->b[0], rows, D, D), ls_add_bias(key, k->b[1], rows, kw, kw),
        ls_add_bias(value, k->b[2], rows, kw, kw);
    for (size_t b = 0; b < B && k->rotary; b++) {
        ls_rotary_forward(q + b * S * D, k->cos, k->sin, S, H, W, D);
        ls_rotary_forward(key + b * S * kw, k->cos, k->sin, S, k->kv_heads, W, kw);
    }
    ls_attention_shape shape = {.S = S,
                                .head_width = W,
                                .ld_q = D,
                                .ld_kv = kw,
                                .scale = 1 / sqrt((double)W),
                                .causal = k->causal,
                                .dropout = k->dropout,
                                .stream = {5, LS_RANDOM_DROPOUT_ATTENTION, 9, 3}};
    for (int back = 0; back < 2; back++) {
        for (size_t b = 0; b < B; b++) {
            for (size_t h = 0; h < H; h++) {
                size_t at = b * S * D + h * W, kv_at = b * S * kw + h / group * W,
                       part = h % group * rows * kw;
                ls_real *p = P + (b * H + h) * S * S;
                shape.first_index = ((2 + b) * H + h) * S * S;
                if (!back)
                    ck_assert_int_eq(ls_attention_forward(k->engine, &shape, o + at, p, q + at,
                                                          key + kv_at, value + kv_at, scratch),
                                     LS_OK);
                else
                    ck_assert_int_eq(
                        ls_attention_backward(k->engine, &shape, dq + at, dk_of + part + kv_at,
                                              dv_of + part + kv_at, d_o + at, p, q + at,
                                              key + kv_at, value + kv_at, scratch),
                        LS_OK);
            }
        }
        if (back) break;
        product(k, LS_NO_TRANS, LS_NO_TRANS, tokens, whole, heads, o, k->w[3], k->y);
        ls_add_bias(k->y, k->b[3], rows, D, D);
        product(k, LS_NO_TRANS, LS_TRANS, tokens, heads, whole, k->dy, k->w[3], d_o);
        product(k, LS_TRANS, LS_NO_TRANS, heads, whole, tokens, o, k->dy, k->dw[3]);
        ls_tree_sum_rows(k->db[3], k->dy, tokens, D, D);
    }
    ls_tree_sum_rows(dk, dk_of, ls_axis_whole(group), rows * kw, rows * kw);
    ls_tree_sum_rows(dv, dv_of, ls_axis_whole(group), rows * kw, rows * kw);
    for (size_t b = 0; b < B && k->rotary; b++) {
        ls_rotary_backward(dq + b * S * D, k->cos, k->sin, S, H, W, D);
        ls_rotary_backward(dk + b * S * kw, k->cos, k->sin, S, k->kv_heads, W, kw);
    }
    ls_tree_sum_rows(k->db[0], dq, tokens, D, D), ls_tree_sum_rows(k->db[1], dk, tokens, kw, kw),
        ls_tree_sum_rows(k->db[2], dv, tokens, kw, kw);
    product(k, LS_TRANS, LS_NO_TRANS, whole, heads, tokens, k->x, dq, k->dw[0]);
    product(k, LS_TRANS, LS_NO_TRANS, whole, kv, tokens, k->x, dk, k->dw[1]);
    product(k, LS_TRANS, LS_NO_TRANS, whole, kv, tokens, k->x, dv, k->dw[2]);
    ls_gemm_term terms[3] = {{dq, D, k->w[0], D, W, 1, 0},
                             {dk, kw, k->w[1], kw, W, group, 0},
                             {dv, kw, k->w[2], kw, W, group, 0}};
    ck_assert_int_eq(
        ls_gemm_fused(k->engine, LS_NO_TRANS, LS_TRANS, tokens, whole, H, terms, 3, k->dx, D),
        LS_OK);
    free(q), free(key), free(value), free(o), free(P), free(d_o), free(dq), free(dk), free(dv),
        free(dk_of), free(dv_of);
}

typedef struct job {
    const block *whole;
    bool sequence_parallel;
    block *got; /* whole arrays put together, with sequence parallelism y and dx too */
    ls_real *y[12], *dx[12], *db_o[12];
    /* what every rank has of the key and value gradients, put into a whole array of its own */
    ls_real *kv_dw[12][2], *kv_db[12][2];
    ls_share held[12];
    size_t shared[12];
    sent sent[12]; /* in both passes of two */
} job;

static ls_status attention_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    const block *k = j->whole;
    member m = {0};
    ls_kv_sharing kv;
    ls_attention_saved saved;
    ls_batch batch = batch_of(k->S);
    ls_attention_block a = {.D = D,
                            .head_width = W,
                            .kv_heads = k->kv_heads,
                            .kv = &kv,
                            .causal = k->causal,
                            .dropout = k->dropout,
                            .layer = 9};
    LS_TRY(member_begin(rank, k->engine, &m));
    LS_TRY(member_cut(&m, H, W, &a.heads));
    m.tp.sequence_parallel = j->sequence_parallel;
    LS_TRY(ls_kv_sharing_create(m.tp.group, &a.heads, k->kv_heads, m.lasting, &kv));
    size_t q0 = a.heads.bounds[m.rank] * W, qw = a.heads.bounds[m.rank + 1] * W - q0;
    size_t k0 = kv.held.first * W, kw = kv.held.count * W, all = k->kv_heads * W;
    ls_real *w_q = columns_of(k->w[0], D, D, q0, qw), *w_k = columns_of(k->w[1], D, all, k0, kw),
            *w_v = columns_of(k->w[2], D, all, k0, kw);
    ls_real *x = own_tokens_of(&m, k->x, B, k->S, D), *dy = own_tokens_of(&m, k->dy, B, k->S, D);
    ls_real *y = own_room(&m, B, k->S, D), *dx = own_room(&m, B, k->S, D);
    ls_real *dw_q = room(D * qw), *dw_k = room(D * kw), *dw_v = room(D * kw);
    if (k->rotary) a.cos = k->cos, a.sin = k->sin;
    a.w_q = w_q, a.w_k = w_k, a.w_v = w_v, a.w_o = k->w[3] + q0 * D;
    a.b_q = k->b[0] + q0, a.b_k = k->b[1] + k0, a.b_v = k->b[2] + k0, a.b_o = k->b[3];
    a.dw_q = dw_q, a.dw_k = dw_k, a.dw_v = dw_v, a.dw_o = j->got->dw[3] + q0 * D;
    a.db_q = j->got->db[0] + q0, a.db_k = j->kv_db[m.rank][0] + k0,
    a.db_v = j->kv_db[m.rank][1] + k0, a.db_o = j->db_o[m.rank];
    LS_TRY(ls_attention_keep(&m.tp, &a, B, k->S, m.lasting, &saved));
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_attention_block_forward(&m.tp, &a, y, &saved, x, &batch));
        LS_TRY(ls_attention_block_backward(&m.tp, &a, dx, dy, &saved, x, &batch));
    }
    put_columns(j->got->dw[0], dw_q, D, D, q0, qw);
    put_columns(j->kv_dw[m.rank][0], dw_k, D, all, k0, kw);
    put_columns(j->kv_dw[m.rank][1], dw_v, D, all, k0, kw);
    j->held[m.rank] = kv.held;
    for (size_t i = 0; i < kv.held.count; i++) j->shared[m.rank] += kv.sharers[i] != NULL;
    put_own_tokens(&m, j->y[m.rank], y, B, k->S, D);
    put_own_tokens(&m, j->dx[m.rank], dx, B, k->S, D);
    if (j->sequence_parallel) {
        put_own_tokens(&m, j->got->y, y, B, k->S, D);
        put_own_tokens(&m, j->got->dx, dx, B, k->S, D);
    }
    j->sent[m.rank] = sent_by(rank);
    free(w_q), free(w_k), free(w_v), free(dw_q), free(dw_k), free(dw_v);
    free(x), free(dy), free(y), free(dx);
exit:
    member_end(&m);
    return status;
}

static void split(const block *whole, block *got, int tp, job *j)
{
    j->whole = whole;
    j->got = got;
    got->S = whole->S, got->rows = whole->rows;
    results(got);
    for (int r = 0; r < tp; r++) {
        j->y[r] = room(whole->rows * D), j->dx[r] = room(whole->rows * D), j->db_o[r] = room(D);
        for (int s = 0; s < 2; s++) j->kv_dw[r][s] = room(D * D), j->kv_db[r][s] = room(D);
    }
    run_ranks(tp, attention_rank, j);
}

static void split_end(job *j, int tp)
{
    for (int r = 0; r < tp; r++) {
        free(j->y[r]), free(j->dx[r]), free(j->db_o[r]);
        for (int s = 0; s < 2; s++) free(j->kv_dw[r][s]), free(j->kv_db[r][s]);
    }
    results_end(j->got);
}

/* Rank r's key or value gradient against the unsplit one, in the kv heads that it holds: every
 * holder has the finished sum. */
static void ck_kv(const job *j, int r, int tp)
{
    size_t all = j->whole->kv_heads * W, k0 = j->held[r].first * W, kw = j->held[r].count * W;
    for (int i = 0; i < 2; i++) {
        ck_same(j->kv_db[r][i] + k0, j->whole->db[1 + i] + k0, kw, i ? "db_v" : "db_k", tp);
        for (size_t row = 0; row < D; row++)
            ck_same(j->kv_dw[r][i] + row * all + k0, j->whole->dw[1 + i] + row * all + k0, kw,
                    i ? "dw_v" : "dw_k", tp);
    }
}

static const size_t kv_counts[] = {1, 2, 3, 4, 6, 12};
enum { KV_COUNTS = sizeof kv_counts / sizeof kv_counts[0] };

static void ck_cut(const block *got, const block *whole, int tp)
{
    ck_same(got->dw[0], whole->dw[0], D * D, "dw_q", tp);
    ck_same(got->db[0], whole->db[0], D, "db_q", tp);
    ck_same(got->dw[3], whole->dw[3], D * D, "dw_o", tp);
}

START_TEST(every_degree)
{
    size_t kv_heads = kv_counts[_i % KV_COUNTS];
    ls_engine engine = _i >= KV_COUNTS ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
    if (!ls_engine_available(engine)) SKIP_TEST("built without OpenBLAS");
    block whole = block_begin(engine, FIVE, kv_heads, _i % 2 == 0, _i % 3 == 0);
    unsplit(&whole);
    for (int i = 0; i < DEGREES; i++) {
        int tp = degrees[i];
        block got = {0};
        job j = {0};
        split(&whole, &got, tp, &j);
        for (int r = 0; r < tp; r++) {
            ck_same(j.y[r], whole.y, whole.rows * D, "y", tp);
            ck_same(j.dx[r], whole.dx, whole.rows * D, "dx", tp);
            ck_same(j.db_o[r], whole.db[3], D, "db_o", tp);
            ck_kv(&j, r, tp);
            /* one all-reduce each way, and for each shared kv head one of dK and one of dV */
            ck_assert_uint_eq(j.sent[r].reduces.calls, 2 * (2 + 2 * j.shared[r]));
            ck_assert_uint_eq(j.sent[r].scatters.calls + j.sent[r].gathers.calls, 0);
        }
        ck_cut(&got, &whole, tp);
        split_end(&j, tp);
    }
    block_end(&whole);
}
END_TEST

/* Token shares, equal or not, also where there are fewer tokens than ranks: the same bits. Forward
 * a gather (q, k and v share it) and a reduce-scatter, backward two gathers (dy, and x once more)
 * and a reduce-scatter; dK and dV of shared kv heads stay all-reduces. */
START_TEST(sequence_parallel)
{
    for (size_t i = 0; i < SEQUENCE_LENGTHS; i++) {
        block whole = block_begin(LS_ENGINE_PORTABLE, sequence_lengths[i], kv_counts[_i],
                                  _i % 2 == 0, _i % 3 == 0);
        unsplit(&whole);
        for (int d = 0; d < DEGREES; d++) {
            int tp = degrees[d];
            block got = {0};
            job j = {.sequence_parallel = true};
            split(&whole, &got, tp, &j);
            ck_same(got.y, whole.y, whole.rows * D, "y", tp);
            ck_same(got.dx, whole.dx, whole.rows * D, "dx", tp);
            ck_cut(&got, &whole, tp);
            for (int r = 0; r < tp; r++) {
                size_t own = B * ls_share_of(whole.S, (size_t)tp, (size_t)r).count * D;
                size_t partials = nodes_of(H, tp, r) * whole.rows * D;
                ck_same(j.db_o[r], whole.db[3], D, "db_o", tp);
                ck_kv(&j, r, tp);
                ck_assert_uint_eq(j.sent[r].reduces.calls, 2 * 2 * j.shared[r]);
                ck_sent(j.sent[r].scatters, 2 * 2, 2 * 2 * partials, "reduce-scatters", tp, r);
                ck_sent(j.sent[r].gathers, 2 * 3, 2 * 3 * own, "all-gathers", tp, r);
            }
            split_end(&j, tp);
        }
        block_end(&whole);
    }
}
END_TEST

/* Who shares: 4 kv heads of 3 queries each. At tp 4 nobody; at tp 6 ranks 1 and 4 hold two kv
 * heads, each shared with a neighbour; at tp 12 three ranks share each. */
START_TEST(sharing)
{
    static const size_t shared_at_6[6] = {1, 2, 1, 1, 2, 1};
    block whole = block_begin(LS_ENGINE_PORTABLE, FIVE, 4, true, false);
    static const int tp[] = {4, 6, 12};
    for (int i = 0; i < 3; i++) {
        block got = {0};
        job j = {0};
        split(&whole, &got, tp[i], &j);
        for (int r = 0; r < tp[i]; r++) {
            ck_assert_uint_eq(j.shared[r], tp[i] == 4 ? 0 : tp[i] == 6 ? shared_at_6[r] : 1);
            ck_assert_uint_eq(j.held[r].count, tp[i] == 6 && r % 3 == 1 ? 2 : 1);
        }
        split_end(&j, tp[i]);
    }
    block_end(&whole);
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
    double largest = 0;
    for (size_t i = n / 7; i < n; i += n / 4 + 1) {
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
        if (fabs(measured) > largest) largest = fabs(measured);
    }
    /* A key bias moves all scores of a query alike, unless positions turn it. */
    ck_assert_msg(largest > 1e-3 || (parameter == whole->b[1] && !whole->rotary),
                  "%s: nothing to measure", what);
}

/* The block's results from the ranks of tp 3. */
static void results_of_ranks(block *whole)
{
    block got = {0};
    job j = {0};
    size_t all = whole->kv_heads * W;
    split(whole, &got, 3, &j);
    memcpy(whole->dx, j.dx[2], whole->rows * D * sizeof *whole->dx);
    memcpy(whole->dw[0], got.dw[0], D * D * sizeof *whole->dx);
    memcpy(whole->db[0], got.db[0], D * sizeof *whole->dx);
    memcpy(whole->dw[3], got.dw[3], D * D * sizeof *whole->dx);
    memcpy(whole->db[3], j.db_o[1], D * sizeof *whole->dx);
    for (int r = 0; r < 3; r++)
        for (int s = 0; s < 2; s++) {
            size_t first = j.held[r].first * W, width = j.held[r].count * W;
            memcpy(whole->db[1 + s] + first, j.kv_db[r][s] + first, width * sizeof *whole->dx);
            for (size_t row = 0; row < D; row++)
                memcpy(whole->dw[1 + s] + row * all + first, j.kv_dw[r][s] + row * all + first,
                       width * sizeof *whole->dx);
        }
    split_end(&j, 3);
}

START_TEST(gradient)
{
    static const char *const names[4] = {"query", "key", "value", "output"};
    if (LS_REAL_DTYPE != LS_F64) return; /* differences need binary64 */
    block whole = block_begin(LS_ENGINE_PORTABLE, FIVE, kv_counts[_i], _i % 2 == 0, _i % 3 == 0);
    results_of_ranks(&whole);
    differences(&whole, whole.x, whole.dx, whole.rows * D, "x");
    for (int k = 0; k < 4; k++) {
        size_t width = k == 1 || k == 2 ? whole.kv_heads * W : D;
        differences(&whole, whole.w[k], whole.dw[k], D * width, names[k]);
        differences(&whole, whole.b[k], whole.db[k], width, names[k]);
    }
    block_end(&whole);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("attention block", 60);
    tcase_add_loop_test(tests, every_degree, 0, 2 * KV_COUNTS);
    tcase_add_loop_test(tests, sequence_parallel, 0, KV_COUNTS);
    tcase_add_test(tests, sharing);
    tcase_add_loop_test(tests, gradient, 0, KV_COUNTS);
    return run_tests();
}
