#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "interrupt.h"
#include "lockstep/base/clock.h"
#include "job/job_layouts.h"
#include "job/machine.h"
#include "report/progress.h"
#include "report/text_table.h"

typedef struct verification {
    const settings *settings;
    FILE *out;
    ls_report *report;
    ls_sweep sweep;
    int width; /* of the column of layouts */
    int ranks; /* of the run that is going on */
    ls_progress progress;
    bool begun;
    ls_record *truth;          /* NULL: not wanted */
    ls_losses *losses;         /* of the run that is going on; NULL: not kept */
    char what[LS_LAYOUT_NAME]; /* its name */
} verification;

/* A step of so many ranks in units of progress: the work is the same, meeting each other is not. */
static uint64_t weight_of(int ranks)
{
    return 2 + (uint64_t)ranks;
}

static void begin_progress(verification *v, uint64_t steps)
{
    uint64_t units = weight_of(1), engines = v->settings->job.both_engines ? 2 : 1;
    for (size_t i = 0; i < v->sweep.count; i++)
        units += weight_of(ls_layout_ranks(&v->sweep.layouts[i]));
    units *= engines;
    if (!v->settings->job.no_truth) units += weight_of(1);
    ls_progress_begin(&v->progress, stderr, units * steps);
}

/* The first run that gets as far as its first step says that the input was good. */
static ls_status on_begin(void *context, const ls_run *run, const ls_param_table *table,
                          uint64_t first_step)
{
    verification *v = context;
    const settings *s = v->settings;
    size_t runs = (s->job.both_engines ? 2 : 1) * v->sweep.count;
    char number[LS_NUMBER_TEXT], steps[LS_NUMBER_TEXT], ranks[LS_NUMBER_TEXT];
    (void)table;
    v->ranks = run->serial ? 1 : ls_layout_ranks(&run->layout);
    if (v->begun) return LS_OK;
    v->begun = true;
    v->report->common.seed = run->seed; /* a loaded checkpoint may bring its own */
    settings_warn(s);
    print_run(v->out, s, v->report, v->sweep.count == 1 ? &v->sweep.layouts[0] : NULL);
    if (s->job.sweep > 0)
        fprintf(v->out, "sweep   %s of at most %s%s\n",
                ls_count_text(v->sweep.count, "layout", number),
                ls_count_text((uint64_t)s->job.sweep, "rank", ranks),
                s->job.both_engines ? ", with both engines" : "");
    fprintf(v->out, "compare %s, %s: every loss, gradient and parameter\n\n",
            ls_count_text(runs, "layout", number),
            ls_count_text(run->steps - first_step, "step", steps));
    fflush(v->out);
    begin_progress(v, run->steps - first_step);
    return LS_OK;
}

static ls_status on_step(void *context, const ls_step *step)
{
    ls_status status = LS_OK;
    verification *v = context;
    char text[LS_LAYOUT_NAME + 64];
    if (v->losses != NULL) LS_TRY(ls_losses_add(v->losses, step));
    snprintf(text, sizeof text, "%s, step %llu of %llu", v->what,
             (unsigned long long)step->step + 1, (unsigned long long)v->settings->job.run.steps);
    ls_progress_advance(&v->progress, weight_of(v->ranks), text);
exit:
    return status;
}

/* The same training in binary64 with one plain product each. */
static ls_status record_truth(verification *v)
{
    ls_status status = LS_OK;
    ls_run run = v->settings->job.run;
    ls_train_hooks watcher = {v, on_begin, NULL, on_step};
    if (v->settings->job.no_truth) goto exit;
    run.serial = true;
    run.dtype = LS_F64;
    run.engine = LS_ENGINE_PLAIN;
    snprintf(v->what, sizeof v->what, "truth");
    v->losses = NULL;
    LS_TRY(ls_record_run(&v->truth, &run, &watcher, NULL));
exit:
    return status;
}

