/* parallel_fixture.h - ranks for the tests of parallel: each gets a tensor-parallel context and
 * fills its slot; the main thread asserts. */
#ifndef TEST_PARALLEL_PARALLEL_FIXTURE_H
#define TEST_PARALLEL_PARALLEL_FIXTURE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/comm/world.h"
#include "lockstep/numerics/random.h"
#include "lockstep/parallel/sharding.h"
#include "lockstep/partition/share.h"

/* Equal bits, naming the first place. */
static inline void ck_same(const ls_real *left, const ls_real *right, size_t n, const char *what,
                           int tp)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&left[i], &right[i], sizeof *left) != 0)
            ck_abort_msg("%s, tp %d, element %zu: %a and %a", what, tp, i, (double)left[i],
                         (double)right[i]);
}

static inline ls_real *room(size_t n)
{
    ls_real *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)NAN;
    return x;
}

/* Random values of mixed sign; small integers when `exact` is set, so that every sum is exact. */
static inline ls_real *filled(size_t n, uint32_t number, int exact)
{
    ls_real *x = room(n);
    ls_stream stream = {77, LS_RANDOM_TEST, number, 0};
    for (size_t i = 0; i < n; i++)
        x[i] = (ls_real)(exact ? floor(ls_random_uniform(stream, i) * 7) - 3
                               : ls_random_uniform(stream, i) * 2 - 1);
    return x;
}

/* One member's tensor-parallel context over the world. */
typedef struct member {
    ls_tensor_parallel tp;
    int rank, size;
    ls_arena *lasting; /* cuts */
} member;

static inline ls_status member_begin(ls_rank *rank, ls_engine engine, member *ret_member)
{
    ls_status status = LS_OK;
    member m = {.rank = ls_rank_index(rank), .size = ls_rank_world_size(rank)};
    m.tp.group = ls_rank_world_group(rank);
    m.tp.engine = engine;
    LS_TRY(ls_arena_create(&m.tp.temporary, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&m.lasting, NULL, LS_MEM_TEMPORARY));
    *ret_member = m;
exit:
    return status;
}

static inline void member_end(member *m)
{
    ls_arena_destroy(&m->tp.temporary);
    ls_arena_destroy(&m->lasting);
}

static inline ls_status member_cut(const member *m, size_t granules, size_t granule,
                                   ls_cut *ret_cut)
{
    ls_status status = LS_OK;
    size_t *bounds;
    LS_TRY(ls_arena_alloc(m->lasting, (size_t)m->size + 1, sizeof *bounds, (void *)&bounds));
    ls_share_bounds(granules, (size_t)m->size, bounds);
    ret_cut->whole = ls_axis_of(granules, granule);
    ret_cut->bounds = bounds;
exit:
    return status;
}

/* Own columns of a rows x cols array, contiguous; and back. */
static inline ls_real *columns_of(const ls_real *whole, size_t rows, size_t cols, size_t first,
                                  size_t width)
{
    ls_real *own = room(rows * width);
    for (size_t r = 0; r < rows; r++)
        memcpy(own + r * width, whole + r * cols + first, width * sizeof *own);
    return own;
}

static inline void put_columns(ls_real *whole, const ls_real *own, size_t rows, size_t cols,
                               size_t first, size_t width)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(whole + r * cols + first, own + r * width, width * sizeof *own);
}

static inline void run_ranks(int ranks, ls_rank_function function, void *argument)
{
    ls_status status = ls_world_run(ranks, NULL, function, argument);
    ck_assert_msg(status == LS_OK, "%s (%s)", ls_error_text(), ls_error_place());
}

#endif
