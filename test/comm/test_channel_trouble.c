/* Messages that cannot work: circles of waiting ranks, halves that do not fit, peers that never
 * come, aborts while others copy; and the exchange that does what two sends cannot. */
#include "comm/comm_test.h"

static const ls_world_options CAPACITIES[] = {
    {.channel_capacity = 0},
    {.channel_capacity = 1},
    {.channel_capacity = 3},
    {.channel_capacity = 0, .delay_seed = 9, .delay_max_ns = 200000},
    {.channel_capacity = 2, .delay_seed = 4, .delay_max_ns = 200000}};
enum { N_CAPACITIES = sizeof CAPACITIES / sizeof CAPACITIES[0] };

/* ---- both ways at once */

typedef struct exchange_plan {
    int kind; /* 0: send then receive on both; 1: one of them the other way round; 2: send_receive
               */
    size_t count;
    int rounds;
} exchange_plan;

static ls_status swap(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const exchange_plan *p = argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    int right = (r + 1) % size, left = (r + size - 1) % size;
    size_t bytes = p->count * sizeof(int32_t);
    guarded out = guarded_new(bytes), in = guarded_new(bytes);
    for (int round = 0; round < p->rounds; round++) {
        for (size_t i = 0; i < p->count; i++) put(out.data, i, LS_I32, small(r + 10 * round, i));
        memset(in.data, 0xff, bytes);
        if (p->kind == 2) {
            LS_TRY(ls_send_receive(world, right, round, out.data, p->count, left, round, in.data,
                                   p->count, LS_I32));
        } else if (p->kind == 0 || r != 1) {
            LS_TRY(ls_send(world, right, round, out.data, p->count, LS_I32));
            LS_TRY(ls_receive(world, left, round, in.data, p->count, LS_I32));
        } else {
            LS_TRY(ls_receive(world, left, round, in.data, p->count, LS_I32));
            LS_TRY(ls_send(world, right, round, out.data, p->count, LS_I32));
        }
        size_t wrong = 0;
        for (size_t i = 0; i < p->count; i++) {
            wrong += !equals(in.data, i, LS_I32, small(left + 10 * round, i));
            wrong += !equals(out.data, i, LS_I32, small(r + 10 * round, i));
        }
        EXPECT(wrong == 0, "round %d of %zu", round, p->count);
    }
exit:
    guarded_free(&out);
    guarded_free(&in);
    return status;
}

/* Both neighbours send first: without buffers a circle, which must be named; one the other way
 * round, both at once, or a buffer resolve it. */
START_TEST(symmetric_exchange)
{
    exchange_plan p = {0, 10, 50};
    const char *text = run_badly(2, NULL, swap, &p, LS_ERR_RANK);
    ck_assert_has(text, "ranks wait for each other: ");
    ck_assert_has(text, "rank 0 for rank 1 in group world, send with tag 0");
    ck_assert_has(text, "rank 1 for rank 0 in group world, send with tag 0");
    run_badly(3, NULL, swap, &p, LS_ERR_RANK);
    run_well(2, &CAPACITIES[1], swap, &p);
    run_well(5, &CAPACITIES[1], swap, &p);
    p.kind = 1;
    run_well(2, NULL, swap, &p);
    run_well(5, NULL, swap, &p);
    p.kind = 2;
    static const int sizes[] = {2, 3, 4, 7, 12};
    static const size_t counts[] = {0, 1, 10, 4097};
    for (int i = 0; i < 5; i++)
        for (int c = 0; c < N_CAPACITIES; c++)
            for (int k = 0; k < 4; k++) {
                p.count = counts[k];
                p.rounds = CAPACITIES[c].delay_seed ? 10 : 60;
                run_well(sizes[i], &CAPACITIES[c], swap, &p);
            }
}
END_TEST

/* Two stages with two layers each and no buffers, rank 0 having two sends in a row: every
 * neighbouring pair is in order by parity, and yet it is a circle. */
