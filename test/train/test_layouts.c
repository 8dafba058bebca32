/* Whole runs, ORDERED: every tensor-parallel degree, and grids of every axis, give the bits of the
 * serial baseline - losses, every gradient, every parameter after every step. */
#include "verify/verify.h"
#include "run_fixture.h"
#include "run_tests.h"

/* Verifies every legal tp of a model, for both engines and both precisions, over 3 steps; in
 * binary32 also with sequence parallelism, which the row-first MLP does not have. */
static void verify_model(const ls_config *config, bool gathered_loss)
{
    ls_text text = fixture_text();
    int tp[16];
    size_t n = ls_legal_tp(config, tp, 16);
    ck_assert_uint_ge(n, 2);
    for (int engine = LS_ENGINE_PORTABLE; engine <= LS_ENGINE_OPENBLAS; engine++) {
        if (!ls_engine_available((ls_engine)engine)) continue;
        for (int dtype = LS_F32; dtype <= LS_F64; dtype++) {
            ls_run run = fixture_run(config, &text, 3);
            ls_record *record;
            ls_train_result serial;
            run.engine = (ls_engine)engine;
            run.dtype = (ls_dtype)dtype;
            run.gathered_loss = gathered_loss;
            ls_status status = ls_record_run(&record, &run, NULL, &serial);
            ck_assert_msg(status == LS_OK, "serial: %s", ls_error_text());
            ck_assert(ls_record_loss(record, 0) > 1 && ls_record_loss(record, 0) < 10);
            run.serial = false;
            bool sp = dtype == LS_F32 && config->mlp_cut != LS_MLP_ROW_FIRST;
            for (size_t i = 0; i < (sp ? 2 * n : n); i++) {
                ls_departure departure;
                ls_train_result result;
                char text_of[512] = "", layout[80];
                run.layout.tp = tp[i % n];
                run.layout.sp = i >= n;
                ls_layout_describe(&run.layout, layout, sizeof layout);
                status = ls_verify_run(record, &run, NULL, &departure, &result);
                if (status == LS_DIFFERENT)
                    ls_departure_describe(&departure, run.dtype, text_of, sizeof text_of);
                ck_assert_msg(status == LS_OK, "%s, %s, %s, %s: %s%s", config->name, layout,
                              ls_engine_name(run.engine), ls_dtype_name(run.dtype), text_of,
                              ls_error_text());
                ck_assert_str_eq(result.digest, serial.digest);
                ls_train_result_free(&result);
            }
            ls_train_result_free(&serial);
            ls_record_destroy(&record);
        }
    }
}

START_TEST(gpt2)
{
    ls_config config = fixture_config("gpt2-nano");
    ck_assert(config.dropout > 0);
    verify_model(&config, false);
}
END_TEST

START_TEST(gpt2_gathered_loss_with_smoothing)
{
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    config.label_smoothing = 0.1;
    config.activation = LS_GELU_ERF;
    verify_model(&config, true);
    verify_model(&config, false);
}
END_TEST

/* 12 query and 4 kv heads: at tp 3 a kv head's queries are on one rank, at tp 6 and 12 on several,
 * at tp 6 a rank's two heads may belong to different kv heads. */
START_TEST(llama)
{
    ls_config config = fixture_config("llama-nano");
    config.layers = 2;
    config.dropout = 0.1;
    verify_model(&config, false);
}
END_TEST

/* tp neither divides nor is divided by the number of kv heads; one kv head for all. */
START_TEST(llama_with_other_kv_heads)
{
    static const size_t kv_heads[] = {1, 2, 3, 6, 12};
    for (size_t i = 0; i < sizeof kv_heads / sizeof kv_heads[0]; i++) {
        ls_config config = fixture_config("llama-nano");
        config.layers = 1;
        config.dropout = 0.1;
        config.kv_heads = kv_heads[i];
        if (i % 2) { /* with biases on keys and values, and one table for both ends */
            config.activation = LS_GELU_TANH;
            config.bias = true;
            config.tied = true;
        }
        verify_model(&config, false);
    }
}
END_TEST

/* Token shares that are not equal, and empty ones: fewer tokens than ranks. */
START_TEST(sequences_that_nothing_divides)
{
    static const size_t lengths[] = {1, 5, 13};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        ls_config config = fixture_config(i == 1 ? "llama-nano" : "gpt2-nano");
        config.layers = 1;
        config.seq = lengths[i];
        config.dropout = 0.1;
        verify_model(&config, i == 2);
    }
}
END_TEST

/* Hidden bytes, padding, two losses with unequal numbers of terms; the norms in either place. Token
 * shares that are not equal, and empty ones. */
START_TEST(bert)
{
    ls_config config = fixture_config("bert-nano");
    ls_config_place_norms(&config, _i ? LS_NORM_PRE : LS_NORM_POST);
    config.layers = 2;
    config.seq = _i ? 7 : 17;
    ck_assert(config.dropout > 0 && config.sentence_order);
    verify_model(&config, _i);
}
END_TEST

START_TEST(row_first)
{
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    config.mlp_cut = LS_MLP_ROW_FIRST;
    verify_model(&config, false);
}
END_TEST

/* The training loop over every axis: a batch of 8, also in 3 replicas (3, 3 and 2 sequences) and in
 * micro-batches of unequal size, below, at and above the number of stages; groups along each axis
 * that are not runs of ranks. */
