/* Reductions along a plan: whatever rectangles of granules of whatever images the members own, the
 * result has the bits of T over images of P over granules, evaluated directly from its definition.
 * Random data of mixed sign, so that a wrong order shows. */
#include "comm/comm_test.h"
#include "lockstep/comm/sum_plan.h"
#include "lockstep/comm/trace.h"
#include "numerics/pixel_reference.h"
#include "numerics/tree_reference.h"

enum { MOST_IMAGES = 5, MOST_GRANULES = 64, MOST_PARTS = MOST_IMAGES * MOST_GRANULES };

/* Granule (row, column) of an image at element i. */
static ls_real leaf_value(size_t image, size_t granule, size_t i, uint64_t seed)
{
    uint64_t z = mix(seed + image * 1000003u + granule * 104729u + i * 7919u + 1);
    double scale = z % 7 == 0 ? 1e4 : 1.0;
    return (ls_real)(((double)(z >> 11) / 9007199254740992.0 - 0.5) * scale);
}

/* What a node is worth at element i. */
static ls_real area_value(const ls_pixel_tree *tree, ls_pixel_area area, size_t i, uint64_t seed)
{
    ls_real images[MOST_IMAGES], x[MOST_GRANULES];
    for (size_t k = 0; k < area.images; k++) {
        for (size_t g = 0; g < tree->rows * tree->columns; g++)
            x[g] = leaf_value(area.first + k, g, i, seed);
        images[k] = reference_pixel_node(x, tree->columns, area.granules, 0, 0, tree->rows,
                                         tree->columns, 0);
    }
    return reference_tree(images, area.images);
}

static size_t differing(const ls_real *got, size_t n, size_t first, const ls_pixel_tree *tree,
                        uint64_t seed)
{
    ls_pixel_area all = {0, tree->images, {0, 0, tree->rows, tree->columns}};
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        ls_real right = tree->images > 0 ? area_value(tree, all, first + i, seed) : (ls_real)0;
        wrong += memcmp(&got[i], &right, sizeof right) != 0;
    }
    return wrong;
}

typedef struct plan_case {
    ls_pixel_tree tree;
    size_t runs, down, across; /* their product: the ranks */
    int kind;                  /* 0: even cuts; else random ones, some empty */
    size_t count;
    uint64_t seed;
} plan_case;

static void cut(size_t *bounds, size_t n, size_t parts, int kind, uint64_t seed)
{
    bounds[0] = 0;
    for (size_t p = 1; p <= parts; p++) {
        size_t end = n * p / parts;
        if (kind > 0) end = bounds[p - 1] + (size_t)(mix(seed + p) % (n - bounds[p - 1] + 1));
        bounds[p] = p == parts ? n : end;
    }
}

/* Members: columns fastest, then rows, then runs of images. */
static void areas_of(ls_pixel_area *areas, const plan_case *c)
{
    size_t image[MAX_TEST_RANKS + 1], row[MAX_TEST_RANKS + 1], column[MAX_TEST_RANKS + 1], m = 0;
    cut(image, c->tree.images, c->runs, c->kind, c->seed + 11);
    cut(row, c->tree.rows, c->down, c->kind, c->seed + 22);
    cut(column, c->tree.columns, c->across, c->kind, c->seed + 33);
    for (size_t i = 0; i < c->runs; i++)
        for (size_t r = 0; r < c->down; r++)
            for (size_t k = 0; k < c->across; k++)
                areas[m++] = (ls_pixel_area){
                    image[i],
                    image[i + 1] - image[i],
                    {row[r], column[k], row[r + 1] - row[r], column[k + 1] - column[k]}};
}

