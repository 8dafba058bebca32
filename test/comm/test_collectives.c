/* Every collective with small integers as data, so that all that moves or reduces them must be
 * exact: ranks x counts x types x shares, in place and out of place, each twice, inputs unchanged,
 * nothing written beside the outputs. */
#include "comm/comm_test.h"

/* What one run goes through on every rank. */
typedef struct grid {
    const size_t *counts;
    size_t n_counts;
    const ls_dtype *dtypes;
    size_t n_dtypes;
    int groups; /* 0: the world; 1: two groups by parity, the higher ranks first; 2: halves */
} grid;

/* Value that member m's world rank holds at place i, in call number `salt`. */
static int value(const ls_group *group, int m, size_t i, int salt)
{
    return small(ls_group_world_rank(group, m) + 100 * salt, i);
}

static guarded filled(const ls_group *group, size_t n, ls_dtype dtype, int salt)
{
    guarded b = guarded_new(n * ls_dtype_bytes(dtype));
    for (size_t i = 0; i < n; i++)
        put(b.data, i, dtype, value(group, ls_group_rank(group), i, salt));
    return b;
}

static void expect_unchanged(const ls_group *group, const guarded *b, ls_dtype dtype, int salt,
                             const char *what)
{
    size_t n = b->bytes / ls_dtype_bytes(dtype), wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += !equals(b->data, i, dtype, value(group, ls_group_rank(group), i, salt));
    EXPECT(wrong == 0, "%s wrote to its input", what);
}

/* ---- broadcast */

static ls_status try_broadcast(ls_group *group, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    for (int root = 0; root < ls_group_size(group); root += 1 + ls_group_size(group) / 3) {
        guarded b = filled(group, count, dtype, root);
        for (int twice = 0; twice < 2; twice++) {
            status = ls_broadcast(group, b.data, count, dtype, root);
            size_t wrong = 0;
            for (size_t i = 0; i < count; i++)
                wrong += !equals(b.data, i, dtype, value(group, root, i, root));
            EXPECT(wrong == 0, "broadcast of %zu from %d", count, root);
        }
        guarded_free(&b);
        if (status != LS_OK) break;
    }
    return status;
}

/* ---- all_reduce */

static int reduced(const ls_group *group, size_t i, int salt, ls_reduction reduction)
{
    int result = value(group, 0, i, salt);
    for (int m = 1; m < ls_group_size(group); m++) {
        int v = value(group, m, i, salt);
        if (reduction == LS_REDUCE_SUM) result += v;
        if (reduction == LS_REDUCE_MAX && v > result) result = v;
        if (reduction == LS_REDUCE_MIN && v < result) result = v;
    }
    return result;
}

/* Sums of bytes wrap around and are shifted by 100 for each member: see put(). */
static int reduced_as(const ls_group *group, size_t i, int salt, ls_reduction reduction,
                      ls_dtype dtype)
{
    int result = reduced(group, i, salt, reduction);
    if (dtype == LS_U8 && reduction == LS_REDUCE_SUM) result += 100 * (ls_group_size(group) - 1);
    return result;
}

static ls_status try_all_reduce(ls_group *group, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    static const ls_reduction all[] = {LS_REDUCE_MAX, LS_REDUCE_MIN, LS_REDUCE_SUM};
    int n = dtype == LS_F32 || dtype == LS_F64 ? 2 : 3;
    for (int k = 0; k < n; k++) {
        guarded in = filled(group, count, dtype, k), out = guarded_new(in.bytes);
        for (int twice = 0; twice < 2; twice++) {
            LS_TRY(ls_all_reduce(group, out.data, in.data, count, dtype, all[k]));
            size_t wrong = 0;
            for (size_t i = 0; i < count; i++)
                wrong += !equals(out.data, i, dtype, reduced_as(group, i, k, all[k], dtype));
            EXPECT(wrong == 0, "all_reduce %d of %zu %s", k, count, ls_dtype_name(dtype));
            expect_unchanged(group, &in, dtype, k, "all_reduce");
        }
        LS_TRY(ls_all_reduce(group, in.data, in.data, count, dtype, all[k]));
        EXPECT(memcmp(in.data, out.data, in.bytes) == 0, "all_reduce in place, %zu", count);
        guarded_free(&in);
        guarded_free(&out);
    }
exit:
    return status;
}

