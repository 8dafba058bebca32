/* Worlds: every rank runs, the first failure is told, nobody is left waiting. */
#include <signal.h>
#include <unistd.h>

#include "comm/comm_test.h"

/* ---- every rank runs */

typedef struct roll_call {
    int size;
    int seen[4096];
    ls_memory *memory[4096];
} roll_call;

static ls_status answer(ls_rank *rank, void *argument)
{
    roll_call *call = argument;
    int r = ls_rank_index(rank);
    call->seen[r]++;
    call->memory[r] = ls_rank_memory(rank);
    EXPECT(ls_rank_world_size(rank) == call->size, "world size");
    ls_group *world = ls_rank_world_group(rank);
    EXPECT(ls_group_size(world) == call->size && ls_group_rank(world) == r, "world group");
    EXPECT(ls_group_world_rank(world, r) == r && ls_group_owner(world) == rank, "own place");
    EXPECT(strcmp(ls_group_name(world), "world") == 0, "name");
    EXPECT(strcmp(ls_error_text(), "") == 0, "a record that is not fresh");
    return ls_barrier(world);
}

START_TEST(every_rank_runs_once)
{
    static const int sizes[] = {1, 2, 3, 12, 64, 256};
    static roll_call call;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memset(&call, 0, sizeof call);
        call.size = sizes[i];
        run_well(sizes[i], NULL, answer, &call);
        for (int r = 0; r < sizes[i]; r++) {
            ck_assert_int_eq(call.seen[r], 1);
            ck_assert_ptr_nonnull(call.memory[r]);
            for (int q = 0; q < r; q++) ck_assert_ptr_ne(call.memory[r], call.memory[q]);
        }
        ck_assert_int_eq(call.seen[sizes[i]], 0);
    }
}
END_TEST

START_TEST(number_of_ranks_is_checked)
{
    ck_assert_has(run_badly(0, NULL, answer, NULL, LS_ERR_INPUT), "0 ranks: a world has 1 to 4096");
    run_badly(-3, NULL, answer, NULL, LS_ERR_INPUT);
    run_badly(4097, NULL, answer, NULL, LS_ERR_INPUT);
}
END_TEST

/* ---- failures */

typedef struct plan {
    int rank;         /* who fails */
    ls_status status; /* with what */
    int silent;       /* without recording a text */
    ls_status seen[300];
    ls_status later[300];   /* of a barrier */
    ls_status alone[300];   /* of a call in a group of one, which waits for nobody */
    ls_status to_rank[300]; /* of a send that could be left behind */
    char text[300][256];
} plan;

/* Five barriers; at the fifth one rank fails instead of coming. Then every later call must be
 * refused. */
static ls_status fail_at_step_5(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    plan *p = argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *self = NULL;
    LS_TRY(ls_group_split(world, r, 0, "self", &self));
    for (int step = 1; step <= 5; step++) {
        if (step == 5 && r == p->rank) {
            if (p->silent) return p->status;
            LS_FAIL(p->status, "step %d: no more rice", step);
        }
        LS_TRY(ls_barrier(world));
    }
exit:
    p->seen[r] = status;
    snprintf(p->text[r], sizeof p->text[r], "%.200s", ls_error_text());
    if (r != p->rank) {
        p->later[r] = ls_barrier(world);
        p->alone[r] = ls_barrier(self);
        p->to_rank[r] = ls_send(world, p->rank, 0, &r, 1, LS_I32);
    }
    return status;
}

static void expect_all_gave_up(const plan *p, int n_ranks, ls_status status)
{
    for (int r = 0; r < n_ranks; r++) {
        if (r == p->rank) continue;
        ck_assert_int_eq(p->seen[r], status);
        ck_assert_int_eq(p->later[r], status);
        ck_assert_int_eq(p->alone[r], status);
        ck_assert_int_eq(p->to_rank[r], status);
    }
}

