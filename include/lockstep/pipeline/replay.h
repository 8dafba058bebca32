/* replay.h - a traced run laid out as if every rank had a core of its own and every link its cost.
 *
 * On a machine with fewer cores than ranks the wall clock shows how the ranks took turns, not how
 * they would have run side by side. What each rank computed is known all the same, in CPU time, and
 * so is what it waited for. From both follows when everything would have happened: computing takes
 * its CPU time, and an event begins when the one before it on its rank has ended. With latency L
 * and B bytes per nanosecond:
 *
 *     message of n bytes   arrives n / B + L after it was posted; the receiver goes on then, or
 *                          when it comes, whatever is later
 *     send, send_end       goes on when the receiver does; send_begin and send_left at once
 *     collective           ends for all of its P members when the last one has come, plus
 *         all_reduce         2 (P - 1) / P n / B + 2 (P - 1) L
 *         reduce_scatter     (P - 1) / P n / B + (P - 1) L
 *         all_gather         (P - 1) / P N / B + (P - 1) L
 *         all_to_all         n / B + (P - 1) L
 *         broadcast          n / B + ceil(log2 P) L
 *         barrier, split     ceil(log2 P) L
 *
 * n: the most bytes that a member sends, N: those of all members together. These are the costs
 * of a ring; links do not share, and the additions of a reduction take no time. */
#ifndef LS_PIPELINE_REPLAY_H
#define LS_PIPELINE_REPLAY_H

#include <stdint.h>

#include "lockstep/comm/trace.h"
#include "lockstep/pipeline/timeline.h"

LS_BEGIN_DECLS

typedef struct ls_link {
    double latency_ns;   /* 0: none                  */
    double bytes_per_ns; /* GB/s; 0: without a limit */
} ls_link;

/* Reads "LATENCY,BANDWIDTH": a number with ns, us, ms or s; a number with B/s, KB/s, MB/s, GB/s or
 * TB/s (powers of 1000), or inf. "5us,10GB/s", "0us,inf". option: its name, for the text.
 * Errors: LS_ERR_INPUT. */
LS_API ls_status ls_link_parse(const char *option, const char *text, ls_link *ret_link) LS_MUST_USE;

/* What a message costs; what a collective of `members` costs when its members hand in `most` bytes
 * at most and `all` together. In nanoseconds. */
LS_API double ls_link_message_ns(const ls_link *link, uint64_t bytes);
LS_API double ls_link_collective_ns(const ls_link *link, ls_operation operation, int members,
                                    uint64_t most, uint64_t all);

/* When an event happens. begin: the rank comes to it. moving: no rank is waited for any more
 * (before it the rank is idle, after it the link is at work). end: the rank goes on. Computing:
 * moving is begin. An event that is left out has -1 in all three. */
typedef struct ls_span {
    int64_t begin, moving, end;
} ls_span;

/* How one rank spends the makespan. */
typedef struct ls_rank_share {
    int64_t compute_ns, communication_ns, idle_ns;
} ls_rank_share;

typedef struct ls_replay {
    int ranks;
    int64_t makespan_ns;   /* until the last rank has ended, from 0                           */
    bool steps_only;       /* the log has training steps: events of no step were left out      */
    ls_rank_share *shares; /* [ranks]                                                         */
    ls_span **spans;       /* [ranks][n_events[r]], next to the log's events                    */
} ls_replay;

/* Lays `log` out. name: what error texts call it. When any event is of a step, those of none
 * (setting up, looking on, saving) are left out. Cost: O(n log n) for n events. Errors:
 * LS_ERR_INPUT when the log is not that of a run that came to its end: a member of a collective or
 * the sender of a message is missing, two events claim the same message, events wait for each other
 * in a circle, or a time lies beyond 10^15 ns; LS_ERR_MEMORY. */
LS_API ls_status ls_replay_create(ls_replay **ret_replay, const ls_event_log *log, const char *name,
                                  const ls_link *link) LS_MUST_USE;
LS_API void ls_replay_destroy(ls_replay **replay);

/* The share of all ranks' time in which they stand idle, sum of idle_ns / (ranks makespan). */
LS_API ls_ratio ls_replay_bubble(const ls_replay *replay);

LS_END_DECLS

#endif
