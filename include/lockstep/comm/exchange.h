/* exchange.h - pieces of arrays between any members of a group: halos, redistributions.
 *
 *     ls_exchange *exchange = NULL;
 *     LS_TRY(ls_exchange_begin(group, tag, sends, n_sends, receives, n_receives,
 *                              LS_F32, &exchange));
 *     ...work that needs nothing of what comes...
 *     LS_TRY(ls_exchange_end(&exchange));
 *
 * A member lists what it sends and what it receives; only those who have something for each other
 * meet, there is no barrier. All that goes from one member to another is one message. Begin packs
 * and posts all of them without waiting, end takes them in, so members may list their peers in any
 * order, with any channel capacity, and no two ranks wait for each other. */
#ifndef LS_COMM_EXCHANGE_H
#define LS_COMM_EXCHANGE_H

#include "lockstep/base/real.h"
#include "lockstep/comm/group.h"

LS_BEGIN_DECLS

/* A piece of an array: counts[0] x ... x counts[3] elements, element (a, b, c, d) at start + a
 * strides[0] + b strides[1] + c strides[2] + d strides[3], in elements. A count of 0: nothing. */
typedef struct ls_piece {
    int peer;    /* member it goes to or comes from; may be the caller */
    void *start; /* of a piece that is sent: only read */
    size_t counts[4], strides[4];
} ls_piece;

/* An exchange under way; belongs to the member that began it. */
typedef struct ls_exchange ls_exchange;

/* Takes the pieces in `sends` away, each to its peer, and notes where those in `receives` will go.
 * The pieces from one member to another are matched in the order of both lists, and must have the
 * same number of elements together. The memory of what is sent is the caller's again when it
 * returns; that of what is received is written by ls_exchange_end and may be read and written until
 * then; it may not overlap itself. The lists are copied. Several exchanges may be under way, with
 * tags of their own or ended in the order begun. Between begin and end a member may make any
 * communication that its peers also make between theirs.
 *
 * Member m of P sends to m + 1, m + 2, ... and takes from m - 1, m - 2, ... (modulo P), which is
 * the order in which the calls are counted and traced; who has nothing for whom is passed over.
 *
 * Memory: all that is sent, and the largest message received, as LS_MEM_COMMUNICATION until the
 * end. Counts as one send per peer here, one receive per peer at the end. Bytes: what goes to
 * others, e each. Errors: those of channel.h; LS_ERR_INPUT: a peer is no member. */
LS_API ls_status ls_exchange_begin(ls_group *group, int tag, const ls_piece *sends, size_t n_sends,
                                   const ls_piece *receives, size_t n_receives, ls_dtype dtype,
                                   ls_exchange **ret_exchange) LS_MUST_USE;

/* Receives all pieces, waits until the others have taken what was sent, and frees it, also when it
 * fails. NULL allowed. */
LS_API ls_status ls_exchange_end(ls_exchange **exchange) LS_MUST_USE;

/* Takes back what is under way and frees it without waiting: for the way out after a failure. NULL
 * allowed. */
LS_API void ls_exchange_cancel(ls_exchange **exchange);

LS_END_DECLS

#endif
