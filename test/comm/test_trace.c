/* The event trace: what a known program did, in order, and which events belong together. */
#include "comm/comm_test.h"
#include "lockstep/comm/trace.h"

/* ---- helpers, on the main thread */

static size_t count_kind(const ls_event_log *log, int rank, ls_event_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < log->n_events[rank]; i++) n += log->events[rank][i].kind == kind;
    return n;
}

/* Communication number i of a rank, from 0; NULL: it has fewer. */
static const ls_event *communication(const ls_event_log *log, int rank, size_t i)
{
    for (size_t e = 0; e < log->n_events[rank]; e++) {
        const ls_event *event = &log->events[rank][e];
        if (event->kind != LS_EVENT_COMPUTE && i-- == 0) return event;
    }
    return NULL;
}

/* Events follow each other without a gap or overlap, and their CPU time is not above the wall time
 * by more than the clocks' grain. */
static void check_order(const ls_event_log *log)
{
    for (int r = 0; r < log->ranks; r++) {
        ck_assert(log->n_events[r] > 0);
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_event *e = &log->events[r][i];
            ck_assert(e->begin_ns <= e->end_ns);
            if (i > 0) ck_assert(e->begin_ns == log->events[r][i - 1].end_ns);
            ck_assert(e->cpu_ns <= e->end_ns - e->begin_ns + 20000000);
            ck_assert((e->group < 0) == (e->kind == LS_EVENT_COMPUTE));
            ck_assert((e->call == NULL) == (e->kind == LS_EVENT_COMPUTE));
        }
    }
}

/* Every receive has one send with its sender, number, tag and group; every member of a collective
 * has an event of its group and number. */
static void check_matches(const ls_event_log *log)
{
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_event *e = &log->events[r][i];
            size_t found = 0;
            if (e->kind == LS_EVENT_RECEIVE) {
                for (size_t k = 0; k < log->n_events[e->peer]; k++) {
                    const ls_event *s = &log->events[e->peer][k];
                    bool posts = s->kind == LS_EVENT_SEND || s->kind == LS_EVENT_SEND_LEFT ||
                                 s->kind == LS_EVENT_SEND_BEGIN;
                    if (!posts || s->number != e->number) continue;
                    ck_assert(s->peer == r && s->tag == e->tag && s->group == e->group);
                    found++;
                }
                ck_assert_msg(found == 1, "receive of rank %d: %zu sends", r, found);
            }
            if (e->kind == LS_EVENT_COLLECTIVE) {
                const ls_event_group *group = &log->groups[e->group];
                for (int m = 0; m < group->size; m++) {
                    int other = group->world_ranks[m];
                    for (size_t k = 0; k < log->n_events[other]; k++) {
                        const ls_event *o = &log->events[other][k];
                        if (o->kind != LS_EVENT_COLLECTIVE || o->group != e->group ||
                            o->number != e->number)
                            continue;
                        ck_assert_str_eq(o->call, e->call);
                        found++;
                    }
                }
                ck_assert_msg(found == (size_t)group->size, "%s: %zu of %d members", e->call, found,
                              group->size);
            }
        }
}

enum { MANY = 64 };
static ls_comm_count counted[MANY][LS_OP_COUNT];
static uint64_t cpu_in_all[MANY]; /* of the rank's thread, at its end */

static void note_counts(const ls_rank *rank)
{
    for (int op = 0; op < LS_OP_COUNT; op++)
        counted[ls_rank_index(rank)][op] = ls_rank_count(rank, (ls_operation)op);
    cpu_in_all[ls_rank_index(rank)] = ls_clock_thread_cpu_ns();
}

/* Calls and bytes of the trace are those of ls_rank_count: nothing lost, nothing twice. */
static void check_counts(const ls_event_log *log)
{
    for (int r = 0; r < log->ranks; r++) {
        ls_comm_count seen[LS_OP_COUNT + 1] = {{0, 0}};
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_event *e = &log->events[r][i];
            if (e->kind == LS_EVENT_COMPUTE) continue;
            seen[e->operation].calls++;
            seen[e->operation].bytes += e->bytes;
        }
        for (int op = 0; op < LS_OP_COUNT; op++) {
            ck_assert_msg(seen[op].calls == counted[r][op].calls, "rank %d: %d calls of %s, not %d",
                          r, (int)seen[op].calls, ls_operation_name((ls_operation)op),
                          (int)counted[r][op].calls);
            ck_assert(seen[op].bytes == counted[r][op].bytes);
        }
    }
}

