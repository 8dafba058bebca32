/* Schedules in time: against drawings made by hand, a clock that ticks, and the closed formulas. */
#include <check.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/timeline.h"
#include "pipeline/schedule_rows.h"
#include "run_tests.h"

static ls_schedule *make(ls_schedule_kind kind, int stages, int micro_batches, int chunks)
{
    ls_schedule *schedule = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, kind, stages, micro_batches, chunks), LS_OK);
    return schedule;
}

static ls_timeline *lay(const ls_schedule *schedule, int forward, int backward)
{
    ls_timeline *timeline = NULL;
    ck_assert_msg(ls_timeline_create(&timeline, schedule, forward, backward) == LS_OK, "%s",
                  ls_error_text());
    return timeline;
}

static void check_text(const ls_timeline *timeline, bool compact, const char *expected)
{
    char text[4096];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    ls_timeline_text(file, timeline, compact);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(text, expected);
}

/* Pictures drawn by hand: each rank's passes, its idle time, the bubble. */
static const struct {
    ls_schedule_kind kind;
    int stages, micro_batches, chunks, forward, backward;
    int64_t makespan, idle, over, under;
    const char *names, *compact;
} pictures[] = {
    /* Naive: one rank works at a time, three quarters of the time of four are idle. */
    {LS_GPIPE, 4, 1, 1, 1, 1, 8, 6, 3, 4,
     "rank 0 F0 .. .. .. .. .. .. B0\n"
     "rank 1 .. F0 .. .. .. .. B0 ..\n"
     "rank 2 .. .. F0 .. .. B0 .. ..\n"
     "rank 3 .. .. .. F0 B0 .. .. ..\n",
     "rank 0 0......a\nrank 1 .0....a.\nrank 2 ..0..a..\nrank 3 ...0a...\n"},
    /* GPipe, Figure 2c. */
    {LS_GPIPE, 4, 4, 1, 1, 1, 14, 6, 3, 7,
     "rank 0 F0 F1 F2 F3 .. .. .. .. .. .. B3 B2 B1 B0\n"
     "rank 1 .. F0 F1 F2 F3 .. .. .. .. B3 B2 B1 B0 ..\n"
     "rank 2 .. .. F0 F1 F2 F3 .. .. B3 B2 B1 B0 .. ..\n"
     "rank 3 .. .. .. F0 F1 F2 F3 B3 B2 B1 B0 .. .. ..\n",
     "rank 0 0123......dcba\nrank 1 .0123....dcba.\nrank 2 ..0123..dcba..\n"
     "rank 3 ...0123dcba...\n"},
    /* 1F1B with a backward pass of two forward passes. */
    {LS_1F1B, 2, 3, 1, 1, 2, 12, 3, 1, 4,
     "rank 0 F0 F1 .. .. B0=== F2 B1=== .. B2===\n"
     "rank 1 .. F0 B0=== F1 B1=== F2 B2=== .. ..\n",
     "rank 0 01..aa2bb.cc\nrank 1 .0aa1bb2cc..\n"},
    {LS_1F1B, 3, 2, 1, 1, 1, 8, 4, 1, 2,
     "rank 0 F0 F1 .. .. .. B0 .. B1\n"
     "rank 1 .. F0 F1 .. B0 .. B1 ..\n"
     "rank 2 .. .. F0 B0 F1 B1 .. ..\n",
     "rank 0 01...a.b\nrank 1 .01.a.b.\nrank 2 ..0a1b..\n"},
    /* Costs of 4 and 6: columns of 2. */
    {LS_GPIPE, 1, 2, 1, 4, 6, 20, 0, 0, 1, "rank 0 F0=== F1=== B1====== B0======\n",
     "rank 0 0011bbbaaa\n"},
    /* The published picture of interleaving (Figure 4, bottom) at two ranks. */
    {LS_INTERLEAVED, 2, 2, 2, 1, 1, 10, 2, 1, 5,
     "rank 0 F0.0 F1.0 F0.1 F1.1 .... .... B0.1 B1.1 B0.0 B1.0\n"
     "rank 1 .... F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0 ....\n",
     "rank 0 0101..abab\nrank 1 .0101abab.\n"},
    {LS_INTERLEAVED, 3, 1, 2, 1, 1, 12, 8, 2, 3,
     "rank 0 F0.0 .... .... F0.1 .... .... .... .... B0.1 .... .... B0.0\n"
     "rank 1 .... F0.0 .... .... F0.1 .... .... B0.1 .... .... B0.0 ....\n"
     "rank 2 .... .... F0.0 .... .... F0.1 B0.1 .... .... B0.0 .... ....\n",
     "rank 0 0..0....a..a\nrank 1 .0..0..a..a.\nrank 2 ..0..0a..a..\n"},
};

