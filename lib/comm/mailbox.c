#include "comm/mailbox.h"

#include <sched.h>
#include <string.h>

#include "comm/waiting.h"

static bool is_left_behind(const ls_message *message)
{
    return message->team != NULL;
}

/* ---- the list; all under the lock */

static void append(ls_mailbox *box, ls_message *send)
{
    send->next = NULL;
    if (box->last != NULL)
        box->last->next = send;
    else
        box->first = send;
    box->last = send;
}

/* Takes `send` out of the list; false when it is not there. */
static bool take_out(ls_mailbox *box, const ls_message *send)
{
    ls_message *before = NULL, *at = box->first;
    while (at != NULL && at != send) {
        before = at;
        at = at->next;
    }
    if (at == NULL) return false;
    if (before != NULL)
        before->next = at->next;
    else
        box->first = at->next;
    if (box->last == at) box->last = before;
    return true;
}

static bool belong_together(const ls_message *send, const ls_message *receive)
{
    return send->sender == receive->sender && send->tag == receive->tag;
}

static int left_behind_by(const ls_mailbox *box, int sender)
{
    int n = 0;
    for (const ls_message *m = box->first; m != NULL; m = m->next)
        n += m->sender == sender && is_left_behind(m);
    return n;
}

/* One place has become free for `sender`: if it is waiting with a message, it may leave it. */
static void offer_room(ls_mailbox *box, int sender)
{
    for (ls_message *m = box->first; m != NULL; m = m->next) {
        if (m->sender != sender || is_left_behind(m) || m->under_way) continue;
        atomic_store(&m->state, LS_MESSAGE_ROOM);
        ls_wake(m->owner);
        return;
    }
}

static ls_message *claim_receive(ls_mailbox *box, const ls_message *send)
{
    ls_message *receive = box->wanted;
    if (receive == NULL || !belong_together(send, receive)) return NULL;
    box->wanted = NULL;
    atomic_store(&receive->state, LS_MESSAGE_CLAIMED);
    return receive;
}

static ls_message *claim_send(ls_mailbox *box, const ls_message *receive)
{
    for (ls_message *send = box->first; send != NULL; send = send->next) {
        if (!belong_together(send, receive)) continue;
        take_out(box, send);
        atomic_store(&send->state, LS_MESSAGE_CLAIMED);
        if (is_left_behind(send)) offer_room(box, send->sender);
        return send;
    }
    return NULL;
}

/* ---- both halves are there */

static void complete(ls_message *send, ls_message *receive, ls_rank *other)
{
    bool fits = send->count == receive->count && send->dtype == receive->dtype;
    if (fits && send->count > 0)
        memcpy(receive->buffer, send->buffer, send->count * ls_dtype_bytes(send->dtype));
    send->other_count = receive->count;
    send->other_dtype = receive->dtype;
    receive->number = send->number;
    receive->other_count = send->count;
    receive->other_dtype = send->dtype;
    int state = fits ? LS_MESSAGE_DONE : LS_MESSAGE_MISMATCH;
    /* After these stores the owners may use the halves again. */
    atomic_store(&send->state, state);
    atomic_store(&receive->state, state);
    ls_wake(other);
}

void ls_mailbox_post_send(ls_team *team, int receiver, ls_message *send, int capacity)
{
    ls_mailbox *box = &team->mailboxes[receiver];
    pthread_mutex_lock(&box->mutex);
    ls_message *receive = claim_receive(box, send);
    if (receive == NULL) {
        bool room = left_behind_by(box, send->sender) < capacity;
        atomic_store(&send->state, room ? LS_MESSAGE_ROOM : LS_MESSAGE_PENDING);
        append(box, send);
    }
    pthread_mutex_unlock(&box->mutex);
    if (receive != NULL) complete(send, receive, receive->owner);
}

void ls_mailbox_post_receive(ls_team *team, int receiver, ls_message *receive)
{
    ls_mailbox *box = &team->mailboxes[receiver];
    pthread_mutex_lock(&box->mutex);
    ls_message *send = claim_send(box, receive);
    if (send == NULL) {
        atomic_store(&receive->state, LS_MESSAGE_PENDING);
        box->wanted = receive;
    }
    pthread_mutex_unlock(&box->mutex);
    if (send != NULL) complete(send, receive, send->owner);
}

bool ls_mailbox_replace(ls_team *team, int receiver, ls_message *send, ls_message *copy)
{
    ls_mailbox *box = &team->mailboxes[receiver];
    pthread_mutex_lock(&box->mutex);
    /* At the end: the sender stood waiting with it, so it has sent nothing since. */
    bool done = take_out(box, send);
    if (done) append(box, copy);
    pthread_mutex_unlock(&box->mutex);
    return done;
}

void ls_mailbox_cancel(ls_team *team, int receiver, ls_message *half)
{
    ls_mailbox *box = &team->mailboxes[receiver];
    pthread_mutex_lock(&box->mutex);
    if (box->wanted == half)
        box->wanted = NULL;
    else
        take_out(box, half);
    bool claimed = atomic_load(&half->state) == LS_MESSAGE_CLAIMED;
    pthread_mutex_unlock(&box->mutex);
    while (claimed && atomic_load(&half->state) == LS_MESSAGE_CLAIMED) sched_yield();
}
