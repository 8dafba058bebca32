/* The front door: options by name, every action, what each leaves to be asked for, and errors that
 * name the option. Actions give what the rooms behind them give. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/scratch.h"
#include "lockstep/lockstep.h"
#include "run_tests.h"

static ls_job *new_job(void)
{
    ls_job *job = NULL;
    ck_assert_int_eq(ls_job_create(&job), LS_OK);
    return job;
}

static void set(ls_job *job, const char *option, const char *value)
{
    ck_assert_msg(ls_job_set(job, option, value) == LS_OK, "%s", ls_error_text());
}

static void expect(ls_status expected, ls_status status)
{
    ck_assert_msg(status == expected, "status %d: %s", status, ls_error_text());
}

START_TEST(version)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LS_VERSION_MAJOR, LS_VERSION_MINOR, LS_VERSION_PATCH);
    ck_assert_str_eq(text, LS_VERSION);
    ck_assert_str_eq(ls_version(), LS_VERSION);
    ck_assert_str_eq(PROJECT_VERSION, LS_VERSION);
}
END_TEST

/* Saved on four ranks, loaded on three and on one: the same bits as without the stop. */
START_TEST(trains_in_layouts)
{
    char whole[65], digest[65];
    const char *file = scratch_path("half.safetensors");
    ls_job *job = new_job();
    set(job, "steps", "4");
    expect(LS_OK, ls_job_train(job));
    snprintf(whole, sizeof whole, "%s", ls_job_word(job, "digest"));
    ck_assert_uint_eq(strlen(whole), 64);
    ck_assert(ls_job_number(job, "last_step") == 4 && ls_job_number(job, "ranks") == 1);
    ck_assert(ls_job_number(job, "last_loss") < ls_job_number(job, "first_loss"));
    ck_assert(isnan(ls_job_number(job, "layouts")) && ls_job_word(job, "cause")[0] == '\0');

    set(job, "tp", "2");
    set(job, "pp", "2");
    set(job, "steps", "2");
    set(job, "save", file);
    expect(LS_OK, ls_job_train(job));
    ck_assert(ls_job_number(job, "ranks") == 4);
    const double half_loss = ls_job_number(job, "last_loss");
    set(job, "load", file);
    set(job, "save", NULL);
    set(job, "pp", NULL);
    set(job, "steps", "4");
    for (int tp = 1; tp <= 3; tp += 2) {
        char text[8];
        snprintf(text, sizeof text, "%d", tp);
        set(job, "tp", text);
        expect(LS_OK, ls_job_train(job));
        ck_assert(ls_job_number(job, "first_step") == 2);
        ck_assert(ls_job_number(job, "first_loss") < half_loss);
        if (tp == 1) snprintf(digest, sizeof digest, "%s", ls_job_word(job, "digest"));
    }
    ck_assert_str_eq(ls_job_word(job, "digest"), digest);
    ls_job_destroy(&job);
    ck_assert_ptr_null(job);
}
END_TEST

typedef struct steps {
    uint64_t last;
    double loss;
    uint64_t stop_at;
    ls_job *job;
} steps;

static ls_status note(void *context, uint64_t step, double loss, double norm)
{
    steps *s = context;
    if (step != s->last + 1 || !(norm > 0)) return LS_ERR_INTERNAL;
    s->last = step;
    s->loss = loss;
    if (step == s->stop_at) ls_job_stop(s->job);
    return LS_OK;
}

/* Every step is told; a stop ends the run, and every later one. */
START_TEST(tells_and_stops)
{
    ls_job *job = new_job();
    steps seen = {0, 0, 0, job};
    set(job, "steps", "3");
    set(job, "dp", "2");
    ls_job_on_step(job, note, &seen);
    expect(LS_OK, ls_job_train(job));
    ck_assert_uint_eq(seen.last, 3);
    ck_assert(seen.loss == ls_job_number(job, "last_loss"));
    seen = (steps){0, 0, 1, job};
    set(job, "steps", "1000");
    expect(LS_ERR_INTERRUPTED, ls_job_train(job));
    ck_assert_uint_lt(seen.last, 1000);
    ck_assert(isnan(ls_job_number(job, "last_loss")));
    expect(LS_ERR_INTERRUPTED, ls_job_train(job));
    ls_job_destroy(&job);
}
END_TEST

