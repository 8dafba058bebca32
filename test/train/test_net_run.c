/* test_net_run.c - serial runs of networks: they learn; a run that was saved and goes on has the
 * bits of one that was not; batches that are given; what is refused. */
#include "../io/scratch.h"
#include "lockstep/io/safetensors.h"
#include "net_run.h"
#include "train/training.h"
#include "run_tests.h"

static const char *const models[] = {"alexnet-nano", "resnet-nano"};

/* A network that is trained in no time, with everything that has a state: batch norm, dropout. */
#define SMALL                                                                                      \
    "{\"name\": \"small\", \"batch\": 6, \"network\": {\"channels\": 1, \"height\": 12, "          \
    "\"width\": 10, \"classes\": 4, \"layers\": ["                                                 \
    "{\"kind\": \"conv\", \"channels\": 6, \"kernel\": 3, \"padding\": 1, \"bias\": false},"       \
    "{\"kind\": \"batch_norm\"}, {\"kind\": \"relu\"}, "                                           \
    "{\"kind\": \"max_pool\", \"kernel\": 2, \"stride\": 2}, {\"kind\": \"dropout\", \"p\": 0.1}," \
    "{\"kind\": \"dense\", \"channels\": 4}]}}"

static ls_config small_net(void)
{
    ls_config config;
    ck_assert_msg(ls_config_from_json("small", SMALL, &config) == LS_OK, "%s", ls_error_text());
    return config;
}

static ls_train_result train(const ls_run *run, const ls_train_hooks *watcher)
{
    ls_train_result result;
    ck_assert_msg(ls_train(run, watcher, &result) == LS_OK, "%s", ls_error_text());
    return result;
}

typedef struct curve {
    double first, last; /* means of five losses at the beginning and of ten at the end */
    uint64_t steps;
} curve;

static ls_status on_step(void *context, const ls_step *step)
{
    curve *c = context;
    if (step->step < 5) c->first += step->loss / 5;
    if (step->step + 10 >= c->steps) c->last += step->loss / 10;
    return LS_OK;
}

static curve learn(ls_run *run, uint64_t steps)
{
    curve c = {.steps = steps};
    const ls_train_hooks watcher = {.context = &c, .step = on_step};
    run->steps = steps;
    ls_train_result result = train(run, &watcher);
    ck_assert_uint_eq(result.tokens, steps * run->batch); /* images */
    ls_train_result_free(&result);
    return c;
}

/* With the defaults. A network that has learnt nothing guesses: log(classes). */
START_TEST(drawn_images_are_learnt)
{
    ls_config config = fixture_config(models[_i]);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 0);
    ls_run_defaults(&run, &config);
    run.serial = true;
    run.images = &images;
    const curve c = learn(&run, _i == 0 ? 100 : 40);
    ck_assert_msg(c.last < c.first - 0.6 && c.last < log((double)config.net.classes) - 0.25,
                  "%s: from %g to %g", models[_i], c.first, c.last);
    ls_images_free(&images);
}
END_TEST

START_TEST(a_small_net_learns_in_both_precisions)
{
    ls_config config = small_net();
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 0);
    run.dtype = _i % 2 ? LS_F64 : LS_F32;
    run.optimizer = _i / 2 ? LS_SGD : LS_ADAMW;
    run.lr = 0.02;
    const curve c = learn(&run, 150);
    ck_assert_msg(c.last < 0.5 * c.first, "from %g to %g", c.first, c.last);
    ls_images_free(&images);
}
END_TEST

/* The tensors of two checkpoints, byte by byte. */
static void expect_equal_files(const char *left, const char *right)
{
    ls_safetensors *a = NULL, *b = NULL;
    ck_assert_int_eq(ls_safetensors_open(&a, left), LS_OK);
    ck_assert_int_eq(ls_safetensors_open(&b, right), LS_OK);
    ck_assert_uint_eq(ls_safetensors_count(a), ls_safetensors_count(b));
    for (size_t i = 0; i < ls_safetensors_count(a); i++) {
        const ls_tensor_info *x = ls_safetensors_at(a, i);
        const ls_tensor_info *y = ls_safetensors_find(b, x->name);
        ck_assert_ptr_nonnull(y);
        const size_t bytes = (size_t)x->elements * ls_dtype_bytes(x->dtype);
        ck_assert_msg(x->elements == y->elements && memcmp(x->data, y->data, bytes) == 0,
                      "%s differs", x->name);
    }
    ls_safetensors_close(&a);
    ls_safetensors_close(&b);
}

