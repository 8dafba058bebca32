/* Checkpoints: saved in any layout, loaded in any other, the run goes on with the bits of one that
 * was never interrupted; and files that do not fit are refused in one line. */
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/io/safetensors.h"
#include "run_fixture.h"
#include "run_tests.h"

static char folder[64];
static char saved[96], again[96], damaged[96];

static void set_up(void)
{
    strcpy(folder, "/tmp/lockstep-test-XXXXXX");
    ck_assert(mkdtemp(folder) != NULL);
    snprintf(saved, sizeof saved, "%s/saved.safetensors", folder);
    snprintf(again, sizeof again, "%s/again.safetensors", folder);
    snprintf(damaged, sizeof damaged, "%s/damaged.safetensors", folder);
}

static void tear_down(void)
{
    unlink(saved), unlink(again), unlink(damaged);
    ck_assert_msg(rmdir(folder) == 0, "something was left in %s", folder);
}

static ls_train_result train(const ls_run *run)
{
    ls_train_result result;
    ls_status status = ls_train(run, NULL, &result);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return result;
}

/* The digest of a whole file's tensors is that of the final parameters and moments: compare file to
 * file. */
static void ck_same_file(const char *left, const char *right)
{
    ls_safetensors *a, *b;
    ck_assert_int_eq(ls_safetensors_open(&a, left), LS_OK);
    ck_assert_int_eq(ls_safetensors_open(&b, right), LS_OK);
    ck_assert_uint_gt(ls_safetensors_count(a), 3);
    ck_assert_uint_eq(ls_safetensors_count(a), ls_safetensors_count(b));
    for (size_t i = 0; i < ls_safetensors_count(a); i++) {
        const ls_tensor_info *x = ls_safetensors_at(a, i), *y = ls_safetensors_find(b, x->name);
        ck_assert_msg(y != NULL, "%s is missing", x->name);
        ck_assert_uint_eq(x->elements, y->elements);
        ck_assert_int_eq(x->dtype, y->dtype);
        ck_assert_msg(memcmp(x->data, y->data, x->elements * ls_dtype_bytes(x->dtype)) == 0,
                      "%s differs", x->name);
    }
    ck_assert_str_eq(ls_safetensors_metadata(a, "step"), ls_safetensors_metadata(b, "step"));
    ls_safetensors_close(&a);
    ls_safetensors_close(&b);
}

/* Every axis changes from one to another, and with M, V and dp also who has which sequences when.
 * The first stands for the serial baseline. */