START_TEST(verifies)
{
    ls_job *job = new_job();
    set(job, "steps", "2");
    set(job, "layouts", "tp 4; dp 2 x pp 2");
    expect(LS_OK, ls_job_verify(job));
    ck_assert(ls_job_number(job, "layouts") == 2 && ls_job_number(job, "bit_exact") == 2);
    ck_assert(ls_job_number(job, "different") == 0);
    /* A run that is no numbers is not compared. */
    set(job, "layouts", "tp 2");
    set(job, "lr", "1000");
    set(job, "clip", "0");
    set(job, "optimizer", "sgd");
    set(job, "weight-decay", "1000");
    set(job, "steps", "6");
    expect(LS_DIFFERENT, ls_job_verify(job));
    ck_assert(ls_job_number(job, "bit_exact") == 0 && ls_job_number(job, "different") == 0);
    ck_assert_ptr_nonnull(strstr(ls_job_word(job, "difference"), "not a number"));
    ls_job_destroy(&job);
}
END_TEST

START_TEST(plans)
{
    ls_job *job = new_job();
    set(job, "model", "gpt2-124m");
    set(job, "tp", "4");
    set(job, "pp", "3");
    set(job, "micro-batches", "8");
    expect(LS_OK, ls_job_plan(job));
    ck_assert(ls_job_number(job, "ranks") == 12);
    ck_assert(ls_job_number(job, "parameters") > 124e6 && ls_job_number(job, "parameters") < 125e6);
    ck_assert(ls_job_number(job, "rank_bytes") * 12 >= ls_job_number(job, "bytes"));
    ck_assert(ls_job_number(job, "rank_bytes") < ls_job_number(job, "bytes"));
    ck_assert(ls_job_number(job, "sent_bytes") > 0);
    /* (pp - 1) / (micro-batches + pp - 1) */
    ck_assert(fabs(ls_job_number(job, "bubble") - 0.2) < 1e-12);
    ls_job_destroy(&job);
}
END_TEST

START_TEST(dumps_and_checks)
{
    ls_job *job = new_job(), *other = new_job();
    char golden[512], mine[512];
    snprintf(golden, sizeof golden, "%s", scratch_path("golden"));
    snprintf(mine, sizeof mine, "%s", scratch_path("mine"));
    set(job, "tp", "2");
    set(job, "model", "llama-nano");
    expect(LS_OK, ls_job_dump(job, golden));
    ck_assert(ls_job_number(job, "tensors") > 100);
    ck_assert_uint_eq(strlen(ls_job_word(job, "digest")), 64);
    expect(LS_OK, ls_job_check(other, golden, golden));
    ck_assert(ls_job_number(other, "equal") == ls_job_number(other, "tensors"));
    ck_assert(ls_job_number(other, "different") == 0);
    /* The same weights on another batch: the losses are wrong by themselves. */
    set(job, "start", "training");
    set(job, "seed", "7");
    expect(LS_OK, ls_job_dump(job, mine));
    set(other, "only", "*loss*");
    const ls_status status = ls_job_check(other, golden, mine);
    ck_assert_msg(status == LS_ERR_INPUT || status == LS_DIFFERENT, "status %d", status);
    ls_job_destroy(&job);
    ls_job_destroy(&other);
}
END_TEST

static const struct {
    const char *option, *value, *text;
} bad[] = {
    {"tp", "5", "use 1, 2, 3, 4, 6 or 12"},
    {"tp", "x", "tp x"},
    {"model", "gpt9", "gpt9"},
    {"sp", "yes", "use on or off"},
    {"spatial", "2x2", "convolutional networks"},
    {"sweep", "4", "train has no such option"},
    {"map", "hf", "train has no such option"},
    {"load", "none.safetensors", "none.safetensors"},
};

START_TEST(refuses)
{
    ls_job *job = new_job();
    set(job, bad[_i].option, bad[_i].value);
    const ls_status status = ls_job_train(job);
    ck_assert_msg(ls_exit_code(status) == 2, "%s %s: %d", bad[_i].option, bad[_i].value, status);
    ck_assert_msg(strstr(ls_error_text(), bad[_i].text) != NULL, "%s", ls_error_text());
    /* Taken back, it runs. */
    set(job, bad[_i].option, NULL);
    set(job, "steps", "1");
    expect(LS_OK, ls_job_train(job));
    ls_job_destroy(&job);
}
END_TEST

START_TEST(names_the_nearest)
{
    ls_job *job = new_job();
    expect(LS_ERR_INPUT, ls_job_set(job, "stepz", "3"));
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "is steps meant?"));
    expect(LS_ERR_INPUT, ls_job_set(job, "json", "on")); /* the program's own */
    set(job, "sp", "off");
    set(job, "sp", NULL);
    set(job, "sp", NULL);
    ls_job_destroy(&job);
    ls_job_destroy(&job);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("job", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, version);
    tcase_add_test(tests, trains_in_layouts);
    tcase_add_test(tests, tells_and_stops);
    tcase_add_test(tests, verifies);
    tcase_add_test(tests, plans);
    tcase_add_test(tests, dumps_and_checks);
    tcase_add_loop_test(tests, refuses, 0, (int)(sizeof bad / sizeof bad[0]));
    tcase_add_test(tests, names_the_nearest);
    return run_tests();
}
