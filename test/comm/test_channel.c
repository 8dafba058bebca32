/* Messages between two members: order, tags, both capacities, between collectives. */
#include "comm/comm_test.h"

static const ls_world_options CAPACITIES[] = {
    {.channel_capacity = 0},
    {.channel_capacity = 1},
    {.channel_capacity = 3},
    {.channel_capacity = 0, .delay_seed = 9, .delay_max_ns = 200000},
    {.channel_capacity = 2, .delay_seed = 4, .delay_max_ns = 200000}};
enum { N_CAPACITIES = sizeof CAPACITIES / sizeof CAPACITIES[0] };

/* ---- everybody to everybody */

static ls_status send_all(ls_group *group, size_t count, ls_dtype dtype, int salt)
{
    ls_status status = LS_OK;
    int size = ls_group_size(group), own = ls_group_rank(group);
    guarded out = guarded_new(count * ls_dtype_bytes(dtype)), in = guarded_new(out.bytes);
    /* Pair by pair, the lower member sends first. */
    for (int one = 0; one < size; one++)
        for (int two = one + 1; two < size; two++) {
            if (own != one && own != two) continue;
            int peer = own == one ? two : one;
            for (int turn = 0; turn < 2; turn++) {
                bool sends = (own == one) == (turn == 0);
                int from = sends ? own : peer, tag = 10 * salt + turn;
                for (size_t i = 0; i < count; i++)
                    put(out.data, i, dtype, small(own + 50 * tag, i));
                if (sends) {
                    LS_TRY(ls_send(group, peer, tag, out.data, count, dtype));
                    /* The buffer is free: what is written now must not arrive. */
                    memset(out.data, 0xee, out.bytes);
                } else {
                    memset(in.data, 0xff, in.bytes);
                    LS_TRY(ls_receive(group, peer, tag, in.data, count, dtype));
                    size_t wrong = 0;
                    for (size_t i = 0; i < count; i++)
                        wrong += !equals(in.data, i, dtype, small(from + 50 * tag, i));
                    EXPECT(wrong == 0, "%zu from %d to %d", count, from, own);
                }
            }
        }
    guarded_free(&out);
    guarded_free(&in);
exit:
    return status;
}

static ls_status everybody(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    static const size_t counts[] = {0, 1, 4097, 3, 65536, 1};
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_I32, LS_I64, LS_U8, LS_F32};
    ls_group *world = ls_rank_world_group(rank), *group = NULL;
    int r = ls_rank_index(rank);
    LS_TRY(ls_group_split(world, r % 2, -r, "parity", &group));
    for (int i = 0; i < 6; i++) {
        LS_TRY(send_all(world, counts[i], dtypes[i], i));
        LS_TRY(send_all(group, counts[i], dtypes[i], i));
    }
exit:
    return status;
}

START_TEST(everybody_to_everybody)
{
    static const int sizes[] = {2, 3, 5, 8};
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < N_CAPACITIES; c++) run_well(sizes[i], &CAPACITIES[c], everybody, NULL);
}
END_TEST

/* ---- order and tags */

static ls_status in_order(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    enum { N = 500 };
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    if (r > 0) {
        for (int i = 0; i < N; i++) {
            int32_t word = 1000 * r + i;
            LS_TRY(ls_send(world, 0, i % 3 == 0 ? 7 : -7, &word, 1, LS_I32));
            word = -1;
        }
    } else {
        /* By sender in turn: the messages of the others wait. */
        for (int i = 0; i < N; i++)
            for (int q = size - 1; q > 0; q--) {
                int32_t word = 0;
                LS_TRY(ls_receive(world, q, i % 3 == 0 ? 7 : -7, &word, 1, LS_I32));
                EXPECT(word == 1000 * q + i, "message %d from %d was %d", i, q, word);
            }
    }
exit:
    return status;
}

START_TEST(one_senders_messages_keep_their_order)
{
    for (int c = 0; c < N_CAPACITIES; c++) {
        if (CAPACITIES[c].delay_seed != 0) continue;
        run_well(2, &CAPACITIES[c], in_order, NULL);
        run_well(4, &CAPACITIES[c], in_order, NULL);
    }
}
END_TEST

/* Three messages with tags 1, 2, 3 received as 3, 1, 2: needs all three left behind. */
static ls_status by_tag(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    static const int order[] = {3, 1, 2};
    for (int i = 0; i < 3; i++) {
        double x[2] = {i + 1, -i};
        if (ls_rank_index(rank) == 0) {
            LS_TRY(ls_send(world, 1, i + 1, x, 2, LS_F64));
        } else {
            LS_TRY(ls_receive(world, 0, order[i], x, 2, LS_F64));
            EXPECT((int)x[0] == order[i] && (int)x[1] == 1 - order[i], "tag %d", order[i]);
        }
    }
exit:
    return status;
}

/* The same tag in two groups of the same members: two different messages. */
static ls_status by_group(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank), *twin = NULL;
    LS_TRY(ls_group_split(world, 0, 0, "twin", &twin));
    int32_t x = 1, y = 2;
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send(world, 1, 5, &x, 1, LS_I32));
        LS_TRY(ls_send(twin, 1, 5, &y, 1, LS_I32));
    } else {
        int32_t a = 0, b = 0;
        LS_TRY(ls_receive(twin, 0, 5, &b, 1, LS_I32));
        LS_TRY(ls_receive(world, 0, 5, &a, 1, LS_I32));
        EXPECT(a == 1 && b == 2, "got %d and %d", a, b);
    }
