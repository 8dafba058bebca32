/* conv2d.c - two-dimensional convolution by matrix products.
 *
 * y and dx are one job: fill a rectangle of target pixels with products of the weights and what
 * each target meets in the source image.
 *
 *                     target   source   matrix A                  rows of B
 *     forward         y        x        weight  [co][(ci, i, j)]  (ci, i, j)
 *     backward        dx       dy       turned  [ci][(co, i, j)]  (co, i, j)
 *
 * Backward is such a job for each class of inputs modulo the strides, whose (i, j) are the places
 * that reach the class (im2col.h): nothing is multiplied for outputs that a stride steps over.
 * Their terms are missing from the leaves, which stay where they are.
 *
 * Strips of targets, so that B stays in a cache. A target's bits do not depend on its strip: any
 * strips do for the portable engine, granules of pixels for OpenBLAS. */
#include "lockstep/kernels/conv2d.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/conv2d_scratch.h"
#include "kernels/im2col.h"
#include "numerics/gemm_leaves.h"

typedef struct job {
    ls_engine engine;
    bool backward;
    size_t row_class, column_class; /* of the inputs, backward */
    const ls_window *window;
    ls_pixel_grid grid;
    size_t groups;
    ls_axis m;                  /* target channels of a group                           */
    ls_axis k;                  /* source channels of a group, times places of a kernel */
    const ls_leaf_step *leaves; /* of the terms that are there; NULL: of k, all are     */
    size_t n_leaves;
    size_t source_channels; /* of a group                  */
    const ls_real *a;       /* op(A): m x k                */
    ls_trans ta;
    size_t lda, group_a; /* elements from group to group   */
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

static ls_meetings meetings(const job *j, ls_rectangle pixels)
{
    return j->backward ? ls_meetings_of_inputs(j->window, pixels, j->row_class, j->column_class)
                       : ls_meetings_of_outputs(j->window, pixels);
}

/* Whether targets are all pixels of a rectangle, and those of a channel follow each other in
 * memory. */
static bool one_run(const ls_meetings *m, ls_image_layout layout)
{
    return m->rows.target_step == 1 && m->columns.target_step == 1 &&
           (m->rows.targets == 1 || m->columns.targets == layout.held.width);
}

static bool all_inside(const ls_meeting_axis *a)
{
    return a->places == 1 && a->step == 1 && a->first >= 0 &&
           (size_t)a->first + a->targets <= a->sources;
}

/* Whether each target meets one source, none is beyond the border, and those of a channel follow
 * each other in memory. */
static bool as_it_lies(const ls_meetings *m, ls_image_layout layout)
{
    return all_inside(&m->rows) && all_inside(&m->columns) &&
           (m->rows.targets == 1 || m->columns.targets == layout.held.width);
}

static size_t target_offset(const ls_meetings *m, ls_image_layout layout)
{
    return (m->rows.target - layout.held.top) * layout.held.width +
           (m->columns.target - layout.held.left);
}

/* From a finished product to the target. */
static void deliver(const job *j, const strip *s, const ls_meetings *m, size_t group)
{
    const size_t channels = ls_axis_extent(j->m), width = m->columns.targets;
    const size_t area = m->rows.targets * width, all = s->images * area;
    const size_t plane = ls_rectangle_count(j->target_layout.held);
    const size_t line = m->rows.target_step * j->target_layout.held.width;
    const size_t step = m->columns.target_step;
    for (size_t n = 0; n < s->images; n++)
        for (size_t ch = 0; ch < channels; ch++) {
            const ls_real *from = j->product + ch * all + n * area;
            ls_real *to = j->target + (s->image + n) * j->target_layout.stride +
                          (group * channels + ch) * plane + target_offset(m, j->target_layout);
            for (size_t r = 0; r < m->rows.targets; r++, from += width, to += line) {
                if (step == 1)
                    memcpy(to, from, width * sizeof *to);
                else
                    for (size_t c = 0; c < width; c++) to[c * step] = from[c];
            }
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

static ls_status multiply(const job *j, size_t group, size_t n, const ls_real *b, size_t ldb,
                          ls_real *c, size_t ldc)
{
    const ls_real *a = j->a + group * j->group_a;
    if (j->leaves != NULL)
        return ls_gemm_leaves(j->engine, j->ta, LS_NO_TRANS, j->m, ls_axis_whole(n), j->leaves,
                              j->n_leaves, a, j->lda, b, ldb, c, ldc);
    return ls_gemm(j->engine, j->ta, LS_NO_TRANS, j->m, ls_axis_whole(n), j->k, a, j->lda, b, ldb,
                   c, ldc, false);
}

static ls_status do_strip(const job *j, strip s)
{
    ls_status status = LS_OK;
    const ls_meetings m = meetings(j, s.pixels);
    const size_t area = m.rows.targets * m.columns.targets, n = s.images * area;
    const size_t from_plane = ls_rectangle_count(j->source_layout.held);
    const size_t to_plane = ls_rectangle_count(j->target_layout.held);
    const size_t channels = ls_axis_extent(j->m);
    const bool in_place = s.images == 1 && as_it_lies(&m, j->source_layout);
    const bool direct = s.images == 1 && one_run(&m, j->target_layout);
    if (n == 0) goto exit;

    for (size_t g = 0; g < j->groups; g++) {
        const ls_real *source =
            j->source + s.image * j->source_layout.stride + g * j->source_channels * from_plane;
        const ls_real *b = j->columns;
        size_t ldb = n;
        if (in_place) {
            const ls_rectangle first = {(size_t)m.rows.first, (size_t)m.columns.first, 1, 1};
            b = source + ls_image_offset(j->source_layout, first);
            ldb = from_plane;
        } else {
            for (size_t i = 0; i < s.images; i++)
                ls_im2col(j->columns + i * area, n, &m, source + i * j->source_layout.stride,
                          j->source_layout.held, j->source_channels);
        }
        ls_real *c = j->product;
        size_t ldc = n;
        if (direct) {
            c = j->target + s.image * j->target_layout.stride + g * channels * to_plane +
                target_offset(&m, j->target_layout);
            ldc = to_plane;
        }
        LS_TRY(multiply(j, g, n, b, ldb, c, ldc));
        if (!direct) deliver(j, &s, &m, g);
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
    const size_t down = j->backward ? j->window->stride_h : 1;
    const size_t across = j->backward ? j->window->stride_w : 1;
    const size_t height = (targets.height + down - 1) / down; /* of a class, at most */
    const size_t width = (targets.width + across - 1) / across;
    size_t together = LS_CONV2D_STRIP / width / height, rows = height;
    if (together > images) together = images;
    if (together < 1) {
        together = 1;
        rows = LS_CONV2D_STRIP / width;
        if (rows < 1) rows = 1;
        /* as equal as can be */
        size_t parts = (height + rows - 1) / rows;
        rows = (height + parts - 1) / parts;
    }
    rows *= down;
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
    const ls_rectangle whole =
        j->backward ? ls_window_inputs(j->window) : ls_window_outputs(j->window);
    const ls_rectangle needed =
        j->backward ? ls_window_read_by(j->window, targets) : ls_window_reads(j->window, targets);
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

/* For each group turned[ci][(co, i, j)] = weight[co][(ci, i, j)] for the places (i, j) of a class.
 */
static void turn(const ls_conv2d *conv, const ls_meetings *m, ls_real *turned,
                 const ls_real *weight, size_t ld_weight)
{
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const size_t places = m->rows.places * m->columns.places, block = 16;
    for (size_t g = 0; g < conv->groups;
         g++, weight += out * ld_weight, turned += in * out * places)
        for (size_t first = 0; first < in; first += block) /* the writes of a few rows at a time */
            for (size_t co = 0; co < out; co++)
                for (size_t ci = first; ci < first + block && ci < in; ci++) {
                    const ls_real *from = weight + co * ld_weight + ci * kernel;
                    ls_real *to = turned + (ci * out + co) * places;
                    for (size_t i = 0; i < m->rows.places; i++)
                        for (size_t j = 0; j < m->columns.places; j++)
                            *to++ = from[(m->rows.place + i * m->rows.place_apart) *
                                             conv->window.kernel_w +
                                         m->columns.place + j * m->columns.place_apart];
                }
}

/* How many of the first n terms (channel, i, j) have places of the class. */
static size_t terms_among(const ls_window *w, const ls_meetings *m, size_t n)
{
    const size_t kernel = w->kernel_h * w->kernel_w;
    size_t count = n / kernel * m->rows.places * m->columns.places;
    for (size_t i = 0; i < m->rows.places; i++)
        for (size_t j = 0; j < m->columns.places; j++) {
            const size_t row = m->rows.place + i * m->rows.place_apart;
            const size_t column = m->columns.place + j * m->columns.place_apart;
            if (row * w->kernel_w + column < n % kernel) count++;
        }
    return count;
}

/* The leaves of the axis k with the terms of the class alone. A leaf may have none. */
static size_t leaves_of(ls_leaf_step *leaves, const ls_window *w, const ls_meetings *m, ls_axis k)
{
    size_t n = 0, from = 0;
    for (ls_leaf_walk walk = ls_leaf_walk_start(k); ls_leaf_walk_more(&walk); n++) {
        leaves[n] = ls_leaf_walk_next(&walk);
        const size_t to = from + leaves[n].length;
        leaves[n].length = terms_among(w, m, to) - terms_among(w, m, from);
        from = to;
    }
    return n;
}

static ls_status backward_class(job *j, const ls_conv2d *conv, size_t images, ls_rectangle inputs,
                                const ls_real *weight, size_t ld_weight, ls_real *turned,
                                ls_leaf_step *leaves)
{
    const ls_meetings m = meetings(j, inputs);
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const size_t places = m.rows.places * m.columns.places;
    if (m.rows.targets == 0 || m.columns.targets == 0) return LS_OK;
    if (kernel == 1) { /* the weight transposed is the turned one */
        j->a = weight, j->ta = LS_TRANS, j->lda = ld_weight, j->group_a = out * ld_weight;
    } else {
        j->a = turned, j->ta = LS_NO_TRANS, j->lda = out * places, j->group_a = in * out * places;
        turn(conv, &m, turned, weight, ld_weight);
    }
    j->leaves = NULL;
    if (places < kernel) {
        j->leaves = leaves;
        j->n_leaves = leaves_of(leaves, &conv->window, &m, j->k);
    }
    return run(j, images, inputs);
}

/* Differentiates y[co][p] = sum of weight[co][ci][i][j] x[ci][q] by x: pixel q collects weight * dy
 * from every (co, i, j) whose output exists. */
ls_status ls_conv2d_backward(ls_engine engine, const ls_conv2d *conv, size_t images, ls_real *dx,
                             ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                             ls_image_layout dy_layout, const ls_real *weight, size_t ld_weight,
                             ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t granule = out / conv->out_granules * conv->window.kernel_h * conv->window.kernel_w;
    const size_t n_leaves = conv->out_granules * ((granule + LS_LEAF - 1) / LS_LEAF);
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    ls_leaf_step *leaves = NULL;
    job j = {.engine = engine,
             .backward = true,
             .window = &conv->window,
             .grid = conv->grid,
             .groups = conv->groups,
             .m = ls_axis_of(conv->in_granules, in / conv->in_granules),
             .k = ls_axis_of(conv->out_granules, granule),
             .source_channels = out,
             .target = dx,
             .source = dy,
             .target_layout = dx_layout,
             .source_layout = dy_layout,
             .columns = scratch,
             .product = scratch + parts.columns};
    leaves = malloc(n_leaves * sizeof *leaves);
    if (leaves == NULL)
        LS_FAIL(LS_ERR_MEMORY, "conv2d: no memory for a list of %zu leaves", n_leaves);
    for (j.row_class = 0; j.row_class < conv->window.stride_h; j.row_class++)
        for (j.column_class = 0; j.column_class < conv->window.stride_w; j.column_class++)
            LS_TRY(backward_class(&j, conv, images, inputs, weight, ld_weight,
                                  scratch + parts.columns + parts.product, leaves));
exit:
    free(leaves);
    return status;
}
