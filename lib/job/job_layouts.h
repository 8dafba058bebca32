/* job_layouts.h - the layouts that a verification goes through: one, several, or a sweep. */
#ifndef LS_JOB_JOB_LAYOUTS_H
#define LS_JOB_JOB_LAYOUTS_H

#include "job/job_settings.h"
#include "verify/sweep.h"

/* Those that the settings ask for, each checked and small enough for this machine. On failure the
 * sweep is to be freed all the same. Errors: LS_ERR_INPUT, LS_ERR_MEMORY. */
ls_status ls_job_layouts(const ls_job_settings *s, ls_sweep *ret_sweep) LS_MUST_USE;

#endif