static ls_status try_plan(ls_group *group, const plan_case *c)
{
    ls_status status = LS_OK;
    size_t own = (size_t)ls_group_rank(group), size = (size_t)ls_group_size(group);
    size_t e = sizeof(ls_real), rows = 3, starts[MAX_TEST_RANKS + 1], wrong;
    ls_pixel_area areas[MAX_TEST_RANKS];
    ls_node nodes[MOST_PARTS];
    ls_sum_plan *plan = NULL;
    areas_of(areas, c);
    cut(starts, c->count, size, 1, c->seed + 44);
    LS_TRY(ls_sum_plan_create_pixels(&plan, &c->tree, size, areas));
    size_t n = ls_pixel_forest(&c->tree, areas[own], nodes), share = starts[own + 1] - starts[own];
    size_t wide = rows * c->count;
    EXPECT(plan->member_parts[own] == n, "plan says %zu parts", plan->member_parts[own]);
    guarded in = guarded_new(n * wide * e), copy = guarded_new(in.bytes);
    guarded in_place = guarded_new((n > 0 ? n : 1) * c->count * e);
    guarded out = guarded_new(c->count * e), mine = guarded_new(rows * share * e);
    for (int twice = 0; twice < 2; twice++) {
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < c->count; i++)
                ((ls_real *)in.data)[j * c->count + i] =
                    area_value(&c->tree, ls_pixel_area_of(&c->tree, nodes[j]), i, c->seed);
        memcpy(copy.data, in.data, n * c->count * e);
        memcpy(in_place.data, in.data, n * c->count * e);
        memset(out.data, 0xff, out.bytes);
        memset(mine.data, 0xff, mine.bytes);
        uint64_t before = ls_group_count(group, LS_OP_ALL_REDUCE).bytes;
        LS_TRY(ls_all_reduce_plan(group, out.data, in.data, c->count, LS_REAL_DTYPE, plan));
        EXPECT(ls_group_count(group, LS_OP_ALL_REDUCE).bytes - before == n * c->count * e,
               "bytes of %zu parts", n);
        wrong = differing((ls_real *)out.data, c->count, 0, &c->tree, c->seed);
        EXPECT(wrong == 0,
               "all_reduce_plan, %zu x %zu x %zu of %zu images of %zu x %zu, cuts %d: %zu differ",
               c->runs, c->down, c->across, c->tree.images, c->tree.rows, c->tree.columns, c->kind,
               wrong);
        LS_TRY(ls_reduce_scatter_plan(group, mine.data, in.data, starts, LS_REAL_DTYPE, plan));
        wrong = differing((ls_real *)mine.data, share, starts[own], &c->tree, c->seed);
        EXPECT(wrong == 0, "reduce_scatter_plan: %zu differ", wrong);
        EXPECT(memcmp(in.data, copy.data, n * c->count * e) == 0, "a reduction wrote to its input");
        /* The input is free as soon as the call returns: no slow peer may see this. */
        memset(in.data, 0xee, in.bytes);
        LS_TRY(
            ls_all_reduce_plan(group, in_place.data, in_place.data, c->count, LS_REAL_DTYPE, plan));
        EXPECT(memcmp(in_place.data, out.data, c->count * e) == 0, "all_reduce_plan in place");
        /* Rows: as long an array, so element row * count + column. */
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < wide; i++)
                ((ls_real *)in.data)[j * wide + i] =
                    area_value(&c->tree, ls_pixel_area_of(&c->tree, nodes[j]), i, c->seed);
        before = ls_group_count(group, LS_OP_REDUCE_SCATTER).bytes;
        LS_TRY(ls_reduce_scatter_columns_plan(group, mine.data, in.data, rows, starts,
                                              LS_REAL_DTYPE, plan));
        EXPECT(ls_group_count(group, LS_OP_REDUCE_SCATTER).bytes - before == n * wide * e,
               "bytes of %zu parts in rows", n);
        memset(in.data, 0xee, in.bytes);
        wrong = 0;
        for (size_t r = 0; r < rows; r++)
            wrong += differing((ls_real *)mine.data + r * share, share, r * c->count + starts[own],
                               &c->tree, c->seed);
        EXPECT(wrong == 0, "reduce_scatter_columns_plan: %zu differ", wrong);
    }
    guarded_free(&in);
    guarded_free(&copy);
    guarded_free(&in_place);
    guarded_free(&out);
    guarded_free(&mine);
