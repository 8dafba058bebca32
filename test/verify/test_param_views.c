/* What an observer sees of parameters, loss and norm, put together, is what the serial run has:
 * gradients before and after clipping, new values, both numbers; and of a tied parameter each use.
 * ORDERED throughout, every layout. Nothing is gathered for it. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "verify/assemble.h"
#include "step_graph/graph.h"
#include "verify/observed_models.h"
#include "run_tests.h"

enum { STEPS = 2 };

/* ---- the serial run, watched ---- */

typedef struct watched {
    ls_param_table *table;
    float **values[STEPS][2]; /* [step][phase][param] */
    double loss[STEPS], norm[STEPS];
} watched;

static ls_status keep_tensor(void *context, uint64_t step, ls_phase phase, const ls_param *param,
                             ls_dtype dtype, const void *values)
{
    watched *w = context;
    const size_t place = ls_param_find_name(w->table, param->name);
    const size_t bytes = ls_param_elements(param) * ls_dtype_bytes(dtype);
    w->values[step][phase][place] = malloc(bytes);
    memcpy(w->values[step][phase][place], values, bytes);
    return LS_OK;
}

static ls_status keep_step(void *context, const ls_step *step)
{
    watched *w = context;
    w->loss[step->step] = step->loss;
    w->norm[step->step] = step->norm;
    return LS_OK;
}

static void watch(watched *w, const ls_run *run)
{
    ls_train_result result;
    const ls_train_hooks watcher = {w, NULL, keep_tensor, keep_step};
    expect_ok(ls_param_table_create(&w->table, &run->config));
    for (int step = 0; step < STEPS; step++)
        for (int phase = 0; phase < 2; phase++)
            w->values[step][phase] = calloc(w->table->count, sizeof(float *));
    expect_ok(ls_train(run, &watcher, &result));
    ls_train_result_free(&result);
}

static void forget(watched *w)
{
    for (int step = 0; step < STEPS; step++)
        for (int phase = 0; phase < 2; phase++) {
            for (size_t p = 0; p < w->table->count; p++) free(w->values[step][phase][p]);
            free(w->values[step][phase]);
        }
    ls_param_table_destroy(&w->table);
}

/* ---- held against what an observer saw ---- */

static const ls_assembled *seen(const ls_assembly *assembly, ls_view_kind kind, int param, int use,
                                uint32_t step, const ls_param_table *table)
{
    const ls_assembled *t = ls_assembly_find_other(assembly, kind, param, use, step);
    ck_assert_msg(t != NULL, "kind %d of parameter %d, use %d: not seen", (int)kind, param, use);
    if (param < 0) {
        ck_assert_int_eq(t->n_dims, 0);
        ck_assert_uint_eq(t->count, 1);
        return t;
    }
    ck_assert_int_eq(t->n_dims, table->params[param].n_dims);
    ck_assert_str_eq(t->of, table->params[param].name);
    for (int d = 0; d < t->n_dims; d++) ck_assert_uint_eq(t->dims[d], table->params[param].dims[d]);
    return t;
}

static void expect_values(const ls_assembled *t, const float *values, const char *where)
{
    char name[LS_ASSEMBLED_NAME];
    ls_assembled_name(t, name);
    ck_assert_int_eq(t->dtype, LS_F32);
    ck_assert_msg(memcmp(t->values, values, t->count * sizeof *values) == 0, "%s: %s differs",
                  where, name);
}

/* One parameter in one step; how many tensors of it were seen. */
static size_t expect_param(const watched *w, const ls_assembly *a, int param, uint32_t step,
                           double clip, const char *where)
{
    const ls_param_table *table = w->table;
    const float *gradient = w->values[step][LS_PHASE_GRADIENT][param];
    const size_t n = ls_param_elements(&table->params[param]);
    const double factor = ls_clip_factor(w->norm[step] * w->norm[step], clip);
    const ls_assembled *t = seen(a, LS_VIEW_PARAM_GRADIENT, param, -1, step, table);
    expect_values(t, gradient, where);
    expect_values(seen(a, LS_VIEW_PARAM, param, -1, step, table),
                  w->values[step][LS_PHASE_UPDATE][param], where);

    t = seen(a, LS_VIEW_CLIPPED, param, -1, step, table);
    if (factor == 1) expect_values(t, gradient, where);
    for (size_t i = 0; i < n; i++) {
        /* The factor comes from a square root here, squared again: a rounding away. */
        const float clipped = ((const float *)t->values)[i], scaled = gradient[i] * (float)factor;
        ck_assert_msg(fabsf(clipped - scaled) <= 2.5e-7f * fabsf(scaled), "%s: %s clipped, %zu",
                      where, t->of, i);
    }
    if (table->params[param].uses == 1) {
        ck_assert_ptr_null(ls_assembly_find_other(a, LS_VIEW_USE_GRADIENT, param, 0, step));
        return 3;
    }
    const float *use[2];
    float *sum = malloc(n * sizeof *sum);
    bool both = false;
    for (int u = 0; u < 2; u++)
        use[u] = seen(a, LS_VIEW_USE_GRADIENT, param, u, step, table)->values;
    for (size_t i = 0; i < n; i++) {
        sum[i] = use[0][i] + use[1][i];
        both |= use[0][i] != 0 && use[1][i] != 0;
    }
    ck_assert_msg(memcmp(sum, gradient, n * sizeof *sum) == 0, "%s: uses do not add up", where);
    ck_assert(both);
    free(sum);
    return 5;
}

