/* GELU by erf as vectorised libraries compute it, in binary32 with the polynomial 7.1.26 of
 * Abramowitz and Stegun, lies within the bounds, forward and backward; another activation or
 * another constant does not. */
#include "graph_evaluation.h"
#include "run_tests.h"

enum { SWEEPS = 400 };
#define WIDEST 6.0

/* How a candidate computes it. */
typedef struct form {
    const char *name;
    float scale;        /* of x in erf */
    bool relu, tangent; /* instead */
} form;

static const form right = {"GELU by erf", 0.70710678F, false, false};
static const form wrong[] = {
    {"another factor of x in erf", 0.70F, false, false},
    {"ReLU", 0, true, false},
    {"GELU by tanh", 0, false, true},
};

/* Off by up to 1.5e-7 everywhere, near 0 too. */
static float polynomial_erf(float x)
{
    static const float a[] = {1.061405429F, -1.453152027F, 1.421413741F, -0.284496736F,
                              0.254829592F};
    const float t = 1 / (1 + 0.3275911F * fabsf(x));
    float sum = a[0];
    for (int i = 1; i < 5; i++) sum = sum * t + a[i];
    return copysignf(1 - sum * t * expf(-x * x), x);
}

static void activate(const form *of, float x, float *ret_y, float *ret_slope)
{
    const float root = 0.7978845608F;
    if (of->relu) {
        *ret_y = x > 0 ? x : 0;
        *ret_slope = x > 0 ? 1 : 0;
        return;
    }
    if (of->tangent) {
        const float t = tanhf(root * (x + 0.044715F * x * x * x));
        *ret_y = 0.5F * x * (1 + t);
        *ret_slope = 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * root * (1 + 0.134145F * x * x);
        return;
    }
    const float half = 0.5F * (1 + polynomial_erf(x * of->scale));
    *ret_y = x * half;
    *ret_slope = half + x * expf(-0.5F * x * x) * (0.5F * root);
}

/* Elements of `name` in the form of a candidate that are not within the bound. */
static size_t outside(whole_step *s, const form *of, const char *name, bool backward)
{
    const int place = ls_graph_find(s->graph, name);
    const size_t n = ls_graph_elements(s->graph, place);
    const double *x = whole_step_values(s, "layers.0.up");
    const double *dy = whole_step_values(s, "d.layers.0.activation");
    double *truth = malloc(n * sizeof *truth), *bound = malloc(n * sizeof *bound);
    double *values = malloc(n * sizeof *values);
    ck_assert(truth && bound && values);
    ck_assert_int_eq(
        ls_operation_evaluate(&s->operands, place, ls_precision_of(LS_F32, 1), truth, bound),
        LS_OK);
    for (size_t i = 0; i < n; i++) {
        float y, slope;
        activate(of, (float)x[i], &y, &slope);
        values[i] = (double)(backward ? (float)dy[i] * slope : y);
    }
    const size_t count = count_outside(values, truth, bound, n);
    free(truth), free(bound), free(values);
    return count;
}

/* The arguments of a sweep: side by side with those of others from -WIDEST to WIDEST; every second
 * sweep nearer to 0, down to 1e-6 of that. */
static void fill(whole_step *s, int sweep)
{
    static const char *const names[] = {"layers.0.up", "d.layers.0.activation"};
    for (int k = 0; k < 2; k++) {
        const int node = ls_graph_find(s->graph, names[k]);
        const size_t n = ls_graph_elements(s->graph, node);
        free(s->values[node]);
        s->values[node] = malloc(n * sizeof **s->values);
        ck_assert_ptr_nonnull(s->values[node]);
        for (size_t i = 0; i < n; i++) {
            const double at = ((double)i * SWEEPS + sweep) / ((double)n * SWEEPS);
            const double near = sweep % 2 ? pow(10, -6.0 * sweep / SWEEPS) : 1;
            s->values[node][i] = k == 0 ? (double)(float)(WIDEST * (2 * at - 1) * near) : 0.375;
        }
    }
}

START_TEST(the_polynomial_is_right)
{
    const ls_config config = tiny_config(1);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    ls_param_table *table = NULL;
    ck_assert_int_eq(config.activation, LS_GELU_ERF);
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, NULL, 0);
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        fill(&s, sweep);
        ck_assert_uint_eq(outside(&s, &right, "layers.0.activation", false), 0);
        ck_assert_uint_eq(outside(&s, &right, "d.layers.0.up", true), 0);
    }
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

START_TEST(another_activation_is_not)
{
    const ls_config config = tiny_config(1);
    tiny_ids ids;
    const ls_batch batch = tiny_batch_of(&ids, &config);
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    whole_step s = whole_step_create(table, &batch, NULL, 0);
    fill(&s, 0);
    const size_t n = ls_graph_elements(s.graph, ls_graph_find(s.graph, "layers.0.up"));
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ck_assert_msg(outside(&s, &wrong[k], "layers.0.activation", false) > n / 2, "%s",
                      wrong[k].name);
        ck_assert_msg(outside(&s, &wrong[k], "d.layers.0.up", true) > n / 2, "%s", wrong[k].name);
    }
    whole_step_destroy(&s);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("foreign_erf", 60);
    tcase_add_test(tests, the_polynomial_is_right);
    tcase_add_test(tests, another_activation_is_not);
    return run_tests();
}
