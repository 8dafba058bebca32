/* The judgement of candidates of every kind: equal ones, right ones in other orders and precisions,
 * parts of one, and what is refused. */
#include "oracle/check_fixture.h"

#include <errno.h>

static const char *const models[] = {"gpt2-nano", "llama-nano"};

/* ---- right candidates ---- */

START_TEST(the_same_run_is_equal)
{
    check_fixture c;
    const ls_config config = check_config(models[_i]);
    ls_layout layout = ls_layout_serial();
    check_fixture_begin(&c, &config, 2);
    layout.tp = 2;
    layout.dp = 3;
    candidate_from_run(&c, LS_ENGINE_PORTABLE, &layout);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_eq(c.judgement->count, c.golden->count);
    ck_assert_uint_eq(c.judgement->equal, c.golden->count);
    expect_none_different(&c);
    check_fixture_end(&c);
}
END_TEST

START_TEST(another_engine_is_explained)
{
    check_fixture c;
    const ls_config config = check_config(models[_i]);
    if (!ls_engine_available(LS_ENGINE_OPENBLAS)) return;
    check_fixture_begin(&c, &config, 3);
    candidate_from_run(&c, LS_ENGINE_OPENBLAS, NULL);
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_uint_eq(c.judgement->equal + c.judgement->explained, c.golden->count);
    check_fixture_end(&c);
}
END_TEST

static const ls_dtype formats[] = {LS_F32, LS_F64, LS_F16, LS_BF16};

static void expect_explained(const check_fixture *c, ls_dtype format)
{
    expect_none_different(c);
    ck_assert_uint_gt(c->judgement->explained, c->golden->count / 4);
    for (size_t i = 0; i < c->judgement->count; i++) {
        const ls_judged *j = &c->judgement->tensors[i];
        if (format != LS_F16 && format != LS_BF16) ck_assert_int_eq(j->format, format);
        if (j->verdict == LS_EQUAL) continue;
        ck_assert_msg(j->precision == format, "%s", j->golden->name);
        ck_assert_msg(j->local == LS_LOCAL_WITHIN, "%s", j->golden->name);
        ck_assert_msg(j->sound, "%s", j->golden->name);
        ck_assert_uint_gt(j->differing, 0);
        ck_assert_uint_gt(j->max_ulps, 0);
        ck_assert_uint_eq(j->outside, 0);
        ck_assert_uint_gt(ls_check_ulps(j->format, j->candidate_value, j->golden_value), 0);
    }
}

/* Every operation in another order and precision: explained, each by itself. */
START_TEST(another_precision_is_explained)
{
    check_fixture c;
    const ls_config config = check_config(models[_i / 4]);
    const ls_dtype format = formats[_i % 4];
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, format, NULL);
    check_fixture_judge(&c, NULL);
    expect_explained(&c, format);
    check_fixture_end(&c);
}
END_TEST

/* Computed in bf16 or f16, written as f32: taken for what it is. */
START_TEST(a_widened_file_is_judged_as_what_was_computed)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    const ls_dtype format = _i ? LS_F16 : LS_BF16;
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, format, NULL);
    write_as(&c, LS_F32);
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->candidate->dtype, LS_F32);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, format);
    check_fixture_end(&c);
}
END_TEST

/* ---- mixed precision ---- */

static bool is_product(const ls_graph *graph, int node)
{
    const ls_graph_node *n = &graph->nodes[node];
    if (n->make == LS_MAKE_LINEAR || n->make == LS_MAKE_LOGITS || n->make == LS_MAKE_HEADS)
        return true;
    if (n->make != LS_MAKE_GRADIENT && n->make != LS_MAKE_PARAM_GRADIENT) return false;
    for (int r = 0; r < (int)graph->count; r++) { /* what goes back through one alone */
        const ls_graph_node *reader = &graph->nodes[r];
        const bool reads = n->make == LS_MAKE_GRADIENT
                               ? ls_graph_slot(reader, n->of) >= 0
                               : ls_graph_param_slot(reader, n->params[0]) >= 0;
        if (reader->phase != LS_GRAPH_FORWARD || !reads) continue;
        if (reader->make == LS_MAKE_PROBABILITIES) continue;
        return is_product(graph, r);
    }
    return false;
}

