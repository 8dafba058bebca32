/* gallery_program.c - `gallery` in the program that has the seeded faults: a line per fault and
 * layout, and how many were found and named. */
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "interrupt.h"
#include "base/allocate.h"
#include "gallery/gallery.h"
#include "report/progress.h"
#include "report/text_table.h"

enum { OPTIONS = 8 };

typedef struct gallery_settings {
    ls_gallery_options gallery;
    int seeds;
    uint64_t first_seed;
    bool evidence, json, list, help;
} gallery_settings;

/* The gallery under way. */
typedef struct showing {
    const gallery_settings *settings;
    FILE *out;
    ls_progress progress;
    json_t *rows;
    int scene; /* whose heading is last */
    uint64_t seed;
    size_t faulty; /* runs with a fault */
    size_t losses_passed[LS_GALLERY_TOLERANCES], gradients_passed[LS_GALLERY_TOLERANCES];
} showing;

static void make_options(gallery_settings *s, ls_option *options)
{
    *s = (gallery_settings){.seeds = 1, .first_seed = 1};
    options[0] =
        ls_option_int("seeds", &s->seeds, 1, 1000, "N", "so many seeds, each in every run");
    options[1] = ls_option_u64("seed", &s->first_seed, 0, UINT64_MAX, "N", "the first of them");
    options[2] = ls_option_string("only", &s->gallery.only, "FAULT",
                                  "faults by name, with * and ?, commas between them");
    options[3] = ls_option_string("keep", &s->gallery.keep, "DIR",
                                  "a new folder in which golden directories and candidates stay");
    options[4] = ls_option_flag("list", &s->list, "the faults, without running anything");
    options[5] =
        ls_option_flag("evidence", &s->evidence, "what each name rests on, under its line");
    options[6] = ls_option_flag("json", &s->json,
                                "one JSON object on standard output, words on standard error");
    options[7] = ls_option_flag("help", &s->help, "this text");
}

static ls_status read_settings(gallery_settings *s, const command_spec *command, int argc,
                               const char *const *argv)
{
    ls_status status = LS_OK;
    ls_option options[OPTIONS];
    make_options(s, options);
    if (asks_for_help(argc, argv)) {
        print_command_help(
            command,
            "Small models are trained in several layouts with one mistake at a time and\n"
            "judged against the right run, as `lockstep check` judges any candidate.\n\n",
            options, OPTIONS);
        s->help = true;
        return LS_OK;
    }
    LS_TRY(ls_options_parse(options, OPTIONS, argc, argv, NULL));
exit:
    return status;
}

static void list_faults(FILE *out)
{
    for (int i = 0; i < LS_FAULTS_COUNT - 1; i++) {
        const ls_gallery_fault *fault = &ls_gallery_faults[i];
        fprintf(out, "%-28s %-62s %s\n", fault->key, fault->text,
                ls_mistake_of(fault->causes[0])->sentence);
    }
}

/* ---- for people ---- */

/* Which of the two a tolerance would have objected to. */
static const char *caught(const ls_gallery_row *row, int t)
{
    static const char *const words[] = {"both", "gradients", "losses", "nothing"};
    return words[2 * row->gradients_close[t] + row->losses_close[t]];
}

static void print_heading(showing *show, const ls_gallery_row *row)
{
    if (show->scene < 0)
        fprintf(show->out, "%-28s %-42s %-54s %s\n", "fault", "found at", "named as",
                "allclose objects to, at 1e-2, 1e-3, 1e-5");
    if (show->scene != row->scene || show->seed != row->seed)
        fprintf(show->out, "\n%s, seed %llu\n", ls_gallery_scenes[row->scene].name,
                (unsigned long long)row->seed);
    show->scene = row->scene;
    show->seed = row->seed;
}

static void print_row(const showing *show, const ls_gallery_row *row)
{
    const char *name = row->fault ? row->fault->key : "(none)";
    fprintf(show->out, "%-28s %-42s %-54s ", name, row->found ? row->at : "-",
            row->found ? ls_mistake_of(row->suspicion.cause)->sentence : "-");
    for (int t = 0; t < LS_GALLERY_TOLERANCES; t++) fprintf(show->out, "%-11s", caught(row, t));
    if (row->alarm) fputs("  false alarm", show->out);
    if (row->fault && !row->found) fputs("  not found", show->out);
    if (row->found && row->fault && !row->located)
        fprintf(show->out, "  should be at %s", row->fault->found);
    if (row->located && !row->named)
        fprintf(show->out, "  should be: %s", ls_mistake_of(row->fault->causes[0])->sentence);
    fputc('\n', show->out);
    if ((row->found && show->settings->evidence) || (row->located && !row->named) || row->alarm)
        fprintf(show->out, "    %s\n", row->suspicion.evidence);
    fflush(show->out);
}

