/* isend.h - sends whose owners do not wait.
 *
 * A send under way lies in the receiver's mailbox like any other one and shows the sender's own
 * buffer. It must be out of the mailbox before that buffer goes: at ls_send_end, at
 * ls_send_cancel, or at the latest when the rank ends. The records themselves stay until all
 * ranks have ended, because others look at them to see what a rank waits for (deadlock.c). */
#ifndef LS_COMM_ISEND_H
#define LS_COMM_ISEND_H

#include "comm/world_state.h"

struct ls_isend {
    ls_message message;
    ls_group *group;
    bool seen_over; /* by its owner, who then ends it without a wait */
    ls_isend *next; /* among those of the rank that are under way, or among the spare ones */
};

/* When the rank's function has returned: takes back what is still under way. Errors: LS_ERR_RANK,
 * a receiver had not taken one. */
ls_status ls_isends_close(ls_rank *rank) LS_MUST_USE;

/* When all ranks have ended. */
void ls_isends_free(ls_rank *rank);

#endif
