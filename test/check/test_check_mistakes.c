/* Wrong candidates: the operation that is wrong by itself is found whatever comes behind it,
 * several mistakes are several findings, one mistake in many places is one; and what can be said
 * when tensors between are missing. */
#include "check/check_fixture.h"
#include "run_tests.h"

/* ---- mistakes ---- */

static bool is_named(const check_fixture *c, int node, const char *pattern)
{
    return ls_name_fits(pattern, c->f.graph->nodes[node].name);
}

static void scale(const check_fixture *c, int node, double factor, double *values)
{
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++) values[i] *= factor;
}

/* One operation is a thousandth too large. */
static void one_operation(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    (void)operands;
    if (step == 0 && is_named(c, node, c->context)) scale(c, node, 1.001, values);
}

/* Bias added once per rank of three, in every layer's attention (known from row-parallel layers
 * that add it before the sum). */
static void bias_per_rank(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    const size_t width = c->f.run.config.d_model;
    (void)step;
    if (!is_named(c, node, "layers.*.attention")) return;
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++)
        values[i] += 2 * operands->params[n->params[1]][i % width];
}

/* And the gradient of one norm's scale averaged over two ranks, and an update a second time. */
static void three_mistakes(check_fixture *c, size_t step, int node, const ls_operands *operands,
                           double *values)
{
    bias_per_rank(c, step, node, operands, values);
    if (is_named(c, node, "layers.1.activation")) scale(c, node, 1.01, values);
    if (is_named(c, node, "grad.layers.*.mlp.down.weight")) scale(c, node, 0.5, values);
}

/* ---- one wrong operation ---- */

static const char *const places[] = {
    "embedding",
    "layers.0.norm1",
    "layers.1.query",
    "layers.0.heads",
    "layers.1.attention",
    "layers.0.activation",
    "layers.1.layer",
    "logits",
    "token_loss",
    "loss",
    "d.logits",
    "d.layers.1.heads",
    "d.layers.0.norm2",
    "grad.layers.1.mlp.up.weight",
    "grad.token_embedding.weight",
    "norm",
    "clipped.layers.0.norm1.bias",
    "param.layers.1.mlp.down.bias",
};

/* A tensor that is not different, but made of different ones and right by itself: what is wrong
 * came in. Nothing but the place itself is blamed. */
START_TEST(one_wrong_operation_is_blamed)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    char name[128];
    check_fixture_begin(&c, &config, 1);
    c.context = (void *)(uintptr_t)places[_i];
    candidate_computed(&c, LS_F32, one_operation);
    check_fixture_judge(&c, NULL);
    snprintf(name, sizeof name, "step0/%s", places[_i]);
    ck_assert_ptr_nonnull(c.judgement->first);
    ck_assert_str_eq(c.judgement->first->golden->name, name);
    ck_assert_ptr_eq(c.findings->blame, c.judgement->first);
    ck_assert_int_eq(c.findings->blame->local, LS_LOCAL_OUTSIDE);
    ck_assert_uint_gt(c.findings->blame->outside, 0);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_uint_eq(c.findings->list[0].count, 1);
    ck_assert(!c.judgement->unrelated);
    for (size_t i = 0; i < c.judgement->count; i++) {
        const ls_judged *j = &c.judgement->tensors[i];
        if (j == c.findings->blame || j->verdict == LS_EQUAL) continue;
        ck_assert_msg(j->local == LS_LOCAL_WITHIN, "%s: %.3g of %.3g", j->golden->name,
                      j->local_error, j->local_bound);
        ck_assert(!j->aside);
    }
    check_fixture_end(&c);
}
END_TEST

/* A fault so small that a whole run's rounding hides it is seen where it is made. */
static void small_mistake(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    (void)step, (void)operands;
    if (is_named(c, node, "layers.1.layer")) scale(c, node, 1 + 1e-6, values);
}

START_TEST(a_small_mistake_is_seen_by_the_operation)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, small_mistake);
    check_fixture_judge(&c, NULL);
    const ls_judged *j = judged_of(&c, "layers.1.layer");
    ck_assert(j->within); /* else this says nothing */
    ck_assert_int_eq(j->local, LS_LOCAL_OUTSIDE);
    ck_assert_int_eq(j->verdict, LS_DIFFERENT_TENSOR);
    ck_assert_ptr_eq(c.findings->blame, j);
    check_fixture_judge(&c, &(ls_check_options){.quick = true});
    expect_none_different(&c);
    ck_assert_int_eq(judged_of(&c, "layers.1.layer")->local, LS_LOCAL_UNKNOWN);
    check_fixture_end(&c);
}
END_TEST

/* A large one is found all the same. */
START_TEST(a_quick_judgement_finds_what_is_large)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    c.context = (void *)(uintptr_t) "layers.1.up";
    candidate_computed(&c, LS_F32, one_operation);
    check_fixture_judge(&c, &(ls_check_options){.quick = true});
    ck_assert_str_eq(c.judgement->first->golden->name, "step0/layers.1.up");
    ck_assert_ptr_eq(c.findings->blame, c.judgement->first);
    ck_assert_uint_eq(c.findings->count, 1);
    check_fixture_end(&c);
}
END_TEST

