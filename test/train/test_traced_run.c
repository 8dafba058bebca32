/* Traces of real training runs: what the pipelines did has the bubble and the live activations that
 * the formulas give, whatever this machine's clocks said. */
#include <stdlib.h>
#include <unistd.h>

#include "lockstep/pipeline/replay.h"
#include "run_fixture.h"
#include "train/trace_file.h"
#include "run_tests.h"

static const char *const PATH = "traced_run_test.json";

/* Trains a small model for `steps` steps in this layout and reads the trace. */
static ls_trace_file *trace_run(const ls_layout *layout, uint64_t steps, ls_dtype dtype,
                                int capacity, char digest[65])
{
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, steps);
    ls_train_result result;
    ls_trace_file *file = NULL;
    run.serial = false;
    run.layout = *layout;
    run.dtype = dtype;
    run.batch = 9;
    run.world.channel_capacity = capacity;
    run.trace = PATH;
    ls_error_clear();
    ls_status status = ls_train(&run, NULL, &result);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    status = ls_trace_file_read(PATH, &file);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    memcpy(digest, result.digest, 65);
    ls_train_result_free(&result);
    unlink(PATH);
    return file;
}

static bool is_pass(const ls_event *event, bool *ret_forward)
{
    if (event->what == NULL || event->step < 0) return false;
    *ret_forward = strcmp(event->what, "forward") == 0;
    return *ret_forward || strcmp(event->what, "backward") == 0;
}

/* Where the pass that event i is part of ends. */
static size_t end_of_pass(const ls_event *events, size_t n, size_t i)
{
    size_t end = i;
    while (end < n && events[end].what != NULL && strcmp(events[end].what, events[i].what) == 0 &&
           events[end].stage == events[i].stage &&
           events[end].micro_batch == events[i].micro_batch && events[end].step == events[i].step)
        end++;
    return end;
}

/* Every pass costs `forward` or `backward`, paid once its input is there; all else is free. */
static void set_costs(ls_event_log *log, uint64_t forward, uint64_t backward)
{
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0, end; i < log->n_events[r]; i = end) {
            ls_event *events = log->events[r];
            bool is_forward;
            end = i + 1;
            events[i].cpu_ns = 0;
            if (!is_pass(&events[i], &is_forward)) continue;
            end = end_of_pass(events, log->n_events[r], i);
            size_t after = i;
            for (size_t k = i; k < end; k++) {
                events[k].cpu_ns = 0;
                if (events[k].kind == LS_EVENT_RECEIVE) after = k;
            }
            while (after < end && events[after].kind != LS_EVENT_COMPUTE) after++;
            ck_assert_msg(after < end, "a pass without work");
            events[after].cpu_ns = is_forward ? forward : backward;
        }
}

/* The most forward passes of a rank whose backward pass has not begun. */
static int live(const ls_event_log *log, int r)
{
    int now = 0, most = 0;
    for (size_t i = 0, end; i < log->n_events[r]; i = end) {
        bool is_forward;
        end = i + 1;
        if (!is_pass(&log->events[r][i], &is_forward)) continue;
        end = end_of_pass(log->events[r], log->n_events[r], i);
        now += is_forward ? 1 : -1;
        if (now > most) most = now;
    }
    ck_assert_int_eq(now, 0);
    return most;
}

static void check_pipeline(ls_schedule_kind kind, int K, int M, int V)
{
    ls_layout layout = ls_layout_serial();
    ls_link free_link = {0.0, 0.0};
    ls_replay *replay = NULL;
    char digest[65];
    layout.pp = K;
    layout.micro_batches = M;
    layout.virtual_stages = V;
    layout.schedule = kind;
    ls_trace_file *file = trace_run(&layout, 1, LS_F32, 0, digest);
    ck_assert_int_eq(file->log.ranks, K);
    ck_assert_int_eq(file->facts.pp, K);
    ck_assert_str_eq(file->facts.schedule, ls_schedule_kind_name(kind));
    ck_assert_uint_eq(file->facts.steps, 1);
    ck_assert(file->facts.serial_step_ns > 0 && file->facts.wall_ns > 0);
    set_costs(&file->log, 1000, 2000);
    ls_error_clear();
    ls_status status = ls_replay_create(&replay, &file->log, PATH, &free_link);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    ck_assert(replay->steps_only);
    ls_ratio found = ls_replay_bubble(replay), formula = ls_bubble_formula(K, M, V);
    ck_assert_msg(found.over == formula.over && found.under == formula.under,
                  "%s, K %d, M %d, V %d: bubble %lld/%lld, not %lld/%lld",
                  ls_schedule_kind_name(kind), K, M, V, (long long)found.over,
                  (long long)found.under, (long long)formula.over, (long long)formula.under);
    if (V == 1) ck_assert_int_eq(replay->makespan_ns, 3000 * (M + K - 1));
    for (int r = 0; r < K; r++) {
        ck_assert_int_eq(replay->shares[r].compute_ns, 3000 * M * V);
        ck_assert_int_eq(live(&file->log, r), ls_live_formula(kind, K, M, V, r));
    }
    ls_replay_destroy(&replay);
    ls_trace_file_free(&file);
}

