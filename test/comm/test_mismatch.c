/* Calls that do not fit together: an error on every rank, in words, and no hang. */
#include "comm/comm_test.h"

/* ---- different calls */

typedef struct mismatch {
    const char *name;
    ls_status (*call)(ls_group *group, int other); /* other: 1 on the rank that differs */
    const char *text;                              /* what is said, after "group tp, call 3: " */
} mismatch;

enum { RANKS = 3 };
static float a[1000], b[1000];
static const size_t STARTS[] = {0, 2, 5, 9}, OTHER_STARTS[] = {0, 2, 6, 9};
static const size_t BOUNDS[] = {0, 4, 8, 12}, OTHER_BOUNDS[] = {0, 4, 9, 12}, SIX[] = {0, 2, 4, 6};
static const size_t COUNTS[] = {1, 2, 3, 4, 5, 6, 7, 8, 9},
                    OTHER_COUNTS[] = {1, 2, 3, 4, 5, 7, 6, 8, 9};

static ls_status op_count(ls_group *g, int other)
{
    return ls_all_reduce(g, a, a, other ? 200 : 100, LS_F32, LS_REDUCE_MAX);
}
static ls_status op_dtype(ls_group *g, int other)
{
    return ls_all_reduce(g, a, a, 100, other ? LS_I32 : LS_F32, LS_REDUCE_MAX);
}
static ls_status op_reduction(ls_group *g, int other)
{
    return ls_all_reduce(g, a, a, 100, LS_F32, other ? LS_REDUCE_MIN : LS_REDUCE_MAX);
}
static ls_status op_operation(ls_group *g, int other)
{
    return other ? ls_all_gather(g, a, b, STARTS, LS_F32) : ls_broadcast(g, a, 9, LS_F32, 0);
}
static ls_status op_barrier(ls_group *g, int other)
{
    return other ? ls_barrier(g) : ls_broadcast(g, a, 7, LS_F32, 0);
}
static ls_status op_split(ls_group *g, int other)
{
    ls_group *ret = NULL;
    return other ? ls_group_split(g, 0, 0, "x", &ret) : ls_barrier(g);
}
static ls_status op_root(ls_group *g, int other)
{
    return ls_broadcast(g, a, 7, LS_F32, other);
}
static ls_status op_starts(ls_group *g, int other)
{
    return ls_all_gather(g, a, b, other ? OTHER_STARTS : STARTS, LS_F32);
}
static ls_status op_rows(ls_group *g, int other)
{
    return ls_all_gather_columns(g, a, b, other ? 4 : 3, STARTS, LS_F32);
}
static ls_status op_counts(ls_group *g, int other)
{
    return ls_all_to_all(g, a, b, other ? OTHER_COUNTS : COUNTS, LS_F32);
}
static ls_status op_leaves(ls_group *g, int other)
{
    ls_forest f = {12, BOUNDS}, o = {6, SIX};
    return ls_all_reduce_forest(g, a, a, 10, LS_F32, other ? &o : &f);
}
static ls_status op_bounds(ls_group *g, int other)
{
    ls_forest f = {12, BOUNDS}, o = {12, OTHER_BOUNDS};
    return ls_reduce_scatter_forest(g, a, b, STARTS, LS_F32, other ? &o : &f);
}
static ls_status op_shares(ls_group *g, int other)
{
    ls_forest f = {12, BOUNDS};
    return ls_reduce_scatter_forest(g, a, b, other ? OTHER_STARTS : STARTS, LS_F32, &f);
}
static ls_status op_scatter_rows(ls_group *g, int other)
{
    ls_forest f = {12, BOUNDS};
    return ls_reduce_scatter_columns_forest(g, a, b, other ? 4 : 3, STARTS, LS_F32, &f);
}
static ls_status op_scatter_columns(ls_group *g, int other)
{
    ls_forest f = {12, BOUNDS};
    return other ? ls_reduce_scatter_columns_forest(g, a, b, 1, STARTS, LS_F32, &f)
                 : ls_reduce_scatter_forest(g, a, b, STARTS, LS_F32, &f);
}
/* One call more on one rank: all later ones are shifted, and that shows at the first that differs.
 */
