/* Whole runs of convolutional networks, ORDERED: in layouts of every axis they have the bits of the
 * serial baseline - losses, every gradient, every parameter and running statistic after every step.
 * Checkpoints go from any layout to any other. */
#include "../io/scratch.h"
#include "../parallel/net_layouts.h"
#include "net_run.h"

/* Dropout, response norms, groups; batch norm with its running statistics. Clipping is on, so the
 * norm takes part. */
START_TEST(every_axis)
{
    ls_config config = fixture_config(net_models[_i % 2]);
    ls_images images = net_images(&config);
    ls_run run = net_run(&config, &images, 2);
    ls_record *record;
    ls_train_result serial;
    run.clip = 0.5;
    run.dtype = _i / 2 ? LS_F64 : LS_F32;
    ASSERT_OK(ls_record_run(&record, &run, NULL, &serial));
    ck_assert(ls_record_loss(record, 0) > 1 && ls_record_loss(record, 0) < 10);
    for (int l = 0; l < NET_LAYOUTS; l++)
        if (run.dtype == LS_F32 || l % 4 == 2)
            ck_same_as(record, serial.digest, run, net_layouts[l]);
    ls_train_result_free(&serial);
    ls_record_destroy(&record);
    ls_images_free(&images);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net_training");
    TCase *tests = tcase_create("net_training");
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, every_axis, 0, 4);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
