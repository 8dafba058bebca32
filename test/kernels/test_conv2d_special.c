/* test_conv2d_special.c - convolutions of NaN, infinity, numbers that underflow, and nothing. */
#include "kernels/kernel_test.h"

#include "kernels/conv2d_case.h"
#include "lockstep/kernels/conv2d_naive.h"
#include "run_tests.h"

typedef struct results {
    ls_real *y, *dx, *dw; /* dw: all leaves of all images, added in their order */
} results;

static results fast(const conv_case *t)
{
    const ls_conv2d *c = &t->conv;
    results r = {fresh(t->y_size), fresh(t->x_size), fresh(t->w_size)};
    ls_real *leaf = fresh(t->w_size), *scratch = fresh(ls_conv2d_scratch(c, t->images));
    ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t->images, r.y, t->y_layout,
                                t->y_layout.held, t->x, t->x_layout, t->w, t->depth, t->bias,
                                scratch) == LS_OK);
    ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, c, t->images, r.dx, t->x_layout,
                                 t->x_layout.held, t->dy, t->y_layout, t->w, t->depth,
                                 scratch) == LS_OK);
    for (size_t i = 0; i < t->w_size; i++) r.dw[i] = NEG_ZERO;
    for (size_t g = 0; g < t->images * c->grid.rows * c->grid.columns; g++) {
        const size_t n = g / c->grid.columns / c->grid.rows;
        const ls_rectangle pixels =
            ls_pixel_granule(c->grid, t->y_layout.held.height, t->y_layout.held.width,
                             g / c->grid.columns % c->grid.rows, g % c->grid.columns);
        ck_assert(ls_conv2d_weight_leaf(LS_ENGINE_PORTABLE, c, leaf, t->depth,
                                        t->dy + n * t->y_layout.stride, t->y_layout, pixels,
                                        t->x + n * t->x_layout.stride, t->x_layout,
                                        scratch) == LS_OK);
        for (size_t i = 0; i < t->w_size; i++) r.dw[i] += leaf[i];
    }
    return r;
}

static results naive(const conv_case *t)
{
    const ls_conv2d *c = &t->conv;
    results r = {fresh(t->y_size), fresh(t->x_size), fresh(t->w_size)};
    ls_real *leaf = fresh(t->w_size);
    ls_conv2d_naive_forward(c, t->images, r.y, t->y_layout, t->y_layout.held, t->x, t->x_layout,
                            t->w, t->depth, t->bias);
    ls_conv2d_naive_backward(c, t->images, r.dx, t->x_layout, t->x_layout.held, t->dy, t->y_layout,
                             t->w, t->depth);
    for (size_t i = 0; i < t->w_size; i++) r.dw[i] = NEG_ZERO;
    for (size_t g = 0; g < t->images * c->grid.rows * c->grid.columns; g++) {
        const size_t n = g / c->grid.columns / c->grid.rows;
        const ls_rectangle pixels =
            ls_pixel_granule(c->grid, t->y_layout.held.height, t->y_layout.held.width,
                             g / c->grid.columns % c->grid.rows, g % c->grid.columns);
        ls_conv2d_naive_weight_leaf(c, leaf, t->depth, t->dy + n * t->y_layout.stride, t->y_layout,
                                    pixels, t->x + n * t->x_layout.stride, t->x_layout);
        for (size_t i = 0; i < t->w_size; i++) r.dw[i] += leaf[i];
    }
    return r;
}

/* Equal bits, NaN in the same places; how many are no number. */
static size_t alike(const char *name, const char *what, const ls_real *a, const ls_real *b,
                    size_t n)
{
    size_t odd = 0;
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(same_value(a[i], b[i]) || (isnan(a[i]) && isnan(b[i])),
                      "%s: %s: element %zu is %g and %g", name, what, i, (double)a[i],
                      (double)b[i]);
        if (!isfinite(a[i])) odd++;
    }
    return odd;
}

/* NaN and infinity go where they go in the plain loops, and nowhere else. */
START_TEST(not_a_number)
{
    const ls_real odd[] = {(ls_real)NAN, (ls_real)INFINITY, (ls_real)-INFINITY};
    for (size_t k = 0; k < COUNT(shapes); k++)
        for (size_t i = 0; i < 3 * COUNT(odd); i++) {
            const conv_case t = make_case(&shapes[k], noise, k + i);
            if (t.w_size > 100000) continue; /* its loops take seconds */
            ls_real *const in[] = {t.x, t.w, t.dy};
            const size_t size[] = {t.x_size, t.w_size, t.y_size};
            in[i % 3][(k * 31 + i * 17) % size[i % 3]] = odd[i / 3];
            const results a = fast(&t), b = naive(&t);
            const size_t y = alike(shapes[k].name, "y", a.y, b.y, t.y_size);
            const size_t dx = alike(shapes[k].name, "dx", a.dx, b.dx, t.x_size);
            const size_t dw = alike(shapes[k].name, "dw", a.dw, b.dw, t.w_size);
            /* what does not read it is a number */
            if (i % 3 == 0) ck_assert(dx == 0);
            if (i % 3 == 1) ck_assert(dw == 0 && y > 0);
            if (i % 3 == 2) ck_assert(y == 0 && dw > 0);
            arrays_end();
        }
}
END_TEST

/* A weight that is infinite shows where its place is met or padded, not in pixels that the stride
 * steps over: a choice is not a product. */
