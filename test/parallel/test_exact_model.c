/* EXACT: the parts of a model with numbers for which every operation is exact, so that no order of
 * addition can be told from another and what comes out must equal plain sums in binary64, written
 * out here from the formulas: outputs and every gradient, on every rank of every degree.
 *
 * Where the functions are exact: a norm, of rows that are half 1 and half -1 (mean 0, variance 1,
 * eps too small to count); softmax, of equal scores, 4 or 256 of them; GELU, far from 0. Gradients
 * are multiples of 3, so that a mean over a width of 48 is exact too. */
#include "stage_fixture.h"
#include "run_tests.h"

enum { B = 3, S = 4, ROWS = B * S, H = 12, KV = 4, GROUP = H / KV, W = 4, D = H * W };
enum { DKV = KV * W, F = 36, V = 256, HALF = D / 2 };

/* An integer from -most to most, by place. */
static double integer(uint64_t *state, int most)
{
    (void)reference_noise(state);
    return (double)((int)(*state >> 33) % (2 * most + 1) - most);
}

/* Whole tensors in table order, and the place of each. */
typedef struct tensors {
    const ls_param_table *table;
    double *all;
} tensors;

static tensors tensors_of(const ls_param_table *table)
{
    tensors t = {table, calloc(ls_param_table_elements(table), sizeof(double))};
    return t;
}

static double *tensor(const tensors *t, ls_role role)
{
    size_t i = ls_param_find(t->table, role, 0);
    ck_assert_uint_lt(i, t->table->count);
    return t->all + place_in_table(t->table, i);
}

static void fill(const tensors *t, ls_role role, int most)
{
    uint64_t state = 77 + 1000 * (uint64_t)role;
    size_t n = ls_param_elements(&t->table->params[ls_param_find(t->table, role, 0)]);
    for (size_t e = 0; e < n; e++) tensor(t, role)[e] = integer(&state, most);
}

/* A model, a batch, the gradient of the output, and what must come of them. */
typedef struct job {
    ls_param_table *table;
    ls_stage_setup setup;
    tensors p, g; /* parameters; right gradients */
    int32_t tokens[ROWS], targets[ROWS];
    ls_real dy[ROWS * D];
    double y[ROWS * D]; /* right output */
    /* the ranks' */
    ls_real out[MOST_RANKS][ROWS * D], loss[MOST_RANKS];
    ls_store *store[MOST_RANKS];
} job;

static job *job_begin(ls_mlp_cut cut)
{
    ls_config config = tiny_base("exact");
    job *j = calloc(1, sizeof *j);
    uint64_t state = 5;
    config.layers = 1;
    config.heads = H;
    config.kv_heads = KV;
    config.d_model = D;
    config.d_ff = F;
    config.seq = S;
    config.vocab = V;
    config.mlp_cut = cut;
    config.causal = false;
    config.tied = false;
    config.dropout = 0;
    config.norm_eps = 1e-30;
    ck_assert_msg(ls_param_table_create(&j->table, &config) == LS_OK, "%s", ls_error_text());
    j->p = tensors_of(j->table);
    j->g = tensors_of(j->table);
    j->setup = whole_model(&config);
    /* token rows of 1 and -1, as many of each */
    for (size_t e = 0; e < V * D; e += 2) {
        double sign = integer(&state, 50) > 0 ? 1 : -1;
        tensor(&j->p, LS_TOKEN_EMBEDDING)[e] = sign;
        tensor(&j->p, LS_TOKEN_EMBEDDING)[e + 1] = -sign;
    }
    for (size_t t = 0; t < ROWS; t++) {
        j->tokens[t] = (int32_t)(t * 97 % 251) * (t != 7); /* the first comes twice */
        j->targets[t] = t % 3 == 1 ? LS_IGNORE : (int32_t)(t * 83 % V);
        for (size_t d = 0; d < D; d++) j->dy[t * D + d] = (ls_real)(3 * integer(&state, 2));
    }
    for (size_t i = 0; i < j->table->count; i++) /* scales of 1 and -1 */
        if (j->table->params[i].init == LS_INIT_ONE)
            for (size_t d = 0; d < D; d++)
                tensor(&j->p, j->table->params[i].role)[d] = integer(&state, 50) > 0 ? 1 : -1;
    return j;
}

