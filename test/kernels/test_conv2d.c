/* test_conv2d.c - convolution on whole images and on rectangles of them. */
#include "kernels/kernel_test.h"

#include "kernels/conv2d_case.h"
#include "lockstep/kernels/conv2d_naive.h"
#include "run_tests.h"

/* Every rectangle that the test goes through: all of a small image, a third of a larger one. */
#define EACH_RECTANGLE(r, h, w, skip)                                                              \
    for (ls_rectangle r = {0, 0, 1, 1}; r.top < (h); r.top += (skip))                              \
        for (r.left = 0; r.left < (w); r.left += (skip))                                           \
            for (r.height = 1; r.height <= (h)-r.top; r.height += (skip))                          \
                for (r.width = 1; r.width <= (w)-r.left; r.width += (skip))

/* TRUTH: against plain loops in long double. Each result is within gamma * the sum of the absolute
 * terms. EXACT: the fast version has the bits of the naive one. */
START_TEST(truth_and_naive)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], noise, k);
        const ls_conv2d *c = &t.conv;
        ls_real *y = fresh(t.y_size), *y2 = fresh(t.y_size), *dx = fresh(t.x_size);
        ls_real *dx2 = fresh(t.x_size), *scratch = fresh(ls_conv2d_scratch(c, t.images));
        ls_real *dw = fresh(t.w_size), *dw2 = fresh(t.w_size);
        const ls_rectangle outputs = t.y_layout.held, inputs = t.x_layout.held;
        for (int twice = 0; twice < 2; twice++) {
            ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, y, t.y_layout, outputs,
                                        t.x, t.x_layout, t.w, t.depth, t.bias, scratch) == LS_OK);
            ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, c, t.images, dx, t.x_layout, inputs,
                                         t.dy, t.y_layout, t.w, t.depth, scratch) == LS_OK);
        }
        ls_conv2d_naive_forward(c, t.images, y2, t.y_layout, outputs, t.x, t.x_layout, t.w, t.depth,
                                t.bias);
        ls_conv2d_naive_backward(c, t.images, dx2, t.x_layout, inputs, t.dy, t.y_layout, t.w,
                                 t.depth);
        ck_assert_msg(same(y, y2, t.y_size), "%s: y", shapes[k].name);
        ck_assert_msg(same(dx, dx2, t.x_size), "%s: dx", shapes[k].name);

        conv_truth truth = true_conv(&t);
        ck_assert_msg(near_truth(y, truth.y, truth.y_abs, t.y_size), "%s: y", shapes[k].name);
        ck_assert_msg(near_truth(dx, truth.dx, truth.dx_abs, t.x_size), "%s: dx", shapes[k].name);

        /* dweight: leaf by leaf, added here in any order */
        ls_real *sum = fresh(t.w_size);
        for (size_t i = 0; i < t.w_size; i++) sum[i] = 0;
        for (size_t n = 0; n < t.images; n++)
            for (size_t i = 0; i < c->grid.rows; i++)
                for (size_t j = 0; j < c->grid.columns; j++) {
                    const ls_rectangle g =
                        ls_pixel_granule(c->grid, outputs.height, outputs.width, i, j);
                    const ls_real *dy = t.dy + n * t.y_layout.stride;
                    const ls_real *x = t.x + n * t.x_layout.stride;
                    ck_assert(ls_conv2d_weight_leaf(LS_ENGINE_PORTABLE, c, dw, t.depth, dy,
                                                    t.y_layout, g, x, t.x_layout,
                                                    scratch) == LS_OK);
                    ls_conv2d_naive_weight_leaf(c, dw2, t.depth, dy, t.y_layout, g, x, t.x_layout);
                    ck_assert_msg(same(dw, dw2, t.w_size), "%s: dw", shapes[k].name);
                    for (size_t e = 0; e < t.w_size; e++) sum[e] += dw[e];
                }
        ck_assert_msg(near_truth(sum, truth.dw, truth.dw_abs, t.w_size), "%s: dw", shapes[k].name);
        free_truth(&truth);
    }
}
END_TEST

/* ORDERED: an output that a stride steps over is no term of dx, and the other terms stay in their
 * leaves: on finite data without underflow these are the bits of +0 at each such place, made here
 * as one product with all of them. */
