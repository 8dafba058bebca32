/* A plan against real runs: parameters, gradients, optimizer state and activations of every rank to
 * the byte, every operation's calls and bytes; and bounds for the two that are not exact. */
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/pipeline/plan.h"
#include "verify/verify.h"
#include "pipeline/gradient_slots.h"
#include "plan_fixture.h"
#include "run_tests.h"

/* Models of 5 layers, small enough for hundreds of runs. */
static ls_run small_run(const char *name, const ls_text *text)
{
    ls_config config = fixture_config(name);
    config.layers = 5;
    config.seq = 7;
    config.d_model = 24;
    config.d_ff = 36;
    ls_run run = fixture_run(&config, text, 2);
    run.serial = false;
    return run;
}

static const char *const models[] = {"gpt2-nano", "llama-nano"};

/* Every tp, with and without sp, every mode of recomputation. */
START_TEST(tensor_parallel)
{
    ls_text text = fixture_text();
    static const int tps[] = {1, 2, 3, 4, 6, 12};
    ls_run run = small_run(models[_i], &text);
    run.layout.micro_batches = 3;
    run.batch = 7;
    for (size_t i = 0; i < sizeof tps / sizeof tps[0]; i++)
        for (int sp = 0; sp < 2; sp++)
            for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
                run.layout.tp = tps[i];
                run.layout.sp = sp != 0;
                run.layout.recompute = (ls_recompute)mode;
                check_run(&run);
            }
}
END_TEST

/* Every pipeline, schedule and number of micro-batches. */
static void check_pipelines(ls_run *run, int M)
{
    static const struct {
        ls_schedule_kind kind;
        int V;
    } schedules[] = {{LS_GPIPE, 1}, {LS_1F1B, 1}, {LS_INTERLEAVED, 1}, {LS_INTERLEAVED, 2}};
    for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++)
        for (int pp = 1; pp <= 4 && pp * schedules[s].V <= 5; pp++)
            for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
                run->layout.schedule = schedules[s].kind;
                run->layout.virtual_stages = schedules[s].V;
                run->layout.pp = pp;
                run->layout.micro_batches = M;
                run->layout.recompute = (ls_recompute)mode;
                /* sp in every second run: each pair of choices meets */
                run->layout.sp = (pp + mode + M) % 2 != 0;
                check_run(run);
            }
}

START_TEST(pipelines)
{
    ls_text text = fixture_text();
    ls_run run = small_run(models[_i % 2], &text);
    int M = 1 + _i / 2;
    run.batch = M == 3 ? 7 : M == 6 ? 8 : 6;
    run.layout.tp = 2;
    run.world.delay_seed = (uint64_t)M; /* messages wait, and not always for the same */
    run.world.delay_max_ns = 20000;
    check_pipelines(&run, M);
}
END_TEST

/* Replicas with unequal shares of the batch, in the whole grid. */
START_TEST(replicas)
{
    ls_text text = fixture_text();
    for (int m = 0; m < 2; m++)
        for (int dp = 2; dp <= 3; dp++)
            for (int pp = 1; pp <= 3; pp++)
                for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
                    ls_run run = small_run(models[m], &text);
                    run.layout.dp = dp;
                    run.layout.pp = pp;
                    run.layout.tp = pp == 3 ? 1 : 3;
                    run.layout.micro_batches = pp + (mode + 1) % 2;
                    run.layout.sp = (mode + pp) % 2 == 0;
                    run.layout.recompute = (ls_recompute)mode;
                    run.layout.schedule = mode % 2 ? LS_1F1B : LS_GPIPE;
                    run.batch = (size_t)(dp * run.layout.micro_batches) + 1;
                    check_run(&run);
                }
}
END_TEST

/* Given partitions, also stages without a layer at both ends and in the middle. */
START_TEST(partitions)
{
    ls_text text = fixture_text();
    static const int layers[][3] = {{0, 5, 0}, {2, 0, 3}, {4, 1, 0}, {0, 0, 5}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            ls_run run = small_run(models[mode % 2], &text);
            run.layout.pp = run.layout.given = 3;
            memcpy(run.layout.stage_layers, layers[i], sizeof layers[i]);
            run.layout.tp = 2;
            run.layout.micro_batches = 2;
            run.layout.schedule = LS_1F1B;
            run.layout.recompute = (ls_recompute)mode;
            run.batch = 3;
            check_run(&run);
        }
}
END_TEST

