/* Reductions of a forest: whatever runs of leaves the members own, the result has the bits of T(n)
 * over all leaves, evaluated directly from its definition. Random data of mixed sign, so that a
 * wrong order shows. */
#include "comm/comm_test.h"

#include "numerics/tree_reference.h"

enum { BOUND_KINDS = 5 };

/* Cuts n leaves into runs: 0 nearly equal, 1 rounded up (the last ones short or empty), 2 all to
 * one member, 3 random with empty ones, 4 nearly equal but member 0 has none. */
static void cut_leaves(size_t *bounds, size_t size, size_t n, int kind, uint64_t seed)
{
    size_t each = (n + size - 1) / size;
    bounds[0] = 0;
    for (size_t m = 0; m < size; m++) {
        size_t end = n * (m + 1) / size;
        if (kind == 1) end = each * (m + 1) < n ? each * (m + 1) : n;
        if (kind == 2) end = m < size / 2 ? 0 : n;
        if (kind == 3) end = bounds[m] + mix(seed + m) % (n - bounds[m] + 1) * (m % 3 != 1);
        if (kind == 4) end = size == 1 ? n : n * m / (size - 1);
        bounds[m + 1] = m + 1 == size ? n : end;
    }
}

/* Leaf `leaf` at element `i`. */
static ls_real leaf_value(size_t leaf, size_t i, uint64_t seed)
{
    uint64_t z = mix(seed + leaf * 1000003u + i * 7919u + 1);
    double scale = z % 7 == 0 ? 1e4 : 1.0;
    return (ls_real)(((double)(z >> 11) / 9007199254740992.0 - 0.5) * scale);
}

enum { MAX_LEAVES = 130 };

static ls_real node_value(size_t lo, size_t hi, size_t i, uint64_t seed)
{
    ls_real leaves[MAX_LEAVES];
    for (size_t k = lo; k < hi; k++) leaves[k - lo] = leaf_value(k, i, seed);
    return reference_tree(leaves, hi - lo);
}

static size_t differing(const ls_real *got, size_t n, size_t first, size_t leaves, uint64_t seed)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        ls_real right = node_value(0, leaves, first + i, seed);
        wrong += memcmp(&got[i], &right, sizeof right) != 0;
    }
    return wrong;
}

typedef struct forest_case {
    size_t leaves, count;
    int bound_kind, share_kind;
    uint64_t seed;
} forest_case;

static ls_status try_forest(ls_group *group, const forest_case *c)
{
    ls_status status = LS_OK;
    size_t size = (size_t)ls_group_size(group), own = (size_t)ls_group_rank(group);
    size_t bounds[MAX_TEST_RANKS + 1], starts[MAX_TEST_RANKS + 1];
    ls_node nodes[LS_FOREST_MAX];
    cut_leaves(bounds, size, c->leaves, c->bound_kind, c->seed);
    cut_leaves(starts, size, c->count, c->share_kind, c->seed + 99);
    ls_forest forest = {c->leaves, bounds};
    size_t n = ls_tree_forest(c->leaves, bounds[own], bounds[own + 1], nodes);
    /* In place needs room for the result also where there is no partial. */
    size_t room = n > 0 ? n : 1, e = sizeof(ls_real), share = starts[own + 1] - starts[own];
    guarded in = guarded_new(room * c->count * e), copy = guarded_new(in.bytes);
    guarded out = guarded_new(c->count * e), mine = guarded_new(share * e);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < c->count; i++)
            ((ls_real *)in.data)[j * c->count + i] =
                node_value(nodes[j].lo, nodes[j].hi, i, c->seed);
    if (in.bytes > 0) memcpy(copy.data, in.data, in.bytes);

    for (int twice = 0; twice < 2; twice++) {
        memset(out.data, 0xff, out.bytes);
        memset(mine.data, 0xff, mine.bytes);
        LS_TRY(ls_all_reduce_forest(group, out.data, in.data, c->count, LS_REAL_DTYPE, &forest));
        size_t wrong = differing((ls_real *)out.data, c->count, 0, c->leaves, c->seed);
        EXPECT(wrong == 0,
               "all_reduce_forest, %zu ranks, %zu leaves kind %d, %zu elements: %zu differ", size,
               c->leaves, c->bound_kind, c->count, wrong);
        LS_TRY(ls_reduce_scatter_forest(group, mine.data, in.data, starts, LS_REAL_DTYPE, &forest));
        wrong = differing((ls_real *)mine.data, share, starts[own], c->leaves, c->seed);
        EXPECT(wrong == 0, "reduce_scatter_forest, %zu leaves kind %d, shares kind %d: %zu differ",
               c->leaves, c->bound_kind, c->share_kind, wrong);
        EXPECT(memcmp(in.data, copy.data, in.bytes) == 0, "a reduction wrote to its input");
        /* The input is free as soon as the call returns: no slow peer may see this. */
        memset(in.data, 0xee, in.bytes);
        LS_TRY(ls_barrier(group));
        if (in.bytes > 0) memcpy(in.data, copy.data, in.bytes);
    }
    LS_TRY(ls_all_reduce_forest(group, in.data, in.data, c->count, LS_REAL_DTYPE, &forest));
    EXPECT(memcmp(in.data, out.data, c->count * e) == 0, "all_reduce_forest in place");
    guarded_free(&in);
    guarded_free(&copy);
    guarded_free(&out);
    guarded_free(&mine);