static ls_status parity_is_not_enough(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    float x = 1;
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send(world, 1, 1, &x, 1, LS_F32));
        LS_TRY(ls_send(world, 1, 2, &x, 1, LS_F32));
        LS_TRY(ls_receive(world, 1, 10, &x, 1, LS_F32));
    } else {
        LS_TRY(ls_receive(world, 0, 1, &x, 1, LS_F32));
        LS_TRY(ls_send(world, 0, 10, &x, 1, LS_F32));
        LS_TRY(ls_receive(world, 0, 2, &x, 1, LS_F32));
    }
exit:
    return status;
}

/* Rank 2 needs rank 0's message last, rank 0 sends it first. */
static ls_status skip_connection(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    float x = 1;
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send(world, 2, 0, &x, 1, LS_F32));
        LS_TRY(ls_send(world, 1, 0, &x, 1, LS_F32));
    } else if (ls_rank_index(rank) == 1) {
        LS_TRY(ls_receive(world, 0, 0, &x, 1, LS_F32));
        LS_TRY(ls_send(world, 2, 0, &x, 1, LS_F32));
    } else {
        LS_TRY(ls_receive(world, 1, 0, &x, 1, LS_F32));
        LS_TRY(ls_receive(world, 0, 0, &x, 1, LS_F32));
    }
exit:
    return status;
}

/* One sends, the other is in a collective: a circle through both kinds of waiting. */
static ls_status send_into_barrier(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    float x = 1;
    if (ls_rank_index(rank) == 0) LS_TRY(ls_send(world, 1, 3, &x, 1, LS_F32));
    LS_TRY(ls_barrier(world));
exit:
    return status;
}

START_TEST(circles_are_found)
{
    const char *text = run_badly(2, NULL, parity_is_not_enough, NULL, LS_ERR_RANK);
    ck_assert_has(text, "rank 0 for rank 1 in group world, send with tag 2");
    ck_assert_has(text, "rank 1 for rank 0 in group world, send with tag 10");
    run_well(2, &CAPACITIES[1], parity_is_not_enough, NULL);
    text = run_badly(3, NULL, skip_connection, NULL, LS_ERR_RANK);
    ck_assert_has(text, "rank 0 for rank 2 in group world, send with tag 0");
    ck_assert_has(text, "rank 2 for rank 1 in group world, receive with tag 0");
    ck_assert_has(text, "rank 1 for rank 0 in group world, receive with tag 0");
    run_well(3, &CAPACITIES[1], skip_connection, NULL);
    text = run_badly(2, NULL, send_into_barrier, NULL, LS_ERR_RANK);
    ck_assert_has(text, "rank 0 for rank 1 in group world, send with tag 3");
    ck_assert_has(text, "rank 1 for rank 0 in group world, call 1 (barrier)");
}
END_TEST

/* ---- halves that do not fit */

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
    if (r == m->late) ls_clock_sleep_ns(30000000);
    if (r == 0)
        LS_TRY(ls_send(world, 1, 4, x, m->sent, m->sent_as));
    else
        LS_TRY(ls_receive(world, 0, 4, x, m->expected, m->expected_as));
exit:
    m->seen[r] = status;
    snprintf(m->text[r], sizeof m->text[r], "%s", ls_error_text());
    return status;
}

START_TEST(count_and_dtype_must_agree)
{
    for (int late = 0; late < 2; late++) {
        misfit count = {5, 6, LS_F32, LS_F32, late, {LS_OK}, {""}};
        misfit dtype = {5, 5, LS_F32, LS_I32, late, {LS_OK}, {""}};
        run_badly(2, NULL, send_misfit, &count, LS_ERR_RANK);
        run_badly(2, NULL, send_misfit, &dtype, LS_ERR_RANK);
        for (int r = 0; r < 2; r++) {
            ck_assert_int_eq(count.seen[r], LS_ERR_RANK);
            ck_assert_str_eq(count.text[r],
                             "group world, tag 4: rank 0 sends 5 F32, rank 1 expects 6 F32");
            ck_assert_int_eq(dtype.seen[r], LS_ERR_RANK);
            ck_assert_str_eq(dtype.text[r],
                             "group world, tag 4: rank 0 sends 5 F32, rank 1 expects 5 I32");
        }
        /* The sender did not wait: the receiver alone finds it. */
        ls_world_options one = {.channel_capacity = 1};
        const char *text = run_badly(2, &one, send_misfit, &count, LS_ERR_RANK);
        ck_assert_has(text, "rank 0 sends 5 F32, rank 1 expects 6 F32");
    }
}
END_TEST

