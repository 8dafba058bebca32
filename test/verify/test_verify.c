/* What verify says: the first departure in order of execution, what cannot be compared, and the
 * distance to truth. */
#include <math.h>

#include "verify/record.h"
#include "train/run_fixture.h"
#include "run_tests.h"

static ls_run small_run(ls_config *config, const ls_text *text)
{
    *config = fixture_config("gpt2-nano");
    config->layers = 1;
    config->dropout = 0;
    return fixture_run(config, text, 2);
}

static ls_record *record_of(const ls_run *run)
{
    ls_record *record;
    ck_assert_msg(ls_record_run(&record, run, NULL, NULL) == LS_OK, "%s", ls_error_text());
    return record;
}

/* Runs that depart at a known place: other data from the first loss on, another rate from the first
 * parameter of the first update on, another clipping likewise; and one that does not depart. */
START_TEST(first_departure)
{
    static const struct {
        const char *phase, *tensor;
    } right[] = {{NULL, NULL},
                 {"loss", "loss"},
                 {"update", "token_embedding.weight"},
                 {"update", "token_embedding.weight"}};
    ls_config config;
    ls_text text = fixture_text();
    ls_run run = small_run(&config, &text);
    ls_record *record = record_of(&run);
    for (int i = 0; i < 4; i++) {
        ls_run other = run;
        ls_departure departure = {0};
        other.serial = false;
        other.layout.tp = 2;
        if (i == 1) other.seed++;
        if (i == 2) other.lr *= 2;
        if (i == 3) other.clip = 1e-3;
        ls_status status = ls_verify_run(record, &other, NULL, &departure, NULL);
        ck_assert_msg(status == (i == 0 ? LS_OK : LS_DIFFERENT), "%d: %s", i, ls_error_text());
        if (i == 0) continue;
        ck_assert_uint_eq(departure.step, 0);
        ck_assert_str_eq(departure.phase, right[i].phase);
        ck_assert_str_eq(departure.tensor, right[i].tensor);
        ck_assert_uint_gt(departure.tensors, 1);
    }
    ls_record_destroy(&record);
}
END_TEST

/* The last layer's gradients come before the first one's. */
START_TEST(backward_order)
{
    ls_config config;
    ls_text text = fixture_text();
    ls_run run = small_run(&config, &text);
    ls_record *record = record_of(&run);
    ls_departure departure;
    size_t last = record->table->count - 1;
    /* as if the serial run had had other numbers there */
    ((float *)record->step[1].gradient[0])[5] += 1;
    ((float *)record->step[1].gradient[last])[2] += 1;
    ((float *)record->step[1].value[0])[0] = NAN;
    run.serial = false;
    ck_assert_int_eq(ls_verify_run(record, &run, NULL, &departure, NULL), LS_DIFFERENT);
    ck_assert_uint_eq(departure.step, 1);
    ck_assert_str_eq(departure.phase, "gradient");
    ck_assert_str_eq(departure.tensor, record->table->params[last].name);
    ck_assert_uint_eq(departure.index[0], 2);
    ck_assert_uint_eq(departure.index[1], 0);
    ck_assert_uint_eq(departure.tensors, 3);
    ls_record_destroy(&record);
}
END_TEST

/* From where on nothing is compared: the first NaN in order of execution. */
START_TEST(first_undefined)
{
    ls_config config;
    ls_text text = fixture_text();
    ls_run run = small_run(&config, &text);
    ls_record *record = record_of(&run);
    const size_t last = record->table->count - 1;
    ls_undefined undefined;
    char line[LS_UNDEFINED_TEXT];
    ls_record_undefined(record, &undefined);
    ck_assert(!undefined.found);

    ((float *)record->step[1].value[0])[7] = NAN;
    ls_record_undefined(record, &undefined);
    ck_assert(undefined.found);
    ck_assert_uint_eq(undefined.step, 1);
    ck_assert_str_eq(undefined.phase, "update");
    ck_assert_str_eq(undefined.tensor, record->table->params[0].name);

    ((float *)record->step[1].gradient[0])[0] = NAN;
    ((float *)record->step[1].gradient[last])[2] = -NAN;
    ls_record_undefined(record, &undefined);
    ck_assert_str_eq(undefined.phase, "gradient");
    ck_assert_str_eq(undefined.tensor, record->table->params[last].name);
    ls_undefined_describe(&undefined, line, sizeof line);
    ck_assert_msg(strstr(line, "nothing is compared from step 1 on: ") == line &&
                      strstr(line, ", gradient is not a number") != NULL,
                  "%s", line);

    record->step[1].loss = (double)NAN;
    ls_record_undefined(record, &undefined);
    ck_assert_str_eq(undefined.phase, "loss");
    record->step[0].loss = (double)INFINITY; /* a number's place: it is compared */
    ls_record_undefined(record, &undefined);
    ck_assert_uint_eq(undefined.step, 1);
    ls_undefined_describe(&undefined, line, sizeof line);
    ck_assert_str_eq(line, "nothing is compared from step 1 on: the loss is not a number");
    ls_record_destroy(&record);
}
END_TEST