START_TEST(steps_of_a_stride_are_zeros)
{
    size_t strided = 0;
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], noise, k + 20);
        const ls_conv2d *c = &t.conv;
        const ls_window *w = &c->window;
        const size_t in = c->in_channels / c->groups, out = c->out_channels / c->groups;
        const size_t kernel = w->kernel_h * w->kernel_w, depth = out * kernel;
        const size_t pixels = w->in_h * w->in_w, area = ls_rectangle_count(t.y_layout.held);
        ls_real *dx = fresh(t.x_size), *right = fresh(in * pixels);
        ls_real *a = fresh(in * depth), *b = fresh(depth * pixels);
        strided += w->stride_h > 1 || w->stride_w > 1;
        ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, c, t.images, dx, t.x_layout,
                                     t.x_layout.held, t.dy, t.y_layout, t.w, t.depth,
                                     fresh(ls_conv2d_scratch(c, t.images))) == LS_OK);
        for (size_t n = 0; n < t.images; n++)
            for (size_t g = 0; g < c->groups; g++) {
                for (size_t e = 0; e < in * depth; e++) { /* [ci][(co, place)] */
                    const size_t ci = e / depth, co = e % depth / kernel, place = e % kernel;
                    a[e] = t.w[(g * out + co) * t.depth + ci * kernel + place];
                }
                for (size_t e = 0; e < depth * pixels; e++) b[e] = 0;
                for (size_t e = 0; e < out * area * kernel; e++) { /* each output, each place */
                    const size_t co = e / kernel / area, o = e / kernel % area, place = e % kernel;
                    const size_t row = o / t.y_layout.held.width * w->stride_h +
                                       place / w->kernel_w * w->dilation_h - w->pad_top;
                    const size_t column = o % t.y_layout.held.width * w->stride_w +
                                          place % w->kernel_w * w->dilation_w - w->pad_left;
                    if (row < w->in_h && column < w->in_w) /* else beyond the border, or wrapped */
                        b[(co * kernel + place) * pixels + row * w->in_w + column] =
                            t.dy[n * t.y_layout.stride + (g * out + co) * area + o];
                }
                ck_assert(ls_gemm(LS_ENGINE_PORTABLE, LS_NO_TRANS, LS_NO_TRANS, ls_axis_whole(in),
                                  ls_axis_whole(pixels),
                                  ls_axis_of(c->out_granules, depth / c->out_granules), a, depth, b,
                                  pixels, right, pixels, false) == LS_OK);
                ck_assert_msg(
                    same(dx + n * t.x_layout.stride + g * in * pixels, right, in * pixels), "%s",
                    shapes[k].name);
            }
    }
    ck_assert(strided > 6);
}
END_TEST

/* EXACT: with small integers every order gives the same sum. */
START_TEST(integers_are_exact)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], small_integers, k + 50);
        ls_real *y = fresh(t.y_size), *dx = fresh(t.x_size);
        ls_real *scratch = fresh(ls_conv2d_scratch(&t.conv, t.images));
        static const ls_engine engines[] = {LS_ENGINE_PORTABLE, LS_ENGINE_OPENBLAS,
                                            LS_ENGINE_PLAIN};
        conv_truth truth = true_conv(&t);
        for (size_t e = 0; e < COUNT(engines); e++) {
            if (!ls_engine_available(engines[e])) continue;
            ck_assert(ls_conv2d_forward(engines[e], &t.conv, t.images, y, t.y_layout,
                                        t.y_layout.held, t.x, t.x_layout, t.w, t.depth, t.bias,
                                        scratch) == LS_OK);
            ck_assert(ls_conv2d_backward(engines[e], &t.conv, t.images, dx, t.x_layout,
                                         t.x_layout.held, t.dy, t.y_layout, t.w, t.depth,
                                         scratch) == LS_OK);
            for (size_t i = 0; i < t.y_size; i++) ck_assert(y[i] == (ls_real)truth.y[i]);
            for (size_t i = 0; i < t.x_size; i++) ck_assert(dx[i] == (ls_real)truth.dx[i]);
        }
        free_truth(&truth);
    }
}
END_TEST

/* Copies a rectangle of images, NaN around it in the copy's own margins never being read. */
static ls_real *part_of(const ls_real *from, ls_image_layout layout, size_t images, size_t channels,
                        ls_rectangle part)
{
    ls_real *to = fresh(images * channels * ls_rectangle_count(part));
    size_t at = 0;
    for (size_t n = 0; n < images; n++)
        for (size_t ch = 0; ch < channels; ch++)
            for (size_t r = 0; r < part.height; r++)
                for (size_t c = 0; c < part.width; c++)
                    to[at++] = from[n * layout.stride + ch * ls_rectangle_count(layout.held) +
                                    (part.top + r) * layout.held.width + part.left + c];
    return to;
}