static void check_all(const ls_event_log *log)
{
    check_order(log);
    check_matches(log);
    check_counts(log);
}

/* ---- a known program */

static void work(uint64_t cpu_ns)
{
    uint64_t end = ls_clock_thread_cpu_ns() + cpu_ns;
    while (ls_clock_thread_cpu_ns() < end) {
    }
}

static ls_status known(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank), *pair = NULL;
    int r = ls_rank_index(rank);
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    ls_isend *sending = NULL;
    LS_TRY(ls_group_split(world, r == 2 ? -1 : 0, 0, "pair", &pair));
    ls_trace_task(rank, "forward", 7, r, 3);
    work(3000000);
    LS_TRY(ls_broadcast(world, x, 6, LS_F32, 1));
    ls_trace_task(rank, NULL, -1, -1, -1);
    if (r == 0) {
        LS_TRY(ls_send(world, 2, 11, x, 5, LS_F32));
        LS_TRY(ls_send_begin(pair, 1, -4, x, 3, LS_F32, &sending));
        LS_TRY(ls_send_end(&sending));
    } else if (r == 1) {
        LS_TRY(ls_receive(pair, 0, -4, y, 3, LS_F32));
    } else {
        LS_TRY(ls_receive(world, 0, 11, y, 5, LS_F32));
    }
    /* Whoever has looked does not wait any more. */
    if (r == 0) {
        LS_TRY(ls_send_begin(pair, 1, 9, x, 2, LS_F32, &sending));
        while (!ls_send_is_over(sending)) LS_TRY(ls_rank_check(rank));
        LS_TRY(ls_send_end(&sending));
    } else if (r == 1) {
        LS_TRY(ls_receive(pair, 0, 9, y, 2, LS_F32));
    }
    ls_trace_task(rank, "update", 7, -1, -1);
    LS_TRY(ls_barrier(world));
    note_counts(rank);
exit:
    return status;
}

typedef struct expected_event {
    ls_event_kind kind;
    const char *call, *what;
    int group;
    uint64_t number;
    int peer, tag;
    uint64_t bytes;
} expected_event;

static void check_expected(const ls_event_log *log, int rank, const expected_event *expected,
                           size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const expected_event *x = &expected[i];
        const ls_event *e = communication(log, rank, i);
        ck_assert_ptr_nonnull(e);
        ck_assert_int_eq(e->kind, x->kind);
        ck_assert_str_eq(e->call, x->call);
        ck_assert_pstr_eq(e->what, x->what);
        ck_assert_int_eq(e->group, x->group);
        ck_assert_uint_eq(e->number, x->number);
        ck_assert_int_eq(e->peer, x->peer);
        ck_assert_int_eq(e->tag, x->tag);
        ck_assert_uint_eq(e->bytes, x->bytes);
    }
    ck_assert_ptr_null(communication(log, rank, n));
}