static const grid_of grids[] = {
    {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 12, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
    {2, 2, 1, false, 1, 3, LS_1F1B, LS_RECOMPUTE_LAYER},
    {1, 2, 2, true, 2, 4, LS_INTERLEAVED, LS_RECOMPUTE_SELECTIVE},
    {3, 1, 1, false, 4, 2, LS_INTERLEAVED, LS_RECOMPUTE_NONE},
    {1, 4, 3, false, 1, 7, LS_GPIPE, LS_RECOMPUTE_STAGE},
};
enum { GRIDS = sizeof grids / sizeof grids[0] };

static ls_run in_grid(const ls_run *run, int grid)
{
    ls_run changed = *run;
    changed.serial = grid == 0;
    changed.layout = fixture_layout(&grids[grid]);
    return changed;
}

/* 2 steps in one layout, 2 more in another, against 4 serial ones: the same file, moments and all,
 * every layer's under its own name, whichever stage had it. Each pair of layouts in one precision.
 */
START_TEST(any_layout_reads_what_any_wrote)
{
    static const struct {
        const char *model;
        ls_norm_place norms;
        ls_dtype dtype;
    } cases[] = {{"gpt2-nano", LS_NORM_PRE, LS_F32},  {"llama-nano", LS_NORM_PRE, LS_F32},
                 {"gpt2-nano", LS_NORM_PRE, LS_F64},  {"llama-nano", LS_NORM_PRE, LS_F64},
                 {"bert-nano", LS_NORM_POST, LS_F32}, {"bert-nano", LS_NORM_PRE, LS_F64}};
    ls_text text = fixture_text();
    ls_config config = fixture_config(cases[_i].model);
    ls_config_place_norms(&config, cases[_i].norms);
    config.layers = 4;
    config.seq = 5;
    ls_run whole = fixture_run(&config, &text, 4);
    whole.dtype = cases[_i].dtype;
    whole.seed = 99;
    whole.save = again;
    ls_train_result uninterrupted = train(&whole);
    for (int from = 0; from < GRIDS; from++) {
        ls_run first = in_grid(&whole, from);
        first.steps = 2;
        first.save = saved;
        ls_train_result half = train(&first);
        for (int to = (from + _i / 2) % 2; to < GRIDS; to += 2) {
            ls_run rest = in_grid(&whole, to);
            rest.seed = 1234; /* not given: the checkpoint's own 99 goes before it */
            rest.load = saved;
            rest.save = damaged;
            ls_train_result done = train(&rest);
            ck_assert_uint_eq(done.first_step, 2);
            ck_assert_uint_eq(done.last_step, 4);
            ck_assert(memcmp(&done.last_loss, &uninterrupted.last_loss, sizeof done.last_loss) ==
                      0);
            ck_same_file(again, damaged);
            ls_train_result_free(&done);
        }
        ls_train_result_free(&half);
    }
    ls_train_result_free(&uninterrupted);
}
END_TEST

/* Nothing to do: the step asked for is the checkpoint's own; and one that lies behind is refused.
 */
START_TEST(step_to_reach)
{
    ls_text text = fixture_text();
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    ls_run run = fixture_run(&config, &text, 2);
    run.save = saved;
    ls_train_result first = train(&run);
    run.save = NULL;
    run.load = saved;
    ls_train_result none = train(&run);
    ck_assert_uint_eq(none.first_step, 2);
    ck_assert_uint_eq(none.last_step, 2);
    run.steps = 1;
    ls_error_clear();
    ck_assert_int_eq(ls_train(&run, NULL, &none), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), "--steps 1") && strstr(ls_error_text(), "step 2"), "%s",
                  ls_error_text());
    ls_train_result_free(&first);
    ls_train_result_free(&none);
}
END_TEST

/* Copies a checkpoint, changed: a tensor is dropped, added, reshaped or retyped; the optimizer
 * state is left out; the seed is the text `tensor`. */
enum { DROP, ADD, RESHAPE, RETYPE, BARE, RESEED, NEGATIVE, NOT_FINITE, KINDS };

/* The element that NEGATIVE and NOT_FINITE change. */
enum { CHANGED = 17 };

static void damage(int kind, const char *tensor)
{
    static const double zeros[4];
    ls_safetensors *from;
    ls_safetensors_writer *to;
    ck_assert_int_eq(ls_safetensors_open(&from, saved), LS_OK);
    ck_assert_int_eq(ls_safetensors_create(&to, damaged), LS_OK);
    static const char *const keys[] = {"model", "seed", "step"};
    for (int i = 0; i < 3; i++) {
        const char *value = ls_safetensors_metadata(from, keys[i]);
        if (kind == RESEED && i == 1) value = tensor;
        ck_assert_int_eq(ls_safetensors_add_metadata(to, keys[i], value), LS_OK);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < ls_safetensors_count(from); i++) {
            const ls_tensor_info *info = ls_safetensors_at(from, i);
            uint64_t dims[2] = {info->dims[0], info->n_dims > 1 ? info->dims[1] : 1};
            ls_dtype dtype = info->dtype;
            int n_dims = info->n_dims, hit = strcmp(info->name, tensor) == 0;
            if (kind == BARE && strncmp(info->name, "optimizer.", 10) == 0) continue;
            if (kind == DROP && hit) continue;
            if (kind == RESHAPE && hit) dims[1] = dims[0] * dims[1], dims[0] = 1, n_dims = 2;
            if (kind == RETYPE && hit) dtype = LS_I32;
            const size_t bytes = info->elements * ls_dtype_bytes(info->dtype);
            float *copy = malloc(bytes);
            memcpy(copy, info->data, bytes);
            if (kind == NEGATIVE && hit) copy[CHANGED] = -0.25f;
            if (kind == NOT_FINITE && hit) copy[CHANGED] = NAN, copy[CHANGED + 2] = INFINITY;
            if (pass == 0)
                ck_assert_int_eq(ls_safetensors_declare(to, info->name, dtype, n_dims, dims),
                                 LS_OK);
            else
                ck_assert_int_eq(ls_safetensors_write(to, copy, bytes), LS_OK);
            free(copy);
        }
        if (kind == ADD) {
            uint64_t four = 4;
            if (pass == 0)
                ck_assert_int_eq(ls_safetensors_declare(to, tensor, LS_F64, 1, &four), LS_OK);
            else
                ck_assert_int_eq(ls_safetensors_write(to, zeros, sizeof zeros), LS_OK);
        }
    }
    ck_assert_int_eq(ls_safetensors_commit(to), LS_OK);
    ls_safetensors_destroy(&to);
    ls_safetensors_close(&from);
}

