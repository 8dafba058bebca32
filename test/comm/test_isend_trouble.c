/* Sends under way that cannot work: circles, halves that do not fit, receivers that never come,
 * aborts while others copy. */
#include "comm/comm_test.h"

/* ---- what is a circle, and what only looks like one */

/* What both ranks do after each has begun a send with tag 1 to the other. */
typedef enum sequel {
    RECEIVE_IT,    /* resolves it */
    RECEIVE_OTHER, /* a message that nobody sends: begun sends do not help */
    END_IT,        /* both wait for the other to receive */
    MEET           /* rank 0 waits in send_end, the other one in a barrier */
} sequel;

static ls_status both_begin(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const sequel *then = argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank);
    float x = (float)r, y = -1;
    ls_isend *sending = NULL;
    LS_TRY(ls_send_begin(world, 1 - r, 1, &x, 1, LS_F32, &sending));
    if (*then == END_IT || (*then == MEET && r == 0)) LS_TRY(ls_send_end(&sending));
    if (*then == MEET) LS_TRY(ls_barrier(world));
    LS_TRY(ls_receive(world, 1 - r, *then == RECEIVE_OTHER ? 2 : 1, &y, 1, LS_F32));
    EXPECT((int)y == 1 - r, "received %g", (double)y);
    LS_TRY(ls_send_end(&sending));
exit:
    ls_send_cancel(&sending);
    return status;
}

START_TEST(circles_are_found)
{
    sequel then = RECEIVE_IT;
    run_well(2, NULL, both_begin, &then);
    then = RECEIVE_OTHER;
    const char *text = run_badly(2, NULL, both_begin, &then, LS_ERR_RANK);
    ck_assert_has(text, "ranks wait for each other: ");
    ck_assert_has(text, "rank 0 for rank 1 in group world, receive with tag 2");
    ck_assert_has(text, "rank 1 for rank 0 in group world, receive with tag 2");
    then = END_IT;
    text = run_badly(2, NULL, both_begin, &then, LS_ERR_RANK);
    ck_assert_has(text, "ranks wait for each other: ");
    ck_assert_has(text, "rank 0 for rank 1 in group world, send_end with tag 1");
    ck_assert_has(text, "rank 1 for rank 0 in group world, send_end with tag 1");
    then = MEET;
    text = run_badly(2, NULL, both_begin, &then, LS_ERR_RANK);
    ck_assert_has(text, "rank 0 for rank 1 in group world, send_end with tag 1");
    ck_assert_has(text, "rank 1 for rank 0 in group world, call 1 (barrier)");
}
END_TEST

/* A chain of waiting ranks that hangs on sends under way, while one rank is slow: rank 0 waits for
 * 1, 1 for 2, 2 for 0's begun sends only after a long computation. All look around meanwhile, and
 * none may see a circle. */
static ls_status slow_but_sure(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    float x[2] = {1, 2}, y = 0;
    ls_isend *sendings[2] = {NULL};
    if (r == 0) {
        LS_TRY(ls_send_begin(world, size - 1, 1, &x[0], 1, LS_F32, &sendings[0]));
        LS_TRY(ls_send_begin(world, size - 1, 2, &x[1], 1, LS_F32, &sendings[1]));
        LS_TRY(ls_receive(world, 1, 1, &y, 1, LS_F32));
    } else if (r + 1 < size) {
        LS_TRY(ls_receive(world, r + 1, 1, &y, 1, LS_F32));
        LS_TRY(ls_send(world, r - 1, 1, &y, 1, LS_F32));
    } else {
        for (int i = 2; i > 0; i--) {
            ls_clock_sleep_ns(150000000);
            LS_TRY(ls_receive(world, 0, i, &y, 1, LS_F32));
        }
        LS_TRY(ls_send(world, r - 1, 1, &y, 1, LS_F32));
    }
    EXPECT((int)y == 1, "received %g", (double)y);
    for (int i = 0; i < 2; i++) LS_TRY(ls_send_end(&sendings[i]));
exit:
    for (int i = 0; i < 2; i++) ls_send_cancel(&sendings[i]);
    return status;
}

/* As above with the slow one being waited for in send_end and a barrier. */
static ls_status slow_receiver(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), last = ls_rank_world_size(rank) - 1;
    float x = 4, y = 0;
    ls_isend *sending = NULL;
    if (r == 0) LS_TRY(ls_send_begin(world, last, 1, &x, 1, LS_F32, &sending));
    if (r == 0) LS_TRY(ls_send_end(&sending));
    if (r == last) {
        ls_clock_sleep_ns(300000000);
        LS_TRY(ls_receive(world, 0, 1, &y, 1, LS_F32));
        EXPECT((int)y == 4, "received %g", (double)y);
    }
    LS_TRY(ls_barrier(world));
exit:
    ls_send_cancel(&sending);
    return status;
}