START_TEST(first_failure_is_reported)
{
    static const int sizes[] = {2, 3, 12, 256};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        static plan p;
        p = (plan){.rank = sizes[i] / 2, .status = LS_ERR_IO};
        ls_world_options options = {.channel_capacity = 1};
        const char *text = run_badly(sizes[i], &options, fail_at_step_5, &p, LS_ERR_IO);
        char expected[64];
        snprintf(expected, sizeof expected, "rank %d: step 5: no more rice", p.rank);
        ck_assert_str_eq(text, expected);
        ck_assert_ptr_eq(strstr(ls_error_place(), "test_world.c:"), ls_error_place());
        expect_all_gave_up(&p, sizes[i], LS_ERR_ABORTED);
        ck_assert_has(p.text[0], "gave up after rank");
        ck_assert_has(p.text[0], "no more rice");
    }
}
END_TEST

START_TEST(failure_without_a_text)
{
    static plan p;
    p = (plan){.rank = 1, .status = LS_DIFFERENT, .silent = 1};
    const char *text = run_badly(3, NULL, fail_at_step_5, &p, LS_DIFFERENT);
    ck_assert_has(text, "rank 1: ");
    ck_assert_has(text, "status 1 without a text");
    expect_all_gave_up(&p, 3, LS_ERR_ABORTED);
}
END_TEST

static ls_status fail_alone(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)rank;
    (void)argument;
    LS_FAIL(LS_ERR_INPUT, "alone");
exit:
    return status;
}

START_TEST(earlier_record_of_the_caller_gives_way)
{
    ck_assert_str_eq(run_badly(1, NULL, fail_alone, NULL, LS_ERR_INPUT), "rank 0: alone");
    ls_error_record(LS_ERR_IO, "x.c", 1, "earlier");
    ck_assert_int_eq(ls_world_run(1, NULL, fail_alone, NULL), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "rank 0: alone");
    ls_error_record(LS_ERR_IO, "x.c", 1, "earlier");
    ck_assert_int_eq(ls_world_run(0, NULL, fail_alone, NULL), LS_ERR_INPUT);
    ck_assert_has(ls_error_text(), "0 ranks");
    static roll_call call;
    call.size = 2;
    ck_assert_int_eq(ls_world_run(2, NULL, answer, &call), LS_OK);
    ck_assert_str_eq(ls_error_text(), "");
}
END_TEST

/* Every rank handles a failure; then one of them meets another, with a text or without, and sends
 * that nobody takes fail after it. */
static ls_status handle_then_fail(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const plan *p = argument;
    ls_group *world = ls_rank_world_group(rank);
    static int message;
    ls_isend *sending = NULL;
    if (fail_alone(rank, NULL) != LS_ERR_INPUT) fault("not handled");
    if (ls_rank_index(rank) != p->rank) return ls_barrier(world);
    LS_TRY(ls_send_begin(world, 0, 7, &message, 1, LS_I32, &sending));
    if (p->silent) return p->status;
    LS_FAIL(p->status, "the failure itself");
exit:
    return status;
}

START_TEST(handled_failure_lends_no_text)
{
    for (int ranks = 2; ranks <= 5; ranks++) {
        plan p = {.rank = ranks - 1, .status = LS_ERR_IO};
        char expected[80];
        snprintf(expected, sizeof expected, "rank %d: the failure itself", p.rank);
        ck_assert_str_eq(run_badly(ranks, NULL, handle_then_fail, &p, LS_ERR_IO), expected);
        p.silent = 1;
        const char *text = run_badly(ranks, NULL, handle_then_fail, &p, LS_ERR_IO);
        ck_assert_has(text, "without a text; its failure before that: alone");
    }
}
END_TEST

/* A world inside a rank: its failure is the rank's. */
static ls_status run_inner_world(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    if (ls_rank_index(rank) == 2) LS_TRY(ls_world_run(3, NULL, fail_at_step_5, argument));
    LS_TRY(ls_barrier(ls_rank_world_group(rank)));
    fault("rank %d passed", ls_rank_index(rank));
exit:
    return status;
}

START_TEST(nested_world_fails_its_rank)
{
    static plan p;
    p = (plan){.rank = 1, .status = LS_ERR_MEMORY};
    const char *text = run_badly(4, NULL, run_inner_world, &p, LS_ERR_MEMORY);
    ck_assert_str_eq(text, "rank 2: rank 1: step 5: no more rice");
}
END_TEST