START_TEST(every_axis)
{
    static const grid_of grids[] = {
        {2, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
        {8, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
        {1, 1, 1, false, 1, 5, LS_GPIPE, LS_RECOMPUTE_STAGE},
        {1, 1, 1, false, 4, 3, LS_INTERLEAVED, LS_RECOMPUTE_NONE},
        {1, 2, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
        {1, 4, 1, false, 1, 3, LS_1F1B, LS_RECOMPUTE_LAYER},
        {3, 1, 2, true, 1, 2, LS_1F1B, LS_RECOMPUTE_NONE},
        {1, 2, 3, true, 2, 4, LS_INTERLEAVED, LS_RECOMPUTE_SELECTIVE},
        {2, 2, 2, true, 1, 4, LS_1F1B, LS_RECOMPUTE_SELECTIVE},
        {3, 3, 1, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE},
        {2, 4, 6, true, 1, 2, LS_1F1B, LS_RECOMPUTE_STAGE},
    };
    static const char *const models[] = {"gpt2-nano", "llama-nano", "bert-nano", "bert-nano"};
    ls_config config = fixture_config(models[_i]);
    ls_text text = fixture_text();
    if (_i == 3) ls_config_place_norms(&config, LS_NORM_PRE);
    config.layers = 4;
    config.seq = 5;
    config.dropout = 0.1;
    ls_run run = fixture_run(&config, &text, 3);
    ls_record *record;
    ls_train_result serial, result;
    run.dtype = _i % 2 ? LS_F64 : LS_F32;
    run.clip = 0.5;
    ls_status status = ls_record_run(&record, &run, NULL, &serial);
    ck_assert_msg(status == LS_OK, "serial: %s", ls_error_text());
    run.serial = false;
    enum { GRIDS = sizeof grids / sizeof grids[0] };
    for (size_t i = 0; i < GRIDS + 2; i++) {
        ls_departure departure;
        char text_of[512] = "", layout[200];
        run.layout = fixture_layout(&grids[i < GRIDS ? i : i - GRIDS + 4]);
        if (i >= GRIDS) { /* stages of unequal size, and of none: on 2 and on 4 ranks */
            static const int layers[2][4] = {{4, 0}, {0, 3, 0, 1}};
            run.layout.given = run.layout.pp;
            memcpy(run.layout.stage_layers, layers[i - GRIDS], sizeof layers[0]);
        }
        ls_layout_describe(&run.layout, layout, sizeof layout);
        status = ls_verify_run(record, &run, NULL, &departure, &result);
        if (status == LS_DIFFERENT)
            ls_departure_describe(&departure, run.dtype, text_of, sizeof text_of);
        ck_assert_msg(status == LS_OK, "%s, %s: %s%s", config.name, layout, text_of,
                      ls_error_text());
        ck_assert_str_eq(result.digest, serial.digest);
        ls_train_result_free(&result);
    }
    ls_train_result_free(&serial);
    ls_record_destroy(&record);
}
END_TEST

/* Over 100 steps nothing drifts: the digest of all losses and parameters is the serial run's, and
 * what several ranks hold is the same on all of them, which is looked at when it comes together. */
START_TEST(hundred_steps)
{
    static const grid_of grid = {2, 2, 2, true, 1, 2, LS_1F1B, LS_RECOMPUTE_LAYER};
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    ls_train_result serial, result;
    config.layers = 2;
    config.seq = 3;
    config.d_model = 24;
    config.d_ff = 24;
    ls_run run = fixture_run(&config, &text, 100);
    run.batch = 5;
    run.lr = 0.01;
    ck_assert_msg(ls_train(&run, NULL, &serial) == LS_OK, "%s", ls_error_text());
    run.serial = false;
    run.layout = fixture_layout(&grid);
    ck_assert_msg(ls_train(&run, NULL, &result) == LS_OK, "%s", ls_error_text());
    ck_assert_str_eq(result.digest, serial.digest);
    ck_assert(serial.last_loss < serial.first_loss);
    ls_train_result_free(&serial);
    ls_train_result_free(&result);
}
END_TEST

/* What counts is the run's batch, not the one that the model suggests. */
START_TEST(batch_of_the_run)
{
    static const grid_of grid = {2, 1, 1, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE};
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, 1);
    ls_train_result result;
    run.serial = false;
    run.layout = fixture_layout(&grid);
    run.batch = 3;
    ck_assert_int_eq(ls_train(&run, NULL, &result), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "--batch 3: dp 2 x 2 micro-batches need 4"), "%s",
                  ls_error_text());
}
END_TEST

int main(void)
{
    TCase *tests = test_case("tensor parallel", 200);
    tcase_add_test(tests, gpt2);
    tcase_add_test(tests, gpt2_gathered_loss_with_smoothing);
    tcase_add_test(tests, llama);
    tcase_add_test(tests, llama_with_other_kv_heads);
    tcase_add_test(tests, sequences_that_nothing_divides);
    tcase_add_loop_test(tests, bert, 0, 2);
    tcase_add_test(tests, row_first);
    tests = test_case("every axis", 200);
    tcase_add_loop_test(tests, every_axis, 0, 4);
    tcase_add_test(tests, hundred_steps);
    tcase_add_test(tests, batch_of_the_run);
    return run_tests();
}