exit:
    ls_sum_plan_destroy(&plan);
    return status;
}

static ls_status go_through(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const plan_case *cases = argument;
    for (size_t i = 0; cases[i].runs > 0; i++) {
        ls_group *group = ls_rank_world_group(rank);
        LS_TRY(try_plan(group, &cases[i]));
    }
exit:
    return status;
}

/* Every way to write the number of ranks as runs x down x across, on images of different shapes. */
static void try_ranks(size_t ranks, const ls_world_options *options, size_t count)
{
    static const size_t shapes[][3] = {{1, 8, 8}, {3, 4, 3}, {5, 1, 7}, {4, 5, 1}, {2, 3, 8}};
    static plan_case cases[400];
    size_t n = 0;
    for (size_t runs = 1; runs <= ranks; runs++)
        for (size_t down = 1; runs * down <= ranks; down++) {
            if (ranks % (runs * down) != 0) continue;
            size_t s = n / 2 % 5;
            ls_pixel_tree tree = {shapes[s][0], shapes[s][1], shapes[s][2]};
            for (int kind = 0; kind < 2; kind++) {
                cases[n] = (plan_case){tree, runs, down, ranks / runs / down, kind, count, n};
                n++;
            }
        }
    cases[n] = (plan_case){.runs = 0};
    run_well((int)ranks, options, go_through, cases);
}

START_TEST(every_grid)
{
    for (int p = 0; p < N_RANK_COUNTS; p++) {
        size_t n = (size_t)RANK_COUNTS[p];
        try_ranks(n, NULL, n + 1);
        try_ranks(n, NULL, n - 1);
    }
}
END_TEST

/* Above 256 elements the work is shared out. */
START_TEST(larger_arrays)
{
    static const size_t ranks[] = {1, 2, 3, 6};
    for (int i = 0; i < 4; i++) try_ranks(ranks[i], NULL, 331);
}
END_TEST

START_TEST(delays)
{
    ls_world_options options = {.delay_seed = 3, .delay_max_ns = 100000};
    try_ranks(4, &options, 19);
    try_ranks(6, &options, 300);
}
END_TEST

START_TEST(no_images)
{
    plan_case cases[] = {{{0, 3, 2}, 1, 2, 1, 0, 5, 0}, {.runs = 0}};
    run_well(2, NULL, go_through, cases);
}
END_TEST

/* ---- large arrays of integers: element i of rank r's part j is small(r, i) + j */

static ls_status reduce_large(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    static const size_t counts[] = {1, 4097, 3, 65536, 1, 200001};
    ls_group *world = ls_rank_world_group(rank);
    size_t own = (size_t)ls_rank_index(rank), size = (size_t)ls_rank_world_size(rank);
    ls_pixel_tree tree = {2, 4, 6};
    ls_pixel_area areas[MAX_TEST_RANKS];
    ls_sum_plan *plan = NULL;
    (void)argument;
    for (size_t m = 0; m < size; m++) {
        size_t left = 6 * m / size;
        areas[m] = (ls_pixel_area){0, 2, {0, left, 4, 6 * (m + 1) / size - left}};
    }
    LS_TRY(ls_sum_plan_create_pixels(&plan, &tree, size, areas));
    size_t n = plan->member_parts[own];
    for (int c = 0; c < 6; c++) {
        size_t count = counts[c], wrong = 0;
        ls_real *in = malloc((n * count + 1) * sizeof *in);
        ls_real *out = malloc((count + 1) * sizeof *out);
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < count; i++)
                in[j * count + i] = (ls_real)(small((int)own, i) + (int)j);
        for (int twice = 0; twice < 3; twice++) {
            ls_real *to = twice == 2 ? in : out;
            LS_TRY(ls_all_reduce_plan(world, to, in, count, LS_REAL_DTYPE, plan));
            for (size_t i = 0; i<count; i += count> 100000 ? 331 : 1) {
                int right = 0;
                for (size_t m = 0; m < size; m++)
                    for (size_t j = 0; j < plan->member_parts[m]; j++)
                        right += small((int)m, i) + (int)j;
                wrong += !equals(to, i, LS_REAL_DTYPE, right);
            }
        }
        EXPECT(wrong == 0, "%zu elements on %zu ranks: %zu wrong", count, size, wrong);
        free(in);
        free(out);
    }