exit:
    return status;
}

/* The columns of every row: c->count of them, shared out; the arrays are rows x count. */
static ls_status try_columns(ls_group *group, const forest_case *c, size_t rows)
{
    ls_status status = LS_OK;
    size_t size = (size_t)ls_group_size(group), own = (size_t)ls_group_rank(group);
    size_t bounds[MAX_TEST_RANKS + 1], starts[MAX_TEST_RANKS + 1];
    ls_node nodes[LS_FOREST_MAX];
    cut_leaves(bounds, size, c->leaves, c->bound_kind, c->seed);
    cut_leaves(starts, size, c->count, c->share_kind, c->seed + 99);
    ls_forest forest = {c->leaves, bounds};
    size_t n = ls_tree_forest(c->leaves, bounds[own], bounds[own + 1], nodes);
    size_t all = rows * c->count, share = starts[own + 1] - starts[own], e = sizeof(ls_real);
    guarded in = guarded_new(n * all * e), mine = guarded_new(rows * share * e);
    ls_comm_count before = ls_group_count(group, LS_OP_REDUCE_SCATTER);
    for (int twice = 0; twice < 2; twice++) {
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < all; i++)
                ((ls_real *)in.data)[j * all + i] =
                    node_value(nodes[j].lo, nodes[j].hi, i, c->seed);
        memset(mine.data, 0xff, mine.bytes);
        LS_TRY(ls_reduce_scatter_columns_forest(group, mine.data, in.data, rows, starts,
                                                LS_REAL_DTYPE, &forest));
        /* The input is free as soon as the call returns. */
        memset(in.data, 0xee, in.bytes);
        size_t wrong = 0;
        for (size_t row = 0; row < rows; row++)
            wrong += differing((ls_real *)mine.data + row * share, share,
                               row * c->count + starts[own], c->leaves, c->seed);
        EXPECT(wrong == 0,
               "columns, %zu ranks, %zu leaves kind %d, %zu x %zu, shares kind %d: %zu differ",
               size, c->leaves, c->bound_kind, rows, c->count, c->share_kind, wrong);
    }
    ls_comm_count after = ls_group_count(group, LS_OP_REDUCE_SCATTER);
    EXPECT(after.calls == before.calls + 2, "two calls counted as %d",
           (int)(after.calls - before.calls));
    EXPECT(after.bytes == before.bytes + 2 * n * all * e, "bytes of %zu partials", n);
    guarded_free(&in);
    guarded_free(&mine);
exit:
    return status;
}

typedef struct sweep {
    const size_t *leaves, *counts;
    size_t n_leaves, n_counts;
    int split;
} sweep;

