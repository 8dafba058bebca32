/* Dropout masks as the ranks apply them, made visible: activations that every rank has are masked
 * alike on all of them, attention probabilities by their head, and at any degree each mask is the
 * one of the whole tensor (EXACT: p is 1/2). */
#include "lockstep/numerics/random.h"
#include "stage_fixture.h"
#include "run_tests.h"

enum { B = 2, S = 4, H = 12, D = 12, LAYERS = 2, ROWS = B * S, FIRST = 3 };

typedef struct job {
    const ls_param_table *table;
    const double *values;
    ls_batch batch;
    bool sequence_parallel;
    /* After the last layer: own tokens at their places, NaN at others. */
    ls_real x[MOST_RANKS][ROWS * D];
    ls_store *store[MOST_RANKS];
} job;

static ls_share own_share(const job *j, int tp, int rank)
{
    return j->sequence_parallel ? ls_share_of(S, (size_t)tp, (size_t)rank) : (ls_share){0, S};
}

static ls_status mask_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    int r = ls_rank_index(rank);
    ls_stage_setup first = {.engine = LS_ENGINE_PORTABLE, .layers = LAYERS, .embedding = true};
    model m = {NULL, NULL, NULL, NULL};
    const ls_real *x;
    ls_real dx[ROWS * D];
    first.sequence_parallel = j->sequence_parallel;
    /* A number that one rank alone draws must not turn its later masks. */
    if (r == 0) (void)ls_random_uniform((ls_stream){j->batch.seed, LS_RANDOM_DROPOUT_MLP, 0, 0}, 0);
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), j->table, first, j->values));
    LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &j->batch, NULL, &x));
    ls_share own = own_share(j, ls_group_size(ls_rank_world_group(rank)), r);
    for (size_t i = 0; i < ROWS * D; i++) j->x[r][i] = (ls_real)NAN;
    put_columns(j->x[r], x, B, S * D, own.first * D, own.count * D);
    for (size_t i = 0; i < ROWS * D; i++) dx[i] = 1;
    LS_TRY(ls_stage_backward(m.stage, m.micro_batch, dx, (ls_valid){1, 0}, &x));
    ls_stage_finish_gradients(m.stage);
    ls_add_uses(m.store);
exit:
    model_end(&m, &j->store[r]);
    return status;
}

static job job_begin(void)
{
    static const int32_t tokens[ROWS] = {2, 0, 1, 2, 2, 1, 0, 2};
    ls_config config = tiny_base("masks");
    job j = {.batch = {.B = B, .S = S, .first = FIRST, .tokens = tokens, .seed = 11, .step = 6}};
    ls_param_table *table;
    config.layers = LAYERS;
    config.heads = H;
    config.kv_heads = 4;
    config.d_model = D;
    config.d_ff = 24;
    config.causal = false;
    config.tied = false;
    config.dropout = 0.5;
    ck_assert_msg(ls_param_table_create(&table, &config) == LS_OK, "%s", ls_error_text());
    j.batch.training = true;
    j.table = table;
    j.values = calloc(ls_param_table_elements(table), sizeof *j.values);
    return j;
}

static void job_end(job *j)
{
    ls_param_table *table = (ls_param_table *)j->table;
    free((double *)j->values);
    ls_param_table_destroy(&table);
}

static double *parameter(job *j, ls_role role, size_t layer)
{
    size_t i = ls_param_find(j->table, role, layer);
    ck_assert_uint_lt(i, j->table->count);
    return (double *)j->values + place_in_table(j->table, i);
}

static void set_all(job *j, ls_role role, size_t layer, double value)
{
    size_t n = ls_param_elements(&j->table->params[ls_param_find(j->table, role, layer)]);
    for (size_t e = 0; e < n; e++) parameter(j, role, layer)[e] = value;
}

static int keeps(const job *j, ls_purpose purpose, size_t layer, size_t index)
{
    ls_stream stream = {j->batch.seed, (uint32_t)purpose, (uint32_t)layer, j->batch.step};
    return ls_random_keep(stream, index, 0.5);
}

/* A rank has the right numbers at its own tokens, and at no others. */
static void ck_own(const job *j, const double *right, int tp, int r)
{
    ls_share own = own_share(j, tp, r);
    for (size_t k = 0; k < ROWS * D; k++) {
        bool is_own = k / D % S - own.first < own.count;
        ck_assert_msg(is_own ? (double)j->x[r][k] == right[k] : isnan(j->x[r][k]),
                      "tp %d, rank %d, token %zu, column %zu: %g, not %g", tp, r, k / D, k % D,
                      (double)j->x[r][k], right[k]);
    }
}

/* Weights 0; what is masked are the numbers 1 (embedding), 4 and 16 (output of the attention of
 * each layer), 64 and 256 (of the MLP), so that their sum shows all five masks. They are the same
 * on every rank, those of the whole batch from its fourth sequence on; backward draws them again:
 * each bias has twice the number of its kept places. With sequence parallelism each rank has the
 * masks of its own tokens, and the same gradients. */
