/* The bounds of a run hold what right computations give - the contract's, OpenBLAS's in any layout,
 * and one whose every tensor is rounded to a narrow format - and none of some wrong ones. TRUTH. */
#include <math.h>
#include <stdlib.h>

#include "step_graph/graph_evaluation.h"
#include "lockstep/numerics/random.h"
#include "golden/bounds.h"
#include "golden/bounds_start.h"
#include "verify/observed_models.h"
#include "model/view_rows.h"
#include "train/training.h"
#include "run_tests.h"

/* A model, and a start that tells: no bias 0, no scale 1. */
typedef struct setting {
    ls_config config;
    ls_text text;
    ls_param_table *table;
    ls_graph *graph;
    double **weights;
    ls_initial initial;
    ls_run run;
} setting;

static void draw(setting *s, uint64_t seed)
{
    for (size_t p = 0; p < s->table->count; p++) {
        const ls_param *param = &s->table->params[p];
        const ls_stream stream = {seed, LS_RANDOM_TEST, (uint32_t)p, 1};
        for (size_t i = 0; i < ls_param_elements(param); i++) {
            const double z = ls_random_normal(stream, i);
            const double w = param->init == LS_INIT_ONE    ? 1 + 0.25 * z
                             : param->init == LS_INIT_ZERO ? 0.2 * z
                                                           : 5 * param->std * z;
            s->weights[p][i] = (double)(float)w;
        }
    }
}

static void begin(setting *s, model m, uint64_t steps)
{
    memset(s, 0, sizeof *s);
    s->config = model_config(m);
    s->text = fixture_text();
    expect_ok(ls_param_table_create(&s->table, &s->config));
    expect_ok(ls_graph_create(&s->graph, s->table, s->config.batch, s->config.seq));
    s->weights = calloc(s->table->count, sizeof *s->weights);
    for (size_t p = 0; p < s->table->count; p++)
        s->weights[p] = calloc(ls_param_elements(&s->table->params[p]), sizeof(double));
    draw(s, 5);
    s->initial.values = (const double *const *)s->weights;
    s->run = fixture_run(&s->config, &s->text, steps);
    s->run.initial = &s->initial;
}

static void end(setting *s)
{
    for (size_t p = 0; p < s->table->count; p++) free(s->weights[p]);
    free(s->weights);
    ls_graph_destroy(&s->graph);
    ls_param_table_destroy(&s->table);
}

static ls_truth *truth_of(const setting *s, ls_dtype dtype)
{
    ls_truth *truth;
    const ls_truth_options options = {.dtype = dtype, .keep = true};
    expect_ok(ls_truth_find(&truth, &s->run, s->graph, &options));
    return truth;
}

/* ---- a candidate, held against the bounds ---- */

typedef struct held {
    const ls_graph *graph;
    const ls_truth *truth;
    uint64_t first;
    size_t seen[4096]; /* elements, per step and node */
    double error[4096];
} held;

static ls_status hold(void *context, ls_rank *rank, const ls_view *view)
{
    held *h = context;
    const int node = ls_graph_find_view(h->graph, view);
    if (node < 0 || ls_rank_index(rank) != 0) return LS_OK;
    const size_t at = (view->step - h->first) * h->graph->count + (size_t)node;
    const double *truth = ls_truth_values(h->truth, view->step, node);
    for (size_t r = 0; r < ls_view_rows(view); r++)
        for (size_t i = 0; i < ls_view_row_run(view).count; i++) {
            const void *row = ls_view_row(view, r);
            const double value =
                view->dtype == LS_F64 ? ((const double *)row)[i] : (double)((const float *)row)[i];
            const double error = fabs(value - truth[ls_view_row_place(view, r) + i]);
            if (!(error <= h->error[at])) h->error[at] = error;
            h->seen[at]++;
        }
    return LS_OK;
}

static void run_held(held *h, const ls_run *given, const ls_graph *graph, const ls_truth *truth)
{
    ls_run run = *given;
    ls_train_result result;
    const ls_observer observer = {h, hold};
    memset(h, 0, sizeof *h);
    ck_assert_uint_lt(run.steps * graph->count, 4096);
    h->graph = graph;
    h->truth = truth;
    h->first = run.initial ? run.initial->step : 0;
    run.serial = false;
    run.observer = &observer;
    run.no_digest = true;
    expect_ok(ls_train(&run, NULL, &result));
    ls_train_result_free(&result);
}