static double *rounded_copy(const double *values, size_t count)
{
    double *copy = malloc((count + 1) * sizeof *copy);
    if (!values) {
        free(copy);
        return NULL;
    }
    memcpy(copy, values, count * sizeof *copy);
    ls_check_round(LS_BF16, copy, count);
    return copy;
}

/* Products from operands rounded to bf16, with results in bf16; everything else in binary32 from
 * what there is. */
static void mixed(check_fixture *c, size_t step, int node, const ls_operands *operands,
                  double *values)
{
    const ls_graph *graph = c->f.graph;
    ls_operands narrow = *operands;
    const size_t count = graph->count, params = graph->table->count;
    (void)step;
    if (!is_product(graph, node)) return;
    double **v = calloc(count, sizeof *v), **p = calloc(params, sizeof *p);
    for (size_t i = 0; i < count; i++)
        v[i] = rounded_copy(operands->values[i], ls_graph_elements(graph, (int)i));
    for (size_t i = 0; i < params; i++)
        p[i] = rounded_copy(operands->params[i], ls_param_elements(&graph->table->params[i]));
    narrow.values = (const double *const *)v;
    narrow.params = (const double *const *)p;
    fixture_ok(ls_operation_evaluate(&narrow, node, ls_precision_of(LS_F64, 1), values, NULL));
    ls_check_round(LS_BF16, values, ls_graph_elements(graph, node));
    for (size_t i = 0; i < count; i++) free(v[i]);
    for (size_t i = 0; i < params; i++) free(p[i]);
    free(v), free(p);
}

/* As frameworks compute it: products in bf16, norms, residual sums, losses and the optimizer in
 * binary32; written in what each came out in, or everything as binary32. */
START_TEST(mixed_precision_is_explained)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, mixed);
    for (int n = 0; _i == 0 && n < (int)c.f.graph->count; n++)
        if (is_product(c.f.graph, n)) c.dtypes[n] = LS_BF16;
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->format, LS_BF16);
    ck_assert_int_eq(judged_of(&c, "layers.1.norm1")->format, LS_F32);
    ck_assert_int_eq(judged_of(&c, "layers.1.norm1")->precision, LS_BF16);
    ck_assert_int_eq(judged_of(&c, "layers.0.norm1")->precision, LS_F32);
    check_fixture_end(&c);
}
END_TEST

/* Products in half precision, everything else in f32, and written so: `computed` says it. */
static void half_products(check_fixture *c, size_t step, int node, const ls_operands *operands,
                          double *values)
{
    const ls_operation_kind make = c->f.graph->nodes[node].make;
    (void)step, (void)operands;
    if (make != LS_MAKE_LINEAR && make != LS_MAKE_LOGITS && make != LS_MAKE_PARAM_GRADIENT) return;
    ls_check_round(LS_F16, values, ls_graph_elements(c->f.graph, node));
    for (size_t i = 0; i < ls_graph_elements(c->f.graph, node); i++) values[i] *= 1 + 0x1p-23;
}

START_TEST(products_in_half_precision_must_be_said)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    const ls_check_options options = {.has_computed = true, .computed = LS_F16};
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, half_products);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_gt(c.judgement->different, 0);
    check_fixture_judge(&c, &options);
    expect_none_different(&c);
    check_fixture_end(&c);
}
END_TEST

/* ---- parts of a candidate ---- */

static const char *const parts[] = {"logits", "grad.*",    "param.*", "layers.*.layer",
                                    "loss",   "clipped.*", "d.*",     "*norm*"};

START_TEST(a_part_is_judged)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, NULL);
    candidate_keep_only(&c, parts[_i]);
    check_fixture_judge(&c, NULL);
    ck_assert_uint_gt(c.judgement->count, 0);
    ck_assert_uint_lt(c.judgement->count, c.golden->count);
    expect_none_different(&c);
    check_fixture_end(&c);
}
END_TEST

