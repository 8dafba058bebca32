/* settings.h - everything that the command line says, read and checked. */
#ifndef LOCKSTEP_SETTINGS_H
#define LOCKSTEP_SETTINGS_H

#include "command.h"
#include "layout_words.h"
#include "train/train.h"

enum { MAX_OPTIONS = 80 };

typedef struct settings {
    ls_run run; /* ready to be handed over */
    const char *model;
    const char *text_name; /* as people read it */
    const char *report;    /* folder; NULL: none */
    const char *draw;      /* plan: file of the schedule's picture; NULL: none */
    bool json;
    bool both_engines; /* verify: one after the other */
    bool serial;       /* train: the baseline itself */
    bool no_truth;
    const char *directory; /* dump: where to */
    int start;             /* dump: ls_dump_start */
    bool integers;         /* dump: in place of a run */
    bool per_rank, calls;  /* dump: what else */
    int sweep;             /* verify: ranks at most; 0: no sweep */
    const char *layouts;   /* verify: several, as they were written; NULL: the one given */
    char *command_line;

    /* How the above was read. */
    const char *text_file;
    ls_text text;
    layout_words words;
    const char *names;
    char *model_beside; /* the configuration beside what is loaded */
    int schedule, recompute;
    int engine, dtype, optimizer, norm_place, mlp_cut, timeout_s;
    bool help;
    char heading[128]; /* of the model's options */
    ls_option options[MAX_OPTIONS];
    size_t n_options;
} settings;

/* Reads a command's words and checks them: model, layout, text, everything that can be known before
 * a run. *ret_helped: --help was asked for and given, there is nothing more to do. The settings
 * stay where they are (they point into themselves) and end with settings_free. */
ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped) LS_MUST_USE;
void settings_free(settings *s);

/* LS_ERR_INPUT when a layout has more ranks than can be run. */
ls_status settings_check_ranks(const ls_layout *layout) LS_MUST_USE;

/* Says on stderr, in one line, when an engine is slower than it could be. */
void settings_warn(const settings *s);

#endif