/* The first tensor in order of execution that lies outside; NULL: none. */
static const char *first_outside(const held *h, uint64_t steps)
{
    for (size_t i = 0; i < steps * h->graph->count; i++) {
        const int node = (int)(i % h->graph->count);
        const double bound = ls_truth_bound(h->truth, h->first + i / h->graph->count, node);
        if (h->seen[i] && !(h->error[i] <= bound)) return h->graph->nodes[node].name;
    }
    return NULL;
}

static void expect_inside(const held *h, uint64_t steps, const char *who)
{
    const char *name = first_outside(h, steps);
    ck_assert_msg(name == NULL, "%s: %s lies outside", who, name);
}

/* ---- right ones ---- */

static const model models[] = {GPT2, LLAMA, BERT_POST, BERT_PRE};

START_TEST(right_runs)
{
    setting s;
    held *h = malloc(sizeof *h);
    const uint64_t steps = 3;
    const bool openblas = ls_engine_available(LS_ENGINE_OPENBLAS);
    if (!openblas) SKIP_PART("built without OpenBLAS");
    begin(&s, models[_i], steps);
    s.run.clip = 0.5;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        if (seed == 3) s.run.initial = NULL; /* as a training run begins */
        s.run.seed = seed;
        draw(&s, seed);
        ls_truth *truth = truth_of(&s, LS_F32);
        run_held(h, &s.run, s.graph, truth);
        for (size_t i = 0; i < steps * s.graph->count; i++) /* one rank shows all */
            ck_assert_uint_eq(h->seen[i], ls_graph_elements(s.graph, (int)(i % s.graph->count)));
        expect_inside(h, steps, "portable");
        if (openblas) {
            s.run.engine = LS_ENGINE_OPENBLAS;
            run_held(h, &s.run, s.graph, truth);
            expect_inside(h, steps, "openblas");
        }
        s.run.layout.tp = 3;
        s.run.layout.micro_batches = 2;
        run_held(h, &s.run, s.graph, truth);
        expect_inside(h, steps, openblas ? "openblas, tp 3" : "portable, tp 3");
        s.run.layout = ls_layout_serial();
        s.run.engine = LS_ENGINE_PORTABLE;
        ls_truth_destroy(&truth);
    }
    free(h);
    end(&s);
}
END_TEST

START_TEST(right_in_binary64)
{
    setting s;
    held *h = malloc(sizeof *h);
    begin(&s, models[_i], 2);
    ls_truth *truth = truth_of(&s, LS_F64);
    s.run.dtype = LS_F64;
    run_held(h, &s.run, s.graph, truth);
    expect_inside(h, 2, "portable");
    if (ls_engine_available(LS_ENGINE_OPENBLAS)) {
        s.run.engine = LS_ENGINE_OPENBLAS;
        run_held(h, &s.run, s.graph, truth);
        expect_inside(h, 2, "openblas");
    } else {
        SKIP_PART("built without OpenBLAS");
    }
    ck_assert(ls_truth_bound(truth, 0, ls_graph_find(s.graph, "embedding")) < 1e-13);
    ls_truth_destroy(&truth);
    free(h);
    end(&s);
}
END_TEST

