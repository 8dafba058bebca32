/* timeline.h - a schedule laid out in time: when each pass runs, how much of the time ranks stand
 * idle (the bubble), how many activations are kept at once. Pure functions of the schedule. */
#ifndef LS_PIPELINE_TIMELINE_H
#define LS_PIPELINE_TIMELINE_H

#include <stdint.h>
#include <stdio.h>

#include "lockstep/pipeline/schedule.h"

LS_BEGIN_DECLS

/* When a task runs: from start until end, in the unit of the costs. */
typedef struct ls_interval {
    int64_t start, end;
} ls_interval;

typedef struct ls_timeline {
    const ls_schedule *schedule; /* borrowed: outlives the timeline                       */
    int64_t forward_cost, backward_cost;
    int64_t makespan;       /* until the last task has ended, from time 0                 */
    int64_t *idle;          /* [stages]: makespan less the rank's work                    */
    ls_interval *intervals; /* [stages][n_tasks]: row p in the order of rank p's list     */
} ls_timeline;

/* An exact fraction in lowest terms. */
typedef struct ls_ratio {
    int64_t over, under;
} ls_ratio;

/* Lays a schedule out in time. Every task starts as soon as its rank has ended the one before it
 * and its inputs are there; a message takes no time. forward_cost, backward_cost: of one chunk and
 * one micro-batch, in a unit of choice (a backward pass costs about two forward passes); to compare
 * V chunks with one, give the one V times the cost. Cost: O(K M V). Errors: LS_ERR_INPUT when a
 * cost is not in 1 to 1048576, or as ls_schedule_check; LS_ERR_MEMORY. */
LS_API ls_status ls_timeline_create(ls_timeline **ret_timeline, const ls_schedule *schedule,
                                    int forward_cost, int backward_cost) LS_MUST_USE;

LS_API void ls_timeline_destroy(ls_timeline **timeline);

/* The n_tasks intervals of one pipeline rank, in the order of its list. */
static inline const ls_interval *ls_timeline_of(const ls_timeline *timeline, int rank)
{
    return timeline->intervals + (size_t)rank * (size_t)timeline->schedule->n_tasks;
}

/* The bubble: the share of all ranks' time in which they stand idle, sum of idle / (K makespan).
 * arXiv 2104.04473 divides by the work instead; its bubble is b / (1 - b). */
LS_API ls_ratio ls_timeline_bubble(const ls_timeline *timeline);

/* The bubble that the schedules of ls_schedule_create have, whatever a pass costs:
 *
 *     M >= K   (K - 1) / (V M + K - 1)                    GPipe and 1F1B have V = 1
 *     M = 1    (K - 1) / K                                the naive pipeline
 *     M < K    1 - V M / (V K + M - 1)                    micro-batches that come round to the
 *                                                         next chunk find their rank waiting
 *
 * K, M, V at least 1. Source: arXiv 1811.06965, section 2.3; arXiv 2104.04473, section 2.2; the
 * last line: V - 1 rounds of K steps and a last one of M + K - 1. */
LS_API ls_ratio ls_bubble_formula(int stages, int micro_batches, int chunks);

/* Live activations: micro-batches whose forward pass a rank has done and whose backward pass it has
 * not, the most at any time; in one chunk, or in all chunks together (chunk -1). It follows from
 * only the order of the rank's list. */
LS_API int ls_schedule_live(const ls_schedule *schedule, int rank, int chunk);

/* The same in bytes: the most that is kept at any time when the forward pass of micro-batch m
 * through chunk c leaves bytes[c * M + m] until the end of its backward pass. */
LS_API size_t ls_schedule_live_bytes(const ls_schedule *schedule, int rank, const size_t *bytes);

/* Live activations, all chunks together, of the schedules of ls_schedule_create:
 *
 *     GPipe        M
 *     1F1B         min(M, K - p)
 *     interleaved  V M when M <= K; else min(V M, (V - 1) G + 2 (K - 1 - p) + 1), G the first group
 *
 * When K divides M, G = K, and rank 0 keeps (V K + K - 1) / (V K) times what its layers take for K
 * micro-batches: arXiv 2205.05198, section 4.2.3. */
LS_API int ls_live_formula(ls_schedule_kind kind, int stages, int micro_batches, int chunks,
                           int rank);

/* Writes a timeline as text, a line per rank, from left to right in time, dots where a rank is
 * idle:
 *
 *     rank 0 F0 F1 .. B0 .. B1             1F1B, K = 2, M = 2
 *     rank 1 .. F0 B0 F1 B1 ..
 *
 * A column is the greatest common divisor of the costs; a pass of several columns is drawn out, as
 * in B0===. compact: one character per column, a digit for forward, a letter for backward (0 and a
 * for micro-batch 0; from 10 and from 26 on again from the front), chunks not told apart. */
LS_API void ls_timeline_text(FILE *file, const ls_timeline *timeline, bool compact);

LS_END_DECLS

#endif