/* ---- all_gather */

/* Cuts n elements into shares: 0 nearly equal, 1 rounded up so that the last ones are short or
 * empty, 2 all to one member, 3 uneven with empty ones between. */
enum { SHARE_KINDS = 4 };

static void cut(size_t *starts, size_t size, size_t n, int kind)
{
    size_t each = (n + size - 1) / size;
    starts[0] = 0;
    for (size_t m = 0; m < size; m++) {
        size_t end = n;
        if (kind == 0) end = n * (m + 1) / size;
        if (kind == 1 && each * (m + 1) < n) end = each * (m + 1);
        if (kind == 2) end = m < size / 2 ? 0 : n;
        if (kind == 3 && m + 1 < size)
            end = m % 2 == 0 ? starts[m] : starts[m] + (n - starts[m]) / 2;
        starts[m + 1] = end;
    }
}

static ls_status try_all_gather(ls_group *group, size_t count, ls_dtype dtype, int kind)
{
    ls_status status = LS_OK;
    size_t size = (size_t)ls_group_size(group), own = (size_t)ls_group_rank(group);
    size_t starts[MAX_TEST_RANKS + 1], e = ls_dtype_bytes(dtype);
    cut(starts, size, count, kind);
    guarded in = filled(group, starts[own + 1] - starts[own], dtype, kind);
    guarded out = guarded_new(count * e);
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_all_gather(group, out.data, in.data, starts, dtype));
        size_t wrong = 0;
        for (size_t m = 0; m < size; m++)
            for (size_t i = starts[m]; i < starts[m + 1]; i++)
                wrong += !equals(out.data, i, dtype, value(group, (int)m, i - starts[m], kind));
        EXPECT(wrong == 0, "all_gather of %zu in shares of kind %d", count, kind);
        expect_unchanged(group, &in, dtype, kind, "all_gather");
    }
    guarded again = guarded_new(count * e);
    if (in.bytes > 0) memcpy(again.data + starts[own] * e, in.data, in.bytes);
    LS_TRY(ls_all_gather(group, again.data, again.data + starts[own] * e, starts, dtype));
    EXPECT(memcmp(again.data, out.data, count * e) == 0, "all_gather in place, %zu", count);
    guarded_free(&again);
    guarded_free(&in);
    guarded_free(&out);
exit:
    return status;
}

static ls_status try_all_gather_columns(ls_group *group, size_t rows, size_t cols, ls_dtype dtype,
                                        int kind)
{
    ls_status status = LS_OK;
    size_t size = (size_t)ls_group_size(group), own = (size_t)ls_group_rank(group);
    size_t starts[MAX_TEST_RANKS + 1];
    cut(starts, size, cols, kind);
    guarded in = filled(group, rows * (starts[own + 1] - starts[own]), dtype, kind);
    guarded out = guarded_new(rows * cols * ls_dtype_bytes(dtype));
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_all_gather_columns(group, out.data, in.data, rows, starts, dtype));
        size_t wrong = 0;
        for (size_t row = 0; row < rows; row++)
            for (size_t m = 0; m < size; m++)
                for (size_t c = starts[m]; c < starts[m + 1]; c++) {
                    size_t i = row * (starts[m + 1] - starts[m]) + c - starts[m];
                    wrong +=
                        !equals(out.data, row * cols + c, dtype, value(group, (int)m, i, kind));
                }
        EXPECT(wrong == 0, "all_gather_columns of %zu x %zu, kind %d", rows, cols, kind);
        expect_unchanged(group, &in, dtype, kind, "all_gather_columns");
    }
    guarded_free(&in);
    guarded_free(&out);
exit:
    return status;
}

/* ---- all_to_all */

/* About `count` elements for each pair, none for some, different for each direction. */
static size_t pair_count(size_t count, size_t s, size_t r)
{
    return (s + 2 * r) % 5 == 3 ? 0 : count + (3 * s + r) % 4;
}

