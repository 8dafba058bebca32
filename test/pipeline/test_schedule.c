/* Schedules against tables written by hand from the papers' figures, over a grid of sizes, and
 * with faults put in. */
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/schedule.h"
#include "pipeline/schedule_rows.h"
#include "run_tests.h"

enum { TABLE_ROWS = 4, ROOM = 256 };

typedef struct table {
    ls_schedule_kind kind;
    int stages, micro_batches, chunks;
    const char *rows[TABLE_ROWS];
} table;

static const table tables[] = {
    /* The naive pipeline: one micro-batch. */
    {LS_GPIPE, 1, 1, 1, {"F0 B0"}},
    {LS_GPIPE, 3, 1, 1, {"F0 B0", "F0 B0", "F0 B0"}},
    {LS_1F1B, 1, 1, 1, {"F0 B0"}},
    {LS_1F1B, 4, 1, 1, {"F0 B0", "F0 B0", "F0 B0", "F0 B0"}},
    /* GPipe, arXiv 1811.06965, Figure 2c: four devices, four micro-batches. */
    {LS_GPIPE,
     4,
     4,
     1,
     {"F0 F1 F2 F3 B3 B2 B1 B0", "F0 F1 F2 F3 B3 B2 B1 B0", "F0 F1 F2 F3 B3 B2 B1 B0",
      "F0 F1 F2 F3 B3 B2 B1 B0"}},
    {LS_GPIPE, 1, 3, 1, {"F0 F1 F2 B2 B1 B0"}},
    {LS_GPIPE, 2, 3, 1, {"F0 F1 F2 B2 B1 B0", "F0 F1 F2 B2 B1 B0"}},
    {LS_GPIPE, 3, 2, 1, {"F0 F1 B1 B0", "F0 F1 B1 B0", "F0 F1 B1 B0"}},
    /* 1F1B, arXiv 2104.04473, Figure 4 (top): four devices, eight micro-batches. */
    {LS_1F1B,
     4,
     8,
     1,
     {"F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7",
      "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
      "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
      "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"}},
    {LS_1F1B, 1, 3, 1, {"F0 B0 F1 B1 F2 B2"}},
    {LS_1F1B, 2, 2, 1, {"F0 F1 B0 B1", "F0 B0 F1 B1"}},
    {LS_1F1B, 2, 4, 1, {"F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"}},
    {LS_1F1B, 3, 3, 1, {"F0 F1 F2 B0 B1 B2", "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"}},
    /* Fewer micro-batches than stages: the warm-up takes what there is. */
    {LS_1F1B, 4, 2, 1, {"F0 F1 B0 B1", "F0 F1 B0 B1", "F0 F1 B0 B1", "F0 B0 F1 B1"}},
    {LS_1F1B,
     4,
     3,
     1,
     {"F0 F1 F2 B0 B1 B2", "F0 F1 F2 B0 B1 B2", "F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2"}},
    /* Interleaved, arXiv 2104.04473, Figure 4 (bottom): four devices, two chunks each, eight
     * micro-batches. A warm-up of 10, 8, 6, 4, not of 3, 2, 1, 0 as for 1F1B. */
    {LS_INTERLEAVED,
     4,
     8,
     2,
     {"F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 "
      "F6.1 B0.0 F7.1 B1.0 B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 B0.1 F5.0 B1.1 F6.0 B2.1 F7.0 B3.1 F4.1 B0.0 "
      "F5.1 B1.0 F6.1 B2.0 F7.1 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 B0.1 F3.1 B1.1 F4.0 B2.1 F5.0 B3.1 F6.0 B0.0 F7.0 B1.0 "
      "F4.1 B2.0 F5.1 B3.0 F6.1 B4.1 F7.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
      "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 "
      "F7.0 B3.0 F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0"}},
    {LS_INTERLEAVED,
     2,
     4,
     2,
     {"F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0",
      "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"}},
    /* As many micro-batches as ranks, or fewer: everything forward first. */
    {LS_INTERLEAVED,
     2,
     2,
     2,
     {"F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0", "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0"}},
    {LS_INTERLEAVED,
     3,
     1,
     2,
     {"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.1 B0.0"}},
    /* Three micro-batches on two ranks: one group of three. Five: groups of three and two. */
    {LS_INTERLEAVED,
     2,
     3,
     2,
     {"F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 B1.1 B2.1 B0.0 B1.0 B2.0",
      "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 B0.0 B1.0 B2.0"}},
    {LS_INTERLEAVED,
     2,
     5,
     2,
     {"F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0 B1.1 F4.0 B2.1 F3.1 B0.0 F4.1 B1.0 B2.0 B3.1 B4.1 "
      "B3.0 B4.0",
      "F0.0 F1.0 F2.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.0 B0.0 F4.0 B1.0 F3.1 B2.0 F4.1 B3.1 B4.1 "
      "B3.0 B4.0"}},
    /* One rank: a micro-batch goes straight through its chunks. */
    {LS_INTERLEAVED, 1, 2, 2, {"F0.0 F0.1 B0.1 F1.0 B0.0 F1.1 B1.1 B1.0"}},
    {LS_INTERLEAVED, 1, 1, 3, {"F0.0 F0.1 F0.2 B0.2 B0.1 B0.0"}},
    /* One chunk: 1F1B. */
    {LS_INTERLEAVED, 2, 2, 1, {"F0 F1 B0 B1", "F0 B0 F1 B1"}},
};

