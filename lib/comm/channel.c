#include "lockstep/comm/channel.h"

#include <string.h>

#include "comm/collective.h"
#include "comm/left_behind.h"
#include "comm/mailbox.h"
#include "comm/waiting.h"

static ls_status check_peer(const ls_group *group, const char *what, int peer)
{
    ls_status status = LS_OK;
    if (peer < 0 || peer >= group->team->size)
        LS_FAIL(LS_ERR_INPUT, "%s member %d: group %s has members 0 to %d", what, peer,
                group->team->name, group->team->size - 1);
    if (peer == group->member)
        LS_FAIL(LS_ERR_INPUT, "%s member %d of group %s, which is the caller itself", what, peer,
                group->team->name);
exit:
    return status;
}

static void fill(ls_message *half, ls_group *group, int sender, int receiver, int tag, void *buffer,
                 size_t count, ls_dtype dtype)
{
    half->owner = group->rank;
    half->sender = sender;
    half->receiver = receiver;
    half->tag = tag;
    half->buffer = buffer;
    half->count = count;
    half->dtype = dtype;
    half->team = NULL;
}

static bool is_over(const ls_message *half)
{
    int state = atomic_load(&half->state);
    return state == LS_MESSAGE_DONE || state == LS_MESSAGE_MISMATCH;
}

static bool has_room(const ls_message *send)
{
    return atomic_load(&send->state) == LS_MESSAGE_ROOM;
}

/* A half that is claimed is being copied: that is soon over. */
static bool both_over_or_room(const void *what)
{
    const ls_rank *rank = what;
    return has_room(&rank->send) || (is_over(&rank->send) && is_over(&rank->receive));
}

/* Leaves a copy in the place of the send, unless the receiver has just claimed the send itself. */
static ls_status leave_behind(ls_group *group, int to, ls_message *send)
{
    ls_status status = LS_OK;
    ls_message *copy = NULL;
    LS_TRY(ls_left_behind_create(&copy, group, send));
    bool left = ls_mailbox_replace(group->team, to, send, copy);
    /* A copy that was not needed is freed like one that was taken. */
    atomic_store(left ? &send->state : &copy->state, LS_MESSAGE_DONE);
exit:
    return status;
}

static ls_status mismatch(const ls_group *group, int tag, int from, size_t sent,
                          ls_dtype sent_dtype, int to, size_t expected, ls_dtype expected_dtype)
{
    ls_status status = LS_OK;
    const int *world_ranks = group->team->world_ranks;
    LS_FAIL(LS_ERR_RANK, "group %s, tag %d: rank %d sends %zu %s, rank %d expects %zu %s",
            group->team->name, tag, world_ranks[from], sent, ls_dtype_name(sent_dtype),
            world_ranks[to], expected, ls_dtype_name(expected_dtype));
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
    ls_left_behind_free_taken(rank);
    /* The receive first: a peer that is about to send finds it. */
    if (from >= 0) ls_mailbox_post_receive(team, group->member, receive);
    if (to >= 0) ls_mailbox_post_send(team, to, send, rank->world->options.channel_capacity);
    while (!is_over(send) || !is_over(receive)) {
        if (has_room(send))
            LS_TRY(leave_behind(group, to, send));
        else
            LS_TRY(ls_wait_until(group, kind, both_over_or_room, rank));
    }
    if (atomic_load(&send->state) == LS_MESSAGE_MISMATCH)
        LS_TRY(mismatch(group, send->tag, group->member, send->count, send->dtype, to,
                        send->other_count, send->other_dtype));
    if (atomic_load(&receive->state) == LS_MESSAGE_MISMATCH)
        LS_TRY(mismatch(group, receive->tag, from, receive->other_count, receive->other_dtype,
                        group->member, receive->count, receive->dtype));
exit:
    if (status != LS_OK) {
        if (to >= 0) ls_mailbox_withdraw(team, to, send);
        if (from >= 0) ls_mailbox_withdraw(team, group->member, receive);
    }
    return status;
}

ls_status ls_send(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                  ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(check_peer(group, "send to", peer));
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_SEND, bytes));
    /* A send is only ever read. */
    fill(&group->rank->send, group, group->member, peer, tag, (void *)(uintptr_t)buffer, count,
         dtype);
    LS_TRY(exchange(group, LS_CALL_SEND, peer, -1));
exit:
    return ls_collective_end(group, status);
}

ls_status ls_receive(ls_group *group, int peer, int tag, void *buffer, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    LS_TRY(check_peer(group, "receive from", peer));
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_RECEIVE, 0));
    fill(&group->rank->receive, group, peer, group->member, tag, buffer, count, dtype);
    LS_TRY(exchange(group, LS_CALL_RECEIVE, -1, peer));
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
    LS_TRY(check_peer(group, "send to", to));
    LS_TRY(check_peer(group, "receive from", from));
    LS_TRY(ls_bytes_of(send_count, dtype, &send_bytes));
    LS_TRY(ls_bytes_of(receive_count, dtype, &receive_bytes));
    LS_TRY(ls_check_apart(receive_buffer, receive_bytes, send_buffer, send_bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_SEND, send_bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_RECEIVE, 0));
    fill(&rank->send, group, group->member, to, send_tag, (void *)(uintptr_t)send_buffer,
         send_count, dtype);
    fill(&rank->receive, group, from, group->member, receive_tag, receive_buffer, receive_count,
         dtype);
    LS_TRY(exchange(group, LS_CALL_SEND_RECEIVE, to, from));
exit:
    return ls_collective_end(group, status);
}