static ls_status try_all_to_all(ls_group *group, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    size_t size = (size_t)ls_group_size(group), own = (size_t)ls_group_rank(group);
    size_t counts[MAX_TEST_RANKS * MAX_TEST_RANKS], n_in = 0, n_out = 0;
    for (size_t s = 0; s < size; s++)
        for (size_t r = 0; r < size; r++) counts[s * size + r] = pair_count(count, s, r);
    for (size_t m = 0; m < size; m++) {
        n_in += counts[own * size + m];
        n_out += counts[m * size + own];
    }
    guarded in = filled(group, n_in, dtype, 1), out = guarded_new(n_out * ls_dtype_bytes(dtype));
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_all_to_all(group, out.data, in.data, counts, dtype));
        size_t at = 0, wrong = 0;
        for (size_t s = 0; s < size; s++) {
            size_t before = 0;
            for (size_t r = 0; r < own; r++) before += counts[s * size + r];
            for (size_t i = 0; i < counts[s * size + own]; i++)
                wrong += !equals(out.data, at++, dtype, value(group, (int)s, before + i, 1));
        }
        EXPECT(wrong == 0, "all_to_all of about %zu", count);
        expect_unchanged(group, &in, dtype, 1, "all_to_all");
    }
    guarded_free(&in);
    guarded_free(&out);
exit:
    return status;
}

/* ---- the grid */

static ls_status try_all(ls_group *group, size_t count, ls_dtype dtype)
{
    ls_status status = LS_OK;
    LS_TRY(try_broadcast(group, count, dtype));
    LS_TRY(try_all_reduce(group, count, dtype));
    for (int kind = 0; kind < SHARE_KINDS; kind++) {
        LS_TRY(try_all_gather(group, count, dtype, kind));
        if (count <= 4097) LS_TRY(try_all_gather_columns(group, 5, count, dtype, kind));
    }
    LS_TRY(try_all_gather_columns(group, 0, count, dtype, 0));
    LS_TRY(try_all_to_all(group, count / (size_t)ls_group_size(group), dtype));
exit:
    return status;
}

static ls_status go_through(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const grid *g = argument;
    ls_group *world = ls_rank_world_group(rank), *group = world;
    int size = ls_group_size(world), r = ls_group_rank(world);
    if (g->groups == 1) LS_TRY(ls_group_split(world, r % 2, -r, "parity", &group));
    if (g->groups == 2) LS_TRY(ls_group_split(world, r >= size / 2, 0, "half", &group));
    for (size_t d = 0; d < g->n_dtypes; d++)
        for (size_t c = 0; c < g->n_counts; c++) LS_TRY(try_all(group, g->counts[c], g->dtypes[d]));
exit:
    return status;
}

static const ls_dtype ALL_DTYPES[] = {LS_F32, LS_F64, LS_I32, LS_I64, LS_U8};

static void go_through_counts(const ls_world_options *options, int groups)
{
    for (int p = 0; p < N_RANK_COUNTS; p++) {
        size_t n = (size_t)RANK_COUNTS[p];
        size_t counts[] = {0, 1, n - 1, n, n + 1, 7, 13, 97, 1009};
        /* All five types on a few numbers of ranks, one elsewhere: F32 or I64. */
        bool all = options == NULL && FEWER == 1 && (n == 1 || n == 3 || n == 4);
        grid g = {counts, sizeof counts / sizeof counts[0], ALL_DTYPES, all ? 5 : 1, groups};
        if (!all && n % 2 == 0) g.dtypes = ALL_DTYPES + 3;
        if (options != NULL || FEWER > 1) g.n_counts = 5;
        run_well(RANK_COUNTS[p], options, go_through, &g);
    }
}

START_TEST(world_grid)
{
    go_through_counts(NULL, 0);
}
END_TEST

START_TEST(groups_by_parity_in_reverse)
{
    go_through_counts(NULL, 1);
}
END_TEST

START_TEST(groups_by_halves)
{
    go_through_counts(NULL, 2);
}
END_TEST