/* The published warm-up of interleaving differs from 1F1B's; a schedule is pinned by its table. */
START_TEST(schedules_are_the_published_ones)
{
    const table *t = &tables[_i];
    ls_schedule *schedule = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, t->kind, t->stages, t->micro_batches, t->chunks),
                     LS_OK);
    ck_assert_int_eq(schedule->kind, t->kind);
    ck_assert_int_eq(schedule->stages, t->stages);
    ck_assert_int_eq(schedule->micro_batches, t->micro_batches);
    ck_assert_int_eq(schedule->chunks, t->chunks);
    for (int p = 0; p < t->stages; p++) {
        char row[1024];
        write_row(schedule, p, row, sizeof row);
        ck_assert_str_eq(row, t->rows[p]);
    }
    ls_schedule_destroy(&schedule);
    ck_assert_ptr_null(schedule);
    ls_schedule_destroy(&schedule);
}
END_TEST

/* Every number of ranks, micro-batches (below, at and above the ranks, dividing or not) and virtual
 * stages gives a complete schedule that can be executed. */
START_TEST(every_size_can_be_executed)
{
    int stages = _i;
    for (int micro_batches = 1; micro_batches <= 16; micro_batches++) {
        for (int chunks = 1; chunks <= 4; chunks++) {
            for (int kind = LS_GPIPE; kind <= LS_INTERLEAVED; kind++) {
                ls_schedule *schedule = NULL;
                if (kind != LS_INTERLEAVED && chunks > 1) continue;
                ck_assert_int_eq(ls_schedule_create(&schedule, (ls_schedule_kind)kind, stages,
                                                    micro_batches, chunks),
                                 LS_OK);
                ck_assert_int_eq(schedule->n_tasks, 2 * micro_batches * chunks);
                ck_assert_msg(ls_schedule_check(schedule) == LS_OK, "K %d M %d V %d %s: %s", stages,
                              micro_batches, chunks, ls_schedule_kind_name(schedule->kind),
                              ls_error_text());
                ls_schedule_destroy(&schedule);
            }
        }
    }
}
END_TEST