/* undefined: from some step on the record is no numbers, and equal says nothing. */
static ls_status verify_layout(verification *v, const ls_record *serial, bool undefined,
                               ls_engine engine, const ls_layout *layout)
{
    ls_status status = LS_OK;
    ls_run run = v->settings->job.run;
    ls_train_hooks watcher = {v, on_begin, NULL, on_step};
    ls_report_run *now = &v->report->runs[v->report->n_runs++];
    now->layout = run.layout = *layout;
    now->engine = run.engine = engine;
    v->losses = &now->losses;
    ls_report_layout_name(run.config.kind, layout, v->what, sizeof v->what);
    status = ls_verify_run(serial, &run, &watcher, &now->departure, &now->result);
    ls_progress_clear(&v->progress);
    if (status != LS_OK && status != LS_DIFFERENT) {
        if (v->sweep.count > 1 && status != LS_ERR_INTERRUPTED)
            fprintf(v->out, "failed: %s\n", v->what);
        goto exit;
    }
    now->compared = true;
    now->undefined = status == LS_OK && undefined;
    now->equal = status == LS_OK && !undefined;
    status = LS_OK;
    if (v->settings->job.sweep == 0 || !(now->equal || now->undefined))
        print_compared(v->out, v->report, now, v->width);
    fflush(v->out);
exit:
    return status;
}

static ls_status verify_engine(verification *v, ls_engine engine)
{
    ls_status status = LS_OK;
    ls_record *serial = NULL;
    const settings *s = v->settings;
    ls_run run = s->job.run;
    ls_train_hooks watcher = {v, on_begin, NULL, on_step};
    ls_report_baseline *baseline = &v->report->baselines[v->report->n_baselines++];
    char time[LS_NUMBER_TEXT];
    baseline->engine = run.engine = engine;
    run.serial = true;
    snprintf(v->what, sizeof v->what, "serial %s", ls_engine_name(engine));
    v->losses = &baseline->losses;
    LS_TRY(ls_record_run(&serial, &run, &watcher, &baseline->result));
    if (v->truth != NULL) {
        LS_TRY(ls_record_against_truth(serial, v->truth, &baseline->truth));
        baseline->has_truth = true;
    }
    ls_record_undefined(serial, &baseline->undefined);
    ls_progress_clear(&v->progress);
    fprintf(v->out, "%-*s %-9s loss %.6g to %.6g  %.16s  %8s\n", v->width, "serial",
            ls_engine_name(engine), ls_shown(baseline->result.first_loss),
            ls_shown(baseline->result.last_loss), baseline->result.digest,
            ls_duration_text(baseline->result.ns, time));
    print_undefined(v->out, &baseline->undefined);
    print_truth(v->out, baseline, v->width);
    fflush(v->out);
    size_t first = v->report->n_runs;
    for (size_t i = 0; i < v->sweep.count; i++) {
        LS_TRY(verify_layout(v, serial, baseline->undefined.found, engine, &v->sweep.layouts[i]));
        if (s->job.sweep == 0 || (i + 1 < v->sweep.count &&
                                  ls_same_grid(&v->sweep.layouts[i], &v->sweep.layouts[i + 1])))
            continue;
        print_grid_point(v->out, v->report, &v->report->runs[first], v->report->n_runs - first,
                         v->width);
        fflush(v->out);
        first = v->report->n_runs;
    }
exit:
    ls_record_destroy(&serial);
    return status;
}

static ls_status print_verify_json(const ls_report *report)
{
    size_t equal, different;
    ls_report_count(report, &equal, &different);
    json_t *object = json_run(report, "verify");
    json_t *baselines = json_array(), *layouts = json_array();
    for (size_t i = 0; i < report->n_baselines; i++)
        json_array_append_new(baselines,
                              json_baseline(&report->baselines[i], report->common.config.kind));
    for (size_t i = 0; i < report->n_runs; i++)
        json_array_append_new(layouts, json_compared(report, &report->runs[i]));
    json_t *more =
        json_pack("{s:o, s:o, s:i, s:i, s:i, s:i}", "baselines", baselines, "layouts", layouts,
                  "count", (int)report->n_runs, "bit_exact", (int)equal, "different",
                  (int)different, "undefined", (int)(report->n_runs - equal - different));
    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return print_json(object);
}

