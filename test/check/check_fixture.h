/* check_fixture.h - candidates of every kind, in memory, against the golden directory of a run.
 *
 *     check_fixture c;
 *     check_fixture_begin(&c, &config, 2);              a golden directory of two steps
 *     candidate_from_run(&c, LS_ENGINE_OPENBLAS, NULL);  what a run gives; or
 *     candidate_computed(&c, LS_BF16, mistake);          every operation in binary64, rounded to a
 *                                                        format; `mistake` may change each
 *     candidate_drop(&c, "*.gate");
 *     check_fixture_judge(&c, NULL);                     c.judgement, c.findings
 *     check_fixture_end(&c); */
#ifndef TEST_CHECK_CHECK_FIXTURE_H
#define TEST_CHECK_CHECK_FIXTURE_H

#include <math.h>
#include <pthread.h>

#include "io/scratch.h"
#include "causes/findings_parts.h"
#include "golden/golden_fixture.h"
#include "train/training.h"

typedef struct check_fixture check_fixture;

/* Changes what operation `node` of a step gave, before it is rounded; the operands are the
 * candidate's own. */
typedef void mistake(check_fixture *c, size_t step, int node, const ls_operands *operands,
                     double *values);

struct check_fixture {
    golden_fixture f;
    ls_golden *golden;
    double **mine[FIXTURE_STEPS]; /* by node; NULL: missing */
    ls_dtype *dtypes;             /* by node: what is written */
    ls_candidate candidate;
    void **bytes;
    ls_judgement *judgement;
    ls_findings *findings;
    void *context; /* for mistakes */
};

/* ---- values of a run ---- */

typedef struct observation {
    const ls_graph *graph;
    double ***values; /* [step][node] */
    pthread_mutex_t lock;
} observation;

static ls_status fixture_look(void *context, ls_rank *rank, const ls_view *view)
{
    observation *l = context;
    const int node = ls_graph_find_view(l->graph, view), n = view->n_dims;
    size_t rows = 1, columns = n > 0 ? view->dims[n - 1].count : 1;
    (void)rank;
    if (node < 0) return LS_OK;
    pthread_mutex_lock(&l->lock);
    double **into = &l->values[view->step][node];
    if (!*into) *into = calloc(ls_graph_elements(l->graph, node) + 1, sizeof **into);
    for (int d = 0; d + 1 < n; d++) rows *= view->dims[d].count;
    for (size_t r = 0; r < rows; r++) {
        size_t place = 0, unit = n > 0 ? view->dims[n - 1].whole : 1, rest = r;
        for (int d = n - 1; d-- > 0; rest /= view->dims[d].count) {
            place += (view->dims[d].first + rest % view->dims[d].count) * unit;
            unit *= view->dims[d].whole;
        }
        if (n > 0) place += view->dims[n - 1].first;
        for (size_t i = 0; i < columns; i++)
            (*into)[place + i] = view->dtype == LS_F64
                                     ? ((const double *)view->values)[r * view->stride + i]
                                     : (double)((const float *)view->values)[r * view->stride + i];
    }
    pthread_mutex_unlock(&l->lock);
    return LS_OK;
}

static inline void fixture_run_values(const ls_run *run, const ls_graph *graph, double ***values)
{
    ls_train_result result;
    observation l = {.graph = graph, .values = values};
    const ls_observer observer = {&l, fixture_look};
    ls_run tapped = *run;
    pthread_mutex_init(&l.lock, NULL);
    tapped.observer = &observer;
    tapped.serial = false;
    fixture_ok(ls_train(&tapped, NULL, &result));
    ls_train_result_free(&result);
    pthread_mutex_destroy(&l.lock);
}

/* ---- the golden directory ---- */

/* Bounds and truth are not known: they are found when they are asked for. */
static inline void forget_bounds(json_t *manifest, void *context)
{
    size_t i;
    json_t *tensor;
    (void)context;
    json_array_foreach(json_object_get(manifest, "tensors"), i, tensor)
    {
        json_object_set_new(tensor, "bound", json_null());
        json_object_set_new(tensor, "bound_rms", json_null());
        json_object_set_new(tensor, "truth_error", json_null());
    }
}

static inline ls_config check_config(const char *name)
{
    ls_config config;
    fixture_ok(ls_config_named(name, &config));
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = strcmp(name, "llama-nano") == 0 ? 2 : 4;
    config.d_model = 16;
    config.d_ff = 24;
    config.seq = 7;
    config.batch = 3;
    config.vocab = 29;
    config.dropout = 0.1;
    return config;
}