/* ---- several ---- */

START_TEST(three_mistakes_are_three_findings)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, _i ? LS_BF16 : LS_F32, three_mistakes);
    if (_i) write_as(&c, LS_F32);
    check_fixture_judge(&c, NULL);
    ck_assert_str_eq(c.judgement->first->golden->name, "step0/layers.0.attention");
    ck_assert_ptr_eq(c.findings->blame, c.judgement->first);
    ck_assert_int_eq(c.findings->suspicion.cause, LS_CAUSE_BIAS_PER_RANK);
    const ls_finding *bias = finding_at(&c, "step0/layers.0.attention");
    ck_assert_ptr_eq(bias, &c.findings->list[0]);
    ck_assert_int_eq(bias->suspicion.cause, LS_CAUSE_BIAS_PER_RANK);
    ck_assert_uint_eq(bias->count, 2); /* both layers: one mistake */
    ck_assert_ptr_eq(finding_at(&c, "step0/layers.1.attention"), bias);
    const ls_finding *mean = finding_at(&c, "step0/grad.layers.1.mlp.down.weight");
    ck_assert_int_eq(mean->suspicion.cause, LS_CAUSE_AVERAGED);
    ck_assert_ptr_eq(finding_at(&c, "step0/grad.layers.0.mlp.down.weight"), mean);
    if (_i == 0) { /* a hundredth is lost in bf16 */
        ck_assert_uint_eq(c.findings->count, 3);
        ck_assert_int_eq(finding_at(&c, "step0/layers.1.activation")->suspicion.cause,
                         LS_CAUSE_NONE);
    }
    check_fixture_end(&c);
}
END_TEST

/* Query weights whose two halves of columns stand in the wrong order: queries come out so, and what
 * the weights become is written so. */
static void halves_swapped(check_fixture *c, size_t step, int node, const ls_operands *operands,
                           double *values)
{
    const size_t width = c->f.run.config.d_model, half = width / 2;
    (void)step, (void)operands;
    if (!is_named(c, node, "layers.0.query") && !is_named(c, node, "param.layers.0.*.query.weight"))
        return;
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++)
        if (i % width < half) {
            const double first = values[i];
            values[i] = values[i + half];
            values[i + half] = first;
        }
}

START_TEST(what_follows_from_a_mistake_is_the_same_one)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, halves_swapped);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_int_eq(c.findings->list[0].suspicion.cause, LS_CAUSE_SHARD_ORDER);
    ck_assert_ptr_eq(finding_at(&c, "step0/param.layers.0.attention.query.weight"),
                     &c.findings->list[0]);
    check_fixture_end(&c);
}
END_TEST

/* The optimizer's state is written by nobody: after a wrong step it is wrong. */
static void updated_twice(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    const ls_graph_node *n = &c->f.graph->nodes[node];
    if (n->make == LS_MAKE_UPDATED)
        for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++)
            values[i] += (step == 0 ? 0.7 : 0.4) * (values[i] - operands->params[n->params[0]][i]);
}

START_TEST(later_steps_are_not_taken_apart)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, updated_twice);
    const int node = fixture_node(&c.f, "d.layers.0.up");
    for (size_t i = 0; i < ls_graph_elements(c.f.graph, node); i++)
        c.mine[1][node][i] = sin((double)i);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_uint_eq(c.findings->list[0].tensor->golden->step, 0);
    ck_assert_uint_gt(c.findings->later, 0);
    check_fixture_end(&c);
}
END_TEST

/* Every tensor of another run: no list of mistakes says more than that. */
static void anything(check_fixture *c, size_t step, int node, const ls_operands *operands,
                     double *values)
{
    uint32_t state = (uint32_t)node;
    (void)step, (void)operands;
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++)
        values[i] = fixture_number(&state);
}

START_TEST(an_unrelated_run_is_called_so)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, anything);
    check_fixture_judge(&c, NULL);
    ck_assert(c.judgement->unrelated);
    ck_assert_uint_eq(c.judgement->equal, 0);
    ck_assert_str_eq(c.judgement->first->golden->name, "step0/embedding");
    ck_assert_uint_gt(c.findings->unexamined, 0);
    check_fixture_end(&c);
}
END_TEST

/* ---- only as written ---- */

START_TEST(a_tensor_written_wrongly_is_aside)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    const int node = fixture_node(&c.f, "layers.0.after_attention");
    for (size_t i = 0; i < ls_graph_elements(c.f.graph, node); i++) c.mine[0][node][i] *= 1.5;
    check_fixture_judge(&c, NULL);
    const ls_judged *j = judged_of(&c, "layers.0.after_attention");
    ck_assert_uint_eq(c.judgement->different, 1);
    ck_assert_ptr_eq(c.judgement->first, j);
    ck_assert(j->aside);
    ck_assert_int_eq(j->local, LS_LOCAL_OUTSIDE);
    ck_assert_uint_eq(c.findings->count, 1);
    ck_assert_int_eq(judged_of(&c, "layers.0.norm2")->verdict, LS_EXPLAINED);
    ck_assert_int_eq(judged_of(&c, "layers.0.norm2")->local, LS_LOCAL_OUTSIDE);
    check_fixture_end(&c);
}
END_TEST

