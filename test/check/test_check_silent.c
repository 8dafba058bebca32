/* What a judgement does not name: NaN, lists of losses, a single loss; and what it names once: what
 * lies before tensors whose inputs are missing, gradients that were clipped otherwise. */
#include "check/check_fixture.h"
#include "run_tests.h"

static bool is_named(const check_fixture *c, int node, const char *pattern)
{
    return ls_name_fits(pattern, c->f.graph->nodes[node].name);
}

static void fill(const check_fixture *c, int node, double with, double *values)
{
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++) values[i] = with;
}

static void expect_one(const check_fixture *c, ls_cause cause, const char *evidence)
{
    ck_assert_uint_eq(c->findings->count, 1);
    const ls_suspicion *s = &c->findings->list[0].suspicion;
    ck_assert_msg(s->cause == cause && strstr(s->evidence, evidence), "%s: %s",
                  ls_mistake_of(s->cause)->sentence, s->evidence);
}

/* From one element on, everything that is made of it is no number, or wrong. */
static void nan_queries(check_fixture *c, size_t step, int node, const ls_operands *operands,
                        double *values)
{
    (void)step, (void)operands;
    if (is_named(c, node, "layers.1.query")) values[1 * 7 * 16 + 2 * 16 + 3] = (double)NAN;
    if (is_named(c, node, "layers.1.probabilities")) fill(c, node, (double)NAN, values);
}

START_TEST(nan_names_nothing)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, nan_queries);
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_NONE, "not a number from step0/layers.1.query [1, 2, 3] on");
    check_fixture_end(&c);
}
END_TEST

static void other_losses(check_fixture *c, size_t step, int node, const ls_operands *operands,
                         double *values)
{
    (void)operands;
    if (step > 0 && is_named(c, node, "loss")) values[0] *= 1.1;
}

START_TEST(losses_name_nothing)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, other_losses);
    candidate_keep_only(&c, "loss");
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_NONE, "outside the envelope of right runs from step 1 on");
    check_fixture_end(&c);
}
END_TEST

/* The activation is another; of the step only loss, gradients and parameters are given. */
static void other_activation(check_fixture *c, size_t step, int node, const ls_operands *operands,
                             double *values)
{
    const ls_variant variant = {.activation = LS_ACTIVATION_RELU};
    ls_operands changed = *operands;
    (void)step;
    changed.variant = &variant;
    fixture_ok(ls_operation_evaluate(&changed, node, ls_precision_of(LS_F64, 1), values, NULL));
    (void)c;
}

START_TEST(what_is_before_is_one_mistake)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, other_activation);
    for (size_t n = 0; n < c.f.graph->count; n++) {
        const char *name = c.f.graph->nodes[n].name;
        if (strcmp(name, "loss") == 0 || ls_name_fits("param.*", name) ||
            (ls_name_fits("grad.*", name) && !ls_name_fits("*.as_*", name)))
            continue;
        free(c.mine[0][n]);
        c.mine[0][n] = NULL;
    }
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_GELU_VARIANT, "");
    ck_assert_str_eq(c.findings->list[0].tensor->golden->name, "step0/loss");
    check_fixture_end(&c);
}
END_TEST

static char other[1], halved[1];

static void other_clipping(check_fixture *c, size_t step, int node, const ls_operands *operands,
                           double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    const double *g = operands->values[n->inputs[0] >= 0 ? n->inputs[0] : 0];
    (void)step;
    for (size_t i = 0; n->make == LS_MAKE_CLIPPED && i < ls_graph_elements(c->f.graph, node); i++)
        values[i] = c->context == halved ? values[i] / 2
                    : c->context         ? 0.21 * g[i]
                                         : fmin(fmax(g[i], -0.02), 0.02);
}

START_TEST(clipped_otherwise)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, other_clipping);
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_CLIPPED_BY_VALUE, "cut off at +-0.02");
    c.context = other;
    candidate_computed(&c, LS_F32, other_clipping);
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_CLIPPED_ELSEWHERE, "scaled by 0.21");
    /* the norm is right, so that no other one is claimed */
    c.context = halved;
    candidate_computed(&c, LS_F32, other_clipping);
    check_fixture_judge(&c, NULL);
    expect_one(&c, LS_CAUSE_FACTOR, "all clipped gradients are 1/2 x right");
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_silent", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, nan_names_nothing);
    tcase_add_test(tests, losses_name_nothing);
    tcase_add_test(tests, what_is_before_is_one_mistake);
    tcase_add_test(tests, clipped_otherwise);
    return run_tests();
}
