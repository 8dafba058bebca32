/* test_serial_truth.c - TRUTH: binary32 under the contract, with each engine, against binary64 with
 * one plain product per matrix and no contract; a bound for the loss, the logits and every role of
 * parameter. */
#include <math.h>

#include "serial/serial_fixture.h"
#include "serial/serial_runner.h"
#include "run_tests.h"

#ifdef LS_HAVE_OPENBLAS
#define TRUTH_ENGINE LS_ENGINE_PLAIN
#else
#define TRUTH_ENGINE LS_ENGINE_PORTABLE /* in binary64 it is nearly as good */
#endif

/* What a run gives. */
typedef struct outcome {
    double loss, *logits, *gradients;
} outcome;

typedef ls_status run_function(const ls_param_table *, ls_engine, const ls_batch *, const double *,
                               double *, double *, double *);

static outcome run(run_function *function, const ls_param_table *table, ls_engine engine,
                   const ls_batch *batch, const double *values)
{
    outcome o = {0};
    o.logits = malloc(batch->B * batch->S * table->config.vocab * sizeof *o.logits);
    o.gradients = malloc(ls_param_table_elements(table) * sizeof *o.gradients);
    ck_assert(o.logits != NULL && o.gradients != NULL);
    ck_assert_msg(function(table, engine, batch, values, &o.loss, o.logits, o.gradients) == LS_OK,
                  "%s", ls_error_text());
    return o;
}

static void outcome_free(outcome *o)
{
    free(o->logits);
    free(o->gradients);
}

/* Largest magnitude; NaN if any is. */
static double largest(const double *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= most) && !isnan(most)) most = fabs(x[i]);
    return most;
}

/* Largest distance over largest truth. */
static double relative_error(const double *x, const double *truth, size_t n)
{
    double *distance = malloc(n * sizeof *distance);
    ck_assert_ptr_nonnull(distance);
    for (size_t i = 0; i < n; i++) distance[i] = x[i] - truth[i];
    double error = largest(distance, n) / largest(truth, n);
    free(distance);
    return error;
}

/* Bounds in units of the precision (2^-24, 2^-53): about four times what was seen. The models of
 * real size carry noise as large as the tiny ones in wider sums, and are deeper; so their errors
 * are larger, in either precision by the same number of units. */
typedef struct bounds {
    double loss, logits, matrix, vector, position, final_norm, head;
} bounds;

static const bounds tiny = {8, 32, 128, 128, 128, 32, 32};
static const bounds nano = {8, 192, 512, 384, 192, 96, 128};

static double bound_of(const ls_param *param, const bounds *limit)
{
    switch (param->role) {
    case LS_HEAD_WEIGHT:
        return limit->head;
    case LS_FINAL_NORM_SCALE:
    case LS_FINAL_NORM_SHIFT:
        return limit->final_norm;
    case LS_POSITION_EMBEDDING:
        return limit->position;
    default:
        return param->n_dims == 2 ? limit->matrix : limit->vector;
    }
}

static void compare(const ls_param_table *table, const ls_batch *batch, const outcome *x,
                    const outcome *truth, const bounds *limit, double unit, const char *what)
{
    double error = fabs(x->loss - truth->loss) / truth->loss;
    ck_assert_msg(error <= limit->loss * unit, "%s %s: loss is off by %.1f units",
                  table->config.name, what, error / unit);
    error = relative_error(x->logits, truth->logits, batch->B * batch->S * table->config.vocab);
    ck_assert_msg(error <= limit->logits * unit, "%s %s: logits are off by %.1f units",
                  table->config.name, what, error / unit);
    const double *g = x->gradients, *t = truth->gradients;
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        size_t n = ls_param_elements(param);
        error = relative_error(g, t, n);
        /* A key bias moves all scores of a query alike, which softmax does not see: its gradient is
         * 0, unless positions turn it, and what is left is noise with nothing to compare it to. */
        if (param->role == LS_KEY_BIAS && table->config.position == LS_LEARNED)
            error = largest(g, n);
        ck_assert_msg(error <= bound_of(param, limit) * unit,
                      "%s %s: gradient of %s is off by %.1f units", table->config.name, what,
                      param->name, error / unit);
        g += n;
        t += n;
    }
}

static void check_model(const ls_config *config, const ls_batch *batch, const bounds *limit)
{
    ls_param_table *table = NULL;
    ck_assert_msg(ls_param_table_create(&table, config) == LS_OK, "%s", ls_error_text());
    double *values = fixture_noise(table);
    outcome truth = run(serial_run_f64, table, TRUTH_ENGINE, batch, values);

    outcome x = run(serial_run_f32, table, LS_ENGINE_PORTABLE, batch, values);
    compare(table, batch, &x, &truth, limit, ldexp(1, -24), "portable f32");
    outcome_free(&x);
    x = run(serial_run_f64, table, LS_ENGINE_PORTABLE, batch, values);
    compare(table, batch, &x, &truth, limit, ldexp(1, -53), "portable f64");
    outcome_free(&x);
#ifdef LS_HAVE_OPENBLAS
    x = run(serial_run_f32, table, LS_ENGINE_OPENBLAS, batch, values);
    compare(table, batch, &x, &truth, limit, ldexp(1, -24), "openblas f32");
    outcome_free(&x);
    x = run(serial_run_f64, table, LS_ENGINE_OPENBLAS, batch, values);
    compare(table, batch, &x, &truth, limit, ldexp(1, -53), "openblas f64");
    outcome_free(&x);
#endif
    outcome_free(&truth);
    free(values);
    ls_param_table_destroy(&table);
}

START_TEST(tiny_models)
{
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    ls_batch batch = tiny_batch_of(&ids, &config);
    check_model(&config, &batch, &tiny);
}
END_TEST

/* Real sizes: S 24, D 48, 12 heads, a vocabulary of bytes. */
START_TEST(nano_models)
{
    static const char *const names[] = {"gpt2-nano", "llama-nano", "bert-nano", "bert-nano"};
    enum { B = 3, S = 24, N = B * S };
    static const int32_t lengths[B] = {24, 7, 15}, order[B] = {0, 1, 1};
    int32_t tokens[N], targets[N], segments[N];
    uint64_t state = 5;
    ls_config config;
    ck_assert_int_eq(ls_config_named(names[_i], &config), LS_OK);
    config.dropout = 0.1;
    if (_i == 3) ls_config_place_norms(&config, LS_NORM_PRE);
    for (size_t t = 0; t < N; t++) {
        tokens[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % 256;
        targets[t] = t % 10 == 9 ? LS_IGNORE : tokens[t] ^ 1;
        segments[t] = t % S > 5;
    }
    ls_batch batch = {.B = B,
                      .S = S,
                      .tokens = tokens,
                      .targets = targets,
                      .seed = 3,
                      .step = 1,
                      .training = true};
    if (_i >= 2) batch.segments = segments, batch.lengths = lengths, batch.order = order;
    check_model(&config, &batch, &nano);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_truth", 60);
    tcase_add_loop_test(tc, tiny_models, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tc, nano_models, 0, 4);
    return run_tests();
}
