/* Schedules made by hand: what cannot be executed is said in one line and nobody waits for ever;
 * what can gives the serial bits in whatever order it comes. And ranks that fail on the way. */
#include "executor_fixture.h"
#include "schedule_rows.h"
#include "run_tests.h"

enum { ROOM_FOR_TASKS = 256 };

static grid_run run_of(const reference *right, const ls_schedule *schedule)
{
    grid_run run = {.right = right, .schedule = schedule, .world = world_of(0)};
    run.layout = ls_layout_serial();
    run.layout.pp = schedule->stages;
    run.layout.micro_batches = schedule->micro_batches;
    run.layout.virtual_stages = schedule->chunks;
    run.layout.schedule = schedule->kind;
    return run;
}

/* It fails, in one line which has `words`. */
static void ck_refused(grid_run *run, ls_status right, const char *words, const char *what)
{
    int ranks = ls_layout_ranks(&run->layout);
    for (int r = 0; r < ranks; r++) run->wrong[r][0] = '\0';
    ls_error_clear();
    ls_status status = ls_world_run(ranks, &run->world, grid_main, run);
    ck_assert_msg(status == right && strstr(ls_error_text(), words) &&
                      !strchr(ls_error_text(), '\n'),
                  "%s: status %d, %s", what, (int)status, ls_error_text());
}

static const struct {
    ls_schedule_kind kind;
    int stages, micro_batches, chunks;
    const char *rows[3];
    const char *words;
} broken[] = {
    /* a micro-batch backward before it was forward */
    {LS_1F1B,
     1,
     2,
     1,
     {"F0 B1 F1 B0"},
     "rank 0's B1 waits for rank 0's F1, which stands behind B1"},
    {LS_1F1B, 2, 2, 1, {"F0 F1 B0 B1", "F0 B1 F1 B0"}, "rank 1's B1 waits for rank 1's F1"},
    /* two operations swapped on one rank of two */
    {LS_1F1B,
     2,
     2,
     1,
     {"F0 B0 F1 B1", "F0 F1 B0 B1"},
     "in a circle: rank 0's B0 waits for rank 1's B0"},
    {LS_1F1B, 3, 2, 1, {"F0 B0 F1 B1", "F0 F1 B0 B1", "F1 F0 B0 B1"}, "in a circle"},
    /* between chunks of one rank, whose activations are never sent */
    {LS_INTERLEAVED,
     1,
     1,
     3,
     {"F0.0 F0.1 B0.0 F0.2 B0.2 B0.1"},
     "rank 0's B0.0 waits for rank 0's B0.1"},
    {LS_INTERLEAVED, 1, 1, 2, {"F0.1 F0.0 B0.1 B0.0"}, "rank 0's F0.1 waits for rank 0's F0.0"},
    {LS_INTERLEAVED, 2, 1, 2, {"F0.0 F0.1 B0.1 B0.0", "F0.1 F0.0 B0.1 B0.0"}, "in a circle"},
    /* a micro-batch twice, and one that is missing for it */
    {LS_1F1B, 2, 2, 1, {"F0 F0 B0 B0", "F0 F1 B0 B1"}, "pipeline rank 0 has F0 twice"},
    {LS_1F1B, 2, 2, 1, {"F0 F1 B0 B1", "F0 B0 F1 B0"}, "pipeline rank 1 has B0 twice"},
    {LS_1F1B, 2, 1, 1, {"F0", "F0"}, "pipeline rank 0 has no B0"},
};

/* Every rank of the layout is told, before anything is sent. */
START_TEST(broken_schedules_are_refused)
{
    ls_task tasks[ROOM_FOR_TASKS];
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 4, 1);
    ls_schedule schedule = read_rows(broken[_i].kind, broken[_i].stages, broken[_i].micro_batches,
                                     broken[_i].chunks, broken[_i].rows, tasks, ROOM_FOR_TASKS);
    grid_run run = run_of(&right, &schedule);
    ck_refused(&run, LS_ERR_INPUT, broken[_i].words, broken[_i].rows[0]);
    run.layout.tp = 2;
    ck_refused(&run, LS_ERR_INPUT, broken[_i].words, broken[_i].rows[0]);
    reference_end(&right);
}
END_TEST

