/* test_pixel_tree.c - trees over granules of pixels (contract rules 6, 8, 9). The
 * expectation is pixel_reference.h. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/pixel_tree.h"
#include "numerics/pixel_reference.h"
#include "numerics/tree_reference.h"
#include "run_tests.h"

enum { MOST = 8, MOST_LEAVES = 3 * MOST * MOST };

/* ---- P once more */

typedef struct reference_node {
    ls_rectangle at, parent;
} reference_node;

typedef struct reference_list {
    reference_node nodes[2 * MOST * MOST];
    size_t n, n_leaves;
    size_t order[MOST][MOST];
} reference_list;

/* All nodes below rectangle t,l,h,w; turn 0: rows are next. */
static void reference_walk(reference_list *list, size_t t, size_t l, size_t h, size_t w, int turn,
                           ls_rectangle parent)
{
    ls_rectangle at = {t, l, h, w};
    list->nodes[list->n++] = (reference_node){at, parent};
    if (h == 1 && w == 1) {
        list->order[t][l] = list->n_leaves++;
        return;
    }
    if (turn == 0 && h == 1) turn = 1;
    if (turn == 1 && w == 1) turn = 0;
    if (turn == 0) {
        size_t k = reference_split(h);
        reference_walk(list, t, l, k, w, 1, at);
        reference_walk(list, t + k, l, h - k, w, 1, at);
    } else {
        size_t k = reference_split(w);
        reference_walk(list, t, l, h, k, 0, at);
        reference_walk(list, t, l + k, h, w - k, 0, at);
    }
}

static void reference_build(reference_list *list, size_t rows, size_t columns)
{
    list->n = list->n_leaves = 0;
    reference_walk(list, 0, 0, rows, columns, 0, (ls_rectangle){0, 0, 0, 0});
}

static const reference_node *reference_find(const reference_list *list, ls_rectangle at)
{
    for (size_t i = 0; i < list->n; i++)
        if (ls_rectangle_equal(list->nodes[i].at, at)) return &list->nodes[i];
    return NULL;
}

static int lies_in(ls_rectangle a, ls_rectangle b)
{
    return a.top >= b.top && a.left >= b.left && a.top + a.height <= b.top + b.height &&
           a.left + a.width <= b.left + b.width;
}

/* ---- tests */

/* The picture in the header. */
START_TEST(three_by_two)
{
    ls_pixel_tree tree = {1, 3, 2};
    static const size_t expected[3][2] = {{0, 2}, {1, 3}, {4, 5}};
    for (size_t r = 0; r < 3; r++)
        for (size_t c = 0; c < 2; c++)
            ck_assert_uint_eq(ls_pixel_leaf(&tree, 0, r, c), expected[r][c]);
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    ck_assert_uint_eq(numbered.leaves, 6);
    ck_assert_uint_eq(numbered.cut(numbered.shape, 0, 6), 4);
    ck_assert_uint_eq(numbered.cut(numbered.shape, 0, 4), 2);
    ck_assert(!ls_binary_tree_has(&numbered, (ls_node){0, 3}));
    /* The middle row: no node of more than one granule lies in it. */
    ls_node nodes[6];
    ck_assert_uint_eq(ls_pixel_forest(&tree, (ls_pixel_area){0, 1, {1, 0, 1, 2}}, nodes), 2);
    ck_assert(nodes[0].lo == 1 && nodes[0].hi == 2 && nodes[1].lo == 3 && nodes[1].hi == 4);
}
END_TEST

