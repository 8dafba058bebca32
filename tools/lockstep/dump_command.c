/* dump_command.c - lockstep dump: writes a golden directory and says what is in it. */
#include <stdio.h>
#include <string.h>

#include "facts.h"
#include "interrupt.h"
#include "job/machine.h"
#include "golden/dump.h"
#include "report/progress.h"
#include "report/text_table.h"

typedef struct dumping {
    const settings *settings;
    FILE *out;
    ls_report *report;
    ls_progress progress;
    char what[64]; /* is being done */
    uint64_t done;
    bool begun;
} dumping;

static void on_advance(void *context, uint64_t done, uint64_t of, const char *what)
{
    dumping *d = context;
    char text[128];
    /* That the run begins says that the input was good. */
    if (!d->begun && strcmp(what, "steps") == 0) {
        d->begun = true;
        ls_progress_clear(&d->progress);
        settings_warn(d->settings);
        print_run(d->out, d->settings, d->report, &d->settings->job.run.layout);
        fflush(d->out);
    }
    if (strcmp(d->what, what) != 0) {
        ls_progress_clear(&d->progress);
        ls_progress_begin(&d->progress, stderr, of);
        snprintf(d->what, sizeof d->what, "%s", what);
        d->done = 0;
    }
    snprintf(text, sizeof text, "%s: %llu of %llu", what, (unsigned long long)done,
             (unsigned long long)of);
    ls_progress_advance(&d->progress, done > d->done ? done - d->done : 0, text);
    d->done = done;
}

static ls_status print_files(FILE *out, const ls_dump_summary *summary)
{
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    char bytes[LS_NUMBER_TEXT];
    LS_TRY(ls_text_table_create(&table, 2));
    for (size_t i = 0; i < summary->files; i++) {
        LS_TRY(ls_text_table_add(table, "%s", summary->file[i].name));
        LS_TRY(ls_text_table_add(table, "%s", ls_bytes_text(summary->file[i].bytes, bytes)));
    }
    fputc('\n', out);
    ls_text_table_print(table, out);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* What --start came to: what it changed, and what it could not. */
static void print_start(FILE *out, const settings *s, const ls_dump_told *told)
{
    static const char *const of_weights[] = {"drawn so that no term vanishes",
                                             "drawn as train draws them",
                                             "as loaded: --start changes nothing in them"};
    static const char *const of_batches[] = {"changed so that mistakes show", "as train reads them",
                                             "images as they are: --start changes nothing in them"};
    fprintf(out, "\nstart   weights %s", of_weights[told->weights]);
    if (told->biases == 0) fprintf(out, "; the model has no biases");
    if (told->constant > 0)
        fprintf(out, "; %zu parameter%s one value throughout, so mistakes there may not show",
                told->constant, told->constant == 1 ? " has" : "s have");
    fprintf(out, "\n        batches %s", of_batches[told->batch]);
    if (told->batch == LS_DUMP_TELLING) {
        fprintf(out, ": targets at %zu of %zu tokens, %zu of %zu ends of vocabulary shards",
                told->targets, told->tokens, told->ends_met, told->ends);
        if (told->ends_met < told->ends || told->targets == told->tokens)
            fprintf(out, "; a larger --batch or --seq holds more");
    }
    if (s->job.start == LS_START_TRAINING && told->batch != LS_DUMP_GIVEN)
        fprintf(out, ": some mistakes do not show on them; see --start telling");
    fputc('\n', out);
}

static ls_status print_summary(const dumping *d, const ls_dump_summary *summary)
{
    ls_status status = LS_OK;
    char tensors[LS_NUMBER_TEXT], bytes[LS_NUMBER_TEXT];
    FILE *out = d->out;
    LS_TRY(print_files(out, summary));
    if (!d->settings->job.integers) print_start(out, d->settings, &summary->start);
    fprintf(out, "\nwrote   %s tensor%s, %s, in %s\n", ls_number_text(summary->tensors, tensors),
            summary->tensors == 1 ? "" : "s", ls_bytes_text(summary->bytes, bytes),
            ls_show(d->settings->directory));
    if (summary->worst_ratio > 0)
        fprintf(out, "truth   %s its bound; nearest, at %.2g of it: %s\n",
                summary->worst_ratio <= 1 ? "every tensor within" : "a tensor beyond",
                summary->worst_ratio, summary->worst_tensor);
    fprintf(out, "digest: %s\n", summary->digest);
exit:
    return status;
}

/* The same for programs; null for integers. */
static json_t *json_start(const settings *s, const ls_dump_told *told)
{
    if (s->job.integers) return json_null();
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "weights",
                     ls_dump_source_name(told->weights), "batch", ls_dump_source_name(told->batch),
                     "biases", (json_int_t)told->biases, "constant_parameters",
                     (json_int_t)told->constant, "tokens", (json_int_t)told->tokens, "targets",
                     (json_int_t)told->targets, "shard_ends", (json_int_t)told->ends,
                     "shard_ends_met", (json_int_t)told->ends_met);
}

