/* Traces laid out in time: hand-made logs whose makespans are known, and pipelines whose bubbles
 * have formulas. */
#include "pipeline/event_rows.h"
#include "run_tests.h"

static const ls_link FREE = {0.0, 0.0};

static ls_replay *lay_out(const event_rows *rows, ls_link link)
{
    ls_replay *replay = NULL;
    ls_error_clear();
    ls_status status = ls_replay_create(&replay, &rows->log, "t.json", &link);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    ck_assert_int_eq(replay->ranks, rows->log.ranks);
    /* Every rank's events follow each other, and its times add up to the makespan. */
    for (int r = 0; r < replay->ranks; r++) {
        int64_t clock = 0, busy = 0, idle = 0;
        for (size_t i = 0; i < rows->log.n_events[r]; i++) {
            const ls_span *span = &replay->spans[r][i];
            if (span->begin < 0) continue;
            ck_assert(span->begin == clock && span->begin <= span->moving &&
                      span->moving <= span->end);
            clock = span->end;
            if (rows->log.events[r][i].kind == LS_EVENT_COMPUTE)
                busy += span->end - span->begin;
            else
                idle += span->moving - span->begin;
        }
        const ls_rank_share *share = &replay->shares[r];
        ck_assert(clock <= replay->makespan_ns);
        ck_assert_int_eq(share->compute_ns, busy);
        ck_assert_int_eq(share->idle_ns, idle + replay->makespan_ns - clock);
        ck_assert_int_eq(share->compute_ns + share->communication_ns + share->idle_ns,
                         replay->makespan_ns);
    }
    return replay;
}

static void check_makespan(const event_rows *rows, ls_link link, int64_t expected)
{
    ls_replay *replay = lay_out(rows, link);
    ck_assert_int_eq(replay->makespan_ns, expected);
    ls_replay_destroy(&replay);
}

/* ---- messages */

/* Rank 0 works 100 and sends 1000 bytes to rank 1, which has worked `busy` and works 30 more; then
 * rank 0 works 7 more. */
static event_rows *one_message(ls_event_kind kind, uint64_t busy)
{
    event_rows *rows = rows_new(2);
    compute(rows, 1, busy); /* receivers may stand before senders in the log */
    receive(rows, 1, 0, 1);
    compute(rows, 1, 30);
    compute(rows, 0, 100);
    uint64_t number = post(rows, 0, kind, 1, 1000);
    compute(rows, 0, 7);
    if (kind == LS_EVENT_SEND_BEGIN) end_send(rows, 0, 1, number);
    return rows;
}

START_TEST(one_message_one_way)
{
    const ls_link slow = {50.0, 10.0}; /* 1000 bytes take 50 + 100 */
    static const ls_event_kind kinds[] = {LS_EVENT_SEND, LS_EVENT_SEND_LEFT, LS_EVENT_SEND_BEGIN};
    static const struct {
        uint64_t busy;
        int64_t free_end, slow_end;   /* of the receiver */
        int64_t free_sent, slow_sent; /* the receiver has it */
    } cases[] = {{0, 130, 280, 100, 250}, {120, 150, 280, 120, 250}, {400, 430, 430, 400, 400}};
    for (int k = 0; k < 3; k++)
        for (int c = 0; c < 3; c++)
            for (int s = 0; s < 2; s++) {
                event_rows *rows = one_message(kinds[k], cases[c].busy);
                ls_replay *replay = lay_out(rows, s ? slow : FREE);
                int64_t end = s ? cases[c].slow_end : cases[c].free_end;
                int64_t sent = s ? cases[c].slow_sent : cases[c].free_sent;
                ck_assert_int_eq(replay->makespan_ns, end);
                ck_assert_int_eq(replay->spans[1][1].end, sent);
                /* The plain send waits for the receiver, the others go on at once. */
                int64_t went_on = kinds[k] == LS_EVENT_SEND ? sent : 100;
                ck_assert_int_eq(replay->spans[0][1].end, went_on);
                ck_assert_int_eq(replay->spans[0][2].end, went_on + 7);
                if (kinds[k] == LS_EVENT_SEND_BEGIN)
                    ck_assert_int_eq(replay->spans[0][3].end, sent > 107 ? sent : 107);
                /* The receiver idles until it was sent, then the link is at work. */
                int64_t busy = (int64_t)cases[c].busy, moving = busy > 100 ? busy : 100;
                ck_assert_int_eq(replay->spans[1][1].moving, moving);
                ls_replay_destroy(&replay);
                rows_free(&rows);
            }
}
END_TEST

