/* A world, reading a model and training in a thread whose stack is what musl gives: 128 KiB. A
 * description of a model is 40 KB, and no function keeps copies of it there. */
#include <pthread.h>
#include <stdlib.h>

#include "lockstep/comm/collectives.h"
#include "train/net_run.h"
#include "run_tests.h"

enum { STACK_BYTES = 128 << 10, RANKS = 6 };

/* Runs in the thread; it asserts nothing, but leaves what it found. */
typedef struct work {
    ls_status (*does)(struct work *work);
    ls_status status;
    char error[512], digest[65];
    const char *model; /* a name, or JSON */
    bool serial;
    ls_dtype dtype;
    ls_config *config;
    ls_run *run;
    ls_text text;
    ls_images images;
} work;

static ls_status sum_ranks(ls_rank *rank, void *argument)
{
    int32_t *sums = argument;
    const int32_t own = ls_rank_index(rank);
    return ls_all_reduce(ls_rank_world_group(rank), &sums[own], &own, 1, LS_I32, LS_REDUCE_SUM);
}

static ls_status run_world(work *w)
{
    ls_status status = LS_OK;
    int32_t sums[RANKS] = {0};
    (void)w;
    LS_TRY(ls_world_run(RANKS, NULL, sum_ranks, sums));
    for (int r = 0; r < RANKS; r++)
        if (sums[r] != 15) LS_FAIL(LS_ERR_INTERNAL, "rank %d has %d", r, sums[r]);
exit:
    return status;
}

static ls_status read_model(work *w)
{
    return *w->model == '{' ? ls_config_from_json("model", w->model, w->config)
                            : ls_config_named(w->model, w->config);
}

static ls_status train(work *w)
{
    ls_status status = LS_OK;
    ls_train_result result = {0};
    LS_TRY(read_model(w));
    ls_run_defaults(w->run, w->config);
    w->run->text = &w->text;
    w->run->images = &w->images;
    w->run->steps = 1;
    w->run->dtype = w->dtype;
    w->run->serial = w->serial;
    w->run->layout.dp = 2;
    LS_TRY(ls_train(w->run, NULL, &result));
    memcpy(w->digest, result.digest, sizeof w->digest);
exit:
    ls_train_result_free(&result);
    return status;
}

static void *run_work(void *argument)
{
    work *w = argument;
    w->status = w->does(w);
    snprintf(w->error, sizeof w->error, "%s", ls_error_text());
    return NULL;
}

static void on_small_stack(work *w)
{
    pthread_t thread;
    pthread_attr_t attributes;
    ck_assert_int_eq(pthread_attr_init(&attributes), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    ck_assert_int_eq(pthread_create(&thread, &attributes, run_work, w), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    ck_assert_msg(w->status == LS_OK, "%s", w->error);
}

START_TEST(world)
{
    on_small_stack(&(work){.does = run_world});
}
END_TEST

/* Serial and in a layout, in both precisions. */
START_TEST(training)
{
    static const char *const models[] = {
        "gpt2-nano", "alexnet-nano", "{\"base\": \"resnet-nano\"}",
        "{\"model_type\": \"gpt2\", \"n_layer\": 2, \"n_embd\": 12, \"n_head\": 2, \"n_positions\": 8, "
        "\"vocab_size\": 300}"};
    work w = {.does = train, .model = models[_i / 2], .dtype = _i % 2 ? LS_F64 : LS_F32};
    char serial[65];
    w.text = fixture_text();
    w.config = malloc(sizeof *w.config);
    w.run = malloc(sizeof *w.run);
    ck_assert(w.config != NULL && w.run != NULL);
    w.status = read_model(&w);
    ck_assert_msg(w.status == LS_OK, "%s", ls_error_text());
    const bool net = w.config->kind == LS_MODEL_NET;
    if (net) w.images = net_images(w.config);
    for (int layout = 0; layout < 2; layout++) {
        w.serial = layout == 0;
        on_small_stack(&w);
        ck_assert_uint_eq(strlen(w.digest), 64);
        if (layout == 0) memcpy(serial, w.digest, sizeof serial);
        ck_assert_str_eq(w.digest, serial);
    }
    if (net) ls_images_free(&w.images);
    free(w.config);
    free(w.run);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("small_stack", 60);
    tcase_add_test(tests, world);
    tcase_add_loop_test(tests, training, 0, 8);
    return run_tests();
}
