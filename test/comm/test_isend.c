/* Sends under way: begun, and ended later. */
#include "comm/comm_test.h"

static const ls_world_options CAPACITIES[] = {
    {.channel_capacity = 0},
    {.channel_capacity = 1},
    {.channel_capacity = 3},
    {.channel_capacity = 0, .delay_seed = 9, .delay_max_ns = 200000},
    {.channel_capacity = 2, .delay_seed = 4, .delay_max_ns = 200000}};
enum { N_CAPACITIES = sizeof CAPACITIES / sizeof CAPACITIES[0], MAX_UNDER_WAY = 64 };

/* ---- everybody begins to send to everybody, then receives, then ends */

static ls_status send_to_all(ls_group *group, size_t count, ls_dtype dtype, int salt)
{
    ls_status status = LS_OK;
    int size = ls_group_size(group), own = ls_group_rank(group), n = 0;
    ls_isend *sendings[MAX_UNDER_WAY] = {NULL};
    ls_comm_count before = ls_group_count(group, LS_OP_SEND);
    guarded out = guarded_new((size_t)size * count * ls_dtype_bytes(dtype));
    guarded in = guarded_new(count * ls_dtype_bytes(dtype));
    size_t bytes = in.bytes;
    for (int k = 1; k < size; k++) {
        int to = (own + k) % size;
        unsigned char *part = out.data + (size_t)to * bytes;
        for (size_t i = 0; i < count; i++) put(part, i, dtype, small(own + 20 * to + salt, i));
        LS_TRY(ls_send_begin(group, to, salt, part, count, dtype, &sendings[n++]));
    }
    for (int k = 1; k < size; k++) {
        int from = (own + size - k) % size;
        memset(in.data, 0xff, in.bytes);
        LS_TRY(ls_receive(group, from, salt, in.data, count, dtype));
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            wrong += !equals(in.data, i, dtype, small(from + 20 * own + salt, i));
        EXPECT(wrong == 0, "%zu elements from %d to %d: %zu wrong", count, from, own, wrong);
    }
    /* Not in the order begun. */
    for (int k = 0; k < n; k++) {
        int i = (k + salt) % n;
        LS_TRY(ls_send_end(&sendings[i]));
        EXPECT(sendings[i] == NULL, "an ended send stays");
    }
    memset(out.data, 0xee, out.bytes);
    ls_comm_count after = ls_group_count(group, LS_OP_SEND);
    EXPECT(after.calls == before.calls + (uint64_t)n, "%d sends counted as %d", n,
           (int)(after.calls - before.calls));
    EXPECT(after.bytes == before.bytes + (uint64_t)n * bytes, "bytes of %d sends", n);
exit:
    for (int i = 0; i < n; i++) ls_send_cancel(&sendings[i]);
    guarded_free(&out);
    guarded_free(&in);
    return status;
}

static ls_status everybody(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    static const size_t counts[] = {0, 1, 4097, 3, 30000, 1};
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_I32, LS_I64, LS_U8, LS_F32};
    ls_group *world = ls_rank_world_group(rank), *group = NULL;
    int r = ls_rank_index(rank);
    LS_TRY(ls_group_split(world, r % 2, -r, "parity", &group));
    for (int i = 0; i < 6; i++) {
        LS_TRY(send_to_all(world, counts[i], dtypes[i], i));
        LS_TRY(send_to_all(group, counts[i], dtypes[i], i));
    }
    /* Whatever the capacity, nothing was copied aside. */
    size_t peak = ls_memory_peak_bytes(ls_rank_memory(rank), LS_MEM_COMMUNICATION);
    EXPECT(peak == 0, "%zu bytes copied aside", peak);
exit:
    return status;
}

START_TEST(everybody_to_everybody)
{
    for (int i = 0; i < N_RANK_COUNTS; i++)
        for (int c = 0; c < N_CAPACITIES; c++) {
            if (RANK_COUNTS[i] > 5 && c > 0 && c != 3) continue;
            run_well(RANK_COUNTS[i], &CAPACITIES[c], everybody, NULL);
        }
}
END_TEST

/* ---- order and tags */

