/* Parts of a traced task: layers of a network, and what their messages are for. */
#include "comm/comm_test.h"
#include "lockstep/base/clock.h"
#include "lockstep/comm/trace.h"

static void work(uint64_t cpu_ns)
{
    uint64_t end = ls_clock_thread_cpu_ns() + cpu_ns;
    while (ls_clock_thread_cpu_ns() < end) {
    }
}

static ls_status parts(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    const int r = ls_rank_index(rank);
    float x[2] = {1, 2}, y[2];
    char layer[16] = "conv2", purpose[16] = "halo"; /* overwritten below: both are copied */
    ls_trace_task(rank, "forward", 1, 0, 0);
    ls_trace_part(rank, layer, purpose);
    work(1000000);
    LS_TRY(ls_send_receive(world, 1 - r, 3, x, 2, 1 - r, 3, y, 2, LS_F32));
    LS_TRY(ls_broadcast(world, x, 2, LS_F32, 0));
    snprintf(layer, sizeof layer, "pool");
    snprintf(purpose, sizeof purpose, "gone");
    ls_trace_part(rank, layer, NULL);
    work(1000000);
    LS_TRY(ls_send_receive(world, 1 - r, 3, x, 2, 1 - r, 3, y, 2, LS_F32));
    ls_trace_task(rank, "update", 1, -1, -1);
    work(1000000);
    LS_TRY(ls_barrier(world));
exit:
    return status;
}

/* How often an event that has a part is called so. */
static int titled(const ls_event_log *log, int rank, const char *title)
{
    int n = 0;
    char text[96];
    for (size_t i = 0; i < log->n_events[rank]; i++) {
        const ls_event *event = &log->events[rank][i];
        if (event->part == NULL) continue;
        ls_event_title(event, event->group >= 0 ? log->groups[event->group].name : "", text,
                       sizeof text);
        n += strcmp(text, title) == 0;
    }
    return n;
}

START_TEST(parts_have_titles)
{
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    ls_world_options options = {.trace = trace};
    for (int twice = 0; twice < 2; twice++) {
        run_well(2, &options, parts, NULL);
        const ls_event_log *log = ls_trace_log(trace);
        for (int r = 0; r < 2; r++) {
            ck_assert_int_ge(titled(log, r, "forward conv2"), 1);
            ck_assert_int_eq(titled(log, r, "halo conv2 send_begin"), 1);
            ck_assert_int_eq(titled(log, r, "halo conv2 receive"), 1);
            ck_assert_int_eq(titled(log, r, "conv2 broadcast world"), 1);
            ck_assert_int_ge(titled(log, r, "forward pool"), 1);
            ck_assert_int_eq(titled(log, r, "pool receive"), 1);
            for (size_t i = 0; i < log->n_events[r]; i++) {
                const ls_event *event = &log->events[r][i];
                const bool ended = event->what == NULL || strcmp(event->what, "update") == 0;
                ck_assert(!ended || event->part == NULL);
                ck_assert(event->purpose == NULL ||
                          (event->kind != LS_EVENT_COMPUTE && event->kind != LS_EVENT_COLLECTIVE));
            }
        }
    }
    ls_trace_destroy(&trace);
    run_well(2, NULL, parts, NULL); /* without a trace */
}
END_TEST

TEST_MAIN("trace_parts", parts_have_titles)
