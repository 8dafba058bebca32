/* deadlock.h - whether what a rank waits for can still come. */
#ifndef LS_COMM_DEADLOCK_H
#define LS_COMM_DEADLOCK_H

#include "comm/world_state.h"

/* Fails with LS_ERR_RANK when what this rank waits for (ls_wait_begin) cannot come any more: a rank
 * that is needed has ended, or ranks wait for each other in a circle. Never fails while it still
 * can. */
ls_status ls_deadlock_check(const ls_rank *rank) LS_MUST_USE;

/* LS_ERR_RANK, with the names of those who are missing and what they do instead. */
ls_status ls_deadlock_timeout(const ls_rank *rank, uint64_t waited_ns) LS_MUST_USE;

#endif