/* "Pipeline bubble (K-1)/(M+K-1)", naive (K-1)/K, interleaved (K-1)/(VM+K-1): of a real run. */
START_TEST(bubbles_of_real_runs)
{
    for (int K = 1; K <= 4; K++)
        for (int M = 1; M <= 8; M += K == 3 ? 2 : 3) {
            check_pipeline(LS_GPIPE, K, M, 1);
            check_pipeline(LS_1F1B, K, M, 1);
        }
    check_pipeline(LS_INTERLEAVED, 2, 2, 2);
    check_pipeline(LS_INTERLEAVED, 2, 4, 2);
    check_pipeline(LS_INTERLEAVED, 2, 8, 2);
    check_pipeline(LS_1F1B, 4, 6, 1);
}
END_TEST

/* Every axis at once, several steps, both capacities: a trace that fits together, and the bits of
 * the run without one. */
START_TEST(grids_leave_whole_traces)
{
    ls_layout layout = ls_layout_serial();
    char digest[2][65], plain[65] = "";
    ls_link link = {2000.0, 10.0};
    layout.tp = layout.pp = layout.dp = 2;
    layout.sp = true;
    layout.micro_batches = 3;
    layout.schedule = LS_1F1B;
    for (int capacity = 0; capacity < 2; capacity++) {
        ls_replay *replay = NULL;
        ls_trace_file *file = trace_run(&layout, 3, LS_F64, capacity, digest[capacity]);
        ck_assert_int_eq(file->log.ranks, 8);
        ls_error_clear();
        ls_status status = ls_replay_create(&replay, &file->log, PATH, &link);
        ck_assert_msg(status == LS_OK, "%s", ls_error_text());
        ck_assert(replay->makespan_ns > 0);
        for (int r = 0; r < 8; r++) {
            ck_assert_int_eq(file->stage_of[r], r / 4);
            ck_assert(replay->shares[r].compute_ns > 0);
            ck_assert(replay->shares[r].communication_ns > 0);
        }
        ls_replay_destroy(&replay);
        ls_trace_file_free(&file);
    }
    ck_assert_str_eq(digest[0], digest[1]);
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, 3);
    ls_train_result result;
    run.dtype = LS_F64;
    run.batch = 9;
    ck_assert_int_eq(ls_train(&run, NULL, &result), LS_OK);
    memcpy(plain, result.digest, 65);
    ls_train_result_free(&result);
    ck_assert_str_eq(digest[0], plain);
}
END_TEST

/* A run that goes on and saves over the file that it came from; few steps and none. */
START_TEST(runs_that_go_on_are_traced)
{
    static const char checkpoint[] = "traced_run_test.safetensors";
    static const uint64_t steps[] = {1, 7, 7};
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    for (int i = 0; i < 3; i++) {
        ls_run run = fixture_run(&config, &text, steps[i]);
        ls_trace_file *file = NULL;
        ls_train_result result;
        run.serial = false;
        run.layout.tp = 2;
        run.load = i > 0 ? checkpoint : NULL;
        run.save = checkpoint;
        run.trace = PATH;
        ls_error_clear();
        ls_status status = ls_train(&run, NULL, &result);
        ck_assert_msg(status == LS_OK, "%s", ls_error_text());
        ls_train_result_free(&result);
        status = ls_trace_file_read(PATH, &file);
        ck_assert_msg(status == LS_OK, "%s", ls_error_text());
        ck_assert_uint_eq(file->facts.steps, i == 0 ? 1 : i == 1 ? 6 : 0);
        ck_assert_int_eq(file->facts.serial_step_ns > 0, i < 2);
        ls_trace_file_free(&file);
    }
    unlink(checkpoint);
    unlink(PATH);
}
END_TEST

START_TEST(what_cannot_be_traced_is_refused)
{
    ls_config config = fixture_config("gpt2-nano");
    ls_text text = fixture_text();
    ls_run run = fixture_run(&config, &text, 1);
    ls_train_result result;
    run.trace = PATH;
    ls_error_clear();
    ck_assert_int_eq(ls_train(&run, NULL, &result), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "--serial knows no ranks"));
    run.serial = false;
    run.save = PATH;
    ls_error_clear();
    ck_assert_int_eq(ls_train(&run, NULL, &result), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "--save names the same file"));
    run.save = NULL;
    run.trace = "no/such/folder.json";
    ls_error_clear();
    ck_assert_int_eq(ls_train(&run, NULL, &result), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "no/such/folder.json"));
    ck_assert_int_ne(access(PATH, F_OK), 0);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("traced_run", 120);
    tcase_add_test(tcase, bubbles_of_real_runs);
    tcase_add_test(tcase, grids_leave_whole_traces);
    tcase_add_test(tcase, runs_that_go_on_are_traced);
    tcase_add_test(tcase, what_cannot_be_traced_is_refused);
    return run_tests();
}
