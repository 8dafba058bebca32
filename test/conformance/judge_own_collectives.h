/* judge_own_collectives.h - the collectives of the table, and their mistakes. */
#ifndef LS_TEST_JUDGE_OWN_COLLECTIVES_H
#define LS_TEST_JUDGE_OWN_COLLECTIVES_H

#include "judge_own.h"

static int own_barrier(ls_backend_rank *me)
{
    if (mistake == BARRIER_NONE) return LS_BACKEND_DONE;
    return ended(me, ls_barrier(group_of(me)));
}

static int own_broadcast(ls_backend_rank *me, ls_real *buffer, size_t n, int root)
{
    if (mistake == ROOT_0) root = 0; /* a group's rank taken for a global one */
    return ended(me, ls_broadcast(group_of(me), buffer, n, LS_REAL_DTYPE, root));
}

static ls_real before[OWN_RANKS][20000]; /* the result of a reduction */
static size_t before_count[OWN_RANKS];

static ls_status sum_wrongly(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n)
{
    ls_status status = LS_OK;
    const bool in_place = out == in;
    ls_real *was = NULL;
    LS_TRY(room(me, n, &was));
    if (n > 0) memcpy(was, in, n * sizeof *was);
    LS_TRY(own_sum(me, out, in, n));
    for (size_t i = 0; i < n; i++) {
        if (mistake == AVERAGE) out[i] /= (ls_real)me->ranks;
        if (mistake == NOT_REDUCED) out[i] = was[i];
        if (mistake == REDUCE_TWICE) out[i] *= (ls_real)me->ranks;
        if (mistake == IN_PLACE_TWICE && in_place) out[i] += was[i];
        if (mistake == RESULT_BEFORE) { /* of two buffers the wrong one */
            const ls_real right = out[i];
            if (i < before_count[me->rank]) out[i] = before[me->rank][i];
            before[me->rank][i] = right;
        }
    }
    before_count[me->rank] = n;
    if (mistake == REDUCE_IN_INPUT && n > 0) ((ls_real *)(uintptr_t)in)[n - 1] = out[n - 1];
    if (mistake == LAST_MISSING) {
        if (me->rank == me->ranks - 1)
            for (size_t i = 0; i < n; i++) was[i] = (ls_real)0;
        LS_TRY(own_sum(me, out, was, n));
    }
exit:
    return status;
}

/* Over shared memory, with a barrier before the ranks read and none after: whoever is fast is in
 * the next call already, and writes what a slow one still reads. */
static ls_status sum_shared(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n)
{
    static ls_real posted[8][20000];
    ls_status status = LS_OK;
    if (n > 0) memcpy(posted[me->rank], in, n * sizeof *in);
    LS_TRY(ls_barrier(group_of(me)));
    if (me->rank == 1) ls_clock_sleep_ns(500000);
    for (size_t i = 0; i < n; i++) {
        ls_real sum = 0;
        for (int r = 0; r < me->ranks; r++) sum += posted[r][i];
        out[i] = sum;
    }
exit:
    return status;
}

static int own_all_reduce(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t n,
                          ls_backend_reduction reduction)
{
    const bool sum = reduction == LS_BACKEND_SUM || mistake == SUM_FOR_MAX;
    const ls_status status =
        sum && mistake == NO_EXIT_BARRIER ? sum_shared(me, out, in, n)
        : sum                             ? sum_wrongly(me, out, in, n)
              : ls_all_reduce(group_of(me), out, in, n, LS_REAL_DTYPE, LS_REDUCE_MAX);
    ls_arena_release(arena_of(me), 0);
    for (size_t i = 0; mistake == MAX_FROM_0 && !sum && i < n; i++)
        if (out[i] < 0) out[i] = 0;
    return ended(me, status);
}

