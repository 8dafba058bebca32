/* sweep_list.c - layouts in a list. */
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "verify/sweep.h"

bool ls_same_grid(const ls_layout *a, const ls_layout *b)
{
    return a->dp == b->dp && a->pp == b->pp && a->cp == b->cp && a->tp == b->tp && a->sp == b->sp &&
           a->down == b->down && a->across == b->across && a->channels == b->channels;
}

ls_status ls_sweep_add(ls_sweep *sweep, const ls_layout *layout)
{
    ls_status status = LS_OK;
    LS_GROW(sweep->layouts, sweep->count, sweep->room);
    sweep->layouts[sweep->count++] = *layout;
exit:
    return status;
}

void ls_sweep_free(ls_sweep *sweep)
{
    free(sweep->layouts);
    memset(sweep, 0, sizeof *sweep);
}
