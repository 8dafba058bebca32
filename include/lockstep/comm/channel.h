/* channel.h - messages between two members of a group.
 *
 * Messages from one sender to one receiver with one tag arrive in the order sent. With capacity 0 a
 * send returns when the receiver has taken the message (rendezvous); with capacity c it may leave c
 * messages behind, copied. Buffering hides mistakes of order, so 0 is the default. */
#ifndef LS_COMM_CHANNEL_H
#define LS_COMM_CHANNEL_H

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"

LS_BEGIN_DECLS

/* Sends count elements to member `peer`. The buffer is free when it returns. Bytes: count e.
 * Errors: LS_ERR_INPUT (peer out of range or itself), LS_ERR_RANK (the receiver expects another
 * count or dtype: both sides get it; time-out), LS_ERR_ABORTED. */
LS_API ls_status ls_send(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                         ls_dtype dtype) LS_MUST_USE;

LS_API ls_status ls_receive(ls_group *group, int peer, int tag, void *buffer, size_t count,
                            ls_dtype dtype) LS_MUST_USE;

/* One message each way at once, so that two neighbours may both want to send first: completes both,
 * in whatever order they become possible. */
LS_API ls_status ls_send_receive(ls_group *group, int to, int send_tag, const void *send_buffer,
                                 size_t send_count, int from, int receive_tag, void *receive_buffer,
                                 size_t receive_count, ls_dtype dtype) LS_MUST_USE;

LS_END_DECLS

#endif
