/* world_state.h - what is inside ls_world, ls_rank and ls_group.
 *
 *     ls_world                    one per run
 *       |- ls_rank  [n_ranks]     one per thread: account, counters, what it waits for
 *       |    `- ls_group ...      its handles, one for each group it is a member of
 *       `- ls_team  ...           what the members of a group share: barrier and posts
 *
 * Who may write what: a rank and its groups belong to its thread, except for the atomics in
 * ls_parking and ls_wait, which others read (and wake). A post is written by its member before it
 * arrives at a barrier and read by the others after it; the barrier makes the order. */
#ifndef LS_COMM_WORLD_STATE_H
#define LS_COMM_WORLD_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/error_record.h"
#include "base/thread.h"
#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/sum_plan.h"
#include "lockstep/comm/world.h"
#include "lockstep/numerics/tree.h"

/* Two lines: x86 fetches them in pairs, Apple's cores have lines of 128. What different threads
 * write lies this far apart. */
#define LS_CACHE_ALIGNED _Alignas(128)

/* What a member does in a group. The first ones are calls that all members make together. */
typedef enum ls_call_kind {
    LS_CALL_BARRIER = 0,
    LS_CALL_SPLIT,
    LS_CALL_BROADCAST,
    LS_CALL_ALL_REDUCE,
    LS_CALL_ALL_REDUCE_FOREST,
    LS_CALL_REDUCE_SCATTER_FOREST,
    LS_CALL_REDUCE_SCATTER_COLUMNS_FOREST,
    LS_CALL_ALL_REDUCE_PLAN,
    LS_CALL_REDUCE_SCATTER_PLAN,
    LS_CALL_REDUCE_SCATTER_COLUMNS_PLAN,
    LS_CALL_ALL_GATHER,
    LS_CALL_ALL_GATHER_COLUMNS,
    LS_CALL_ALL_TO_ALL,
    LS_CALL_SEND,
    LS_CALL_SEND_BEGIN,
    LS_CALL_SEND_END,
    LS_CALL_RECEIVE,
    LS_CALL_SEND_RECEIVE
} ls_call_kind;

/* The function's name without its prefix: "all_reduce_forest". */
const char *ls_call_name(ls_call_kind kind);

/* A call as it is posted and compared. Fields that a kind does not use are 0. */
typedef struct ls_call {
    ls_call_kind kind;
    uint64_t number; /* of this member's calls in this group, from 1 */
    ls_dtype dtype;
    size_t count, rows;
    int root;
    ls_reduction reduction;
    const size_t *shares; /* starts or counts: n_shares numbers that all members must agree on */
    size_t n_shares;
    const size_t *bounds; /* of the forest: group size + 1 numbers */
    size_t leaves;
    const ls_sum_plan *plan; /* all members must agree on its parts */
} ls_call;

typedef struct ls_team ls_team;
typedef struct ls_trace_lane ls_trace_lane; /* trace_lane.h */

/* What a member shows the others while a call lasts. */
typedef struct ls_post {
    LS_CACHE_ALIGNED _Atomic uint64_t arrivals; /* barriers this member has arrived at */
    _Atomic bool gone; /* its call has failed: it reads no other's buffers any more */
    ls_call call;
    const void *in;
    void *out;
    const ls_node *nodes; /* of its forest */
    size_t n_nodes;
    ls_team *split; /* the team that this member, first of its color, has made */
} ls_post;

/* One half of a message: what a rank sends, or wants to receive. */
typedef enum ls_message_state {
    LS_MESSAGE_PENDING = 0, /* in a mailbox, its other half has not come          */
    LS_MESSAGE_ROOM,        /* the same, but it may be left behind now            */
    LS_MESSAGE_CLAIMED,     /* out of the mailbox, the other half's owner copies  */
    LS_MESSAGE_DONE,        /* copied                                             */
    LS_MESSAGE_MISMATCH     /* the halves differ in count or dtype: not copied    */
} ls_message_state;

