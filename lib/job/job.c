/* job.c - the front door's handle: options by name, and what was found by name. */
#include <stdlib.h>
#include <string.h>

#include "job/job_check.h"
#include "job/job_state.h"
#include "lockstep/base/show.h"
#include "base/allocate.h"

const char *ls_version(void)
{
    return LS_VERSION;
}

ls_status ls_job_create(ls_job **ret_job)
{
    ls_status status = LS_OK;
    ls_job *job = NULL;
    LS_NEW(job, 1);
    *ret_job = job;
exit:
    return status;
}

void ls_job_destroy(ls_job **job)
{
    if (*job == NULL) return;
    for (size_t i = 0; i < (*job)->n_options; i++) {
        free((*job)->options[i].name);
        free((*job)->options[i].value);
    }
    free((*job)->options);
    free(*job);
    *job = NULL;
}

void ls_job_on_step(ls_job *job, ls_job_step *step, void *context)
{
    job->step = step;
    job->context = context;
}

void ls_job_stop(ls_job *job)
{
    job->stop = 1;
}

double ls_job_number(const ls_job *job, const char *name)
{
    return ls_job_facts_number(&job->facts, name);
}

const char *ls_job_word(const ls_job *job, const char *name)
{
    return ls_job_facts_word(&job->facts, name);
}

/* ---- options ---- */

/* Whether an action has an option of this name, and else the nearest. */
static ls_status check_name(const char *name)
{
    ls_status status = LS_OK;
    const char *known[LS_ACTIONS * LS_JOB_OPTIONS], *near;
    size_t count = 0;
    ls_job_option_table table = {.count = 0};
    ls_job_check_settings check;
    ls_job_settings *s = NULL;
    LS_ROOM(s, 1);
    for (int action = 0; action < LS_ACTIONS; action++) {
        table.count = 0;
        if (action == LS_ACTION_CHECK)
            ls_job_check_options(&check, &table);
        else
            LS_TRY(ls_job_run_table((ls_job_action)action, s, &table));
        if (ls_job_option_named(&table, name) != NULL) goto exit;
        for (size_t i = 0; i < table.count; i++)
            if (table.options[i].kind != LS_OPTION_HEADING) known[count++] = table.options[i].name;
    }
    near = ls_nearest(name, known, count);
    LS_FAIL(LS_ERR_INPUT, "%s: no action of a job has an option of this name%s%s%s", ls_show(name),
            near ? "; is " : "", near ? near : "", near ? " meant?" : "");
exit:
    free(s);
    return status;
}

ls_status ls_job_set(ls_job *job, const char *option, const char *value)
{
    ls_status status = LS_OK;
    char *name = NULL, *copy = NULL;
    size_t at = 0;
    LS_TRY(check_name(option));
    while (at < job->n_options && strcmp(job->options[at].name, option) != 0) at++;
    if (value == NULL && at == job->n_options) goto exit;
    if (value == NULL) {
        free(job->options[at].name);
        free(job->options[at].value);
        job->options[at] = job->options[--job->n_options];
        goto exit;
    }
    LS_GROW(job->options, at, job->room);
    LS_COPY(copy, value);
    if (at == job->n_options) LS_COPY(name, option);
    if (at == job->n_options)
        job->options[job->n_options++] = (ls_job_choice){name, copy};
    else {
        free(job->options[at].value);
        job->options[at].value = copy;
    }
    name = copy = NULL;
exit:
    free(name);
    free(copy);
    return status;
}
