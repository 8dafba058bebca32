#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "interrupt.h"
#include "lockstep/base/clock.h"
#include "base/allocate.h"
#include "job/machine.h"
#include "report/progress.h"
#include "report/text_table.h"

/* What looks on while a run goes on. */
typedef struct onlooker {
    FILE *out;
    ls_progress progress;
    ls_report_run *run;
    json_t *steps; /* NULL without --json */
    uint64_t last;
    ls_undefined undefined; /* the loss or the gradient norm; the rest is not looked at */
    const settings *settings;
    ls_report *report;
} onlooker;

static ls_status on_begin(void *context, const ls_run *run, const ls_param_table *table,
                          uint64_t first_step)
{
    onlooker *o = context;
    (void)table;
    o->last = run->steps;
    o->report->common.seed = run->seed; /* a loaded checkpoint may bring its own */
    settings_warn(o->settings);
    print_run(o->out, o->settings, o->report, &run->layout);
    if (first_step > 0) fprintf(o->out, "goes on from step %llu\n", (unsigned long long)first_step);
    ls_progress_begin(&o->progress, stderr, run->steps > first_step ? run->steps - first_step : 0);
    return LS_OK;
}

/* What a step counts. */
static const char *unit_of(const settings *s)
{
    return s->job.run.config.kind == LS_MODEL_NET ? "images" : "tokens";
}

static ls_status on_step(void *context, const ls_step *step)
{
    ls_status status = LS_OK;
    onlooker *o = context;
    char text[64], rate[LS_NUMBER_TEXT];
    double seconds = (double)step->ns * 1e-9;
    LS_TRY(ls_losses_add(&o->run->losses, step));
    if (!o->undefined.found && (isnan(step->loss) || isnan(step->norm)))
        o->undefined = (ls_undefined){true, step->step, isnan(step->loss) ? "loss" : "norm", ""};
    if (o->steps != NULL &&
        json_array_append_new(o->steps, json_step(step, o->settings->job.run.config.kind)) != 0)
        LS_NO_MEMORY("the JSON object");
    ls_progress_clear(&o->progress);
    fprintf(o->out, "step %5llu  loss %-13.9g norm %-11.6g lr %-10.4g %9s %s/s\n",
            (unsigned long long)step->step, ls_shown(step->loss), ls_shown(step->norm), step->lr,
            ls_number_text(seconds > 0.0 ? (uint64_t)((double)step->tokens / seconds) : 0, rate),
            unit_of(o->settings));
    fflush(o->out);
    snprintf(text, sizeof text, "step %llu of %llu", (unsigned long long)step->step + 1,
             (unsigned long long)o->last);
    ls_progress_advance(&o->progress, 1, text);
exit:
    return status;
}

static void print_result(FILE *out, const settings *s, uint64_t started_ns,
                         const ls_undefined *undefined, const ls_train_result *result)
{
    char rate[LS_NUMBER_TEXT], time[LS_NUMBER_TEXT], count[LS_NUMBER_TEXT];
    double seconds = (double)result->ns * 1e-9;
    uint64_t steps = result->last_step - result->first_step;
    fprintf(out, "\n%s %s/s, %s in %s\n",
            ls_number_text(seconds > 0.0 ? (uint64_t)((double)result->tokens / seconds) : 0, rate),
            unit_of(s), ls_count_text(steps, "step", count), ls_duration_text(result->ns, time));
    if (undefined->found)
        fprintf(out, "the %s is not a number from step %llu on\n",
                strcmp(undefined->phase, "norm") == 0 ? "gradient norm" : "loss",
                (unsigned long long)undefined->step);
    if (steps == 0 && s->job.run.load != NULL)
        fprintf(out, "nothing was trained: %s is at step %llu already; a larger --steps goes on\n",
                ls_show(s->job.run.load), (unsigned long long)result->first_step);
    print_time(out, started_ns, result->ranks);
    if (s->job.run.save != NULL) fprintf(out, "saved in %s\n", ls_show(s->job.run.save));
    if (s->job.run.trace != NULL) fprintf(out, "trace in %s\n", ls_show(s->job.run.trace));
    fprintf(out, "digest: %s\n", result->digest);
}

static ls_status print_train_json(const settings *s, const ls_report *report,
                                  const ls_undefined *undefined, json_t *steps)
{
    const ls_report_run *run = &report->runs[0];
    char engine[128];
    ls_engine_describe(run->engine, engine, sizeof engine);
    json_t *object = json_run(report, "train");
    json_t *layout =
        s->job.run.serial ? json_null() : json_layout(&run->layout, &report->common.config);
    json_t *more =
        json_pack("{s:o, s:s, s:s, s:o, s:O}", "layout", layout, "engine",
                  ls_engine_name(run->engine), "engine_description", engine, "undefined_from",
                  undefined->found ? json_u64(undefined->step) : json_null(), "steps_done", steps);
    json_t *result = json_result(&run->result, s->job.run.config.kind, true);
    if (object == NULL || more == NULL || result == NULL || json_object_update(object, more) != 0 ||
        json_object_update(object, result) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    json_decref(result);
    return print_json(object);
}

ls_status train_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    settings s;
    bool helped = false;
    ls_report *report = NULL;
    ls_page *page = NULL;
    onlooker o = {.out = stdout};
    const uint64_t started_ns = ls_clock_ns();
    LS_TRY(settings_read(&s, command, argc, argv, &helped));
    if (helped) return LS_OK;
    LS_TRY(ls_machine_holds_layout(&s.job.run));
    interrupts_stop_ranks();
    if (s.report != NULL) LS_TRY(ls_page_open(&page, s.report));
    LS_TRY(ls_report_create(&report, &s.job.run, 0, 1));
    report->program = program_version();
    report->command = s.command_line;
    report->text_name = s.job.data_name;
    if (s.json) {
        o.out = stderr;
        o.steps = json_array();
        if (o.steps == NULL) LS_NO_MEMORY("the JSON object");
    }
    o.settings = &s;
    o.report = report;
    o.run = &report->runs[0];
    o.run->layout = s.job.run.layout;
    o.run->engine = s.job.run.engine;
    report->n_runs = 1;

    ls_train_hooks watcher = {&o, on_begin, NULL, on_step};
    status = ls_train(&s.job.run, &watcher, &o.run->result);
    ls_progress_clear(&o.progress);
    if (status != LS_OK) goto exit;
    if (page != NULL) LS_TRY(ls_page_commit(page, report));
    LS_TRY(print_ranks(o.out, &o.run->result, &o.run->layout));
    print_result(o.out, &s, started_ns, &o.undefined, &o.run->result);
    if (s.json) LS_TRY(print_train_json(&s, report, &o.undefined, o.steps));
exit:
    json_decref(o.steps);
    ls_page_close(&page);
    ls_report_destroy(&report);
    settings_free(&s);
    return status;
}
