#include "lockstep/comm/channel.h"

#include <string.h>

#include "comm/collective.h"
#include "comm/unreceived.h"
#include "comm/mailbox.h"
#include "comm/message.h"
#include "comm/trace_lane.h"
#include "comm/waiting.h"

static bool has_room(const ls_message *send)
{
    return atomic_load(&send->state) == LS_MESSAGE_ROOM;
}

/* A half that is claimed is being copied: that is soon over. */
static bool both_over_or_room(const void *what)
{
    const ls_rank *rank = what;
    return has_room(&rank->send) ||
           (ls_message_is_over(&rank->send) && ls_message_is_over(&rank->receive));
}

/* Leaves a copy in the place of the send, unless the receiver has just claimed the send itself. */
static ls_status leave_behind(ls_group *group, int to, ls_message *send)
{
    ls_status status = LS_OK;
    ls_message *copy = NULL;
    /* What was taken while this one waited goes first, so that next to `capacity` copies at most
     * one is there, which the receiver is just taking. */
    ls_unreceived_free_taken(group->rank);
    LS_TRY(ls_unreceived_create(&copy, group, send));
    bool left = ls_mailbox_replace(group->team, to, send, copy);
    /* A copy that was not needed is freed like one that was taken. */
    atomic_store(left ? &send->state : &copy->state, LS_MESSAGE_DONE);
exit:
    return status;
}

/* Sends to member `to` what rank->send holds, and receives from member `from` into rank->receive;
 * -1: nothing of that kind. */
static ls_status exchange(ls_group *group, ls_call_kind kind, int to, int from)
{
    ls_status status = LS_OK;
    ls_rank *rank = group->rank;
    ls_team *team = group->team;
    ls_message *send = &rank->send, *receive = &rank->receive;
    if (to < 0) atomic_store(&send->state, LS_MESSAGE_DONE);
    if (from < 0) atomic_store(&receive->state, LS_MESSAGE_DONE);
    rank->sent = send;
    ls_unreceived_free_taken(rank);
    /* The receive first: a peer that is about to send finds it. */
    if (from >= 0) ls_mailbox_post_receive(team, group->member, receive);
    if (to >= 0) ls_mailbox_post_send(team, to, send, rank->world->options.channel_capacity);
    while (!ls_message_is_over(send) || !ls_message_is_over(receive)) {
        if (has_room(send))
            LS_TRY(leave_behind(group, to, send));
        else
            LS_TRY(ls_wait_until(group, kind, both_over_or_room, rank));
    }
    if (to >= 0) LS_TRY(ls_message_check_send(group, send));
    if (from >= 0) LS_TRY(ls_message_check_receive(group, receive));
exit:
    if (status != LS_OK) {
        if (to >= 0) ls_mailbox_cancel(team, to, send);
        if (from >= 0) ls_mailbox_cancel(team, group->member, receive);
    }
    return status;
}

ls_status ls_send(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                  ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(ls_peer_check(group, "send to", peer));
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_SEND, bytes));
    ls_message_fill(&group->rank->send, group, group->member, peer, tag, buffer, count, dtype);
    group->rank->send.number = ++group->rank->sends;
    ls_trace_message(group, peer, tag, group->rank->send.number);
    LS_TRY(exchange(group, LS_CALL_SEND, peer, -1));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_receive(ls_group *group, int peer, int tag, void *buffer, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(ls_peer_check(group, "receive from", peer));
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_RECEIVE, 0));
    ls_message_fill(&group->rank->receive, group, peer, group->member, tag, buffer, count, dtype);
    LS_TRY(exchange(group, LS_CALL_RECEIVE, -1, peer));
    ls_trace_message(group, peer, tag, group->rank->receive.number);
exit:
    return ls_collective_end(group, status);
}

ls_status ls_send_receive(ls_group *group, int to, int send_tag, const void *send_buffer,
                          size_t send_count, int from, int receive_tag, void *receive_buffer,
                          size_t receive_count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    ls_rank *rank = group->rank;
    size_t send_bytes = 0, receive_bytes = 0;
    LS_TRY(ls_peer_check(group, "send to", to));
    LS_TRY(ls_peer_check(group, "receive from", from));
    LS_TRY(ls_bytes_of(send_count, dtype, &send_bytes));
    LS_TRY(ls_bytes_of(receive_count, dtype, &receive_bytes));
    LS_TRY(ls_check_apart(receive_buffer, receive_bytes, send_buffer, send_bytes));
    /* For the trace a send that begins, a receive, and the send's end: they go on together. */
    LS_TRY(ls_communication_begin(group, LS_CALL_SEND_BEGIN, send_bytes));
    ls_trace_message(group, to, send_tag, ++rank->sends);
    LS_TRY(ls_communication_begin(group, LS_CALL_RECEIVE, 0));
    ls_message_fill(&rank->send, group, group->member, to, send_tag, send_buffer, send_count,
                    dtype);
    ls_message_fill(&rank->receive, group, from, group->member, receive_tag, receive_buffer,
                    receive_count, dtype);
    rank->send.number = rank->sends;
    LS_TRY(exchange(group, LS_CALL_SEND_RECEIVE, to, from));
    ls_trace_message(group, from, receive_tag, rank->receive.number);
    if (rank->world->options.channel_capacity == 0) {
        LS_TRY(ls_trace_enter(group, LS_CALL_SEND_END, LS_OP_COUNT, 0));
        ls_trace_message(group, to, send_tag, rank->send.number);
    }
exit:
    return ls_collective_end(group, status);
}
