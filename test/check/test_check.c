/* The judgement of candidates: equal ones, another engine's, parts of one, what is no number, and
 * what is refused. */
#include "check/check_fixture.h"
#include "run_tests.h"

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
    if (!ls_engine_available(LS_ENGINE_OPENBLAS)) SKIP_TEST("built without OpenBLAS");
    check_fixture_begin(&c, &config, 3);
    candidate_from_run(&c, LS_ENGINE_OPENBLAS, NULL);
    check_fixture_judge(&c, NULL);
    expect_none_different(&c);
    ck_assert_uint_eq(c.judgement->equal + c.judgement->explained, c.golden->count);
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

/* The truth of another run would make right tensors different. */
START_TEST(a_foreign_truth_is_refused)
{
    check_fixture c;
    const ls_config config = check_config(models[0]);
    check_fixture_begin(&c, &config, 1);
    candidate_from_run(&c, LS_ENGINE_PORTABLE, NULL);
    double *mine = candidate_values(&c, 0, "layers.0.query");
    mine[0] *= 1 + 0x1p-23;
    ls_golden_tensor *golden = NULL;
    for (size_t i = 0; i < c.golden->count; i++)
        if (strcmp(c.golden->tensors[i].name, "step0/layers.0.query") == 0)
            golden = &c.golden->tensors[i];
    ck_assert_ptr_nonnull(golden);
    double *truth = NULL;
    fixture_ok(ls_check_widen(&truth, golden->dtype, golden->values, golden->count));
    truth[3] += 1e-7;
    golden->truth = truth;
    golden->truth_error = 1.01e-7;
    golden->bound = 1e-4;
    fixture_ok(check_fixture_try(&c, NULL));
    ck_assert_int_eq(judged_of(&c, "layers.0.query")->verdict, LS_EXPLAINED);
    for (int i = 0; i < 2; i++) {
        truth[golden->count - 1] = i ? (double)NAN : truth[golden->count - 1] + 1e-3;
        ck_assert_int_eq(check_fixture_try(&c, NULL), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), "truth.safetensors") != NULL, "%s", ls_error_text());
        ck_assert_msg(strstr(ls_error_text(), golden->name) != NULL, "%s", ls_error_text());
    }
    golden->truth = NULL;
    free(truth);
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
    TCase *tests = test_case("check", 60);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, the_same_run_is_equal, 0, 2);
    tcase_add_loop_test(tests, another_engine_is_explained, 0, 2);
    tcase_add_loop_test(tests, a_part_is_judged, 0, (int)(sizeof parts / sizeof *parts));
    tcase_add_test(tests, only_what_is_asked_for);
    tcase_add_test(tests, complete_wants_all);
    tcase_add_test(tests, it_can_be_interrupted);
    tcase_add_test(tests, threads_change_nothing);
    tcase_add_loop_test(tests, no_number_is_within_nothing, 0, 3);
    tcase_add_test(tests, a_golden_nan_must_be_one);
    tcase_add_test(tests, the_sign_of_zero_is_a_bit);
    tcase_add_test(tests, a_damaged_golden_file_is_nobodys_mistake);
    tcase_add_test(tests, a_foreign_truth_is_refused);
    tcase_add_test(tests, patterns_of_names);
    return run_tests();
}
