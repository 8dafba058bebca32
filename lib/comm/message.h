/* message.h - one half of a message, and what is said of it. */
#ifndef LS_COMM_MESSAGE_H
#define LS_COMM_MESSAGE_H

#include "comm/world_state.h"

/* A half of this group's caller, in no mailbox yet. buffer: only read when it is a send. */
void ls_message_fill(ls_message *half, const ls_group *group, int sender, int receiver, int tag,
                     const void *buffer, size_t count, ls_dtype dtype);

/* Copied, or found not to fit. */
bool ls_message_is_over(const ls_message *half);

/* LS_ERR_RANK, the text of both sides, when the halves of this message did not fit. */
ls_status ls_message_check_send(const ls_group *group, const ls_message *send) LS_MUST_USE;
ls_status ls_message_check_receive(const ls_group *group, const ls_message *receive) LS_MUST_USE;

/* LS_ERR_INPUT unless `peer` is another member. what: "send to". */
ls_status ls_peer_check(const ls_group *group, const char *what, int peer) LS_MUST_USE;

#endif
