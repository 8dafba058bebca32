/* trace_lane.h - where a rank writes its events.
 *
 * A communication is entered by ls_communication_begin and left by ls_collective_end; in between
 * the call adds what it knows (number, peer). All functions do nothing for a rank without a lane.
 */
#ifndef LS_COMM_TRACE_LANE_H
#define LS_COMM_TRACE_LANE_H

#include "comm/world_state.h"
#include "lockstep/comm/trace.h"

struct ls_trace_lane {
    LS_CACHE_ALIGNED ls_event *events;
    size_t n, room;
    uint64_t zero_ns;          /* the world's beginning */
    uint64_t wall_ns, cpu_ns;  /* at the end of the last event */
    ls_event open;             /* the communication that has begun */
    bool is_open, out_of_room; /* an event found no memory: the next communication fails */
    bool buffered;             /* sends need not wait (channel_capacity) */
    const char *what;          /* the current label */
    int step, stage, micro_batch;
    const char *part, *purpose;
    char **words; /* that these two have pointed to, each once: as long as the trace */
    size_t n_words;
};

/* Before and after the ranks of a world run: one lane per rank, empty; groups numbered, lists
 * final. Errors: LS_ERR_MEMORY. */
ls_status ls_trace_open(ls_trace *trace, int n_ranks, ls_trace_lane **ret_lanes) LS_MUST_USE;
ls_status ls_trace_close(ls_trace *trace, const ls_world *world) LS_MUST_USE;

/* The rank's function begins, has returned. */
void ls_trace_start(ls_rank *rank);
void ls_trace_stop(ls_rank *rank);

/* Ends the computing, or a communication that is still open, and begins a communication. Errors:
 * LS_ERR_MEMORY. */
ls_status ls_trace_enter(const ls_group *group, ls_call_kind kind, ls_operation operation,
                         uint64_t bytes) LS_MUST_USE;
void ls_trace_number(const ls_rank *rank, uint64_t number);
void ls_trace_message(const ls_group *group, int peer, int tag, uint64_t number);
void ls_trace_leave(const ls_rank *rank);

/* How many events a rank has behind it; 0 without a lane. From the rank's own thread. */
size_t ls_trace_length(const ls_rank *rank);

#endif
