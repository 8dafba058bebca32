/* judge_own.h - Lockstep's own communication and layers as a table for ls_judge, and a switch for
 * mistakes that others made, each at its place. */
#ifndef LS_TEST_JUDGE_OWN_H
#define LS_TEST_JUDGE_OWN_H

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "lockstep/base/memory.h"
#include "lockstep/comm/channel.h"
#include "lockstep/comm/collectives.h"
#include "lockstep/conformance/judge.h"

/* Which mistake is made; one at a time. */
typedef enum made {
    RIGHT = 0,
    /* collectives */
    BARRIER_NONE,
    ROOT_0,
    REDUCE_IN_INPUT,
    NO_EXIT_BARRIER,
    AVERAGE,
    MAX_FROM_0,
    SUM_FOR_MAX,
    REDUCE_TWICE,
    NOT_REDUCED,
    IN_PLACE_TWICE,
    LAST_MISSING,
    SCATTER_SHARDS,
    SCATTER_BEYOND,
    GATHER_REVERSED,
    GATHER_EQUAL,
    GATHER_FIRST,
    TO_ALL_REVERSED,
    RECEIVE_CUT,
    RESULT_BEFORE,
    /* linear layers, mlp, attention, embedding */
    COLUMN_NO_BIAS,
    DX_NOT_REDUCED,
    DX_TWICE,
    DW_LEFT_OVER,
    DW_TRANSPOSED,
    BIAS_EACH,
    ROW_NOT_REDUCED,
    ROW_AVERAGE,
    ROW_TWICE,
    ROW_NO_BIAS,
    ROW_NOT_WRITTEN,
    DBIAS_SUMMED,
    DBIAS_AVERAGED,
    MLP_GELU,
    MLP_BIAS,
    MLP_DX_TWICE,
    ATTENTION_SCALE,
    ATTENTION_NO_MASK,
    EMBEDDING_CLAMPED,
    EMBEDDING_NOT_REDUCED,
    EMBEDDING_LAST,
    /* loss: from LOSS_PADDED to LOSS_OTHER_TARGET computed by hand */
    MEAN_OF_ALL,
    LOSS_SCALAR,
    LOSS_PADDED,
    LOSS_OWN_COLUMNS,
    LOSS_TARGET_OF_OWNER,
    LOSS_EXP_PER_RANK,
    LOSS_SMOOTHED_LOCALLY,
    LOSS_IGNORED,
    LOSS_OTHER_TARGET,
    /* tokens, norms, element by element, update */
    TOKENS_FLAT,
    NORM_EPS_OUTSIDE,
    NORM_UNBIASED,
    NORM_NOT_REDUCED,
    NORM_AVERAGED,
    GELU_OTHER,
    GELU_QUICK,
    SOFTMAX_OVERFLOW,
    SOFTMAX_DIAGONAL,
    CLIP_OWN,
    CLIP_REPLICAS,
    CLIP_NORMS,
    CLIP_ALWAYS,
    CLIP_SMALL,
    ADAMW_NO_CORRECTION,
    ADAMW_STEP,
    ADAMW_NO_DECAY,
    ADAMW_L2,
    ADAMW_TWICE
} made;

/* volatile: set by the main thread before ranks exist. */
static made mistake;

enum { OWN_RANKS = 64 };

/* What a table's context is: the ranks as Lockstep's world gives them. */
typedef struct own_context {
    ls_group *groups[OWN_RANKS];
    ls_arena *arenas[OWN_RANKS];
    ls_backend_function function;
    void *argument;
} own_context;

static own_context own;

static ls_status own_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    own_context *c = argument;
    const int r = ls_rank_index(rank);
    c->groups[r] = ls_rank_world_group(rank);
    LS_TRY(ls_arena_create(&c->arenas[r], ls_rank_memory(rank), LS_MEM_TEMPORARY));
    c->function(r, c->argument);
exit:
    ls_arena_destroy(&c->arenas[r]);
    return status;
}

static int own_run(void *context, int ranks, ls_backend_function function, void *argument)
{
    own_context *c = context;
    c->function = function;
    c->argument = argument;
    return ls_world_run(ranks, NULL, own_rank, c) == LS_OK ? LS_BACKEND_DONE : LS_BACKEND_FAILED;
}

static ls_group *group_of(const ls_backend_rank *me)
{
    return ((own_context *)me->context)->groups[me->rank];
}

static ls_arena *arena_of(const ls_backend_rank *me)
{
    return ((own_context *)me->context)->arenas[me->rank];
}

/* Ends a function: its status as the table has it. */
static int ended(ls_backend_rank *me, ls_status status)
{
    if (status == LS_OK) return LS_BACKEND_DONE;
    snprintf(me->error, sizeof me->error, "%.150s", ls_error_text());
    return LS_BACKEND_FAILED;
}

static ls_status room(const ls_backend_rank *me, size_t n, ls_real **ret)
{
    return ls_arena_alloc(arena_of(me), n, sizeof(ls_real), ret);
}

/* Rank r owns leaf r of T(ranks). */
static const size_t *one_each(void)
{
    static const size_t bounds[OWN_RANKS + 1] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64};
    return bounds;
}

static ls_status own_sum(const ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n)
{
    const ls_forest forest = {(size_t)me->ranks, one_each()};
    return ls_all_reduce_forest(group_of(me), out, in, n, LS_REAL_DTYPE, &forest);
}

#endif