/* Leaf order, nodes and cuts for every size; one row or one column is T. */
START_TEST(every_size)
{
    static reference_list list;
    for (size_t rows = 1; rows <= MOST; rows++)
        for (size_t columns = 1; columns <= MOST; columns++) {
            ls_pixel_tree tree = {3, rows, columns};
            ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
            size_t each = rows * columns;
            reference_build(&list, rows, columns);
            for (size_t image = 0; image < 3; image++) {
                for (size_t r = 0; r < rows; r++)
                    for (size_t c = 0; c < columns; c++) {
                        size_t leaf = ls_pixel_leaf(&tree, image, r, c);
                        ck_assert_uint_eq(leaf, image * each + list.order[r][c]);
                        ls_pixel_area area = ls_pixel_area_of(&tree, (ls_node){leaf, leaf + 1});
                        ck_assert(area.first == image && area.images == 1);
                        ck_assert(ls_rectangle_equal(area.granules, (ls_rectangle){r, c, 1, 1}));
                    }
                size_t found = 0;
                for (size_t lo = 0; lo < each; lo++)
                    for (size_t hi = lo + 1; hi <= each; hi++) {
                        ls_node node = {image * each + lo, image * each + hi};
                        if (!ls_binary_tree_has(&numbered, node)) continue;
                        ls_pixel_area area = ls_pixel_area_of(&tree, node);
                        ck_assert(area.first == image && area.images == 1);
                        ck_assert_ptr_nonnull(reference_find(&list, area.granules));
                        found++;
                    }
                ck_assert_uint_eq(found, list.n);
            }
            if (rows > 1 && columns > 1) continue;
            for (size_t lo = 0; lo < each; lo++)
                for (size_t hi = lo + 2; hi <= each; hi++)
                    if (ls_binary_tree_has(&numbered, (ls_node){lo, hi}))
                        ck_assert_uint_eq(numbered.cut(numbered.shape, lo, hi),
                                          lo + reference_split(hi - lo));
        }
}
END_TEST

/* Every rectangle of every size: complete, disjoint, ascending, covering it, and largest. */
START_TEST(every_forest)
{
    static reference_list list;
    for (size_t rows = 1; rows <= MOST; rows++)
        for (size_t columns = 1; columns <= MOST; columns++) {
            ls_pixel_tree tree = {1, rows, columns};
            reference_build(&list, rows, columns);
            for (size_t t = 0; t <= rows; t++)
                for (size_t h = 0; t + h <= rows; h++)
                    for (size_t l = 0; l <= columns; l++)
                        for (size_t w = 0; l + w <= columns; w++) {
                            ls_node nodes[MOST * MOST];
                            ls_rectangle run = {t, l, h, w};
                            ls_pixel_area area = {0, 1, run};
                            size_t n = ls_pixel_forest(&tree, area, nodes), covered = 0, end = 0;
                            ck_assert_uint_eq(n, ls_pixel_forest(&tree, area, NULL));
                            for (size_t i = 0; i < n; i++) {
                                ls_rectangle at = ls_pixel_area_of(&tree, nodes[i]).granules;
                                const reference_node *node = reference_find(&list, at);
                                ck_assert_ptr_nonnull(node);
                                ck_assert(lies_in(at, run));
                                ck_assert(ls_rectangle_is_empty(node->parent) ||
                                          !lies_in(node->parent, run));
                                ck_assert_uint_ge(nodes[i].lo, end);
                                end = nodes[i].hi;
                                covered += at.height * at.width;
                            }
                            ck_assert_uint_eq(covered, h * w);
                        }
        }
}
END_TEST

/* A node's value from its leaves by the stack. */
static void by_stack(ls_real *ret_value, const ls_binary_tree *tree, ls_node node,
                     const ls_real *leaves)
{
    ls_real stack[32];
    size_t top = 0, most = 0;
    for (size_t leaf = node.lo; leaf < node.hi; leaf++) {
        stack[top++] = leaves[leaf];
        if (top > most) most = top;
        for (size_t k = ls_binary_tree_merges_after(tree, node, leaf); k > 0; k--) {
            ck_assert_uint_ge(top, 2);
            stack[top - 2] = stack[top - 2] + stack[top - 1];
            top--;
        }
    }
    ck_assert_uint_eq(top, 1);
    ck_assert_uint_eq(most, ls_binary_tree_stack(tree, node));
    *ret_value = stack[0];
}