static void expect_seen(const watched *w, const ls_assembly *a, double clip, const char *where)
{
    size_t others = 0, expected = 0;
    for (size_t i = 0; i < ls_assembly_count(a); i++)
        others += ls_assembly_get(a, i)->kind != LS_VIEW_POINT;
    for (uint32_t step = 0; step < STEPS; step++) {
        const ls_assembled *loss = seen(a, LS_VIEW_LOSS, -1, -1, step, w->table);
        const ls_assembled *norm = seen(a, LS_VIEW_NORM, -1, -1, step, w->table);
        ck_assert_int_eq(norm->dtype, LS_F64);
        ck_assert_msg((double)*(const float *)loss->values == w->loss[step], "%s: loss", where);
        ck_assert_msg(*(const double *)norm->values == w->norm[step], "%s: norm", where);
        expected += 2;
        for (size_t p = 0; p < w->table->count; p++)
            expected += expect_param(w, a, (int)p, step, clip, where);
    }
    ck_assert_uint_eq(others, expected);
}

static const grid_of grids[] = {
    {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 2, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_SELECTIVE},
    {1, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 6, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE}, /* the last shard of V: padding alone */
    {1, 2, 2, true, 2, 2, LS_INTERLEAVED, LS_RECOMPUTE_NONE},
    {1, 4, 1, false, 1, 5, LS_1F1B, LS_RECOMPUTE_STAGE},
    {2, 2, 3, false, 1, 2, LS_1F1B, LS_RECOMPUTE_LAYER},
    {5, 1, 2, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
};

static void expect_layout(const ls_run *serial, const watched *w, const grid_of *grid, bool sp)
{
    ls_run run = *serial;
    ls_assembly *assembly;
    ls_train_result result;
    char where[256];
    run.serial = false;
    run.no_digest = true;
    run.layout = fixture_layout(grid);
    run.layout.sp &= sp;
    ls_layout_describe(&run.layout, where, sizeof where);
    expect_ok(ls_assembly_create(&assembly));
    run.observer = ls_assembly_observer(assembly);
    ck_assert_msg(ls_train(&run, NULL, &result) == LS_OK, "%s: %s", where, ls_error_text());
    ck_assert_str_eq(result.digest, "");
    ck_assert_msg(ls_assembly_check(assembly) == LS_OK, "%s: %s", where, ls_error_text());
    expect_seen(w, assembly, run.clip, where);
    ls_train_result_free(&result);
    ls_assembly_destroy(&assembly);
}

START_TEST(every_layout)
{
    ls_config config = model_config((model)_i);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, STEPS);
    watched w = {0};
    run.clip = 0.05;
    watch(&w, &run);
    ck_assert(w.norm[0] > 2 * run.clip && w.norm[1] > 2 * run.clip);
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++)
        expect_layout(&run, &w, &grids[g], _i != ROW_FIRST);
    forget(&w);
}
END_TEST

START_TEST(without_clipping)
{
    ls_config config = model_config((model)_i);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, STEPS);
    watched w = {0};
    run.clip = _i == GPT2 ? 1e6 : 0;
    watch(&w, &run);
    expect_layout(&run, &w, &grids[6], _i != ROW_FIRST);
    forget(&w);
}
END_TEST

/* ---- copies that differ ---- */

typedef struct meddler {
    float *value; /* of the final norm's scale, on rank 1 */
    size_t shown; /* after that */
    pthread_mutex_t lock;
} meddler;

