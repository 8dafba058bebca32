/* A run begun from values in memory is the run begun from a checkpoint with the same ones,
 * optimizer state and step included, serial and in layouts. ORDERED. */
#define LS_REAL_IS_F64 /* the store of this file is in binary64 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "train/checkpoint.h"
#include "train/run_fixture.h"
#include "run_tests.h"

enum { ARRAYS = 3 };

static void digest_of(const ls_run *run, char digest[65])
{
    ls_train_result result;
    expect_ok(ls_train(run, NULL, &result));
    memcpy(digest, result.digest, 65);
    ls_train_result_free(&result);
}

static const grid_of grids[] = {{1, 1, 3, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
                                {2, 2, 1, false, 1, 2, LS_1F1B, LS_RECOMPUTE_NONE},
                                {1, 2, 2, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE}};

/* Two steps, saved; the third from the file, and from what the file holds. */
START_TEST(goes_on)
{
    static const char *const names[] = {"gpt2-nano", "llama-nano", "bert-nano"};
    ls_config config = fixture_config(names[_i]);
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, 2);
    ls_param_table *table;
    ls_store *store;
    ls_initial initial = {0};
    char path[] = "/tmp/lockstep-initial-XXXXXX", digest[2][65];
    double **arrays[ARRAYS];

    ck_assert(close(mkstemp(path)) == 0);
    run.save = path;
    digest_of(&run, digest[0]);
    run.save = NULL;
    run.load = path;
    run.steps = 3;
    expect_ok(ls_param_table_create(&table, &config));
    expect_ok(ls_store_create(&store, table, NULL, NULL));
    ls_run wide = run;
    wide.dtype = LS_F64;
    expect_ok(ls_checkpoint_begin(&wide, store, &initial.step));
    ck_assert_uint_eq(initial.step, 2);
    for (int a = 0; a < ARRAYS; a++) {
        arrays[a] = calloc(table->count, sizeof *arrays[a]);
        for (size_t p = 0; p < table->count; p++) {
            const ls_slot *slot = &store->slots[p];
            const ls_real *const held[] = {slot->value, slot->m, slot->v};
            arrays[a][p] = calloc(ls_param_elements(&table->params[p]), sizeof(double));
            ls_param_shard_out(&table->params[p], slot->shard, sizeof(double), arrays[a][p],
                               held[a]);
        }
    }
    digest_of(&run, digest[0]);
    unlink(path);
    initial.values = (const double *const *)arrays[0];
    initial.moment1 = (const double *const *)arrays[1];
    initial.moment2 = (const double *const *)arrays[2];
    run.initial = &initial; /* the file, gone by now, is not looked at */
    digest_of(&run, digest[1]);
    ck_assert_str_eq(digest[0], digest[1]);
    run.serial = false;
    for (size_t g = 0; g < sizeof grids / sizeof grids[0]; g++) {
        run.layout = fixture_layout(&grids[g]);
        digest_of(&run, digest[1]);
        ck_assert_str_eq(digest[0], digest[1]);
    }
    /* Without moments it is another run. */
    initial.moment1 = initial.moment2 = NULL;
    digest_of(&run, digest[1]);
    ck_assert_str_ne(digest[0], digest[1]);
    for (int a = 0; a < ARRAYS; a++) {
        for (size_t p = 0; p < table->count; p++) free(arrays[a][p]);
        free(arrays[a]);
    }
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("initial", 60);
    tcase_add_loop_test(tests, goes_on, 0, 3);
    return run_tests();
}