/* Random cuts of n into parts, empty ones among them. */
static void cut_at_random(size_t *bounds, size_t parts, size_t n, uint64_t *state)
{
    bounds[0] = 0;
    for (size_t p = 1; p < parts; p++) {
        (void)reference_noise(state);
        bounds[p] = bounds[p - 1] + (size_t)(*state >> 33) % (n - bounds[p - 1] + 1);
    }
    bounds[parts] = n;
}

static int by_lo(const void *a, const void *b)
{
    const ls_node *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* Whatever grid of ranks cuts the granules and whatever run of images each has, the forests finish
 * to the bits of the tree. `kind`: 0 even cuts, else random ones. */
static void try_grid(size_t rows, size_t columns, size_t images, size_t down, size_t across,
                     size_t runs, int kind, uint64_t *state)
{
    ls_real x[3][MOST * MOST], leaves[MOST_LEAVES], values[MOST_LEAVES], per_image[3];
    ls_pixel_tree tree = {images, rows, columns};
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    for (size_t i = 0; i < images; i++) {
        for (size_t k = 0; k < MOST * MOST; k++) x[i][k] = reference_noise(state);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < columns; c++)
                leaves[ls_pixel_leaf(&tree, i, r, c)] = x[i][r * MOST + c];
        per_image[i] = reference_pixels(x[i], MOST, 0, 0, rows, columns, 0);
    }
    ls_real expected = reference_tree(per_image, images);

    size_t row_at[MOST + 1], column_at[MOST + 1], image_at[4], n = 0;
    for (size_t k = 0; k <= down; k++) row_at[k] = rows * k / down;
    for (size_t k = 0; k <= across; k++) column_at[k] = columns * k / across;
    for (size_t k = 0; k <= runs; k++) image_at[k] = images * k / runs;
    if (kind > 0) {
        cut_at_random(row_at, down, rows, state);
        cut_at_random(column_at, across, columns, state);
        cut_at_random(image_at, runs, images, state);
    }
    ls_node nodes[MOST_LEAVES];
    const ls_real *parts[MOST_LEAVES];
    for (size_t i = 0; i < runs; i++)
        for (size_t r = 0; r < down; r++)
            for (size_t c = 0; c < across; c++) {
                ls_rectangle own = {row_at[r], column_at[c], row_at[r + 1] - row_at[r],
                                    column_at[c + 1] - column_at[c]};
                ls_pixel_area area = {image_at[i], image_at[i + 1] - image_at[i], own};
                n += ls_pixel_forest(&tree, area, nodes + n);
            }
    qsort(nodes, n, sizeof *nodes, by_lo);
    for (size_t j = 0; j < n; j++) {
        by_stack(&values[j], &numbered, nodes[j], leaves);
        parts[j] = &values[j];
    }
    ls_real sum = (ls_real)NAN;
    ls_binary_tree_finish(&sum, parts, nodes, n, &numbered, (ls_node){0, numbered.leaves}, 1);
    ck_assert_msg(memcmp(&sum, &expected, sizeof sum) == 0,
                  "%zu images of %zu x %zu granules on %zu x %zu x %zu ranks, cuts %d", images,
                  rows, columns, runs, down, across, kind);
}

START_TEST(every_grid)
{
    uint64_t state = 12345;
    for (size_t rows = 1; rows <= MOST; rows++)
        for (size_t columns = 1; columns <= MOST; columns++)
            for (size_t down = 1; down <= MOST; down++)
                for (size_t across = 1; across <= MOST; across++) {
                    size_t images = 1 + (rows + down) % 3, runs = 1 + (columns + across) % 3;
                    try_grid(rows, columns, images, down, across, runs, 0, &state);
                    try_grid(rows, columns, images, down, across, runs, 1, &state);
                }
}
END_TEST

