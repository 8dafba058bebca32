/* trace.h - what happened, rank by rank: communications, and the computing between them.
 *
 *     ls_trace *trace = NULL;
 *     ls_trace_create(&trace);
 *     ls_world_run(n, &(ls_world_options){.trace = trace}, function, argument);
 *     ...ls_trace_log(trace)...
 *     ls_trace_destroy(&trace);
 *
 * Each rank writes its own list, without locks: two readings of the clocks per communication. A
 * world without a trace pays one comparison. The memory is on no rank's account. */
#ifndef LS_COMM_TRACE_H
#define LS_COMM_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/comm/world.h"

LS_BEGIN_DECLS

typedef enum ls_event_kind {
    LS_EVENT_COMPUTE = 0, /* everything between two communications                        */
    LS_EVENT_COLLECTIVE,  /* of a whole group, the barrier and group_split included        */
    LS_EVENT_SEND,        /* waits until the receiver has taken the message                */
    LS_EVENT_SEND_LEFT,   /* may leave a copy behind and go on (channel_capacity above 0)  */
    LS_EVENT_SEND_BEGIN,  /* posts a message and goes on                                   */
    LS_EVENT_SEND_END,    /* waits until the receiver has taken what was begun; none when
                             ls_send_is_over had said before that there is nothing to wait for */
    LS_EVENT_RECEIVE,     /* waits for a message                                           */
    LS_EVENT_KINDS
} ls_event_kind;

/* One event. ls_send_receive is three: SEND_BEGIN, RECEIVE, and SEND_END unless it may leave a copy
 * behind. Fields that a kind does not have are 0, NULL or -1. */
typedef struct ls_event {
    ls_event_kind kind;
    uint64_t begin_ns, end_ns; /* wall time since the world began                          */
    uint64_t cpu_ns;           /* of the rank's thread, within the event                   */
    const char *what;          /* the task it is part of (ls_trace_task); NULL: none        */
    int step, stage, micro_batch;
    const char *part;    /* of the task (ls_trace_part), a layer's name; NULL: none          */
    const char *purpose; /* messages: what they are for, "halo"; NULL: not said              */
    /* Communications: */
    const char *call; /* the function, "all_reduce_forest"                           */
    ls_operation
        operation;   /* what it counts as; LS_OP_COUNT: it does not (group_split, send_end) */
    int group;       /* index into the log's groups; compute: -1                    */
    uint64_t number; /* collectives: of this call in the group, from 1, the same at all
                        members. Messages: of the sender's sends, from 1: sender and number
                        are the same at both ends of one message                    */
    int peer, tag;   /* messages: world rank of the other end; collectives: -1, 0   */
    uint64_t bytes;  /* as ls_comm_count counts them                                */
} ls_event;

typedef struct ls_event_group {
    char *name;
    int size;
    int *world_ranks; /* [size] */
} ls_event_group;

/* What one world's ranks did, each rank's events in order and without overlap. */
typedef struct ls_event_log {
    int ranks;
    ls_event **events;      /* [ranks][n_events[r]] */
    size_t *n_events;       /* [ranks] */
    int n_groups;           /* numbered by first member, then in the order it met them     */
    ls_event_group *groups; /* 0: the world */
} ls_event_log;

/* An empty trace. Errors: LS_ERR_MEMORY. */
LS_API ls_status ls_trace_create(ls_trace **ret_trace) LS_MUST_USE;
LS_API void ls_trace_destroy(ls_trace **trace);

/* Labels what this rank does from here on, until it is labelled otherwise: the pass or part of a
 * step ("forward", "backward", "update"), NULL for none; -1 for a number that there is none of.
 * what: not copied, lives as long as the trace. Costs nothing without a trace. */
LS_API void ls_trace_task(ls_rank *rank, const char *what, int step, int stage, int micro_batch);

/* Labels the part of the task that this rank works on from here on: a layer's name, and what its
 * messages are for ("halo"); NULL for none. Both are copied. The next ls_trace_task ends it. Costs
 * nothing without a trace. */
LS_API void ls_trace_part(ls_rank *rank, const char *part, const char *purpose);

/* What the last world run with this trace did; without one no ranks. Valid until the next such run
 * or the trace's end. Not while ranks run. */
LS_API const ls_event_log *ls_trace_log(const ls_trace *trace);

/* One rank's events: *ret_count of them. */
LS_API const ls_event *ls_trace_events(const ls_trace *trace, int rank, size_t *ret_count);

/* What an event that has a part is called: "forward conv2"; "halo conv2 receive"; of a collective
 * with its group, "norm1 all_reduce pixels". group: the group's name, "" for none. */
LS_API void ls_event_title(const ls_event *event, const char *group, char *buffer, size_t size);

/* "compute", "collective", "send", "send_left", "send_begin", "send_end", "receive". */
LS_API const char *ls_event_kind_name(ls_event_kind kind);

LS_END_DECLS

#endif