/* n round trips of b bytes with work in between. */
START_TEST(ping_pong)
{
    enum { N = 9, WORK = 11 };
    for (int k = 0; k < 2; k++) {
        event_rows *rows = rows_new(2);
        for (uint64_t i = 1; i <= N; i++) {
            compute(rows, 0, WORK);
            post(rows, 0, k ? LS_EVENT_SEND : LS_EVENT_SEND_BEGIN, 1, 200);
            receive(rows, 0, 1, i);
            receive(rows, 1, 0, i);
            compute(rows, 1, 2 * WORK);
            post(rows, 1, k ? LS_EVENT_SEND : LS_EVENT_SEND_BEGIN, 0, 600);
        }
        check_makespan(rows, FREE, N * 3 * WORK);
        check_makespan(rows, (ls_link){7.0, 0.0}, N * (3 * WORK + 14));
        check_makespan(rows, (ls_link){0.0, 2.0}, N * (3 * WORK + 100 + 300));
        ls_replay *replay = lay_out(rows, FREE);
        ls_ratio bubble = ls_replay_bubble(replay);
        ck_assert_int_eq(bubble.over, 1); /* of two ranks one works at a time */
        ck_assert_int_eq(bubble.under, 2);
        ck_assert_int_eq(replay->shares[0].compute_ns, N * WORK);
        ck_assert_int_eq(replay->shares[1].idle_ns, N * WORK);
        ls_replay_destroy(&replay);
        rows_free(&rows);
    }
}
END_TEST

/* Both begin a send, then receive; a plain send on both would be a circle. */
START_TEST(exchange_and_circle)
{
    event_rows *rows = rows_new(2);
    for (int r = 0; r < 2; r++) {
        compute(rows, r, r ? 40 : 10);
        uint64_t number = post(rows, r, LS_EVENT_SEND_BEGIN, 1 - r, 0);
        receive(rows, r, 1 - r, 1);
        end_send(rows, r, 1 - r, number);
    }
    check_makespan(rows, FREE, 40);
    check_makespan(rows, (ls_link){5.0, 1.0}, 45);
    for (int r = 0; r < 2; r++) rows->log.events[r][1].kind = LS_EVENT_SEND;
    for (int r = 0; r < 2; r++) rows->log.n_events[r] = 3;
    ls_replay *replay = NULL;
    ls_error_clear();
    ck_assert_int_eq(ls_replay_create(&replay, &rows->log, "t.json", &FREE), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "t.json: rank 0, event 1: send waits in a circle of events");
    ck_assert_ptr_null(replay);
    rows_free(&rows);
}
END_TEST

/* ---- collectives */

