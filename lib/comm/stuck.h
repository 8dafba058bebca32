/* stuck.h - who waits for whom, and whether that can ever end. */
#ifndef LS_COMM_STUCK_H
#define LS_COMM_STUCK_H

#include "comm/world_state.h"

/* Shows the other ranks that the owner of `group` waits in a call of `kind`, until ls_wait_end. */
void ls_wait_begin(ls_group *group, ls_call_kind kind);
void ls_wait_end(ls_group *group);

/* Fails with LS_ERR_RANK when what this rank waits for cannot come any more: a rank that is
 * needed has ended, or ranks wait for each other in a circle. Never fails while it still can. */
ls_status ls_stuck_check(ls_group *group, ls_call_kind kind) LS_MUST_USE;

/* LS_ERR_RANK, with the names of those who are missing and what they do instead. */
ls_status ls_stuck_timeout(ls_group *group, ls_call_kind kind, uint64_t waited_ns) LS_MUST_USE;

#endif