static void job_end(job *j)
{
    free(j->p.all), free(j->g.all);
    ls_param_table_destroy(&j->table);
    free(j);
}

static ls_status exact_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    int r = ls_rank_index(rank);
    ls_batch batch = {.B = B, .S = S, .tokens = j->tokens, .targets = j->targets};
    model m = {NULL, NULL, NULL, NULL};
    const ls_real *y;
    ls_real *dy = NULL;
    ls_share own = {0, S};
    if (j->setup.sequence_parallel)
        own = ls_share_of(S, (size_t)ls_rank_world_size(rank), (size_t)r);
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), j->table, j->setup, j->p.all));
    if (j->setup.head) {
        LS_TRY(model_gradients(&m, &batch, &j->loss[r]));
    } else {
        LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &batch, NULL, &y));
        /* With sequence parallelism a rank has its own tokens; the others' are taken for right. */
        for (size_t i = 0; i < ROWS * D; i++) j->out[r][i] = (ls_real)j->y[i];
        put_columns(j->out[r], y, B, S * D, own.first * D, own.count * D);
        dy = columns_of(j->dy, B, S * D, own.first * D, own.count * D);
        LS_TRY(ls_stage_backward(m.stage, m.micro_batch, dy, (ls_valid){1, 0}, NULL));
        ls_stage_finish_gradients(m.stage);
        ls_add_uses(m.store);
    }
exit:
    free(dy);
    model_end(&m, &j->store[r]);
    return status;
}

/* Equal values; which zero it is depends on the order and is no matter here. */
static void ck_equal(const ls_real *found, const ls_real *right, size_t n, const char *what, int tp,
                     int r)
{
    for (size_t e = 0; e < n; e++)
        if (!(found[e] == right[e])) /* not an assertion each: there are a million of them */
            ck_abort_msg("%s, tp %d, rank %d, element %zu: %g, right is %g", what, tp, r, e,
                         (double)found[e], (double)right[e]);
}

/* Runs the job at every degree, with and without sequence parallelism. Of the parameters, those
 * that the stage has are compared. */
static void ck_job(job *j)
{
    ls_real *right = malloc((V + 128) * D * sizeof *right), y[ROWS * D];
    for (size_t i = 0; i < ROWS * D; i++) y[i] = (ls_real)j->y[i];
    bool both = j->table->config.mlp_cut != LS_MLP_ROW_FIRST;
    for (int i = 0; i < LEGAL_DEGREES * (both ? 2 : 1); i++) {
        int tp = legal_degrees[i % LEGAL_DEGREES];
        j->setup.sequence_parallel = i >= LEGAL_DEGREES;
        run_ranks(tp, exact_rank, j);
        for (int r = 0; r < tp; r++) {
            if (!j->setup.head) ck_equal(j->out[r], y, ROWS * D, "output", tp, r);
            for (size_t k = 0; k < j->table->count; k++) {
                const ls_param *param = &j->table->params[k];
                const ls_slot *slot = &j->store[r]->slots[k];
                if (param->stage == LS_STAGE_LAYER && j->setup.layers == 0) continue;
                if (param->stage == LS_STAGE_LAST && !j->setup.head) continue;
                ck_assert_int_eq(
                    shard_from(right, param, slot->shard, j->g.all + place_in_table(j->table, k)),
                    LS_OK);
                ck_equal(slot->grad[0], right, slot->rows * slot->cols, param->name, tp, r);
            }
            ls_store_destroy(&j->store[r]);
        }
    }
    free(right);
}

/* ---- plain sums ---- */

/* y = x W + b over the tokens. */
static void linear(double *y, const double *x, const double *w, const double *b, size_t in,
                   size_t out)
{
    for (size_t t = 0; t < ROWS; t++)
        for (size_t o = 0; o < out; o++) {
            y[t * out + o] = b[o];
            for (size_t i = 0; i < in; i++) y[t * out + o] += x[t * in + i] * w[i * out + o];
        }
}

