/* run_fixture.h - small training runs for the tests of train and oracle. */
#ifndef TEST_TRAIN_RUN_FIXTURE_H
#define TEST_TRAIN_RUN_FIXTURE_H

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "train/train.h"

/* A text with structure, long enough for every test: printable bytes from a small generator. */
static inline ls_text fixture_text(void)
{
    static unsigned char bytes[6000];
    static const char words[] =
        "the rank adds what its granules give and the tree decides the order ";
    uint32_t state = 12345;
    for (size_t i = 0; i < sizeof bytes; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (state >> 28) == 0 ? (unsigned char)(32 + (state >> 16) % 95)
                                      : (unsigned char)words[i % (sizeof words - 1)];
    }
    ls_text text = {bytes, sizeof bytes};
    return text;
}

static inline ls_config fixture_config(const char *name)
{
    ls_config config;
    ls_status status = ls_config_named(name, &config);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return config;
}

/* `steps` steps of the model, serial, everything else as the command line's defaults. */
static inline ls_run fixture_run(const ls_config *config, const ls_text *text, uint64_t steps)
{
    ls_run run;
    ls_run_defaults(&run, config);
    run.text = text;
    run.steps = steps;
    run.serial = true;
    return run;
}

/* A layout in one line. */
typedef struct grid_of {
    int dp, pp, tp;
    bool sp;
    int chunks, micro_batches; /* V, M */
    ls_schedule_kind schedule;
    ls_recompute recompute;
} grid_of;

static inline ls_layout fixture_layout(const grid_of *grid)
{
    ls_layout layout = ls_layout_serial();
    layout.dp = grid->dp;
    layout.pp = grid->pp;
    layout.tp = grid->tp;
    layout.sp = grid->sp;
    layout.virtual_stages = grid->chunks;
    layout.micro_batches = grid->micro_batches;
    layout.schedule = grid->schedule;
    layout.recompute = grid->recompute;
    return layout;
}

#endif