/* Running statistics go on too. */
START_TEST(saved_and_loaded)
{
    ls_config config = small_net();
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 7);
    char whole[256], half[256], rest[256];
    snprintf(whole, sizeof whole, "%s", scratch_path("whole.safetensors"));
    snprintf(half, sizeof half, "%s", scratch_path("half.safetensors"));
    snprintf(rest, sizeof rest, "%s", scratch_path("rest.safetensors"));
    run.dtype = _i ? LS_F64 : LS_F32;
    run.save = whole;
    ls_train_result result = train(&run, NULL);
    ls_train_result_free(&result);
    run.steps = 3;
    run.save = half;
    result = train(&run, NULL);
    ls_train_result_free(&result);
    run.steps = 7;
    run.load = half;
    run.save = rest;
    result = train(&run, NULL);
    ck_assert_uint_eq(result.first_step, 3);
    ls_train_result_free(&result);
    expect_equal_files(whole, rest);
    ls_images_free(&images);
}
END_TEST

/* Batches in memory are what the images give at that step. */
START_TEST(given_batches)
{
    enum { STEPS = 3, B = 6, PIXELS = 120 };
    static float pixels[STEPS][B * PIXELS];
    static int32_t labels[STEPS][B];
    ls_config config = small_net();
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, STEPS);
    ls_batch given[STEPS];
    for (uint32_t s = 0; s < STEPS; s++) {
        ls_images_batch(&images, run.seed, s, 0, B, pixels[s], labels[s]);
        given[s] = (ls_batch){
            .B = B, .step = s, .pixels = PIXELS, .images = pixels[s], .labels = labels[s]};
    }
    ls_train_result drawn = train(&run, NULL);
    run.images = NULL;
    run.given = given;
    run.n_given = STEPS;
    ls_train_result same = train(&run, NULL);
    ck_assert_str_eq(drawn.digest, same.digest);
    labels[2][5] = (labels[2][5] + 1) % 4;
    ls_train_result other = train(&run, NULL);
    ck_assert_str_ne(drawn.digest, other.digest);
    ls_train_result_free(&drawn);
    ls_train_result_free(&same);
    ls_train_result_free(&other);

    ls_train_result none;
    given[1].pixels = 119;
    ck_assert_int_eq(ls_train(&run, NULL, &none), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "6 x 119; the run's are 6 x 120"), "%s", ls_error_text());
    ls_error_clear();
    given[1].pixels = PIXELS;
    given[2].labels = NULL;
    ck_assert_int_eq(ls_train(&run, NULL, &none), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "has no labels"), "%s", ls_error_text());
    ls_error_clear();
    ls_images_free(&images);
}
END_TEST

/* A rank's part of a batch is the slice of the whole. */
START_TEST(part_of_a_batch)
{
    ls_config config = small_net();
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 1);
    ls_step_batch whole, part;
    ck_assert_int_eq(ls_step_batch_create(&whole, &run, 0, 6), LS_OK);
    ck_assert_int_eq(ls_step_batch_create(&part, &run, 2, 3), LS_OK);
    for (uint64_t step = 4; step < 6; step++) {
        ls_step_batch_fill(&whole, &run, step);
        ls_step_batch_fill(&part, &run, step);
        ck_assert_uint_eq(part.batch.first, 2);
        ck_assert_uint_eq(part.batch.pixels, 120);
        ck_assert_mem_eq(part.batch.labels, whole.batch.labels + 2, 3 * sizeof(int32_t));
        ck_assert_mem_eq(part.batch.images, whole.batch.images + 2 * 120, 3 * 120 * sizeof(float));
    }
    ls_step_batch_free(&whole);
    ls_step_batch_free(&part);
    ls_images_free(&images);
}
END_TEST

static void expect_refused(const ls_run *run, const char *says)
{
    ls_train_result none;
    ck_assert_int_eq(ls_train(run, NULL, &none), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), says) != NULL, "%s", ls_error_text());
    ck_assert_msg(strchr(ls_error_text(), '\n') == NULL, "%s", ls_error_text());
    ls_error_clear();
}

START_TEST(refused)
{
    ls_config config = small_net(), other = fixture_config("alexnet-nano");
    ls_images images = net_images(&config), large = net_images(&other);
    ls_run run = net_run(&config, &images, 2);
    run.images = NULL;
    expect_refused(&run, "needs images");
    run.images = &large;
    expect_refused(&run, "3 x 32 x 32");
    run.images = &images;
    images.classes = 5;
    expect_refused(&run, "5 labels");
    images.classes = 4;
    run.batch = 0;
    expect_refused(&run, "at least one image");
    run.batch = 6;
    run.config.net.layers[0].kernel_h = 40;
    expect_refused(&run, "conv0");
    ls_images_free(&images);
    ls_images_free(&large);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("net_run", 240);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, drawn_images_are_learnt, 0, 2);
    tcase_add_loop_test(tests, a_small_net_learns_in_both_precisions, 0, 4);
    tcase_add_loop_test(tests, saved_and_loaded, 0, 2);
    tcase_add_test(tests, given_batches);
    tcase_add_test(tests, part_of_a_batch);
    tcase_add_test(tests, refused);
    return run_tests();
}