START_TEST(known_program)
{
    static const expected_event rank_0[] = {
        {LS_EVENT_COLLECTIVE, "group_split", NULL, 0, 1, -1, 0, 0},
        {LS_EVENT_COLLECTIVE, "broadcast", "forward", 0, 2, -1, 0, 0},
        {LS_EVENT_SEND, "send", NULL, 0, 1, 2, 11, 20},
        {LS_EVENT_SEND_BEGIN, "send_begin", NULL, 1, 2, 1, -4, 12},
        {LS_EVENT_SEND_END, "send_end", NULL, 1, 2, 1, -4, 0},
        {LS_EVENT_SEND_BEGIN, "send_begin", NULL, 1, 3, 1, 9, 8},
        {LS_EVENT_COLLECTIVE, "barrier", "update", 0, 3, -1, 0, 0}};
    static const expected_event rank_1[] = {
        {LS_EVENT_COLLECTIVE, "group_split", NULL, 0, 1, -1, 0, 0},
        {LS_EVENT_COLLECTIVE, "broadcast", "forward", 0, 2, -1, 0, 24},
        {LS_EVENT_RECEIVE, "receive", NULL, 1, 2, 0, -4, 0},
        {LS_EVENT_RECEIVE, "receive", NULL, 1, 3, 0, 9, 0},
        {LS_EVENT_COLLECTIVE, "barrier", "update", 0, 3, -1, 0, 0}};
    static const expected_event rank_2[] = {
        {LS_EVENT_COLLECTIVE, "group_split", NULL, 0, 1, -1, 0, 0},
        {LS_EVENT_COLLECTIVE, "broadcast", "forward", 0, 2, -1, 0, 0},
        {LS_EVENT_RECEIVE, "receive", NULL, 0, 1, 0, 11, 0},
        {LS_EVENT_COLLECTIVE, "barrier", "update", 0, 3, -1, 0, 0}};
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    ck_assert_int_eq(ls_trace_log(trace)->ranks, 0);
    ls_world_options options = {.trace = trace};
    for (int twice = 0; twice < 2; twice++) { /* the second run starts over */
        run_well(3, &options, known, NULL);
        const ls_event_log *log = ls_trace_log(trace);
        ck_assert_int_eq(log->ranks, 3);
        ck_assert_int_eq(log->n_groups, 2);
        ck_assert_str_eq(log->groups[0].name, "world");
        ck_assert_int_eq(log->groups[0].size, 3);
        ck_assert_str_eq(log->groups[1].name, "pair");
        ck_assert_int_eq(log->groups[1].size, 2);
        ck_assert_int_eq(log->groups[1].world_ranks[1], 1);
        check_all(log);
        check_expected(log, 0, rank_0, 7);
        check_expected(log, 1, rank_1, 5);
        check_expected(log, 2, rank_2, 4);
        /* The labelled work: all its CPU time is in computing under its label. */
        for (int r = 0; r < 3; r++) {
            uint64_t cpu = 0, all = 0;
            size_t n = 0;
            const ls_event *events = ls_trace_events(trace, r, &n);
            for (size_t i = 0; i < n; i++) {
                all += events[i].cpu_ns;
                if (events[i].kind != LS_EVENT_COMPUTE || events[i].what == NULL ||
                    strcmp(events[i].what, "forward") != 0)
                    continue;
                cpu += events[i].cpu_ns;
                ck_assert_int_eq(events[i].step, 7);
                ck_assert_int_eq(events[i].stage, r);
                ck_assert_int_eq(events[i].micro_batch, 3);
            }
            ck_assert(cpu >= 2900000);
            /* Every moment of the thread counts once. */
            ck_assert(all >= 3000000 && all <= cpu_in_all[r] + 2000000);
        }
    }
    ls_trace_destroy(&trace);
    ck_assert_ptr_null(trace);
}
END_TEST

/* ---- every operation, many ranks, delays, both capacities */

static ls_status every_operation(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *rounds = argument;
    ls_group *world = ls_rank_world_group(rank), *group = NULL;
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    int right = (r + 1) % size, left = (r + size - 1) % size;
    size_t *starts = calloc((size_t)size + 1, sizeof *starts);
    size_t *counts = calloc((size_t)size * (size_t)size, sizeof *counts);
    int32_t *x = calloc((size_t)size, sizeof *x), *y = calloc((size_t)size, sizeof *y);
    float *z = calloc(2 * (size_t)size, sizeof *z), *w = calloc(2 * (size_t)size, sizeof *w);
    for (int i = 0; i <= size; i++) starts[i] = (size_t)i;
    for (int i = 0; i < size * size; i++) counts[i] = 1;
    ls_forest forest = {(size_t)size, starts};
    ls_isend *sending = NULL;
    LS_TRY(ls_group_split(world, r % 3, -r, "third", &group));
    for (int i = 0; i < *rounds; i++) {
        ls_trace_task(rank, "round", i, -1, -1);
        LS_TRY(ls_all_gather(world, y, x, starts, LS_I32));
        LS_TRY(ls_all_gather_columns(world, y, x, 1, starts, LS_I32));
        LS_TRY(ls_all_to_all(world, y, x, counts, LS_I32));
        LS_TRY(ls_all_reduce(group, x, x, 1, LS_I32, LS_REDUCE_MAX));
        LS_TRY(ls_all_reduce_forest(world, w, z, 1, LS_F32, &forest));
        LS_TRY(ls_reduce_scatter_forest(world, w, z, starts, LS_F32, &forest));
        LS_TRY(ls_reduce_scatter_columns_forest(world, w, z, 1, starts, LS_F32, &forest));
        LS_TRY(ls_barrier(group));
        if (size == 1) continue;
        LS_TRY(ls_send_begin(world, right, i, x, 1, LS_I32, &sending));
        LS_TRY(ls_receive(world, left, i, y, 1, LS_I32));
        LS_TRY(ls_send_end(&sending));
        LS_TRY(ls_send_receive(world, left, 3, x, 1, right, 3, y, 1, LS_I32));
        if (r % 2 == 0 && r + 1 < size) LS_TRY(ls_send(world, right, 5, x, 1, LS_I32));
        if (r % 2 == 1) LS_TRY(ls_receive(world, left, 5, x, 1, LS_I32));
    }
    note_counts(rank);
exit:
    free(starts);
    free(counts);
    free(x);
    free(y);
    free(z);
    free(w);
    return status;
}

