#include "comm/whereabouts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void ls_wait_begin(ls_group *group, ls_call_kind kind)
{
    ls_rank *rank = group->rank;
    ls_wait *wait = &rank->wait;
    const int *world_ranks = group->team->world_ranks;
    bool sends = kind == LS_CALL_SEND || kind == LS_CALL_SEND_RECEIVE;
    bool receives = kind == LS_CALL_RECEIVE || kind == LS_CALL_SEND_RECEIVE;
    atomic_store(&wait->team, group->team);
    atomic_store(&wait->kind, (int)kind);
    atomic_store(&wait->number, group->calls);
    atomic_store(&wait->arrival, group->arrivals);
    atomic_store(&wait->to, sends ? world_ranks[rank->send.receiver] : -1);
    atomic_store(&wait->to_tag, sends ? rank->send.tag : 0);
    atomic_store(&wait->from, receives ? world_ranks[rank->receive.sender] : -1);
    atomic_store(&wait->from_tag, receives ? rank->receive.tag : 0);
    atomic_fetch_add(&wait->version, 1);
}

void ls_wait_end(ls_group *group)
{
    atomic_fetch_add(&group->rank->wait.version, 1);
}

bool ls_waits_to_send(const ls_rank *rank)
{
    return atomic_load(&rank->wait.to) >= 0 && atomic_load(&rank->send.state) == LS_MESSAGE_PENDING;
}

bool ls_waits_to_receive(const ls_rank *rank)
{
    return atomic_load(&rank->wait.from) >= 0 &&
           atomic_load(&rank->receive.state) == LS_MESSAGE_PENDING;
}

void ls_text_add(ls_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof text->bytes - text->used;
    int length = vsnprintf(text->bytes + text->used, room, format, arguments);
    va_end(arguments);
    if (length > 0) text->used += (size_t)length < room ? (size_t)length : room - 1;
}

void ls_text_add_place(ls_text *text, const ls_rank *rank)
{
    const ls_wait *wait = &rank->wait;
    const ls_team *team = atomic_load(&wait->team);
    ls_call_kind kind = (ls_call_kind)atomic_load(&wait->kind);
    ls_text_add(text, "group %s, ", team->name);
    switch (kind) {
    case LS_CALL_SEND:
        ls_text_add(text, "send with tag %d", atomic_load(&wait->to_tag));
        break;
    case LS_CALL_RECEIVE:
        ls_text_add(text, "receive with tag %d", atomic_load(&wait->from_tag));
        break;
    case LS_CALL_SEND_RECEIVE:
        ls_text_add(text, "send_receive with tags %d and %d", atomic_load(&wait->to_tag),
                    atomic_load(&wait->from_tag));
        break;
    default:
        ls_text_add(text, "call %" PRIu64 " (%s)", atomic_load(&wait->number), ls_call_name(kind));
        break;
    }
}

void ls_text_add_whereabouts(ls_text *text, const ls_rank *rank)
{
    ls_text_add(text, "rank %d, which ", rank->index);
    if (atomic_load(&rank->ended)) {
        ls_text_add(text, "has ended");
    } else if (atomic_load(&rank->wait.version) % 2 == 1) {
        ls_text_add(text, "waits in ");
        ls_text_add_place(text, rank);
    } else {
        ls_text_add(text, "is outside any communication");
    }
}