START_TEST(no_circle_where_a_send_under_way_resolves_it)
{
    ls_world_options delays = {.delay_seed = 5, .delay_max_ns = 50000000};
    run_well(3, NULL, slow_but_sure, NULL);
    run_well(5, &delays, slow_but_sure, NULL);
    run_well(3, NULL, slow_receiver, NULL);
    sequel then = RECEIVE_IT;
    for (int seed = 1; seed < 6; seed++) {
        delays.delay_seed = (uint64_t)seed;
        run_well(2, &delays, both_begin, &then);
    }
}
END_TEST

/* ---- nobody comes */

typedef enum ending { JUST_END, END_SEND, FAIL_SELF, WITHDRAW } ending;

static ls_status never_received(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    static double x[3] = {1, 2, 3};
    const ending *how = argument;
    ls_isend *sending = NULL;
    if (ls_rank_index(rank) == 1) return LS_OK;
    LS_TRY(ls_send_begin(ls_rank_world_group(rank), 1, 8, x, 3, LS_F64, &sending));
    if (*how == END_SEND) LS_TRY(ls_send_end(&sending));
    if (*how == FAIL_SELF) LS_FAIL(LS_ERR_IO, "for another reason");
    if (*how == WITHDRAW) ls_send_cancel(&sending);
exit:
    return status;
}

/* A receiver comes after the sender's end: it must not find what lay on the sender's stack. */
static ls_status received_too_late(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    _Atomic int *begun = argument;
    ls_isend *sending = NULL;
    double x[3] = {1, 2, 3};
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send_begin(ls_rank_world_group(rank), 1, 8, x, 3, LS_F64, &sending));
        atomic_store(begun, 1);
    } else {
        while (!atomic_load(begun)) ls_clock_sleep_ns(1000000);
        ls_clock_sleep_ns(100000000);
        status = ls_receive(ls_rank_world_group(rank), 0, 8, x, 3, LS_F64);
        EXPECT(status == LS_ERR_ABORTED, "status %d", (int)status);
    }
exit:
    return status;
}

START_TEST(message_that_nobody_receives)
{
    static const char *const unsent =
        "rank 0: group world, tag 8: rank 0 sends 3 F64 and ends before rank 1 has received them";
    for (int capacity = 0; capacity < 2; capacity++) {
        ls_world_options options = {.channel_capacity = capacity};
        ending how = JUST_END;
        ck_assert_str_eq(run_badly(2, &options, never_received, &how, LS_ERR_RANK), unsent);
        how = END_SEND;
        ck_assert_str_eq(run_badly(2, &options, never_received, &how, LS_ERR_RANK),
                         "rank 0: group world, send_end with tag 8: rank 0 waits for rank 1, which "
                         "has ended");
        how = FAIL_SELF;
        ck_assert_str_eq(run_badly(2, &options, never_received, &how, LS_ERR_IO),
                         "rank 0: for another reason");
        how = WITHDRAW;
        run_well(2, &options, never_received, &how);
        _Atomic int begun = 0;
        ck_assert_str_eq(run_badly(2, &options, received_too_late, &begun, LS_ERR_RANK), unsent);
    }
}
END_TEST

static ls_status wait_for_busy_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    float x = 0;
    ls_isend *sending = NULL;
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send_begin(ls_rank_world_group(rank), 1, 5, &x, 1, LS_F32, &sending));
        LS_TRY(ls_send_end(&sending));
    }
    while (status == LS_OK) {
        ls_clock_sleep_ns(1000000);
        status = ls_rank_check(rank);
    }
exit:
    EXPECT(sending == NULL, "not freed after a failure");
    return status;
}

START_TEST(peer_that_never_comes)
{
    ls_world_options options = {.timeout_ns = 200000000};
    const char *text = run_badly(2, &options, wait_for_busy_rank, NULL, LS_ERR_RANK);
    ck_assert_has(text, "group world, send_end with tag 5: waited ");
    ck_assert_has(text, "s for rank 1, which is outside any communication");
}
END_TEST

/* ---- halves that do not fit, and calls that are refused */

typedef struct misfit {
    size_t sent, expected;
    ls_dtype sent_as, expected_as;
    int late; /* the rank that comes second */
    ls_status seen[2];
    char text[2][200];
} misfit;

static ls_status send_misfit(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    misfit *m = argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank);
    double x[8] = {0};
    ls_isend *sending = NULL;
    if (r == m->late) ls_clock_sleep_ns(30000000);
    if (r == 0) {
        LS_TRY(ls_send_begin(world, 1, 4, x, m->sent, m->sent_as, &sending));
        if (m->late == 1) ls_clock_sleep_ns(60000000);
        if (m->late == 1) EXPECT(ls_send_is_over(sending), "a mismatch is over too");
        LS_TRY(ls_send_end(&sending));
    } else {
        LS_TRY(ls_receive(world, 0, 4, x, m->expected, m->expected_as));
    }
exit:
    m->seen[r] = status;
    snprintf(m->text[r], sizeof m->text[r], "%s", ls_error_text());
    ls_send_cancel(&sending);
    return status;
}