START_TEST(only_what_is_asked_for)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 2);
    candidate_computed(&c, LS_F32, NULL);
    check_fixture_judge(&c, &(ls_check_options){.only = "layers.?.query"});
    ck_assert_uint_eq(c.judgement->count, 4);
    expect_none_different(&c);
    check_fixture_judge(&c, &(ls_check_options){.only = "step1/layers.*.query"});
    ck_assert_uint_eq(c.judgement->count, 2);
    ck_assert_str_eq(c.judgement->tensors[0].golden->name, "step1/layers.0.query");
    ck_assert_int_eq(check_fixture_try(&c, &(ls_check_options){.only = "layers.9*"}), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--only layers.9*: the golden directory has no such tensor");
    ls_error_clear();
    candidate_drop(&c, "loss");
    ck_assert_int_eq(check_fixture_try(&c, &(ls_check_options){.only = "loss"}), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--only loss: the candidate has no such tensor");
    check_fixture_end(&c);
}
END_TEST

START_TEST(complete_wants_all)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    const ls_check_options complete = {.complete = true};
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    check_fixture_judge(&c, &complete);
    candidate_drop(&c, "layers.1.query");
    ck_assert_int_eq(check_fixture_try(&c, &complete), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "step0/layers.1.query is missing; --complete wants all"),
                  "%s", ls_error_text());
    ls_error_clear();
    check_fixture_judge(&c, &(ls_check_options){.complete = true, .only = "layers.0*"});
    check_fixture_end(&c);
}
END_TEST

START_TEST(it_can_be_interrupted)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    const int stop = 1;
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    ck_assert_int_eq(check_fixture_try(&c, &(ls_check_options){.stop = &stop}), LS_ERR_INTERRUPTED);
    ck_assert_ptr_null(c.judgement);
    check_fixture_end(&c);
}
END_TEST

/* One thread and several judge alike. */
START_TEST(threads_change_nothing)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    candidate_values(&c, 0, "layers.1.up")[3] += 1;
    check_fixture_judge(&c, &(ls_check_options){.threads = 1});
    const size_t count = c.judgement->count;
    ls_judged *before = malloc(count * sizeof *before);
    memcpy(before, c.judgement->tensors, count * sizeof *before);
    check_fixture_judge(&c, &(ls_check_options){.threads = 5});
    for (size_t i = 0; i < count; i++) {
        const ls_judged *a = &before[i], *b = &c.judgement->tensors[i];
        ck_assert_int_eq(a->verdict, b->verdict);
        ck_assert_int_eq(a->local, b->local);
        ck_assert_uint_eq(a->first, b->first);
        ck_assert(memcmp(&a->local_error, &b->local_error, sizeof a->local_error) == 0);
    }
    free(before);
    check_fixture_end(&c);
}
END_TEST

/* ---- NaN, infinity, signs of zero ---- */

START_TEST(no_number_is_within_nothing)
{
    static const double values[] = {(double)NAN, HUGE_VAL, -HUGE_VAL};
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    candidate_computed(&c, LS_F32, NULL);
    candidate_values(&c, 0, "layers.1.up")[5] = values[_i];
    check_fixture_judge(&c, NULL);
    const ls_judged *j = judged_of(&c, "layers.1.up");
    ck_assert_int_eq(j->verdict, LS_DIFFERENT_TENSOR);
    ck_assert(j->misplaced && !j->within);
    ck_assert_int_eq(j->local, LS_LOCAL_OUTSIDE);
    ck_assert_uint_eq(j->outside, 1);
    ck_assert_uint_eq(j->first, 5);
    ck_assert_ptr_eq(c.judgement->first, j);
    if (_i == 0) ck_assert(j->max_ulps == UINT64_MAX);
    check_fixture_end(&c);
}
END_TEST