/* ORDERED: any rectangle of y or dx, from exactly the pixels that it reads, has the bits of the
 * whole image; what a call is not asked for stays as it was. */
START_TEST(rectangles_are_slices)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], noise, k + 100);
        const ls_conv2d *c = &t.conv;
        ls_real *y = fresh(t.y_size), *dx = fresh(t.x_size);
        ls_real *scratch = fresh(ls_conv2d_scratch(c, t.images));
        const ls_rectangle outputs = t.y_layout.held, inputs = t.x_layout.held;
        ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, y, t.y_layout, outputs, t.x,
                                    t.x_layout, t.w, t.depth, t.bias, scratch) == LS_OK);
        ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, c, t.images, dx, t.x_layout, inputs, t.dy,
                                     t.y_layout, t.w, t.depth, scratch) == LS_OK);
        const size_t skip = 1 + outputs.height / 5, skip_in = 1 + inputs.height / 4;
        EACH_RECTANGLE(r, outputs.height, outputs.width, skip)
        {
            const ls_rectangle halo = ls_window_reads(&c->window, r);
            const ls_image_layout from = {halo, c->in_channels * ls_rectangle_count(halo)};
            const ls_image_layout to = {r, c->out_channels * ls_rectangle_count(r)};
            const ls_real *x = part_of(t.x, t.x_layout, t.images, c->in_channels, halo);
            ls_real *part = fresh(t.images * to.stride);
            ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, part, to, r, x, from, t.w,
                                        t.depth, t.bias, scratch) == LS_OK);
            const ls_real *right = part_of(y, t.y_layout, t.images, c->out_channels, r);
            ck_assert_msg(same(part, right, t.images * to.stride), "%s: y", shapes[k].name);
        }
        EACH_RECTANGLE(r, inputs.height, inputs.width, skip_in)
        {
            const ls_rectangle halo = ls_window_read_by(&c->window, r);
            const ls_image_layout from = {halo, c->out_channels * ls_rectangle_count(halo)};
            const ls_image_layout to = {r, c->in_channels * ls_rectangle_count(r)};
            const ls_real *dy = part_of(t.dy, t.y_layout, t.images, c->out_channels, halo);
            ls_real *part = fresh(t.images * to.stride);
            ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, c, t.images, part, to, r, dy, from,
                                         t.w, t.depth, scratch) == LS_OK);
            const ls_real *right = part_of(dx, t.x_layout, t.images, c->in_channels, r);
            ck_assert_msg(same(part, right, t.images * to.stride), "%s: dx", shapes[k].name);
        }
        /* the interior first, the border later: into one array */
        if (outputs.height > 2 && outputs.width > 2) {
            ls_real *both = fresh(t.y_size);
            const ls_rectangle inner = {1, 1, outputs.height - 2, outputs.width - 2};
            const ls_rectangle border[] = {{0, 0, 1, outputs.width},
                                           {outputs.height - 1, 0, 1, outputs.width},
                                           {1, 0, outputs.height - 2, 1},
                                           {1, outputs.width - 1, outputs.height - 2, 1}};
            ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, both, t.y_layout, inner,
                                        t.x, t.x_layout, t.w, t.depth, t.bias, scratch) == LS_OK);
            ck_assert(isnan(both[0]) && !isnan(both[outputs.width + 1]));
            for (size_t b = 0; b < COUNT(border); b++)
                ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, both, t.y_layout,
                                            border[b], t.x, t.x_layout, t.w, t.depth, t.bias,
                                            scratch) == LS_OK);
            ck_assert(same(both, y, t.y_size));
        }
        guards_intact();
    }
}
END_TEST

/* ORDERED: under openblas the granules of any grid have the bits of the whole, every one computed
 * by itself. */