START_TEST(nothing_is_lost)
{
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    static const int sizes[] = {1, 2, 3, 4, 7, 12, MANY};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++) {
            if (sizes[i] == MANY && k == 2) continue;
            int rounds = sizes[i] == MANY ? 3 : 12;
            ls_world_options options = {.trace = trace, .channel_capacity = k == 1};
            if (k == 2) options.delay_seed = 3, options.delay_max_ns = 50000;
            run_well(sizes[i], &options, every_operation, &rounds);
            const ls_event_log *log = ls_trace_log(trace);
            check_all(log);
            size_t expected = sizes[i] == 1 ? 0 : (size_t)rounds;
            for (int r = 0; r < log->ranks; r++) {
                ck_assert_uint_eq(count_kind(log, r, LS_EVENT_SEND_END),
                                  k == 1 ? expected : 2 * expected);
                ck_assert_uint_eq(count_kind(log, r, LS_EVENT_COLLECTIVE), 8 * (size_t)rounds + 1);
                bool sends = sizes[i] > 1 && r % 2 == 0 && r + 1 < sizes[i];
                ck_assert_uint_eq(count_kind(log, r, k == 1 ? LS_EVENT_SEND_LEFT : LS_EVENT_SEND),
                                  sends ? expected : 0);
            }
            /* The same groups in the same order in every run. */
            ck_assert_int_eq(log->n_groups, sizes[i] < 3 ? 1 + sizes[i] : 4);
            for (int g = 1; g < log->n_groups; g++) {
                const ls_event_group *group = &log->groups[g];
                ck_assert_str_eq(group->name, "third");
                for (int m = 1; m < group->size; m++)
                    ck_assert_int_eq(group->world_ranks[m - 1] - group->world_ranks[m], 3);
                if (g > 1) ck_assert(group->world_ranks[0] > log->groups[g - 1].world_ranks[0]);
            }
        }
    ls_trace_destroy(&trace);
}
END_TEST

/* ---- off, and failures */

static ls_status without(ls_rank *rank, void *argument)
{
    (void)argument;
    ls_trace_task(rank, "forward", 1, 2, 3);
    int rounds = 2;
    return every_operation(rank, &rounds);
}

static ls_status fail_in_a_call(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    float x = 0;
    for (int i = 0; i < 600; i++) LS_TRY(ls_barrier(world));
    if (ls_rank_index(rank) == 1) LS_FAIL(LS_ERR_IO, "now");
    LS_TRY(ls_send(world, 9, 0, &x, 1, LS_F32)); /* no such member: no event */
exit:
    return status;
}

START_TEST(off_and_failures)
{
    run_well(5, NULL, without, NULL);
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    ls_world_options options = {.trace = trace};
    for (int i = 0; i < 5; i++) {
        ls_error_clear();
        ck_assert(ls_world_run(3, &options, fail_in_a_call, NULL) != LS_OK);
        ck_assert_int_eq(ls_trace_log(trace)->ranks, 0);
    }
    run_well(3, &options, known, NULL);
    check_all(ls_trace_log(trace));
    ls_trace_destroy(&trace);
    ls_trace_destroy(&trace);
}
END_TEST

START_TEST(kinds_have_names)
{
    for (int k = 0; k < LS_EVENT_KINDS; k++) {
        ck_assert_str_ne(ls_event_kind_name((ls_event_kind)k), "?");
        for (int j = 0; j < k; j++)
            ck_assert_str_ne(ls_event_kind_name((ls_event_kind)k),
                             ls_event_kind_name((ls_event_kind)j));
    }
}
END_TEST

TEST_MAIN("trace", known_program, nothing_is_lost, off_and_failures, kinds_have_names)