START_TEST(collectives_wait_for_the_last)
{
    static const struct {
        ls_operation operation;
        uint64_t bytes[4];
        double cost; /* with latency 10 and 2 bytes per ns */
    } cases[] = {
        {LS_OP_BARRIER, {0, 0, 0, 0}, 20},
        {LS_OP_COUNT, {0, 0, 0, 0}, 20}, /* group_split */
        {LS_OP_BROADCAST, {0, 0, 800, 0}, 400 + 20},
        {LS_OP_ALL_REDUCE, {800, 800, 400, 800}, 2 * 0.75 * 400 + 60},
        {LS_OP_REDUCE_SCATTER, {800, 800, 800, 800}, 0.75 * 400 + 30},
        {LS_OP_ALL_GATHER, {100, 300, 0, 400}, 0.75 * 400 + 30},
        {LS_OP_ALL_TO_ALL, {100, 800, 300, 0}, 400 + 30},
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int late = 0; late < 4; late++) {
            event_rows *rows = rows_new(4);
            for (int r = 0; r < 4; r++) {
                compute(rows, r, r == late ? 500 : 10 * (uint64_t)r);
                collective(rows, r, cases[c].operation, 0, 3, cases[c].bytes[r]);
                compute(rows, r, 1);
            }
            check_makespan(rows, FREE, 501);
            check_makespan(rows, (ls_link){10.0, 2.0}, 501 + (int64_t)cases[c].cost);
            ls_replay *replay = lay_out(rows, (ls_link){10.0, 2.0});
            for (int r = 0; r < 4; r++) {
                ck_assert_int_eq(replay->spans[r][1].moving, 500);
                ck_assert_int_eq(replay->shares[r].communication_ns, (int64_t)cases[c].cost);
            }
            ls_replay_destroy(&replay);
            rows_free(&rows);
        }
    /* A group of one waits for nobody. */
    event_rows *rows = rows_new(1);
    collective(rows, 0, LS_OP_ALL_REDUCE, 0, 1, 4000);
    check_makespan(rows, (ls_link){10.0, 2.0}, 0);
    rows_free(&rows);
}
END_TEST

/* Two groups at once: what one waits for does not hold up the other. */
START_TEST(groups_are_separate)
{
    static char name[] = "half";
    static int members[2][2] = {{0, 2}, {3, 1}};
    event_rows *rows = rows_new(4);
    for (int g = 0; g < 2; g++) rows->groups[1 + g] = (ls_event_group){name, 2, members[g]};
    rows->log.n_groups = 3;
    for (int r = 0; r < 4; r++) {
        compute(rows, r, r == 1 ? 900 : 5);
        collective(rows, r, LS_OP_BARRIER, 1 + r % 2, 1, 0);
        compute(rows, r, 20);
    }
    ls_replay *replay = lay_out(rows, FREE);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(replay->spans[r][2].end, r % 2 ? 920 : 25);
    ls_replay_destroy(&replay);
    rows_free(&rows);
}
END_TEST

/* What is of no step is left out when there are steps, and its collectives wait for nobody. */
START_TEST(steps_only)
{
    event_rows *rows = rows_new(2);
    for (int r = 0; r < 2; r++) {
        rows->step = -1;
        compute(rows, r, 1000);
        collective(rows, r, LS_OP_BARRIER, 0, 1, 0);
        post(rows, r, LS_EVENT_SEND_BEGIN, 1 - r, 8); /* received within the step */
        rows->step = 0;
        receive(rows, r, 1 - r, 1);
        compute(rows, r, r ? 30 : 20);
        post(rows, r, LS_EVENT_SEND, 1 - r, 8); /* received after it */
        rows->step = r ? 0 : -1;                /* one member labels it as of the step */
        collective(rows, r, LS_OP_BARRIER, 0, 2, 0);
        rows->step = -1;
        receive(rows, r, 1 - r, 2);
        compute(rows, r, 5000);
    }
    ls_replay *replay = lay_out(rows, (ls_link){3.0, 1.0});
    ck_assert(replay->steps_only);
    ck_assert_int_eq(replay->spans[0][0].begin, -1);
    ck_assert_int_eq(replay->spans[0][6].begin, -1);
    ck_assert_int_eq(replay->spans[1][6].begin, 30);
    ck_assert_int_eq(replay->shares[0].compute_ns, 20);
    ck_assert_int_eq(replay->shares[1].compute_ns, 30);
    ls_replay_destroy(&replay);
    rows_free(&rows);
}
END_TEST

/* ---- pipelines */

