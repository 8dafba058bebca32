/* look_at_param.h - showing what a rank holds of a parameter, or a number of the whole step, to
 * whoever looks on (tap.h). The caller has a tap; nothing is gathered and nobody is asked. */
#ifndef LS_PARALLEL_HOOKS_LOOK_AT_PARAM_H
#define LS_PARALLEL_HOOKS_LOOK_AT_PARAM_H

#include "lockstep/comm/group.h"
#include "lockstep/model/param_table.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/hooks/tap.h"

/* What is shown, without what follows from the parameter. */
typedef struct ls_param_look {
    ls_view_kind kind;
    int use; /* -1: none */
    uint32_t step;
    ls_dtype dtype;
    ls_crossing crossing;
    size_t lo, hi, leaves, rows, columns; /* LS_CROSSING_PARTIAL */
} ls_param_look;

/* values: the shard as ls_param_shard_shape says. Of its elements those of the logical tensor are
 * shown; a shard without any is not. Errors: the tap's. */
ls_status ls_look_at_param(const ls_tap *tap, ls_rank *rank, ls_param_look look,
                           const ls_param_table *table, size_t param, ls_shard shard,
                           const void *values) LS_MUST_USE;

/* One number (LS_VIEW_LOSS, LS_VIEW_NORM). */
ls_status ls_look_at_number(const ls_tap *tap, ls_rank *rank, ls_param_look look,
                            const void *value) LS_MUST_USE;

/* A row of `count` numbers that crosses ranks (LS_VIEW_TARGET_COUNTS, _LOSS_SUMS, _SQUARES). */
ls_status ls_look_at_numbers(const ls_tap *tap, ls_rank *rank, ls_param_look look, size_t count,
                             const void *values) LS_MUST_USE;

/* Who looks on at what crosses ranks once a step: a tap, or NULL for nobody. */
typedef struct ls_step_look {
    const ls_tap *tap;
    uint32_t step;
} ls_step_look;

/* The numbers in node lo .. hi of a tree of `leaves` leaves; leaves 0: the total. Nothing when
 * nobody looks on. */
ls_status ls_look_at_step(ls_step_look look, ls_group *group, ls_view_kind kind, ls_dtype dtype,
                          ls_node node, size_t leaves, size_t count,
                          const void *values) LS_MUST_USE;

#endif
