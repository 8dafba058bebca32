#include "comm/isend.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "comm/abort.h"
#include "comm/collective.h"
#include "comm/unreceived.h"
#include "comm/mailbox.h"
#include "comm/message.h"
#include "comm/trace_lane.h"
#include "comm/waiting.h"

/* ---- the rank's records */

static ls_status take_record(ls_isend **ret_sending, ls_group *group)
{
    ls_status status = LS_OK;
    ls_rank *rank = group->rank;
    ls_isend *sending = rank->spare_sendings;
    if (sending != NULL) {
        rank->spare_sendings = sending->next;
    } else {
        LS_NEW(sending, 1);
        atomic_init(&sending->message.state, LS_MESSAGE_DONE);
    }
    sending->group = group;
    sending->seen_over = false;
    sending->next = NULL;
    /* At the end: they are mostly ended in the order begun. */
    ls_isend **at = &rank->sendings;
    while (*at != NULL) at = &(*at)->next;
    *at = sending;
    *ret_sending = sending;
exit:
    return status;
}

static void give_record_back(ls_isend *sending)
{
    ls_rank *rank = sending->group->rank;
    ls_isend **at = &rank->sendings;
    while (*at != sending) at = &(*at)->next;
    *at = sending->next;
    sending->next = rank->spare_sendings;
    rank->spare_sendings = sending;
}

/* Afterwards no operation reads its buffer. */
static void take_back(ls_isend *sending)
{
    if (ls_message_is_over(&sending->message)) return;
    ls_mailbox_cancel(sending->group->team, sending->message.receiver, &sending->message);
}

/* ---- begin, look, end */

ls_status ls_send_begin(ls_group *group, int peer, int tag, const void *buffer, size_t count,
                        ls_dtype dtype, ls_isend **ret_sending)
{
    ls_status status = LS_OK;
    size_t bytes = 0;
    ls_isend *sending = NULL;
    LS_TRY(ls_peer_check(group, "send to", peer));
    LS_TRY(ls_bytes_of(count, dtype, &bytes));
    LS_TRY(ls_communication_begin(group, LS_CALL_SEND_BEGIN, bytes));
    ls_unreceived_free_taken(group->rank);
    LS_TRY(take_record(&sending, group));
    ls_message_fill(&sending->message, group, group->member, peer, tag, buffer, count, dtype);
    sending->message.under_way = true;
    sending->message.number = ++group->rank->sends;
    ls_trace_message(group, peer, tag, sending->message.number);
    ls_mailbox_post_send(group->team, peer, &sending->message, 0);
    *ret_sending = sending;
exit:
    return ls_collective_end(group, status);
}

bool ls_send_is_over(ls_isend *sending)
{
    sending->seen_over = ls_message_is_over(&sending->message);
    return sending->seen_over;
}

static bool is_over(const void *what)
{
    const ls_isend *sending = what;
    return ls_message_is_over(&sending->message);
}

ls_status ls_send_end(ls_isend **sending)
{
    ls_status status = LS_OK;
    ls_isend *own = *sending;
    if (own == NULL) return LS_OK;
    ls_group *group = own->group;
    *sending = NULL;
    if (own->seen_over) {
        LS_TRY(ls_abort_check(group->rank));
    } else {
        LS_TRY(ls_communication_begin(group, LS_CALL_SEND_END, 0));
        group->rank->sent = &own->message;
        ls_trace_message(group, own->message.receiver, own->message.tag, own->message.number);
        LS_TRY(ls_wait_until(group, LS_CALL_SEND_END, is_over, own));
    }
    LS_TRY(ls_message_check_send(group, &own->message));
exit:
    take_back(own);
    give_record_back(own);
    return ls_collective_end(group, status);
}

void ls_send_cancel(ls_isend **sending)
{
    ls_isend *own = *sending;
    if (own == NULL) return;
    *sending = NULL;
    take_back(own);
    give_record_back(own);
}

/* ---- the end of the rank */

ls_status ls_isends_close(ls_rank *rank)
{
    ls_status status = LS_OK;
    /* All of them before anything is said. */
    for (ls_isend *s = rank->sendings; s != NULL; s = s->next) take_back(s);
    for (ls_isend *s = rank->sendings; s != NULL; s = s->next) {
        const ls_message *m = &s->message;
        const ls_team *team = s->group->team;
        if (ls_message_is_over(m)) continue;
        LS_FAIL(LS_ERR_RANK,
                "group %s, tag %d: rank %d sends %zu %s and ends before rank %d has received them",
                team->name, m->tag, rank->index, m->count, ls_dtype_name(m->dtype),
                team->world_ranks[m->receiver]);
    }
exit:
    return status;
}

static void free_list(ls_isend **list)
{
    while (*list != NULL) {
        ls_isend *gone = *list;
        *list = gone->next;
        free(gone);
    }
}

void ls_isends_free(ls_rank *rank)
{
    free_list(&rank->sendings);
    free_list(&rank->spare_sendings);
}
