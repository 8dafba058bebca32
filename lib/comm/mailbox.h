/* mailbox.h - where the two halves of a message find each other.
 *
 * Each member of a team has a mailbox: sends to it that have not been taken yet, and the one
 * receive it waits for. The rank that comes second finds the other half there, claims it under the
 * mailbox's lock, copies without the lock, and tells the owner. The rank that comes first leaves
 * its half and waits. */
#ifndef LS_COMM_MAILBOX_H
#define LS_COMM_MAILBOX_H

#include "comm/world_state.h"

/* Takes the receive that `send`, to member `receiver` of team, is for: copies, completes both. If
 * it is not there, `send` goes into the mailbox, pending, or with room when fewer than `capacity`
 * messages of this sender lie there. */
void ls_mailbox_post_send(ls_team *team, int receiver, ls_message *send, int capacity);

/* Takes the oldest send that `receive` is for: copies, completes both; or puts `receive` into its
 * owner's mailbox. */
void ls_mailbox_post_receive(ls_team *team, int receiver, ls_message *receive);

/* Puts `copy` in the place of `send`, unless that is claimed already: then false. */
bool ls_mailbox_replace(ls_team *team, int receiver, ls_message *send, ls_message *copy);

/* Takes a half back, or waits until the copying that has begun is over. */
void ls_mailbox_cancel(ls_team *team, int receiver, ls_message *half);

#endif