/* ---- replicas ---- */

START_TEST(replicas_that_differ_are_different)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    check_fixture_forget(&c);
    candidate_pack(&c);
    for (size_t i = 0; i < c.candidate.count; i++) {
        ls_candidate_tensor *t = &c.candidate.tensors[i];
        if (strcmp(t->name, "step0/grad.layers.0.norm1.weight") != 0) continue;
        t->replicas_differ = true;
        t->replicas[1] = 2;
        t->ranks = 4;
    }
    fixture_ok(ls_check(&c.judgement, c.golden, &c.candidate, NULL));
    fixture_ok(ls_findings_create(&c.findings, c.judgement));
    ck_assert_uint_eq(c.judgement->different, 1);
    ck_assert_uint_eq(c.judgement->equal, c.golden->count - 1);
    ck_assert_str_eq(c.judgement->first->golden->name, "step0/grad.layers.0.norm1.weight");
    ck_assert_ptr_eq(c.findings->blame, c.judgement->first);
    ck_assert_uint_eq(c.findings->count, 1);
    check_fixture_end(&c);
}
END_TEST

/* ---- something is missing ---- */

START_TEST(what_is_missing_is_said)
{
    check_fixture c;
    const ls_config config = check_config("gpt2-nano");
    check_fixture_begin(&c, &config, 1);
    c.context = (void *)(uintptr_t) "layers.1.up";
    candidate_computed(&c, LS_F32, one_operation);
    candidate_drop(&c, "layers.1.norm2");
    candidate_drop(&c, "layers.1.up");
    candidate_drop(&c, "layers.1.activation");
    check_fixture_judge(&c, NULL);
    ck_assert_str_eq(c.judgement->first->golden->name, "step0/layers.1.mlp");
    ck_assert_int_eq(c.judgement->first->local, LS_LOCAL_UNKNOWN);
    ck_assert_ptr_null(c.findings->blame);
    ck_assert_uint_eq(c.findings->count, 1);
    const ls_finding *finding = &c.findings->list[0];
    ck_assert_ptr_eq(finding->tensor, c.judgement->first);
    ck_assert_uint_eq(finding->n_missing, 3);
    ck_assert_str_eq(finding->missing[0]->name, "step0/layers.1.norm2");
    ck_assert_str_eq(finding->missing[1]->name, "step0/layers.1.up");
    ck_assert_str_eq(finding->missing[2]->name, "step0/layers.1.activation");
    ck_assert_uint_eq(finding->n_before, 1);
    ck_assert_str_eq(finding->before[0]->golden->name, "step0/layers.1.after_attention");
    check_fixture_end(&c);
}
END_TEST

/* Later steps: parameters are the candidate's own; when it does not have them, an operation that
 * reads them cannot be judged by itself. */
START_TEST(a_mistake_in_a_later_step)
{
    check_fixture c;
    const ls_config config = check_config("llama-nano");
    check_fixture_begin(&c, &config, 3);
    candidate_computed(&c, LS_F32, NULL);
    const int node = fixture_node(&c.f, "param.layers.1.mlp.up.weight");
    for (size_t i = 0; i < ls_graph_elements(c.f.graph, node); i++) c.mine[1][node][i] *= 1.01;
    check_fixture_judge(&c, NULL);
    ck_assert_ptr_nonnull(c.findings->blame);
    ck_assert_str_eq(c.findings->blame->golden->name, "step1/param.layers.1.mlp.up.weight");
    candidate_drop(&c, "param.*");
    check_fixture_judge(&c, NULL);
    expect_none_different(&c); /* the rest was computed with the right one */
    const ls_judged *j = ls_judgement_find(c.judgement, "step2/layers.1.up");
    ck_assert_ptr_nonnull(j);
    if (j->verdict != LS_EQUAL) ck_assert_int_eq(j->local, LS_LOCAL_UNKNOWN);
    check_fixture_end(&c);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("check_mistakes", 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, one_wrong_operation_is_blamed, 0,
                        (int)(sizeof places / sizeof *places));
    tcase_add_test(tests, a_small_mistake_is_seen_by_the_operation);
    tcase_add_test(tests, a_quick_judgement_finds_what_is_large);
    tcase_add_loop_test(tests, three_mistakes_are_three_findings, 0, 2);
    tcase_add_test(tests, what_follows_from_a_mistake_is_the_same_one);
    tcase_add_test(tests, later_steps_are_not_taken_apart);
    tcase_add_test(tests, an_unrelated_run_is_called_so);
    tcase_add_test(tests, a_tensor_written_wrongly_is_aside);
    tcase_add_test(tests, replicas_that_differ_are_different);
    tcase_add_test(tests, what_is_missing_is_said);
    tcase_add_test(tests, a_mistake_in_a_later_step);
    return run_tests();
}
