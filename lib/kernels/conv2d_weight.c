/* conv2d_weight.c - the gradient of a convolution's weights: of one granule of pixels, or of a
 * whole node of the tree over them. */
#include <stdlib.h>

#include "base/allocate.h"
#include "kernels/conv2d_scratch.h"
#include "kernels/im2col.h"
#include "kernels/pixel_run.h"
#include "numerics/gemm_leaves.h"

/* to[ch * ld + p] = the pixels p of a rectangle, row by row. */
static void copy_pixels(ls_real *to, size_t ld, const ls_real *from, ls_image_layout layout,
                        ls_rectangle pixels, size_t channels)
{
    from += ls_image_offset(layout, pixels);
    for (size_t ch = 0; ch < channels; ch++, from += ls_rectangle_count(layout.held))
        for (size_t r = 0; r < pixels.height; r++)
            ls_copy_pixel_run(to + ch * ld + r * pixels.width, from + r * layout.held.width,
                              pixels.width);
}

static void nothing(const ls_conv2d *conv, ls_real *dweight, size_t ld_weight)
{
    for (size_t co = 0; co < conv->out_channels; co++)
        for (size_t k = 0; k < ls_conv2d_depth(conv); k++)
            dweight[co * ld_weight + k] = (ls_real)-0.0;
}

static bool is_held(const ls_conv2d *conv, ls_rectangle outputs, ls_image_layout dy_layout,
                    ls_image_layout x_layout)
{
    return ls_rectangle_inside(outputs, ls_window_outputs(&conv->window)) &&
           ls_rectangle_inside(outputs, dy_layout.held) &&
           ls_rectangle_inside(ls_window_reads(&conv->window, outputs), x_layout.held);
}

/* Differentiates y[co][p] = sum of weight[co][ci][i][j] x[ci][q] by the weight: x is met as in the
 * forward pass, and the pixels are what is summed over. */
ls_status ls_conv2d_weight_leaf(ls_engine engine, const ls_conv2d *conv, ls_real *dweight,
                                size_t ld_weight, const ls_real *dy, ls_image_layout dy_layout,
                                ls_rectangle outputs, const ls_real *x, ls_image_layout x_layout,
                                ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const size_t pixels = ls_rectangle_count(outputs), depth = in * kernel;
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, 1);
    ls_real *columns = scratch, *gradient = scratch + parts.columns;

    if (ls_rectangle_is_empty(outputs)) {
        nothing(conv, dweight, ld_weight);
        goto exit;
    }
    if (!is_held(conv, outputs, dy_layout, x_layout) || pixels * depth > parts.columns ||
        pixels * out > parts.product)
        LS_FAIL(LS_ERR_INTERNAL, "conv2d: a rectangle lies outside what is held, or is larger than "
                                 "a granule");
    const ls_im2col_map met = ls_im2col_map_of_outputs(&conv->window, outputs);
    for (size_t g = 0; g < conv->groups; g++) {
        copy_pixels(gradient, pixels, dy + g * out * ls_rectangle_count(dy_layout.held), dy_layout,
                    outputs, out);
        ls_im2col(columns, pixels, &met, x + g * in * ls_rectangle_count(x_layout.held),
                  x_layout.held, in);
        LS_TRY(ls_gemm(
            engine, LS_NO_TRANS, LS_TRANS, ls_axis_of(conv->out_granules, out / conv->out_granules),
            ls_axis_of(conv->in_granules, depth / conv->in_granules), ls_axis_whole(pixels),
            gradient, pixels, columns, pixels, dweight + g * out * ld_weight, ld_weight, false));
    }
exit:
    return status;
}

/* The leaves of rule 5 in all pieces, with the additions after each. An empty piece is -0 and is
 * left out together with the addition that would take it in. */
typedef struct leaf_list {
    ls_leaf_step *step;
    size_t n;
    unsigned char *filled; /* the stack: whether an entry has a leaf in it */
    size_t height;
} leaf_list;

static void add_piece(leaf_list *l, const ls_conv2d_piece *piece)
{
    const size_t pixels = ls_rectangle_count(piece->outputs);
    for (ls_leaf_walk walk = ls_leaf_walk_start(ls_axis_whole(pixels)); ls_leaf_walk_more(&walk);)
        l->step[l->n++] = ls_leaf_walk_next(&walk);
    l->filled[l->height++] = pixels > 0;
    for (size_t i = 0; i < piece->closes; i++) {
        const unsigned char upper = l->filled[--l->height], lower = l->filled[l->height - 1];
        if (upper && lower) l->step[l->n - 1].merges++;
        l->filled[l->height - 1] = upper || lower;
    }
}

ls_status ls_conv2d_weight_node(ls_engine engine, const ls_conv2d *conv, ls_real *dweight,
                                size_t ld_weight, const ls_conv2d_piece *pieces, size_t n_pieces,
                                const ls_real *dy, ls_image_layout dy_layout, const ls_real *x,
                                ls_image_layout x_layout, ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t depth = ls_conv2d_depth(conv);
    leaf_list l = {NULL, 0, NULL, 0};
    size_t pixels = 0, height = 0;

    for (size_t i = 0; i < n_pieces; i++) {
        if (!is_held(conv, pieces[i].outputs, dy_layout, x_layout))
            LS_FAIL(LS_ERR_INTERNAL, "conv2d: a rectangle lies outside what is held");
        if (pieces[i].closes > height)
            LS_FAIL(LS_ERR_INTERNAL, "conv2d: more additions than values");
        height += 1 - pieces[i].closes;
        pixels += ls_rectangle_count(pieces[i].outputs);
    }
    if (n_pieces > 0 && height != 1)
        LS_FAIL(LS_ERR_INTERNAL, "conv2d: the pieces are not one node: %zu values", height);
    if (pixels == 0) {
        nothing(conv, dweight, ld_weight);
        goto exit;
    }
    LS_ROOM(l.step, pixels);
    LS_ROOM(l.filled, n_pieces);
    for (size_t i = 0; i < n_pieces; i++) add_piece(&l, &pieces[i]);

    ls_real *columns = scratch, *gradient = scratch + depth * pixels;
    for (size_t g = 0; g < conv->groups; g++) {
        for (size_t i = 0, at = 0; i < n_pieces; at += ls_rectangle_count(pieces[i++].outputs)) {
            const ls_rectangle outputs = pieces[i].outputs;
            if (ls_rectangle_is_empty(outputs)) continue;
            const ls_im2col_map met = ls_im2col_map_of_outputs(&conv->window, outputs);
            copy_pixels(gradient + at, pixels,
                        dy + pieces[i].image * dy_layout.stride +
                            g * out * ls_rectangle_count(dy_layout.held),
                        dy_layout, outputs, out);
            ls_im2col(columns + at, pixels, &met,
                      x + pieces[i].image * x_layout.stride +
                          g * in * ls_rectangle_count(x_layout.held),
                      x_layout.held, in);
        }
        LS_TRY(ls_gemm_leaves(
            engine, LS_NO_TRANS, LS_TRANS, ls_axis_of(conv->out_granules, out / conv->out_granules),
            ls_axis_of(conv->in_granules, depth / conv->in_granules), l.step, l.n, gradient, pixels,
            columns, pixels, dweight + g * out * ld_weight, ld_weight));
    }
exit:
    free(l.step);
    free(l.filled);
    return status;
}
