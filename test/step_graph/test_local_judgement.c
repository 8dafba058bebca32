/* Every tensor that the ranks of a run show through an observer, forward and backward, and the
 * gradients of all parameters lie within the bounds of their operations, computed from the run's
 * own tensors. BOUNDED; models of every kind, several layouts. */
#include <math.h>
#include <stdlib.h>

#include "lockstep/serial/serial.h"
#include "verify/assemble.h"
#include "step_graph/operation.h"
#include "verify/observed_models.h"
#include "train/checkpoint.h"
#include "train/training.h"
#include "run_tests.h"

/* The first step of a run, its tensors in binary64. */
typedef struct judged {
    ls_config config;
    ls_text text;
    ls_run run;
    ls_param_table *table;
    ls_store *store;
    ls_serial *serial;
    ls_step_batch batch;
    ls_assembly *seen;
    ls_graph *graph;
    double **values, **params;
} judged;

static double *widened(const float *values, size_t n)
{
    double *wide = malloc(n * sizeof *wide);
    ck_assert_ptr_nonnull(wide);
    for (size_t i = 0; i < n; i++) wide[i] = (double)values[i];
    return wide;
}

static double *whole_slot(const judged *j, size_t p, const float *held)
{
    const ls_param *param = &j->table->params[p];
    const size_t n = ls_param_elements(param);
    float *whole = malloc(n * sizeof *whole);
    ck_assert_ptr_nonnull(whole);
    ls_param_shard_out(param, j->store->slots[p].shard, sizeof *whole, whole, held);
    double *wide = widened(whole, n);
    free(whole);
    return wide;
}

/* The run, and the serial model's gradients, which are the run's (verify says so). */
static void begin(judged *j, model m, const grid_of *grid)
{
    ls_train_result result;
    uint64_t first;
    float loss;
    memset(j, 0, sizeof *j);
    j->config = model_config(m);
    j->text = fixture_text();
    j->run = fixture_run(&j->config, &j->text, 1);
    expect_ok(ls_assembly_create(&j->seen));
    j->run.serial = false;
    j->run.layout = fixture_layout(grid);
    j->run.observer = ls_assembly_observer(j->seen);
    expect_ok(ls_train(&j->run, NULL, &result));
    ls_train_result_free(&result);

    expect_ok(ls_param_table_create(&j->table, &j->config));
    expect_ok(ls_store_create_f32(&j->store, j->table, NULL, NULL));
    expect_ok(ls_serial_create_f32(&j->serial, j->store, j->run.engine, NULL));
    expect_ok(ls_step_batch_create(&j->batch, &j->run, 0, j->run.batch));
    expect_ok(ls_checkpoint_begin_f32(&j->run, j->store, &first));
    ls_step_batch_fill(&j->batch, &j->run, 0);
    expect_ok(ls_serial_forward_f32(j->serial, &j->batch.batch, &loss));
    expect_ok(ls_serial_backward_f32(j->serial));
    expect_ok(ls_graph_create(&j->graph, j->table, j->batch.batch.B, j->batch.batch.S));
    j->values = calloc(j->graph->count, sizeof *j->values);
    j->params = calloc(j->table->count, sizeof *j->params);
    ck_assert(j->values && j->params);
    for (size_t p = 0; p < j->table->count; p++) {
        j->params[p] = whole_slot(j, p, j->store->slots[p].value);
        j->values[ls_graph_param_gradient(j->graph, (int)p)] =
            whole_slot(j, p, j->store->slots[p].grad[0]);
    }
}

/* What the observer saw, at its nodes: each node with a point was seen, in the node's shape. */
static void take_seen(judged *j)
{
    size_t found = 0;
    for (size_t i = 0; i < j->graph->count; i++) {
        const ls_graph_node *node = &j->graph->nodes[i];
        if (node->point == LS_POINTS) continue;
        const ls_assembled *t = ls_assembly_find(j->seen, node->point,
                                                 node->phase == LS_GRAPH_BACKWARD, node->layer, 0);
        ck_assert_msg(t != NULL, "%s is not seen", node->name);
        ck_assert_int_eq(t->n_dims, node->n_dims);
        ck_assert_mem_eq(t->dims, node->dims, (size_t)node->n_dims * sizeof *t->dims);
        j->values[i] = widened(t->values, t->count);
        found++;
    }
    for (size_t i = 0; i < ls_assembly_count(j->seen); i++) /* and no other point was */
        found -= ls_assembly_get(j->seen, i)->kind == LS_VIEW_POINT;
    ck_assert_uint_eq(found, 0);
}

