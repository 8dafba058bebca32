#include "comm/unreceived.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/memory_account.h"

static size_t data_bytes(const ls_message *message)
{
    return message->count * ls_dtype_bytes(message->dtype);
}

ls_status ls_unreceived_create(ls_message **ret_copy, ls_group *group, const ls_message *send)
{
    ls_status status = LS_OK;
    ls_rank *rank = group->rank;
    size_t bytes = data_bytes(send);
    ls_message *copy = NULL;
    LS_BYTES(copy, sizeof *copy + bytes);
    memset(copy, 0, sizeof *copy);
    copy->owner = rank;
    copy->sender = send->sender;
    copy->tag = send->tag;
    copy->buffer = copy + 1;
    copy->count = send->count;
    copy->dtype = send->dtype;
    copy->number = send->number;
    copy->team = group->team;
    copy->receiver = send->receiver;
    atomic_init(&copy->state, LS_MESSAGE_PENDING);
    if (bytes > 0) memcpy(copy->buffer, send->buffer, bytes);
    ls_memory_charge(rank->memory, LS_MEM_COMMUNICATION, bytes);
    copy->next_left = rank->left_behind;
    rank->left_behind = copy;
    *ret_copy = copy;
exit:
    return status;
}

static void free_if(ls_rank *rank, bool all)
{
    ls_message **at = &rank->left_behind;
    while (*at != NULL) {
        ls_message *message = *at;
        int state = atomic_load(&message->state);
        if (all || state == LS_MESSAGE_DONE || state == LS_MESSAGE_MISMATCH) {
            *at = message->next_left;
            ls_memory_discharge(rank->memory, LS_MEM_COMMUNICATION, data_bytes(message));
            free(message);
        } else {
            at = &message->next_left;
        }
    }
}

void ls_unreceived_free_taken(ls_rank *rank)
{
    free_if(rank, false);
}

void ls_unreceived_free_all(ls_rank *rank)
{
    free_if(rank, true);
}

ls_status ls_unreceived_check(const ls_rank *rank)
{
    ls_status status = LS_OK;
    for (const ls_message *m = rank->left_behind; m != NULL; m = m->next_left) {
        if (atomic_load(&m->state) != LS_MESSAGE_PENDING) continue;
        LS_FAIL(LS_ERR_RANK, "group %s, tag %d: rank %d sends %zu %s, rank %d never receives them",
                m->team->name, m->tag, rank->index, m->count, ls_dtype_name(m->dtype),
                m->team->world_ranks[m->receiver]);
    }
exit:
    return status;
}