/* dx += dy W^T, dW = x^T dy, db = sum of dy. */
static void linear_back(double *dx, double *dw, double *db, const double *dy, const double *x,
                        const double *w, size_t in, size_t out)
{
    for (size_t t = 0; t < ROWS; t++)
        for (size_t o = 0; o < out; o++) {
            db[o] += dy[t * out + o];
            for (size_t i = 0; i < in; i++) {
                dx[t * in + i] += dy[t * out + o] * w[i * out + o];
                dw[i * out + o] += x[t * in + i] * dy[t * out + o];
            }
        }
}

/* y = x scale + shift: the norm of rows that are normal already. */
static void norm(double *y, const double *x, const double *scale, const double *shift)
{
    for (size_t i = 0; i < ROWS * D; i++) y[i] = x[i] * scale[i % D] + shift[i % D];
}

/* dx += gradient through the norm. */
static void norm_back(double *dx, double *dscale, double *dshift, const double *dy, const double *x,
                      const double *scale)
{
    for (size_t t = 0; t < ROWS; t++) {
        double mean = 0, along = 0;
        for (size_t d = 0; d < D; d++) {
            double g = dy[t * D + d] * scale[d];
            dscale[d] += dy[t * D + d] * x[t * D + d];
            dshift[d] += dy[t * D + d];
            mean += g / D;
            along += g * x[t * D + d] / D;
        }
        for (size_t d = 0; d < D; d++)
            dx[t * D + d] += dy[t * D + d] * scale[d] - mean - x[t * D + d] * along;
    }
}

static void embed(const job *j, double *x)
{
    for (size_t t = 0; t < ROWS; t++)
        memcpy(x + t * D, tensor(&j->p, LS_TOKEN_EMBEDDING) + (size_t)j->tokens[t] * D,
               D * sizeof *x);
}

static void embed_back(const job *j, const double *dx)
{
    for (size_t i = 0; i < ROWS * D; i++) {
        tensor(&j->g, LS_TOKEN_EMBEDDING)[(size_t)j->tokens[i / D] * D + i % D] += dx[i];
        tensor(&j->g, LS_POSITION_EMBEDDING)[i / D % S * D + i % D] += dx[i];
    }
}

#define P(role) tensor(&j->p, role)
#define G(role) tensor(&j->g, role)

/* ---- attention ---- */

/* Embedding, then attention whose queries or keys are 0, then an MLP of zeros. */
static void attention_by_hand(job *j)
{
    static double x[ROWS * D], n[ROWS * D], q[ROWS * D], k[ROWS * DKV], v[ROWS * DKV], o[ROWS * D],
        y[ROWS * D], dy[ROWS * D], d_o[ROWS * D], dq[ROWS * D], dk[ROWS * DKV], dv[ROWS * DKV],
        dn[ROWS * D];
    memset(o, 0, sizeof o), memset(d_o, 0, sizeof d_o), memset(dq, 0, sizeof dq);
    memset(dk, 0, sizeof dk), memset(dv, 0, sizeof dv), memset(dn, 0, sizeof dn);
    embed(j, x);
    norm(n, x, P(LS_NORM1_SCALE), P(LS_NORM1_SHIFT));
    linear(q, n, P(LS_QUERY_WEIGHT), P(LS_QUERY_BIAS), D, D);
    linear(k, n, P(LS_KEY_WEIGHT), P(LS_KEY_BIAS), D, DKV);
    linear(v, n, P(LS_VALUE_WEIGHT), P(LS_VALUE_BIAS), D, DKV);
    for (size_t t = 0; t < ROWS; t++) /* all scores 0, all probabilities 1/4 */
        for (size_t c = 0; c < D; c++)
            for (size_t s = 0; s < S; s++)
                o[t * D + c] += v[(t / S * S + s) * DKV + c / W / GROUP * W + c % W] / S;
    linear(y, o, P(LS_ATTN_OUT_WEIGHT), P(LS_ATTN_OUT_BIAS), D, D);
    for (size_t i = 0; i < ROWS * D; i++) {
        j->y[i] = x[i] + y[i];
        dy[i] = (double)j->dy[i];
        G(LS_MLP_DOWN_BIAS)[i % D] += dy[i]; /* of an MLP of zeros nothing else moves */
    }
    linear_back(d_o, G(LS_ATTN_OUT_WEIGHT), G(LS_ATTN_OUT_BIAS), dy, o, P(LS_ATTN_OUT_WEIGHT), D,
                D);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t i = 0; i < S; i++) {
                double dp[S], sum = 0;
                const double *d = d_o + (b * S + i) * D + h * W;
                for (size_t s = 0; s < S; s++) {
                    size_t kv = (b * S + s) * DKV + h / GROUP * W;
                    dp[s] = 0;
                    for (size_t c = 0; c < W; c++) {
                        dp[s] += d[c] * v[kv + c];
                        dv[kv + c] += d[c] / S;
                    }
                    sum += dp[s] / S;
                }
                for (size_t s = 0; s < S; s++) {
                    size_t kv = (b * S + s) * DKV + h / GROUP * W, at = (b * S + i) * D + h * W;
                    double ds = (dp[s] - sum) / S / 2; /* 1 / sqrt(4) */
                    for (size_t c = 0; c < W; c++) {
                        dq[at + c] += ds * k[kv + c];
                        dk[kv + c] += ds * q[at + c];
                    }
                }
            }
    linear_back(dn, G(LS_QUERY_WEIGHT), G(LS_QUERY_BIAS), dq, n, P(LS_QUERY_WEIGHT), D, D);
    linear_back(dn, G(LS_KEY_WEIGHT), G(LS_KEY_BIAS), dk, n, P(LS_KEY_WEIGHT), D, DKV);
    linear_back(dn, G(LS_VALUE_WEIGHT), G(LS_VALUE_BIAS), dv, n, P(LS_VALUE_WEIGHT), D, DKV);
    norm_back(dy, G(LS_NORM1_SCALE), G(LS_NORM1_SHIFT), dn, x, P(LS_NORM1_SCALE));
    embed_back(j, dy);
}

