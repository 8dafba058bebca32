/* Tensors of a model that differs in one constant or one rule do not lie within the bounds. */
#include "graph_evaluation.h"
#include "run_tests.h"

typedef struct mistake {
    const char *node; /* where it must show */
    size_t model;
    void (*make)(ls_config *config);
} mistake;

static void other_eps(ls_config *c)
{
    c->norm_eps *= 1.001;
}
static void twice_eps(ls_config *c)
{
    c->norm_eps *= 2;
}
static void other_gelu(ls_config *c)
{
    c->activation = LS_GELU_ERF;
}
static void no_mask(ls_config *c)
{
    c->causal = false;
}
static void other_angle(ls_config *c)
{
    c->rope_theta *= 1.01;
}
static void other_scale(ls_config *c)
{
    c->heads = c->kv_heads = 3;
}
static void no_dropout(ls_config *c)
{
    c->dropout = 0;
}
static void other_smoothing(ls_config *c)
{
    c->label_smoothing += 0.001;
}

static const mistake mistakes[] = {
    {"layers.1.norm1", 0, other_eps},
    {"layers.1.norm2", 2, other_eps},
    {"layers.0.activation", 0, other_gelu},
    {"d.layers.0.up", 0, other_gelu},
    {"layers.1.probabilities", 0, no_mask},
    {"d.layers.1.key", 0, no_mask},
    {"layers.1.heads", 0, other_scale},
    {"d.layers.1.query", 0, other_scale},
    {"layers.1.query", 3, other_angle},
    {"layers.1.after_attention", 0, no_dropout},
    {"layers.1.heads", 0, no_dropout},
    {"d.embedding", 0, no_dropout},
    {"token_loss", 5, other_smoothing},
    {"d.logits", 5, other_smoothing},
    {"d.layers.1.after_attention", 0, twice_eps},
};

START_TEST(another_model_lies_outside)
{
    const mistake *wrong = &mistakes[_i];
    const ls_config config = tiny_config(wrong->model);
    ls_config other = config;
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    const ls_update update = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3, .t = 1};
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, &update, 0);
    const int place = ls_graph_find(s.graph, wrong->node);
    ck_assert_int_ge(place, 0);
    for (int i = 0; i <= place; i++) whole_step_node(&s, i, true);
    const size_t n = ls_graph_elements(s.graph, place);
    double *truth = malloc(n * sizeof *truth), *bound = malloc(n * sizeof *bound);
    ck_assert(truth && bound);
    const double *values = s.values[place];

    ck_assert_int_eq(
        ls_operation_evaluate(&s.operands, place, ls_precision_of(LS_F32, 1), truth, bound), LS_OK);
    ck_assert_uint_eq(count_outside(values, truth, bound, n), 0);
    wrong->make(&other);
    table->config = other;
    ck_assert_int_eq(
        ls_operation_evaluate(&s.operands, place, ls_precision_of(LS_F32, 1), truth, bound), LS_OK);
    ck_assert_uint_gt(count_outside(values, truth, bound, n), 0);

    free(truth), free(bound);
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("other_models", 60);
    tcase_add_loop_test(tests, another_model_lies_outside, 0,
                        (int)(sizeof mistakes / sizeof *mistakes));
    return run_tests();
}
