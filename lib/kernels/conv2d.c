/* conv2d.c - two-dimensional convolution by matrix products.
 *
 * y and dx are one job: fill a rectangle of target pixels with products of the weights and what
 * each target meets in the source image.
 *
 *                     target   source   matrix A                  rows of B
 *     forward         y        x        weight  [co][(ci, i, j)]  (ci, i, j)
 *     backward        dx       dy       turned  [(co, i, j)][ci]  (co, i, j)
 *
 * Strips of targets, so that B stays in a cache. A target's bits do not depend on its strip: any
 * strips do for the portable engine, granules of pixels for OpenBLAS. */
#include "lockstep/kernels/conv2d.h"

#include <string.h>

#include "kernels/conv2d_scratch.h"
#include "kernels/im2col.h"

typedef struct job {
    ls_engine engine;
    ls_im2col_way way;
    const ls_window *window;
    ls_pixel_grid grid;
    size_t groups;
    ls_axis m;              /* target channels of a group                            */
    ls_axis k;              /* source channels of a group, times places of a kernel  */
    size_t source_channels; /* of a group                               */
    const ls_real *a;       /* op(A): m x k                             */
    ls_trans ta;
    size_t lda, group_a; /* elements from group to group                */
    ls_real *target;
    const ls_real *source, *bias;
    ls_image_layout target_layout, source_layout;
    ls_real *columns, *product; /* scratch */
} job;

/* A rectangle of targets in a run of images. */
typedef struct strip {
    size_t image, images;
    ls_rectangle pixels;
} strip;

/* Whether the pixels of a channel follow each other in memory. */
static bool contiguous(ls_image_layout layout, ls_rectangle pixels)
{
    return pixels.height == 1 || pixels.width == layout.held.width;
}

/* Whether a target meets the source pixel of its own place alone. */
static bool pointwise(const ls_window *w)
{
    return w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 && w->stride_w == 1 &&
           w->pad_top == 0 && w->pad_bottom == 0 && w->pad_left == 0 && w->pad_right == 0;
}

/* From a finished product to the target; + bias. */
static void deliver(const job *j, const strip *s, size_t group)
{
    const size_t channels = ls_axis_extent(j->m), width = s->pixels.width;
    const size_t area = ls_rectangle_count(s->pixels), all = s->images * area;
    const size_t plane = ls_rectangle_count(j->target_layout.held);
    for (size_t n = 0; n < s->images; n++)
        for (size_t ch = 0; ch < channels; ch++) {
            const ls_real *from = j->product + ch * all + n * area;
            ls_real *to = j->target + (s->image + n) * j->target_layout.stride +
                          (group * channels + ch) * plane +
                          ls_image_offset(j->target_layout, s->pixels);
            for (size_t r = 0; r < s->pixels.height; r++)
                memcpy(to + r * j->target_layout.held.width, from + r * width, width * sizeof *to);
        }
}

static void add_bias(const job *j, const strip *s, size_t group)
{
    const size_t channels = ls_axis_extent(j->m);
    const size_t plane = ls_rectangle_count(j->target_layout.held);
    for (size_t n = 0; n < s->images; n++)
        for (size_t ch = group * channels; ch < (group + 1) * channels; ch++) {
            ls_real *y = j->target + (s->image + n) * j->target_layout.stride + ch * plane +
                         ls_image_offset(j->target_layout, s->pixels);
            const ls_real bias = j->bias[ch];
            for (size_t r = 0; r < s->pixels.height; r++, y += j->target_layout.held.width)
                for (size_t c = 0; c < s->pixels.width; c++) y[c] = y[c] + bias;
        }
}

static ls_status do_strip(const job *j, strip s)
{
    ls_status status = LS_OK;
    const size_t area = ls_rectangle_count(s.pixels), n = s.images * area;
    const size_t from_plane = ls_rectangle_count(j->source_layout.held);
    const size_t to_plane = ls_rectangle_count(j->target_layout.held);
    const size_t channels = ls_axis_extent(j->m);
    const bool in_place =
        pointwise(j->window) && s.images == 1 && contiguous(j->source_layout, s.pixels);
    const bool direct = s.images == 1 && contiguous(j->target_layout, s.pixels);

    for (size_t g = 0; g < j->groups; g++) {
        const ls_real *source =
            j->source + s.image * j->source_layout.stride + g * j->source_channels * from_plane;
        const ls_real *b = j->columns;
        size_t ldb = n;
        if (in_place) {
            b = source + ls_image_offset(j->source_layout, s.pixels);
            ldb = from_plane;
        } else {
            for (size_t i = 0; i < s.images; i++)
                ls_im2col(j->columns + i * area, n, j->way, j->window, s.pixels,
                          source + i * j->source_layout.stride, j->source_layout.held,
                          j->source_channels);
        }
        ls_real *c = j->product;
        size_t ldc = n;
        if (direct) {
            c = j->target + s.image * j->target_layout.stride + g * channels * to_plane +
                ls_image_offset(j->target_layout, s.pixels);
            ldc = to_plane;
        }
        LS_TRY(ls_gemm(j->engine, j->ta, LS_NO_TRANS, j->m, ls_axis_whole(n), j->k,
                       j->a + g * j->group_a, j->lda, b, ldb, c, ldc, false));
        if (!direct) deliver(j, &s, g);
        if (j->bias != NULL) add_bias(j, &s, g);
    }
exit:
    return status;
}

