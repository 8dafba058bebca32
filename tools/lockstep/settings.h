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
    const char *data_name; /* the text or the images, as people read it */
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
    const char *text_file, *images_folder;
    ls_text text;
    ls_images images;
    size_t image_count; /* to draw */
    layout_words words;
    const char *names;
    char *model_beside; /* the configuration beside what is loaded */
    int schedule, recompute;
    int engine, dtype, optimizer, norm_place, mlp_cut, timeout_s;
    bool help;
    char heading[128]; /* of the model's options */
    int only;          /* OF_...: leaves out the options of the other kind of model; 0: none */
    ls_option options[MAX_OPTIONS];
    int option_marks[MAX_OPTIONS];
    size_t n_options;
} settings;

/* Reads a command's words and checks them: model, layout, text, everything that can be known before
 * a run. *ret_helped: --help was asked for and given, there is nothing more to do. The settings
 * stay where they are (they point into themselves) and end with settings_free. */
ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped) LS_MUST_USE;
void settings_free(settings *s);

/* settings_table.c. Fills s->options: those of the command and, with s->only, of that kind of
 * model; each beside the member that it sets. */
void settings_make_table(settings *s, const command_spec *command);
extern const char *const settings_engines[]; /* words of --gemm, in the order of s->engine */

/* settings_data.c. Reads or makes the text or the images, for a run of s->run.config, and checks
 * them. */
ls_status settings_read_data(settings *s) LS_MUST_USE;

/* What a network is trained on when nothing is given. */
enum { DRAWN_IMAGES = 512, DRAWN_SEED = 1 };

/* Images of the network's size, of as many classes as it tells apart and can be drawn.
 * LS_ERR_INPUT: it is no network, its images have a size that is not drawn. */
ls_status settings_draw_images(const ls_config *config, uint64_t seed, size_t count,
                               ls_images *ret_images) LS_MUST_USE;

/* LS_ERR_INPUT when a layout has more ranks than can be run. */
ls_status settings_check_ranks(const ls_layout *layout) LS_MUST_USE;

/* Says on stderr, in one line, when an engine is slower than it could be. */
void settings_warn(const settings *s);

#endif
