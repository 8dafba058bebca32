/* Ranks that never come, end early, wait in circles or fail while others copy: an error on every
 * rank, in words, and no hang. */
#include "comm/comm_test.h"

static float a[1000], b[1000];

/* ---- ranks that do not come */

typedef struct absence {
    int rank,
        ends; /* ends: it returns; otherwise it stays at work until the others have given up */
    ls_status seen[8];
    char text[8][400];
} absence;

static ls_status stay_away(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    absence *x = argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank);
    for (int step = 1; step <= 5; step++) {
        if (step == 5 && r == x->rank) {
            if (x->ends) return LS_OK;
            while (status == LS_OK) {
                ls_clock_sleep_ns(1000000);
                status = ls_rank_check(rank);
            }
            break;
        }
        LS_TRY(ls_all_reduce(world, &b[r * 16], &a[r * 16], 10, LS_F32, LS_REDUCE_MAX));
    }
exit:
    x->seen[r] = status;
    snprintf(x->text[r], sizeof x->text[r], "%s", ls_error_text());
    return status;
}

START_TEST(rank_that_never_arrives)
{
    static absence x;
    ls_world_options options = {.timeout_ns = 300000000};
    x = (absence){.rank = 1};
    const char *text = run_badly(4, &options, stay_away, &x, LS_ERR_RANK);
    ck_assert_has(text, "group world, call 5 (all_reduce): waited ");
    ck_assert_has(text, " s for rank 1, which is outside any communication");
    int reporters = 0;
    for (int r = 0; r < 4; r++) {
        ck_assert_int_ne(x.seen[r], LS_OK);
        reporters += x.seen[r] == LS_ERR_RANK;
    }
    ck_assert_int_ge(reporters, 1);
    ck_assert_int_eq(x.seen[1], LS_ERR_ABORTED);
}
END_TEST

/* Unequal numbers of steps: the one with fewer has ended, and that is found without waiting for a
 * time-out. */
START_TEST(rank_that_ends_early)
{
    static absence x;
    static const int sizes[] = {2, 5};
    for (int i = 0; i < 2; i++) {
        x = (absence){.rank = 1, .ends = 1};
        const char *text = run_badly(sizes[i], NULL, stay_away, &x, LS_ERR_RANK);
        ck_assert_has(text, "group world, call 5 (all_reduce): rank ");
        ck_assert_has(text, " waits for rank 1, which has ended");
        for (int r = 0; r < sizes[i]; r++)
            if (r != 1) ck_assert_int_ne(x.seen[r], LS_OK);
    }
}
END_TEST

/* ---- two groups in different order */

static ls_status call_in_other_order(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *swapped = argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *tp = NULL, *dp = NULL;
    LS_TRY(ls_group_split(world, r / 2, r, "tp", &tp));
    LS_TRY(ls_group_split(world, r % 2, r, "dp", &dp));
    for (int step = 0; step < 3; step++) {
        bool turned = step == 2 && r == *swapped;
        LS_TRY(ls_barrier(turned ? dp : tp));
        LS_TRY(ls_barrier(turned ? tp : dp));
    }
exit:
    return status;
}

/* Rank 0 is in dp first: it waits for rank 2; that one waits in tp for rank 3 only, comes through,
 * and meets rank 0. But rank 1 waits in tp for rank 0. No circle: all come through. With ranks 0
 * and 3 turned there is one. */
static ls_status call_in_circle(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *tp = NULL, *dp = NULL;
    LS_TRY(ls_group_split(world, r / 2, r, "tp", &tp));
    LS_TRY(ls_group_split(world, r % 2, r, "dp", &dp));
    bool turned = r == 0 || r == 3;
    LS_TRY(ls_barrier(turned ? dp : tp));
    LS_TRY(ls_barrier(turned ? tp : dp));
exit:
    return status;
}

static ls_status call_two_groups(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *twin = NULL;
    LS_TRY(ls_group_split(world, 0, r, "twin", &twin));
    LS_TRY(ls_barrier(r == 2 ? twin : world));
    LS_TRY(ls_barrier(r == 2 ? world : twin));
exit:
    return status;
}

START_TEST(circles_are_found)
{
    for (int swapped = -1; swapped < 4; swapped++) run_well(4, NULL, call_in_other_order, &swapped);
    const char *text = run_badly(4, NULL, call_in_circle, NULL, LS_ERR_RANK);
    ck_assert_has(text, "ranks wait for each other: ");
    ck_assert_has(text, "rank 0 for rank 2 in group dp, call 1 (barrier)");
    ck_assert_has(text, "rank 2 for rank 3 in group tp, call 1 (barrier)");
    ck_assert_has(text, "rank 3 for rank 1 in group dp, call 1 (barrier)");
    ck_assert_has(text, "rank 1 for rank 0 in group tp, call 1 (barrier)");
    text = run_badly(3, NULL, call_two_groups, NULL, LS_ERR_RANK);
    ck_assert_has(text, "ranks wait for each other: ");
    ck_assert_has(text, "in group twin, call 1 (barrier)");
    ck_assert_has(text, "in group world, call 2 (barrier)");
}
END_TEST

/* A slow rank is no circle and no end: nothing may be reported before it comes. */
static ls_status come_late(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *twin = NULL;
    LS_TRY(ls_group_split(world, 0, -r, "twin", &twin));
    for (int step = 0; step < 4; step++) {
        if (r == step) ls_clock_sleep_ns(150000000);
        LS_TRY(ls_barrier(world));
        LS_TRY(ls_barrier(twin));
    }
exit:
    return status;
}

START_TEST(slow_is_not_stuck)
{
    run_well(4, NULL, come_late, NULL);
}
END_TEST

/* ---- a failure while others copy: they may read the buffers of a rank that has given up until
 * they are through */

static ls_status fail_in_the_middle(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *round = argument;
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    ls_group *world = ls_rank_world_group(rank), *rest = NULL;
    size_t n = 200000, starts[9];
    float *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) in[i] = 1;
    for (int m = 0; m < size; m++) starts[m] = n * (size_t)m / (size_t)(size - 1);
    LS_TRY(ls_group_split(world, r == size - 1 ? 1 : 0, r, "rest", &rest));
    if (r == size - 1) {
        ls_clock_sleep_ns(20000 * (uint64_t)(*round % 40));
        LS_FAIL(LS_ERR_IO, "now");
    }
    for (;;) {
        LS_TRY(ls_all_reduce(rest, out, in, n, LS_F32, LS_REDUCE_MAX));
        LS_TRY(ls_all_gather(rest, out, in, starts, LS_F32));
    }
exit:
    /* Freed at once: a peer that still read here would be seen by AddressSanitizer. */
    free(in);
    free(out);
    return status;
}

START_TEST(abort_in_the_middle_of_copying)
{
    for (int round = 0; round < 120 / FEWER; round++)
        ck_assert_str_eq(run_badly(5, NULL, fail_in_the_middle, &round, LS_ERR_IO), "rank 4: now");
}
END_TEST

TEST_MAIN("absence", rank_that_never_arrives, rank_that_ends_early, circles_are_found,
          slow_is_not_stuck, abort_in_the_middle_of_copying)