static int own_reduce_scatter(ls_backend_rank *me, ls_real *out, const ls_real *in,
                              const size_t *starts)
{
    const ls_forest forest = {(size_t)me->ranks, one_each()};
    const size_t P = (size_t)me->ranks, n = starts[P], r = (size_t)me->rank;
    ls_status status =
        ls_reduce_scatter_forest(group_of(me), out, in, starts, LS_REAL_DTYPE, &forest);
    if (mistake == SCATTER_SHARDS) { /* the next rank's share */
        const size_t other = (r + 1) % P;
        ls_real *all = NULL;
        if (status == LS_OK) status = room(me, n, &all);
        if (status == LS_OK) status = own_sum(me, all, in, n);
        for (size_t i = 0; status == LS_OK && i < starts[r + 1] - starts[r]; i++)
            if (starts[other] + i < n) out[i] = all[starts[other] + i];
    }
    if (mistake == SCATTER_BEYOND && P > 1) out[starts[r + 1] - starts[r]] = (ls_real)1;
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_all_gather(ls_backend_rank *me, ls_real *out, const ls_real *in,
                          const size_t *starts)
{
    const size_t P = (size_t)me->ranks;
    ls_status status = LS_OK;
    ls_real *all = NULL;
    size_t at = 0;
    LS_TRY(ls_all_gather(group_of(me), out, in, starts, LS_REAL_DTYPE));
    LS_TRY(room(me, starts[P], &all));
    if (starts[P] > 0) memcpy(all, out, starts[P] * sizeof *all);
    for (size_t q = P; mistake == GATHER_REVERSED && q-- > 0;)
        for (size_t i = starts[q]; i < starts[q + 1]; i++) out[at++] = all[i];
    if (mistake == GATHER_EQUAL) { /* place: rank times the first share */
        memset(out, 0xff, starts[P] * sizeof *out);
        for (size_t q = 0; q < P; q++)
            for (size_t i = starts[q]; i < starts[q + 1]; i++)
                if (q * starts[1] + i - starts[q] < starts[P])
                    out[q * starts[1] + i - starts[q]] = all[i];
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_all_gather_columns(ls_backend_rank *me, ls_real *out, const ls_real *in, size_t rows,
                                  const size_t *starts)
{
    size_t flat[OWN_RANKS + 1];
    for (int r = 0; r <= me->ranks; r++) flat[r] = starts[r] * rows;
    if (mistake == GATHER_FIRST)
        return ended(me, ls_all_gather(group_of(me), out, in, flat, LS_REAL_DTYPE));
    return ended(me, ls_all_gather_columns(group_of(me), out, in, rows, starts, LS_REAL_DTYPE));
}

static int own_all_to_all(ls_backend_rank *me, ls_real *out, const ls_real *in,
                          const size_t *counts)
{
    const size_t P = (size_t)me->ranks, r = (size_t)me->rank;
    ls_status status = LS_OK;
    ls_real *all = NULL;
    size_t n = 0, at = 0;
    for (size_t s = 0; s < P; s++) n += counts[s * P + r];
    LS_TRY(ls_all_to_all(group_of(me), out, in, counts, LS_REAL_DTYPE));
    LS_TRY(room(me, n, &all));
    if (n > 0) memcpy(all, out, n * sizeof *all);
    for (size_t s = P, end = n; mistake == TO_ALL_REVERSED && s-- > 0;) {
        end -= counts[s * P + r];
        for (size_t i = 0; i < counts[s * P + r]; i++) out[at++] = all[end + i];
    }
exit:
    ls_arena_release(arena_of(me), 0);
    return ended(me, status);
}

static int own_send(ls_backend_rank *me, int peer, const ls_real *buffer, size_t n)
{
    return ended(me, ls_send(group_of(me), peer, 5, buffer, n, LS_REAL_DTYPE));
}

static int own_receive(ls_backend_rank *me, int peer, ls_real *buffer, size_t n)
{
    ls_status status = ls_receive(group_of(me), peer, 5, buffer, n, LS_REAL_DTYPE);
    if (mistake == RECEIVE_CUT && n > 1) buffer[n - 1] = buffer[0]; /* one element too few */
    return ended(me, status);
}

#endif
