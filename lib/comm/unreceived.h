/* unreceived.h - copies of messages whose senders did not wait. */
#ifndef LS_COMM_UNRECEIVED_H
#define LS_COMM_UNRECEIVED_H

#include "comm/world_state.h"

/* A copy of `send` with its data. It belongs to the sender's rank and counts in its
 * account as LS_MEM_COMMUNICATION until a rank has taken it and this one communicates again.
 * Errors: LS_ERR_MEMORY. */
ls_status ls_unreceived_create(ls_message **ret_copy, ls_group *group,
                               const ls_message *send) LS_MUST_USE;

/* Frees those of the rank that were taken, or all. */
void ls_unreceived_free_taken(ls_rank *rank);
void ls_unreceived_free_all(ls_rank *rank);

/* LS_ERR_RANK when one of the rank's messages was never taken. After all ranks have ended. */
ls_status ls_unreceived_check(const ls_rank *rank) LS_MUST_USE;

#endif