/* Every refusal is LS_ERR_INPUT at every degree, with one line that names file and tensor. */
static void ck_refused(ls_run run, const char *name, const char *found)
{
    static const int degrees[] = {0, 3};
    for (int i = 0; i < 2; i++) {
        ls_train_result result;
        run.serial = degrees[i] == 0;
        run.layout.tp = degrees[i] ? degrees[i] : 1;
        ls_error_clear();
        ls_status status = ls_train(&run, NULL, &result);
        const char *text = ls_error_text();
        ck_assert_msg(status == LS_ERR_INPUT, "%s at tp %d was accepted", name, degrees[i]);
        ck_assert_msg(strstr(text, name) && strstr(text, found) && !strchr(text, '\n'), "%s", text);
        /* the file's fault, and no rank's */
        ck_assert_msg(strncmp(text, "rank ", 5) != 0, "%s", text);
    }
}

START_TEST(files_that_do_not_fit)
{
    ls_text text = fixture_text();
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    ls_run run = fixture_run(&config, &text, 1);
    run.save = saved;
    ls_train_result first = train(&run);
    ls_train_result_free(&first);
    run.save = NULL;
    run.load = damaged;
    run.steps = 2;

    damage(DROP, "layers.0.mlp.up.weight");
    ck_refused(run, "layers.0.mlp.up.weight", "has no tensor");
    damage(DROP, "optimizer.v.final_norm.bias");
    ck_refused(run, "optimizer.v.final_norm.bias", "has no tensor");
    damage(DROP, "optimizer.m.token_embedding.weight"); /* the first of them: not bare weights */
    ck_refused(run, "optimizer.m.token_embedding.weight", "has no tensor");
    static const char *const no_seeds[] = {"", "-1", "12x", " 12", "18446744073709551616"};
    for (size_t i = 0; i < sizeof no_seeds / sizeof no_seeds[0]; i++) {
        damage(RESEED, no_seeds[i]);
        ck_refused(run, "seed", no_seeds[i]);
    }
    damage(ADD, "layers.7.mlp.up.weight");
    ck_refused(run, "layers.7.mlp.up.weight", "does not know");
    /* query, key and value in one: nobody can tell in which order, so nobody guesses */
    damage(ADD, "layers.0.attention.query_key_value.weight");
    ck_refused(run, "layers.0.attention.query_key_value.weight", "does not know");
    damage(RESHAPE, "token_embedding.weight");
    ck_refused(run, "token_embedding.weight", "256 x 48");
    damage(RETYPE, "layers.0.norm1.weight");
    ck_refused(run, "layers.0.norm1.weight", "I32");
    /* a mean of squares is not negative; a first moment is, here and there */
    damage(NEGATIVE, "optimizer.v.layers.0.mlp.up.weight");
    ck_refused(run, "tensor optimizer.v.layers.0.mlp.up.weight: element 17 is -0.25", "from 0 on");
    damage(NEGATIVE, "optimizer.m.layers.0.mlp.up.weight");
    ls_train_result negative = train(&run);
    ls_train_result_free(&negative);

    /* the same shapes in another model: 6 heads of 8 are not 12 heads of 4 */
    run.load = saved;
    run.config.heads = run.config.kv_heads = 6;
    ck_refused(run, "heads", "12");
    run.config = config;
    run.config.activation = LS_GELU_ERF;
    ck_refused(run, "activation", "gelu_tanh");
    run.config = config;

    /* the largest seed is one */
    damage(RESEED, "18446744073709551615");
    run.load = damaged;
    ls_train_result seeded = train(&run);
    ck_assert_uint_eq(seeded.first_step, 1);
    ls_train_result_free(&seeded);

    /* weights without optimizer state begin a run at step 0 */
    damage(BARE, "");
    run.load = damaged;
    ls_train_result bare = train(&run);
    ck_assert_uint_eq(bare.first_step, 0);
    ls_train_result_free(&bare);
}
END_TEST