/* ---- time-out, abort */

static ls_status wait_for_busy_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const int *kind = argument;
    ls_group *world = ls_rank_world_group(rank);
    float x = 0, y = 0;
    if (ls_rank_index(rank) == 0) {
        if (*kind == 0) LS_TRY(ls_send(world, 1, 5, &x, 1, LS_F32));
        if (*kind == 1) LS_TRY(ls_receive(world, 1, 5, &x, 1, LS_F32));
        if (*kind == 2) LS_TRY(ls_send_receive(world, 1, 5, &x, 1, 1, 6, &y, 1, LS_F32));
    }
    while (status == LS_OK) {
        ls_clock_sleep_ns(1000000);
        status = ls_rank_check(rank);
    }
exit:
    return status;
}

START_TEST(peer_that_never_comes)
{
    static const char *const texts[] = {"group world, send with tag 5: waited ",
                                        "group world, receive with tag 5: waited ",
                                        "group world, send_receive with tags 5 and 6: waited "};
    ls_world_options options = {.timeout_ns = 200000000};
    for (int kind = 0; kind < 3; kind++) {
        const char *text = run_badly(2, &options, wait_for_busy_rank, &kind, LS_ERR_RANK);
        ck_assert_has(text, texts[kind]);
        ck_assert_has(text, "s for rank 1, which is outside any communication");
    }
}
END_TEST

/* A ring of large messages, one rank failing at any moment: whoever gives up frees its buffers at
 * once, and none of them may be in use by a peer. */
typedef struct crash {
    int round;
    _Atomic int exchanges;
} crash;

static ls_status fail_in_the_middle(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    crash *c = argument;
    int r = ls_rank_index(rank), ring = ls_rank_world_size(rank) - 1;
    ls_group *world = ls_rank_world_group(rank);
    size_t n = 300000;
    if (r == ring) {
        while (atomic_load(&c->exchanges) < ring * (1 + c->round % 3)) ls_clock_sleep_ns(1000);
        ls_clock_sleep_ns(3000 * (uint64_t)(c->round % 50));
        LS_FAIL(LS_ERR_IO, "now");
    }
    float *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = 1;
    while (status == LS_OK) {
        status = ls_send_receive(world, (r + 1) % ring, 0, out, n, (r + ring - 1) % ring, 0, in, n,
                                 LS_F32);
        atomic_fetch_add(&c->exchanges, 1);
    }
    /* The buffers are this rank's own again: nobody writes there any more. */
    memset(in, 0x11, n * sizeof *in);
    ls_clock_sleep_ns(1000000);
    size_t others = 0;
    for (size_t i = 1; i < n; i++) others += memcmp(&in[i], &in[0], sizeof *in) != 0;
    EXPECT(others == 0, "%zu elements written after the call had failed", others);
    free(in);
    free(out);
exit:
    return status;
}

START_TEST(abort_in_the_middle_of_copying)
{
    for (int round = 0; round < 100 / FEWER; round++)
        for (int k = 0; k < 2; k++) {
            crash c = {round, 0};
            ck_assert_str_eq(run_badly(4, &CAPACITIES[k], fail_in_the_middle, &c, LS_ERR_IO),
                             "rank 3: now");
        }
}
END_TEST

TEST_MAIN("channel trouble", symmetric_exchange, circles_are_found, count_and_dtype_must_agree,
          peer_that_never_comes, abort_in_the_middle_of_copying)
