/* The barrier: nobody leaves before all have come, however often and however late. */
#include "comm/comm_test.h"

/* Each rank counts its rounds in a counter of its own. Between two barriers of a round all counters
 * must stand alike; a rank that left early would show, and so would one whose arrival was counted
 * for the round before (the two-counter fault of hand-written barriers). */
typedef struct ring {
    _Alignas(128) _Atomic unsigned counter;
} ring;

typedef struct rounds {
    unsigned n;
    ring ring[256];
} rounds;

static ls_status turn(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    rounds *t = argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    for (unsigned round = 1; round <= t->n; round++) {
        atomic_store_explicit(&t->ring[r].counter, round, memory_order_relaxed);
        LS_TRY(ls_barrier(world));
        /* The neighbour is at this round or, at most, has begun the next. */
        unsigned next =
            atomic_load_explicit(&t->ring[(r + 1) % size].counter, memory_order_relaxed);
        EXPECT(next == round || next == round + 1, "round %u: neighbour at %u", round, next);
        LS_TRY(ls_barrier(world));
        unsigned far =
            atomic_load_explicit(&t->ring[(r + size / 2) % size].counter, memory_order_relaxed);
        EXPECT(far == round || far == round + 1, "round %u: far one at %u", round, far);
    }
exit:
    return status;
}

static rounds shared;

START_TEST(counter_ring)
{
    static const int sizes[] = {1, 2, 3, 4, 8, 12, 64};
    static const unsigned n[] = {1000, 100000, 20000, 10000, 3000, 2000, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        shared.n = n[i] / FEWER;
        for (int r = 0; r < 256; r++) atomic_store(&shared.ring[r].counter, 0);
        run_well(sizes[i], NULL, turn, &shared);
        for (int r = 0; r < sizes[i]; r++) ck_assert_uint_eq(shared.ring[r].counter, shared.n);
    }
}
END_TEST

START_TEST(counter_ring_with_delays)
{
    ls_world_options options = {.delay_seed = 11, .delay_max_ns = 300000};
    static const int sizes[] = {2, 3, 5, 12};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        shared.n = 200;
        for (int r = 0; r < 256; r++) atomic_store(&shared.ring[r].counter, 0);
        run_well(sizes[i], &options, turn, &shared);
    }
}
END_TEST

START_TEST(many_more_ranks_than_cores)
{
    shared.n = 20;
    for (int r = 0; r < 256; r++) atomic_store(&shared.ring[r].counter, 0);
    run_well(256, NULL, turn, &shared);
}
END_TEST

/* Plain memory, written before the barrier and read after it by everybody: what a barrier orders.
 */
typedef struct board {
    int cell[12];
    int sums[12];
} board;

static ls_status read_all(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    board *b = argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    for (int round = 0; round < 2000 / FEWER; round++) {
        b->cell[r] = round * (r + 1);
        LS_TRY(ls_barrier(world));
        int sum = 0;
        for (int q = 0; q < size; q++) sum += b->cell[q];
        EXPECT(sum == round * size * (size + 1) / 2, "round %d: sum %d", round, sum);
        LS_TRY(ls_barrier(world));
    }
exit:
    return status;
}

START_TEST(barrier_orders_plain_memory)
{
    static board b;
    static const int sizes[] = {2, 3, 4, 12};
    for (int i = 0; i < 4; i++) run_well(sizes[i], NULL, read_all, &b);
}
END_TEST

TEST_MAIN("barrier", counter_ring, counter_ring_with_delays, many_more_ranks_than_cores,
          barrier_orders_plain_memory)