/* A run that diverged can be gone on with, and the program can say so. */
START_TEST(not_finite)
{
    static const char *const tensors[] = {"token_embedding.weight", "optimizer.v.final_norm.bias"};
    ls_text text = fixture_text();
    ls_config config = fixture_config("gpt2-nano");
    char found[400], wanted[100];
    config.layers = 1;
    ls_run run = fixture_run(&config, &text, 1);
    run.save = saved;
    ls_train_result first = train(&run);
    ls_train_result_free(&first);
    ck_assert_int_eq(ls_checkpoint_not_finite(saved, found, sizeof found), LS_OK);
    ck_assert_str_eq(found, "");
    run.save = NULL;
    run.load = damaged;
    run.steps = 2;
    for (int i = 0; i < 2; i++) {
        damage(NOT_FINITE, tensors[i]);
        ck_assert_int_eq(ls_checkpoint_not_finite(damaged, found, sizeof found), LS_OK);
        snprintf(wanted, sizeof wanted,
                 ": 2 of its numbers are not finite, the first is element 17 of %s: nan",
                 tensors[i]);
        ck_assert_msg(strstr(found, wanted) != NULL, "%s", found);
        ls_train_result diverged = train(&run);
        ls_train_result_free(&diverged);
    }
}
END_TEST

/* binary32 weights may start a binary64 run, not the reverse. */
START_TEST(widening)
{
    ls_text text = fixture_text();
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    ls_run run = fixture_run(&config, &text, 1);
    run.save = saved;
    ls_train_result first = train(&run);
    run.load = saved;
    run.dtype = LS_F64;
    run.save = again;
    run.steps = 2;
    ls_train_result wide = train(&run);
    ck_assert(wide.last_loss > 0);
    run.load = again;
    run.save = NULL;
    run.dtype = LS_F32;
    ck_refused(run, "token_embedding.weight", "F64");
    ls_train_result_free(&first);
    ls_train_result_free(&wide);
}
END_TEST

/* A place that cannot be written: an error, and nothing left behind (the folder must be empty
 * again). */
START_TEST(unwritable)
{
    ls_text text = fixture_text();
    ls_config config = fixture_config("gpt2-nano");
    config.layers = 1;
    ls_run run = fixture_run(&config, &text, 1);
    char nowhere[128];
    ls_train_result result;
    snprintf(nowhere, sizeof nowhere, "%s/absent/x.safetensors", folder);
    run.save = nowhere;
    for (int tp = 0; tp <= 2; tp++) {
        run.serial = tp == 0;
        run.layout.tp = tp ? tp : 1;
        ls_error_clear();
        ls_status status = ls_train(&run, NULL, &result);
        ck_assert(status == LS_ERR_IO || status == LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), "absent"), "%s", ls_error_text());
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("checkpoint", 120);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, any_layout_reads_what_any_wrote, 0, 6);
    tcase_add_test(tests, step_to_reach);
    tcase_add_test(tests, files_that_do_not_fit);
    tcase_add_test(tests, widening);
    tcase_add_test(tests, not_finite);
    tcase_add_test(tests, unwritable);
    return run_tests();
}