/* run: what is other than golden_fixture_begin's; may be NULL. */
static inline void check_fixture_begin(check_fixture *c, const ls_config *config, size_t steps)
{
    memset(c, 0, sizeof *c);
    golden_fixture_begin(&c->f, config, steps);
    for (size_t p = 0; p < c->f.table->count; p++) {
        const ls_param *param = &c->f.table->params[p];
        for (size_t i = 0; i < ls_param_elements(param); i++)
            c->f.params[p][i] = 0.4 * c->f.params[p][i] + (param->init == LS_INIT_ONE ? 1 : 0);
    }
    c->f.change = forget_bounds;
    /* Written twice: a run needs the weights and batches of the first. */
    golden_fixture_write(&c->f, scratch_path("golden"));
    fixture_ok(ls_golden_open(&c->golden, scratch_path("golden")));
    fixture_run_values(&c->golden->run, c->f.graph, c->f.values);
    ls_golden_close(&c->golden);
    golden_fixture_write(&c->f, scratch_path("golden"));
    fixture_ok(ls_golden_open(&c->golden, scratch_path("golden")));
    for (size_t s = 0; s < steps; s++) c->mine[s] = calloc(c->f.graph->count, sizeof *c->mine[s]);
    c->dtypes = calloc(c->f.graph->count, sizeof *c->dtypes);
}

/* ---- candidates ---- */

static inline void candidate_forget(check_fixture *c)
{
    for (size_t s = 0; s < c->f.steps; s++)
        for (size_t n = 0; n < c->f.graph->count; n++) {
            free(c->mine[s][n]);
            c->mine[s][n] = NULL;
        }
}

static inline void write_as(check_fixture *c, ls_dtype dtype)
{
    for (size_t n = 0; n < c->f.graph->count; n++) c->dtypes[n] = dtype;
}

/* layout NULL: one rank. */
static inline void candidate_from_run(check_fixture *c, ls_engine engine, const ls_layout *layout)
{
    ls_run run = c->golden->run;
    candidate_forget(c);
    run.engine = engine;
    if (layout) run.layout = *layout;
    fixture_run_values(&run, c->f.graph, c->mine);
    write_as(c, LS_F32);
}

static inline void param_before(const check_fixture *c, size_t step, size_t param, ls_dtype format,
                                double *into)
{
    const size_t count = ls_param_elements(&c->f.table->params[param]);
    char name[192];
    snprintf(name, sizeof name, "param.%s", c->f.table->params[param].name);
    const double *from =
        step == 0 ? c->f.params[param] : c->mine[step - 1][ls_graph_find(c->f.graph, name)];
    memcpy(into, from, count * sizeof *into);
    if (step == 0) ls_check_round(LS_F32, into, count); /* as the directory has them */
    if (format != LS_F64) ls_check_round(format, into, count);
}

/* Every operation of every step from what was made before, in binary64, rounded to `format`. */
static inline void candidate_computed(check_fixture *c, ls_dtype format, mistake *change)
{
    const ls_graph *graph = c->f.graph;
    const size_t params = c->f.table->count;
    double **weights = calloc(params, sizeof *weights), **m = calloc(params, sizeof *m);
    double **v = calloc(params, sizeof *v);
    candidate_forget(c);
    write_as(c, format);
    for (size_t p = 0; p < params; p++) {
        const size_t count = ls_param_elements(&c->f.table->params[p]);
        weights[p] = calloc(count + 1, sizeof **weights);
        m[p] = calloc(count + 1, sizeof **m);
        v[p] = calloc(count + 1, sizeof **v);
    }
    for (size_t s = 0; s < c->f.steps; s++) {
        const ls_update update = ls_step_update(&c->golden->run, s);
        const ls_operands operands = {.graph = graph,
                                      .batch = ls_golden_batch(c->golden, s),
                                      .values = (const double *const *)c->mine[s],
                                      .params = (const double *const *)weights,
                                      .moment1 = (const double *const *)m,
                                      .moment2 = (const double *const *)v,
                                      .update = &update,
                                      .max_norm = c->golden->run.clip};
        for (size_t p = 0; p < params; p++) param_before(c, s, p, format, weights[p]);
        for (int n = 0; n < (int)graph->count; n++) {
            const size_t count = ls_graph_elements(graph, n);
            double *values = calloc(count + 1, sizeof *values);
            fixture_ok(
                ls_operation_evaluate(&operands, n, ls_precision_of(LS_F64, 1), values, NULL));
            if (change) change(c, s, n, &operands, values);
            ls_check_round(format, values, count);
            c->mine[s][n] = values;
        }
        for (int n = 0; n < (int)graph->count; n++)
            if (graph->nodes[n].make == LS_MAKE_UPDATED) {
                const int p = graph->nodes[n].params[0];
                fixture_ok(ls_operation_moments(&operands, n, m[p], v[p]));
            }
    }
    for (size_t p = 0; p < params; p++) free(weights[p]), free(m[p]), free(v[p]);
    free(weights), free(m), free(v);
}

/* Leaves out the tensors of all steps whose names fit. */
static inline void candidate_drop(check_fixture *c, const char *pattern)
{
    for (size_t s = 0; s < c->f.steps; s++)
        for (size_t n = 0; n < c->f.graph->count; n++)
            if (ls_name_fits(pattern, c->f.graph->nodes[n].name)) {
                free(c->mine[s][n]);
                c->mine[s][n] = NULL;
            }
}

