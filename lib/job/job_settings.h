/* job_settings.h - what a job is asked to do, read from words and checked: model, layout, data and
 * the options of a run. The command line and the front door (lockstep.h) both read it here.
 *
 * In this order:
 *
 *     ls_job_settings_begin       the defaults
 *     ls_job_options              the table of options, to be parsed: says which model
 *     ls_job_settings_load        that model's sizes become the defaults
 *     ls_job_options              the table again, to be parsed again over them
 *     ls_job_settings_finish      everything checked that can be known before a run
 *     ls_job_settings_free */
#ifndef LS_JOB_JOB_SETTINGS_H
#define LS_JOB_JOB_SETTINGS_H

#include "job/layout_words.h"
#include "lockstep/base/options.h"
#include "train/train.h"

/* Which action a table of options is for; an option names all that have it. */
enum {
    LS_JOB_TRAIN = 1,
    LS_JOB_VERIFY = 2,
    LS_JOB_PLAN = 4,
    LS_JOB_DUMP = 8,
    LS_JOB_ANY = LS_JOB_TRAIN | LS_JOB_VERIFY | LS_JOB_PLAN | LS_JOB_DUMP,
    /* Which kind of model it is for, when not for both. */
    LS_OF_TRANSFORMERS = 64,
    LS_OF_NETS = 128,
    /* Has no effect where nothing runs: plan takes it and leaves it out of its help. */
    LS_OF_A_RUN = 256
};

/* Options of a job; a program may add its own after them. */
enum { LS_JOB_OPTIONS = 80 };

typedef struct ls_job_option_table {
    ls_option options[LS_JOB_OPTIONS];
    int marks[LS_JOB_OPTIONS]; /* of each: LS_JOB_... and LS_OF_...; 0: a program's own */
    size_t count;
} ls_job_option_table;

/* A row more: a program's own, without marks. The table has room for LS_JOB_OPTIONS. */
void ls_job_option_add(ls_job_option_table *table, ls_option option);

typedef struct ls_job_settings {
    int action; /* LS_JOB_... */
    ls_run run; /* complete after ls_job_settings_finish */
    const char *model;
    const char *data_name; /* the text or the images, as people read it */
    bool both_engines;     /* verify: one after the other */
    bool serial;           /* train: the baseline itself */
    bool no_truth;
    int start;            /* dump: ls_dump_start */
    bool integers;        /* dump: in place of a run */
    bool per_rank, calls; /* dump: what else */
    int sweep;            /* verify: ranks at most; 0: no sweep */
    const char *layouts;  /* verify: several, as they were written; NULL: the one given */

    /* How the above was read. */
    const char *text_file, *images_folder;
    ls_text text;
    ls_images images;
    size_t image_count; /* to draw */
    ls_layout_words words;
    const char *names;
    char *model_beside; /* the configuration next to what is loaded */
    int schedule, recompute;
    int engine, dtype, optimizer, norm_place, mlp_cut, timeout_s;
    char heading[128]; /* of the model's options */
    ls_config config;  /* of the model, before its options */
} ls_job_settings;

/* The defaults, for an action; the model is gpt2-nano. The settings stay where they are: they point
 * into themselves. */
ls_status ls_job_settings_begin(ls_job_settings *s, int action) LS_MUST_USE;

/* Fills the table with the options of the action, each next to the member that it sets; only:
 * LS_OF_..., leaves out those of the other kind of model, 0: none. */
void ls_job_options(ls_job_settings *s, int only, ls_job_option_table *table);

/* The model that was named, or the one next to the weights that are loaded: its sizes are the
 * defaults from here on, and all else is as at the beginning. */
ls_status ls_job_settings_load(ls_job_settings *s, const ls_job_option_table *table) LS_MUST_USE;

/* Checks what was parsed, and reads the data. Errors: LS_ERR_INPUT, one line with the option, what
 * was found and what is allowed; LS_ERR_IO, LS_ERR_MEMORY. */
ls_status ls_job_settings_finish(ls_job_settings *s, const ls_job_option_table *table) LS_MUST_USE;

void ls_job_settings_free(ls_job_settings *s);

/* LS_OF_TRANSFORMERS or LS_OF_NETS. */
int ls_job_kind_of(const ls_config *config);

/* LS_ERR_INPUT when a layout has more ranks than can be run. */
ls_status ls_job_check_ranks(const ls_layout *layout) LS_MUST_USE;

/* job_data.c. Reads or makes the text or the images, for a run of s->run.config, and checks them.
 */
ls_status ls_job_read_data(ls_job_settings *s) LS_MUST_USE;

/* What a network is trained on when nothing is given. */
enum { LS_DRAWN_IMAGES = 512, LS_DRAWN_SEED = 1 };

/* Images of the network's size, of as many classes as it tells apart and can be drawn.
 * LS_ERR_INPUT: it is no network, its images have a size that is not drawn. */
ls_status ls_job_draw_images(const ls_config *config, uint64_t seed, size_t count,
                             ls_images *ret_images) LS_MUST_USE;

#endif