START_TEST(openblas_by_granules)
{
    if (!ls_engine_available(LS_ENGINE_OPENBLAS)) SKIP_TEST("built without OpenBLAS");
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], noise, k + 150);
        const ls_conv2d *c = &t.conv;
        ls_real *y = fresh(t.y_size), *scratch = fresh(ls_conv2d_scratch(c, t.images));
        const ls_rectangle outputs = t.y_layout.held;
        ck_assert(ls_conv2d_forward(LS_ENGINE_OPENBLAS, c, t.images, y, t.y_layout, outputs, t.x,
                                    t.x_layout, t.w, t.depth, t.bias, scratch) == LS_OK);
        for (size_t i = 0; i < c->grid.rows; i++)
            for (size_t j = 0; j < c->grid.columns; j++) {
                const ls_rectangle r =
                    ls_pixel_granule(c->grid, outputs.height, outputs.width, i, j);
                if (ls_rectangle_is_empty(r)) continue;
                const ls_rectangle halo = ls_window_reads(&c->window, r);
                const ls_image_layout from = {halo, c->in_channels * ls_rectangle_count(halo)};
                const ls_image_layout to = {r, c->out_channels * ls_rectangle_count(r)};
                const ls_real *x = part_of(t.x, t.x_layout, t.images, c->in_channels, halo);
                ls_real *part = fresh(t.images * to.stride);
                ck_assert(ls_conv2d_forward(LS_ENGINE_OPENBLAS, c, t.images, part, to, r, x, from,
                                            t.w, t.depth, t.bias, scratch) == LS_OK);
                ck_assert(same(part, part_of(y, t.y_layout, t.images, c->out_channels, r),
                               t.images * to.stride));
            }
        ls_real *dx = fresh(t.x_size), *whole_dx = fresh(t.x_size);
        const ls_rectangle inputs = t.x_layout.held;
        ck_assert(ls_conv2d_backward(LS_ENGINE_OPENBLAS, c, t.images, whole_dx, t.x_layout, inputs,
                                     t.dy, t.y_layout, t.w, t.depth, scratch) == LS_OK);
        for (size_t i = 0; i < c->grid.rows * c->grid.columns; i++) {
            const ls_rectangle r = ls_pixel_granule(c->grid, inputs.height, inputs.width,
                                                    i / c->grid.columns, i % c->grid.columns);
            const ls_rectangle halo = ls_window_read_by(&c->window, r);
            const ls_image_layout from = {halo, c->out_channels * ls_rectangle_count(halo)};
            ck_assert(ls_conv2d_backward(LS_ENGINE_OPENBLAS, c, t.images, dx, t.x_layout, r,
                                         part_of(t.dy, t.y_layout, t.images, c->out_channels, halo),
                                         from, t.w, t.depth, scratch) == LS_OK);
        }
        ck_assert_msg(same(dx, whole_dx, t.x_size), "%s: dx", shapes[k].name);
        /* half a granule is refused */
        ls_conv2d whole = *c;
        whole.grid = (ls_pixel_grid){1, 1};
        if (outputs.height > 1) {
            const ls_rectangle half = {0, 0, 1, outputs.width};
            ls_real *more = fresh(ls_conv2d_scratch(&whole, t.images));
            ck_assert(ls_conv2d_forward(LS_ENGINE_OPENBLAS, &whole, t.images, y, t.y_layout, half,
                                        t.x, t.x_layout, t.w, t.depth, t.bias,
                                        more) == LS_ERR_INTERNAL);
            ls_error_clear();
        }
    }
}
END_TEST

/* ORDERED: channel parallelism. A rank's run of output channels is a call on its rows of the
 * weight; a rank's run of groups keeps its own number of groups (grouped convolution sharded: 4
 * groups on 2 ranks are 2 local groups); granules of input channels are partial sums that T
 * finishes. */
