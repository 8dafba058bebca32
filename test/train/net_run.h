/* net_run.h - small training runs of convolutional networks, for the tests of train and oracle. */
#ifndef TEST_TRAIN_NET_RUN_H
#define TEST_TRAIN_NET_RUN_H

#include "verify/verify.h"
#include "run_fixture.h"

/* Drawn images of the size that a network reads. */
static inline ls_images net_images(const ls_config *config)
{
    ls_images images;
    const ls_net *net = &config->net;
    ls_status status = ls_images_draw("the test", 5, 40, net->channels, net->height, net->width,
                                      net->classes, &images);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return images;
}

/* `steps` serial steps, everything else as the command line's defaults. */
static inline ls_run net_run(const ls_config *config, const ls_images *images, uint64_t steps)
{
    ls_run run = fixture_run(config, NULL, steps);
    run.images = images;
    return run;
}

static inline void set_layout(ls_run *run, const char *text)
{
    run->serial = false;
    ck_assert_msg(ls_layout_parse("test", text, &run->layout) == LS_OK, "%s", ls_error_text());
}

/* The run in a layout has the record's losses, gradients, parameters and digest. */
static inline void ck_same_as(const ls_record *record, const char *digest, ls_run run,
                              const char *layout)
{
    ls_departure departure;
    ls_train_result result;
    char text[640] = "";
    set_layout(&run, layout);
    ls_status status = ls_verify_run(record, &run, NULL, &departure, &result);
    if (status == LS_DIFFERENT) ls_departure_describe(&departure, run.dtype, text, sizeof text);
    ck_assert_msg(status == LS_OK, "%s, %s, %s: %s%s", run.config.name, layout,
                  ls_dtype_name(run.dtype), text, ls_error_text());
    ck_assert_str_eq(result.digest, digest);
    ls_train_result_free(&result);
}

#endif
