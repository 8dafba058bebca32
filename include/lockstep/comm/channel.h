/* channel.h - messages between two members of a group.
 *
 * Messages from one sender to one receiver with one tag arrive in the order sent; other tags and
 * other groups are other streams. With capacity 0 a send returns when the receiver has taken the
 * message (rendezvous); with capacity c it may leave c messages behind, copied, on the sender's
 * account as LS_MEM_COMMUNICATION. Buffering hides mistakes of order, so 0 is the default. A sender
 * that has work to do meanwhile begins a send and ends it later; the order is that of the begins.
 *
 * Errors of all: LS_ERR_INPUT (a peer out of range, or the caller itself), LS_ERR_RANK (the other
 * side has another count or dtype: both sides get it; it has ended; a circle of waiting ranks;
 * time-out), LS_ERR_ABORTED, LS_ERR_INTERRUPTED. The world is then aborted. */
#ifndef LS_COMM_CHANNEL_H
#define LS_COMM_CHANNEL_H

#include <stdbool.h>

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"

LS_BEGIN_DECLS

/* Sends count elements to member `peer`. tag: any number. The buffer is free when it returns.
 * Bytes: count e. */
LS_API ls_status ls_send(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                         ls_dtype dtype) LS_MUST_USE;

/* Receives the oldest message with this tag from member `peer`, which must have this count and
 * dtype. Bytes: 0, they are the sender's. */
LS_API ls_status ls_receive(ls_group *group, int peer, int tag, void *buffer, size_t count,
                            ls_dtype dtype) LS_MUST_USE;

/* One message each way at once, so that two neighbours may both want to send first: completes both,
 * in whatever order they become possible. `to` and `from` may be the same member; the buffers may
 * not overlap. Counts as one send and one receive. */
LS_API ls_status ls_send_receive(ls_group *group, int to, int send_tag, const void *send_buffer,
                                 size_t send_count, int from, int receive_tag, void *receive_buffer,
                                 size_t receive_count, ls_dtype dtype) LS_MUST_USE;

/* A send under way; belongs to the rank that began it. */
typedef struct ls_isend ls_isend;

/* Posts a message for member `peer` and returns at once: the receiver takes it straight from
 * `buffer`, nothing is copied aside, whatever the capacity. buffer: must stay as it is until
 * ls_send_is_over, ls_send_end or ls_send_cancel has said that the receiver is done with it. Any
 * number may be under way. Counts as one send, here. Bytes: count e. */
LS_API ls_status ls_send_begin(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                               ls_dtype dtype, ls_isend **ret_sending) LS_MUST_USE;

/* Whether the receiver has taken it. Never waits, and does not see an abort: who asks again and
 * again also calls ls_rank_check. */
LS_API bool ls_send_is_over(ls_isend *sending);

/* Waits until the receiver has taken it, and frees it, also when it fails: the buffer is the
 * caller's again. NULL allowed. A rank that ends with a send that no rank has taken fails. */
LS_API ls_status ls_send_end(ls_isend **sending) LS_MUST_USE;

/* Takes it back and frees it without waiting for the receiver: for the way out after a failure,
 * before the buffer goes. NULL allowed. */
LS_API void ls_send_cancel(ls_isend **sending);

LS_END_DECLS

#endif
