/* schedule.h - in which order each pipeline rank takes up its passes: data from pure functions.
 *
 * A batch is cut into M micro-batches, the model into K * V stages: stage c * K + p is chunk c of
 * pipeline rank p (with V = 1 the stage is the rank). A task is one pass of one micro-batch through
 * one stage, a schedule is each rank's list of tasks:
 *
 *     GPipe, K = 2, M = 3        rank 0: F0 F1 F2 B2 B1 B0        rank 1: the same
 *     1F1B,  K = 2, M = 3        rank 0: F0 F1 B0 F2 B1 B2        rank 1: F0 B0 F1 B1 F2 B2
 *
 * What waits for what is not in the lists, it follows from the stages: a forward pass needs the
 * activations of the stage before it, a backward pass those of its own forward pass and the
 * gradient of the stage after it. A program that executes a schedule goes through a rank's list and
 * waits where an input is not there yet; it never chooses. */
#ifndef LS_PIPELINE_SCHEDULE_H
#define LS_PIPELINE_SCHEDULE_H

#include "lockstep/partition/layout.h"

LS_BEGIN_DECLS

typedef enum ls_pass { LS_FORWARD = 0, LS_BACKWARD } ls_pass;

typedef struct ls_task {
    ls_pass pass;
    int chunk;       /* which of the rank's V virtual stages: stage = chunk * stages + rank */
    int micro_batch; /* 0 .. M */
} ls_task;

typedef struct ls_schedule {
    ls_schedule_kind kind;
    int stages;        /* K: ranks of the pipeline (--pp)                  */
    int chunks;        /* V: virtual stages per rank (--virtual-stages)    */
    int micro_batches; /* M (--micro-batches)                              */
    int n_tasks;       /* per rank: 2 M V                                  */
    ls_task *tasks;    /* [stages][n_tasks]: row p is pipeline rank p's order */
} ls_schedule;

/* Makes the schedule of a kind for K ranks, M micro-batches and V virtual stages per rank.
 *
 * GPipe: M forward passes, then M backward passes, last micro-batch first. M = 1 is the naive
 * pipeline, in which one stage works at a time.
 *
 * 1F1B: rank p does min(K - 1 - p, M) forward passes to warm up, then one forward, one backward
 * until the forward passes are used up, then the remaining backward passes.
 *
 * Interleaved, the micro-batches form max(1, floor(M / K)) groups as even as can be, the larger
 * first, so of K each when K divides M; a group goes through chunk 0, then chunk 1, ... (backward:
 * chunk V - 1 first). The warm-up is (V - 1) * first group + 2 (K - 1 - p) passes; everything goes
 * forward first when M <= K. V = 1 is 1F1B.
 *
 * No group is smaller than K, because a group shorter than the pipeline comes back to rank 0 too
 * late: with K = 4, V = 3, groups of 4 and 1 even wait for each other in a circle.
 *
 * Cost: O(K M V). Errors: LS_ERR_INPUT when a number is below 1, when V > 1 with a kind other than
 * LS_INTERLEAVED, when K V > LS_MAX_STAGES, when there are more passes in all than an int counts;
 * LS_ERR_MEMORY. Source: arXiv 1811.06965, section 2.3; arXiv 2006.09503 (flush); arXiv 2104.04473,
 * section 2.2. */
LS_API ls_status ls_schedule_create(ls_schedule **ret_schedule, ls_schedule_kind kind, int stages,
                                    int micro_batches, int chunks) LS_MUST_USE;

LS_API void ls_schedule_destroy(ls_schedule **schedule);

/* The n_tasks tasks of one pipeline rank, in order. */
static inline const ls_task *ls_schedule_of(const ls_schedule *schedule, int rank)
{
    return schedule->tasks + (size_t)rank * (size_t)schedule->n_tasks;
}

/* Whether a schedule, also one made by hand, is complete and can be executed: each rank has every
 * chunk's forward and backward pass of every micro-batch exactly once, and no tasks wait for each
 * other in a circle. A message that was sent is taken to arrive without the receiver's help, which
 * holds for a sender that goes on while its messages are under way. Cost: O(K M V). Errors:
 * LS_ERR_INPUT names the task that is missing, doubled or unknown, or the circle of tasks;
 * LS_ERR_MEMORY. */
LS_API ls_status ls_schedule_check(const ls_schedule *schedule) LS_MUST_USE;

enum { LS_TASK_NAME_BYTES = 32 }; /* enough for any task's name */

/* Writes a task as "F2" or "B2" (the number of the micro-batch), with several chunks as "F2.1"
 * (micro-batch 2, chunk 1); buffer: size bytes, always terminated. */
LS_API void ls_task_name(const ls_schedule *schedule, ls_task task, char *buffer, size_t size);

LS_END_DECLS

#endif
