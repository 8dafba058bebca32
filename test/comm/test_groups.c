/* Groups: subsets in any order, with numbering, roots and counters of their own. */
#include "comm/comm_test.h"

typedef struct split_case {
    int n_ranks;
    int color[8], key[8];
    int members[8][8]; /* by rank: the world ranks of its group in order, -1 at the end */
} split_case;

static ls_status check_split(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const split_case *c = argument;
    int r = ls_rank_index(rank), size = 0, own = -1;
    ls_group *world = ls_rank_world_group(rank), *group = world;
    char name[16];
    snprintf(name, sizeof name, "color%d", c->color[r]);
    LS_TRY(ls_group_split(world, c->color[r], c->key[r], name, &group));
    if (c->color[r] < 0) {
        EXPECT(group == NULL, "rank %d is in no group", r);
        return LS_OK;
    }
    memset(name, 'x', sizeof name - 1); /* the name was copied */
    while (size < 8 && c->members[r][size] >= 0) {
        if (c->members[r][size] == r) own = size;
        size++;
    }
    EXPECT(ls_group_size(group) == size, "rank %d: size %d", r, ls_group_size(group));
    EXPECT(ls_group_rank(group) == own, "rank %d: member %d", r, ls_group_rank(group));
    EXPECT(ls_group_owner(group) == rank, "owner");
    snprintf(name, sizeof name, "color%d", c->color[r]);
    EXPECT(strcmp(ls_group_name(group), name) == 0, "name %s", ls_group_name(group));
    for (int m = 0; m < size; m++)
        EXPECT(ls_group_world_rank(group, m) == c->members[r][m], "rank %d: member %d is %d", r, m,
               ls_group_world_rank(group, m));

    /* Gather the world ranks, then let each member in turn be root, by its number in the group. */
    size_t starts[9];
    int32_t mine = r, all[8];
    for (int m = 0; m <= size; m++) starts[m] = (size_t)m;
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_all_gather(group, all, &mine, starts, LS_I32));
        EXPECT(memcmp(all, c->members[r], (size_t)size * 4) == 0, "rank %d: gathered others", r);
        for (int root = 0; root < size; root++) {
            int32_t word = 1000 + r;
            LS_TRY(ls_broadcast(group, &word, 1, LS_I32, root));
            EXPECT(word == 1000 + c->members[r][root], "rank %d: root %d sent %d", r, root, word);
        }
    }
exit:
    return status;
}

START_TEST(colors_and_keys)
{
    static const split_case cases[] = {
        /* a group that does not begin at rank 0 */
        {4, {-1, -1, 0, 0}, {0}, {{-1}, {-1}, {2, 3, -1}, {2, 3, -1}}},
        /* not contiguous */
        {4, {0, 1, 0, 1}, {0}, {{0, 2, -1}, {1, 3, -1}, {0, 2, -1}, {1, 3, -1}}},
        /* turned round by its keys */
        {4, {0, 1, 0, 1}, {5, 9, 4, -9}, {{2, 0, -1}, {3, 1, -1}, {2, 0, -1}, {3, 1, -1}}},
        /* groups of one; equal keys keep the order of ranks */
        {3, {7, 3, 0}, {0}, {{0, -1}, {1, -1}, {2, -1}}},
        {5,
         {2, 2, 2, 0, 2},
         {1, 1, 0, 0, 0},
         {{2, 4, 0, 1, -1}, {2, 4, 0, 1, -1}, {2, 4, 0, 1, -1}, {3, -1}, {2, 4, 0, 1, -1}}},
        {1, {0}, {0}, {{0, -1}}},
        {3, {-1, -1, -1}, {0}, {{-1}, {-1}, {-1}}},
    };
    ls_world_options slow = {.delay_seed = 5, .delay_max_ns = 3000000};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_well(cases[i].n_ranks, NULL, check_split, (void *)(uintptr_t)&cases[i]);
        run_well(cases[i].n_ranks, &slow, check_split, (void *)(uintptr_t)&cases[i]);
    }
}
END_TEST