/* Many elements at once, y in place of a part; and no leaves at all. */
START_TEST(finish_of_arrays)
{
    enum { COUNT = 701, N = 12 };
    static ls_real data[N][COUNT], copy[N][COUNT];
    ls_pixel_tree tree = {2, 3, 2};
    ls_binary_tree numbered = ls_pixel_tree_numbered(&tree);
    const ls_real *parts[N];
    ls_node nodes[N];
    for (size_t j = 0; j < N; j++) {
        reference_fill(data[j], COUNT, j + 5);
        nodes[j] = (ls_node){j, j + 1};
        parts[j] = data[j];
    }
    memcpy(copy, data, sizeof data);
    ls_binary_tree_finish(data[7], parts, nodes, N, &numbered, (ls_node){0, N}, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        ls_real leaves[N], expected;
        for (size_t j = 0; j < N; j++) leaves[j] = copy[j][i];
        by_stack(&expected, &numbered, (ls_node){0, N}, leaves);
        ck_assert(memcmp(&data[7][i], &expected, sizeof expected) == 0);
    }
    for (size_t j = 0; j < N; j++)
        if (j != 7) ck_assert(memcmp(data[j], copy[j], sizeof copy[j]) == 0);
    ls_real y = (ls_real)-1;
    ls_binary_tree_finish(&y, NULL, NULL, 0, &numbered, (ls_node){0, 0}, 1);
    ck_assert(y == 0 && !signbit(y));
}
END_TEST

/* T as a binary tree is T. */
START_TEST(plain_tree)
{
    ls_real x[70];
    reference_fill(x, 70, 3);
    for (size_t n = 1; n <= 70; n++) {
        ls_binary_tree tree = ls_binary_tree_plain(n);
        ls_real value, expected = reference_tree(x, n);
        by_stack(&value, &tree, (ls_node){0, n}, x);
        ck_assert(memcmp(&value, &expected, sizeof value) == 0);
    }
}
END_TEST

/* The order matters: the same granules summed columns first differ. */
START_TEST(data_tells_trees_apart)
{
    ls_real x[MOST * MOST];
    int differ = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        reference_fill(x, MOST * MOST, seed);
        ls_real a = reference_pixels(x, MOST, 0, 0, 6, 5, 0);
        ls_real b = reference_pixels(x, MOST, 0, 0, 6, 5, 1);
        differ += memcmp(&a, &b, sizeof a) != 0;
    }
    ck_assert_int_gt(differ, 5);
}
END_TEST

/* Granules of a layer: 5 rows in 8 granules, 13 in 8, 8 in 8; each pixel once. */
START_TEST(granules_of_pixels)
{
    for (size_t h = 0; h <= 20; h++)
        for (size_t rows = 1; rows <= MOST; rows++) {
            size_t next = 0;
            for (size_t g = 0; g < rows; g++) {
                ls_rectangle granule = {g, 0, 1, 3};
                ls_rectangle pixels = ls_rectangle_of_granules(granule, rows, 3, h, 7);
                ck_assert_uint_eq(pixels.top, next);
                ck_assert(pixels.height == h / rows || pixels.height == h / rows + 1);
                ck_assert(pixels.left == 0 && pixels.width == 7);
                next += pixels.height;
            }
            ck_assert_uint_eq(next, h);
        }
    ls_rectangle pixels = ls_rectangle_of_granules((ls_rectangle){0, 0, 3, 1}, 8, 1, 5, 1);
    ck_assert_uint_eq(pixels.height, 1);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("pixel_tree", 120);
    tcase_add_test(tcase, three_by_two);
    tcase_add_test(tcase, every_size);
    tcase_add_test(tcase, every_forest);
    tcase_add_test(tcase, every_grid);
    tcase_add_test(tcase, finish_of_arrays);
    tcase_add_test(tcase, plain_tree);
    tcase_add_test(tcase, data_tells_trees_apart);
    tcase_add_test(tcase, granules_of_pixels);
    return run_tests();
}