/* Virtual stages of very different sizes, some without a layer: what a forward pass has for a
 * moment may then be more than any backward pass. */
START_TEST(uneven_chunks)
{
    ls_text text = fixture_text();
    static const int layers[][4] = {
        {4, 1, 0, 0}, {0, 4, 1, 0}, {0, 0, 1, 4}, {5, 0, 0, 0}, {2, 0, 3, 0}};
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            ls_run run = small_run(models[mode % 2], &text);
            run.layout.pp = run.layout.virtual_stages = 2;
            run.layout.given = 4;
            memcpy(run.layout.stage_layers, layers[i], sizeof layers[i]);
            run.layout.micro_batches = 4 + (int)i % 2;
            run.layout.schedule = LS_INTERLEAVED;
            run.layout.recompute = (ls_recompute)mode;
            run.batch = 7;
            check_run(&run);
        }
    /* Rare among uneven partitions: here a forward pass is the peak. */
    static const int more[][6] = {{1, 1, 0, 4, 0, 0}, {1, 1, 1, 2, 0, 1}};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            ls_run run = small_run("gpt2-nano", &text);
            run.config.layers = 6;
            run.layout.pp = 2;
            run.layout.virtual_stages = 3;
            run.layout.given = 6;
            memcpy(run.layout.stage_layers, more[i], sizeof more[i]);
            run.layout.micro_batches = 5;
            run.layout.schedule = LS_INTERLEAVED;
            run.layout.recompute = (ls_recompute)mode;
            run.batch = 9;
            check_run(&run);
        }
}
END_TEST

/* Choices of the model: every number of key/value heads, tied or not, label smoothing, the gathered
 * loss, the row-first MLP, binary64. */
START_TEST(choices)
{
    ls_text text = fixture_text();
    static const size_t kv_heads[] = {1, 2, 3, 6};
    static const int tps[] = {4, 6, 12};
    for (size_t k = 0; k < sizeof kv_heads / sizeof kv_heads[0]; k++)
        for (size_t t = 0; t < sizeof tps / sizeof tps[0]; t++) {
            ls_run run = small_run("llama-nano", &text);
            run.config.kv_heads = kv_heads[k];
            run.config.layers = 2;
            run.config.tied = k % 2 == 0;
            run.config.label_smoothing = t == 0 ? 0.1 : 0;
            run.gathered_loss = t == 1;
            run.dtype = t == 2 ? LS_F64 : LS_F32;
            run.layout.tp = tps[t];
            run.layout.pp = 1 + (int)k % 2;
            run.batch = 3;
            run.layout.micro_batches = 2;
            check_run(&run);
        }
    /* Norms behind the residual sums and no head of a masked-token model: no norm at the end. */
    for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
        ls_run run = small_run("gpt2-nano", &text);
        ls_config_place_norms(&run.config, LS_NORM_POST);
        run.layout.tp = 3;
        run.layout.sp = true;
        run.layout.pp = 2;
        run.layout.recompute = (ls_recompute)mode;
        run.batch = 2;
        check_run(&run);
    }
    for (int tp = 1; tp <= 4; tp++)
        for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
            ls_run run = small_run("gpt2-nano", &text);
            run.config.mlp_cut = LS_MLP_ROW_FIRST;
            run.config.tied = mode % 2 == 0;
            run.config.bias = mode < 2;
            run.layout.tp = tp;
            run.layout.pp = 2;
            run.layout.recompute = (ls_recompute)mode;
            run.batch = 2;
            check_run(&run);
        }
}
END_TEST

/* BERT, its norms in either place, with and without what sets it apart. */
START_TEST(bert)
{
    ls_text text = fixture_text();
    static const int tps[] = {1, 2, 3, 12};
    for (int place = LS_NORM_PRE; place <= LS_NORM_POST; place++)
        for (size_t t = 0; t < sizeof tps / sizeof tps[0]; t++)
            for (int sp = 0; sp < 2; sp++)
                for (int mode = LS_RECOMPUTE_NONE; mode <= LS_RECOMPUTE_STAGE; mode++) {
                    ls_run run = small_run("bert-nano", &text);
                    ls_config_place_norms(&run.config, (ls_norm_place)place);
                    run.config.layers = 3;
                    run.config.sentence_order = mode != LS_RECOMPUTE_SELECTIVE;
                    run.config.tied = t != 2;
                    run.gathered_loss = t == 1;
                    run.layout.tp = tps[t];
                    run.layout.sp = sp != 0;
                    run.layout.pp = tps[t] == 12 ? 1 : 1 + (mode + sp) % 3;
                    run.layout.dp = tps[t] == 2 ? 2 : 1;
                    run.layout.micro_batches = 2;
                    run.layout.schedule = LS_1F1B;
                    run.layout.recompute = (ls_recompute)mode;
                    run.batch = 5;
                    check_run(&run);
                }
}
END_TEST

