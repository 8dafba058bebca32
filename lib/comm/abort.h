/* abort.h - one rank's failure ends the run of all. */
#ifndef LS_COMM_ABORT_H
#define LS_COMM_ABORT_H

#include "comm/world_state.h"

/* Aborts the world because `rank`, the caller, fails with `status` and the text in its record. The
 * first to come is what ls_world_run reports; every rank that waits is woken. Returns status. */
ls_status ls_abort(ls_rank *rank, ls_status status);

/* Whether the run was asked to stop (Ctrl-C). */
bool ls_stop_wanted(const ls_world *world);

/* Fails when the world was aborted or shall stop (and then aborts it). */
ls_status ls_abort_check(ls_rank *rank) LS_MUST_USE;

#endif
