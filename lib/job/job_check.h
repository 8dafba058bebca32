/* job_check.h - the options of a check, for the command line and for the front door. */
#ifndef LS_JOB_JOB_CHECK_H
#define LS_JOB_JOB_CHECK_H

#include "check/check.h"
#include "job/job_settings.h"

typedef struct ls_job_check_settings {
    const char *map, *only;
    int computed, threads;
    bool complete, digests, quick;
} ls_job_check_settings;

/* Adds them to a table; *check gets the defaults. */
void ls_job_check_options(ls_job_check_settings *check, ls_job_option_table *table);

/* Opens both, and judges. The caller closes all three, whatever the status. more: options that are
 * no words (stop, advance, context). Errors: those of ls_golden_open, ls_golden_verify,
 * ls_candidate_open and ls_check. */
ls_status ls_job_check_run(const ls_job_check_settings *check, const char *golden_path,
                           const char *candidate_path, const ls_check_options *more,
                           ls_golden **ret_golden, ls_candidate **ret_candidate,
                           ls_judgement **ret_judgement) LS_MUST_USE;

/* Whether every tensor that is given is not judged. */
bool ls_job_nothing_judged(const ls_judgement *judgement);

#endif