START_TEST(timelines_are_the_pictures)
{
    ls_schedule *schedule = make(pictures[_i].kind, pictures[_i].stages, pictures[_i].micro_batches,
                                 pictures[_i].chunks);
    ls_timeline *timeline = lay(schedule, pictures[_i].forward, pictures[_i].backward);
    ck_assert_int_eq(timeline->makespan, pictures[_i].makespan);
    for (int p = 0; p < schedule->stages; p++)
        ck_assert_int_eq(timeline->idle[p], pictures[_i].idle);
    ls_ratio bubble = ls_timeline_bubble(timeline);
    ck_assert_int_eq(bubble.over, pictures[_i].over);
    ck_assert_int_eq(bubble.under, pictures[_i].under);
    check_text(timeline, false, pictures[_i].names);
    check_text(timeline, true, pictures[_i].compact);
    ls_timeline_destroy(&timeline);
    ck_assert_ptr_null(timeline);
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&schedule);
}
END_TEST

/* Names of different lengths stay in their columns, no line ends in blanks, ranks line up. */
START_TEST(wide_names_keep_their_columns)
{
    static const char *const rows[] = {"F10 F9 B9 B10 F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 "
                                       "B7 F8 B8"};
    ls_task tasks[32];
    ls_schedule schedule = read_rows(LS_1F1B, 1, 11, 1, rows, tasks, 32);
    ls_timeline *timeline = lay(&schedule, 1, 1);
    check_text(timeline, false,
               "rank 0 F10 F9  B9  B10 F0  B0  F1  B1  F2  B2  F3  B3  F4  B4  F5  B5  F6  B6  F7  "
               "B7  F8  B8\n");
    check_text(timeline, true, "rank 0 09jk0a1b2c3d4e5f6g7h8i\n");
    ls_timeline_destroy(&timeline);
    ls_schedule *eleven = make(LS_GPIPE, 11, 1, 1);
    timeline = lay(eleven, 1, 1);
    check_text(timeline, true,
               "rank 0  0....................a\nrank 1  .0..................a.\n"
               "rank 2  ..0................a..\nrank 3  ...0..............a...\n"
               "rank 4  ....0............a....\nrank 5  .....0..........a.....\n"
               "rank 6  ......0........a......\nrank 7  .......0......a.......\n"
               "rank 8  ........0....a........\nrank 9  .........0..a.........\n"
               "rank 10 ..........0a..........\n");
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&eleven);
}
END_TEST

static int slot_of(int stage, ls_pass pass, int micro_batch, int micro_batches)
{
    return (2 * stage + (pass == LS_BACKWARD)) * micro_batches + micro_batch;
}

/* A clock that ticks, as an independent truth: at every tick each free rank looks whether the
 * next task of its list has what it needs. ends: per stage, pass and micro-batch. */