static void print_summary(const showing *show, const ls_gallery_summary *sum)
{
    FILE *out = show->out;
    char faults[LS_NUMBER_TEXT], layouts[LS_NUMBER_TEXT], alarms[LS_NUMBER_TEXT];
    fprintf(out, "\nOf %zu runs with a fault np.allclose would have passed\n", show->faulty);
    for (int t = 0; t < LS_GALLERY_TOLERANCES; t++)
        fprintf(out, "  at %g: %zu by their losses, %zu by their gradients\n",
                ls_gallery_tolerances[t], show->losses_passed[t], show->gradients_passed[t]);
    fprintf(out, "gallery: %s in %s, %zu found, %zu named right, %s\n",
            ls_count_text(sum->faults, "fault", faults),
            ls_count_text(sum->layouts, "layout", layouts), sum->found, sum->named,
            ls_count_text(sum->alarms, "false alarm", alarms));
}

/* ---- for programs ---- */

static json_t *json_tolerances(const bool *passed)
{
    json_t *array = json_array();
    for (int t = 0; t < LS_GALLERY_TOLERANCES; t++)
        json_array_append_new(array, json_pack("{s:f, s:b}", "tolerance", ls_gallery_tolerances[t],
                                               "passes", (int)passed[t]));
    return array;
}

static json_t *json_row(const ls_gallery_row *row)
{
    json_t *expected = json_array();
    for (int i = 0; row->fault && i < LS_GALLERY_CAUSES && row->fault->causes[i]; i++)
        json_array_append_new(expected, json_string(ls_mistake_of(row->fault->causes[i])->key));
    return json_pack(
        "{s:s?, s:s?, s:s, s:o, s:i, s:b, s:s?, s:s?, s:b, s:s?, s:s, s:o, s:b, s:b, "
        "s:o, s:o}",
        "fault", row->fault ? row->fault->key : NULL, "text", row->fault ? row->fault->text : NULL,
        "layout", ls_gallery_scenes[row->scene].name, "seed", json_u64(row->seed), "different",
        (int)row->different, "found", (int)row->found, "at", row->found ? row->at : NULL,
        "must_be_at", row->fault ? row->fault->found : NULL, "at_its_place", (int)row->located,
        "cause", row->found ? ls_mistake_of(row->suspicion.cause)->key : NULL, "evidence",
        row->suspicion.evidence, "causes_expected", expected, "named_right", (int)row->named,
        "false_alarm", (int)row->alarm, "allclose_losses", json_tolerances(row->losses_close),
        "allclose_gradients", json_tolerances(row->gradients_close));
}

static json_t *json_summary(showing *show, const ls_gallery_summary *sum)
{
    json_t *rows = show->rows;
    show->rows = NULL;
    return json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o}", "program",
                     "lockstep " LOCKSTEP_VERSION, "command", "gallery", "faults", (int)sum->faults,
                     "layouts", (int)sum->layouts, "runs", (int)sum->runs, "found", (int)sum->found,
                     "named_right", (int)sum->named, "false_alarms", (int)sum->alarms, "rows",
                     rows);
}

/* ---- */

static void on_begin(void *context, size_t total)
{
    showing *show = context;
    ls_progress_begin(&show->progress, stderr, total);
}

static ls_status on_row(void *context, const ls_gallery_row *row)
{
    ls_status status = LS_OK;
    showing *show = context;
    char text[96];
    ls_progress_clear(&show->progress);
    print_heading(show, row);
    print_row(show, row);
    for (int t = 0; row->fault && t < LS_GALLERY_TOLERANCES; t++) {
        show->losses_passed[t] += row->losses_close[t];
        show->gradients_passed[t] += row->gradients_close[t];
    }
    show->faulty += row->fault != NULL;
    if (show->settings->json && json_array_append_new(show->rows, json_row(row)) != 0)
        LS_NO_MEMORY("a row of the JSON object");
    snprintf(text, sizeof text, "%s", ls_gallery_scenes[row->scene].name);
    ls_progress_advance(&show->progress, 1, text);
exit:
    return status;
}

ls_status gallery_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    gallery_settings s;
    showing show = {.settings = &s, .scene = -1};
    ls_gallery_summary sum;

    LS_TRY(read_settings(&s, command, argc, argv));
    if (s.help) goto exit;
    if (s.list) {
        list_faults(stdout);
        goto exit;
    }
    interrupts_stop_ranks();
    s.gallery.seeds = s.seeds;
    s.gallery.first_seed = s.first_seed;
    s.gallery.stop = &stop_wanted;
    s.gallery.context = &show;
    s.gallery.begin = on_begin;
    s.gallery.row = on_row;
    show.out = s.json ? stderr : stdout;
    show.rows = json_array();
    status = ls_gallery(&s.gallery, &sum);
    ls_progress_clear(&show.progress);
    LS_TRY(status);
    print_summary(&show, &sum);
    if (s.json) LS_TRY(print_json(json_summary(&show, &sum)));
    if (sum.found != sum.faults || sum.named != sum.faults || sum.alarms != 0)
        status = LS_DIFFERENT;
exit:
    json_decref(show.rows);
    return status;
}