/* Plain sends among begun ones, all with one tag: in the order of begin. */
static ls_status in_order(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    enum { N = 300 };
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int32_t words[N];
    ls_isend *sendings[N] = {NULL};
    if (ls_rank_index(rank) == 0) {
        for (int i = 0; i < N; i++) {
            words[i] = 7 * i;
            if (i % 7 == 3)
                LS_TRY(ls_send(world, 1, 2, &words[i], 1, LS_I32));
            else
                LS_TRY(ls_send_begin(world, 1, 2, &words[i], 1, LS_I32, &sendings[i]));
        }
        for (int i = N - 1; i >= 0; i--) LS_TRY(ls_send_end(&sendings[i])); /* some are NULL */
    } else {
        for (int i = 0; i < N; i++) {
            int32_t word = -1;
            LS_TRY(ls_receive(world, 0, 2, &word, 1, LS_I32));
            EXPECT(word == 7 * i, "message %d was %d", i, word);
        }
    }
exit:
    return status;
}

/* Tags 1, 2, 3 received as 3, 1, 2: without buffers. */
static ls_status by_tag(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    static const int order[] = {3, 1, 2};
    double x[3][2];
    ls_isend *sendings[3] = {NULL};
    for (int i = 0; i < 3; i++) {
        if (ls_rank_index(rank) == 0) {
            x[i][0] = i + 1;
            x[i][1] = -i;
            LS_TRY(ls_send_begin(world, 1, i + 1, x[i], 2, LS_F64, &sendings[i]));
        } else {
            LS_TRY(ls_receive(world, 0, order[i], x[i], 2, LS_F64));
            EXPECT((int)x[i][0] == order[i] && (int)x[i][1] == 1 - order[i], "tag %d", order[i]);
        }
    }
    for (int i = 0; i < 3; i++) LS_TRY(ls_send_end(&sendings[i]));
exit:
    return status;
}

/* With room for one message: one lies there, one is begun, one waits for the room. That is for the
 * one that waits, not for the one begun before it. */
static ls_status room(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int32_t x[3] = {1, 2, 3}, y = 0;
    ls_isend *sending = NULL;
    if (ls_rank_index(rank) == 0) {
        LS_TRY(ls_send(world, 1, 0, &x[0], 1, LS_I32));
        LS_TRY(ls_send_begin(world, 1, 0, &x[1], 1, LS_I32, &sending));
        LS_TRY(ls_send(world, 1, 0, &x[2], 1, LS_I32));
        LS_TRY(ls_barrier(world));
        LS_TRY(ls_send_end(&sending));
    } else {
        for (int i = 0; i < 3; i++) {
            LS_TRY(ls_receive(world, 0, 0, &y, 1, LS_I32));
            EXPECT(y == i + 1, "message %d was %d", i + 1, y);
            if (i == 0) LS_TRY(ls_barrier(world));
        }
    }
exit:
    return status;
}

/* The pattern of 1F1B: as many sends under way as there are micro-batches in the pipeline, each
 * stage sending on before it receives the next. */
static ls_status ring(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    enum { N = 40, DEPTH = 3, COUNT = 500 };
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    int right = (r + 1) % size, left = (r + size - 1) % size;
    int32_t out[DEPTH][COUNT], in[COUNT];
    ls_isend *sendings[DEPTH] = {NULL};
    for (int i = 0; i < N; i++) {
        int k = i % DEPTH;
        LS_TRY(ls_send_end(&sendings[k])); /* NULL at first */
        for (int j = 0; j < COUNT; j++) out[k][j] = 1000 * i + 10 * j + r;
        LS_TRY(ls_send_begin(world, right, 1, out[k], COUNT, LS_I32, &sendings[k]));
        LS_TRY(ls_receive(world, left, 1, in, COUNT, LS_I32));
        int wrong = 0;
        for (int j = 0; j < COUNT; j++) wrong += in[j] != 1000 * i + 10 * j + left;
        EXPECT(wrong == 0, "round %d: %d wrong", i, wrong);
        if (i % 10 == 9) LS_TRY(ls_barrier(world));
    }
    for (int k = 0; k < DEPTH; k++) LS_TRY(ls_send_end(&sendings[k]));
exit:
    return status;
}

START_TEST(order_tags_and_ring)
{
    static const int sizes[] = {2, 3, 5, 12};
    for (int c = 0; c < N_CAPACITIES; c++) {
        if (CAPACITIES[c].delay_seed == 0) run_well(2, &CAPACITIES[c], in_order, NULL);
        if (CAPACITIES[c].channel_capacity == 1) run_well(2, &CAPACITIES[c], room, NULL);
        run_well(2, &CAPACITIES[c], by_tag, NULL);
        for (int i = 0; i < 4; i++) run_well(sizes[i], &CAPACITIES[c], ring, NULL);
    }
}
END_TEST