/* The other way round: the golden run has a NaN, the candidate a number; and both have one. */
START_TEST(a_golden_nan_must_be_one)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    ls_golden_close(&c.golden);
    fixture_values(&c.f, 0, "layers.1.layer")[2] = (double)NAN;
    golden_fixture_write(&c.f, scratch_path("golden"));
    fixture_ok(ls_golden_open(&c.golden, scratch_path("golden")));
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "layers.1.layer")->verdict, LS_DIFFERENT_TENSOR);
    ck_assert(judged_of(&c, "layers.1.layer")->misplaced);
    candidate_values(&c, 0, "layers.1.layer")[2] = -(double)NAN;
    check_fixture_judge(&c, NULL);
    ck_assert_int_eq(judged_of(&c, "layers.1.layer")->verdict, LS_EQUAL);
    check_fixture_end(&c);
}
END_TEST

START_TEST(the_sign_of_zero_is_a_bit)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    double *p = candidate_values(&c, 0, "layers.0.probabilities");
    ck_assert(p[1] == 0); /* the first query does not see the second key */
    p[1] = -p[1];
    check_fixture_judge(&c, NULL);
    const ls_judged *j = judged_of(&c, "layers.0.probabilities");
    ck_assert_int_eq(j->verdict, LS_EXPLAINED);
    ck_assert_uint_eq(j->differing, 1);
    ck_assert_uint_eq(j->first, 1);
    ck_assert_uint_eq(j->max_ulps, 1);
    check_fixture_end(&c);
}
END_TEST

/* ---- the golden directory itself ---- */

START_TEST(a_damaged_golden_file_is_nobodys_mistake)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    ls_golden_close(&c.golden);
    FILE *file = fopen(fixture_path(scratch_path("golden"), "forward.safetensors"), "r+b");
    ck_assert_ptr_nonnull(file);
    fseek(file, -1, SEEK_END); /* the last byte of the loss: its exponent */
    fputc(0x11, file);
    fclose(file);
    fixture_ok(ls_golden_open(&c.golden, scratch_path("golden")));
    ck_assert_int_eq(check_fixture_try(&c, NULL), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "the golden values are not those of the manifest"), "%s",
                  ls_error_text());
    check_fixture_end(&c);
}
END_TEST

/* ---- names ---- */

START_TEST(patterns_of_names)
{
    static const struct {
        const char *pattern, *name;
        bool fits;
    } rows[] = {
        {"*", "anything", true},
        {"*", "", true},
        {"", "", true},
        {"", "a", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"*.query", "layers.0.query", true},
        {"*.query", "layers.0.query.weight", false},
        {"l*.q*", "layers.0.query", true},
        {"*aab", "aaaab", true},
        {"a*b*c", "axxbyybzc", true},
        {"a*b*c", "axxbyybz", false},
        {"**", "x", true},
        {"step0/*", "step0/loss", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_msg(ls_name_fits(rows[i].pattern, rows[i].name) == rows[i].fits, "%s, %s",
                      rows[i].pattern, rows[i].name);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("check");
    TCase *tests = tcase_create("check");
    tcase_set_timeout(tests, 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, the_same_run_is_equal, 0, 2);
    tcase_add_loop_test(tests, another_engine_is_explained, 0, 2);
    tcase_add_loop_test(tests, another_precision_is_explained, 0, 8);
    tcase_add_loop_test(tests, a_widened_file_is_judged_as_what_was_computed, 0, 2);
    tcase_add_loop_test(tests, mixed_precision_is_explained, 0, 2);
    tcase_add_test(tests, products_in_half_precision_must_be_said);
    tcase_add_loop_test(tests, a_part_is_judged, 0, (int)(sizeof parts / sizeof *parts));
    tcase_add_test(tests, only_what_is_asked_for);
    tcase_add_test(tests, complete_wants_all);
    tcase_add_test(tests, it_can_be_interrupted);
    tcase_add_test(tests, threads_change_nothing);
    tcase_add_loop_test(tests, no_number_is_within_nothing, 0, 3);
    tcase_add_test(tests, a_golden_nan_must_be_one);
    tcase_add_test(tests, the_sign_of_zero_is_a_bit);
    tcase_add_test(tests, a_damaged_golden_file_is_nobodys_mistake);
    tcase_add_test(tests, patterns_of_names);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