static inline void candidate_keep_only(check_fixture *c, const char *pattern)
{
    for (size_t s = 0; s < c->f.steps; s++)
        for (size_t n = 0; n < c->f.graph->count; n++)
            if (!ls_name_fits(pattern, c->f.graph->nodes[n].name)) {
                free(c->mine[s][n]);
                c->mine[s][n] = NULL;
            }
}

static inline double *candidate_values(const check_fixture *c, size_t step, const char *name)
{
    return c->mine[step][fixture_node(&c->f, name)];
}

/* ---- judging ---- */

/* The caller frees them. Values of bf16 and f16 are exact already: their bits are those of
 * binary32, cut; what is below f16's normal numbers is counted in its smallest one. */
static inline void *candidate_bytes(const double *values, size_t count, ls_dtype dtype)
{
    uint16_t *bytes = fixture_round(values, count, dtype);
    for (size_t i = 0; dtype == LS_F16 && i < count; i++)
        if (fabs(values[i]) < 0x1p-14)
            bytes[i] = (uint16_t)((bytes[i] & 0x8000) | (uint16_t)(fabs(values[i]) * 0x1p24));
    return bytes;
}

static inline void candidate_pack(check_fixture *c)
{
    size_t count = 0;
    c->candidate = (ls_candidate){.path = "candidate"};
    c->candidate.tensors = calloc(c->golden->count + 1, sizeof *c->candidate.tensors);
    c->bytes = calloc(c->golden->count + 1, sizeof *c->bytes);
    for (size_t i = 0; i < c->golden->count; i++) {
        const ls_golden_tensor *golden = &c->golden->tensors[i];
        const double *values = c->mine[golden->step][golden->node];
        if (!values) continue;
        c->bytes[count] = candidate_bytes(values, golden->count, c->dtypes[golden->node]);
        c->candidate.tensors[count] = (ls_candidate_tensor){.name = golden->name,
                                                            .golden = golden,
                                                            .dtype = c->dtypes[golden->node],
                                                            .values = c->bytes[count],
                                                            .ranks = 1};
        count++;
    }
    c->candidate.count = count;
}

static inline void check_fixture_forget(check_fixture *c)
{
    ls_findings_destroy(&c->findings);
    ls_judgement_destroy(&c->judgement);
    for (size_t i = 0; i < c->candidate.count; i++) free(c->bytes[i]);
    free(c->bytes);
    free(c->candidate.tensors);
    c->bytes = NULL;
    c->candidate.tensors = NULL;
    c->candidate.count = 0;
}

static inline ls_status check_fixture_try(check_fixture *c, const ls_check_options *options)
{
    check_fixture_forget(c);
    candidate_pack(c);
    const ls_status status = ls_check(&c->judgement, c->golden, &c->candidate, options);
    return status == LS_OK ? ls_findings_create(&c->findings, c->judgement) : status;
}

static inline void check_fixture_judge(check_fixture *c, const ls_check_options *options)
{
    fixture_ok(check_fixture_try(c, options));
}

static inline void check_fixture_end(check_fixture *c)
{
    check_fixture_forget(c);
    candidate_forget(c);
    for (size_t s = 0; s < c->f.steps; s++) free(c->mine[s]);
    free(c->dtypes);
    ls_golden_close(&c->golden);
    golden_fixture_end(&c->f);
}

static inline const ls_judged *judged_of(const check_fixture *c, const char *name)
{
    const ls_judged *judged = ls_judgement_find(c->judgement, name);
    ck_assert_msg(judged != NULL, "%s was not judged", name);
    return judged;
}

/* The finding that a tensor belongs to. */
static inline const ls_finding *finding_at(const check_fixture *c, const char *name)
{
    for (size_t i = 0; i < c->findings->count; i++)
        for (size_t k = 0; k < c->findings->list[i].count; k++)
            if (strcmp(c->findings->list[i].tensors[k]->golden->name, name) == 0)
                return &c->findings->list[i];
    ck_abort_msg("nothing was found at %s", name);
}

/* What is different, and by how much, for messages. */
static inline const char *what_differs(const check_fixture *c)
{
    static char text[4000];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < c->judgement->count && used < 3500; i++) {
        const ls_judged *j = &c->judgement->tensors[i];
        if (j->verdict != LS_DIFFERENT_TENSOR) continue;
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s: error/bound %.3g, local %s %.3g of %.3g\n", j->golden->name,
                                 j->error / j->bound, ls_local_name(j->local), j->local_error,
                                 j->local_bound);
    }
    return text;
}

static inline void expect_none_different(const check_fixture *c)
{
    ck_assert_msg(c->judgement->different == 0, "%zu different:\n%s", c->judgement->different,
                  what_differs(c));
    ck_assert_ptr_null(c->judgement->first);
    ck_assert_uint_eq(c->findings->count, 0);
    ck_assert_int_eq(c->findings->suspicion.cause, LS_CAUSE_NONE);
}

#endif
