/* test_conv2d_lines.c - convolutions of a line of pixels: mistakes of others, each with its
 * numbers.
 */
#include "kernels/kernel_test.h"

#include "lockstep/kernels/conv2d.h"
#include "run_tests.h"

typedef struct line_case {
    const char *what;
    size_t in, kernel, stride, dilation, before, after, out;
    ls_real x[12], right[12], dx[12]; /* dx: for dy of ones, where `with_dx` */
    int with_dx;
} line_case;

/* Weights of 1; each as a column and as a row of pixels, whole and cut in every way into two ranks
 * (or three, one of them empty) that hold what they read and no more. */
static const line_case lines[] = {
    {"one rank is no neighbour of itself",
     6,
     3,
     1,
     1,
     1,
     1,
     6,
     {1, 2, 3, 4, 5, 6},
     {3, 6, 9, 12, 15, 11},
     {2, 3, 3, 3, 3, 2},
     1},
    {"12 rows on more ranks than have any",
     12,
     3,
     1,
     1,
     1,
     1,
     12,
     {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
     {3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 23},
     {0},
     0},
    {"halo across an empty rank", 4, 3, 1, 1, 1, 1, 4, {1, 2, 3, 4}, {3, 6, 9, 7}, {0}, 0},
    {"halo wider than a neighbour",
     8,
     7,
     1,
     1,
     3,
     3,
     8,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {10, 15, 21, 28, 35, 33, 30, 26},
     {0},
     0},
    {"a dilated kernel spans (k - 1) d + 1",
     8,
     3,
     1,
     2,
     0,
     0,
     4,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {9, 12, 15, 18},
     {0},
     0},
    {"stride 2, image 0 of the batch", 6, 3, 2, 1, 1, 1, 3, {1, 2, 3, 4, 5, 6}, {3, 9, 15}, {0}, 0},
    {"stride 2, image 1 of the batch",
     6,
     3,
     2,
     1,
     1,
     1,
     3,
     {6, 5, 4, 3, 2, 1},
     {11, 12, 6},
     {0},
     0},
    {"stride 1, image 1 of the batch",
     6,
     3,
     1,
     1,
     1,
     1,
     6,
     {6, 5, 4, 3, 2, 1},
     {11, 15, 12, 9, 6, 3},
     {0},
     0},
    {"padding after alone, stride 2", 6, 3, 2, 1, 0, 1, 3, {1, 2, 3, 4, 5, 6}, {6, 12, 11}, {0}, 0},
    {"kernel 7, stride 2, padding 3",
     8,
     7,
     2,
     1,
     3,
     3,
     4,
     {1, 2, 3, 4, 5, 6, 7, 8},
     {10, 21, 35, 30},
     {0},
     0},
};

static ls_rectangle along_line(int column, size_t first, size_t n)
{
    return column ? (ls_rectangle){first, 0, n, 1} : (ls_rectangle){0, first, 1, n};
}

START_TEST(known_lines)
{
    const ls_real ones[12] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    for (size_t k = 0; k < 2 * COUNT(lines); k++) {
        const line_case *t = &lines[k / 2];
        const int column = k % 2 == 0;
        const ls_window w = column ? (ls_window){t->in,       1, t->kernel, 1,        t->stride, 1,
                                                 t->dilation, 1, t->before, t->after, 0,         0}
                                   : (ls_window){1, t->in,       1, t->kernel, 1,         t->stride,
                                                 1, t->dilation, 0, 0,         t->before, t->after};
        const ls_conv2d c = {w, 1, 1, 1, 1, 1, {1, 1}};
        ck_assert(ls_conv2d_check(t->what, &c) == LS_OK);
        ck_assert_msg(ls_rectangle_count(ls_window_outputs(&w)) == t->out, "%s", t->what);
        ls_real *y = fresh(t->out), *scratch = fresh(ls_conv2d_scratch(&c, 1));
        for (size_t cut = 0; cut <= t->out; cut++)
            for (size_t rank = 0; rank < 3; rank++) { /* rank 1 of three has nothing */
                const size_t first = rank == 2 ? cut : 0;
                const size_t n = rank == 0 ? cut : rank == 1 ? 0 : t->out - cut;
                const ls_rectangle r = along_line(column, first, n);
                const ls_rectangle halo = ls_window_reads(&w, r);
                const size_t start = column ? halo.top : halo.left;
                const ls_real *x = copy_of(t->x + start, ls_rectangle_count(halo));
                ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &c, 1, y + first,
                                            (ls_image_layout){r, n}, r, x,
                                            (ls_image_layout){halo, ls_rectangle_count(halo)}, ones,
                                            t->kernel, NULL, scratch) == LS_OK);
                if (rank == 2) ck_assert_msg(same(y, t->right, t->out), "%s", t->what);
            }
        if (t->with_dx) {
            ls_real *dx = fresh(t->in);
            ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, &c, 1, dx,
                                         (ls_image_layout){ls_window_inputs(&w), t->in},
                                         ls_window_inputs(&w), ones,
                                         (ls_image_layout){ls_window_outputs(&w), t->out}, ones,
                                         t->kernel, scratch) == LS_OK);
            ck_assert(same(dx, t->dx, t->in));
        }
    }
}
END_TEST

/* A rectangle that was not given what it reads is refused before anything is read. */
START_TEST(missing_halo)
{
    const ls_conv2d c = {{6, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 1, 1, 1, 1, {2, 2}};
    const ls_rectangle whole = {0, 0, 6, 6}, half = {0, 0, 3, 6};
    ls_real *y = fresh(36), *x = noise(36, 1), *w = noise(9, 2);
    ls_real *scratch = fresh(ls_conv2d_scratch(&c, 1));
    const ls_image_layout all = {whole, 36}, part = {half, 18};
    ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &c, 1, y, all, half, x, part, w, 9, NULL,
                                scratch) == LS_ERR_INTERNAL);
    ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &c, 1, y, part, whole, x, all, w, 9, NULL,
                                scratch) == LS_ERR_INTERNAL);
    ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, &c, 1, y, all, half, x, part, w, 9, scratch) ==
              LS_ERR_INTERNAL);
    ck_assert(ls_conv2d_weight_leaf(LS_ENGINE_PORTABLE, &c, w, 9, y, all, half, x, part, scratch) ==
              LS_ERR_INTERNAL);
    ls_error_clear();
    ck_assert(isnan(y[0]));
    /* an empty rectangle gives -0 to the weight's gradient */
    ls_real *dw = fresh(9);
    ck_assert(ls_conv2d_weight_leaf(LS_ENGINE_PORTABLE, &c, dw, 9, y, all,
                                    (ls_rectangle){0, 0, 0, 0}, x, part, scratch) == LS_OK);
    for (size_t i = 0; i < 9; i++) ck_assert(same_value(dw[i], NEG_ZERO));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {known_lines, missing_halo};
    return run_kernel_tests("conv2d_lines", tests, COUNT(tests));
}
