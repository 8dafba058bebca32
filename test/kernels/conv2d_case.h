/* conv2d_case.h - shapes of convolutions, their data, and the truth about them. */
#ifndef LS_TEST_CONV2D_CASE_H
#define LS_TEST_CONV2D_CASE_H

#include "kernels/kernel_test.h"

#include "lockstep/kernels/conv2d.h"

typedef struct conv_shape {
    const char *name;
    size_t images;
    ls_conv2d conv;
} conv_shape;

/* {in h w, kernel h w, stride h w, dilation h w, pad top bottom left right}, groups, channels in
 * out, granules in out, grid */
static const conv_shape shapes[] = {
    {"3x3 same", 2, {{7, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 4, 6, 2, 3, {3, 2}}},
    {"1x1", 3, {{4, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}, 1, 6, 4, 3, 2, {2, 3}}},
    {"1x1 stride 2", 2, {{5, 6, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0}, 1, 4, 3, 4, 1, {3, 3}}},
    {"even kernel 2x4", 2, {{6, 7, 2, 4, 1, 1, 1, 1, 1, 0, 2, 1}, 1, 3, 5, 1, 5, {2, 2}}},
    {"even kernel, stride 2", 1, {{8, 6, 4, 2, 2, 2, 1, 1, 1, 1, 0, 0}, 1, 2, 4, 2, 2, {8, 8}}},
    {"one-sided padding, stride 2",
     2,
     {{6, 9, 3, 3, 2, 2, 1, 1, 0, 1, 1, 0}, 1, 2, 3, 1, 1, {2, 3}}},
    {"dilation 2 and 3", 1, {{9, 8, 3, 2, 1, 2, 2, 3, 2, 1, 0, 3}, 1, 3, 2, 3, 1, {3, 1}}},
    {"groups", 2, {{5, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, 4, 8, 12, 2, 3, {2, 2}}},
    {"two columns", 1, {{6, 6, 5, 3, 2, 1, 1, 1, 2, 2, 1, 1}, 2, 6, 4, 3, 2, {4, 4}}},
    {"depthwise", 2, {{4, 6, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1}, 6, 6, 6, 1, 1, {1, 1}}},
    {"wide padding", 1, {{3, 2, 2, 3, 1, 1, 1, 1, 4, 3, 3, 5}, 1, 2, 2, 1, 2, {3, 4}}},
    {"stride above kernel", 2, {{7, 8, 2, 1, 3, 3, 1, 1, 0, 1, 0, 0}, 1, 3, 2, 1, 1, {2, 2}}},
    {"leaves of 256", 1, {{4, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1}, 1, 64, 66, 2, 2, {2, 1}}},
    {"granules above 256 pixels",
     1,
     {{23, 17, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0}, 1, 2, 3, 1, 1, {1, 1}}},
    {"more than a strip", 2, {{29, 31, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0}, 1, 2, 3, 2, 1, {5, 3}}},
    {"kernel is the image", 2, {{3, 4, 3, 4, 1, 1, 1, 1, 0, 0, 0, 0}, 1, 3, 5, 3, 5, {2, 2}}},
    {"stride 2, leaves of 256", 1, {{5, 4, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1}, 1, 6, 66, 2, 2, {2, 1}}},
    {"stride and dilation 2", 2, {{9, 8, 3, 3, 2, 2, 2, 2, 2, 1, 1, 2}, 1, 3, 4, 1, 2, {3, 2}}},
    {"stride 3, dilation 2", 1, {{8, 11, 3, 2, 3, 4, 2, 6, 1, 2, 3, 2}, 2, 4, 6, 2, 1, {2, 2}}},
    {"leaves without terms",
     1,
     {{20, 20, 20, 20, 20, 20, 1, 1, 0, 0, 0, 0}, 1, 2, 3, 1, 1, {1, 2}}},
    {"more leaves than terms",
     1,
     {{257, 1, 257, 1, 257, 1, 1, 1, 0, 0, 0, 0}, 1, 7, 130, 1, 130, {2, 1}}},
    {"one row", 3, {{1, 8, 1, 3, 1, 1, 1, 1, 0, 0, 1, 1}, 1, 1, 2, 1, 1, {1, 4}}},
};

typedef struct conv_case {
    ls_conv2d conv;
    size_t images, depth, x_size, y_size, w_size;
    ls_real *x, *w, *bias, *dy;
    ls_image_layout x_layout, y_layout;
} conv_case;

static inline ls_real *small_integers(size_t n, uint64_t seed)
{
    return integers(n, seed, 5);
}

static inline conv_case make_case(const conv_shape *shape, ls_real *data(size_t, uint64_t),
                                  uint64_t seed)
{
    const ls_conv2d *c = &shape->conv;
    ck_assert(ls_conv2d_check(shape->name, c) == LS_OK);
    conv_case t = {.conv = *c, .images = shape->images, .depth = ls_conv2d_depth(c)};
    t.x_layout.held = ls_window_inputs(&c->window);
    t.y_layout.held = ls_window_outputs(&c->window);
    t.x_layout.stride = c->in_channels * ls_rectangle_count(t.x_layout.held);
    t.y_layout.stride = c->out_channels * ls_rectangle_count(t.y_layout.held);
    t.x_size = t.images * t.x_layout.stride;
    t.y_size = t.images * t.y_layout.stride;
    t.w_size = c->out_channels * t.depth;
    t.x = data(t.x_size, seed * 4 + 1);
    t.w = data(t.w_size, seed * 4 + 2);
    t.bias = data(c->out_channels, seed * 4 + 3);
    t.dy = data(t.y_size, seed * 4 + 4);
    return t;
}

/* Results in long double by the plainest loops, and the sums of absolute terms beside them. */
typedef struct conv_truth {
    long double *y, *dx, *dw, *y_abs, *dx_abs, *dw_abs;
} conv_truth;

static inline long double *zeros(size_t n)
{
    long double *x = calloc(n, sizeof *x);
    ck_assert(x != NULL);
    return x;
}

/* Goes over every (image, output, place of the kernel) with signed coordinates. */
static inline conv_truth true_conv(const conv_case *t)
{
    const ls_conv2d *c = &t->conv;
    const ls_window *w = &c->window;
    const size_t in = c->in_channels / c->groups, out = c->out_channels / c->groups;
    const long oh = (long)t->y_layout.held.height, ow = (long)t->y_layout.held.width;
    const long ih = (long)w->in_h, iw = (long)w->in_w;
    const long kh = (long)w->kernel_h, kw = (long)w->kernel_w;
    conv_truth r = {zeros(t->y_size), zeros(t->x_size), zeros(t->w_size),
                    zeros(t->y_size), zeros(t->x_size), zeros(t->w_size)};
    for (size_t n = 0; n < t->images; n++)
        for (size_t co = 0; co < c->out_channels; co++)
            for (long p = 0; p < oh * ow; p++) {
                const size_t y = (n * c->out_channels + co) * (size_t)(oh * ow) + (size_t)p;
                r.y[y] = (long double)t->bias[co];
                r.y_abs[y] = fabsl((long double)t->bias[co]);
                for (size_t ci = 0; ci < in; ci++)
                    for (long i = 0; i < kh; i++)
                        for (long j = 0; j < kw; j++) {
                            const long row = p / ow * (long)w->stride_h - (long)w->pad_top +
                                             i * (long)w->dilation_h;
                            const long col = p % ow * (long)w->stride_w - (long)w->pad_left +
                                             j * (long)w->dilation_w;
                            if (row < 0 || row >= ih || col < 0 || col >= iw) continue;
                            const size_t x =
                                (n * c->in_channels + co / out * in + ci) * (size_t)(ih * iw) +
                                (size_t)(row * iw + col);
                            const size_t k =
                                (co * in + ci) * (size_t)(kh * kw) + (size_t)(i * kw + j);
                            const long double a = (long double)t->w[k];
                            const long double b = (long double)t->x[x];
                            const long double d = (long double)t->dy[y];
                            r.y[y] += a * b, r.y_abs[y] += fabsl(a * b);
                            r.dx[x] += a * d, r.dx_abs[x] += fabsl(a * d);
                            r.dw[k] += b * d, r.dw_abs[k] += fabsl(b * d);
                        }
            }
    return r;
}

static inline void free_truth(conv_truth *r)
{
    free(r->y), free(r->dx), free(r->dw), free(r->y_abs), free(r->dx_abs), free(r->dw_abs);
}

/* Every x within 300 roundings (a leaf, and the tree above) of the sum of the absolute terms. */
static inline int near_truth(const ls_real *x, const long double *truth, const long double *sizes,
                             size_t n)
{
    for (size_t i = 0; i < n; i++) {
        /* a leaf of at most 256 terms, and a tree */
        const long double bound = 300 * (long double)EPSILON / 2 * sizes[i];
        if (!(fabsl((long double)x[i] - truth[i]) <= bound)) return 0;
    }
    return 1;
}

#endif
