/* test_dump.c - golden directories: the same in every layout, with the gradients of the serial run
 * (ORDERED), within their bounds of the truth (TRUTH). */
#include <math.h>

#include "lockstep/io/safetensors.h"
#include "lockstep/model/store.h"
#include "golden/dump_fixture.h"
#include "verify/record.h"
#include "run_tests.h"

static ls_config config;
static ls_text text;

static ls_run small_run(model m, uint64_t steps)
{
    config = model_config(m);
    config.layers = 2;
    text = fixture_text();
    return fixture_run(&config, &text, steps);
}

/* ---- layouts ---- */

START_TEST(every_layout_gives_the_same_directory)
{
    static const grid_of grids[] = {
        {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
        {1, 1, 2, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_LAYER},
        {1, 1, 3, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_SELECTIVE},
        {1, 1, 6, true, 1, 5, LS_GPIPE, LS_RECOMPUTE_STAGE},
        {2, 2, 1, false, 1, 2, LS_1F1B, LS_RECOMPUTE_STAGE},
        {2, 2, 2, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE},
        {5, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    };
    ls_run run = small_run((model)_i, 2);
    ls_dump_options options = dump_plainly();
    char first[65] = "";
    run.world.delay_max_ns = 20000; /* ranks come in any order */
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        run.serial = false;
        run.layout = fixture_layout(&grids[g]);
        if (_i == ROW_FIRST) run.layout.sp = false; /* has none */
        run.world.delay_seed = g + 1;
        const ls_dump_summary summary = dump_ok(&run, scratch_path("golden"), &options);
        if (g == 0) memcpy(first, summary.digest, sizeof first);
        ck_assert_msg(strcmp(first, summary.digest) == 0, "layout %zu: %s and %s", g, first,
                      summary.digest);
    }
    /* Read by the reader, which believes nothing. */
    ls_golden *golden = open_ok(scratch_path("golden"));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ck_assert_uint_eq(golden->count, 2 * golden->graph->count);
    ck_assert_uint_eq(golden->steps, 2);
    ls_golden_close(&golden);
}
END_TEST

/* Whatever else is written down, and in either precision and engine. */
START_TEST(precisions_and_engines)
{
    ls_run run = small_run(LLAMA, 1);
    ls_dump_options options = dump_plainly();
    char first[65];
    run.serial = false;
    for (int f64 = 0; f64 < 2; f64++) {
        for (int engine = 0; engine < (ls_engine_available(LS_ENGINE_OPENBLAS) ? 2 : 1); engine++) {
            run.dtype = f64 ? LS_F64 : LS_F32;
            run.engine = engine ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
            run.layout = ls_layout_serial();
            options.per_rank = options.collectives = false;
            memcpy(first, dump_ok(&run, scratch_path("a"), &options).digest, sizeof first);
            run.layout.tp = 3;
            run.layout.dp = 2;
            options.per_rank = options.collectives = true;
            ck_assert_str_eq(first, dump_ok(&run, scratch_path("b"), &options).digest);
        }
    }
    ls_golden *golden = open_ok(scratch_path("b"));
    ck_assert_int_eq(golden->run.dtype, LS_F64);
    ck_assert_int_eq(golden->run.layout.tp, 3);
    ck_assert_int_eq(golden->run.layout.dp, 2);
    ls_golden_close(&golden);
}
END_TEST

/* ---- against the serial run ---- */

START_TEST(gradients_and_parameters_are_the_serial_ones)
{
    ls_run run = small_run((model)_i, 3);
    ls_dump_options options = dump_plainly();
    run.serial = false;
    run.layout.tp = 2;
    run.layout.micro_batches = 2;
    dump_ok(&run, scratch_path("golden"), &options);

    ls_golden *golden = open_ok(scratch_path("golden"));
    ls_run again = golden->run; /* its weights, its batches */
    again.serial = true;
    again.layout = ls_layout_serial();
    ls_record *record = NULL;
    ASSERT_OK(ls_record_run(&record, &again, NULL, NULL));
    char name[128];
    for (uint64_t s = 0; s < 3; s++) {
        const ls_recorded_step *step = &record->step[s];
        ck_assert_double_eq((double)*(const float *)tensor_ok(golden, s, "loss")->values,
                            step->loss);
        for (size_t p = 0; p < record->table->count; p++) {
            const ls_param *param = &record->table->params[p];
            const size_t bytes = ls_param_elements(param) * sizeof(float);
            snprintf(name, sizeof name, "grad.%s", param->name);
            ck_assert_msg(memcmp(tensor_ok(golden, s, name)->values, step->gradient[p], bytes) == 0,
                          "step %d, %s", (int)s, name);
            snprintf(name, sizeof name, "param.%s", param->name);
            ck_assert_msg(memcmp(tensor_ok(golden, s, name)->values, step->value[p], bytes) == 0,
                          "step %d, %s", (int)s, name);
        }
    }
    ls_record_destroy(&record);
    ls_golden_close(&golden);
}
END_TEST

/* From a checkpoint with an optimizer's state: steps 2 and 3 of a run of 4, and again from what
 * that dump left. */
START_TEST(goes_on_from_a_checkpoint)
{
    ls_run run = small_run(GPT2, 4);
    ls_train_result result;
    ls_dump_options options = dump_plainly();
    ls_record *record = NULL;
    ASSERT_OK(ls_record_run(&record, &run, NULL, NULL));
    char saved[1024];
    snprintf(saved, sizeof saved, "%s", scratch_path("saved.safetensors"));
    run.steps = 2;
    run.save = saved;
    ASSERT_OK(ls_train(&run, NULL, &result));
    ls_train_result_free(&result);
    run.save = NULL;
    run.load = saved;
    run.steps = 4;
    options.start = LS_START_TRAINING; /* batches as the text has them */
    run.seed = 99;                     /* the checkpoint's own goes before it */
    const ls_dump_summary first = dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    ck_assert_uint_eq(golden->first_step, 2);
    ck_assert_uint_eq(golden->steps, 2);
    char name[128];
    for (size_t p = 0; p < record->table->count; p++) {
        const ls_param *param = &record->table->params[p];
        snprintf(name, sizeof name, "param.%s", param->name);
        ck_assert_mem_eq(tensor_ok(golden, 3, name)->values, record->step[3].value[p],
                         ls_param_elements(param) * sizeof(float));
    }
    ck_assert_ptr_nonnull(ls_golden_moment(golden, 0, 0, &(ls_dtype){LS_F32}));
    const ls_dump_summary second = dump_ok(&golden->run, scratch_path("again"), &options);
    ck_assert_str_eq(first.digest, second.digest);

    /* And from the same in memory. */
    const ls_golden *g = golden;
    double **arrays[3] = {NULL, NULL, NULL};
    for (int a = 0; a < 3; a++) {
        arrays[a] = calloc(g->table->count, sizeof **arrays);
        for (size_t p = 0; p < g->table->count; p++) {
            const size_t n = ls_param_elements(&g->table->params[p]);
            ls_dtype dtype;
            const float *values = a == 0 ? ls_golden_param(g, 2, (int)p, &dtype)
                                         : ls_golden_moment(g, (int)p, a - 1, &dtype);
            arrays[a][p] = malloc(n * sizeof(double));
            for (size_t i = 0; i < n; i++) arrays[a][p][i] = (double)values[i];
        }
    }
    const ls_initial initial = {2, (const double *const *)arrays[0],
                                (const double *const *)arrays[1], (const double *const *)arrays[2]};
    ls_run held = g->run;
    held.load = NULL;
    held.initial = &initial;
    ck_assert_str_eq(first.digest, dump_ok(&held, scratch_path("again"), &options).digest);
    for (int a = 0; a < 3; a++) {
        for (size_t p = 0; p < g->table->count; p++) free(arrays[a][p]);
        free(arrays[a]);
    }
    ls_golden_close(&golden);
    ls_record_destroy(&record);

    run.steps = 2;
    ASSERT_SAYS(ls_dump(&run, scratch_path("none"), &options, &(ls_dump_summary){0}), LS_ERR_INPUT,
                "--steps 2", "begins at step 2");
    ck_assert_int_eq(access(scratch_path("none"), F_OK), -1);
}
END_TEST

/* ---- what it begins with ---- */

START_TEST(telling_start)
{
    ls_run run = small_run((model)_i, 1);
    ls_dump_options options = dump_plainly();
    dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    /* No parameter has two equal elements side by side: none is constant. */
    for (size_t p = 0; p < golden->table->count; p++) {
        ls_dtype dtype;
        const float *values = ls_golden_param(golden, 0, (int)p, &dtype);
        for (size_t i = 1; i < ls_param_elements(&golden->table->params[p]); i++)
            if (values[i] == values[i - 1]) ck_abort_msg("%s", golden->table->params[p].name);
    }
    /* Attention is no mean: rows of probabilities have a largest far above 1 / S. */
    const float *P = tensor_ok(golden, 0, "layers.0.probabilities")->values;
    const size_t S = config.seq, rows = config.batch * config.heads * S;
    double largest = 0;
    for (size_t r = 0; r < rows; r++) {
        float most = 0;
        for (size_t i = 0; i < S; i++)
            if (P[r * S + i] > most) most = P[r * S + i];
        largest += (double)most;
    }
    ck_assert_double_gt(largest / (double)rows, 2.0 / (double)S);
    ck_assert_double_lt(largest / (double)rows, 0.9);
    /* Clipping has something to do. */
    ck_assert_double_gt(*(const double *)tensor_ok(golden, 0, "norm")->values, run.clip);

    /* The batch: test_dump_telling.c. */
    ls_golden_close(&golden);
}
END_TEST

START_TEST(training_start_is_where_training_begins)
{
    ls_run run = small_run((model)_i, 1);
    ls_dump_options options = dump_plainly();
    options.start = LS_START_TRAINING;
    dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    ls_store *store = NULL;
    ASSERT_OK(ls_store_create(&store, golden->table, NULL, NULL));
    ls_store_init(store, run.seed);
    for (size_t p = 0; p < golden->table->count; p++) {
        ls_dtype dtype;
        const void *values = ls_golden_param(golden, 0, (int)p, &dtype);
        /* Whole, a parameter has padding at its end alone. */
        ck_assert_msg(memcmp(values, store->slots[p].value,
                             ls_param_elements(&golden->table->params[p]) * sizeof(float)) == 0,
                      "%s", golden->table->params[p].name);
    }
    ls_store_destroy(&store);
    ls_record *record = NULL;
    ASSERT_OK(ls_record_run(&record, &run, NULL, NULL)); /* from the text */
    ck_assert_double_eq(record->step[0].loss,
                        (double)*(const float *)tensor_ok(golden, 0, "loss")->values);
    ls_record_destroy(&record);
    ls_golden_close(&golden);
}
END_TEST

/* What is kept in the heads' input and behind attention is what the masks say. */
START_TEST(masks_are_those_of_the_run)
{
    ls_run run = small_run(GPT2, 2);
    ls_dump_options options = dump_plainly();
    ls_safetensors *masks = NULL;
    dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    ASSERT_OK(ls_safetensors_open(&masks, scratch_path("golden/masks.safetensors")));
    ck_assert_uint_eq(ls_safetensors_count(masks), 2 * (1 + 3 * config.layers));
    const size_t B = config.batch, S = config.seq, D = config.d_model;
    for (uint64_t step = 0; step < 2; step++) {
        const unsigned char *mask =
            ls_safetensors_find(masks, step ? "step1/mask.embedded" : "step0/mask.embedded")->data;
        const float *before = tensor_ok(golden, step, "embedding")->values;
        const float *behind = tensor_ok(golden, step, "embedded")->values;
        size_t dropped = 0;
        for (size_t i = 0; i < B * S * D; i++) {
            dropped += !mask[i];
            if ((behind[i] == 0) != (!mask[i] || before[i] == 0)) ck_abort_msg("element %zu", i);
        }
        ck_assert_uint_gt(dropped, B * S * D / 20);
        const ls_tensor_info *info = ls_safetensors_find(masks, step ? "step1/mask.layers.1.heads"
                                                                     : "step0/mask.layers.1.heads");
        ck_assert_int_eq(info->n_dims, 4);
        ck_assert_uint_eq(info->dims[1], config.heads);
        /* A head's first token attends to itself alone: its output is the value / (1 - p), or 0. */
        const unsigned char *kept = info->data;
        const float *heads = tensor_ok(golden, step, "layers.1.heads")->values;
        const size_t width = D / config.heads;
        for (size_t b = 0; b < B; b++)
            for (size_t h = 0; h < config.heads; h++)
                ck_assert(kept[(b * config.heads + h) * S * S] ==
                          (heads[b * S * D + h * width] != 0));
    }
    ls_safetensors_close(&masks);
    ls_golden_close(&golden);
}
END_TEST

/* Outside the digests; TRUTH: every tensor within its bound. */
START_TEST(truth_and_bounds)
{
    ls_run run = small_run((model)_i, 2);
    ls_dump_options options = dump_plainly();
    run.serial = false;
    run.layout.tp = 2;
    const ls_dump_summary without = dump_ok(&run, scratch_path("golden"), &options);
    options.truth = true;
    const ls_dump_summary with = dump_ok(&run, scratch_path("golden"), &options);
    ck_assert_str_eq(with.digest, without.digest);
    ls_golden *golden = open_ok(scratch_path("golden"));
    double worst = 0;
    for (size_t t = 0; t < golden->count; t++) {
        const ls_golden_tensor *tensor = &golden->tensors[t];
        double error = 0;
        ck_assert_ptr_nonnull(tensor->truth);
        for (size_t i = 0; i < tensor->count; i++) {
            const double value = tensor->dtype == LS_F64
                                     ? ((const double *)tensor->values)[i]
                                     : (double)((const float *)tensor->values)[i];
            error = fmax(error, fabs(value - tensor->truth[i]));
        }
        ck_assert_msg(error == tensor->truth_error, "%s: %g, the manifest has %g", tensor->name,
                      error, tensor->truth_error);
        ck_assert_msg(error <= tensor->bound, "%s: %g, bound %g", tensor->name, error,
                      tensor->bound);
        if (error > 0 && error / tensor->bound > worst) worst = error / tensor->bound;
    }
    ck_assert_double_gt(worst, 0);
    ck_assert_double_eq(worst, with.worst_ratio);
    ls_golden_close(&golden);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("dump", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, every_layout_gives_the_same_directory, 0, MODELS);
    tcase_add_test(tcase, precisions_and_engines);
    tcase_add_loop_test(tcase, gradients_and_parameters_are_the_serial_ones, 0, MODELS);
    tcase_add_test(tcase, goes_on_from_a_checkpoint);
    tcase_add_loop_test(tcase, telling_start, 0, MODELS);
    tcase_add_loop_test(tcase, training_start_is_where_training_begins, 0, MODELS);
    tcase_add_test(tcase, masks_are_those_of_the_run);
    if (ls_engine_available(LS_ENGINE_PLAIN))
        tcase_add_loop_test(tcase, truth_and_bounds, 0, MODELS);
    else
        note_skip("truth_and_bounds", "built without OpenBLAS");
    return run_tests();
}