static void check_by_clock(const ls_timeline *timeline)
{
    const ls_schedule *schedule = timeline->schedule;
    int K = schedule->stages, M = schedule->micro_batches, last = K * schedule->chunks - 1;
    size_t slots = (size_t)(last + 1) * 2 * (size_t)M;
    int64_t *ends = malloc(slots * sizeof *ends), *busy = calloc((size_t)K, sizeof *busy);
    int64_t end = 0;
    int *next = calloc((size_t)K, sizeof *next), left = K * schedule->n_tasks;
    ck_assert(ends != NULL && busy != NULL && next != NULL);
    for (size_t i = 0; i < slots; i++) ends[i] = INT64_MAX;
    for (int64_t now = 0; left > 0; now++) {
        ck_assert_int_lt(now, 100000);
        for (int p = 0; p < K; p++) {
            if (next[p] == schedule->n_tasks || busy[p] > now) continue;
            ls_task task = ls_schedule_of(schedule, p)[next[p]];
            int stage = task.chunk * K + p, m = task.micro_batch;
            int64_t cost = timeline->forward_cost, ready = 0;
            if (task.pass == LS_FORWARD) {
                if (stage > 0) ready = ends[slot_of(stage - 1, LS_FORWARD, m, M)];
            } else {
                cost = timeline->backward_cost;
                ready = ends[slot_of(stage, LS_FORWARD, m, M)];
                if (stage < last && ends[slot_of(stage + 1, LS_BACKWARD, m, M)] > ready)
                    ready = ends[slot_of(stage + 1, LS_BACKWARD, m, M)];
            }
            if (ready > now) continue;
            ck_assert_int_eq(ls_timeline_of(timeline, p)[next[p]].start, now);
            ck_assert_int_eq(ls_timeline_of(timeline, p)[next[p]].end, now + cost);
            ends[slot_of(stage, task.pass, m, M)] = busy[p] = now + cost;
            if (now + cost > end) end = now + cost;
            next[p]++;
            left--;
        }
    }
    ck_assert_int_eq(timeline->makespan, end);
    free(ends);
    free(busy);
    free(next);
}

/* Live activations counted in time: at the end of each forward pass, how many passes of the rank
 * (in one chunk, or in all) have begun forward and not ended backward. */
static int live_in_time(const ls_timeline *timeline, int rank, int chunk)
{
    const ls_task *tasks = ls_schedule_of(timeline->schedule, rank);
    const ls_interval *when = ls_timeline_of(timeline, rank);
    int n = timeline->schedule->n_tasks, most = 0;
    for (int at = 0; at < n; at++) {
        int live = 0;
        for (int i = 0; i < n; i++) {
            if (chunk >= 0 && tasks[i].chunk != chunk) continue;
            if (tasks[i].pass == LS_FORWARD && when[i].start < when[at].end) live++;
            if (tasks[i].pass == LS_BACKWARD && when[i].end < when[at].end) live--;
        }
        if (live > most) most = live;
    }
    return most;
}

/* Bubble and live activations of every size follow the formulas, and the clock. */
START_TEST(every_size_follows_the_formulas)
{
    static const int costs[][2] = {{1, 1}, {1, 2}, {3, 5}};
    int stages = _i;
    for (int kind = LS_GPIPE; kind <= LS_INTERLEAVED; kind++) {
        for (int micro_batches = 1; micro_batches <= 16; micro_batches++) {
            for (int chunks = 1; chunks <= (kind == LS_INTERLEAVED ? 4 : 1); chunks++) {
                ls_schedule *schedule = make((ls_schedule_kind)kind, stages, micro_batches, chunks);
                ls_ratio formula = ls_bubble_formula(stages, micro_batches, chunks);
                for (int c = 0; c < 3; c++) {
                    ls_timeline *timeline = lay(schedule, costs[c][0], costs[c][1]);
                    ls_ratio bubble = ls_timeline_bubble(timeline);
                    ck_assert_msg(bubble.over == formula.over && bubble.under == formula.under,
                                  "K %d M %d V %d", stages, micro_batches, chunks);
                    if (micro_batches >= stages)
                        ck_assert_int_eq(formula.over * (chunks * micro_batches + stages - 1),
                                         formula.under * (stages - 1));
                    if (c == 1) check_by_clock(timeline);
                    for (int p = 0; p < stages && c == 0; p++) {
                        for (int chunk = -1; chunk < chunks; chunk++)
                            ck_assert_int_eq(ls_schedule_live(schedule, p, chunk),
                                             live_in_time(timeline, p, chunk));
                        ck_assert_int_eq(ls_schedule_live(schedule, p, -1),
                                         ls_live_formula((ls_schedule_kind)kind, stages,
                                                         micro_batches, chunks, p));
                    }
                    ls_timeline_destroy(&timeline);
                }
                ls_schedule_destroy(&schedule);
            }
        }
    }
}
END_TEST

