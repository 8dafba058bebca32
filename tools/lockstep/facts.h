/* facts.h - what a command found, for people and for programs, written from one ls_report. */
#ifndef LOCKSTEP_FACTS_H
#define LOCKSTEP_FACTS_H

#include <jansson.h>

#include "report/report.h"
#include "settings.h"

/* What the model is: a line. */
void print_model(FILE *file, const ls_config *config, uint64_t parameters);

/* Whose weights a run begins with, and which model was taken for them; nothing without --load. */
void print_weights(FILE *file, const settings *s);

/* What is going to be run: model, weights, layout, engine, text. layout NULL: not one layout. */
void print_run(FILE *file, const settings *s, const ls_report *report, const ls_layout *layout);

/* A line that names the layers to which a network's layout gives a grid of their own; none without
 * such layers. */
void print_strategies(FILE *file, const ls_layout *layout, const ls_config *config);

/* Peak bytes by category and bytes sent, a line per rank; of many ranks, a line for those that are
 * alike. layout: of a serial run any of one rank. */
ls_status print_ranks(FILE *file, const ls_train_result *result,
                      const ls_layout *layout) LS_MUST_USE;

/* "1.88 s, 2.31 s of CPU time" since `started_ns` and of the whole process; on a busy machine, why
 * the former is so much longer. ranks: of the largest run; one rank waits for no other. */
void print_time(FILE *file, uint64_t started_ns, int ranks);

/* One line for a run that was compared; width: of the column of layouts. */
void print_compared(FILE *file, const ls_report *report, const ls_report_run *run, int width);

/* One line for the runs of a sweep at one point (dp, pp, tp, sp). */
void print_grid_point(FILE *file, const ls_report *report, const ls_report_run *runs, size_t count,
                      int width);

/* The line that says from where on a run is no numbers; none when it always is. */
void print_undefined(FILE *file, const ls_undefined *undefined);

void print_truth(FILE *file, const ls_report_baseline *baseline, int width);

/* JSON. Numbers that are not finite are the strings "nan", "inf", "-inf". Each returns a new
 * reference, NULL without memory. */
json_t *json_number(double value);
json_t *json_u64(uint64_t value);
json_t *json_config(const ls_config *config);
/* kind: of the model, which a step counts tokens or images of. */
json_t *json_step(const ls_step *step, ls_model_kind kind);
json_t *json_run(const ls_report *report, const char *name);
json_t *json_layout(const ls_layout *layout, const ls_config *config);
/* with_ranks: with what every rank held and sent. */
json_t *json_result(const ls_train_result *result, ls_model_kind kind, bool with_ranks);
json_t *json_baseline(const ls_report_baseline *baseline, ls_model_kind kind);
/* Of a sweep of many layouts without their ranks. */
json_t *json_compared(const ls_report *report, const ls_report_run *run);

/* Prints one object and its line end on stdout and drops the reference. object NULL:
 * LS_ERR_MEMORY. */
ls_status print_json(json_t *object) LS_MUST_USE;

#endif
