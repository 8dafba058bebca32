/* collective.h - the frame of every collective: enter, work on each other's buffers, leave.
 *
 *     ls_status status = LS_OK;
 *     LS_TRY(...check the arguments...);
 *     LS_TRY(ls_collective_enter(group, call, in, out, bytes));
 *     ...read the others' posts and buffers...
 *     LS_TRY(ls_collective_leave(group));
 *   exit:
 *     return ls_collective_end(group, status);
 *
 * The entry barrier says that every member's input is ready and that all make the same call; the
 * exit barrier that no operation reads a peer's buffers any more. */
#ifndef LS_COMM_COLLECTIVE_H
#define LS_COMM_COLLECTIVE_H

#include "comm/world_state.h"

/* Refuses after an abort, pauses as the options say, counts, posts the call and the buffers, and
 * waits for all members to do so. Fills in call->number. bytes: what ls_comm_count counts. */
ls_status ls_collective_enter(ls_group *group, ls_call call, const void *in, void *out,
                              uint64_t bytes) LS_MUST_USE;

/* The barrier between two phases of one call, and the one at its end. What can fail (memory) must
 * have been done before the entry: between barriers a member only works. */
ls_status ls_collective_middle(ls_group *group) LS_MUST_USE;
ls_status ls_collective_leave(ls_group *group) LS_MUST_USE;

/* What every communication does last. Aborts the world unless status is LS_OK; returns status. */
ls_status ls_collective_end(ls_group *group, ls_status status);

/* What every communication does first: refuses after an abort, pauses, counts, begins an event of
 * the trace, which ls_collective_end ends. The only place that counts. */
ls_status ls_communication_begin(ls_group *group, ls_call_kind kind, uint64_t bytes) LS_MUST_USE;

/* count * bytes of dtype; LS_ERR_INPUT when no array is so long. */
ls_status ls_bytes_of(size_t count, ls_dtype dtype, size_t *ret_bytes) LS_MUST_USE;

/* rows * columns * bytes of dtype; LS_ERR_INPUT when no array is so long. */
ls_status ls_bytes_of_rows(size_t rows, size_t columns, ls_dtype dtype,
                           size_t *ret_bytes) LS_MUST_USE;

/* starts: n + 1 ascending numbers from 0; LS_ERR_INPUT otherwise. `what` names them. */
ls_status ls_check_starts(const char *what, const size_t *starts, size_t n) LS_MUST_USE;

/* LS_ERR_INPUT when the two ranges overlap. */
ls_status ls_check_apart(const void *out, size_t out_bytes, const void *in,
                         size_t in_bytes) LS_MUST_USE;

/* Elements lo <= i < hi of count are member m's part of the work; whole cache lines, so that no two
 * members write to one. */
void ls_slice_of(const ls_group *group, int m, size_t count, ls_dtype dtype, size_t *ret_lo,
                 size_t *ret_hi);

/* At least `bytes` of memory that belongs to the group handle, its contents undefined. */
ls_status ls_group_scratch(ls_group *group, size_t bytes, void **ret_scratch) LS_MUST_USE;

#endif
