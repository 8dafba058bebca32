/* waiting.h - how a rank waits: it looks, then sleeps until it is woken. */
#ifndef LS_COMM_WAITING_H
#define LS_COMM_WAITING_H

#include "comm/world_state.h"

/* Whether what is waited for has come; reads atomics with sequential consistency. */
typedef bool (*ls_ready)(const void *what);

/* Waits until ready(what). The call of `kind` in `group` is what error texts name.
 * Errors: LS_ERR_RANK (time-out, or it can never come), LS_ERR_ABORTED, LS_ERR_INTERRUPTED; the
 * world is then aborted. */
ls_status ls_wait_until(ls_group *group, ls_call_kind kind, ls_ready ready,
                        const void *what) LS_MUST_USE;

/* Wakes `rank` if it sleeps. The rank that makes something ready for it calls this afterwards. */
void ls_wake(ls_rank *rank);

ls_status ls_parking_init(ls_parking *parking) LS_MUST_USE;
void ls_parking_destroy(ls_parking *parking);

#endif
