/* How many messages a rank must be able to have under way for a schedule to run: the ranks are
 * followed step by step, with rendezvous messages, by an independent simulation. */
#include <check.h>
#include <stdlib.h>

#include "lockstep/pipeline/schedule.h"
#include "run_tests.h"

/* One rank: where it is in its list, whether the task's pass is done and its result waits to be
 * sent, and how many of its messages in each direction nobody has taken. */
typedef struct follower {
    int next;
    bool computed;
    int under_way[2];
} follower;

/* Whether all tasks get done when a rank may have `room` messages per direction under way: before
 * it begins to send another, it waits until one has been taken. room 0: it stands still until the
 * message itself has been taken. */
static bool runs(const ls_schedule *schedule, int room)
{
    int K = schedule->stages, M = schedule->micro_batches, last = K * schedule->chunks - 1;
    follower *ranks = calloc((size_t)K, sizeof *ranks);
    bool *sent = calloc((size_t)(2 * (last + 1) * M), sizeof *sent), moved = true, all = true;
    ck_assert(ranks != NULL && sent != NULL);
    while (moved) {
        moved = false;
        for (int p = 0; p < K; p++) {
            follower *me = &ranks[p];
            if (me->next == schedule->n_tasks) continue;
            ls_task task = ls_schedule_of(schedule, p)[me->next];
            int step = task.pass == LS_FORWARD ? 1 : -1, stage = task.chunk * K + p;
            int from = stage - step, to = stage + step, *under_way = &me->under_way[task.pass];
            if (!me->computed) {
                if (from >= 0 && from <= last) {
                    int message = (2 * from + (int)task.pass) * M + task.micro_batch;
                    if (!sent[message]) continue;
                    ranks[from % K].under_way[task.pass]--;
                }
                me->computed = true;
                moved = true;
                if (room > 0 || to < 0 || to > last || to % K == p) continue;
                /* Begins to send, and goes on when it has been taken. */
                sent[(2 * stage + (int)task.pass) * M + task.micro_batch] = true;
                ++*under_way;
                continue;
            }
            if (to >= 0 && to <= last) {
                bool waits = room > 0 ? *under_way >= room : *under_way > 0;
                if (to % K != p && waits) continue;
                if (room > 0 || to % K == p) {
                    sent[(2 * stage + (int)task.pass) * M + task.micro_batch] = true;
                    ++*under_way;
                }
            }
            me->computed = false;
            me->next++;
            moved = true;
        }
    }
    for (int p = 0; p < K; p++) all = all && ranks[p].next == schedule->n_tasks;
    free(ranks);
    free(sent);
    return all;
}

static bool made_runs(ls_schedule_kind kind, int stages, int micro_batches, int chunks, int room)
{
    ls_schedule *schedule = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, kind, stages, micro_batches, chunks), LS_OK);
    bool all = runs(schedule, room);
    ls_schedule_destroy(&schedule);
    return all;
}

/* 1F1B works only where a sender goes on (two neighbours that both stand in a send to each other
 * never end); GPipe would do without. */
START_TEST(blocking_sends)
{
    for (int stages = 2; stages <= 5; stages++) {
        for (int micro_batches = 1; micro_batches <= 6; micro_batches++) {
            ck_assert(made_runs(LS_GPIPE, stages, micro_batches, 1, 0));
            ck_assert_int_eq(made_runs(LS_1F1B, stages, micro_batches, 1, 0), micro_batches == 1);
        }
    }
}
END_TEST

/* One message per direction is enough where groups have the size of the pipeline. */
START_TEST(one_message_under_way)
{
    for (int stages = 1; stages <= 8; stages++) {
        for (int micro_batches = 1; micro_batches <= 16; micro_batches++) {
            ck_assert(made_runs(LS_GPIPE, stages, micro_batches, 1, 1));
            ck_assert(made_runs(LS_1F1B, stages, micro_batches, 1, 1));
            for (int chunks = 2; chunks <= 4; chunks++)
                if (micro_batches % stages == 0 || micro_batches <= stages)
                    ck_assert(made_runs(LS_INTERLEAVED, stages, micro_batches, chunks, 1));
        }
    }
}
END_TEST

/* A group larger than the pipeline passes rank 0 by before it comes round: messages wait there. */
START_TEST(larger_groups_need_more)
{
    ck_assert(!made_runs(LS_INTERLEAVED, 2, 5, 2, 1));
    ck_assert(made_runs(LS_INTERLEAVED, 2, 5, 2, 2));
    ck_assert(!made_runs(LS_INTERLEAVED, 4, 11, 2, 2));
    ck_assert(made_runs(LS_INTERLEAVED, 4, 11, 2, 3));
    ck_assert(!made_runs(LS_INTERLEAVED, 8, 23, 2, 4));
    ck_assert(made_runs(LS_INTERLEAVED, 8, 23, 2, 5));
    for (int stages = 1; stages <= 8; stages++)
        for (int micro_batches = 1; micro_batches <= 24; micro_batches++)
            for (int chunks = 2; chunks <= 3; chunks++)
                ck_assert(made_runs(LS_INTERLEAVED, stages, micro_batches, chunks, stages));
}
END_TEST

int main(void)
{
    TCase *cases = test_case("under way", 0);
    tcase_add_test(cases, blocking_sends);
    tcase_add_test(cases, one_message_under_way);
    tcase_add_test(cases, larger_groups_need_more);
    return run_tests();
}