/* What a run of this schedule leaves in the log, each pass of cost `forward` or `backward`. */
static event_rows *run_schedule(const ls_schedule *s, uint64_t forward, uint64_t backward)
{
    event_rows *rows = rows_new(s->stages);
    int last = s->stages * s->chunks - 1, M = s->micro_batches;
    size_t messages = (size_t)(last + 1) * (size_t)M * 2;
    uint64_t *numbers = calloc(messages, sizeof *numbers); /* [pass][stage][micro-batch] */
    /* Numbers first: a sender's messages are numbered in its own order. */
    for (int turn = 0; turn < 2; turn++)
        for (int r = 0; r < s->stages; r++) {
            uint64_t sent = 0;
            for (int i = 0; i < s->n_tasks; i++) {
                ls_task task = ls_schedule_of(s, r)[i];
                int stage = task.chunk * s->stages + r, back = task.pass == LS_BACKWARD;
                int from = back ? stage + 1 : stage - 1, to = back ? stage - 1 : stage + 1;
                bool sends = to >= 0 && to <= last && to % s->stages != r;
                bool receives = from >= 0 && from <= last && from % s->stages != r;
                size_t own = ((size_t)back * (size_t)(last + 1) + (size_t)stage) * (size_t)M +
                             (size_t)task.micro_batch;
                if (turn == 0) {
                    if (sends) numbers[own] = ++sent;
                    continue;
                }
                size_t other = ((size_t)back * (size_t)(last + 1) + (size_t)(receives ? from : 0)) *
                                   (size_t)M +
                               (size_t)task.micro_batch;
                if (receives) receive(rows, r, from % s->stages, numbers[other]);
                compute(rows, r, back ? backward : forward);
                if (sends) post(rows, r, LS_EVENT_SEND_BEGIN, to % s->stages, 64);
            }
        }
    free(numbers);
    return rows;
}

static void check_schedule(ls_schedule_kind kind, int K, int M, int V, int forward, int backward)
{
    ls_schedule *schedule = NULL;
    ls_timeline *timeline = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, kind, K, M, V), LS_OK);
    ck_assert_int_eq(ls_timeline_create(&timeline, schedule, forward, backward), LS_OK);
    event_rows *rows = run_schedule(schedule, (uint64_t)forward, (uint64_t)backward);
    ls_replay *replay = lay_out(rows, FREE);
    ck_assert_int_eq(replay->makespan_ns, timeline->makespan);
    for (int r = 0; r < K; r++) ck_assert_int_eq(replay->shares[r].idle_ns, timeline->idle[r]);
    ls_ratio found = ls_replay_bubble(replay), formula = ls_bubble_formula(K, M, V);
    ck_assert_int_eq(found.over, formula.over);
    ck_assert_int_eq(found.under, formula.under);
    if (V == 1) { /* (K - 1) / (M + K - 1), written out */
        ck_assert_int_eq(found.over * (M + K - 1), (K - 1) * found.under);
    }
    ls_replay_destroy(&replay);
    rows_free(&rows);
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&schedule);
}

START_TEST(pipelines_have_their_bubble)
{
    for (int K = 1; K <= 5; K++)
        for (int M = 1; M <= 9; M++)
            for (int cost = 1; cost <= 2; cost++) {
                check_schedule(LS_GPIPE, K, M, 1, 1, cost);
                check_schedule(LS_1F1B, K, M, 1, 3, 3 * cost);
                for (int V = 2; V <= 3 && M % K == 0; V++)
                    check_schedule(LS_INTERLEAVED, K, M, V, 5, 5 * cost);
            }
    check_schedule(LS_1F1B, 64, 8, 1, 1, 2);
}
END_TEST

/* With a latency every hop of fill and drain pays it: M (f + b) + (K - 1) (f + b + 2 L) for a
 * GPipe without contention between passes. */
START_TEST(latency_lengthens_fill_and_drain)
{
    ls_schedule *schedule = NULL;
    ck_assert_int_eq(ls_schedule_create(&schedule, LS_GPIPE, 4, 6, 1), LS_OK);
    event_rows *rows = run_schedule(schedule, 10, 20);
    check_makespan(rows, (ls_link){7.0, 0.0}, 6 * 30 + 3 * (30 + 14));
    rows_free(&rows);
    ls_schedule_destroy(&schedule);
}
END_TEST

/* ---- logs that are not whole */

