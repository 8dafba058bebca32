/* test_conv2d_weight.c - the weight's gradient of a node of the tree over pixels. */
#include "kernels/kernel_test.h"

#include "kernels/conv2d_case.h"
#include "run_tests.h"

enum { MOST = 400 };

/* Pieces of all images' granules under a tree whose additions a random number decides; the last
 * piece closes all that is open. */
static size_t make_pieces(const conv_case *t, ls_conv2d_piece *piece, uint64_t seed)
{
    size_t n = 0, height = 0;
    const ls_rectangle out = t->y_layout.held;
    for (size_t image = 0; image < t->images; image++)
        for (size_t i = 0; i < t->conv.grid.rows; i++)
            for (size_t j = 0; j < t->conv.grid.columns; j++) {
                ck_assert(n < MOST);
                seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                piece[n].image = t->images - 1 - image;
                piece[n].outputs = ls_pixel_granule(t->conv.grid, out.height, out.width, i, j);
                piece[n].closes = (size_t)(seed >> 40) % (height + 1);
                height += 1 - piece[n++].closes;
            }
    piece[n - 1].closes += height - 1;
    return n;
}

/* ORDERED: the bits of the leaves and the additions one by one; other trees, other bits. */
START_TEST(nodes_are_leaves_and_additions)
{
    static const ls_engine engines[] = {LS_ENGINE_PORTABLE, LS_ENGINE_OPENBLAS};
    size_t other = 0;
    for (size_t k = 0; k < 2 * COUNT(shapes); k++) {
        const ls_engine engine = engines[k % 2];
        if (!ls_engine_available(engine)) continue;
        const conv_case t = make_case(&shapes[k / 2], noise, k + 300);
        const ls_conv2d *c = &t.conv;
        ls_real *dw = fresh(t.w_size), *first = fresh(t.w_size);
        ls_real *scratch = fresh(ls_conv2d_scratch(c, 1));
        for (uint64_t seed = 0; seed < 3; seed++) {
            ls_conv2d_piece piece[MOST];
            const size_t n = make_pieces(&t, piece, seed);
            ls_real *stack = fresh(n * t.w_size), *top = stack;
            ls_real *space = fresh(ls_conv2d_node_scratch(c, piece, n));
            for (size_t i = 0; i < n; i++, top += t.w_size) {
                ck_assert(ls_conv2d_weight_leaf(engine, c, top, t.depth,
                                                t.dy + piece[i].image * t.y_layout.stride,
                                                t.y_layout, piece[i].outputs,
                                                t.x + piece[i].image * t.x_layout.stride,
                                                t.x_layout, scratch) == LS_OK);
                for (size_t j = 0; j < piece[i].closes; j++, top -= t.w_size)
                    for (size_t e = 0; e < t.w_size; e++) top[e - t.w_size] += top[e];
            }
            ck_assert(top == stack + t.w_size);
            ck_assert(ls_conv2d_weight_node(engine, c, dw, t.depth, piece, n, t.dy, t.y_layout, t.x,
                                            t.x_layout, space) == LS_OK);
            ck_assert_msg(same(dw, stack, t.w_size), "%s", shapes[k / 2].name);
            if (seed == 0) memcpy(first, dw, t.w_size * sizeof *dw);
            other += !same(dw, first, t.w_size);
        }
        guards_intact();
    }
    ck_assert(other > 10);
}
END_TEST

START_TEST(what_is_no_node)
{
    const conv_case t = make_case(&shapes[0], noise, 1);
    ls_real *dw = fresh(t.w_size), *scratch = fresh(2 * ls_conv2d_scratch(&t.conv, 2));
    const ls_rectangle one = {0, 0, 1, 1}, none = {0, 0, 0, 0}, far = {7, 0, 1, 1};
    const ls_conv2d_piece bad[][2] = {{{0, one, 0}, {0, one, 0}},
                                      {{0, one, 1}, {0, one, 0}},
                                      {{0, one, 0}, {0, one, 2}},
                                      {{0, one, 0}, {0, far, 1}}};
    for (size_t i = 0; i < COUNT(bad); i++)
        ck_assert(ls_conv2d_weight_node(LS_ENGINE_PORTABLE, &t.conv, dw, t.depth, bad[i], 2, t.dy,
                                        t.y_layout, t.x, t.x_layout, scratch) == LS_ERR_INTERNAL);
    ls_error_clear();
    ck_assert(isnan(dw[0]));
    const ls_conv2d_piece empty[] = {{0, none, 0}, {1, none, 1}};
    ck_assert(ls_conv2d_weight_node(LS_ENGINE_PORTABLE, &t.conv, dw, t.depth, empty, 2, t.dy,
                                    t.y_layout, t.x, t.x_layout, scratch) == LS_OK);
    for (size_t i = 0; i < t.w_size; i++) ck_assert(same_value(dw[i], NEG_ZERO));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {nodes_are_leaves_and_additions, what_is_no_node};
    return run_kernel_tests("conv2d_weight", tests, COUNT(tests));
}