START_TEST(random_delays)
{
    ls_world_options options = {.delay_seed = 7, .delay_max_ns = 200000};
    go_through_counts(&options, 0);
    go_through_counts(&options, 1);
}
END_TEST

/* Large counts; and consecutive sizes that go up and down, which fixed areas per call do not
 * survive. */
START_TEST(sizes_in_a_row)
{
    static const size_t counts[] = {1, 4097, 3, 65536, 1};
    static const ls_dtype dtypes[] = {LS_F32, LS_I64};
    static const int sizes[] = {1, 2, 3, 5, 12};
    grid g = {counts, 5, dtypes, 2, 0};
    for (int i = 0; i < 5; i++) run_well(sizes[i], NULL, go_through, &g);
}
END_TEST

/* ---- maximum and minimum of what is not a plain number (rule 3) */

static ls_status reduce_special(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank);
    double nan = strtod("nan", NULL), inf = strtod("inf", NULL);
    /* Column by column: zeros of both signs either way round; NaN on one member; infinities. */
    double cases[3][6] = {{-0.0, 0.0, nan, 1, -inf, -0.0},
                          {0.0, -0.0, 5, nan, inf, -0.0},
                          {-0.0, 0.0, inf, 2, 0, -0.0}};
    float f[6], f_max[6], f_min[6];
    double d_max[6], d_min[6];
    for (int i = 0; i < 6; i++) f[i] = (float)cases[r][i];
    LS_TRY(ls_all_reduce(world, d_max, cases[r], 6, LS_F64, LS_REDUCE_MAX));
    LS_TRY(ls_all_reduce(world, d_min, cases[r], 6, LS_F64, LS_REDUCE_MIN));
    LS_TRY(ls_all_reduce(world, f_max, f, 6, LS_F32, LS_REDUCE_MAX));
    LS_TRY(ls_all_reduce(world, f_min, f, 6, LS_F32, LS_REDUCE_MIN));
    double max[6] = {0.0, 0.0, nan, nan, inf, -0.0}, min[6] = {-0.0, -0.0, nan, nan, -inf, -0.0};
    for (int i = 0; i < 6; i++) {
        if (i == 2 || i == 3) {
            EXPECT(d_max[i] != d_max[i] && d_min[i] != d_min[i], "NaN must win, place %d", i);
            EXPECT(f_max[i] != f_max[i] && f_min[i] != f_min[i], "NaN must win, place %d", i);
            continue;
        }
        float one = (float)max[i], other = (float)min[i];
        EXPECT(memcmp(&d_max[i], &max[i], 8) == 0, "max at %d is %g", i, d_max[i]);
        EXPECT(memcmp(&d_min[i], &min[i], 8) == 0, "min at %d is %g", i, d_min[i]);
        EXPECT(memcmp(&f_max[i], &one, 4) == 0, "max at %d is %g", i, (double)f_max[i]);
        EXPECT(memcmp(&f_min[i], &other, 4) == 0, "min at %d is %g", i, (double)f_min[i]);
    }
    /* Integers at the ends of their range; sums wrap around. */
    int32_t x[3] = {r == 1 ? INT32_MIN : INT32_MAX, r - 1, 1 << 30}, y[3];
    LS_TRY(ls_all_reduce(world, y, x, 3, LS_I32, LS_REDUCE_MAX));
    EXPECT(y[0] == INT32_MAX && y[1] == 1, "integer max");
    LS_TRY(ls_all_reduce(world, y, x, 3, LS_I32, LS_REDUCE_MIN));
    EXPECT(y[0] == INT32_MIN && y[1] == -1, "integer min");
    LS_TRY(ls_all_reduce(world, y, x, 3, LS_I32, LS_REDUCE_SUM));
    EXPECT(y[1] == 0 && (uint32_t)y[2] == 3221225472u, "integer sum");
exit:
    return status;
}

START_TEST(zeros_nan_and_ends_of_range)
{
    run_well(3, NULL, reduce_special, NULL);
}
END_TEST

/* ---- mistakes that others made, with their numbers */

