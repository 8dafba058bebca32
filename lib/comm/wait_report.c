#include "comm/wait_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/append.h"

void ls_wait_begin(ls_group *group, ls_call_kind kind)
{
    ls_rank *rank = group->rank;
    ls_wait *wait = &rank->wait;
    const int *world_ranks = group->team->world_ranks;
    const ls_message *sent = rank->sent;
    bool sends = kind == LS_CALL_SEND || kind == LS_CALL_SEND_END || kind == LS_CALL_SEND_RECEIVE;
    bool receives = kind == LS_CALL_RECEIVE || kind == LS_CALL_SEND_RECEIVE;
    atomic_store(&wait->team, group->team);
    atomic_store(&wait->kind, (int)kind);
    atomic_store(&wait->number, group->calls);
    atomic_store(&wait->arrival, group->arrivals);
    atomic_store(&wait->to, sends ? world_ranks[sent->receiver] : -1);
    atomic_store(&wait->to_tag, sends ? sent->tag : 0);
    atomic_store(&wait->sent, sent);
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
    if (atomic_load(&rank->wait.to) < 0) return false;
    return atomic_load(&atomic_load(&rank->wait.sent)->state) == LS_MESSAGE_PENDING;
}

bool ls_waits_to_receive(const ls_rank *rank)
{
    return atomic_load(&rank->wait.from) >= 0 &&
           atomic_load(&rank->receive.state) == LS_MESSAGE_PENDING;
}

void ls_line_add(ls_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line->used = ls_append_list(line->bytes, sizeof line->bytes, line->used, format, arguments);
    va_end(arguments);
}

void ls_line_add_place(ls_line *line, const ls_rank *rank)
{
    const ls_wait *wait = &rank->wait;
    const ls_team *team = atomic_load(&wait->team);
    ls_call_kind kind = (ls_call_kind)atomic_load(&wait->kind);
    ls_line_add(line, "group %s, ", team->name);
    switch (kind) {
    case LS_CALL_SEND:
        ls_line_add(line, "send with tag %d", atomic_load(&wait->to_tag));
        break;
    case LS_CALL_SEND_END:
        ls_line_add(line, "send_end with tag %d", atomic_load(&wait->to_tag));
        break;
    case LS_CALL_RECEIVE:
        ls_line_add(line, "receive with tag %d", atomic_load(&wait->from_tag));
        break;
    case LS_CALL_SEND_RECEIVE:
        ls_line_add(line, "send_receive with tags %d and %d", atomic_load(&wait->to_tag),
                    atomic_load(&wait->from_tag));
        break;
    default:
        ls_line_add(line, "call %" PRIu64 " (%s)", atomic_load(&wait->number), ls_call_name(kind));
        break;
    }
}

void ls_line_add_wait_report(ls_line *line, const ls_rank *rank)
{
    ls_line_add(line, "rank %d, which ", rank->index);
    if (atomic_load(&rank->ended)) {
        ls_line_add(line, "has ended");
    } else if (atomic_load(&rank->wait.version) % 2 == 1) {
        ls_line_add(line, "waits in ");
        ls_line_add_place(line, rank);
    } else {
        ls_line_add(line, "is outside any communication");
    }
}
