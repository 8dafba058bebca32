/* test_state_update.c - what is not trained stays as it is when the rest is clipped and updated.
 * EXACT. */
#include "lockstep/parallel/data/update.h"
#include "model/store_grid.h"
#include "run_tests.h"

START_TEST(states_are_left_alone)
{
    ls_config config;
    ASSERT_OK(ls_config_named("resnet-nano", &config));
    ls_param_table *table = table_of(&config);
    ls_store *store = store_of(table, NULL, NULL);
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        for (size_t e = 0; e < slot->rows * slot->cols; e++) {
            slot->value[e] = (ls_real)5;
            if (slot->grad[0]) slot->grad[0][e] = (ls_real)4;
        }
    }
    const ls_update update = {.optimizer = LS_SGD, .lr = 0.5, .t = 1};
    ls_shard_update(store, &update, 64, 4); /* a norm of 8: halved, then halved again by lr */
    for (size_t i = 0; i < table->count; i++) {
        const ls_slot *slot = &store->slots[i];
        const double right = table->params[i].state ? 5 : 4;
        for (size_t e = 0; e < slot->rows * slot->cols; e++)
            ck_assert_double_eq((double)slot->value[e], right);
    }
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("state_update", 0);
    tcase_add_test(tcase, states_are_left_alone);
    return run_tests();
}