/* Gather along the last dimension taken for one along the first. */
static ls_status gather_matrices(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    float mine[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}}, out[8];
    size_t starts[] = {0, 2, 4};
    float right[8] = {1, 2, 5, 6, 3, 4, 7, 8};
    LS_TRY(ls_all_gather_columns(ls_rank_world_group(rank), out, mine[ls_rank_index(rank)], 2,
                                 starts, LS_F32));
    EXPECT(memcmp(out, right, sizeof right) == 0, "columns side by side");
exit:
    return status;
}

/* Uneven shares whose gathered size was taken to be P times the local one; the last of many shares
 * empty, its place behind the data and not at rank * share (522) or 0. */
static ls_status gather_rows(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    size_t n = *(const size_t *)argument;
    ls_group *world = ls_rank_world_group(rank);
    size_t size = (size_t)ls_group_size(world), own = (size_t)ls_group_rank(world), starts[31];
    cut(starts, size, n, 1);
    guarded in = guarded_new((starts[own + 1] - starts[own]) * 4), out = guarded_new(n * 4);
    for (size_t i = 0; i < starts[own + 1] - starts[own]; i++)
        put(in.data, i, LS_F32, (int)(starts[own] + i));
    LS_TRY(ls_all_gather(world, out.data, in.data, starts, LS_F32));
    for (size_t i = 0; i < n; i++) EXPECT(equals(out.data, i, LS_F32, (int)i), "row %zu", i);
    if (n == 512) EXPECT(starts[29] == 512 && starts[28] == 504, "offset of the empty share");
    guarded_free(&in);
    guarded_free(&out);
exit:
    return status;
}

/* Send and receive buffer the same without being treated as in place: the own part counted twice
 * ([12, 24] or [21, 42]); the send buffer used as scratch, so that a second call differs (5 instead
 * of 3). */
static ls_status reduce_numbers(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    (void)argument;
    ls_group *world = ls_rank_world_group(rank);
    int r = ls_rank_index(rank);
    int32_t in_place[2] = {r == 0 ? 1 : 10, r == 0 ? 2 : 20};
    int64_t send[2] = {r + 1, r + 1}, out[2];
    LS_TRY(ls_all_reduce(world, in_place, in_place, 2, LS_I32, LS_REDUCE_SUM));
    EXPECT(in_place[0] == 11 && in_place[1] == 22, "in place: %d %d", in_place[0], in_place[1]);
    for (int twice = 0; twice < 2; twice++) {
        LS_TRY(ls_all_reduce(world, out, send, 2, LS_I64, LS_REDUCE_SUM));
        EXPECT(out[0] == 3 && out[1] == 3 && send[0] == r + 1 && send[1] == r + 1, "twice");
    }
    /* Three buckets through two buffers, the reducer late: 3, 30, 300 must all survive. */
    static const int32_t bucket[3] = {1, 10, 100};
    int32_t two[2], sums[3];
    for (int b = 0; b < 3; b++) {
        two[b % 2] = bucket[b] * (r + 1);
        if (r == 1) ls_clock_sleep_ns(2000000);
        LS_TRY(ls_all_reduce(world, &sums[b], &two[b % 2], 1, LS_I32, LS_REDUCE_SUM));
    }
    EXPECT(sums[0] == 3 && sums[1] == 30 && sums[2] == 300, "buckets %d %d %d", sums[0], sums[1],
           sums[2]);
exit:
    return status;
}

START_TEST(known_numbers)
{
    run_well(2, NULL, gather_matrices, NULL);
    run_well(2, NULL, reduce_numbers, NULL);
    static const size_t rows[] = {5, 3, 1, 0};
    for (int i = 0; i < 4; i++) run_well(4, NULL, gather_rows, (void *)(uintptr_t)&rows[i]);
    size_t many = 512;
    run_well(30, NULL, gather_rows, &many);
}
END_TEST

TEST_MAIN("collectives", world_grid, groups_by_parity_in_reverse, groups_by_halves, random_delays,
          sizes_in_a_row, zeros_nan_and_ends_of_range, known_numbers)