/* ---- looking, many, taking back */

static ls_status look(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    float x[3] = {1, 2, 3};
    ls_isend *sending = NULL;
    for (int late = 0; late < 2; late++) {
        if (ls_rank_index(rank) == 0) {
            LS_TRY(ls_send_begin(world, 1, 0, x, 3, LS_F32, &sending));
            EXPECT(!ls_send_is_over(sending), "over before it was received");
            LS_TRY(ls_barrier(world));
            if (late) LS_TRY(ls_send_end(&sending));
            LS_TRY(ls_barrier(world));
            if (!late) EXPECT(ls_send_is_over(sending), "not over after it was received");
            LS_TRY(ls_send_end(&sending));
        } else {
            memset(x, 0, sizeof x);
            LS_TRY(ls_barrier(world));
            if (late) ls_clock_sleep_ns(20000000);
            LS_TRY(ls_receive(world, 0, 0, x, 3, LS_F32));
            LS_TRY(ls_barrier(world));
            EXPECT((int)x[2] == 3, "element 2 is %g", (double)x[2]);
        }
    }
exit:
    return status;
}

/* A message taken back was never sent; the ones beside it were. */
static ls_status take_back(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int32_t x[3] = {10, 11, 12};
    ls_isend *sendings[3] = {NULL};
    if (ls_rank_index(rank) == 0) {
        for (int i = 0; i < 3; i++)
            LS_TRY(ls_send_begin(world, 1, 0, &x[i], 1, LS_I32, &sendings[i]));
        ls_send_cancel(&sendings[1]);
        ls_send_cancel(&sendings[1]);
        EXPECT(sendings[1] == NULL, "a send that was taken back stays");
        x[1] = -1;
        LS_TRY(ls_barrier(world));
    } else {
        LS_TRY(ls_barrier(world));
        for (int i = 0; i < 3; i += 2) {
            LS_TRY(ls_receive(world, 0, 0, x, 1, LS_I32));
            EXPECT(x[0] == 10 + i, "received %d, expected %d", x[0], 10 + i);
        }
    }
    for (int i = 0; i < 3; i++) LS_TRY(ls_send_end(&sendings[i]));
exit:
    return status;
}

static ls_status many(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    enum { N = 2000 };
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int32_t words[N];
    ls_isend *sendings[N] = {NULL};
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < N && ls_rank_index(rank) == turn; i++) {
            words[i] = i;
            LS_TRY(ls_send_begin(world, 1 - turn, i % 5, &words[i], 1, LS_I32, &sendings[i]));
        }
        LS_TRY(ls_barrier(world));
        for (int tag = 4; tag >= 0 && ls_rank_index(rank) != turn; tag--)
            for (int i = tag; i < N; i += 5) {
                int32_t word = -1;
                LS_TRY(ls_receive(world, turn, tag, &word, 1, LS_I32));
                EXPECT(word == i, "message %d was %d", i, word);
            }
        for (int i = 0; i < N; i++) LS_TRY(ls_send_end(&sendings[i]));
    }
exit:
    return status;
}

START_TEST(looking_many_and_taking_back)
{
    run_well(2, NULL, look, NULL);
    run_well(2, &CAPACITIES[1], look, NULL);
    run_well(2, NULL, take_back, NULL);
    run_well(2, NULL, many, NULL);
}
END_TEST

/* Over when the rank ends without having ended it: nothing is wrong, nothing leaks. */
static ls_status forget(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    int32_t *x = argument, y = 0;
    ls_group *world = ls_rank_world_group(rank);
    ls_isend *sending = NULL;
    if (ls_rank_index(rank) == 0)
        LS_TRY(ls_send_begin(world, 1, 0, x, 1, LS_I32, &sending));
    else
        LS_TRY(ls_receive(world, 0, 0, &y, 1, LS_I32));
    LS_TRY(ls_barrier(world));
exit:
    return status;
}

START_TEST(forgotten_but_received)
{
    int32_t x = 3;
    run_well(2, NULL, forget, &x);
}
END_TEST

TEST_MAIN("sending", everybody_to_everybody, order_tags_and_ring, looking_many_and_taking_back,
          forgotten_but_received)