exit:
    return status;
}

START_TEST(tags_and_groups_separate)
{
    run_well(2, &CAPACITIES[2], by_tag, NULL);
    run_well(2, &CAPACITIES[1], by_group, NULL);
    ck_assert_has(run_badly(2, NULL, by_tag, NULL, LS_ERR_RANK), "ranks wait for each other");
    /* Two left behind are not enough for the third. */
    ls_world_options two = {.channel_capacity = 1};
    run_badly(2, &two, by_tag, NULL, LS_ERR_RANK);
}
END_TEST

/* ---- capacity */

typedef struct progress {
    int capacity;
    _Atomic int sent;
} progress;

static ls_status run_ahead(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    progress *p = argument;
    ls_group *world = ls_rank_world_group(rank);
    ls_memory *memory = ls_rank_memory(rank);
    enum { N = 9, COUNT = 100 };
    float x[COUNT];
    for (int i = 0; i < N; i++) {
        if (ls_rank_index(rank) == 0) {
            for (int k = 0; k < COUNT; k++) x[k] = (float)(1000 * i + k);
            LS_TRY(ls_send(world, 1, 0, x, COUNT, LS_F32));
            for (int k = 0; k < COUNT; k++) x[k] = -1;
            atomic_fetch_add(&p->sent, 1);
        } else {
            /* The sender comes to be `capacity` ahead, and however long one waits then, no more. */
            int ahead = i + p->capacity < N ? i + p->capacity : N;
            for (int k = 0; k < 20000 && atomic_load(&p->sent) < ahead; k++)
                ls_clock_sleep_ns(1000000);
            ls_clock_sleep_ns(3000000);
            int sent = atomic_load(&p->sent);
            EXPECT(sent == ahead, "%d sent before number %d was received", sent, i);
            LS_TRY(ls_receive(world, 0, 0, x, COUNT, LS_F32));
            for (int k = 0; k < COUNT; k++)
                EXPECT((int)x[k] == 1000 * i + k, "message %d, element %d: %g", i, k, (double)x[k]);
        }
    }
    /* What was left behind is on the sender's account, and gone in the end. */
    if (ls_rank_index(rank) == 0) {
        size_t peak = ls_memory_peak_bytes(memory, LS_MEM_COMMUNICATION);
        size_t most = (size_t)p->capacity * COUNT * 4;
        EXPECT(p->capacity == 0 ? peak == 0 : peak >= most && peak <= most + COUNT * 4,
               "%zu bytes left behind at most, capacity %d", peak, p->capacity);
    }
exit:
    return status;
}

START_TEST(sender_runs_ahead_by_the_capacity)
{
    static const int capacities[] = {0, 1, 2, 4};
    for (int i = 0; i < 4; i++) {
        progress p = {capacities[i], 0};
        ls_world_options options = {.channel_capacity = capacities[i]};
        run_well(2, &options, run_ahead, &p);
    }
}
END_TEST

static ls_status never_receive(ls_rank *rank, void *argument)
{
    double x[3] = {1, 2, 3};
    (void)argument;
    if (ls_rank_index(rank) == 1) return LS_OK;
    return ls_send(ls_rank_world_group(rank), 1, 8, x, 3, LS_F64);
}

START_TEST(message_that_nobody_receives)
{
    ck_assert_str_eq(run_badly(2, &CAPACITIES[1], never_receive, NULL, LS_ERR_RANK),
                     "group world, tag 8: rank 0 sends 3 F64, rank 1 never receives them");
    const char *text = run_badly(2, NULL, never_receive, NULL, LS_ERR_RANK);
    ck_assert_str_eq(
        text, "rank 0: group world, send with tag 8: rank 0 waits for rank 1, which has ended");
}
END_TEST

/* ---- between collectives */

/* A fast rank leaves a barrier and sends while a slow one has not left it yet; and collectives and
 * messages of the same ranks in turn. */
static ls_status alternate(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    int right = (r + 1) % size, left = (r + size - 1) % size;
    for (int round = 0; round < 300; round++) {
        int32_t mine = 100 * round + r, theirs = -1, most = -1;
        LS_TRY(ls_barrier(world));
        if (r % 2 == 0 && r + 1 < size) LS_TRY(ls_send(world, right, 1, &mine, 1, LS_I32));
        if (r % 2 == 1) {
            LS_TRY(ls_receive(world, left, 1, &theirs, 1, LS_I32));
            EXPECT(theirs == 100 * round + left, "round %d: %d", round, theirs);
        }
        LS_TRY(ls_all_reduce(world, &most, &mine, 1, LS_I32, LS_REDUCE_MAX));
        EXPECT(most == 100 * round + size - 1, "round %d: maximum %d", round, most);
        LS_TRY(ls_send_receive(world, right, 1, &mine, 1, left, 1, &theirs, 1, LS_I32));
        EXPECT(theirs == 100 * round + left, "round %d: %d from the left", round, theirs);
    }
exit:
    return status;
}

START_TEST(messages_between_collectives)
{
    static const int sizes[] = {2, 3, 5, 12};
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 3; c++) run_well(sizes[i], &CAPACITIES[c], alternate, NULL);
}
END_TEST

TEST_MAIN("channel", everybody_to_everybody, one_senders_messages_keep_their_order,
          tags_and_groups_separate, sender_runs_ahead_by_the_capacity, message_that_nobody_receives,
          messages_between_collectives)