exit:
    ls_sum_plan_destroy(&plan);
    return status;
}

START_TEST(large_integers)
{
    static const int sizes[] = {2, 3, 5};
    for (int i = 0; i < 3; i++) run_well(sizes[i], NULL, reduce_large, NULL);
}
END_TEST

/* ---- the plan itself */

/* The picture in the header: columns of P(3, 2). */
START_TEST(plan_of_two_columns)
{
    ls_pixel_tree tree = {1, 3, 2};
    ls_pixel_area areas[] = {{0, 1, {0, 0, 3, 1}}, {0, 1, {0, 1, 3, 1}}};
    static const size_t expected[4][3] = {{0, 0, 0}, {1, 0, 1}, {0, 1, 0}, {1, 1, 2}};
    ls_sum_plan *plan = NULL;
    ck_assert_int_eq(ls_sum_plan_create_pixels(&plan, &tree, 2, areas), LS_OK);
    ck_assert_uint_eq(plan->n_parts, 4);
    ck_assert_uint_eq(plan->stack, 3);
    for (size_t p = 0; p < 4; p++) {
        ck_assert_uint_eq(plan->parts[p].member, expected[p][0]);
        ck_assert_uint_eq(plan->parts[p].place, expected[p][1]);
        ck_assert_uint_eq(plan->parts[p].additions, expected[p][2]);
    }
    ls_sum_plan_destroy(&plan);
    ck_assert_ptr_null(plan);
}
END_TEST

static const char *refused(const ls_binary_tree *tree, const ls_node *a, size_t n_a,
                           const ls_node *b, size_t n_b)
{
    const ls_node *const nodes[] = {a, b};
    const size_t counts[] = {n_a, n_b};
    ls_sum_plan *plan = NULL;
    ls_error_clear();
    ck_assert_int_eq(ls_sum_plan_create(&plan, tree, 2, nodes, counts), LS_ERR_INPUT);
    ck_assert_ptr_null(plan);
    return ls_error_text();
}

START_TEST(covers_that_are_none)
{
    ls_pixel_tree pixels = {1, 3, 2};
    ls_binary_tree tree = ls_pixel_tree_numbered(&pixels);
    const ls_node top[] = {{0, 4}}, bottom[] = {{4, 5}, {5, 6}}, twice[] = {{2, 4}, {4, 6}};
    const ls_node half[] = {{4, 5}}, none[] = {{3, 6}}, beyond[] = {{4, 7}};
    ck_assert_has(refused(&tree, top, 1, half, 1), "leaf 5 is held by nobody");
    ck_assert_has(refused(&tree, NULL, 0, bottom, 2), "leaf 0 is held by nobody");
    ck_assert_has(refused(&tree, top, 1, twice, 2), "leaf 2 is held by member 0 and by member 1");
    ck_assert_has(refused(&tree, top, 1, none, 1),
                  "member 1 holds leaves 3 to 6, no node of the tree over 6 leaves");
    ck_assert_has(refused(&tree, top, 1, beyond, 1), "holds leaves 4 to 7");
}
END_TEST

/* ---- calls that do not agree */

typedef struct odd_call {
    int what;
} odd_call;