/* Shards of heads, the sum over all of them, kv heads on as many as three ranks. */
START_TEST(attention)
{
    job *j = job_begin(LS_MLP_COLUMN_FIRST);
    j->setup.head = false;
    fill(&j->p, _i ? LS_QUERY_WEIGHT : LS_KEY_WEIGHT, 1);
    fill(&j->p, _i ? LS_QUERY_BIAS : LS_KEY_BIAS, 2);
    fill(&j->p, LS_VALUE_WEIGHT, 1);
    fill(&j->p, LS_VALUE_BIAS, 3);
    fill(&j->p, LS_ATTN_OUT_WEIGHT, 1);
    fill(&j->p, LS_ATTN_OUT_BIAS, 4);
    fill(&j->p, LS_NORM1_SHIFT, 1);
    attention_by_hand(j);
    ck_job(j);
    job_end(j);
}
END_TEST

/* ---- MLP ---- */

/* Embedding, attention of zeros, then an MLP in whose columns GELU is either x or 0. */
static void mlp_by_hand(job *j)
{
    static double x[ROWS * D], n[ROWS * D], up[ROWS * F], u[ROWS * F], y[ROWS * D], dy[ROWS * D],
        du[ROWS * F], dn[ROWS * D];
    memset(du, 0, sizeof du), memset(dn, 0, sizeof dn);
    embed(j, x);
    norm(n, x, P(LS_NORM2_SCALE), P(LS_NORM2_SHIFT));
    linear(up, n, P(LS_MLP_UP_WEIGHT), P(LS_MLP_UP_BIAS), D, F);
    for (size_t i = 0; i < ROWS * F; i++) {
        ck_assert(fabs(up[i]) >= 16);
        u[i] = up[i] > 0 ? up[i] : 0;
    }
    linear(y, u, P(LS_MLP_DOWN_WEIGHT), P(LS_MLP_DOWN_BIAS), F, D);
    for (size_t i = 0; i < ROWS * D; i++) j->y[i] = x[i] + y[i], dy[i] = (double)j->dy[i];
    linear_back(du, G(LS_MLP_DOWN_WEIGHT), G(LS_MLP_DOWN_BIAS), dy, u, P(LS_MLP_DOWN_WEIGHT), F, D);
    for (size_t i = 0; i < ROWS * F; i++) du[i] = up[i] > 0 ? du[i] : 0;
    linear_back(dn, G(LS_MLP_UP_WEIGHT), G(LS_MLP_UP_BIAS), du, n, P(LS_MLP_UP_WEIGHT), D, F);
    norm_back(dy, G(LS_NORM2_SCALE), G(LS_NORM2_SHIFT), dn, x, P(LS_NORM2_SCALE));
    for (size_t i = 0; i < ROWS * D; i++) G(LS_ATTN_OUT_BIAS)[i % D] += dy[i];
    embed_back(j, dy);
}