/* Schedules of another size than the layout's. */
START_TEST(schedules_of_another_size)
{
    static const char *const rows[] = {"F0 F1 B0 B1", "F0 B0 F1 B1"};
    ls_task tasks[ROOM_FOR_TASKS];
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 4, 1);
    ls_schedule schedule = read_rows(LS_1F1B, 2, 2, 1, rows, tasks, ROOM_FOR_TASKS);
    grid_run run = run_of(&right, &schedule);
    ck_grid(&run, "as it is");
    run.layout.micro_batches = 3;
    ck_refused(&run, LS_ERR_INPUT, "the layout has pp 2, 3 micro-batches, 1 virtual stages", "M");
    run.layout.micro_batches = 2;
    run.layout.pp = 3;
    ck_refused(&run, LS_ERR_INPUT, "the layout has pp 3, 2 micro-batches, 1 virtual stages", "pp");
    reference_end(&right);
}
END_TEST

/* Two neighbouring tasks of one rank swapped, everywhere in a schedule: what can still be executed
 * gives the same bits (the order of the additions is not that of the tasks), the rest is refused.
 */
START_TEST(every_swap)
{
    static const int sizes[][4] = {{LS_1F1B, 3, 3, 1},
                                   {LS_GPIPE, 2, 3, 1},
                                   {LS_INTERLEAVED, 2, 2, 2},
                                   {LS_INTERLEAVED, 1, 2, 3}};
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 5, 1);
    ls_schedule *schedule;
    int refused = 0, run_through = 0;
    ck_assert_int_eq(ls_schedule_create(&schedule, (ls_schedule_kind)sizes[_i][0], sizes[_i][1],
                                        sizes[_i][2], sizes[_i][3]),
                     LS_OK);
    for (int p = 0; p < schedule->stages; p++) {
        ls_task *row = schedule->tasks + p * schedule->n_tasks;
        for (int i = 0; i + 1 < schedule->n_tasks; i++) {
            ls_task a = row[i], b = row[i + 1];
            row[i] = b;
            row[i + 1] = a;
            grid_run run = run_of(&right, schedule);
            ls_error_clear();
            if (ls_schedule_check(schedule) == LS_OK) {
                ck_grid(&run, "swapped");
                run_through++;
            } else {
                ck_refused(&run, LS_ERR_INPUT, "in a circle: rank ", "swapped");
                refused++;
            }
            row[i] = a;
            row[i + 1] = b;
        }
    }
    ck_assert_int_ge(refused, 1);
    ck_assert_int_ge(run_through, 2);
    ls_schedule_destroy(&schedule);
    reference_end(&right);
}
END_TEST

/* Ranks that do not follow the same schedule, though each one's can be executed: nobody waits for
 * ever, and it is said who waits for whom. */
START_TEST(ranks_that_do_not_agree)
{
    static const char *const rows[][2] = {{"F0 F1 B0 B1", "F0 B0 F1 B1"},
                                          {"F0 F1 B1 B0", "F0 F1 B1 B0"},
                                          {"F0 B0 F1 B1", "F0 B0 F1 B1"},
                                          {"F1 B1 F0 B0", "F1 B1 F0 B0"}};
    /* rank 0 follows the first, rank 1 the second; whether it comes to its end */
    static const int pairs[][3] = {{0, 1, 1}, {2, 1, 0}, {2, 3, 0}, {3, 0, 0}, {0, 0, 1}};
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 4, 1);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        for (int tp = 1; tp <= 2; tp++) {
            ls_task tasks[2][ROOM_FOR_TASKS];
            ls_schedule schedules[2];
            for (int p = 0; p < 2; p++) {
                schedules[p] =
                    read_rows(LS_1F1B, 2, 2, 1, rows[pairs[i][p]], tasks[p], ROOM_FOR_TASKS);
                ck_assert_int_eq(ls_schedule_check(&schedules[p]), LS_OK);
            }
            grid_run run = run_of(&right, schedules);
            run.own_schedule = true;
            run.layout.tp = tp;
            if (pairs[i][2]) {
                ck_grid(&run, "two schedules");
            } else {
                ck_refused(&run, LS_ERR_RANK, "group pp", "two schedules");
                ck_assert_msg(strstr(ls_error_text(), "receive with tag") &&
                                  strstr(ls_error_text(), "wait"),
                              "%s", ls_error_text());
            }
        }
    reference_end(&right);
}
END_TEST