/* Every operation in binary64, its result rounded: what a device with that format does. */
static void expect_narrow(const setting *s, ls_dtype dtype, const char *who)
{
    ls_truth *truth = truth_of(s, dtype);
    ls_step_batch batch;
    const ls_update update = ls_step_update(&s->run, 0);
    expect_ok(ls_step_batch_create(&batch, &s->run, 0, s->run.batch));
    ls_step_batch_fill(&batch, &s->run, 0);
    whole_step step = whole_step_create(s->table, &batch.batch, &update, s->run.clip);
    for (size_t p = 0; p < s->table->count; p++)
        for (size_t i = 0; i < ls_param_elements(&s->table->params[p]); i++)
            whole_step_param(&step, p)[i] = ls_rounded_to(dtype, s->weights[p][i]);
    for (size_t i = 0; i < step.graph->count; i++) {
        const size_t n = ls_graph_elements(step.graph, (int)i);
        const double *right = ls_truth_values(truth, 0, (int)i);
        const double bound = ls_truth_bound(truth, 0, (int)i);
        const double spread = ls_truth_spread(truth, 0, (int)i);
        double error = 0, squares = 0;
        whole_step_node(&step, (int)i, false);
        for (size_t e = 0; e < n; e++) {
            step.values[i][e] = ls_rounded_to(dtype, step.values[i][e]);
            if (!(fabs(step.values[i][e] - right[e]) <= error))
                error = fabs(step.values[i][e] - right[e]);
            squares += (step.values[i][e] - right[e]) * (step.values[i][e] - right[e]);
        }
        const double mean = sqrt(squares / (double)n);
        ck_assert_msg(mean <= 0.5 * spread, "%s: %s is off by %g on average, bound %g", who,
                      step.graph->nodes[i].name, mean, spread);
        ck_assert_msg(isfinite(bound) && error <= bound, "%s: %s is off by %g, bound %g", who,
                      step.graph->nodes[i].name, error, bound);
    }
    whole_step_destroy(&step);
    ls_step_batch_free(&batch);
    ls_truth_destroy(&truth);
}

START_TEST(right_in_narrow_formats)
{
    setting s;
    begin(&s, models[_i], 1);
    expect_narrow(&s, LS_BF16, "BF16");
    expect_narrow(&s, LS_F16, "F16");
    end(&s);
}
END_TEST

/* ---- wrong ones ---- */

static double *param_of(const setting *s, const char *name)
{
    const size_t p = ls_param_find_name(s->table, name);
    ck_assert_msg(p != (size_t)-1, "%s", name);
    return s->weights[p];
}

/* `where` is the first tensor outside. */
static void expect_outside(const setting *right, const ls_run *wrong, ls_dtype dtype,
                           const char *where)
{
    held *h = malloc(sizeof *h);
    ls_truth *truth = truth_of(right, dtype);
    run_held(h, wrong, right->graph, truth);
    const char *name = first_outside(h, 1);
    ck_assert_msg(name != NULL, "nothing outside; %s should be", where);
    ck_assert_msg(strcmp(name, where) == 0, "%s is outside, not %s", name, where);
    free(h);
    ls_truth_destroy(&truth);
}

START_TEST(wrong_runs)
{
    setting s, t;
    const ls_dtype dtype = _i ? LS_BF16 : LS_F32;
    begin(&s, GPT2, 1);
    begin(&t, GPT2, 1);

    /* Bias added once, not once per rank. */
    double *bias = param_of(&t, "layers.1.attention.output.bias");
    for (size_t i = 0; i < s.config.d_model; i++) bias[i] *= 2;
    expect_outside(&s, &t.run, dtype, "layers.1.attention");
    draw(&t, 5);

    /* Another epsilon under a norm's root; another GELU. */
    if (dtype == LS_F32) {
        ls_run other = s.run;
        other.config.norm_eps = 1e-3;
        expect_outside(&s, &other, dtype, "layers.0.norm1");
        other = s.run;
        other.config.activation = s.config.activation == LS_GELU_ERF ? LS_GELU_TANH : LS_GELU_ERF;
        expect_outside(&s, &other, dtype, "layers.0.activation");
        /* The last bits of one weight. */
        param_of(&t, "layers.2.mlp.down.weight")[7] *= 1.001;
        expect_outside(&s, &t.run, dtype, "layers.2.mlp");
        draw(&t, 5);
    }

    /* Gradients clipped to another norm, an update with another rate. */
    ls_run other = s.run;
    other.clip = 0.1;
    s.run.clip = 0.2;
    expect_outside(&s, &other, dtype, "clipped.token_embedding.weight");
    other = s.run;
    other.lr *= 2;
    if (dtype == LS_F32) expect_outside(&s, &other, dtype, "param.token_embedding.weight");
    end(&s);
    end(&t);
}
END_TEST

/* ---- what is handed over ---- */

typedef struct taken {
    const setting *setting;
    size_t count, told;
    uint64_t of;
    double sum;
} taken;

static ls_status take(void *context, uint64_t step, int node, const double *values, size_t count)
{
    taken *t = context;
    const size_t nodes = t->setting->graph->count;
    if (step != 7 + t->count / nodes || node != (int)(t->count % nodes) ||
        count != ls_graph_elements(t->setting->graph, node))
        return LS_ERR_INTERNAL;
    t->count++;
    for (size_t i = 0; i < count; i++) t->sum += values[i];
    return LS_OK;
}

