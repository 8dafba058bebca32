/* naive_layers.h - the layers of a convolutional network once more, straight from the formulas and
 * the contract's order of additions, element by element with loops. Shares with lib/ the table,
 * shapes, random numbers and functions, and conv2d_naive.h for what one rectangle of a convolution
 * is; trees and contractions are those of tree_reference.h and pixel_reference.h. */
#ifndef LS_TEST_NAIVE_LAYERS_H
#define LS_TEST_NAIVE_LAYERS_H

#include <math.h>

#include "lockstep/kernels/conv2d_naive.h"
#include "lockstep/numerics/functions.h"
#include "lockstep/numerics/random.h"
#include "numerics/pixel_reference.h"
#include "serial/net_fixture.h"

typedef struct naive_net {
    const ls_config *config;
    const ls_net *net;
    ls_net_shapes shapes;
    const ls_store *store; /* values are read, gradients are not */
    const ls_batch *batch;
    size_t B;
    ls_real *x;                 /* images                           */
    ls_real *y[LS_NET_LAYERS];  /* outputs                          */
    ls_real *dx[LS_NET_LAYERS]; /* what a layer passes down         */
    ls_real *mean[LS_NET_LAYERS], *rstd[LS_NET_LAYERS], *squares[LS_NET_LAYERS];
    ls_real *dweight[LS_NET_LAYERS], *dbias[LS_NET_LAYERS]; /* or of scale and shift */
    ls_real loss;
} naive_net;

static inline ls_real *naive_room(size_t n)
{
    ls_real *x = malloc((n + 1) * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < n; i++) x[i] = (ls_real)NAN;
    return x;
}

static inline size_t naive_size(const naive_net *f, int l)
{
    return f->B * ls_net_shape_elements(ls_net_shape_at(&f->shapes, l));
}

static inline const ls_real *naive_value(const naive_net *f, ls_role role, size_t l)
{
    const ls_slot *slot = ls_store_slot(f->store, role, l);
    return slot ? slot->value : NULL;
}

static inline const ls_real *naive_output(const naive_net *f, int l)
{
    return l < 0 ? f->x : f->y[l];
}

static inline ls_real naive_fma(ls_real a, ls_real b, ls_real c)
{
#ifdef LS_REAL_IS_F64
    return fma(a, b, c);
#else
    return fmaf(a, b, c);
#endif
}

/* The sum of a[k as] b[k bs]: chains of up to 256, T in a granule, T over the granules. */
static inline ls_real naive_contract(ls_axis axis, const ls_real *a, size_t as, const ls_real *b,
                                     size_t bs)
{
    ls_real granule[64], leaf[64];
    ck_assert(axis.granules <= 64 && axis.granule <= 64 * 256);
    for (size_t g = 0; g < axis.granules; g++) {
        size_t leaves = 0;
        for (size_t k = 0; k < axis.granule; k += 256, leaves++) {
            leaf[leaves] = 0;
            for (size_t i = k; i < axis.granule && i < k + 256; i++) {
                const size_t at = g * axis.granule + i;
                leaf[leaves] = naive_fma(a[at * as], b[at * bs], leaf[leaves]);
            }
        }
        granule[g] = reference_tree(leaf, leaves);
    }
    return reference_tree(granule, axis.granules);
}

/* The sum over images first .. first + images of one channel of `terms`, which is laid out as an
 * output of the shape. */
static inline ls_real naive_pixels(const naive_net *f, const ls_real *terms,
                                   const ls_net_shape *shape, size_t channel, size_t first,
                                   size_t images)
{
    const size_t rows = f->net->row_granules, columns = f->net->column_granules;
    const size_t h = shape->height, w = shape->width;
    ls_real image[64], *granule = naive_room(rows * columns), *pixel = naive_room(h * w);
    ck_assert(images <= 64);
    for (size_t b = 0; b < images; b++) {
        const ls_real *x = terms + ((first + b) * shape->channels + channel) * h * w;
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                size_t n = 0;
                for (size_t r = i * h / rows; r < (i + 1) * h / rows; r++)
                    for (size_t c = j * w / columns; c < (j + 1) * w / columns; c++)
                        pixel[n++] = x[r * w + c];
                granule[i * columns + j] = n ? reference_tree(pixel, n) : (ls_real)-0.0;
            }
        image[b] = reference_pixels(granule, columns, 0, 0, rows, columns, 0);
    }
    free(granule);
    free(pixel);
    return reference_tree(image, images);
}