static ls_status call_oddly(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    const odd_call *odd = argument;
    int last = ls_rank_index(rank) == 2;
    ls_pixel_tree tree = {1, 6, 2};
    ls_sum_plan *plan = NULL;
    ls_real in[16 * 3] = {0}, out[3];
    ls_pixel_area areas[4];
    for (size_t m = 0; m < 3; m++) areas[m] = (ls_pixel_area){0, 1, {2 * m, 0, 2, 2}};
    areas[3] = (ls_pixel_area){0, 0, {0, 0, 0, 0}};
    size_t members = 3;
    if (last && odd->what == 0) { /* the same parts, two members changed about */
        ls_pixel_area first = areas[0];
        areas[0] = areas[1];
        areas[1] = first;
    }
    if (last && odd->what == 1) { /* fewer parts */
        areas[0].granules = (ls_rectangle){0, 0, 6, 2};
        areas[1].images = areas[2].images = 0;
    }
    if (last && odd->what == 2) members = 4;
    LS_TRY(ls_sum_plan_create_pixels(&plan, &tree, members, areas));
    ls_dtype dtype = odd->what == 3 ? LS_I32 : LS_REAL_DTYPE;
    LS_TRY(ls_all_reduce_plan(ls_rank_world_group(rank), out, in, odd->what == 4 && last ? 2 : 3,
                              dtype, plan));
exit:
    ls_sum_plan_destroy(&plan);
    return status;
}

START_TEST(mismatches)
{
    odd_call odd = {0};
    const char *text = run_badly(3, NULL, call_oddly, &odd, LS_ERR_RANK);
    ck_assert_has(text, "rank 0 calls all_reduce_plan of 3 ");
    ck_assert_has(text, "with part 0 = value 0 of member 0");
    ck_assert_has(text, "rank 2 calls all_reduce_plan");
    ck_assert_has(text, "with part 0 = value 0 of member 1");
    odd.what = 1;
    text = run_badly(3, NULL, call_oddly, &odd, LS_ERR_RANK);
    ck_assert_has(text, "with a plan of 10 parts");
    ck_assert_has(text, "with a plan of 1 parts");
    odd.what = 2;
    text = run_badly(3, NULL, call_oddly, &odd, LS_ERR_INPUT);
    ck_assert_has(text, "a sum plan of 4 members in group world, which has 3");
    odd.what = 3;
    text = run_badly(3, NULL, call_oddly, &odd, LS_ERR_INPUT);
    ck_assert_has(text, "only F32 and F64");
    odd.what = 4;
    text = run_badly(3, NULL, call_oddly, &odd, LS_ERR_RANK);
    ck_assert_has(text, "all_reduce_plan of 2 ");
}
END_TEST

/* ---- the trace has them by name */

START_TEST(traced)
{
    plan_case cases[] = {{{3, 4, 3}, 1, 2, 1, 0, 5, 0}, {.runs = 0}};
    ls_trace *trace = NULL;
    ck_assert_int_eq(ls_trace_create(&trace), LS_OK);
    ls_world_options options = {.trace = trace};
    run_well(2, &options, go_through, cases);
    size_t n = 0, reduces = 0, scatters = 0;
    const ls_event *events = ls_trace_events(trace, 1, &n);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind != LS_EVENT_COLLECTIVE) continue;
        reduces += strcmp(events[i].call, "all_reduce_plan") == 0 &&
                   events[i].operation == LS_OP_ALL_REDUCE;
        scatters += strcmp(events[i].call, "reduce_scatter_columns_plan") == 0 &&
                    events[i].operation == LS_OP_REDUCE_SCATTER;
    }
    ck_assert_uint_eq(reduces, 4);
    ck_assert_uint_eq(scatters, 2);
    ls_trace_destroy(&trace);
}
END_TEST

TEST_MAIN("sum_plan", every_grid, larger_arrays, delays, no_images, large_integers,
          plan_of_two_columns, covers_that_are_none, mismatches, traced)