/* One chunk interleaved is 1F1B, whatever the numbers. */
START_TEST(one_chunk_interleaved_is_1f1b)
{
    for (int stages = 1; stages <= 6; stages++) {
        for (int micro_batches = 1; micro_batches <= 13; micro_batches++) {
            ls_schedule *a = NULL, *b = NULL;
            ck_assert_int_eq(ls_schedule_create(&a, LS_1F1B, stages, micro_batches, 1), LS_OK);
            ck_assert_int_eq(ls_schedule_create(&b, LS_INTERLEAVED, stages, micro_batches, 1),
                             LS_OK);
            ck_assert_int_eq(
                memcmp(a->tasks, b->tasks, (size_t)(stages * a->n_tasks) * sizeof *a->tasks), 0);
            ls_schedule_destroy(&a);
            ls_schedule_destroy(&b);
        }
    }
}
END_TEST

/* The largest pipelines. */
START_TEST(largest_sizes)
{
    static const int sizes[][3] = {{256, 1, 1}, {256, 300, 1}, {64, 67, 4}, {64, 200, 4},
                                   {1, 5, 256}, {128, 31, 2},  {2, 9, 128}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls_schedule *schedule = NULL;
        ck_assert_int_eq(
            ls_schedule_create(&schedule, LS_INTERLEAVED, sizes[i][0], sizes[i][1], sizes[i][2]),
            LS_OK);
        ck_assert_msg(ls_schedule_check(schedule) == LS_OK, "%s", ls_error_text());
        ls_schedule_destroy(&schedule);
    }
}
END_TEST

/* Hand-made schedules that are unusual and right. */
START_TEST(unusual_schedules_are_accepted)
{
    static const char *const rows[] = {"F1 F0 B0 B1", "F1 F0 B1 B0", "F1 B1 F0 B0"};
    static const char *const chunks[] = {"F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0",
                                         "F0.0 F0.1 B0.1 B0.0 F1.0 F1.1 B1.1 B1.0"};
    ls_task tasks[ROOM];
    ls_schedule schedule;
    schedule = read_rows(LS_1F1B, 2, 2, 1, rows, tasks, ROOM);
    ck_assert_msg(ls_schedule_check(&schedule) == LS_OK, "%s", ls_error_text());
    schedule = read_rows(LS_1F1B, 1, 2, 1, rows + 2, tasks, ROOM);
    ck_assert_msg(ls_schedule_check(&schedule) == LS_OK, "%s", ls_error_text());
    schedule = read_rows(LS_INTERLEAVED, 2, 2, 2, chunks, tasks, ROOM);
    ck_assert_msg(ls_schedule_check(&schedule) == LS_OK, "%s", ls_error_text());
}
END_TEST

/* Faults put in by hand, and the words that name them. */
static const struct {
    int stages, micro_batches, chunks;
    const char *rows[TABLE_ROWS];
    const char *text;
} faults[] = {
    /* Two operations swapped. */
    {2,
     2,
     1,
     {"F0 F1 B0 B1", "F0 B1 F1 B0"},
     "schedule: tasks wait for each other in a circle: rank 1's B1 waits for rank 1's F1, which "
     "stands behind B1"},
    {2,
     2,
     1,
     {"F0 B0 F1 B1", "F0 F1 B0 B1"},
     "schedule: tasks wait for each other in a circle: rank 0's B0 waits for rank 1's B0, which "
     "stands behind F1; rank 1's F1 waits for rank 0's F1, which stands behind B0"},
    {3,
     2,
     1,
     {"F0 B0 F1 B1", "F0 F1 B0 B1", "F1 F0 B0 B1"},
     "schedule: tasks wait for each other in a circle: rank 0's B0 waits for rank 1's B0, which "
     "stands behind F1; rank 1's F1 waits for rank 0's F1, which stands behind B0"},
    {2,
     2,
     2,
     {"F0.0 F0.1 F1.0 F1.1 B0.1 B1.1 B0.0 B1.0", "F1.0 F0.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0"},
     "schedule: tasks wait for each other in a circle: rank 0's F0.1 waits for rank 1's F0.0, "
     "which "
     "stands behind F1.0; rank 1's F1.0 waits for rank 0's F1.0, which stands behind F0.1"},
    /* One task twice, none, an unknown one. */
    {2,
     2,
     1,
     {"F0 F1 B0 B1", "F0 B0 F0 B1"},
     "schedule: pipeline rank 1 has F0 twice, as its tasks 0 and 2; each pass is done once"},
    {1,
     1,
     2,
     {"F0.0 F0.1 B0.1 B0.1"},
     "schedule: pipeline rank 0 has B0.1 twice, as its tasks 2 and 3; each pass is done once"},
    {2,
     2,
     1,
     {"F0 F1 B0", "F0 B0 F1"},
     "schedule: pipeline rank 0 has no B1; it needs the forward and the backward pass of "
     "micro-batches 0 to 1 in chunks 0 to 0"},
    {2,
     1,
     2,
     {"F0.0 F0.1 B0.1", "F0.0 B0.1 B0.0"},
     "schedule: pipeline rank 0 has no B0.0; it needs the forward and the backward pass of "
     "micro-batches 0 to 0 in chunks 0 to 1"},
    {2,
     2,
     1,
     {"F0 F1 B0 B1", "F0 F2 B0 B1"},
     "schedule: task 1 of pipeline rank 1 is pass 0 of micro-batch 2 in chunk 0; passes are 0 "
     "(forward) and 1, micro-batches 0 to 1, chunks 0 to 0"},
    {1,
     1,
     1,
     {"F0 B0.1"},
     "schedule: task 1 of pipeline rank 0 is pass 1 of micro-batch 0 in chunk 1; passes are 0 "
     "(forward) and 1, micro-batches 0 to 0, chunks 0 to 0"},
    {0,
     1,
     1,
     {NULL},
     "schedule: 0 pipeline ranks, 1 chunks, 1 micro-batches, 0 tasks per rank; each is 1 or more, "
     "ranks times chunks at most 256, and an int counts all passes"},
};