START_TEST(count_and_dtype_must_agree)
{
    static const char *const texts[] = {
        "group world, tag 4: rank 0 sends 5 F32, rank 1 expects 6 F32",
        "group world, tag 4: rank 0 sends 5 F32, rank 1 expects 5 I32"};
    for (int late = 0; late < 2; late++) {
        misfit cases[] = {{5, 6, LS_F32, LS_F32, late, {LS_OK}, {""}},
                          {5, 5, LS_F32, LS_I32, late, {LS_OK}, {""}}};
        for (int i = 0; i < 2; i++) {
            const char *text = run_badly(2, NULL, send_misfit, &cases[i], LS_ERR_RANK);
            ck_assert_has(text, texts[i]);
            ck_assert_str_eq(cases[i].text[1], texts[i]);
            /* The sender may learn of it by the receiver's abort. */
            ck_assert(cases[i].seen[0] == LS_ERR_RANK || cases[i].seen[0] == LS_ERR_ABORTED);
            ck_assert_has(cases[i].text[0], texts[i]);
        }
    }
}
END_TEST

static ls_status bad_peer(ls_rank *rank, void *argument)
{
    const int *peer = argument;
    ls_isend *sending = NULL;
    float x = 0;
    if (ls_rank_index(rank) != 0) return ls_barrier(ls_rank_world_group(rank));
    ls_status status = ls_send_begin(ls_rank_world_group(rank), *peer, 0, &x, 1, LS_F32, &sending);
    EXPECT(sending == NULL, "an output of a failed call");
    return status;
}

START_TEST(peers_are_checked)
{
    int peer = 2;
    ck_assert_has(run_badly(2, NULL, bad_peer, &peer, LS_ERR_INPUT),
                  "send to member 2: group world has members 0 to 1");
    peer = 0;
    ck_assert_has(run_badly(2, NULL, bad_peer, &peer, LS_ERR_INPUT),
                  "send to member 0 of group world, which is the caller itself");
}
END_TEST

/* ---- abort while others copy */

typedef struct crash {
    int round;
    _Atomic int exchanges;
} crash;

/* Whoever gives up overwrites its buffers at once; the receivers must not see that. */
static ls_status fail_in_the_middle(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    enum { UNDER_WAY = 3 };
    crash *c = argument;
    int r = ls_rank_index(rank), ring = ls_rank_world_size(rank) - 1;
    ls_group *world = ls_rank_world_group(rank);
    size_t n = 100000;
    if (r == ring) {
        while (atomic_load(&c->exchanges) < ring * (1 + c->round % 3)) ls_clock_sleep_ns(1000);
        ls_clock_sleep_ns(3000 * (uint64_t)(c->round % 50));
        LS_FAIL(LS_ERR_IO, "now");
    }
    ls_isend *sendings[UNDER_WAY] = {NULL};
    int32_t *in = malloc(n * sizeof *in), *out[UNDER_WAY];
    for (int k = 0; k < UNDER_WAY; k++) out[k] = calloc(n, sizeof *out[k]);
    for (int i = 0; status == LS_OK; i++) {
        int k = i % UNDER_WAY;
        status = ls_send_end(&sendings[k]);
        if (status == LS_OK)
            status = ls_send_begin(world, (r + 1) % ring, k, out[k], n, LS_I32, &sendings[k]);
        if (status == LS_OK && i >= UNDER_WAY - 1) {
            int tag = (i + 1) % UNDER_WAY;
            status = ls_receive(world, (r + ring - 1) % ring, tag, in, n, LS_I32);
            size_t others = 0;
            for (size_t j = 0; status == LS_OK && j < n; j++) others += in[j] != 0;
            EXPECT(others == 0, "%zu elements of a buffer that its owner had given up", others);
        }
        atomic_fetch_add(&c->exchanges, 1);
    }
    for (int k = 0; k < UNDER_WAY; k++) {
        if ((r + c->round) % 2 == 0) ls_send_cancel(&sendings[k]);
        if (ls_send_end(&sendings[k]) == LS_OK) EXPECT(sendings[k] == NULL, "not freed");
        memset(out[k], 0x11, n * sizeof *out[k]);
        free(out[k]);
    }
    free(in);
exit:
    return status;
}

START_TEST(abort_in_the_middle_of_copying)
{
    for (int round = 0; round < 100 / FEWER; round++)
        for (int capacity = 0; capacity < 2; capacity++) {
            crash c = {round, 0};
            ls_world_options options = {.channel_capacity = capacity};
            ck_assert_str_eq(run_badly(4, &options, fail_in_the_middle, &c, LS_ERR_IO),
                             "rank 3: now");
        }
}
END_TEST

TEST_MAIN("sending trouble", circles_are_found, no_circle_where_a_send_under_way_resolves_it,
          message_that_nobody_receives, peer_that_never_comes, count_and_dtype_must_agree,
          peers_are_checked, abort_in_the_middle_of_copying)