static ls_status go_through(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const sweep *s = argument;
    ls_group *group = ls_rank_world_group(rank);
    int r = ls_group_rank(group);
    if (s->split) LS_TRY(ls_group_split(group, r % 2, r % 3, "parity", &group));
    for (size_t l = 0; l < s->n_leaves; l++)
        for (size_t k = 0; k < s->n_counts; k++)
            for (int kind = 0; kind < BOUND_KINDS; kind++) {
                forest_case c = {s->leaves[l], s->counts[k], kind, (kind + 2) % BOUND_KINDS,
                                 l * 1000 + k};
                LS_TRY(try_forest(group, &c));
                LS_TRY(try_columns(group, &c, (l + k + (size_t)kind) % 5));
            }
exit:
    return status;
}

START_TEST(every_small_tree)
{
    size_t leaves[24];
    static const size_t counts[] = {0, 1, 19};
    for (size_t n = 0; n < 24; n++) leaves[n] = n; /* no leaf at all: +0 */
    sweep s = {leaves, counts, 24, 3, 0};
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (int i = 0; i < 5; i++) run_well(sizes[i], NULL, go_through, &s);
}
END_TEST

START_TEST(ranks_times_counts)
{
    static const size_t leaves[] = {1, 12, 13, 24, 31, 64, 100, 129};
    for (int p = 0; p < N_RANK_COUNTS; p++) {
        size_t n = (size_t)RANK_COUNTS[p], counts[] = {n - 1, n + 1, 67};
        sweep s = {leaves, counts, 8, 3, 0};
        run_well(RANK_COUNTS[p], NULL, go_through, &s);
    }
}
END_TEST

START_TEST(groups_and_delays)
{
    static const size_t leaves[] = {7, 12}, counts[] = {1, 37};
    ls_world_options options = {.delay_seed = 3, .delay_max_ns = 100000};
    sweep s = {leaves, counts, 2, 2, 1};
    run_well(5, &options, go_through, &s);
    run_well(8, NULL, go_through, &s);
    s.split = 0;
    run_well(6, &options, go_through, &s);
}
END_TEST

/* Large arrays, where a member that reads a tail already overwritten would show; integers, so that
 * the right value is plain: element i of rank r's partial j is small(r, i) + j. */
static ls_status reduce_large(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    static const size_t counts[] = {1, 4097, 3, 65536, 1, 1000000};
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank), size = ls_rank_world_size(rank);
    size_t bounds[MAX_TEST_RANKS + 1], n_all = 0;
    (void)argument;
    for (int m = 0; m <= size; m++) bounds[m] = (size_t)m * 12 / (size_t)size;
    ls_forest forest = {12, bounds};
    size_t n = ls_tree_forest(12, bounds[r], bounds[r + 1], NULL);
    for (int c = 0; c < 6; c++) {
        size_t count = counts[c];
        ls_real *in = malloc((n * count + 1) * sizeof *in),
                *out = malloc((count + 1) * sizeof *out);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < count; i++) in[j * count + i] = (ls_real)(small(r, i) + (int)j);
        for (int twice = 0; twice < 3; twice++) {
            ls_real *to = twice == 2 ? in : out;
            LS_TRY(ls_all_reduce_forest(world, to, in, count, LS_REAL_DTYPE, &forest));
            size_t wrong = 0;
            for (size_t i = 0; i < count; i++) {
                int right = 0;
                for (int m = 0; m < size; m++) {
                    n_all = ls_tree_forest(12, bounds[m], bounds[m + 1], NULL);
                    for (size_t j = 0; j < n_all; j++) right += small(m, i) + (int)j;
                }
                wrong += !equals(to, i, LS_REAL_DTYPE, right);
                if (count > 100000)
                    i += 996; /* a sample, both ends of every slice among them or near */
            }
            EXPECT(wrong == 0, "%zu elements on %d ranks: %zu wrong", count, size, wrong);
        }
        free(in);
        free(out);
    }
exit:
    return status;
}

START_TEST(large_arrays)
{
    static const int sizes[] = {2, 3, 5};
    for (int i = 0; i < 3; i++) run_well(sizes[i], NULL, reduce_large, NULL);
}
END_TEST

TEST_MAIN("forest_reduce", every_small_tree, ranks_times_counts, groups_and_delays, large_arrays)