static ls_status verify_all(verification *v)
{
    ls_status status = LS_OK;
    const settings *s = v->settings;
    LS_TRY(record_truth(v));
    if (s->job.both_engines) {
        LS_TRY(verify_engine(v, LS_ENGINE_PORTABLE));
        LS_TRY(verify_engine(v, LS_ENGINE_OPENBLAS));
    } else {
        LS_TRY(verify_engine(v, s->job.run.engine));
    }
exit:
    ls_progress_clear(&v->progress);
    return status;
}

static ls_status choose_layouts(verification *v)
{
    ls_status status = LS_OK;
    const settings *s = v->settings;
    LS_TRY(ls_job_layouts(&s->job, &v->sweep));
    v->width = 10;
    for (size_t i = 0; i < v->sweep.count; i++) {
        char name[LS_LAYOUT_NAME];
        ls_report_grid_name(s->job.run.config.kind, &v->sweep.layouts[i], name, sizeof name);
        if (s->job.sweep == 0)
            ls_report_layout_name(s->job.run.config.kind, &v->sweep.layouts[i], name, sizeof name);
        if ((int)strlen(name) > v->width) v->width = (int)strlen(name);
    }
exit:
    return status;
}

/* What is not compared is not right: such layouts count as neither. */
static void print_undefined_runs(const verification *v, size_t count)
{
    if (count == 0) return;
    fprintf(v->out,
            "%zu layout%s undefined: no bit differs, but a NaN equals any NaN, so the steps that "
            "hold one show nothing\n",
            count, count == 1 ? " is" : "s are");
}

ls_status verify_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    settings s;
    bool helped = false;
    ls_page *page = NULL;
    verification v = {.settings = &s, .out = stdout};
    size_t equal = 0, different = 0;
    int ranks = 1;
    const uint64_t started_ns = ls_clock_ns();
    char number[LS_NUMBER_TEXT];
    LS_TRY(settings_read(&s, command, argc, argv, &helped));
    if (helped) return LS_OK;
    LS_TRY(ls_machine_holds_record(&s.job.run, !s.job.no_truth));
    if (s.json) v.out = stderr;
    LS_TRY(choose_layouts(&v));
    interrupts_stop_ranks();
    if (s.report != NULL) LS_TRY(ls_page_open(&page, s.report));
    LS_TRY(ls_report_create(&v.report, &s.job.run, 2, 2 * v.sweep.count));
    v.report->program = program_version();
    v.report->command = s.command_line;
    v.report->text_name = s.job.data_name;

    LS_TRY(verify_all(&v));
    ls_report_count(v.report, &equal, &different);
    if (page != NULL) LS_TRY(ls_page_commit(page, v.report));
    if (s.json) LS_TRY(print_verify_json(v.report));
    print_undefined_runs(&v, v.report->n_runs - equal - different);
    for (size_t i = 0; i < v.report->n_runs; i++)
        if (v.report->runs[i].result.ranks > ranks) ranks = v.report->runs[i].result.ranks;
    print_time(v.out, started_ns, ranks);
    fprintf(v.out, "verify: %s, %zu bit-exact, %zu different\n",
            ls_count_text(v.report->n_runs, "layout", number), equal, different);
    if (equal < v.report->n_runs) status = LS_DIFFERENT;
exit:
    ls_record_destroy(&v.truth);
    ls_sweep_free(&v.sweep);
    ls_page_close(&page);
    ls_report_destroy(&v.report);
    settings_free(&s);
    return status;
}
