#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "machine.h"
#include "report/progress.h"
#include "report/text_table.h"
#include "sweep.h"

typedef struct verification {
    const settings *settings;
    FILE *out;
    ls_report *report;
    sweep sweep;
    ls_progress progress;
    bool begun;
    ls_record *truth;  /* NULL: not wanted */
    ls_losses *losses; /* of the run that is going on; NULL: not kept */
    char what[64];     /* its name */
} verification;

/* The first run that gets as far as its first step says that the input was good. */
static ls_status on_begin(void *context, const ls_run *run, const ls_param_table *table,
                          uint64_t first_step)
{
    verification *v = context;
    const settings *s = v->settings;
    size_t runs = (s->both_engines ? 2 : 1) * v->sweep.count;
    (void)table;
    if (v->begun) return LS_OK;
    v->begun = true;
    v->report->common.seed = run->seed; /* a loaded checkpoint may bring its own */
    settings_warn(s);
    print_run(v->out, s, v->report, v->sweep.count == 1 ? &v->sweep.layouts[0] : NULL);
    fprintf(v->out, "compare %zu layout%s, %llu steps: every loss, gradient and parameter\n\n",
            runs, runs == 1 ? "" : "s", (unsigned long long)(run->steps - first_step));
    fflush(v->out);
    size_t serial_runs = (s->both_engines ? 2u : 1u) + (s->no_truth ? 0u : 1u);
    ls_progress_begin(&v->progress, stderr, (runs + serial_runs) * (run->steps - first_step));
    return LS_OK;
}

static ls_status on_step(void *context, const ls_step *step)
{
    ls_status status = LS_OK;
    verification *v = context;
    char text[128];
    if (v->losses != NULL) LS_TRY(ls_losses_add(v->losses, step));
    snprintf(text, sizeof text, "%s, step %llu of %llu", v->what,
             (unsigned long long)step->step + 1, (unsigned long long)v->settings->run.steps);
    ls_progress_advance(&v->progress, 1, text);
exit:
    return status;
}

/* The same training in binary64 with one plain product each. */
static ls_status record_truth(verification *v)
{
    ls_status status = LS_OK;
    ls_run run = v->settings->run;
    ls_watcher watcher = {v, on_begin, NULL, on_step};
    if (v->settings->no_truth) goto exit;
    run.serial = true;
    run.dtype = LS_F64;
    run.engine = LS_ENGINE_PLAIN;
    snprintf(v->what, sizeof v->what, "truth");
    v->losses = NULL;
    LS_TRY(ls_record_run(&v->truth, &run, &watcher, NULL));
exit:
    return status;
}

static ls_status verify_layout(verification *v, const ls_record *serial, ls_engine engine,
                               ls_layout layout)
{
    ls_status status = LS_OK;
    ls_run run = v->settings->run;
    ls_watcher watcher = {v, on_begin, NULL, on_step};
    char name[40];
    ls_report_run *now = &v->report->runs[v->report->n_runs++];
    now->layout = run.layout = layout;
    now->engine = run.engine = engine;
    v->losses = &now->losses;
    ls_report_layout_name(&layout, name, sizeof name);
    snprintf(v->what, sizeof v->what, "%s %s", name, ls_engine_name(engine));
    status = ls_verify_run(serial, &run, &watcher, &now->departure, &now->result);
    ls_progress_clear(&v->progress);
    if (status != LS_OK && status != LS_DIFFERENT) goto exit;
    now->compared = true;
    now->equal = status == LS_OK;
    status = LS_OK;
    print_compared(v->out, v->report, now);
    fflush(v->out);
exit:
    return status;
}

static ls_status verify_engine(verification *v, ls_engine engine)
{
    ls_status status = LS_OK;
    ls_record *serial = NULL;
    ls_run run = v->settings->run;
    ls_watcher watcher = {v, on_begin, NULL, on_step};
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
    ls_progress_clear(&v->progress);
    fprintf(v->out, "serial     %-9s loss %.6g to %.6g  %.16s  %8s\n", ls_engine_name(engine),
            baseline->result.first_loss, baseline->result.last_loss, baseline->result.digest,
            ls_duration_text(baseline->result.ns, time));
    print_truth(v->out, baseline);
    fflush(v->out);
    for (size_t i = 0; i < v->sweep.count; i++)
        LS_TRY(verify_layout(v, serial, engine, v->sweep.layouts[i]));
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
        json_array_append_new(baselines, json_baseline(&report->baselines[i]));
    for (size_t i = 0; i < report->n_runs; i++)
        json_array_append_new(layouts, json_compared(&report->runs[i]));
    json_t *more =
        json_pack("{s:o, s:o, s:i, s:i, s:i}", "baselines", baselines, "layouts", layouts, "count",
                  (int)(equal + different), "bit_exact", (int)equal, "different", (int)different);
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
    if (s->both_engines) {
        LS_TRY(verify_engine(v, LS_ENGINE_PORTABLE));
        LS_TRY(verify_engine(v, LS_ENGINE_OPENBLAS));
    } else {
        LS_TRY(verify_engine(v, s->run.engine));
    }
exit:
    ls_progress_clear(&v->progress);
    return status;
}

ls_status verify_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    settings s;
    bool helped = false;
    ls_page *page = NULL;
    verification v = {.settings = &s, .out = stdout};
    size_t equal = 0, different = 0;
    LS_TRY(settings_read(&s, command, argc, argv, &helped));
    if (helped) return LS_OK;
    LS_TRY(machine_holds_record(&s.run, !s.no_truth));
    if (s.json) v.out = stderr;
    if (s.sweep > 0)
        LS_TRY(sweep_create(&v.sweep, &s.run.config, s.sweep));
    else
        LS_TRY(sweep_of(&v.sweep, s.run.layout));
    LS_TRY(machine_holds_layouts(&s.run, v.sweep.layouts, v.sweep.count));
    if (s.report != NULL) LS_TRY(ls_page_open(&page, s.report));
    LS_TRY(ls_report_create(&v.report, &s.run, 2, 2 * v.sweep.count));
    v.report->command = s.command_line;
    v.report->text_name = s.text_name;

    LS_TRY(verify_all(&v));
    ls_report_count(v.report, &equal, &different);
    if (page != NULL) LS_TRY(ls_page_commit(page, v.report));
    if (s.json) LS_TRY(print_verify_json(v.report));
    fprintf(v.out, "verify: %zu layouts, %zu bit-exact, %zu different\n", equal + different, equal,
            different);
    if (different > 0) status = LS_DIFFERENT;
exit:
    ls_record_destroy(&v.truth);
    sweep_free(&v.sweep);
    ls_page_close(&page);
    ls_report_destroy(&v.report);
    settings_free(&s);
    return status;
}
