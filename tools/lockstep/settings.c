#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "overwrite.h"
#include "shell_quote.h"

/* The options of the job, and what the command line adds to them. */
static void make_table(settings *s, int only)
{
    const int action = s->job.action;
    ls_job_options(&s->job, only, &s->table);
    ls_job_option_add(&s->table, ls_option_heading("Output"));
    if (action == LS_JOB_PLAN && only != LS_OF_NETS) {
        ls_job_option_add(&s->table,
                          ls_option_string("draw", &s->draw, "FILE.svg", "draws the schedule"));
        s->table.marks[s->table.count - 1] = LS_OF_TRANSFORMERS;
    }
    if (action == LS_JOB_TRAIN || action == LS_JOB_VERIFY)
        ls_job_option_add(&s->table,
                          ls_option_string("report", &s->report, "DIR", "writes DIR/index.html"));
    ls_job_option_add(
        &s->table, ls_option_flag("json", &s->json,
                                  "one JSON object on standard output, words on standard error"));
    ls_job_option_add(&s->table, ls_option_flag("help", &s->help, "this text"));
}

static ls_status begin(settings *s, const command_spec *command)
{
    ls_status status = LS_OK;
    memset(s, 0, sizeof *s);
    LS_TRY(ls_job_settings_begin(&s->job, command->mark));
    s->job.run.world.stop = &stop_wanted;
    make_table(s, 0);
exit:
    return status;
}

static ls_status check_files_to_write(const settings *s)
{
    ls_status status = LS_OK;
    char page[4096];
    LS_TRY(refuse_to_overwrite("save", s->job.run.save, WRITES_TENSORS));
    LS_TRY(refuse_to_overwrite("trace", s->job.run.trace, WRITES_TRACE));
    LS_TRY(refuse_to_overwrite("draw", s->draw, WRITES_DRAWING));
    if (s->report != NULL &&
        (size_t)snprintf(page, sizeof page, "%s/index.html", s->report) < sizeof page)
        LS_TRY(refuse_to_overwrite("report", page, WRITES_PAGE));
exit:
    return status;
}

/* Options that are legal in this layout and change nothing: said, in a line each. */
static void note_idle_options(const settings *s, const command_spec *command)
{
    const ls_layout *layout = &s->job.run.layout;
    const bool whole = layout->down == 1 && layout->across == 1 && layout->n_strategies == 0;
    const struct {
        const char *option;
        bool idle;
        const char *why;
    } rows[] = {
        {"sp", layout->tp == 1, "--tp is 1, there is nothing to share the tokens with"},
        {"gathered-loss", layout->tp == 1, "--tp is 1, every rank has all logits"},
        {"schedule", layout->schedule != LS_INTERLEAVED && layout->micro_batches == 1,
         "with --micro-batches 1 there is one order"},
        {"overlap", whole, "no layer's image is cut, so no halo is under way"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (ls_options_given(s->table.options, s->table.count, rows[i].option) && rows[i].idle)
            fprintf(stderr, "lockstep: note: --%s has no effect: %s\n", rows[i].option,
                    rows[i].why);
    for (size_t i = 0; command->mark == LS_JOB_PLAN && i < s->table.count; i++)
        if (s->table.options[i].given && (s->table.marks[i] & LS_OF_A_RUN) != 0)
            fprintf(stderr, "lockstep: note: --%s has no effect: plan runs nothing\n",
                    s->table.options[i].name);
}

/* After the help of one kind of model: how to get that of the other. */
static void print_other_kind(int only, const command_spec *command)
{
    if (only == LS_OF_NETS)
        printf("\nTransformers have other options, --tp, --pp and --text among them:\n"
               "lockstep %s --model gpt2-nano --help\n",
               command->name);
    else
        printf("\nConvolutional networks have other options, --spatial, --channel and --images "
               "among them:\nlockstep %s --model alexnet-nano --help\n",
               command->name);
}

/* Without what else was given; but the sizes are those of the model that was named. */
static ls_status print_help(settings *s, const command_spec *command)
{
    ls_status status = LS_OK;
    const char *model = s->job.model;
    LS_TRY(begin(s, command));
    s->job.model = model;
    LS_TRY(ls_job_settings_load(&s->job, &s->table));
    s->job.model = "gpt2-nano";
    const int only = ls_job_kind_of(&s->job.config);
    make_table(s, only);
    print_help_head(command);
    ls_options_help(stdout, s->table.options, s->table.count);
    print_other_kind(only, command);
    print_help_end(command);
exit:
    return status;
}

ls_status settings_read(settings *s, const command_spec *command, int argc, const char *const *argv,
                        bool *ret_helped)
{
    ls_status status = LS_OK;
    static const char *const names[] = {"DIR (the folder to write)"};
    ls_words place = {names, 1, &s->directory, command->usage};
    ls_words *words = command->mark == LS_JOB_DUMP ? &place : NULL;

    /* Read twice: the first time to learn of --model and --help, the second time to put the other
     * options over what that model says. */
    LS_TRY(begin(s, command));
    status = ls_options_parse(s->table.options, s->table.count, argc, argv, words);
    if (status != LS_OK && words != NULL && asks_for_help(argc, argv)) {
        ls_error_clear(); /* what is missing is what the help is about */
        status = LS_OK;
        s->help = true;
    }
    LS_TRY(status);
    *ret_helped = s->help;
    if (s->help) {
        LS_TRY(print_help(s, command));
        goto exit;
    }
    LS_TRY(ls_job_settings_load(&s->job, &s->table));
    LS_TRY(ls_options_parse(s->table.options, s->table.count, argc, argv, words));
    LS_TRY(ls_job_settings_finish(&s->job, &s->table));
    LS_TRY(check_files_to_write(s));
    LS_TRY(shell_command_line(command->name, argc, argv, &s->command_line));
    note_idle_options(s, command);
exit:
    if (status != LS_OK) settings_free(s);
    return status;
}

void settings_free(settings *s)
{
    ls_job_settings_free(&s->job);
    free(s->command_line);
    s->command_line = NULL;
}

void settings_warn(const settings *s)
{
    char text[1024];
    if (s->job.run.load != NULL) {
        if (ls_checkpoint_not_finite(s->job.run.load, text, sizeof text) != LS_OK)
            ls_error_clear(); /* loading it gives the error */
        else if (text[0] != '\0')
            fprintf(stderr, "lockstep: warning: %s\n", text);
    }
    if (s->job.run.engine != LS_ENGINE_OPENBLAS && !s->job.both_engines) return;
    const char *warning = ls_engine_warning(LS_ENGINE_OPENBLAS);
    if (*warning != '\0') fprintf(stderr, "lockstep: warning: %s\n", warning);
}