/* One call per image and granule of pixels. */
static ls_status by_granules(const job *j, size_t images, ls_rectangle targets, size_t h, size_t w)
{
    ls_status status = LS_OK;
    for (size_t r = 0; r < j->grid.rows; r++)
        for (size_t c = 0; c < j->grid.columns; c++) {
            ls_rectangle granule = ls_pixel_granule(j->grid, h, w, r, c);
            if (ls_rectangle_is_empty(ls_rectangle_common(granule, targets))) continue;
            if (!ls_rectangle_inside(granule, targets))
                LS_FAIL(LS_ERR_INTERNAL,
                        "conv2d: with openblas a rectangle of pixels is made of whole granules");
            for (size_t n = 0; n < images; n++) LS_TRY(do_strip(j, (strip){n, 1, granule}));
        }
exit:
    return status;
}

/* Several images a strip, or several rows, or one row. */
static ls_status by_strips(const job *j, size_t images, ls_rectangle targets)
{
    ls_status status = LS_OK;
    const size_t area = ls_rectangle_count(targets);
    size_t together = LS_CONV2D_STRIP / area, rows = targets.height;
    if (together > images) together = images;
    if (together < 1) {
        together = 1;
        rows = LS_CONV2D_STRIP / targets.width;
        if (rows < 1) rows = 1;
        /* as equal as can be */
        size_t parts = (targets.height + rows - 1) / rows;
        rows = (targets.height + parts - 1) / parts;
    }
    for (size_t n = 0; n < images; n += together)
        for (size_t r = 0; r < targets.height; r += rows) {
            strip s = {n, together < images - n ? together : images - n, targets};
            s.pixels.top += r;
            s.pixels.height = rows < targets.height - r ? rows : targets.height - r;
            LS_TRY(do_strip(j, s));
        }
exit:
    return status;
}

static ls_status run(const job *j, size_t images, ls_rectangle targets)
{
    const bool forward = j->way == LS_OUTPUTS_FROM_INPUTS;
    const ls_rectangle whole = forward ? ls_window_outputs(j->window) : ls_window_inputs(j->window);
    const ls_rectangle needed =
        forward ? ls_window_reads(j->window, targets) : ls_window_read_by(j->window, targets);
    if (images == 0 || ls_rectangle_is_empty(targets)) return LS_OK;
    if (!ls_rectangle_inside(targets, whole) ||
        !ls_rectangle_inside(targets, j->target_layout.held) ||
        !ls_rectangle_inside(needed, j->source_layout.held))
        return ls_error_record(LS_ERR_INTERNAL, __FILE__, __LINE__,
                               "conv2d: a rectangle lies outside the image or outside what is held "
                               "of it");
    return j->engine == LS_ENGINE_OPENBLAS
               ? by_granules(j, images, targets, whole.height, whole.width)
               : by_strips(j, images, targets);
}

ls_status ls_conv2d_forward(ls_engine engine, const ls_conv2d *conv, size_t images, ls_real *y,
                            ls_image_layout y_layout, ls_rectangle outputs, const ls_real *x,
                            ls_image_layout x_layout, const ls_real *weight, size_t ld_weight,
                            const ls_real *bias, ls_real *scratch)
{
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    const job j = {.engine = engine,
                   .way = LS_OUTPUTS_FROM_INPUTS,
                   .window = &conv->window,
                   .grid = conv->grid,
                   .groups = conv->groups,
                   .m = ls_axis_of(conv->out_granules, out / conv->out_granules),
                   .k = ls_axis_of(conv->in_granules, in / conv->in_granules * kernel),
                   .source_channels = in,
                   .a = weight,
                   .lda = ld_weight,
                   .group_a = out * ld_weight,
                   .target = y,
                   .source = x,
                   .bias = bias,
                   .target_layout = y_layout,
                   .source_layout = x_layout,
                   .columns = scratch,
                   .product = scratch + parts.columns};
    return run(&j, images, outputs);
}

/* turned[(co, i, j)][ci] = weight[co][(ci, i, j)] for each group. */
static void turn(const ls_conv2d *conv, ls_real *turned, const ls_real *weight, size_t ld_weight)
{
    const size_t in = conv->in_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    for (size_t co = 0; co < conv->out_channels; co++, weight += ld_weight)
        for (size_t k = 0; k < kernel; k++, turned += in)
            for (size_t ci = 0; ci < in; ci++) turned[ci] = weight[ci * kernel + k];
}

/* Differentiates y[co][p] = sum of weight[co][ci][i][j] x[ci][q] by x: pixel q collects weight * dy
 * from every (co, i, j) whose output exists. */
ls_status ls_conv2d_backward(ls_engine engine, const ls_conv2d *conv, size_t images, ls_real *dx,
                             ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                             ls_image_layout dy_layout, const ls_real *weight, size_t ld_weight,
                             ls_real *scratch)
{
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    ls_real *turned = scratch + parts.columns + parts.product;
    const bool pointwise_kernel = kernel == 1; /* the weight is its own turned one */
    const job j = {.engine = engine,
                   .way = LS_INPUTS_FROM_OUTPUTS,
                   .window = &conv->window,
                   .grid = conv->grid,
                   .groups = conv->groups,
                   .m = ls_axis_of(conv->in_granules, in / conv->in_granules),
                   .k = ls_axis_of(conv->out_granules, out / conv->out_granules * kernel),
                   .source_channels = out,
                   .a = pointwise_kernel ? weight : turned,
                   .ta = LS_TRANS,
                   .lda = pointwise_kernel ? ld_weight : in,
                   .group_a = pointwise_kernel ? out * ld_weight : in * out * kernel,
                   .target = dx,
                   .source = dy,
                   .target_layout = dx_layout,
                   .source_layout = dy_layout,
                   .columns = scratch,
                   .product = scratch + parts.columns};
    if (images > 0 && !ls_rectangle_is_empty(inputs) && !pointwise_kernel)
        turn(conv, turned, weight, ld_weight);
    return run(&j, images, inputs);
}
