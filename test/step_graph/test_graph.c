/* The graph of a step: is it a list in order, whole, without names that mean two things, and does
 * what it says of every tensor make up the step that the serial model computes? */
#define LS_REAL_IS_F64 /* the truth is in binary64 */
#include "graph_evaluation.h"
#include "run_tests.h"

static void check_order(const ls_graph *graph, const char *model)
{
    for (int i = 0; i < (int)graph->count; i++) {
        const ls_graph_node *node = &graph->nodes[i];
        for (int x = 0; x < LS_NODE_INPUTS && node->inputs[x] >= 0; x++)
            ck_assert_msg(node->inputs[x] < i, "%s: %s reads what comes later", model, node->name);
        ck_assert_msg(ls_graph_find(graph, node->name) == i, "%s: two nodes %s", model, node->name);
        ck_assert(i == 0 || node->phase >= graph->nodes[i - 1].phase);
        size_t words = node->n_dims > 0;
        for (const char *c = node->dim_names; *c; c++) words += *c == ' ';
        ck_assert_msg(words == (size_t)node->n_dims, "%s: dimensions of %s: %s", model, node->name,
                      node->dim_names);
        for (int d = 0; d < node->n_dims; d++) ck_assert_uint_gt(node->dims[d], 0);
    }
    ck_assert_int_eq(ls_graph_find(graph, "layers.9.query"), -1);
}

static void check_params(const ls_graph *graph)
{
    for (size_t p = 0; p < graph->table->count; p++) {
        const ls_param *param = &graph->table->params[p];
        static const char *before[] = {"grad", "clipped", "param"};
        for (int k = 0; k < 3; k++) {
            char name[128];
            snprintf(name, sizeof name, "%s.%s", before[k], param->name);
            const int place = ls_graph_find(graph, name);
            ck_assert_msg(place >= 0, "no %s", name);
            ck_assert_uint_eq(ls_graph_elements(graph, place), ls_param_elements(param));
        }
    }
}

/* Every forward point of the model can be found from a view, and from its gradient's. */
static void check_views(const ls_graph *graph)
{
    for (int i = 0; i < (int)graph->count; i++) {
        const ls_graph_node *node = &graph->nodes[i];
        ls_view view = {.point = node->point,
                        .gradient = node->phase == LS_GRAPH_BACKWARD,
                        .layer = node->layer};
        if (node->point == LS_POINTS) continue;
        ck_assert_int_eq(ls_graph_find_view(graph, &view), i);
        view.comm = LS_COMM_PARTIAL;
        ck_assert_int_eq(ls_graph_find_view(graph, &view), -1);
    }
}

START_TEST(a_list_in_order)
{
    const ls_config config = tiny_config((size_t)_i);
    ls_param_table *table = NULL;
    ls_graph *graph = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    ck_assert_int_eq(ls_graph_create(&graph, table, TINY_B, TINY_S), LS_OK);
    ck_assert_uint_le(graph->count, graph->room);
    check_order(graph, config.name);
    check_params(graph);
    check_views(graph);
    ls_graph_destroy(&graph);
    ls_param_table_destroy(&table);
}
END_TEST

/* Largest error of a tensor, beside its largest value. */
static void check_near(const char *model, const char *name, const double *values,
                       const double *truth, size_t n, double scale)
{
    for (size_t i = 0; i < n; i++) scale = fmax(scale, fabs(truth[i]));
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!!(fabs(values[i] - truth[i]) <= 1e-12 * scale),
                      "%s: %s[%zu] is %.17g, not %.17g", model, name, i, values[i], truth[i]);
}

/* The named nodes against the slots of the store: gradients, or values. */
static void check_slots(const fixture *f, const whole_step *s, const char *before, bool values)
{
    for (size_t p = 0; p < f->table->count; p++) {
        const ls_param *param = &f->table->params[p];
        const ls_slot *slot = &f->store->slots[p];
        const size_t n = ls_param_elements(param);
        double *whole = malloc(n * sizeof *whole);
        char name[128];
        snprintf(name, sizeof name, "%s.%s", before, param->name);
        ck_assert_ptr_nonnull(whole);
        ls_param_shard_out(param, slot->shard, sizeof *whole, whole,
                           values ? slot->value : slot->grad[0]);
        check_near(f->table->config.name, name, whole_step_values(s, name), whole, n, 1e-3);
        free(whole);
    }
}

START_TEST(makes_up_the_serial_step)
{
    const ls_config config = tiny_config((size_t)_i);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    const double max_norm = _i % 3 == 2 ? 0 : 0.25;
    ls_update update = {.optimizer = _i % 4 == 1 ? LS_SGD : LS_ADAMW,
                        .lr = 0.01,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-3,
                        .weight_decay = 0.1,
                        .t = 1};
    fixture f = fixture_create(&config, LS_ENGINE_PLAIN);
    whole_step s = whole_step_create(f.table, &batch, &update, max_norm);
    for (int i = 0; i < (int)s.graph->count; i++) whole_step_node(&s, i, false);

    const double loss = fixture_gradients(&f, &batch);
    check_near(config.name, "loss", whole_step_values(&s, "loss"), &loss, 1, 0);
    check_slots(&f, &s, "grad", false);
    double squares = (double)NAN;
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    squares = sqrt(squares);
    check_near(config.name, "norm", whole_step_values(&s, "norm"), &squares, 1, 0);
    ck_assert(max_norm == 0 || squares > max_norm);
    ls_serial_update(f.serial, &update, squares * squares, max_norm);
    check_slots(&f, &s, "clipped", false);
    check_slots(&f, &s, "param", true);

    /* The second update, with what the first left behind. */
    const size_t count = f.table->count;
    double **m = calloc(count, sizeof *m), **v = calloc(count, sizeof *v);
    ck_assert(m && v);
    for (size_t p = 0; p < count; p++) {
        char name[128];
        snprintf(name, sizeof name, "param.%s", f.table->params[p].name);
        const int place = ls_graph_find(s.graph, name);
        const size_t n = ls_graph_elements(s.graph, place);
        m[p] = calloc(n, sizeof **m);
        v[p] = calloc(n, sizeof **v);
        ck_assert(m[p] && v[p]);
        ck_assert_int_eq(ls_operation_moments(&s.operands, place, m[p], v[p]), LS_OK);
        memcpy(whole_step_param(&s, p), s.values[place], n * sizeof **m);
    }
    s.operands.moment1 = (const double *const *)m;
    s.operands.moment2 = (const double *const *)v;
    update.t = 2;
    for (int i = 0; i < (int)s.graph->count; i++) whole_step_node(&s, i, false);
    (void)fixture_gradients(&f, &batch);
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    ls_serial_update(f.serial, &update, squares, max_norm);
    check_slots(&f, &s, "param", true);

    for (size_t p = 0; p < count; p++) free(m[p]), free(v[p]);
    free(m), free(v);
    whole_step_destroy(&s);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("graph", 60);
    tcase_add_loop_test(tests, a_list_in_order, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tests, makes_up_the_serial_step, 0, N_TINY_SERIAL);
    return run_tests();
}