START_TEST(faults_are_named)
{
    ls_task tasks[ROOM];
    ls_schedule schedule = read_rows(LS_1F1B, faults[_i].stages, faults[_i].micro_batches,
                                     faults[_i].chunks, faults[_i].rows, tasks, ROOM);
    for (int again = 0; again < 2; again++) {
        ls_error_clear();
        ck_assert_int_eq(ls_schedule_check(&schedule), LS_ERR_INPUT);
        ck_assert_str_eq(ls_error_text(), faults[_i].text);
    }
}
END_TEST

/* Why no group of micro-batches is smaller than the pipeline: five micro-batches on four ranks with
 * three chunks, in groups of four and one, by the same rule otherwise. */
START_TEST(a_short_group_would_block)
{
    enum { K = 4, M = 5, V = 3, EACH = M * V };
    static const int firsts[] = {0, 4, 5};
    ls_task queue[2][EACH], tasks[K * 2 * EACH];
    ls_schedule schedule = {LS_INTERLEAVED, K, V, M, 2 * EACH, tasks};
    int n = 0;
    for (int g = 0; g < 2; g++) {
        for (int c = 0; c < V; c++) {
            for (int m = firsts[g]; m < firsts[g + 1]; m++, n++) {
                queue[0][n] = (ls_task){LS_FORWARD, c, m};
                queue[1][n] = (ls_task){LS_BACKWARD, V - 1 - c, m};
            }
        }
    }
    for (int p = 0; p < K; p++) {
        ls_task *row = tasks + p * 2 * EACH;
        int warm_up = (V - 1) * K + 2 * (K - 1 - p), forward = 0;
        while (forward < warm_up && forward < EACH) *row++ = queue[0][forward++];
        for (int backward = 0; backward < EACH; backward++) {
            if (forward < EACH) *row++ = queue[0][forward++];
            *row++ = queue[1][backward];
        }
    }
    ck_assert_int_eq(ls_schedule_check(&schedule), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "in a circle: rank "));
}
END_TEST

/* Two neighbouring tasks of one rank swapped, everywhere in a schedule: some swaps can be executed
 * still (two independent passes); those of a forward pass and its own backward pass, the last
 * rank's six, never. */
