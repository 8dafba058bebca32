/* barrier.h - the meeting point of a group's members. */
#ifndef LS_COMM_BARRIER_H
#define LS_COMM_BARRIER_H

#include "comm/world_state.h"

/* Which barrier of a call it is. Between the first and the last one members work on each other's
 * buffers. */
typedef enum ls_im2col_run {
    LS_MEETING_ENTRY,  /* every member's input is ready; the calls are compared                */
    LS_MEETING_MIDDLE, /* every member's first half is ready                                   */
    LS_MEETING_EXIT    /* no operation reads the others' buffers any more                         */
} ls_im2col_run;

/* Returns when every member of the group has arrived as often as the caller. What a member wrote
 * before it arrived, every member sees afterwards. At an entry the last one to arrive compares the
 * calls on behalf of all (entry_check.h) before any member is let go: all others wait then.
 *
 * Errors: LS_ERR_RANK (time-out, or a member cannot come any more), LS_ERR_ABORTED,
 * LS_ERR_INTERRUPTED; the world is then aborted, no member passes this barrier (unless all had
 * arrived at it) or a later one, and no member reads the caller's post or buffers. */
ls_status ls_barrier_arrive(ls_group *group, ls_call_kind kind, ls_im2col_run meeting) LS_MUST_USE;

#endif