typedef struct ls_message {
    struct ls_message *next; /* in the mailbox, in the order sent */
    ls_rank *owner;
    int sender, receiver; /* member numbers */
    int tag;
    void *buffer; /* read by a send, written by a receive */
    size_t count;
    ls_dtype dtype;
    uint64_t number;    /* of the sender's sends, from 1; a receive learns it */
    size_t other_count; /* of a mismatch: what the other half said */
    ls_dtype other_dtype;
    _Atomic int state;
    bool under_way; /* a send whose owner did not wait, its buffer staying where it is */
    struct ls_message *next_left; /* among those that the owner left behind */
    const ls_team *team;          /* of one left behind only: where */
} ls_message;

/* What waits for, or is wanted by, one member. */
typedef struct ls_mailbox {
    LS_CACHE_ALIGNED pthread_mutex_t
        mutex;                /* guards the lists and the step from pending to claimed */
    ls_message *first, *last; /* sends */
    ls_message *wanted;       /* the member's own receive */
} ls_mailbox;

struct ls_team {
    LS_CACHE_ALIGNED _Atomic uint64_t
        arrivals; /* of all members, twice; bit 0: broken, see barrier.c */
    LS_CACHE_ALIGNED _Atomic uint64_t generation; /* barriers completed */
    LS_CACHE_ALIGNED bool mismatch; /* verdict of the last entry check, and its text */
    char verdict[LS_ERROR_TEXT_BYTES];
    ls_world *world;
    ls_team *next; /* all teams of the world */
    int number;    /* among them, from 0, in the order made */
    int met;       /* how many groups its first member had before it */
    char *name;
    int size;
    int *world_ranks; /* of the members */
    ls_post *posts;
    ls_mailbox *mailboxes;
};

struct ls_group {
    ls_team *team;
    ls_rank *rank;
    int member;
    uint64_t calls;
    uint64_t arrivals; /* barriers this member has arrived at */
    ls_comm_count counts[LS_OP_COUNT];
    ls_group *next;  /* all groups of the rank */
    ls_node *forest; /* this member's nodes of the current call */
    void *scratch;   /* grows as needed */
    size_t scratch_bytes;
};

/* Where a rank sleeps. */
typedef struct ls_parking {
    LS_CACHE_ALIGNED _Atomic int parked;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
} ls_parking;

/* What a rank waits for, as others may read it. */
typedef struct ls_wait {
    LS_CACHE_ALIGNED _Atomic uint64_t version; /* odd while it waits; no two waits have the same */
    _Atomic(ls_team *) team;
    _Atomic int kind;        /* ls_call_kind */
    _Atomic uint64_t number; /* of its call in the group */
    _Atomic uint64_t
        arrival;            /* collectives: it waits for every member to arrive as often as this */
    _Atomic int to, to_tag; /* send: world rank of the receiver */
    _Atomic(const ls_message *) sent; /* the send itself; never freed while ranks run */
    _Atomic int from, from_tag;
} ls_wait;

struct ls_rank {
    ls_parking parking;
    ls_wait wait;
    ls_message send, receive; /* of the call it is in */
    const ls_message *sent;   /* the send it waits for: `send`, or one under way */
    uint64_t sends;           /* so far */
    ls_message *left_behind;
    ls_isend *sendings, *spare_sendings; /* under way; ended, to be used again */
    LS_CACHE_ALIGNED _Atomic bool ended;
    ls_world *world;
    int index;
    ls_memory *memory;
    ls_group *world_group;
    ls_group *groups;
    int n_groups;
    ls_comm_count counts[LS_OP_COUNT];
    ls_trace_lane *lane; /* NULL: no trace */
    uint64_t delay_state;
    ls_thread thread;
    ls_status status; /* what its function returned */
};

struct ls_world {
    int n_ranks;
    ls_world_options options;
    uint64_t timeout_ns;
    int spins; /* looks before it sleeps */
    ls_rank_function function;
    void *argument;
    ls_rank *ranks;
    ls_team *teams;
    int n_teams;
    pthread_mutex_t mutex; /* guards teams, failure, failed_rank and the start */
    pthread_cond_t start;
    int go; /* 0: ranks wait for each other to exist; 1: run; -1: end at once */
    LS_CACHE_ALIGNED _Atomic int aborted;
    ls_error failure; /* the first one in time */
    int failed_rank;
};

#endif
