#include "comm/message.h"

void ls_message_fill(ls_message *half, const ls_group *group, int sender, int receiver, int tag,
                     const void *buffer, size_t count, ls_dtype dtype)
{
    half->owner = group->rank;
    half->sender = sender;
    half->receiver = receiver;
    half->tag = tag;
    half->buffer = (void *)(uintptr_t)buffer;
    half->count = count;
    half->dtype = dtype;
    half->under_way = false;
    half->team = NULL;
}

bool ls_message_is_over(const ls_message *half)
{
    int state = atomic_load(&half->state);
    return state == LS_MESSAGE_DONE || state == LS_MESSAGE_MISMATCH;
}

static ls_status mismatch(const ls_group *group, const ls_message *half, size_t sent,
                          ls_dtype sent_dtype, size_t expected, ls_dtype expected_dtype)
{
    ls_status status = LS_OK;
    const int *world_ranks = group->team->world_ranks;
    LS_FAIL(LS_ERR_RANK, "group %s, tag %d: rank %d sends %zu %s, rank %d expects %zu %s",
            group->team->name, half->tag, world_ranks[half->sender], sent,
            ls_dtype_name(sent_dtype), world_ranks[half->receiver], expected,
            ls_dtype_name(expected_dtype));
exit:
    return status;
}

ls_status ls_message_check_send(const ls_group *group, const ls_message *send)
{
    if (atomic_load(&send->state) != LS_MESSAGE_MISMATCH) return LS_OK;
    return mismatch(group, send, send->count, send->dtype, send->other_count, send->other_dtype);
}

ls_status ls_message_check_receive(const ls_group *group, const ls_message *receive)
{
    if (atomic_load(&receive->state) != LS_MESSAGE_MISMATCH) return LS_OK;
    return mismatch(group, receive, receive->other_count, receive->other_dtype, receive->count,
                    receive->dtype);
}

ls_status ls_peer_check(const ls_group *group, const char *what, int peer)
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