/* ---- convolution ---- */

static inline ls_conv2d naive_conv(const naive_net *f, size_t l)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, is->from), *out = &f->shapes.layer[l];
    const ls_window window = {in->height,   in->width,      is->kernel_h,   is->kernel_w,
                              is->stride_h, is->stride_w,   is->dilation_h, is->dilation_w,
                              is->pad_top,  is->pad_bottom, is->pad_left,   is->pad_right};
    return (ls_conv2d){window,
                       is->groups,
                       in->channels,
                       out->channels,
                       in->axis.granules / is->groups,
                       out->axis.granules / is->groups,
                       {f->net->row_granules, f->net->column_granules}};
}

static inline ls_image_layout naive_layout(const ls_net_shape *shape)
{
    return (ls_image_layout){{0, 0, shape->height, shape->width}, ls_net_shape_elements(shape)};
}

static inline void naive_conv_backward(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, is->from), *out = &f->shapes.layer[l];
    const ls_conv2d conv = naive_conv(f, l);
    const ls_image_layout x_layout = naive_layout(in), y_layout = naive_layout(out);
    const size_t rows = f->net->row_granules, columns = f->net->column_granules;
    const size_t leaves = rows * columns, depth = ls_conv2d_depth(&conv), n = out->channels * depth;
    const ls_real *x = naive_output(f, is->from);
    ls_real *leaf = naive_room(f->B * leaves * n), *granule = naive_room(leaves), image[64];
    for (size_t b = 0; b < f->B; b++)
        for (size_t g = 0; g < leaves; g++) {
            const size_t i = g / columns, j = g % columns, h = out->height, w = out->width;
            const size_t top = i * h / rows, left = j * w / columns;
            const ls_rectangle at = {top, left, (i + 1) * h / rows - top,
                                     (j + 1) * w / columns - left};
            ls_conv2d_naive_weight_leaf(&conv, leaf + (b * leaves + g) * n, depth,
                                        dy + b * y_layout.stride, y_layout, at,
                                        x + b * x_layout.stride, x_layout);
        }
    for (size_t e = 0; e < n; e++) {
        for (size_t b = 0; b < f->B; b++) {
            for (size_t g = 0; g < leaves; g++) granule[g] = leaf[(b * leaves + g) * n + e];
            image[b] = reference_pixels(granule, columns, 0, 0, rows, columns, 0);
        }
        f->dweight[l][e] = reference_tree(image, f->B);
    }
    for (size_t c = 0; c < out->channels; c++)
        f->dbias[l][c] = naive_pixels(f, dy, out, c, 0, f->B);
    ls_conv2d_naive_backward(&conv, f->B, f->dx[l], x_layout, x_layout.held, dy, y_layout,
                             naive_value(f, LS_CONV_WEIGHT, l), depth);
    free(leaf);
    free(granule);
}

/* ---- pooling: one window, or every window that reads a pixel ---- */

/* Whether output (r, c) reads input (i, j) by some place of its window. */
static inline bool naive_reads(const ls_net_layer *is, size_t r, size_t c, size_t i, size_t j)
{
    const long row = (long)(r * is->stride_h) - (long)is->pad_top;
    const long column = (long)(c * is->stride_w) - (long)is->pad_left;
    return (long)i >= row && (long)i < row + (long)is->kernel_h && (long)j >= column &&
           (long)j < column + (long)is->kernel_w;
}

/* The pixels of the image in a window, by (row, column). */
static inline size_t naive_window(const ls_net_layer *is, const ls_net_shape *in, size_t r,
                                  size_t c, size_t *places)
{
    size_t n = 0;
    for (size_t i = 0; i < in->height; i++)
        for (size_t j = 0; j < in->width; j++)
            if (naive_reads(is, r, c, i, j)) places[n++] = i * in->width + j;
    return n;
}

