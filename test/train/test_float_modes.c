/* A run's digest is the same whatever mode the caller's thread computes in, and the caller finds
 * its mode as it was: training, serial and over layouts, and the serial model used by itself. */
#include <stdlib.h>

#include "base/float_modes.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/serial/serial.h"
#include "run_fixture.h"
#include "run_tests.h"

/* Runs in a mode, asserts afterwards. */
static void train_in(const float_mode *mode, const ls_run *run, char ret_digest[65])
{
    ls_train_result result;
    set_float_mode(mode);
    ls_status status = ls_train(run, NULL, &result);
    bool kept = in_float_mode(mode);
    fesetenv(FE_DFL_ENV);
    ck_assert_msg(status == LS_OK, "mode \"%s\": %s", mode->name, ls_error_text());
    ck_assert_msg(kept, "mode \"%s\" is not given back", mode->name);
    memcpy(ret_digest, result.digest, sizeof result.digest);
    ls_train_result_free(&result);
}

START_TEST(digest_of_a_run)
{
    static const grid_of grids[] = {
        {.dp = 1, .pp = 1, .tp = 1, .chunks = 1, .micro_batches = 1},
        {.dp = 1, .pp = 1, .tp = 2, .sp = true, .chunks = 1, .micro_batches = 1},
        {.dp = 2, .pp = 2, .tp = 1, .chunks = 1, .micro_batches = 2}};
    const ls_text text = fixture_text();
    const ls_config config = fixture_config("gpt2-nano");
    ls_run run = fixture_run(&config, &text, 2);
    char right[65], found[65];
    run.dtype = _i ? LS_F64 : LS_F32;
    train_in(&float_modes[0], &run, right);
    for (size_t m = 1; m < FLOAT_MODES; m++) {
        run.serial = true;
        train_in(&float_modes[m], &run, found);
        ck_assert_msg(strcmp(found, right) == 0, "serial, mode \"%s\"", float_modes[m].name);
        const size_t g = m % (sizeof grids / sizeof grids[0]);
        run.serial = false;
        run.layout = fixture_layout(&grids[g]);
        train_in(&float_modes[m], &run, found);
        ck_assert_msg(strcmp(found, right) == 0, "layout %zu, mode \"%s\"", g, float_modes[m].name);
    }
}
END_TEST

/* The parts that a program of its own would call: table, initial values, passes, update. */
static ls_status step_by_hand(const ls_config *config, ls_real *ret_loss, double *ret_squares,
                              char ret_digest[65])
{
    enum { B = 2, S = 8 };
    ls_status status = LS_OK;
    int32_t tokens[B * S], targets[B * S];
    ls_param_table *table = NULL;
    ls_store *store = NULL;
    ls_serial *serial = NULL;
    ls_digest *digest = NULL;
    for (int i = 0; i < B * S; i++) tokens[i] = 7 * i % 50, targets[i] = (7 * i + 7) % 50;
    const ls_batch batch = {.B = B, .S = S, .tokens = tokens, .targets = targets};
    LS_TRY(ls_param_table_create(&table, config));
    LS_TRY(ls_store_create(&store, table, NULL, NULL));
    ls_store_init(store, 5);
    LS_TRY(ls_serial_create(&serial, store, LS_ENGINE_PORTABLE, NULL));
    LS_TRY(ls_serial_forward(serial, &batch, ret_loss));
    LS_TRY(ls_serial_backward(serial));
    LS_TRY(ls_serial_squares(serial, ret_squares));
    LS_TRY(ls_digest_create(&digest));
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, slot->value, slot->rows * slot->cols));
        LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, slot->grad[0], slot->rows * slot->cols));
    }
    LS_TRY(ls_digest_finish(digest, ret_digest));
exit:
    ls_digest_destroy(&digest);
    ls_serial_destroy(&serial);
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
    return status;
}

START_TEST(serial_model_by_hand)
{
    const ls_config config = fixture_config(_i ? "llama-nano" : "gpt2-nano");
    ls_real right_loss = 0;
    double right_squares = 0;
    char right[65];
    ck_assert_int_eq(step_by_hand(&config, &right_loss, &right_squares, right), LS_OK);
    for (size_t m = 0; m < FLOAT_MODES; m++) {
        ls_real loss = 0;
        double squares = 0;
        char found[65];
        set_float_mode(&float_modes[m]);
        ls_status status = step_by_hand(&config, &loss, &squares, found);
        bool kept = in_float_mode(&float_modes[m]);
        fesetenv(FE_DFL_ENV);
        ck_assert_msg(status == LS_OK && kept, "mode \"%s\": %s", float_modes[m].name,
                      ls_error_text());
        ck_assert_msg(loss == right_loss && squares == right_squares && strcmp(found, right) == 0,
                      "mode \"%s\"", float_modes[m].name);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("float_modes", 120);
    tcase_add_loop_test(tcase, digest_of_a_run, 0, 2);
    tcase_add_loop_test(tcase, serial_model_by_hand, 0, 2);
    return run_tests();
}
