#include "job/job_layouts.h"

#include <stdlib.h>
#include <string.h>

#include "job/machine.h"
#include "base/allocate.h"

/* "tp 4; dp 2 x pp 2": each checked before anything runs. */
static ls_status read_layouts(ls_sweep *sweep, const ls_job_settings *s)
{
    ls_status status = LS_OK;
    char *list = NULL;
    LS_COPY(list, s->layouts);
    for (char *rest = list, *end; rest != NULL; rest = end == NULL ? NULL : end + 1) {
        ls_run run = s->run;
        end = strchr(rest, ';');
        if (end != NULL) *end = '\0';
        LS_TRY(ls_layout_parse("--layouts", rest, &run.layout));
        LS_TRY(ls_run_check(&run));
        LS_TRY(ls_job_check_ranks(&run.layout));
        LS_TRY(ls_sweep_add(sweep, &run.layout));
    }
exit:
    free(list);
    return status;
}

ls_status ls_job_layouts(const ls_job_settings *s, ls_sweep *ret_sweep)
{
    ls_status status = LS_OK;
    if (s->sweep > 0)
        LS_TRY(ls_sweep_create(ret_sweep, &s->run.config, s->sweep));
    else if (s->layouts != NULL)
        LS_TRY(read_layouts(ret_sweep, s));
    else
        LS_TRY(ls_sweep_add(ret_sweep, &s->run.layout));
    LS_TRY(ls_machine_holds_layouts(&s->run, ret_sweep->layouts, ret_sweep->count));
exit:
    return status;
}