/* dy NULL: forward, y from x. Else backward, dx from dy. */
static inline void naive_pool(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, is->from), *out = &f->shapes.layer[l];
    const size_t area = in->height * in->width, planes = f->B * in->channels;
    size_t *places = malloc(area * sizeof *places);
    bool *begun = calloc(area * planes, sizeof *begun);
    ls_real *dx = f->dx[l];
    for (size_t i = 0; dy && i < area * planes; i++) dx[i] = 0;
    for (size_t p = 0; p < planes; p++)
        for (size_t o = 0; o < out->height * out->width; o++) {
            const ls_real *x = naive_output(f, is->from) + p * area;
            const size_t at = p * out->height * out->width + o;
            const size_t n = naive_window(is, in, o / out->width, o % out->width, places);
            const ls_real count = (ls_real)(is->count_pad ? is->kernel_h * is->kernel_w : n);
            size_t most = places[0];
            ls_real sum = x[places[0]];
            for (size_t k = 1; k < n; k++) {
                if (x[places[k]] > x[most]) most = places[k];
                sum = sum + x[places[k]];
            }
            if (!dy) f->y[l][at] = is->kind == LS_NET_MAX_POOL ? x[most] : sum / count;
            for (size_t k = 0; dy && k < n; k++) {
                const size_t to = p * area + places[k];
                const bool max = is->kind == LS_NET_MAX_POOL;
                if (max && places[k] != most) continue;
                const ls_real part = max ? dy[at] : dy[at] / count;
                dx[to] = begun[to] ? dx[to] + part : part;
                begun[to] = true;
            }
        }
    free(places);
    free(begun);
}

static inline void naive_global_pool(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, f->net->layers[l].from);
    const size_t area = in->height * in->width, C = in->channels;
    for (size_t b = 0; b < f->B; b++)
        for (size_t c = 0; c < C; c++) {
            if (!dy)
                f->y[l][b * C + c] =
                    naive_pixels(f, naive_output(f, f->net->layers[l].from), in, c, b, 1) /
                    (ls_real)area;
            for (size_t p = 0; dy && p < area; p++)
                f->dx[l][(b * C + c) * area + p] = dy[b * C + c] / (ls_real)area;
        }
}

/* ---- norms ---- */

static inline void naive_batch_norm(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, is->from);
    const size_t area = in->height * in->width, C = in->channels, size = f->B * C * area;
    const ls_real N = (ls_real)(f->B * area), *x = naive_output(f, is->from);
    const ls_real *scale = naive_value(f, LS_BATCH_NORM_SCALE, l);
    const ls_real *shift = naive_value(f, LS_BATCH_NORM_SHIFT, l);
    ls_real *terms = naive_room(size), *mean = f->mean[l], *rstd = f->rstd[l];
    const bool training = f->batch->training;
    for (size_t c = 0; !dy && c < C; c++) {
        mean[c] = training ? naive_pixels(f, x, in, c, 0, f->B) / N
                           : naive_value(f, LS_BATCH_NORM_MEAN, l)[c];
        for (size_t i = 0; i < size; i++)
            if (i / area % C == c) terms[i] = (x[i] - mean[c]) * (x[i] - mean[c]);
        f->squares[l][c] = naive_pixels(f, terms, in, c, 0, f->B);
        rstd[c] = ls_rsqrt(
            (training ? f->squares[l][c] / N : naive_value(f, LS_BATCH_NORM_VARIANCE, l)[c]) +
            (ls_real)is->eps);
    }
    for (size_t i = 0; !dy && i < size; i++) {
        const size_t c = i / area % C;
        f->y[l][i] = ((x[i] - mean[c]) * rstd[c]) * scale[c] + shift[c];
    }
    for (size_t i = 0; dy && i < size; i++) {
        const size_t c = i / area % C;
        terms[i] = dy[i] * ((x[i] - mean[c]) * rstd[c]);
    }
    for (size_t c = 0; dy && c < C; c++) {
        f->dweight[l][c] = naive_pixels(f, terms, in, c, 0, f->B);
        f->dbias[l][c] = naive_pixels(f, dy, in, c, 0, f->B);
    }
    for (size_t i = 0; dy && i < size; i++) {
        const size_t c = i / area % C;
        const ls_real xhat = (x[i] - mean[c]) * rstd[c];
        f->dx[l][i] = training ? (scale[c] * rstd[c]) *
                                     ((dy[i] - f->dbias[l][c] / N) - xhat * (f->dweight[l][c] / N))
                               : (scale[c] * rstd[c]) * dy[i];
    }
    free(terms);
}

