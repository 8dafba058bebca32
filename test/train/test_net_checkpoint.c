/* test_net_checkpoint.c - the parameters of a convolutional network in a checkpoint: running
 * statistics are in it and come back, and have no optimizer state there. EXACT. */
#define LS_REAL_IS_F64 /* the stores of this file are in binary64 */
#include "io/scratch.h"
#include "lockstep/io/safetensors.h"
#include "train/checkpoint.h"
#include "run_tests.h"

typedef struct fixture {
    ls_config config;
    ls_param_table *table;
    ls_store *store;
    ls_arena *temporary;
    ls_run run;
} fixture;

static fixture begin(void)
{
    fixture f = {0};
    ASSERT_OK(ls_config_named("resnet-nano", &f.config));
    ASSERT_OK(ls_param_table_create(&f.table, &f.config));
    ASSERT_OK(ls_store_create(&f.store, f.table, NULL, NULL));
    ASSERT_OK(ls_arena_create(&f.temporary, NULL, LS_MEM_TEMPORARY));
    ls_run_defaults(&f.run, &f.config);
    f.run.dtype = LS_F64;
    f.run.serial = true;
    return f;
}

static void end(fixture *f)
{
    ls_arena_destroy(&f->temporary);
    ls_store_destroy(&f->store);
    ls_param_table_destroy(&f->table);
}

/* Every array of every parameter differs from every other. */
static void fill(const fixture *f, double first)
{
    for (size_t i = 0; i < f->table->count; i++) {
        const ls_slot *slot = &f->store->slots[i];
        ls_real *const arrays[] = {slot->value, slot->m, slot->v};
        for (int a = 0; a < 3; a++)
            for (size_t e = 0; arrays[a] && e < slot->rows * slot->cols; e++)
                arrays[a][e] = first++;
    }
}

START_TEST(states_come_back)
{
    fixture f = begin();
    const char *path = scratch_path("net.safetensors");
    f.run.save = path;
    fill(&f, 1);
    ASSERT_OK(ls_checkpoint_save(&f.run, NULL, f.store, 5, f.temporary));

    ls_safetensors *file = NULL;
    size_t tensors = 0;
    ASSERT_OK(ls_safetensors_open(&file, path));
    ck_assert(ls_safetensors_find(file, "stem.norm.running_mean") != NULL);
    ck_assert(ls_safetensors_find(file, "stem.norm.running_var") != NULL);
    ck_assert(ls_safetensors_find(file, "optimizer.m.stem.norm.weight") != NULL);
    ck_assert(ls_safetensors_find(file, "optimizer.m.stem.norm.running_mean") == NULL);
    ck_assert(ls_safetensors_find(file, "optimizer.v.stem.norm.running_var") == NULL);
    for (size_t i = 0; i < f.table->count; i++) tensors += f.table->params[i].state ? 1 : 3;
    ck_assert_uint_eq(ls_safetensors_count(file), tensors);
    ls_safetensors_close(&file);

    fixture again = begin();
    uint64_t step = 0;
    again.run.load = path;
    fill(&again, -1e6);
    ASSERT_OK(ls_checkpoint_begin(&again.run, again.store, &step));
    ck_assert_uint_eq(step, 5);
    for (size_t i = 0; i < f.table->count; i++) {
        const ls_slot *a = &f.store->slots[i], *b = &again.store->slots[i];
        const size_t bytes = a->rows * a->cols * sizeof(ls_real);
        ck_assert_mem_eq(a->value, b->value, bytes);
        if (f.table->params[i].state) continue;
        ck_assert_mem_eq(a->m, b->m, bytes);
        ck_assert_mem_eq(a->v, b->v, bytes);
    }
    /* Values in memory too. */
    const double **values = calloc(f.table->count, sizeof *values);
    double *zeros = calloc(ls_param_table_elements(f.table), sizeof *zeros);
    for (size_t i = 0; i < f.table->count; i++) values[i] = zeros;
    const ls_initial initial = {.step = 9, .values = values, .moment1 = values, .moment2 = values};
    again.run.initial = &initial;
    ASSERT_OK(ls_checkpoint_begin(&again.run, again.store, &step));
    ck_assert_uint_eq(step, 9);
    ck_assert_double_eq(ls_store_slot(again.store, LS_BATCH_NORM_VARIANCE, 1)->value[0], 0);
    free(values);
    free(zeros);
    end(&again);
    end(&f);
}
END_TEST

/* The values of all parameters but `without`, and one tensor more. */
static const char *write_values(const fixture *f, const char *without, const char *extra)
{
    const char *path = scratch_path("made.safetensors");
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_create(&writer, path));
    const uint64_t eight = 8;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < f->table->count; i++) {
            const ls_param *p = &f->table->params[i];
            const uint64_t dims[2] = {p->dims[0], p->dims[1]};
            if (without && strcmp(p->name, without) == 0) continue;
            if (pass == 0)
                ASSERT_OK(ls_safetensors_declare(writer, p->name, LS_F64, p->n_dims, dims));
            else
                ASSERT_OK(ls_safetensors_write(writer, f->store->slots[i].value,
                                               ls_param_elements(p) * sizeof(double)));
        }
        if (extra && pass == 0) ASSERT_OK(ls_safetensors_declare(writer, extra, LS_F64, 1, &eight));
        if (extra && pass == 1)
            ASSERT_OK(ls_safetensors_write(writer, f->store->slots[0].value, 8 * sizeof(double)));
    }
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    return path;
}

START_TEST(refuses)
{
    fixture f = begin();
    uint64_t step;
    fill(&f, 1);
    f.run.load = write_values(&f, NULL, NULL);
    ASSERT_OK(ls_checkpoint_begin(&f.run, f.store, &step));
    ck_assert_uint_eq(step, 0);
    f.run.load = write_values(&f, "stem.norm.running_var", NULL);
    ASSERT_SAYS(ls_checkpoint_begin(&f.run, f.store, &step), LS_ERR_INPUT,
                "has no tensor stem.norm.running_var");
    f.run.load = write_values(&f, NULL, "optimizer.m.stem.norm.running_mean");
    ASSERT_SAYS(ls_checkpoint_begin(&f.run, f.store, &step), LS_ERR_INPUT,
                "optimizer.m.stem.norm.running_mean: ", "has no optimizer state");
    f.run.load = write_values(&f, NULL, "stem.norm.running_std");
    ASSERT_SAYS(ls_checkpoint_begin(&f.run, f.store, &step), LS_ERR_INPUT, "stem.norm.running_std");

    /* Two networks may agree in every shape and still compute different things. */
    f.run.save = scratch_path("own.safetensors");
    ASSERT_OK(ls_checkpoint_save(&f.run, NULL, f.store, 5, f.temporary));
    f.run.load = f.run.save;
    f.table->config.net.layers[1].eps = 0.125;
    ASSERT_SAYS(ls_checkpoint_begin(&f.run, f.store, &step), LS_ERR_INPUT,
                "a network whose layer 1 is ", "stem.norm", "0.125");
    f.table->config.net.layers[1].eps = 1e-5;
    f.table->config.batch = 77;
    ASSERT_OK(ls_checkpoint_begin(&f.run, f.store, &step));
    end(&f);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_checkpoint", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, states_come_back);
    tcase_add_test(tcase, refuses);
    return run_tests();
}