/* Many splits one after another, and splits of splits: a grid of 2 x 2 x 3. */
static ls_status split_grid(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank);
    for (int round = 0; round < 20; round++) {
        ls_group *tp = NULL, *rest = NULL, *dp = NULL, *pp = NULL;
        LS_TRY(ls_group_split(world, r / 3, r, "tp", &tp));
        LS_TRY(ls_group_split(world, r % 3, r, "rest", &rest));
        LS_TRY(ls_group_split(rest, ls_group_rank(rest) / 2, 0, "dp", &dp));
        LS_TRY(ls_group_split(rest, ls_group_rank(rest) % 2, 0, "pp", &pp));
        EXPECT(ls_group_size(tp) == 3 && ls_group_size(rest) == 4, "sizes");
        EXPECT(ls_group_size(dp) == 2 && ls_group_size(pp) == 2, "sizes");
        /* rank = t + 3 d + 6 p */
        int t = r % 3, d = r / 3 % 2, p = r / 6;
        int64_t sum = r, expected = 0;
        LS_TRY(ls_all_reduce(dp, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
        EXPECT(sum == t + 6 * p + t + 3 + 6 * p, "dp sum %d", (int)sum);
        LS_TRY(ls_all_reduce(pp, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
        LS_TRY(ls_all_reduce(tp, &sum, &sum, 1, LS_I64, LS_REDUCE_SUM));
        for (int q = 0; q < 12; q++) expected += q;
        EXPECT(sum == expected, "sum %d, rank %d = (%d, %d, %d)", (int)sum, r, t, d, p);
    }
exit:
    return status;
}

START_TEST(splits_of_splits)
{
    run_well(12, NULL, split_grid, NULL);
}
END_TEST

/* A slice taken by the number in one group and gathered in another: groups {0, 2} and {1, 3},
 * samples 0..3 and 10..13 must come back whole, not [0,1,0,1] and [12,13,12,13]. And in the group
 * {2, 3}, root 2 is no member number. */
static ls_status scatter_and_gather(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *group = NULL;
    LS_TRY(ls_group_split(world, r % 2, r, "samples", &group));
    int32_t samples[4], back[4];
    for (int i = 0; i < 4; i++) samples[i] = 10 * (r % 2) + i;
    size_t starts[] = {0, 2, 4};
    LS_TRY(ls_all_gather(group, back, samples + 2 * ls_group_rank(group), starts, LS_I32));
    EXPECT(memcmp(back, samples, sizeof back) == 0, "rank %d: %d %d %d %d", r, back[0], back[1],
           back[2], back[3]);
exit:
    return status;
}

static ls_status root_by_world_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    ls_status *seen = argument;
    int r = ls_rank_index(rank);
    ls_group *upper = NULL;
    float x = 1;
    LS_TRY(ls_group_split(ls_rank_world_group(rank), r / 2, r, r < 2 ? "lower" : "upper", &upper));
    if (r >= 2) seen[r] = ls_broadcast(upper, &x, 1, LS_F32, 2);
    if (r >= 2) status = seen[r];
exit:
    return status;
}

START_TEST(numbers_are_local_to_the_group)
{
    ls_status seen[4] = {LS_OK};
    run_well(4, NULL, scatter_and_gather, NULL);
    const char *text = run_badly(4, NULL, root_by_world_rank, seen, LS_ERR_INPUT);
    ck_assert_has(text, "broadcast from member 2: group upper has members 0 to 1");
    ck_assert_int_ne(seen[2], LS_OK);
    ck_assert_int_ne(seen[3], LS_OK);
}
END_TEST

/* ---- nested shards: 5 rows over 2 x 2 ranks are 2, 1, 1, 1; gathered inside out they are rows 0
 * .. 4 */

static ls_status gather_nested(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *inner = NULL, *outer = NULL;
    LS_TRY(ls_group_split(world, r / 2, r, "inner", &inner));
    LS_TRY(ls_group_split(world, r % 2, r, "outer", &outer));
    size_t outer_starts[] = {0, 3, 5}, inner_starts[2][3] = {{0, 2, 3}, {0, 1, 2}};
    const size_t *cut = inner_starts[r / 2];
    int32_t mine[2], half[3], all[5];
    for (size_t i = cut[r % 2]; i < cut[r % 2 + 1]; i++)
        mine[i - cut[r % 2]] = (int32_t)(outer_starts[r / 2] + i);
    LS_TRY(ls_all_gather(inner, half, mine, cut, LS_I32));
    LS_TRY(ls_all_gather(outer, all, half, outer_starts, LS_I32));
    for (int i = 0; i < 5; i++) EXPECT(all[i] == i, "row %d is %d", i, all[i]);
exit:
    return status;
}

START_TEST(nested_shards)
{
    run_well(4, NULL, gather_nested, NULL);
}
END_TEST

/* ---- counters */

static ls_status count_calls(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *pair = NULL;
    LS_TRY(ls_group_split(world, r / 2, r, "pair", &pair));
    float in[300] = {0}, out[300];
    double d_in[24] = {0}, d_out[24];
    size_t starts[] = {0, 1, 4, 4, 10}, bounds[] = {0, 3, 6, 9, 12};
    size_t pair_starts[] = {0, 7, 20}, counts[] = {1, 2, 3, 4};
    ls_forest forest = {12, bounds};
    for (int i = 0; i < 3; i++) LS_TRY(ls_barrier(pair));
    LS_TRY(ls_barrier(world));
    LS_TRY(ls_broadcast(world, in, 5, LS_F32, 1));
    LS_TRY(ls_all_reduce(world, out, in, 9, LS_F32, LS_REDUCE_MAX));
    LS_TRY(ls_all_reduce(pair, d_out, d_in, 2, LS_F64, LS_REDUCE_MAX));
    /* 12 leaves, 3 on each of 4 members: one partial each, 3 leaves being one node. */
    LS_TRY(ls_all_reduce_forest(world, out, in, 100, LS_F32, &forest));
    LS_TRY(ls_reduce_scatter_forest(world, d_out, d_in, starts, LS_F64, &forest));
    /* 12 leaves as 4 and 8: two partials (3 + 1 leaves) and three (2 + 3 + 3). */
    size_t uneven[] = {0, 4, 12};
    ls_forest two = {12, uneven};
    LS_TRY(ls_all_reduce_forest(pair, out, in, 50, LS_F32, &two));
    LS_TRY(ls_all_gather(pair, out, in, pair_starts, LS_F32));
    LS_TRY(ls_all_gather_columns(pair, out, in, 5, pair_starts, LS_F32));
    LS_TRY(ls_all_to_all(pair, out, in, counts, LS_F32));
    if (r % 2 == 0)
        LS_TRY(ls_send(pair, 1, 0, in, 11, LS_F32));
    else
        LS_TRY(ls_receive(pair, 0, 0, out, 11, LS_F32));

    const ls_comm_count world_right[LS_OP_COUNT] = {[LS_OP_BARRIER] = {1, 0},
                                                    [LS_OP_BROADCAST] = {1, r == 1 ? 20 : 0},
                                                    [LS_OP_ALL_REDUCE] = {2, 36 + 400},
                                                    [LS_OP_REDUCE_SCATTER] = {1, 80}};
    const ls_comm_count pair_right[LS_OP_COUNT] = {
        [LS_OP_BARRIER] = {3, 0},
        [LS_OP_ALL_REDUCE] = {2, 16 + (r % 2 == 0 ? 2u : 3u) * 200},
        [LS_OP_ALL_GATHER] = {2, (r % 2 == 0 ? 7u : 13u) * 4 * 6},
        [LS_OP_ALL_TO_ALL] = {1, r % 2 == 0 ? 8 : 12},
        [LS_OP_SEND] = {r % 2 == 0, r % 2 == 0 ? 44 : 0},
        [LS_OP_RECEIVE] = {r % 2 == 1, 0}};
    for (int op = 0; op < LS_OP_COUNT; op++) {
        ls_comm_count w = ls_group_count(world, (ls_operation)op);
        ls_comm_count p = ls_group_count(pair, (ls_operation)op);
        ls_comm_count all = ls_rank_count(rank, (ls_operation)op);
        const char *name = ls_operation_name((ls_operation)op);
        EXPECT(w.calls == world_right[op].calls && w.bytes == world_right[op].bytes,
               "rank %d: world %s: %d calls, %d bytes", r, name, (int)w.calls, (int)w.bytes);
        EXPECT(p.calls == pair_right[op].calls && p.bytes == pair_right[op].bytes,
               "rank %d: pair %s: %d calls, %d bytes", r, name, (int)p.calls, (int)p.bytes);
        EXPECT(all.calls == w.calls + p.calls && all.bytes == w.bytes + p.bytes, "total %s", name);
    }
exit:
    return status;
}

START_TEST(calls_and_bytes_are_counted)
{
    run_well(4, NULL, count_calls, NULL);
    ck_assert_str_eq(ls_operation_name(LS_OP_REDUCE_SCATTER), "reduce_scatter");
}
END_TEST

TEST_MAIN("groups", colors_and_keys, splits_of_splits, numbers_are_local_to_the_group,
          nested_shards, calls_and_bytes_are_counted)
