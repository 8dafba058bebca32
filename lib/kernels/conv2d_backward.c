/* conv2d_backward.c - the gradient of a convolution's input, by classes of pixels.
 *
 * Differentiates y[co][p] = sum of weight[co][ci][i][j] x[ci][q] by x: pixel q collects weight * dy
 * from every (co, i, j) whose output exists. Modulo the strides the pixels fall into classes, each
 * reached by some places (i, j) of the kernel (im2col.h) and no two by the same. A class is
 * a job of its own: nothing is multiplied for outputs that a stride steps over. Their terms are
 * missing from the leaves, which stay where they are. */
#include <stdlib.h>

#include "kernels/conv2d_job.h"
#include "kernels/conv2d_scratch.h"
#include "kernels/pixel_run.h"
#include "base/allocate.h"

/* Where a place of the kernel goes in the turned weight: element (co, place) of row ci of its
 * class's matrix is start + (ci * out + co) * places. */
typedef struct turned_place {
    size_t start, places;
} turned_place;

static ls_im2col_map class_of(const ls_conv2d *conv, size_t row_class, size_t column_class)
{
    return ls_im2col_map_of_inputs(&conv->window, ls_window_inputs(&conv->window), row_class,
                                   column_class);
}

/* The classes' matrices follow each other. */
static void turn_places(const ls_conv2d *conv, turned_place *place)
{
    const size_t rows = conv->in_channels * (conv->out_channels / conv->groups);
    size_t start = 0;
    for (size_t r = 0; r < conv->window.stride_h; r++)
        for (size_t c = 0; c < conv->window.stride_w; c++) {
            const ls_im2col_map m = class_of(conv, r, c);
            const size_t places = m.rows.places * m.columns.places;
            for (size_t i = 0; i < places; i++) {
                const size_t row = m.rows.place + i / m.columns.places * m.rows.place_apart;
                const size_t column =
                    m.columns.place + i % m.columns.places * m.columns.place_apart;
                place[row * conv->window.kernel_w + column] = (turned_place){start + i, places};
            }
            start += rows * places;
        }
}

/* For each group and class turned[ci][(co, i, j)] = weight[co][(ci, i, j)]. */
static void turn(const ls_conv2d *conv, const turned_place *place, ls_real *turned,
                 const ls_real *weight, size_t ld_weight)
{
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w, block = 16;
    const bool one_class = conv->window.stride_h == 1 && conv->window.stride_w == 1;
    for (size_t first = 0; first < conv->in_channels; first += block) /* few rows at a time */
        for (size_t co = 0; co < out; co++)
            for (size_t c = first; c < first + block && c < conv->in_channels; c++) {
                const ls_real *from = weight + (c / in * out + co) * ld_weight + c % in * kernel;
                const size_t at = c * out + co;
                if (one_class)
                    ls_copy_pixel_run(turned + at * kernel, from, kernel);
                else
                    for (size_t k = 0; k < kernel; k++)
                        turned[place[k].start + at * place[k].places] = from[k];
            }
}

/* How many of the first n terms (channel, i, j) have places of the class. */
static size_t terms_among(const ls_window *w, const ls_im2col_map *m, size_t n)
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

/* The leaves of the axis k with the terms of the class only. A leaf may have none. */
static size_t leaves_of(ls_leaf_step *leaves, const ls_window *w, const ls_im2col_map *m, ls_axis k)
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

/* Whether each class has a place that reaches it. */
static bool all_reached(const ls_conv2d *conv)
{
    bool all = true;
    for (size_t r = 0; r < conv->window.stride_h; r++) all &= class_of(conv, r, 0).rows.places > 0;
    for (size_t c = 0; c < conv->window.stride_w; c++)
        all &= class_of(conv, 0, c).columns.places > 0;
    return all;
}

/* Pixels that nothing reaches. */
static void zero_targets(const ls_conv2d_job *j, size_t images, ls_rectangle targets)
{
    const size_t channels = j->groups * ls_axis_extent(j->m);
    const size_t plane = ls_rectangle_count(j->target_layout.held);
    for (size_t n = 0; n < images; n++)
        for (size_t ch = 0; ch < channels; ch++)
            for (size_t r = 0; r < targets.height; r++)
                ls_zero_pixel_run(j->target + n * j->target_layout.stride + ch * plane +
                                      ls_image_offset(j->target_layout, targets) +
                                      r * j->target_layout.held.width,
                                  targets.width);
}

/* All classes in turn: their matrices, their leaves. */
static ls_status each_class(ls_conv2d_job *j, const ls_conv2d *conv, size_t images,
                            ls_rectangle inputs, const ls_real *turned, ls_leaf_step *leaves)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    for (j->row_class = 0; j->row_class < conv->window.stride_h; j->row_class++)
        for (j->column_class = 0; j->column_class < conv->window.stride_w; j->column_class++) {
            const ls_im2col_map m = class_of(conv, j->row_class, j->column_class);
            const size_t places = m.rows.places * m.columns.places;
            if (places == 0) continue;
            if (kernel > 1) {
                j->a = turned, j->lda = out * places, j->group_a = in * out * places;
                turned += conv->in_channels * out * places;
            }
            j->leaves = NULL;
            if (places < kernel) {
                j->leaves = leaves;
                j->n_leaves = leaves_of(leaves, &conv->window, &m, j->k);
            }
            LS_TRY(ls_conv2d_job_run(j, images, inputs));
        }
exit:
    return status;
}

ls_status ls_conv2d_backward(ls_engine engine, const ls_conv2d *conv, size_t images, ls_real *dx,
                             ls_image_layout dx_layout, ls_rectangle inputs, const ls_real *dy,
                             ls_image_layout dy_layout, const ls_real *weight, size_t ld_weight,
                             ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const size_t granule = out / conv->out_granules * kernel;
    const size_t n_leaves = conv->out_granules * ((granule + LS_LEAF - 1) / LS_LEAF);
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    ls_real *turned = scratch + parts.columns + parts.product;
    ls_leaf_step *leaves = NULL;
    turned_place *place = NULL;
    ls_conv2d_job j = {.engine = engine,
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
    if (images == 0 || ls_rectangle_is_empty(inputs)) goto exit;
    LS_TRY(ls_conv2d_job_check(&j, inputs));
    LS_ROOM(leaves, n_leaves);
    LS_NEW(place, kernel);
    if (kernel == 1) { /* the weight transposed is the turned one */
        j.a = weight, j.ta = LS_TRANS, j.lda = ld_weight, j.group_a = out * ld_weight;
    } else {
        turn_places(conv, place);
        turn(conv, place, turned, weight, ld_weight);
    }
    if (!all_reached(conv)) zero_targets(&j, images, inputs);
    LS_TRY(each_class(&j, conv, images, inputs, turned, leaves));
exit:
    free(leaves);
    free(place);
    return status;
}
