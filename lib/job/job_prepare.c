/* job_prepare.c - a job's options, by way of the words of a command line, to checked settings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/job_state.h"
#include "lockstep/base/show.h"
#include "lockstep/numerics/isa.h"
#include "base/allocate.h"

static const char *const action_names[LS_ACTIONS] = {"train", "verify", "plan", "dump", "check"};

ls_status ls_job_run_table(ls_job_action action, ls_job_settings *s, ls_job_option_table *table)
{
    static const int marks[] = {LS_JOB_TRAIN, LS_JOB_VERIFY, LS_JOB_PLAN, LS_JOB_DUMP};
    ls_status status = LS_OK;
    LS_TRY(ls_job_settings_begin(s, marks[action]));
    ls_job_options(s, 0, table);
exit:
    return status;
}

const ls_option *ls_job_option_named(const ls_job_option_table *table, const char *name)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->options[i].kind != LS_OPTION_HEADING &&
            strcmp(table->options[i].name, name) == 0)
            return &table->options[i];
    return NULL;
}

void ls_job_words_free(ls_job_words *w)
{
    for (int i = 0; i < w->count; i++) free(w->words[i]);
    free(w->words);
    *w = (ls_job_words){0, NULL};
}

/* What an action does not have is refused: an option without effect is a mistake. */
static ls_status make_words(const ls_job *job, ls_job_action action,
                            const ls_job_option_table *table, ls_job_words *ret_words)
{
    ls_status status = LS_OK;
    LS_NEW(ret_words->words, job->n_options + 1);
    for (size_t i = 0; i < job->n_options; i++) {
        const char *name = job->options[i].name, *value = job->options[i].value;
        const ls_option *option = ls_job_option_named(table, name);
        const size_t room = strlen(name) + strlen(value) + 4;
        if (option == NULL)
            LS_FAIL(LS_ERR_INPUT, "--%s: %s has no such option; set it to NULL first", name,
                    action_names[action]);
        if (option->kind == LS_OPTION_FLAG && strcmp(value, "on") != 0) {
            if (strcmp(value, "off") == 0) continue;
            LS_FAIL(LS_ERR_INPUT, "--%s %s: is a flag; use on or off", name, ls_show(value));
        }
        char *word = NULL;
        LS_ROOM(word, room);
        if (option->kind == LS_OPTION_FLAG)
            snprintf(word, room, "--%s", name);
        else
            snprintf(word, room, "--%s=%s", name, value);
        ret_words->words[ret_words->count++] = word;
    }
exit:
    return status;
}

ls_status ls_job_parse(const ls_job *job, ls_job_action action, ls_job_option_table *table,
                       ls_job_words *words)
{
    ls_status status = LS_OK;
    if (words->words == NULL) LS_TRY(make_words(job, action, table, words));
    LS_TRY(ls_options_parse(table->options, table->count, words->count,
                            (const char *const *)words->words, NULL));
exit:
    return status;
}

void ls_job_release(ls_job_prepared **prepared)
{
    if (*prepared == NULL) return;
    ls_job_settings_free(&(*prepared)->settings);
    ls_job_words_free(&(*prepared)->words);
    free(*prepared);
    *prepared = NULL;
}

ls_status ls_job_prepare(ls_job *job, ls_job_action action, ls_job_prepared **ret_prepared)
{
    ls_status status = LS_OK;
    ls_job_prepared *p = NULL;
    job->facts = (ls_job_facts){0};
    LS_NEW(p, 1);
    LS_TRY(ls_isa_check());
    LS_TRY(ls_job_run_table(action, &p->settings, &p->table));
    p->settings.run.world.stop = &job->stop;
    LS_TRY(ls_job_parse(job, action, &p->table, &p->words));
    LS_TRY(ls_job_settings_load(&p->settings, &p->table));
    ls_job_options(&p->settings, 0, &p->table);
    LS_TRY(ls_job_parse(job, action, &p->table, &p->words));
    LS_TRY(ls_job_settings_finish(&p->settings, &p->table));
    *ret_prepared = p;
    p = NULL;
exit:
    ls_job_release(&p);
    return status;
}
