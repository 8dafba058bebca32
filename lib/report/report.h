/* report.h - what a command found, and the page that shows it.
 *
 * The page is one HTML file with drawings inside it: no script, nothing loaded from elsewhere, in
 * the colours, light or dark, that the reader's system asks for. */
#ifndef LS_REPORT_REPORT_H
#define LS_REPORT_REPORT_H

#include "verify/verify.h"

enum { LS_DEPARTURE_TEXT = 640 }; /* room for ls_departure_describe */
enum { LS_LAYOUT_NAME = 160 };    /* room for a layout's name; a longer one is cut */

/* Losses of a run, step by step. */
typedef struct ls_losses {
    double *value;
    size_t count, room;
    uint64_t first_step;
} ls_losses;

ls_status ls_losses_add(ls_losses *losses, const ls_step *step) LS_MUST_USE;

/* The serial run that the others are compared with. */
typedef struct ls_report_baseline {
    ls_engine engine;
    ls_losses losses;
    ls_train_result result;
    bool has_truth;
    ls_record_truth truth;
    ls_undefined undefined; /* from where on nothing can be compared with it */
} ls_report_baseline;

/* A run in a layout. */
typedef struct ls_report_run {
    ls_layout layout;
    ls_engine engine;
    bool compared, equal;   /* equal: every bit, when everything could be compared */
    bool undefined;         /* no bit differs, but from some step on nothing is a number */
    ls_departure departure; /* when compared and not equal */
    ls_losses losses;
    ls_train_result result;
} ls_report_run;

typedef struct ls_report {
    const char *program;   /* which made it, with its version; NULL: not said */
    const char *command;   /* as typed, for the reader to repeat */
    ls_run common;         /* what all runs share; layout and engine are not read */
    const char *text_name; /* of the text or the images */
    ls_param_table *table;
    ls_report_baseline *baselines;
    size_t n_baselines;
    ls_report_run *runs;
    size_t n_runs;
} ls_report;

/* Room for so many entries, all empty. */
ls_status ls_report_create(ls_report **ret_report, const ls_run *common, size_t n_baselines,
                           size_t n_runs) LS_MUST_USE;
void ls_report_destroy(ls_report **report);

/* The run that is shown in detail: that which uses most of the axes dp, pp, tp, rows, columns and
 * channels, of several that with the most ranks, of several the first; NULL when none was made. */
const ls_report_run *ls_report_featured(const ls_report *report);

/* "tp 2 x pp 2" as ls_layout_describe writes it, but for one rank of a transformer "tp 1": it runs
 * the parallel code and is not the serial baseline. Of a network that is "one rank". */
void ls_report_layout_name(ls_model_kind kind, const ls_layout *layout, char *buffer, size_t size);

/* The same of its grid point alone: "dp 2 x pp 2 x tp 2, sp", "dp 2 x spatial 2x1 x channel
 * 2". */
void ls_report_grid_name(ls_model_kind kind, const ls_layout *layout, char *buffer, size_t size);

/* How many of the runs so far were compared and are equal, and how many differ;
 * undefined runs are neither. */
void ls_report_count(const ls_report *report, size_t *ret_equal, size_t *ret_different);

/* A page being written: made sure of before a long job begins, so that a folder that cannot be
 * written to is no surprise at its end. */
typedef struct ls_page ls_page;

/* Makes the folder when it is missing and opens a file in it next to index.html. LS_ERR_INPUT,
 * LS_ERR_IO: names the folder and what is wrong. */
ls_status ls_page_open(ls_page **ret_page, const char *folder) LS_MUST_USE;

/* Writes the page and moves it to FOLDER/index.html. */
ls_status ls_page_commit(ls_page *page, const ls_report *report) LS_MUST_USE;

/* Without commit nothing is left behind, not even a folder that ls_page_open made. */
void ls_page_close(ls_page **page);

#endif