/* ---- a rank that fails ---- */

/* Other sequences than the rank was made for: a batch too short, or the neighbour's. */
static ls_status other_batch_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    grid_run *run = argument;
    ls_batch batch = run->right->step[0].batch;
    ls_sequence_losses losses = {NULL, NULL};
    grid_rank g = {0};
    LS_TRY(grid_begin(&g, rank, run));
    if (run->layout.dp == 1) batch.B--;
    LS_TRY(ls_executor_run(g.executor, &batch, (ls_valid){1, 0}, losses));
exit:
    grid_end(&g);
    return status;
}

START_TEST(batch_of_somebody_else)
{
    static const char *const texts[] = {"3 sequences from 0 on: this rank has 4 from 0 on",
                                        "4 sequences from 0 on: this rank has 2 from "};
    ls_config config = small_config(0, 2);
    reference right;
    reference_of(&right, &config, 4, 1);
    for (int dp = 1; dp <= 2; dp++) {
        grid_run run = {.right = &right, .world = world_of(0)};
        run.layout = ls_layout_serial();
        run.layout.dp = dp;
        run.layout.micro_batches = 2;
        ls_error_clear();
        ck_assert_int_eq(ls_world_run(dp, &run.world, other_batch_rank, &run), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), texts[dp - 1]) != NULL, "%s", ls_error_text());
    }
    reference_end(&right);
}
END_TEST

/* Ctrl-C while a pipeline is at work: everybody comes home. */
static volatile int stop_now;

static ls_status stopped_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    grid_run *run = argument;
    grid_rank g = {0};
    ls_real loss;
    LS_TRY(grid_begin(&g, rank, run));
    for (int turn = 0; turn < 100000; turn++) {
        if (turn == 2 && g.at.pp == run->layout.pp - 1)
            __atomic_store_n(&stop_now, 1, __ATOMIC_RELAXED);
        LS_TRY(grid_gradients(&g, &run->right->step[0].batch, &loss));
    }
exit:
    grid_end(&g);
    return status;
}

START_TEST(interrupted)
{
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 6, 1);
    for (size_t k = 0; k < KINDS; k++)
        for (int tp = 1; tp <= 2; tp++) {
            grid_run run = {.right = &right, .world = world_of(k)};
            run.layout = ls_layout_serial();
            run.layout.pp = 3;
            run.layout.tp = tp;
            run.layout.micro_batches = 6;
            run.layout.schedule = kinds[k].kind;
            run.layout.virtual_stages = kinds[k].chunks;
            run.world.stop = &stop_now;
            __atomic_store_n(&stop_now, 0, __ATOMIC_RELAXED);
            ls_error_clear();
            ck_assert_int_eq(ls_world_run(3 * tp, &run.world, stopped_rank, &run),
                             LS_ERR_INTERRUPTED);
        }
    reference_end(&right);
}
END_TEST

/* A target outside the vocabulary is seen by the last stage alone, when its turn comes: while the
 * other stages have messages under way, or wait. Everybody comes home with the one error. */
START_TEST(failure_in_the_middle)
{
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 7, 1);
    right.ids[0].targets[7 * 3 - 1] = 77;
    for (size_t k = 0; k < KINDS; k++)
        for (size_t i = 0; i < 4; i++) {
            grid_run run = {.right = &right, .world = world_of(i)};
            run.layout = ls_layout_serial();
            run.layout.pp = 3;
            run.layout.tp = 1 + (int)i % 2;
            run.layout.micro_batches = 7;
            run.layout.schedule = kinds[k].kind;
            run.layout.virtual_stages = kinds[k].chunks;
            ck_refused(&run, LS_ERR_INPUT, "target 2 is 77", "a target out of range");
        }
    reference_end(&right);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("trouble", 60);
    tcase_add_loop_test(tests, broken_schedules_are_refused, 0,
                        (int)(sizeof broken / sizeof broken[0]));
    tcase_add_test(tests, schedules_of_another_size);
    tcase_add_loop_test(tests, every_swap, 0, 4);
    tcase_add_test(tests, ranks_that_do_not_agree);
    tcase_add_test(tests, batch_of_somebody_else);
    tcase_add_test(tests, interrupted);
    tcase_add_test(tests, failure_in_the_middle);
    return run_tests();
}