static ls_status print_dump_json(const dumping *d, const ls_dump_summary *summary)
{
    const ls_report_run *run = &d->report->runs[0];
    json_t *files = json_array();
    for (size_t i = 0; i < summary->files; i++)
        json_array_append_new(files, json_pack("{s:s, s:o}", "name", summary->file[i].name, "bytes",
                                               json_u64(summary->file[i].bytes)));
    json_t *object = json_run(d->report, "dump");
    json_t *truth = json_null();
    if (summary->worst_ratio > 0)
        truth = json_pack("{s:o, s:s}", "worst_ratio", json_number(summary->worst_ratio), "tensor",
                          summary->worst_tensor);
    json_t *more =
        json_pack("{s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "layout",
                  json_layout(&run->layout, &d->report->common.config), "engine",
                  ls_engine_name(run->engine), "directory", ls_show(d->settings->directory),
                  "digest", summary->digest, "first_step", json_u64(summary->first_step), "tensors",
                  json_u64(summary->tensors), "bytes", json_u64(summary->bytes), "files", files,
                  "truth", truth, "start", json_start(d->settings, &summary->start));
    if (object == NULL || more == NULL || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return print_json(object);
}

ls_status dump_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    settings s;
    bool helped = false;
    ls_dump_summary summary;
    dumping d = {.out = stdout};
    LS_TRY(settings_read(&s, command, argc, argv, &helped));
    if (helped) return LS_OK;
    d.settings = &s;
    if (s.json) d.out = stderr;
    LS_TRY(ls_machine_holds_layout(&s.job.run));
    interrupts_stop_ranks();
    LS_TRY(ls_report_create(&d.report, &s.job.run, 0, 1));
    d.report->command = s.command_line;
    d.report->text_name = s.job.data_name;
    d.report->runs[0].layout = s.job.run.layout;
    d.report->runs[0].engine = s.job.run.engine;
    const ls_dump_options options = {.start = (ls_dump_start)s.job.start,
                                     .integers = s.job.integers,
                                     .whole = true,
                                     .truth = !s.job.no_truth,
                                     .per_rank = s.job.per_rank,
                                     .collectives = s.job.calls,
                                     .program = "lockstep " LOCKSTEP_VERSION,
                                     .command = s.command_line,
                                     .text_name = s.job.data_name,
                                     .advance = on_advance,
                                     .context = &d};
    status = ls_dump(&s.job.run, s.directory, &options, &summary);
    ls_progress_clear(&d.progress);
    LS_TRY(status);
    d.report->common.seed = summary.seed; /* a loaded checkpoint may bring its own */
    LS_TRY(print_summary(&d, &summary));
    if (s.json) LS_TRY(print_dump_json(&d, &summary));
exit:
    ls_report_destroy(&d.report);
    settings_free(&s);
    return status;
}
