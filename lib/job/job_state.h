/* job_state.h - a job from inside: its options as texts, and what its last action found. */
#ifndef LS_JOB_JOB_STATE_H
#define LS_JOB_JOB_STATE_H

#include "job/job_facts.h"
#include "job/job_settings.h"
#include "lockstep/lockstep.h"

typedef struct ls_job_choice {
    char *name, *value;
} ls_job_choice;

struct ls_job {
    ls_job_choice *options;
    size_t n_options, room;
    ls_job_step *step;
    void *context;
    volatile int stop;
    ls_job_facts facts;
};

/* Every action with options of its own; the first four have those of a run. */
typedef enum ls_job_action {
    LS_ACTION_TRAIN = 0,
    LS_ACTION_VERIFY,
    LS_ACTION_PLAN,
    LS_ACTION_DUMP,
    LS_ACTION_CHECK,
    LS_ACTIONS
} ls_job_action;

/* The options of an action with a run, each next to the member of *s that it sets. */
ls_status ls_job_run_table(ls_job_action action, ls_job_settings *s,
                           ls_job_option_table *table) LS_MUST_USE;

/* The option of a name; NULL. */
const ls_option *ls_job_option_named(const ls_job_option_table *table, const char *name);

/* A job's options as words of a command line. */
typedef struct ls_job_words {
    int count;
    char **words;
} ls_job_words;

/* Reads the job's options into the table's variables, which point into *words from then on.
 * LS_ERR_INPUT: the action has no such option, or a value is not allowed. */
ls_status ls_job_parse(const ls_job *job, ls_job_action action, ls_job_option_table *table,
                       ls_job_words *words) LS_MUST_USE;
void ls_job_words_free(ls_job_words *words);

/* A job's settings for one action; on the heap, since they are large. */
typedef struct ls_job_prepared {
    ls_job_settings settings;
    ls_job_option_table table;
    ls_job_words words; /* settings point into them */
} ls_job_prepared;

/* Everything read and checked; forgets what the last action found. */
ls_status ls_job_prepare(ls_job *job, ls_job_action action,
                         ls_job_prepared **ret_prepared) LS_MUST_USE;
void ls_job_release(ls_job_prepared **prepared);

#endif