/* What nobody should do: changes a parameter of rank 1 behind the run's back. */
static ls_status meddle(void *context, ls_rank *rank, const ls_view *view)
{
    meddler *m = context;
    if (view->kind != LS_VIEW_PARAM || strcmp(view->name, "final_norm.weight") != 0) return LS_OK;
    pthread_mutex_lock(&m->lock);
    if (ls_rank_index(rank) == 1 && view->step == 0) {
        m->value = (float *)(uintptr_t)view->values;
        m->value[0] += 1;
    }
    m->shown++;
    pthread_mutex_unlock(&m->lock);
    return LS_OK;
}

/* A run whose replicas differ gets to its end when no digest is asked for. */
START_TEST(copies_that_differ)
{
    ls_config config = model_config(GPT2);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, STEPS);
    for (int no_digest = 0; no_digest < 2; no_digest++) {
        ls_train_result result = {0};
        meddler m = {0};
        const ls_observer observer = {&m, meddle};
        pthread_mutex_init(&m.lock, NULL);
        run.serial = false;
        run.layout.tp = 2;
        run.observer = &observer;
        run.no_digest = no_digest;
        ls_error_clear();
        ls_status status = ls_train(&run, NULL, &result);
        ck_assert_int_eq(status, no_digest ? LS_OK : LS_ERR_RANK);
        ck_assert_uint_eq(m.shown, 2 * STEPS);
        ls_train_result_free(&result);
        pthread_mutex_destroy(&m.lock);
    }
}
END_TEST

/* ---- what a view belongs to ---- */

typedef struct finder {
    ls_graph *graph;
    unsigned *found; /* per node */
    size_t lost;
} finder;

static ls_status look_up(void *context, ls_rank *rank, const ls_view *view)
{
    finder *f = context;
    (void)rank;
    const int node = ls_graph_find_view(f->graph, view);
    if (view->comm != LS_COMM_NONE) return node < 0 ? LS_OK : LS_ERR_INTERNAL;
    if (node < 0) f->lost++;
    if (node < 0) return LS_OK;
    f->found[node]++;
    const ls_graph_node *n = &f->graph->nodes[node];
    if (ls_graph_find(f->graph, n->name) != node || n->n_dims != view->n_dims) f->lost++;
    for (int d = 0; d < n->n_dims; d++) f->lost += n->dims[d] != view->dims[d].whole;
    if (view->kind == LS_VIEW_USE_GRADIENT &&
        strstr(n->name, view->use ? ".as_head" : ".as_input") == NULL)
        f->lost++;
    return LS_OK;
}

/* Every view of a run has its node and every node its view; names lead to nodes. */
START_TEST(nodes_of_views)
{
    ls_config config = model_config((model)_i);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, 1);
    ls_param_table *table;
    ls_train_result result;
    finder f = {0};
    const ls_observer observer = {&f, look_up};
    expect_ok(ls_param_table_create(&table, &config));
    expect_ok(ls_graph_create(&f.graph, table, config.batch, config.seq));
    f.found = calloc(f.graph->count, sizeof *f.found);
    run.serial = false;
    run.observer = &observer;
    expect_ok(ls_train(&run, NULL, &result));
    ck_assert_uint_eq(f.lost, 0);
    for (size_t i = 0; i < f.graph->count; i++) {
        const ls_graph_node *node = &f.graph->nodes[i];
        const bool by_head = node->point == LS_POINT_PROBABILITIES;
        ck_assert_msg(f.found[i] == (by_head ? config.batch * config.heads : 1),
                      "%s: seen %u times", node->name, f.found[i]);
    }
    ck_assert_int_eq(ls_graph_find(f.graph, "layers.4.query"), -1);
    ck_assert_int_eq(ls_graph_find(f.graph, ""), -1);
    ls_view none = {.point = LS_POINT_QUERY, .layer = 4};
    ck_assert_int_eq(ls_graph_find_view(f.graph, &none), -1);
    none.kind = LS_VIEW_CLIPPED;
    none.param = (int)table->count;
    ck_assert_int_eq(ls_graph_find_view(f.graph, &none), -1);
    ls_train_result_free(&result);
    free(f.found);
    ls_graph_destroy(&f.graph);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("param_views", 120);
    tcase_add_loop_test(tests, every_layout, 0, MODELS);
    tcase_add_loop_test(tests, without_clipping, 0, MODELS);
    tcase_add_test(tests, copies_that_differ);
    tcase_add_loop_test(tests, nodes_of_views, 0, MODELS);
    return run_tests();
}