static void told(void *context, uint64_t done, uint64_t of, const char *what)
{
    taken *t = context;
    t->told += done == t->told + 1 && what[0] != 0;
    t->of = of;
}

/* From step 7 on, with moments: a run that goes on from somewhere. */
START_TEST(handed_over)
{
    setting s;
    taken t = {.setting = &s};
    ls_truth *truth, *kept;
    ls_truth_options options = {
        .dtype = LS_F32, .probes = 2, .context = &t, .take = take, .advance = told};
    begin(&s, LLAMA, 9);
    s.initial.step = 7;
    expect_ok(ls_truth_find(&truth, &s.run, s.graph, &options));
    ck_assert_uint_eq(t.count, 2 * s.graph->count);
    ck_assert_uint_eq(t.told, 6);
    ck_assert_uint_eq(t.of, 6);
    ck_assert_ptr_null(ls_truth_values(truth, 7, 0));
    options = (ls_truth_options){.dtype = LS_F32, .probes = 2, .keep = true};
    expect_ok(ls_truth_find(&kept, &s.run, s.graph, &options));
    double sum = 0;
    for (uint64_t step = 7; step < 9; step++)
        for (int node = 0; node < (int)s.graph->count; node++) {
            for (size_t i = 0; i < ls_graph_elements(s.graph, node); i++)
                sum += ls_truth_values(kept, step, node)[i];
            ck_assert(ls_truth_bound(kept, step, node) == ls_truth_bound(truth, step, node));
            ck_assert(ls_truth_bound(kept, step, node) > 0);
        }
    ck_assert(sum == t.sum);
    ck_assert(isinf(ls_truth_bound(kept, 6, 0)) && isinf(ls_truth_bound(kept, 9, 0)));
    ck_assert_ptr_null(ls_truth_values(kept, 9, 0));
    ls_truth_destroy(&truth);
    ls_truth_destroy(&kept);
    end(&s);
}
END_TEST

/* Rounding, by values written out. */
START_TEST(rounding)
{
    ck_assert(ls_rounded_to(LS_BF16, 1 + 0x1p-8) == 1);             /* tie, to even */
    ck_assert(ls_rounded_to(LS_BF16, 1 + 0x3p-8) == 1 + 0x1p-6);    /* tie, to even */
    ck_assert(ls_rounded_to(LS_BF16, 1 + 0x1.01p-8) == 1 + 0x1p-7); /* above the tie */
    ck_assert(ls_rounded_to(LS_BF16, -3.14159265) == -3.140625);
    ck_assert(ls_rounded_to(LS_BF16, 0x1.fep127) == 0x1.fep127);
    ck_assert(isinf(ls_rounded_to(LS_BF16, 0x1.ffp127))); /* what a number of binary32 becomes */
    ck_assert(ls_rounded_to(LS_F16, 0.1) == 0x1.998p-4);
    ck_assert(ls_rounded_to(LS_F16, 0x1.8p-25) == 0x1p-24); /* subnormal */
    ck_assert(ls_rounded_to(LS_F16, 0x1p-25) == 0);
    ck_assert(ls_rounded_to(LS_F16, 65519) == 65504);
    ck_assert(isinf(ls_rounded_to(LS_F16, 65520)));
    ck_assert(ls_rounded_to(LS_F32, 0.1) == (double)0.1f);
    ck_assert(ls_rounded_to(LS_F64, 0.1) == 0.1);
    ck_assert(isnan(ls_rounded_to(LS_F16, (double)NAN)));
}
END_TEST

int main(void)
{
    TCase *tests = test_case("bounds", 120);
    const int n = sizeof models / sizeof models[0];
    tcase_add_loop_test(tests, right_runs, 0, n);
    tcase_add_loop_test(tests, right_in_binary64, 0, n);
    tcase_add_loop_test(tests, right_in_narrow_formats, 0, n);
    tcase_add_loop_test(tests, wrong_runs, 0, 2);
    tcase_add_test(tests, handed_over);
    tcase_add_test(tests, rounding);
    return run_tests();
}