/* A rank that computes for long asks between; a failure elsewhere reaches it. */
static ls_status compute_until_told(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    if (ls_rank_index(rank) == 1) LS_FAIL(LS_ERR_IO, "gone");
    for (int i = 0; i < 10000; i++) {
        LS_TRY(ls_rank_check(rank));
        ls_clock_sleep_ns(1000000);
    }
    fault("rank %d was never told", ls_rank_index(rank));
exit:
    EXPECT(ls_rank_index(rank) == 1 || status == LS_ERR_ABORTED, "status %d", (int)status);
    return status;
}

START_TEST(rank_check_tells_of_abort)
{
    ck_assert_str_eq(run_badly(3, NULL, compute_until_told, NULL, LS_ERR_IO), "rank 1: gone");
}
END_TEST

/* ---- Ctrl-C */

static volatile int stop;

static void on_alarm(int signal_number)
{
    (void)signal_number;
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

/* Rank 0 computes, rank 1 communicates with nobody, the others wait in a barrier. */
static ls_status wait_for_interrupt(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    ls_status *seen = argument;
    if (ls_rank_index(rank) < 2) {
        for (int i = 0; i < 10000 && status == LS_OK; i++) {
            ls_clock_sleep_ns(1000000);
            LS_TRY(ls_rank_check(rank));
        }
    } else {
        LS_TRY(ls_barrier(ls_rank_world_group(rank)));
    }
exit:
    seen[ls_rank_index(rank)] = status;
    return status;
}

/* Rank 0 is at work and never asks: those who wait must look at the flag themselves. */
static ls_status be_deaf(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    _Atomic int *others = argument;
    if (ls_rank_index(rank) == 0) {
        for (int i = 0; i < 20000 && atomic_load(others) < 2; i++) ls_clock_sleep_ns(1000000);
    } else {
        status = ls_barrier(ls_rank_world_group(rank));
        EXPECT(status == LS_ERR_INTERRUPTED, "status %d", (int)status);
        atomic_fetch_add(others, 1);
    }
    return status;
}

START_TEST(stop_flag_interrupts_all)
{
    ls_world_options options = {.stop = &stop};
    ls_status seen[5] = {LS_OK};
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    signal(SIGALRM, on_alarm);
    alarm(1);
    ck_assert_str_eq(run_badly(5, &options, wait_for_interrupt, seen, LS_ERR_INTERRUPTED),
                     "interrupted");
    for (int r = 0; r < 5; r++) ck_assert_int_eq(seen[r], LS_ERR_INTERRUPTED);
    _Atomic int others = 0;
    __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
    alarm(1);
    run_badly(3, &options, be_deaf, &others, LS_ERR_INTERRUPTED);
    ck_assert_int_eq(others, 2);
    /* Set before the beginning. */
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    run_badly(5, &options, wait_for_interrupt, seen, LS_ERR_INTERRUPTED);
    for (int r = 0; r < 5; r++) ck_assert_int_eq(seen[r], LS_ERR_INTERRUPTED);
}
END_TEST

/* ---- memory left behind by a rank that fails */

static ls_status fail_with_arena(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    ls_arena **arenas = argument;
    void *p = NULL;
    LS_TRY(ls_arena_create(&arenas[ls_rank_index(rank)], ls_rank_memory(rank), LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_alloc(arenas[ls_rank_index(rank)], 10, 10, &p));
    LS_FAIL(LS_ERR_IO, "and its arena stays");
exit:
    return status;
}

START_TEST(arena_may_outlive_its_rank)
{
    ls_arena *arenas[2] = {NULL, NULL};
    run_badly(2, NULL, fail_with_arena, arenas, LS_ERR_IO);
    ls_arena_destroy(&arenas[0]);
    ls_arena_destroy(&arenas[1]);
}
END_TEST

TEST_MAIN("world", every_rank_runs_once, number_of_ranks_is_checked, first_failure_is_reported,
          failure_without_a_text, earlier_record_of_the_caller_gives_way,
          handled_failure_lends_no_text, nested_world_fails_its_rank, rank_check_tells_of_abort,
          stop_flag_interrupts_all, arena_may_outlive_its_rank)
