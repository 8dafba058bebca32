/* A process that is stopped for longer than the time-out goes on as if nothing had been: only the
 * naps that a rank really took count as waiting. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/comm_test.h"

enum { TIMEOUT_MS = 2000, STOPPED_MS = 3500 };

static const uint64_t MS = 1000000;

/* Rank 0 comes when the test releases it; the others wait for it in a barrier, rank 1 in a
 * receive as well. */
static ls_status come_when_told(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *from_outside = argument;
    ls_group *world = ls_rank_world_group(rank);
    int word = 0;
    if (ls_rank_index(rank) == 0) {
        char byte;
        if (read(*from_outside, &byte, 1) != 1) LS_FAIL(LS_ERR_IO, "nothing came");
        LS_TRY(ls_send(world, 1, 0, &word, 1, LS_I32));
    }
    if (ls_rank_index(rank) == 1) LS_TRY(ls_receive(world, 0, 0, &word, 1, LS_I32));
    LS_TRY(ls_barrier(world));
exit:
    return status;
}

START_TEST(stopped_time_is_no_waiting)
{
    int ends[2], result = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        ls_world_options options = {.timeout_ns = TIMEOUT_MS * MS};
        ls_status status = ls_world_run(3, &options, come_when_told, &ends[0]);
        if (status != LS_OK) fprintf(stderr, "%s\n", ls_error_text());
        _exit((int)status);
    }
    ls_clock_sleep_ns(300 * MS);
    kill(child, SIGSTOP);
    ls_clock_sleep_ns(STOPPED_MS * MS);
    kill(child, SIGCONT);
    ck_assert_int_eq(write(ends[1], "x", 1), 1);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
    close(ends[0]), close(ends[1]);
    ck_assert(WIFEXITED(result));
    ck_assert_int_eq(WEXITSTATUS(result), LS_OK);
}
END_TEST

/* A rank that does not come is still found, whatever woke the others meanwhile. */
static ls_status stay_away(ls_rank *rank, void *argument)
{
    _Atomic int *others = argument;
    ls_group *world = ls_rank_world_group(rank);
    if (ls_rank_index(rank) != 0) {
        ls_status status = ls_barrier(world);
        atomic_fetch_add(others, 1);
        return status;
    }
    for (int i = 0; i < 20000 && atomic_load(others) < 2; i++) ls_clock_sleep_ns(MS);
    return LS_OK;
}

START_TEST(absence_still_times_out)
{
    _Atomic int others = 0;
    ls_world_options options = {.timeout_ns = 200 * MS};
    ck_assert_has(run_badly(3, &options, stay_away, &others, LS_ERR_RANK), "waited 0.2");
}
END_TEST

TEST_MAIN("stopped", stopped_time_is_no_waiting, absence_still_times_out)
