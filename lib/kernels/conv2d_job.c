/* conv2d_job.c - a rectangle of targets, strip by strip: im2col, product, bias.
 *
 * Strips of targets, so that B stays in a cache. A target's bits do not depend on its strip: any
 * strips do for the portable engine, granules of pixels for OpenBLAS. */
#include "kernels/conv2d_job.h"

#include "kernels/conv2d_scratch.h"
#include "kernels/pixel_run.h"

/* A rectangle of targets in a run of images. */
typedef struct strip {
    size_t image, images;
    ls_rectangle pixels;
} strip;

static ls_im2col_map meetings(const ls_conv2d_job *j, ls_rectangle pixels)
{
    return j->backward ? ls_im2col_map_of_inputs(j->window, pixels, j->row_class, j->column_class)
                       : ls_im2col_map_of_outputs(j->window, pixels);
}

/* Whether targets are all pixels of a rectangle, and those of a channel follow each other in
 * memory. */
static bool one_run(const ls_im2col_map *m, ls_image_layout layout)
{
    return m->rows.target_step == 1 && m->columns.target_step == 1 &&
           (m->rows.targets == 1 || m->columns.targets == layout.held.width);
}

static bool all_inside(const ls_im2col_axis *a)
{
    return a->places == 1 && a->step == 1 && a->first >= 0 &&
           (size_t)a->first + a->targets <= a->sources;
}

/* Whether each target meets one source, none is beyond the border, and those of a channel follow
 * each other in memory. */
static bool as_it_lies(const ls_im2col_map *m, ls_image_layout layout)
{
    return all_inside(&m->rows) && all_inside(&m->columns) &&
           (m->rows.targets == 1 || m->columns.targets == layout.held.width);
}

static size_t target_offset(const ls_im2col_map *m, ls_image_layout layout)
{
    return (m->rows.target - layout.held.top) * layout.held.width +
           (m->columns.target - layout.held.left);
}

/* From a finished product to the target. */
static void deliver(const ls_conv2d_job *j, const strip *s, const ls_im2col_map *m, size_t group)
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
                    ls_copy_pixel_run(to, from, width);
                else
                    for (size_t c = 0; c < width; c++) to[c * step] = from[c];
            }
        }
}

static void add_bias(const ls_conv2d_job *j, const strip *s, size_t group)
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

static ls_status multiply(const ls_conv2d_job *j, size_t group, size_t n, const ls_real *b,
                          size_t ldb, ls_real *c, size_t ldc)
{
    const ls_real *a = j->a + group * j->group_a;
    if (j->leaves != NULL)
        return ls_gemm_leaves(j->engine, j->ta, LS_NO_TRANS, j->m, ls_axis_whole(n), j->leaves,
                              j->n_leaves, a, j->lda, b, ldb, c, ldc);
    return ls_gemm(j->engine, j->ta, LS_NO_TRANS, j->m, ls_axis_whole(n), j->k, a, j->lda, b, ldb,
                   c, ldc, false);
}

static ls_status do_strip(const ls_conv2d_job *j, strip s)
{
    ls_status status = LS_OK;
    const ls_im2col_map m = meetings(j, s.pixels);
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
static ls_status by_granules(const ls_conv2d_job *j, size_t images, ls_rectangle targets, size_t h,
                             size_t w)
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
static ls_status by_strips(const ls_conv2d_job *j, size_t images, ls_rectangle targets)
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

ls_status ls_conv2d_job_check(const ls_conv2d_job *j, ls_rectangle targets)
{
    const ls_rectangle whole =
        j->backward ? ls_window_inputs(j->window) : ls_window_outputs(j->window);
    const ls_rectangle needed =
        j->backward ? ls_window_read_by(j->window, targets) : ls_window_reads(j->window, targets);
    if (!ls_rectangle_inside(targets, whole) ||
        !ls_rectangle_inside(targets, j->target_layout.held) ||
        !ls_rectangle_inside(needed, j->source_layout.held))
        return ls_error_record(LS_ERR_INTERNAL, __FILE__, __LINE__,
                               "conv2d: a rectangle lies outside the image or outside what is held "
                               "of it");
    return LS_OK;
}

ls_status ls_conv2d_job_run(const ls_conv2d_job *j, size_t images, ls_rectangle targets)
{
    const ls_rectangle whole =
        j->backward ? ls_window_inputs(j->window) : ls_window_outputs(j->window);
    return j->engine == LS_ENGINE_OPENBLAS
               ? by_granules(j, images, targets, whole.height, whole.width)
               : by_strips(j, images, targets);
}