static void end(judged *j)
{
    for (size_t i = 0; i < j->graph->count; i++) free(j->values[i]);
    for (size_t p = 0; p < j->table->count; p++) free(j->params[p]);
    free(j->values), free(j->params);
    ls_graph_destroy(&j->graph);
    ls_step_batch_free(&j->batch);
    ls_serial_destroy_f32(&j->serial);
    ls_store_destroy_f32(&j->store);
    ls_param_table_destroy(&j->table);
    ls_assembly_destroy(&j->seen);
}

/* Elements of a node that are not within the bound. */
static size_t outside_of(const judged *j, size_t place, ls_dtype dtype)
{
    const size_t n = ls_graph_elements(j->graph, (int)place);
    double *truth = malloc(n * sizeof *truth), *bound = malloc(n * sizeof *bound);
    const ls_operands operands = {.graph = j->graph,
                                  .batch = &j->batch.batch,
                                  .values = (const double *const *)j->values,
                                  .params = (const double *const *)j->params};
    size_t count = 0;
    ck_assert(truth && bound);
    expect_ok(
        ls_operation_evaluate(&operands, (int)place, ls_precision_of(dtype, 8), truth, bound));
    for (size_t i = 0; i < n; i++)
        if (!(fabs(j->values[place][i] - truth[i]) <= bound[i])) count++;
    free(truth), free(bound);
    return count;
}

static size_t outside(const judged *j, size_t place)
{
    return outside_of(j, place, LS_F32);
}

/* value with `bits` significant bits (f16's range is not left here) */
static double rounded(double value, int bits)
{
    int exponent;
    const double fraction = frexp(value, &exponent);
    return ldexp(rint(ldexp(fraction, bits)), exponent - bits);
}

static const grid_of grids[] = {
    {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 3, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_SELECTIVE},
    {5, 2, 2, false, 1, 1, LS_1F1B, LS_RECOMPUTE_LAYER},
};

START_TEST(a_right_run_is_within)
{
    judged j;
    begin(&j, (model)_i, &grids[_i == ROW_FIRST ? 2 : _i % 3]); /* that model knows no sp */
    take_seen(&j);
    for (size_t i = 0; i < j.graph->count; i++)
        if (j.values[i])
            ck_assert_msg(outside(&j, i) == 0, "%s: %zu elements of %s are outside", j.config.name,
                          outside(&j, i), j.graph->nodes[i].name);
    end(&j);
}
END_TEST

/* The same run, its tensors written down in bf16 or f16: each is a rounding away from what the next
 * operation had. The weights stay. */
START_TEST(a_coarser_file_is_within)
{
    judged j;
    const ls_dtype dtype = _i % 2 ? LS_F16 : LS_BF16;
    begin(&j, (model)(_i / 2), &grids[0]);
    take_seen(&j);
    for (size_t i = 0; i < j.graph->count; i++)
        for (size_t k = 0; j.values[i] && k < ls_graph_elements(j.graph, (int)i); k++) {
            double *value = &j.values[i][k];
            *value = dtype == LS_F16 && fabs(*value) < 0x1p-14 ? rint(*value * 0x1p24) * 0x1p-24
                                                               : rounded(*value, _i % 2 ? 11 : 8);
        }
    for (size_t i = 0; i < j.graph->count; i++)
        if (j.values[i])
            ck_assert_msg(outside_of(&j, i, dtype) == 0, "%s: %zu elements of %s are outside",
                          j.config.name, outside_of(&j, i, dtype), j.graph->nodes[i].name);
    end(&j);
}
END_TEST

/* A tensor changed a little: it is blamed, with those that read it, and nothing else. */
START_TEST(a_fault_is_found_where_it_is)
{
    judged j;
    begin(&j, GPT2, &grids[1]);
    take_seen(&j);
    const int place = ls_graph_find(j.graph, "layers.2.up");
    ck_assert_int_ge(place, 0);
    for (size_t i = 0; i < ls_graph_elements(j.graph, place); i++) j.values[place][i] *= 1 + 1e-3;
    for (size_t i = 0; i < j.graph->count; i++) {
        if (!j.values[i]) continue;
        bool blamed = (int)i == place || ls_graph_slot(&j.graph->nodes[i], place) >= 0;
        ck_assert_msg(blamed == (outside(&j, i) > 0), "%s", j.graph->nodes[i].name);
    }
    end(&j);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("local_judgement", 60);
    tcase_add_loop_test(tests, a_right_run_is_within, 0, MODELS);
    tcase_add_loop_test(tests, a_coarser_file_is_within, 0, 2 * MODELS);
    tcase_add_test(tests, a_fault_is_found_where_it_is);
    return run_tests();
}
