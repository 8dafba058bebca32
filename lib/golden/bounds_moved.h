/* bounds_moved.h - how far moved runs lie from the truth: a tensor's largest distance, and root
 * mean squares over all of it and over runs of its rows. */
#ifndef LS_GOLDEN_BOUNDS_MOVED_H
#define LS_GOLDEN_BOUNDS_MOVED_H

#include "step_graph/graph.h"

/* Of one tensor. */
typedef struct ls_moved {
    size_t elements, run,
        groups;      /* run: ls_bounds_run; groups of so many elements, the last less */
    double most;     /* the largest distance of any run */
    double turned;   /* how far one element may be off that no run shows: AdamW's steps; or 0 */
    double *squares; /* largest mean square of any run: of each group, then of all */
    double *now;     /* sums of squares in the run that is going on, the same */
} ls_moved;

/* Elements that have a root mean square together: whole rows, the last dimension, at least 32
 * elements, so that one number does not decide; all, where a tensor is smaller. */
size_t ls_bounds_run(const ls_graph *graph, int node);

/* The largest magnitude, and the root mean square; of nothing 0. */
double ls_largest(const double *values, size_t count);
double ls_root_mean_square(const double *values, size_t count);

/* One for every node of every step, `steps` of them. Errors: LS_ERR_MEMORY. */
ls_status ls_moved_create(ls_moved **ret_moved, const ls_graph *graph, size_t steps) LS_MUST_USE;
void ls_moved_destroy(ls_moved **moved, size_t count);

/* Element i is so far off in this run. */
static inline void ls_moved_note(ls_moved *moved, size_t i, double distance)
{
    if (distance > moved->most) moved->most = distance;
    moved->now[i / moved->run] += distance * distance;
}

/* The run is over: of `count` tensors. */
void ls_moved_end_run(ls_moved *moved, size_t count);

#endif