START_TEST(swaps_are_judged)
{
    ls_schedule *schedule = NULL;
    int circles = 0;
    ck_assert_int_eq(ls_schedule_create(&schedule, LS_1F1B, 4, 6, 1), LS_OK);
    for (int p = 0; p < 4; p++) {
        ls_task *row = schedule->tasks + p * schedule->n_tasks;
        for (int i = 0; i + 1 < schedule->n_tasks; i++) {
            ls_task a = row[i], b = row[i + 1];
            row[i] = b;
            row[i + 1] = a;
            ls_error_clear();
            bool fails = ls_schedule_check(schedule) == LS_ERR_INPUT;
            if (fails) ck_assert_ptr_nonnull(strstr(ls_error_text(), "in a circle: rank "));
            ck_assert_int_eq(fails, a.pass == LS_FORWARD && a.micro_batch == b.micro_batch);
            circles += fails;
            row[i] = a;
            row[i + 1] = b;
        }
    }
    ck_assert_int_eq(ls_schedule_check(schedule), LS_OK);
    ck_assert_int_eq(circles, 6);
    ls_schedule_destroy(&schedule);
}
END_TEST

static const struct {
    ls_schedule_kind kind;
    int stages, micro_batches, chunks;
    const char *text;
} bad[] = {
    {LS_GPIPE, 2, 0, 1, "--micro-batches 0: a batch has 1 micro-batch or more"},
    {LS_1F1B, 2, -3, 1, "--micro-batches -3: a batch has 1 micro-batch or more"},
    {LS_1F1B, 0, 1, 1, "--pp 0: a pipeline has 1 to 256 stages"},
    {LS_1F1B, 257, 1, 1, "--pp 257: a pipeline has 1 to 256 stages"},
    {LS_INTERLEAVED, 2, 2, 0, "--virtual-stages 0: a rank has 1 virtual stage or more"},
    {LS_GPIPE, 2, 2, 2,
     "--virtual-stages 2: --schedule gpipe has 1 virtual stage per rank; use --schedule "
     "interleaved "
     "or --virtual-stages 1"},
    {LS_1F1B, 2, 2, 3,
     "--virtual-stages 3: --schedule 1f1b has 1 virtual stage per rank; use --schedule interleaved "
     "or --virtual-stages 1"},
    {LS_INTERLEAVED, 100, 2, 3,
     "--virtual-stages 3: 300 stages on 100 pipeline ranks, at most 256 are possible; use at most "
     "2 "
     "virtual stages"},
    {LS_INTERLEAVED, 2, 2, INT_MAX,
     "--virtual-stages 2147483647: 4294967294 stages on 2 pipeline ranks, at most 256 are "
     "possible; "
     "use at most 128 virtual stages"},
    {LS_INTERLEAVED, 2, INT_MAX, 4,
     "--micro-batches 2147483647: at most 134217727 with --pp 2, --virtual-stages 4"},
};

START_TEST(bad_numbers_are_refused)
{
    ls_schedule saved, *schedule = &saved;
    ck_assert_int_eq(ls_schedule_create(&schedule, bad[_i].kind, bad[_i].stages,
                                        bad[_i].micro_batches, bad[_i].chunks),
                     LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), bad[_i].text);
    ck_assert_ptr_eq(schedule, &saved);
}
END_TEST

int main(void)
{
    TCase *cases = test_case("schedule", 0);
    tcase_add_loop_test(cases, schedules_are_the_published_ones, 0, COUNT(tables));
    tcase_add_loop_test(cases, every_size_can_be_executed, 1, 9);
    tcase_add_test(cases, one_chunk_interleaved_is_1f1b);
    tcase_add_test(cases, largest_sizes);
    tcase_add_test(cases, unusual_schedules_are_accepted);
    tcase_add_loop_test(cases, faults_are_named, 0, COUNT(faults));
    tcase_add_test(cases, a_short_group_would_block);
    tcase_add_test(cases, swaps_are_judged);
    tcase_add_loop_test(cases, bad_numbers_are_refused, 0, COUNT(bad));
    return run_tests();
}