/* The formulas against numbers worked out by hand. */
START_TEST(bubbles_of_known_sizes)
{
    static const struct {
        int stages, micro_batches, chunks;
        int64_t over, under;
    } cases[] = {
        {1, 1, 1, 0, 1},  {1, 7, 1, 0, 1},   {2, 1, 1, 1, 2},    {4, 1, 1, 3, 4},
        {8, 1, 1, 7, 8},  {2, 2, 1, 1, 3},   {4, 4, 1, 3, 7},    {4, 8, 1, 3, 11},
        {4, 8, 2, 3, 19}, {8, 32, 1, 7, 39}, {64, 3, 1, 21, 22}, {4, 3, 1, 1, 2},
        {2, 4, 2, 1, 9},  {4, 16, 1, 3, 19}, {2, 5, 3, 1, 16},   {4, 10, 2, 3, 23},
        {4, 2, 2, 5, 9},  {3, 1, 4, 2, 3},   {8, 12, 2, 7, 31},  {35, 2520, 1, 17, 1277},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_ratio bubble =
            ls_bubble_formula(cases[i].stages, cases[i].micro_batches, cases[i].chunks);
        ck_assert_int_eq(bubble.over, cases[i].over);
        ck_assert_int_eq(bubble.under, cases[i].under);
    }
    /* GPipe, Table 2, ideal throughput K M / (M + K - 1) = K (1 - bubble). */
    static const int ranks[] = {2, 4, 8}, batches[] = {1, 4, 32};
    static const double ideal[3][3] = {{1, 1, 1}, {1.6, 2.29, 2.91}, {1.94, 3.66, 6.56}};
    for (int m = 0; m < 3; m++) {
        for (int k = 0; k < 3; k++) {
            ls_ratio b = ls_bubble_formula(ranks[k], batches[m], 1);
            double speed_up = ranks[k] * (double)(b.under - b.over) / (double)b.under;
            ck_assert_double_eq_tol(speed_up, ideal[m][k], 0.0051);
        }
    }
    /* PTD-P's measure, idle over work: (K - 1) / M, and (K - 1) / (V M). */
    ls_ratio b = ls_bubble_formula(4, 8, 2);
    ck_assert_int_eq(b.over * 16, (b.under - b.over) * 3);
}
END_TEST

/* Live activations by hand. 1F1B keeps min(K - p, M) on rank p, not one more or less. Interleaving
 * keeps more than 1F1B on purpose: 11 passes of half the layers for K = 4, V = 2. */
static const struct {
    ls_schedule_kind kind;
    int stages, micro_batches, chunks;
    int together[4], in_chunk[2][4];
} live_cases[] = {
    {LS_GPIPE, 4, 8, 1, {8, 8, 8, 8}, {{8, 8, 8, 8}, {0}}},
    {LS_GPIPE, 4, 1, 1, {1, 1, 1, 1}, {{1, 1, 1, 1}, {0}}},
    {LS_1F1B, 4, 8, 1, {4, 3, 2, 1}, {{4, 3, 2, 1}, {0}}},
    {LS_1F1B, 4, 2, 1, {2, 2, 2, 1}, {{2, 2, 2, 1}, {0}}},
    {LS_1F1B, 4, 3, 1, {3, 3, 2, 1}, {{3, 3, 2, 1}, {0}}},
    {LS_1F1B, 2, 5, 1, {2, 1}, {{2, 1}, {0}}},
    {LS_INTERLEAVED, 4, 8, 2, {11, 9, 7, 5}, {{8, 8, 7, 5}, {4, 4, 3, 1}}},
    {LS_INTERLEAVED, 2, 2, 2, {4, 4}, {{2, 2}, {2, 2}}},
    {LS_INTERLEAVED, 2, 4, 2, {5, 3}, {{4, 3}, {2, 1}}},
    {LS_INTERLEAVED, 3, 1, 2, {2, 2, 2}, {{1, 1, 1}, {1, 1, 1}}},
    {LS_INTERLEAVED, 1, 2, 2, {2}, {{2}, {1}}},
};

START_TEST(live_activations_of_known_sizes)
{
    int stages = live_cases[_i].stages, chunks = live_cases[_i].chunks;
    ls_schedule *schedule = make(live_cases[_i].kind, stages, live_cases[_i].micro_batches, chunks);
    for (int p = 0; p < stages; p++) {
        ck_assert_int_eq(ls_schedule_live(schedule, p, -1), live_cases[_i].together[p]);
        ck_assert_int_eq(
            ls_live_formula(schedule->kind, stages, schedule->micro_batches, chunks, p),
            live_cases[_i].together[p]);
        for (int c = 0; c < chunks; c++)
            ck_assert_int_eq(ls_schedule_live(schedule, p, c), live_cases[_i].in_chunk[c][p]);
    }
    ls_schedule_destroy(&schedule);
}
END_TEST