/* The stage of a parameter against the bounds of the stages, shares even or given. */
START_TEST(stages_of_parameters)
{
    for (size_t layers = 1; layers <= 13; layers++)
        for (int stages = 1; stages <= (int)layers + 3; stages++)
            for (int given = 0; given < 2; given++) {
                ls_param_table *table;
                ls_layout layout = ls_layout_serial();
                size_t bounds[LS_MAX_STAGES + 1];
                ls_config config;
                ck_assert_int_eq(ls_config_named("gpt2-nano", &config), LS_OK);
                config.layers = layers;
                ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
                layout.pp = stages;
                for (size_t l = 0; given && l < layers; l++) /* some with none, the first too */
                    layout.stage_layers[(l * l + 1) % (size_t)stages]++;
                layout.given = given ? stages : 0;
                ls_layout_stage_bounds(&layout, layers, bounds);
                for (size_t i = 0; i < table->count; i++) {
                    const ls_param *param = &table->params[i];
                    int stage = ls_stage_of_param(&layout, table, i);
                    if (param->stage == LS_STAGE_FIRST)
                        ck_assert_int_eq(stage, 0);
                    else if (param->stage == LS_STAGE_LAST)
                        ck_assert_int_eq(stage, stages - 1);
                    else
                        ck_assert_msg(bounds[stage] <= param->layer &&
                                          param->layer < bounds[stage + 1],
                                      "%zu layers, %d stages: layer %zu in stage %d", layers,
                                      stages, param->layer, stage);
                }
                ls_param_table_destroy(&table);
            }
}
END_TEST

/* A plan asks once for pipeline ranks whose backward passes have one order: that they are told
 * apart from others, and need as many slots. */
START_TEST(one_order_one_answer)
{
    static const struct {
        ls_schedule_kind kind;
        int M, V;
    } cases[] = {{LS_GPIPE, 5, 1}, {LS_1F1B, 5, 1}, {LS_1F1B, 2, 1}, {LS_INTERLEAVED, 8, 3}};
    enum { K = 4, BATCH = 23, FIRST = 7, SEQUENCES = 11 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_schedule *schedule = NULL;
        size_t one, other;
        ck_assert_int_eq(ls_schedule_create(&schedule, cases[i].kind, K, cases[i].M, cases[i].V),
                         LS_OK);
        for (int p = 1; p < K; p++) {
            ck_assert(ls_same_backward_order(schedule, p - 1, p));
            ck_assert(ls_gradient_slots_of(schedule, p - 1, BATCH, FIRST, SEQUENCES, &one) ==
                      LS_OK);
            ck_assert(ls_gradient_slots_of(schedule, p, BATCH, FIRST, SEQUENCES, &other) == LS_OK);
            ck_assert_uint_eq(one, other);
        }
        /* The last two backward passes of one rank change places. */
        ls_task *row = schedule->tasks + 2 * schedule->n_tasks, *last = &row[schedule->n_tasks - 1];
        ls_task *before = last - 1;
        while (before->pass != LS_BACKWARD) before--;
        const ls_task moved = *last;
        *last = *before;
        *before = moved;
        ck_assert(!ls_same_backward_order(schedule, 1, 2));
        ck_assert(!ls_same_backward_order(schedule, 2, 3));
        ck_assert(ls_same_backward_order(schedule, 2, 2));
        ls_schedule_destroy(&schedule);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("to the byte and the call", 120);
    tcase_add_loop_test(tests, tensor_parallel, 0, 2);
    tcase_add_loop_test(tests, pipelines, 0, 12);
    tcase_add_test(tests, replicas);
    tcase_add_test(tests, partitions);
    tcase_add_test(tests, uneven_chunks);
    tcase_add_test(tests, choices);
    tcase_add_test(tests, bert);
    tcase_add_test(tests, stages_of_parameters);
    tcase_add_test(tests, one_order_one_answer);
    return run_tests();
}