START_TEST(description)
{
    ls_departure departure = {
        .step = 3, .phase = "update", .tensor = "x", .n_index = 2, .index = {4, 5}};
    char line[512];
    departure.difference = (ls_difference){.count = 7, .left = 1, .right = 2, .ulps = 9};
    departure.difference.max_ulps = 11;
    departure.tensors = 2;
    ls_departure_describe(&departure, LS_F32, line, sizeof line);
    ck_assert_str_eq(line, "step 3, update, tensor x, index [4, 5]: serial 0x1p+0, here 0x1p+1 (9 "
                           "ulp apart, F32); 7 elements of it differ, at most 11 ulp; 2 tensors "
                           "differ in all");
    departure.difference.max_ulps = UINT64_MAX;
    ls_departure_describe(&departure, LS_F32, line, sizeof line);
    ck_assert_msg(strstr(line, "(9 ulp apart") && strstr(line, "some are NaN"), "%s", line);
    departure.difference.ulps = UINT64_MAX;
    ls_departure_describe(&departure, LS_F32, line, sizeof line);
    ck_assert_msg(strstr(line, "(one is NaN"), "%s", line);
}
END_TEST

/* Nothing to compare is not equal; neither is another run. */
START_TEST(nothing_and_another)
{
    ls_config config;
    ls_text text = fixture_text();
    ls_run run = small_run(&config, &text);
    ls_record *record = record_of(&run), *none = NULL;
    run.steps = 0;
    ck_assert_int_eq(ls_record_run(&none, &run, NULL, NULL), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "--steps 0") != NULL, "%s", ls_error_text());
    ck_assert_ptr_null(none);
    run.steps = 1;
    run.serial = false;
    ls_error_clear();
    ck_assert_int_eq(ls_verify_run(record, &run, NULL, NULL, NULL), LS_ERR_INTERNAL);
    ls_record_destroy(&record);
}
END_TEST

/* A NaN is the worst error and no later number makes one forget it; a loss of 0 that should be 0 is
 * no error. */
START_TEST(distance_to_truth)
{
    ls_config config;
    ls_text text = fixture_text();
    ls_run run = small_run(&config, &text), plain = run;
    plain.dtype = LS_F64;
    plain.engine = ls_engine_available(LS_ENGINE_PLAIN) ? LS_ENGINE_PLAIN : LS_ENGINE_PORTABLE;
    ls_record *record = record_of(&run), *truth = record_of(&plain);
    ls_record_truth result;
    ck_assert_int_eq(ls_record_against_truth(record, truth, &result), LS_OK);
    ck_assert(result.loss > 0 && result.loss < 1e-5);
    ck_assert(result.gradient > 0 && result.gradient < 1e-3);
    ck_assert(result.parameter > 0 && result.parameter < 1e-3);

    double loss[2] = {record->step[0].loss, truth->step[0].loss};
    record->step[0].loss = truth->step[0].loss = 0;
    ck_assert_int_eq(ls_record_against_truth(record, truth, &result), LS_OK);
    ck_assert(result.loss < 1e-5);
    record->step[0].loss = (double)NAN;
    truth->step[0].loss = loss[1];
    ck_assert_int_eq(ls_record_against_truth(record, truth, &result), LS_OK);
    ck_assert(isnan(result.loss));
    record->step[0].loss = loss[0];

    ((float *)record->step[0].gradient[1])[3] = NAN;
    ck_assert_int_eq(ls_record_against_truth(record, truth, &result), LS_OK);
    ck_assert(isinf(result.gradient));
    ck_assert_str_eq(result.gradient_tensor, record->table->params[1].name);
    ((double *)truth->step[0].gradient[1])[3] = (double)NAN;
    ck_assert_int_eq(ls_record_against_truth(record, truth, &result), LS_OK);
    ck_assert(isnan(result.gradient));
    ck_assert_str_eq(result.gradient_tensor, record->table->params[1].name);
    ck_assert_int_eq(ls_record_against_truth(truth, truth, &result), LS_OK);
    ck_assert(result.parameter == 0 && result.parameter_tensor[0] != 0);
    ls_record_destroy(&record);
    ls_record_destroy(&truth);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("verify", 60);
    tcase_add_test(tests, first_departure);
    tcase_add_test(tests, backward_order);
    tcase_add_test(tests, first_undefined);
    tcase_add_test(tests, description);
    tcase_add_test(tests, nothing_and_another);
    tcase_add_test(tests, distance_to_truth);
    return run_tests();
}