/* Seven sequences in three micro-batches are 3, 2, 2; bytes per sequence 10 in chunk 0, 1 in chunk
 * 1, summed while they live. */
START_TEST(live_bytes_are_weighed)
{
    static const size_t bytes[2][3] = {{30, 20, 20}, {3, 2, 2}};
    ls_schedule *gpipe = make(LS_GPIPE, 3, 3, 1), *one = make(LS_1F1B, 2, 3, 1);
    ls_schedule *interleaved = make(LS_INTERLEAVED, 2, 3, 2);
    ck_assert_uint_eq(ls_schedule_live_bytes(gpipe, 2, bytes[0]), 70);
    ck_assert_uint_eq(ls_schedule_live_bytes(one, 0, bytes[0]), 50);
    ck_assert_uint_eq(ls_schedule_live_bytes(one, 1, bytes[0]), 30);
    ck_assert_uint_eq(ls_schedule_live_bytes(interleaved, 0, bytes[0]), 77);
    ck_assert_uint_eq(ls_schedule_live_bytes(interleaved, 1, bytes[0]), 73);
    ls_schedule_destroy(&gpipe);
    ls_schedule_destroy(&one);
    ls_schedule_destroy(&interleaved);
}
END_TEST

/* Rank 0 keeps 1 + (K - 1) / (K V) times the layers of K micro-batches (Korthikanti et al.). */
START_TEST(first_rank_of_the_interleaved_schedule)
{
    for (int K = 2; K <= 8; K++) {
        for (int V = 2; V <= 4; V++) {
            ls_schedule *schedule = make(LS_INTERLEAVED, K, 3 * K, V);
            ck_assert_int_eq(ls_schedule_live(schedule, 0, -1), V * K + K - 1);
            ls_schedule_destroy(&schedule);
        }
    }
}
END_TEST

START_TEST(bad_input_is_refused)
{
    static const int costs[][2] = {{0, 1}, {1, 0}, {-1, 1}, {1048577, 1}, {1, INT_MAX}};
    static const char *const rows[] = {"F0 B0 F1 B1", "F0 F1 B0 B1"};
    ls_schedule *schedule = make(LS_1F1B, 2, 2, 1), blocked;
    ls_timeline saved, *timeline = &saved;
    ls_task tasks[8];
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        char expected[128];
        ls_error_clear();
        ck_assert_int_eq(ls_timeline_create(&timeline, schedule, costs[i][0], costs[i][1]),
                         LS_ERR_INPUT);
        snprintf(expected, sizeof expected,
                 "timeline: a forward pass of %d, a backward pass of %d; use 1 to 1048576",
                 costs[i][0], costs[i][1]);
        ck_assert_str_eq(ls_error_text(), expected);
    }
    ls_error_clear();
    blocked = read_rows(LS_1F1B, 2, 2, 1, rows, tasks, 8);
    ck_assert_int_eq(ls_timeline_create(&timeline, &blocked, 1, 1), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "in a circle: rank 0's B0"));
    ck_assert_ptr_eq(timeline, &saved);
    ls_schedule_destroy(&schedule);
}
END_TEST

int main(void)
{
    TCase *cases = test_case("timeline", 0);
    tcase_add_loop_test(cases, timelines_are_the_pictures, 0, COUNT(pictures));
    tcase_add_test(cases, wide_names_keep_their_columns);
    tcase_add_loop_test(cases, every_size_follows_the_formulas, 1, 9);
    tcase_add_test(cases, bubbles_of_known_sizes);
    tcase_add_loop_test(cases, live_activations_of_known_sizes, 0, COUNT(live_cases));
    tcase_add_test(cases, live_bytes_are_weighed);
    tcase_add_test(cases, first_rank_of_the_interleaved_schedule);
    tcase_add_test(cases, bad_input_is_refused);
    return run_tests();
}