START_TEST(steps_over_infinity)
{
    const ls_conv2d c = {{5, 4, 2, 1, 2, 1, 1, 1, 0, 0, 0, 0}, 1, 1, 1, 1, 1, {1, 1}};
    const ls_real w[] = {(ls_real)INFINITY, 2}, dy[] = {1, 2, 3, 4, 5, 6, 7, 8};
    ls_real *dx = fresh(20), *scratch = fresh(ls_conv2d_scratch(&c, 1));
    const ls_image_layout x = {ls_window_inputs(&c.window), 20};
    const ls_image_layout y = {ls_window_outputs(&c.window), 8};
    ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, &c, 1, dx, x, x.held, dy, y, w, 2, scratch) ==
              LS_OK);
    for (size_t i = 0; i < 4; i++) {
        ck_assert(isinf(dx[i]) && isinf(dx[8 + i])); /* rows 0 and 2: by place 0 */
        ck_assert(dx[4 + i] == 2 * dy[i] && dx[12 + i] == 2 * dy[4 + i]); /* 1, 3: by place 1     */
        ck_assert(isnan(dx[16 + i])); /* row 4: place 0 from beyond the border  */
    }
}
END_TEST

static ls_real *tiny(size_t n, uint64_t seed)
{
    ls_real *x = noise(n, seed);
    for (size_t i = 0; i < n; i++) x[i] *= sizeof(ls_real) == 4 ? (ls_real)1e-24 : (ls_real)1e-170;
    return x;
}

/* Products that underflow leave zeros of either sign: no term that the contract does not have may
 * be added to them. */
START_TEST(underflow)
{
    size_t negative = 0;
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], tiny, k + 400);
        if (t.w_size > 100000) continue;
        const results a = fast(&t), b = naive(&t);
        alike(shapes[k].name, "y", a.y, b.y, t.y_size);
        alike(shapes[k].name, "dx", a.dx, b.dx, t.x_size);
        alike(shapes[k].name, "dw", a.dw, b.dw, t.w_size);
        for (size_t i = 0; i < t.x_size; i++)
            if (same_value(a.dx[i], NEG_ZERO)) negative++;
        arrays_end();
    }
    ck_assert(negative > 10);
}
END_TEST

/* No images, or no pixels: nothing is read or written. */
START_TEST(nothing)
{
    const conv_case t = make_case(&shapes[0], noise, 7);
    const ls_rectangle none = {2, 1, 0, 3};
    ls_real *y = fresh(t.y_size), *dx = fresh(t.x_size);
    for (size_t images = 0; images < 2; images++) {
        const ls_rectangle out = images == 0 ? t.y_layout.held : none;
        const ls_rectangle in = images == 0 ? t.x_layout.held : none;
        ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &t.conv, images, y, t.y_layout, out, NULL,
                                    t.x_layout, NULL, t.depth, NULL, NULL) == LS_OK);
        ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, &t.conv, images, dx, t.x_layout, in, NULL,
                                     t.y_layout, NULL, t.depth, NULL) == LS_OK);
    }
    for (size_t i = 0; i < t.y_size; i++) ck_assert(isnan(y[i]));
    for (size_t i = 0; i < t.x_size; i++) ck_assert(isnan(dx[i]));
}
END_TEST

static void refused(ls_conv2d c, const char *words)
{
    ck_assert(ls_conv2d_check("conv1", &c) == LS_ERR_INPUT);
    ck_assert_msg(strncmp(ls_error_text(), "conv1: ", 7) == 0 &&
                      strstr(ls_error_text(), words) != NULL && !strchr(ls_error_text(), '\n'),
                  "%s", ls_error_text());
    ls_error_clear();
}

/* What cannot be a convolution, or not one that fits a memory, has one clear line. */
START_TEST(sizes)
{
    const size_t most = LS_WINDOW_MOST;
    const ls_conv2d good = {{5, 5, 3, 3, 1, 1, 1, 1, 0, 0, 0, 0}, 1, 2, 2, 1, 1, {1, 1}};
    ls_conv2d c = good;
    ck_assert(ls_conv2d_check("conv1", &c) == LS_OK);
    c.window.kernel_h = 6;
    refused(c, "a kernel of 6 with dilation 1 spans 6 rows, the padded image has 5");
    c = good, c.window.kernel_w = 3, c.window.dilation_w = 3;
    refused(c, "spans 7 columns, the padded image has 5");
    c = good, c.window.in_w = 0;
    refused(c, "image of 0 in width");
    c = good, c.in_channels = 0;
    refused(c, "0 input channels");
    c = good, c.groups = 0;
    refused(c, "0 groups");
    c = good, c.window.in_h = SIZE_MAX;
    refused(c, "image of 18446744073709551615 in height");
    c = good, c.window.pad_top = SIZE_MAX; /* would wrap to an image without padding */
    refused(c, "padding before of 18446744073709551615");
    c = good, c.window.dilation_h = SIZE_MAX / 2 + 1; /* (3 - 1) times that wraps to 0 */
    refused(c, "dilation of 9223372036854775808 in height");
    /* each number is legal, their product is none */
    c = good, c.in_channels = c.out_channels = most;
    c.window.in_h = c.window.in_w = c.window.kernel_h = c.window.kernel_w = most;
    refused(c, "more than");
    c = good, c.window.in_h = c.window.in_w = most, c.in_channels = most;
    refused(c, "more than");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {not_a_number, steps_over_infinity, underflow, nothing, sizes};
    return run_kernel_tests("conv2d_special", tests, COUNT(tests));
}