static ls_status op_one_more(ls_group *g, int other)
{
    ls_status status = LS_OK;
    if (other) status = ls_broadcast(g, a, 9, LS_F32, 0);
    if (status == LS_OK) status = ls_all_gather(g, a, b, STARTS, LS_F32);
    return status;
}

/* The rank that differs is the last one, rank 2 of the world. */
static const mismatch MISMATCHES[] = {
    {"count", op_count, "rank 0 calls all_reduce of 100 F32, rank 2 calls all_reduce of 200 F32"},
    {"dtype", op_dtype, "rank 0 calls all_reduce of 100 F32, rank 2 calls all_reduce of 100 I32"},
    {"reduction", op_reduction,
     "rank 0 calls all_reduce of 100 F32 for the max, rank 2 calls all_reduce of 100 F32 for the "
     "min"},
    {"operation", op_operation,
     "rank 0 calls broadcast of 9 F32, rank 2 calls all_gather of 9 F32"},
    {"barrier", op_barrier, "rank 0 calls broadcast of 7 F32, rank 2 calls barrier"},
    {"split", op_split, "rank 0 calls barrier, rank 2 calls group_split"},
    {"root", op_root,
     "rank 0 calls broadcast of 7 F32 from member 0, rank 2 calls broadcast of 7 F32 from member "
     "1"},
    {"starts", op_starts,
     "rank 0 calls all_gather of 9 F32 with starts[2] = 5, rank 2 calls all_gather of 9 F32 with "
     "starts[2] = 6"},
    {"rows", op_rows,
     "rank 0 calls all_gather_columns of 9 F32 in 3 rows, rank 2 calls all_gather_columns of 9 F32 "
     "in 4 "
     "rows"},
    {"counts", op_counts,
     "rank 0 calls all_to_all of 45 F32 with counts[5] = 6, rank 2 calls all_to_all of 45 F32 with "
     "counts[5] = 7"},
    {"leaves", op_leaves,
     "rank 0 calls all_reduce_forest of 10 F32 over 12 leaves, rank 2 calls all_reduce_forest of "
     "10 F32 "
     "over 6 leaves"},
    {"bounds", op_bounds,
     "rank 0 calls reduce_scatter_forest of 9 F32 with bounds[2] = 8, rank 2 calls "
     "reduce_scatter_forest "
     "of 9 F32 with bounds[2] = 9"},
    {"shares", op_shares,
     "rank 0 calls reduce_scatter_forest of 9 F32 with starts[2] = 5, rank 2 calls "
     "reduce_scatter_forest "
     "of 9 F32 with starts[2] = 6"},
    {"scatter rows", op_scatter_rows,
     "rank 0 calls reduce_scatter_columns_forest of 9 F32 in 3 rows, rank 2 calls "
     "reduce_scatter_columns_forest of 9 F32 in 4 rows"},
    {"scatter columns", op_scatter_columns,
     "rank 0 calls reduce_scatter_forest of 9 F32, rank 2 calls reduce_scatter_columns_forest of 9 "
     "F32"},
    {"one more", op_one_more, "rank 0 calls all_gather of 9 F32, rank 2 calls broadcast of 9 F32"},
};

typedef struct outcome {
    const mismatch *m;
    int who; /* differs */
    ls_status seen[RANKS], later[RANKS];
    char text[RANKS][400];
} outcome;

static ls_status call_differently(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    outcome *o = argument;
    int r = ls_rank_index(rank);
    ls_group *world = ls_rank_world_group(rank), *tp = NULL;
    LS_TRY(ls_group_split(world, 0, r, "tp", &tp));
    LS_TRY(ls_barrier(tp));
    LS_TRY(ls_barrier(tp));
    o->seen[r] = status = o->m->call(tp, r == o->who);
    snprintf(o->text[r], sizeof o->text[r], "%s", ls_error_text());
    o->later[r] = ls_barrier(world);
exit:
    return status;
}