static void refused(event_rows **rows, const char *text)
{
    ls_replay *replay = NULL;
    ls_error_clear();
    ck_assert_int_eq(ls_replay_create(&replay, &(*rows)->log, "t.json", &FREE), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), text);
    ck_assert_ptr_null(replay);
    rows_free(rows);
}

START_TEST(incomplete_logs_are_refused)
{
    event_rows *rows = rows_new(2);
    receive(rows, 1, 0, 4);
    refused(&rows, "t.json: rank 1, event 0: receive of message 4 of rank 0, which has sent none "
                   "of that number");
    rows = rows_new(2);
    end_send(rows, 0, 1, 2);
    refused(&rows, "t.json: rank 0, event 0: send_end of message 2 of rank 0, which has sent none "
                   "of that number");
    rows = rows_new(3);
    compute(rows, 0, 1);
    post(rows, 0, LS_EVENT_SEND, 1, 0);
    receive(rows, 2, 0, 1);
    refused(&rows, "t.json: rank 2, event 0: receives message 1 of rank 0, which is for rank 1");
    rows = rows_new(2);
    post(rows, 0, LS_EVENT_SEND, 1, 0);
    receive(rows, 1, 0, 1);
    receive(rows, 1, 0, 1);
    refused(&rows,
            "t.json: rank 1, event 1: receive of message 1 of rank 0, as in event 0 of rank 1");
    rows = rows_new(2);
    post(rows, 0, LS_EVENT_SEND, 1, 0);
    end_send(rows, 0, 1, 1);
    refused(&rows, "t.json: rank 0, event 1: send_end of message 1, which event 0 sent by send");
    rows = rows_new(3);
    collective(rows, 0, LS_OP_BARRIER, 0, 6, 0);
    collective(rows, 2, LS_OP_BARRIER, 0, 6, 0);
    refused(&rows, "t.json: rank 0, event 0: barrier is call 6 of group 0, which rank 1 has not");
    rows = rows_new(2);
    collective(rows, 0, LS_OP_BARRIER, 0, 6, 0);
    collective(rows, 0, LS_OP_BARRIER, 0, 6, 0);
    refused(&rows, "t.json: rank 0, event 1: barrier is call 6 of group 0, as its event 0 is");
    rows = rows_new(2);
    collective(rows, 0, LS_OP_BARRIER, 0, 6, 0);
    collective(rows, 1, LS_OP_BROADCAST, 0, 6, 0);
    refused(&rows, "t.json: rank 1, event 0: broadcast is call 6 of group 0, which is barrier on "
                   "rank 0");
    rows = rows_new(1);
    compute(rows, 0, 900000000000000);
    compute(rows, 0, UINT64_MAX);
    refused(&rows, "t.json: rank 0, event 1: ends after 1.84e+10 s, 1e6 s are the most");
    /* Two collectives entered in opposite order. */
    rows = rows_new(2);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 2; i++) collective(rows, r, LS_OP_BARRIER, 0, (uint64_t)(r == i), 0);
    refused(&rows, "t.json: rank 0, event 0: collective waits in a circle of events");
}
END_TEST

START_TEST(nothing_at_all)
{
    event_rows *rows = rows_new(3);
    ls_replay *replay = lay_out(rows, FREE);
    ck_assert_int_eq(replay->makespan_ns, 0);
    ck_assert_int_eq(ls_replay_bubble(replay).over, 0);
    ls_replay_destroy(&replay);
    ls_replay_destroy(&replay);
    rows_free(&rows);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("replay", 60);
    tcase_add_test(tcase, one_message_one_way);
    tcase_add_test(tcase, ping_pong);
    tcase_add_test(tcase, exchange_and_circle);
    tcase_add_test(tcase, collectives_wait_for_the_last);
    tcase_add_test(tcase, groups_are_separate);
    tcase_add_test(tcase, steps_only);
    tcase_add_test(tcase, pipelines_have_their_bubble);
    tcase_add_test(tcase, latency_lengthens_fill_and_drain);
    tcase_add_test(tcase, incomplete_logs_are_refused);
    tcase_add_test(tcase, nothing_at_all);
    return run_tests();
}
