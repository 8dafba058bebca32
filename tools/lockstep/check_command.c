/* check_command.c - judges another backend's tensors against a golden directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_facts.h"
#include "interrupt.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"
#include "report/progress.h"

static void make_options(check_settings *s, ls_job_option_table *table)
{
    *s = (check_settings){0};
    ls_job_check_options(&s->check, table);
    ls_job_option_add(table,
                      ls_option_string("show", &s->show, "TENSOR",
                                       "this tensor's whole story: shape, what makes it, the worst "
                                       "elements, and a picture of where they are"));
    ls_job_option_add(table,
                      ls_option_flag("all", &s->all, "lists every tensor and every mistake"));
    ls_job_option_add(
        table, ls_option_flag("json", &s->json,
                              "one JSON object on standard output, words on standard error"));
    ls_job_option_add(table, ls_option_flag("help", &s->help, "this text"));
}

static ls_status read_check_settings(check_settings *s, const command_spec *command, int argc,
                                     const char *const *argv)
{
    ls_status status = LS_OK;
    ls_job_option_table table = {.count = 0};
    static const char *const names[] = {"GOLDEN (a folder that lockstep dump wrote)",
                                        "CANDIDATE (a folder or file of your tensors)"};
    const char *words[2] = {NULL, NULL};
    ls_words rest = {names, 2, words, command->usage};
    make_options(s, &table);
    if (asks_for_help(argc, argv)) {
        print_command_help(command, NULL, table.options, table.count);
        s->help = true;
        return LS_OK;
    }
    LS_TRY(ls_options_parse(table.options, table.count, argc, argv, &rest));
    s->golden = words[0];
    s->candidate = words[1];
exit:
    return status;
}

/* ---- progress: each kind of work anew ---- */

typedef struct check_progress {
    ls_progress progress;
    const char *what;
    uint64_t done;
} check_progress;

static void on_advance(void *context, uint64_t done, uint64_t of, const char *what)
{
    check_progress *p = context;
    if (p->what != what || done < p->done) {
        ls_progress_clear(&p->progress);
        ls_progress_begin(&p->progress, stderr, of);
        p->done = 0;
        p->what = what;
    }
    ls_progress_advance(&p->progress, done - p->done, what);
    p->done = done;
}

/* ---- the command ---- */

/* The judged name that is nearest, with its step or without. Without memory there is none. */
static const char *nearest_judged(const ls_judgement *judgement, const char *name)
{
    const char *near = NULL;
    const char **known = ls_allocate(2 * judgement->count, sizeof *known, 1, true);
    for (size_t i = 0; known && i < judgement->count; i++) {
        known[2 * i] = judgement->tensors[i].golden->name;
        known[2 * i + 1] = strchr(known[2 * i], '/') ? strchr(known[2 * i], '/') + 1 : known[2 * i];
    }
    if (known) near = ls_nearest(name, known, 2 * judgement->count);
    free(known);
    return near;
}

static ls_status look_at(const checked *c, ls_inspection **ret_look)
{
    ls_status status = LS_OK;
    const char *name = c->settings->show;
    if (!name) return LS_OK;
    const ls_judged *judged = ls_judgement_find(c->judgement, name);
    if (!judged) {
        const char *near = nearest_judged(c->judgement, name);
        LS_FAIL(LS_ERR_INPUT, "--show %s: no tensor of this name was judged%s%s%s", ls_show(name),
                near ? "; is " : "", near ? near : "", near ? " meant?" : "");
    }
    LS_TRY(ls_inspection_create(ret_look, c->judgement, judged));
exit:
    return status;
}

ls_status check_command(const command_spec *command, int argc, const char *const *argv)
{
    ls_status status = LS_OK;
    check_settings s;
    check_progress progress = {.what = NULL};
    ls_golden *golden = NULL;
    ls_candidate *candidate = NULL;
    ls_judgement *judgement = NULL;
    ls_findings *findings = NULL;
    ls_inspection *look = NULL;
    LS_TRY(read_check_settings(&s, command, argc, argv));
    if (s.help) goto exit;
    interrupts_end_after(1);
    FILE *out = s.json ? stderr : stdout;
    const ls_check_options more = {
        .stop = &stop_wanted, .context = &progress, .advance = on_advance};
    ls_progress_begin(&progress.progress, stderr, 1);
    LS_TRY(
        ls_job_check_run(&s.check, s.golden, s.candidate, &more, &golden, &candidate, &judgement));
    LS_TRY(ls_findings_create(&findings, judgement));
    ls_progress_clear(&progress.progress);
    checked c = {&s, golden, candidate, judgement, findings, NULL};
    LS_TRY(look_at(&c, &look));
    c.look = look;
    LS_TRY(print_judgement(out, &c));
    if (s.json) LS_TRY(print_check_json(&c));
    if (judgement->different > 0 || ls_job_nothing_judged(judgement)) status = LS_DIFFERENT;
exit:
    ls_progress_clear(&progress.progress);
    ls_inspection_destroy(&look);
    ls_findings_destroy(&findings);
    ls_judgement_destroy(&judgement);
    ls_candidate_close(&candidate);
    ls_golden_close(&golden);
    return status;
}