START_TEST(different_calls_fail_everywhere)
{
    for (size_t i = 0; i < sizeof MISMATCHES / sizeof MISMATCHES[0]; i++) {
        static outcome o;
        o = (outcome){.m = &MISMATCHES[i], .who = 2};
        char expected[500];
        snprintf(expected, sizeof expected, "group tp, call 3: %s", o.m->text);
        const char *text = run_badly(RANKS, NULL, call_differently, &o, LS_ERR_RANK);
        ck_assert_msg(strstr(text, expected) != NULL, "%s: '%s'", o.m->name, text);
        for (int r = 0; r < RANKS; r++) {
            ck_assert_msg(o.seen[r] == LS_ERR_RANK, "%s: rank %d has status %d", o.m->name, r,
                          (int)o.seen[r]);
            ck_assert_str_eq(o.text[r], expected);
            ck_assert_int_eq(o.later[r], LS_ERR_ABORTED);
        }
    }
}
END_TEST

START_TEST(every_position_is_compared)
{
    static outcome o;
    for (int who = 0; who < RANKS; who++) {
        o = (outcome){.m = &MISMATCHES[0], .who = who};
        const char *text = run_badly(RANKS, NULL, call_differently, &o, LS_ERR_RANK);
        char part[64];
        snprintf(part, sizeof part, "rank %d calls all_reduce of 200 F32", who);
        ck_assert_has(text, part);
        for (int r = 0; r < RANKS; r++) ck_assert_int_eq(o.seen[r], LS_ERR_RANK);
    }
}
END_TEST

/* ---- arguments that are wrong by themselves */

typedef struct bad_call {
    ls_status (*call)(ls_group *group);
    const char *text;
} bad_call;

static const size_t NOT_FROM_0[] = {1, 2}, DOWN[] = {0, 5, 3};

static ls_status bad_root(ls_group *g)
{
    return ls_broadcast(g, a, 1, LS_F32, -1);
}
static ls_status bad_sum(ls_group *g)
{
    return ls_all_reduce(g, a, a, 1, LS_F64, LS_REDUCE_SUM);
}
static ls_status bad_dtype(ls_group *g)
{
    return ls_all_reduce(g, a, a, 1, (ls_dtype)77, LS_REDUCE_MAX);
}
static ls_status bad_half(ls_group *g)
{
    return ls_all_reduce(g, a, a, 1, LS_F16, LS_REDUCE_MAX);
}
static ls_status bad_size(ls_group *g)
{
    return ls_broadcast(g, a, SIZE_MAX / 4, LS_F64, 0);
}
static ls_status bad_starts(ls_group *g)
{
    return ls_all_gather(g, a, b, ls_group_size(g) == 1 ? NOT_FROM_0 : DOWN, LS_F32);
}
static ls_status bad_forest_dtype(ls_group *g)
{
    const size_t bounds[] = {0, 2, 4};
    ls_forest f = {4, bounds};
    return ls_all_reduce_forest(g, a, b, 4, LS_I32, &f);
}
static ls_status bad_leaves(ls_group *g)
{
    const size_t bounds[] = {0, 2, 4};
    ls_forest f = {5, bounds};
    return ls_all_reduce_forest(g, a, b, 4, LS_F32, &f);
}
static ls_status bad_bounds(ls_group *g)
{
    ls_forest f = {3, DOWN};
    return ls_all_reduce_forest(g, a, b, 4, LS_F32, &f);
}
static ls_status bad_overlap_reduce(ls_group *g)
{
    return ls_all_reduce(g, a + 1, a, 10, LS_F32, LS_REDUCE_MAX);
}
static ls_status bad_overlap_forest(ls_group *g)
{
    const size_t bounds[] = {0, 3, 4}; /* member 0: two partials, the second one under out */
    ls_forest f = {4, bounds};
    return ls_all_reduce_forest(g, a + 10, a, 10, LS_F32, &f);
}
static ls_status bad_overlap_scatter(ls_group *g)
{
    const size_t bounds[] = {0, 2, 4}, starts[] = {0, 5, 10};
    ls_forest f = {4, bounds};
    return ls_reduce_scatter_forest(g, a, a, starts, LS_F32, &f);
}
static ls_status bad_overlap_scatter_columns(ls_group *g)
{
    const size_t bounds[] = {0, 2, 4}, starts[] = {0, 5, 10};
    ls_forest f = {4, bounds};
    return ls_reduce_scatter_columns_forest(g, a + 29, a, 3, starts, LS_F32, &f);
}
static ls_status bad_rows(ls_group *g)
{
    const size_t bounds[] = {0, 2, 4}, starts[] = {0, 5, 10};
    ls_forest f = {4, bounds};
    return ls_reduce_scatter_columns_forest(g, a, b, SIZE_MAX / 16, starts, LS_F32, &f);
}
static ls_status bad_overlap_gather(ls_group *g)
{
    const size_t starts[] = {0, 5, 10};
    return ls_all_gather(g, a, a + 1, starts, LS_F32);
}
static ls_status bad_overlap_columns(ls_group *g)
{
    const size_t starts[] = {0, 5, 10};
    return ls_all_gather_columns(g, a, a, 3, starts, LS_F32);
}
static ls_status bad_overlap_all_to_all(ls_group *g)
{
    const size_t counts[] = {1, 1, 1, 1};
    return ls_all_to_all(g, a, a, counts, LS_F32);
}
static ls_status bad_peer(ls_group *g)
{
    return ls_send(g, 2, 0, a, 1, LS_F32);
}
static ls_status bad_self(ls_group *g)
{
    return ls_receive(g, ls_group_rank(g), 0, a, 1, LS_F32);
}
static ls_status bad_overlap_exchange(ls_group *g)
{
    int peer = 1 - ls_group_rank(g);
    return ls_send_receive(g, peer, 0, a, 5, peer, 0, a + 4, 5, LS_F32);
}

