/* observe_param.h - showing what a rank holds of a parameter, or a number of the whole step, to
 * an observer (observer.h). The caller has an observer; nothing is gathered and no rank is
 * asked. */
#ifndef LS_PARALLEL_HOOKS_OBSERVE_PARAM_H
#define LS_PARALLEL_HOOKS_OBSERVE_PARAM_H

#include "lockstep/comm/group.h"
#include "lockstep/model/param_table.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/hooks/observer.h"

/* What is shown, without what follows from the parameter. */
typedef struct ls_observed_param {
    ls_view_kind kind;
    int use; /* -1: none */
    uint32_t step;
    ls_dtype dtype;
    ls_comm_kind comm;
    size_t lo, hi, leaves, rows, columns; /* LS_COMM_PARTIAL */
} ls_observed_param;

/* values: the shard as ls_param_shard_shape says. Of its elements those of the logical tensor are
 * shown; a shard without any is not. Errors: the observer's. */
ls_status ls_observe_at_param(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                              const ls_param_table *table, size_t param, ls_shard shard,
                              const void *values) LS_MUST_USE;

/* One number (LS_VIEW_LOSS, LS_VIEW_NORM). */
ls_status ls_observe_at_number(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                               const void *value) LS_MUST_USE;

/* A row of `count` numbers that crosses ranks (LS_VIEW_TARGET_COUNTS, _LOSS_SUMS, _SQUARES). */
ls_status ls_observe_at_numbers(const ls_observer *observer, ls_rank *rank, ls_observed_param look,
                                size_t count, const void *values) LS_MUST_USE;

/* The observer of what is communicated once a step; NULL: none. */
typedef struct ls_step_observer {
    const ls_observer *observer;
    uint32_t step;
} ls_step_observer;

/* The numbers in node lo .. hi of a tree of `leaves` leaves; leaves 0: the total. Nothing when
 * there is no observer. */
ls_status ls_observe_at_step(ls_step_observer look, ls_group *group, ls_view_kind kind,
                             ls_dtype dtype, ls_node node, size_t leaves, size_t count,
                             const void *values) LS_MUST_USE;

#endif