START_TEST(activations_that_every_rank_has)
{
    static const double attention[LAYERS] = {4, 16}, mlp[LAYERS] = {64, 256};
    job j = job_begin();
    double right[ROWS * D], d_attention[LAYERS][D] = {{0}}, d_mlp[LAYERS][D] = {{0}};
    int masks[ROWS * D][5], differ[5][5] = {{0}};
    j.sequence_parallel = _i;
    set_all(&j, LS_TOKEN_EMBEDDING, 0, 1);
    for (size_t l = 0; l < LAYERS; l++) {
        set_all(&j, LS_ATTN_OUT_BIAS, l, attention[l]);
        set_all(&j, LS_MLP_DOWN_BIAS, l, mlp[l]);
    }
    for (size_t i = 0; i < ROWS * D; i++) {
        size_t at = FIRST * S * D + i;
        masks[i][0] = keeps(&j, LS_RANDOM_DROPOUT_EMBEDDING, 0, at);
        right[i] = 2 * masks[i][0];
        for (size_t l = 0; l < LAYERS; l++) {
            int a = masks[i][1 + 2 * l] = keeps(&j, LS_RANDOM_DROPOUT_ATTN_OUT, l, at);
            int u = masks[i][2 + 2 * l] = keeps(&j, LS_RANDOM_DROPOUT_MLP, l, at);
            right[i] += 2 * (a * attention[l] + u * mlp[l]);
            d_attention[l][i % D] += 2 * a, d_mlp[l][i % D] += 2 * u;
        }
        for (int a = 0; a < 5; a++)
            for (int b = 0; b < 5; b++) differ[a][b] += masks[i][a] != masks[i][b];
    }
    for (int a = 0; a < 5; a++)
        for (int b = 0; b < a; b++) ck_assert_int_gt(differ[a][b], 20); /* 96 places */
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i];
        run_ranks(tp, mask_rank, &j);
        for (int r = 0; r < tp; r++) {
            ck_own(&j, right, tp, r);
            for (size_t k = 0; k < LAYERS * D; k++) {
                const ls_store *store = j.store[r];
                ls_real a = ls_store_slot(store, LS_ATTN_OUT_BIAS, k / D)->grad[0][k % D];
                ls_real u = ls_store_slot(store, LS_MLP_DOWN_BIAS, k / D)->grad[0][k % D];
                ck_assert((double)a == d_attention[k / D][k % D]);
                ck_assert((double)u == d_mlp[k / D][k % D]);
            }
            ls_store_destroy(&j.store[r]);
        }
    }
    job_end(&j);
}
END_TEST

/* Equal scores, values of 1, and the identity for the output: what head h gives for token i is the
 * number of its kept probabilities, over S, doubled; the mask of its output doubles it again or
 * drops it. Heads do not share a mask, whichever rank has them. */
START_TEST(probabilities_by_head)
{
    job j = job_begin();
    int counts[ROWS][H], differ = 0;
    double right[ROWS * D];
    j.sequence_parallel = _i;
    set_all(&j, LS_VALUE_BIAS, 0, 1);
    for (size_t d = 0; d < D; d++) parameter(&j, LS_ATTN_OUT_WEIGHT, 0)[d * D + d] = 1;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t h = 0; h < H; h++) {
            size_t b = FIRST + row / S, i = row % S;
            counts[row][h] = 0;
            for (size_t key = 0; key < S; key++)
                counts[row][h] +=
                    keeps(&j, LS_RANDOM_DROPOUT_ATTENTION, 0, ((b * H + h) * S + i) * S + key);
            differ += counts[row][h] != counts[row][0];
            int saved = keeps(&j, LS_RANDOM_DROPOUT_ATTN_OUT, 0, FIRST * S * D + row * D + h);
            right[row * D + h] = saved * 2 * (2 * (double)counts[row][h] / S);
        }
    ck_assert_int_gt(differ, ROWS * H / 4);
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i];
        run_ranks(tp, mask_rank, &j);
        for (int r = 0; r < tp; r++) {
            ck_own(&j, right, tp, r);
            ls_store_destroy(&j.store[r]);
        }
    }
    job_end(&j);
}
END_TEST

/* Evaluation: nothing is masked. */
START_TEST(no_dropout)
{
    job j = job_begin();
    double right[ROWS * D];
    j.sequence_parallel = _i;
    set_all(&j, LS_TOKEN_EMBEDDING, 0, 1);
    set_all(&j, LS_MLP_DOWN_BIAS, 1, 5);
    j.batch.training = false;
    for (size_t k = 0; k < ROWS * D; k++) right[k] = 6;
    run_ranks(3, mask_rank, &j);
    for (int r = 0; r < 3; r++) {
        ck_own(&j, right, 3, r);
        ls_store_destroy(&j.store[r]);
    }
    job_end(&j);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("dropout masks", 60);
    tcase_add_loop_test(tests, activations_that_every_rank_has, 0, 2);
    tcase_add_loop_test(tests, probabilities_by_head, 0, 2);
    tcase_add_loop_test(tests, no_dropout, 0, 2);
    return run_tests();
}