static const bad_call BAD_CALLS[] = {
    {bad_root, "broadcast from member -1: group world has members 0 to 1"},
    {bad_sum, "a floating-point sum has an order"},
    {bad_dtype, "dtype 77"},
    {bad_half, "all_reduce of F16"},
    {bad_size, "more than can be addressed"},
    {bad_starts, "starts[2] is 3, below starts[1] = 5"},
    {bad_forest_dtype, "a forest of I32"},
    {bad_leaves, "forest bounds[2] is 4, must be the number of leaves, 5"},
    {bad_bounds, "forest bounds[2] is 3, below forest bounds[1] = 5"},
    {bad_overlap_reduce, "overlap: out starts 4 bytes into in"},
    {bad_overlap_forest, "overlap"},
    {bad_overlap_scatter, "overlap"},
    {bad_overlap_scatter_columns, "overlap"},
    {bad_rows, "rows of 10 elements of F32 are more than can be addressed"},
    {bad_overlap_gather, "overlap: in starts 4 bytes into out"},
    {bad_overlap_columns, "overlap"},
    {bad_overlap_all_to_all, "overlap"},
    {bad_peer, "send to member 2: group world has members 0 to 1"},
    {bad_self, "which is the caller itself"},
    {bad_overlap_exchange, "overlap"},
};

/* Only rank 0 calls it wrongly; the other one waits in a barrier and must be woken. */
static ls_status call_wrongly(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const bad_call *c = argument;
    ls_group *world = ls_rank_world_group(rank);
    if (ls_rank_index(rank) == 0)
        LS_TRY(c->call(world));
    else
        LS_TRY(ls_barrier(world));
    fault("not refused");
exit:
    EXPECT(ls_rank_index(rank) == 0 || status == LS_ERR_ABORTED, "status %d", (int)status);
    return status;
}

START_TEST(wrong_arguments_are_refused)
{
    for (size_t i = 0; i < sizeof BAD_CALLS / sizeof BAD_CALLS[0]; i++) {
        bad_call c = BAD_CALLS[i];
        ck_assert_has(run_badly(2, NULL, call_wrongly, &c, LS_ERR_INPUT), c.text);
    }
    bad_call c = {bad_starts, "starts[0] is 1, must be 0"};
    ck_assert_has(run_badly(1, NULL, call_wrongly, &c, LS_ERR_INPUT), c.text);
}
END_TEST

TEST_MAIN("mismatch", different_calls_fail_everywhere, every_position_is_compared,
          wrong_arguments_are_refused)