/* Both cuts: by columns first, and by rows with its reduction before GELU. */
START_TEST(mlp)
{
    uint64_t state = 3;
    job *j = job_begin(_i ? LS_MLP_ROW_FIRST : LS_MLP_COLUMN_FIRST);
    j->setup.head = false;
    fill(&j->p, LS_MLP_UP_WEIGHT, 1);
    fill(&j->p, LS_MLP_DOWN_WEIGHT, 1);
    fill(&j->p, LS_MLP_DOWN_BIAS, 5);
    fill(&j->p, LS_NORM2_SHIFT, 1);
    for (size_t f = 0; f < F; f++) P(LS_MLP_UP_BIAS)[f] = f % 3 ? 60 + integer(&state, 9) : -70;
    mlp_by_hand(j);
    ck_job(j);
    job_end(j);
}
END_TEST

/* ---- both ends ---- */

/* Embedding, final norm, head, loss. In the first half of the width all head rows are alike; in the
 * second they differ, but there all tokens are alike and the norm's shift takes them away. So every
 * logit of a token is the same, softmax is 1/256, and yet the rows' differences come back. */
static void ends_by_hand(job *j)
{
    static double x[ROWS * D], xf[ROWS * D], dxf[ROWS * D], dx[ROWS * D];
    memset(dxf, 0, sizeof dxf), memset(dx, 0, sizeof dx);
    embed(j, x);
    norm(xf, x, P(LS_FINAL_NORM_SCALE), P(LS_FINAL_NORM_SHIFT));
    for (size_t t = 0; t < ROWS; t++) {
        if (j->targets[t] == LS_IGNORE) continue;
        for (size_t v = 0; v < V; v++) {
            double dz = (1.0 / V - ((size_t)j->targets[t] == v)) / 8; /* 8 valid targets */
            for (size_t d = 0; d < D; d++) {
                G(LS_HEAD_WEIGHT)[v * D + d] += dz * xf[t * D + d];
                dxf[t * D + d] += dz * P(LS_HEAD_WEIGHT)[v * D + d];
            }
        }
    }
    norm_back(dx, G(LS_FINAL_NORM_SCALE), G(LS_FINAL_NORM_SHIFT), dxf, x, P(LS_FINAL_NORM_SCALE));
    embed_back(j, dx);
}

START_TEST(ends)
{
    job *j = job_begin(LS_MLP_COLUMN_FIRST);
    j->setup.layers = 0;
    j->setup.gathered_loss = _i;
    fill(&j->p, LS_HEAD_WEIGHT, 2);
    fill(&j->p, LS_FINAL_NORM_SHIFT, 1);
    for (size_t v = 0; v < V; v++)
        for (size_t d = 0; d < D; d++) {
            double *row = P(LS_HEAD_WEIGHT) + v * D;
            row[d] = d < HALF ? P(LS_HEAD_WEIGHT)[d] : 3 * row[d];
            if (d >= HALF) P(LS_TOKEN_EMBEDDING)[v * D + d] = d % 2 ? 1 : -1;
        }
    for (size_t d = HALF; d < D; d++)
        P(LS_FINAL_NORM_SHIFT)[d] = (d % 2 ? -1 : 1) * P(LS_FINAL_NORM_SCALE)[d];
    ends_by_hand(j);
    ck_job(j);
    ck_assert(fabs((double)j->loss[11] - log(V)) <= 2e-6);
    job_end(j);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("exact model", 60);
    tcase_add_loop_test(tests, attention, 0, 2);
    tcase_add_loop_test(tests, mlp, 0, 2);
    tcase_add_loop_test(tests, ends, 0, 2);
    return run_tests();
}