START_TEST(channels_are_slices)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        const conv_case t = make_case(&shapes[k], noise, k + 200);
        const ls_conv2d *c = &t.conv;
        const size_t area = ls_rectangle_count(t.y_layout.held);
        const size_t in_area = ls_rectangle_count(t.x_layout.held);
        ls_real *y = fresh(t.y_size), *part = fresh(t.y_size);
        ls_real *scratch = fresh(ls_conv2d_scratch(c, t.images));
        ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, c, t.images, y, t.y_layout, t.y_layout.held,
                                    t.x, t.x_layout, t.w, t.depth, NULL, scratch) == LS_OK);
        if (c->groups % 2 == 0) {
            ls_conv2d half = *c;
            half.groups /= 2, half.in_channels /= 2, half.out_channels /= 2;
            for (size_t r = 0; r < 2; r++)
                ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &half, t.images,
                                            part + r * half.out_channels * area, t.y_layout,
                                            t.y_layout.held, t.x + r * half.in_channels * in_area,
                                            t.x_layout, t.w + r * half.out_channels * t.depth,
                                            t.depth, NULL, scratch) == LS_OK);
            ck_assert(same(part, y, t.y_size));
        }
        if (c->groups == 1) {
            /* a run of output channels */
            ls_conv2d rest = *c;
            const size_t first = c->out_channels / 3;
            rest.out_channels -= first;
            rest.out_granules = 1;
            ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &rest, t.images, part + first * area,
                                        t.y_layout, t.y_layout.held, t.x, t.x_layout,
                                        t.w + first * t.depth, t.depth, NULL, scratch) == LS_OK);
            for (size_t n = 0; n < t.images; n++)
                ck_assert(same(part + n * t.y_layout.stride + first * area,
                               y + n * t.y_layout.stride + first * area,
                               (c->out_channels - first) * area));
            /* each granule of input channels by itself */
            const size_t G = c->in_granules, own = c->in_channels / G;
            ls_conv2d one = *c;
            one.in_channels = own, one.in_granules = 1;
            ls_real *partial = fresh(G * t.y_size);
            for (size_t g = 0; g < G; g++)
                ck_assert(ls_conv2d_forward(LS_ENGINE_PORTABLE, &one, t.images,
                                            partial + g * t.y_size, t.y_layout, t.y_layout.held,
                                            t.x + g * own * in_area, t.x_layout,
                                            t.w + g * own * c->window.kernel_h * c->window.kernel_w,
                                            t.depth, NULL, scratch) == LS_OK);
            for (size_t i = 0; i < t.y_size; i++) {
                ls_real value[16];
                for (size_t g = 0; g < G; g++) value[g] = partial[g * t.y_size + i];
                ck_assert(same_value(reference_tree(value, G), y[i]));
            }
        }
    }
}
END_TEST

#ifdef LS_REAL_IS_F64
typedef struct gradient_case {
    conv_case t;
    double *y, *scratch;
} gradient_case;

static double conv_objective(void *context)
{
    gradient_case *g = context;
    const conv_case *t = &g->t;
    if (ls_conv2d_forward(LS_ENGINE_PORTABLE, &t->conv, t->images, g->y, t->y_layout,
                          t->y_layout.held, t->x, t->x_layout, t->w, t->depth, t->bias,
                          g->scratch) != LS_OK)
        return (double)NAN;
    return weighted_sum(t->dy, g->y, t->y_size);
}

START_TEST(gradients)
{
    for (size_t k = 0; k < COUNT(shapes); k++) {
        gradient_case g = {make_case(&shapes[k], noise, k + 250), NULL, NULL};
        conv_case *t = &g.t;
        if (t->x_size + t->w_size > 1500) continue;
        g.y = fresh(t->y_size), g.scratch = fresh(ls_conv2d_scratch(&t->conv, t->images));
        double *dx = fresh(t->x_size), *dw = fresh(t->w_size), *leaf = fresh(t->w_size);
        ck_assert(ls_conv2d_backward(LS_ENGINE_PORTABLE, &t->conv, t->images, dx, t->x_layout,
                                     t->x_layout.held, t->dy, t->y_layout, t->w, t->depth,
                                     g.scratch) == LS_OK);
        for (size_t i = 0; i < t->w_size; i++) dw[i] = 0;
        for (size_t n = 0; n < t->images; n++)
            for (size_t i = 0; i < t->conv.grid.rows; i++)
                for (size_t j = 0; j < t->conv.grid.columns; j++) {
                    const ls_rectangle r = ls_pixel_granule(t->conv.grid, t->y_layout.held.height,
                                                            t->y_layout.held.width, i, j);
                    ck_assert(ls_conv2d_weight_leaf(LS_ENGINE_PORTABLE, &t->conv, leaf, t->depth,
                                                    t->dy + n * t->y_layout.stride, t->y_layout, r,
                                                    t->x + n * t->x_layout.stride, t->x_layout,
                                                    g.scratch) == LS_OK);
                    for (size_t e = 0; e < t->w_size; e++) dw[e] += leaf[e];
                }
        check_gradient(conv_objective, &g, t->x, dx, t->x_size, "dx");
        check_gradient(conv_objective, &g, t->w, dw, t->w_size, "dweight");
    }
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {truth_and_naive,
                                  steps_of_a_stride_are_zeros,
                                  integers_are_exact,
                                  rectangles_are_slices,
                                  openblas_by_granules,
                                  channels_are_slices,
#ifdef LS_REAL_IS_F64
                                  gradients
#endif
    };
    return run_kernel_tests("conv2d", tests, COUNT(tests));
}