/* d of channel c: k + alpha (sum of x^2 over the window), channels `area` apart. */
static inline ls_real naive_d(const ls_net_layer *is, const ls_real *x, size_t c, size_t C,
                              size_t area)
{
    ls_real sum = 0;
    bool begun = false;
    for (size_t i = 0; i < C; i++) {
        if (i + is->span / 2 < c || i > c + is->span / 2) continue;
        sum = begun ? sum + x[i * area] * x[i * area] : x[i * area] * x[i * area];
        begun = true;
    }
    return (ls_real)is->k + (ls_real)is->alpha * sum;
}

static inline ls_real naive_power(const ls_net_layer *is, ls_real d)
{
    return (ls_real)ls_exp_f64(-(is->beta * ls_log_f64((double)d)));
}

static inline void naive_response_norm(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_layer *is = &f->net->layers[l];
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, is->from);
    const size_t area = in->height * in->width, C = in->channels;
    const ls_real *all = naive_output(f, is->from);
    for (size_t i = 0; i < f->B * C * area; i++) {
        const size_t c = i / area % C, pixel = i / (C * area) * C * area + i % area;
        const ls_real *x = all + pixel;
        const ls_real power = naive_power(is, naive_d(is, x, c, C, area));
        if (!dy) {
            f->y[l][i] = all[i] * power;
            continue;
        }
        ls_real sum = 0;
        bool begun = false;
        for (size_t o = 0; o < C; o++) {
            if (o + is->span / 2 < c || o > c + is->span / 2) continue;
            const ls_real d = naive_d(is, x, o, C, area);
            const ls_real part = ((dy[pixel + o * area] * x[o * area]) * naive_power(is, d)) / d;
            sum = begun ? sum + part : part;
            begun = true;
        }
        f->dx[l][i] = dy[i] * power - ((ls_real)(2 * is->alpha * is->beta) * all[i]) * sum;
    }
}

/* ---- dense ---- */

static inline void naive_dense(const naive_net *f, size_t l, const ls_real *dy)
{
    const ls_net_shape *in = ls_net_shape_at(&f->shapes, f->net->layers[l].from);
    const ls_axis out = f->shapes.layer[l].axis;
    const ls_axis read = {in->axis.granules, in->axis.granule * in->height * in->width};
    const ls_axis images = {f->B, 1};
    const size_t I = ls_axis_extent(read), O = ls_axis_extent(out);
    const ls_real *x = naive_output(f, f->net->layers[l].from);
    const ls_real *W = naive_value(f, LS_DENSE_WEIGHT, l), *bias = naive_value(f, LS_DENSE_BIAS, l);
    for (size_t b = 0; b < f->B; b++)
        for (size_t o = 0; !dy && o < O; o++) {
            f->y[l][b * O + o] = naive_contract(read, x + b * I, 1, W + o, O);
            if (bias) f->y[l][b * O + o] += bias[o];
        }
    for (size_t o = 0; dy && o < O; o++) {
        ls_real column[64];
        for (size_t b = 0; b < f->B; b++) column[b] = dy[b * O + o];
        f->dbias[l][o] = reference_tree(column, f->B);
        for (size_t i = 0; i < I; i++)
            f->dweight[l][i * O + o] = naive_contract(images, x + i, I, dy + o, O);
    }
    for (size_t b = 0; b < f->B; b++)
        for (size_t i = 0; dy && i < I; i++)
            f->dx[l][b * I + i] = naive_contract(out, dy + b * O, 1, W + i * O, 1);
}

#endif
