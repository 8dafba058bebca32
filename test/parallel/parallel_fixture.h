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
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/sequence/sequence_parallel.h"
#include "lockstep/parallel/layout/sharding.h"
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

/* ---- sequence parallelism ---- */

/* Sequences for tests of token shares: one token, fewer than ranks, prime, even. */
static const size_t sequence_lengths[] = {1, 2, 5, 13, 24};
enum { SEQUENCE_LENGTHS = sizeof sequence_lengths / sizeof sequence_lengths[0] };

/* The member's own tokens of B sequences of S, contiguous; and back. They are columns when a row is
 * a sequence. Without sequence parallelism all tokens. */
static inline ls_real *own_tokens_of(const member *m, const ls_real *whole, size_t B, size_t S,
                                     size_t width)
{
    ls_share own = ls_own_share(&m->tp, S);
    return columns_of(whole, B, S * width, own.first * width, own.count * width);
}

static inline void put_own_tokens(const member *m, ls_real *whole, const ls_real *own, size_t B,
                                  size_t S, size_t width)
{
    ls_share share = ls_own_share(&m->tp, S);
    put_columns(whole, own, B, S * width, share.first * width, share.count * width);
}

static inline ls_real *own_room(const member *m, size_t B, size_t S, size_t width)
{
    return room(B * ls_own_share(&m->tp, S).count * width);
}

/* What this member has handed in since its rank began. */
typedef struct sent {
    ls_comm_count reduces, scatters, gathers;
} sent;

static inline sent sent_by(const ls_rank *rank)
{
    return (sent){ls_rank_count(rank, LS_OP_ALL_REDUCE), ls_rank_count(rank, LS_OP_REDUCE_SCATTER),
                  ls_rank_count(rank, LS_OP_ALL_GATHER)};
}

/* Calls and elements of one operation. */
static inline void ck_sent(ls_comm_count found, size_t calls, size_t elements, const char *what,
                           int tp, int rank)
{
    ck_assert_msg(found.calls == calls && found.bytes == elements * sizeof(ls_real),
                  "%s at tp %d, rank %d: %llu calls of %llu bytes together, right are %zu and %zu",
                  what, tp, rank, (unsigned long long)found.calls, (unsigned long long)found.bytes,
                  calls, elements * sizeof(ls_real));
}

/* Partials that member `rank` of `tp` hands in for a tree over `granules`. */
static inline size_t nodes_of(size_t granules, int tp, int rank)
{
    ls_share own = ls_share_of(granules, (size_t)tp, (size_t)rank);
    return ls_tree_forest(granules, own.first, own.first + own.count, NULL);
}

static inline void run_ranks(int ranks, ls_rank_function function, void *argument)
{
    ls_status status = ls_world_run(ranks, NULL, function, argument);
    ck_assert_msg(status == LS_OK, "%s (%s)", ls_error_text(), ls_error_place());
}

#endif
