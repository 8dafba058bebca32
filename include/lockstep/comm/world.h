/* world.h - ranks as threads.
 *
 * A world runs one function on N ranks, each a thread with shards, memory account and error record
 * of its own. Ranks may outnumber cores 100 to 1: a waiting rank spins briefly, then
 * sleeps. When one rank fails, the world is aborted: every waiting call on every rank returns
 * LS_ERR_ABORTED, every later one is refused, and the first failure is what ls_world_run reports.
 *
 * Ranks that can never meet are a failure too, LS_ERR_RANK: one waits for another that has ended,
 * or several wait for each other in a circle. Both are found while they wait, and the text says who
 * waits where for whom. What cannot be proved stuck ends with the time-out. */
#ifndef LS_COMM_WORLD_H
#define LS_COMM_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/memory.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef struct ls_world ls_world;
typedef struct ls_rank ls_rank;   /* one rank as its own thread sees it */
typedef struct ls_group ls_group; /* a subset of ranks, as one member sees it */
typedef struct ls_trace ls_trace; /* what happened: trace.h */

/* What the ranks run. A status other than LS_OK aborts the world. */
typedef ls_status (*ls_rank_function)(ls_rank *rank, void *argument);

typedef struct ls_world_options {
    /* Messages a send may leave behind, per (sender, receiver); 0: rendezvous. */
    int channel_capacity;
    /* A rank that waits longer fails the run, naming who is missing; 0: 10 minutes. Time in which
     * the whole process is stopped or gets no core does not count. */
    uint64_t timeout_ns;
    /* Not 0: a random pause of up to delay_max_ns before every other communication or so, the same
     * pauses in every run with this seed. */
    uint64_t delay_seed;
    uint64_t delay_max_ns;
    /* Not NULL: *stop != 0 aborts the world with LS_ERR_INTERRUPTED (Ctrl-C). */
    const volatile int *stop;
    /* Not NULL: takes down what every rank does; what it held before is gone. */
    ls_trace *trace;
} ls_world_options;

enum { LS_MAX_RANKS = 4096 };

/* Runs `function` on n_ranks ranks, 1 <= n_ranks <= LS_MAX_RANKS, and joins them, whatever happens.
 * options NULL: capacity 0, no delays. Ranks round to nearest, keep subnormals, do not trap and
 * write a decimal point, whatever the caller's thread does (contract rule 1). Cost: one thread with
 * a stack of 8 MiB (address space) per rank. Errors: whatever the first failing rank returned, with
 * its text in the caller's record as "rank 3: ..."; LS_ERR_INTERRUPTED, as "interrupted";
 * LS_ERR_RANK, a message was left behind that no rank received; LS_ERR_INPUT, LS_ERR_MEMORY before
 * any rank ran. */
LS_API ls_status ls_world_run(int n_ranks, const ls_world_options *options,
                              ls_rank_function function, void *argument) LS_MUST_USE;

LS_API int ls_rank_index(const ls_rank *rank); /* 0 .. size - 1 */
LS_API int ls_rank_world_size(const ls_rank *rank);
LS_API ls_memory *ls_rank_memory(ls_rank *rank);     /* its account */
LS_API ls_group *ls_rank_world_group(ls_rank *rank); /* all ranks, in order; belongs to the rank */

/* Fails with LS_ERR_ABORTED or LS_ERR_INTERRUPTED when the world was aborted: for long computations
 * between two communications. */
LS_API ls_status ls_rank_check(ls_rank *rank) LS_MUST_USE;

/* What one rank has communicated, by operation, since its start. */
typedef enum ls_operation {
    LS_OP_BARRIER = 0,
    LS_OP_BROADCAST,
    LS_OP_ALL_REDUCE,
    LS_OP_REDUCE_SCATTER,
    LS_OP_ALL_GATHER,
    LS_OP_ALL_TO_ALL,
    LS_OP_SEND,
    LS_OP_RECEIVE,
    LS_OP_COUNT
} ls_operation;

typedef struct ls_comm_count {
    uint64_t calls;
    uint64_t bytes; /* sent for others to use, as each operation's comment defines it */
} ls_comm_count;

LS_API const char *ls_operation_name(ls_operation operation); /* "all_reduce", ... */

/* Totals of this rank over all groups / of this member in one group. */
LS_API ls_comm_count ls_rank_count(const ls_rank *rank, ls_operation operation);
LS_API ls_comm_count ls_group_count(const ls_group *group, ls_operation operation);

LS_END_DECLS

#endif
