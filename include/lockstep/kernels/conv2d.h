/* conv2d.h - two-dimensional convolution, on a whole image or on any rectangle of one.
 *
 *     y[n][co][r][c] = bias[co] + sum over ci, i, j of weight[co][ci][i][j] x[n][ci][R][C]
 *     R = r * stride_h - pad_top + i * dilation_h, C = c * stride_w - pad_left + j * dilation_w
 *
 * (a cross-correlation, as networks use it; window.h has the geometry). With groups, the channels
 * of x and of y fall into as many equal runs, and run g of y reads run g of x only.
 *
 * A call is given the rectangle that its x covers and the rectangle of outputs to make: the whole
 * image in a serial network, a rank's own part under spatial parallelism, where x comes with the
 * neighbours' pixels around it. No sum of y or dx crosses ranks (contract rule 17):
 *
 *     y   T over the granules of input channels; inside one, leaves of at most 256 of its terms in
 *         the order (ci, i, j); pixels of the padding are terms too, zeros at their place; + bias
 *     dx  the same over granules of output channels, terms (co, i, j); where (i, j) would reach the
 *         pixel from beyond the border, dy is a zero at its place; where the stride steps over the
 *         pixel there is no term, and the others stay in their leaves
 *
 * so an element has the same bits wherever it is computed. The weight's gradient does cross ranks;
 * ls_conv2d_weight_leaf gives the value of one granule rectangle of one image, for the tree that
 * rule 9 builds over them.
 *
 * Fast version: the pixels that a strip of outputs reads are copied out as the columns of a matrix
 * ("im2col", Chellapilla et al., 2006), one row for each (ci, i, j); the rest is ls_gemm. The naive
 * version, conv2d_naive.h, is the definition in loops. */
#ifndef LS_KERNELS_CONV2D_H
#define LS_KERNELS_CONV2D_H

#include "lockstep/base/real.h"
#include "lockstep/base/status.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/numerics/gemm.h"

LS_BEGIN_DECLS

/* The convolution as the caller holds it: under channel parallelism the channels, groups and
 * granules of its share. */
typedef struct ls_conv2d {
    ls_window window; /* of the whole image, always */
    size_t groups;
    size_t in_channels, out_channels; /* of all groups together: multiples of groups              */
    size_t in_granules, out_granules; /* of one group's channels: divisors of channels / groups   */
    ls_pixel_grid grid; /* granules of pixels of both images. LS_ENGINE_OPENBLAS calls per granule,
                           so that its calls have one shape in every layout                       */
} ls_conv2d;

/* Elements of `weight` from one output channel to the next when all input channels are held. */
static inline size_t ls_conv2d_depth(const ls_conv2d *conv)
{
    return conv->in_channels / conv->groups * conv->window.kernel_h * conv->window.kernel_w;
}

/* name: of the layer. Errors: LS_ERR_INPUT: those of ls_window_check; no groups or channels;
 * channels that do not divide into groups, or those of a group into granules; no granules; more
 * than 2^48 numbers in the weight, in an image or in what a row of pixels meets. */
LS_API ls_status ls_conv2d_check(const char *name, const ls_conv2d *conv) LS_MUST_USE;

/* Elements of `scratch` that any call below needs, for at most `images` images; but for
 * ls_conv2d_weight_node, see there. */
LS_API size_t ls_conv2d_scratch(const ls_conv2d *conv, size_t images);

/* The rectangle `outputs` of y, which y covers; the rest of y is not touched. x covers all of the
 * image that they read (ls_window_reads). weight: out_channels rows of (in_channels / groups)
 * x kernel_h x kernel_w, ld_weight elements from row to row (more than ls_conv2d_depth where a run
 * of input channels is meant). bias: out_channels, or NULL: none is added. Nothing overlaps.
 *
 * LS_ENGINE_OPENBLAS: `outputs` are whole granules. Cost: 2 * images * out_channels *
 * ls_conv2d_depth flops for each pixel. Errors: those of ls_gemm; LS_ERR_INTERNAL: a rectangle is
 * not where it has to be. */
#define ls_conv2d_forward LS_TYPED(ls_conv2d_forward)
LS_API ls_status ls_conv2d_forward(ls_engine engine, const ls_conv2d *conv, size_t images,
                                   ls_real *y, ls_image_layout y_layout, ls_rectangle outputs,
                                   const ls_real *x, ls_image_layout x_layout,
                                   const ls_real *weight, size_t ld_weight, const ls_real *bias,
                                   ls_real *scratch) LS_MUST_USE;

/* The rectangle `inputs` of dx, which dx covers; the rest is not touched. dy covers all outputs
 * that read them (ls_window_read_by). Otherwise as above; errors also LS_ERR_MEMORY. */
#define ls_conv2d_backward LS_TYPED(ls_conv2d_backward)
LS_API ls_status ls_conv2d_backward(ls_engine engine, const ls_conv2d *conv, size_t images,
                                    ls_real *dx, ls_image_layout dx_layout, ls_rectangle inputs,
                                    const ls_real *dy, ls_image_layout dy_layout,
                                    const ls_real *weight, size_t ld_weight,
                                    ls_real *scratch) LS_MUST_USE;

/* What one rectangle of outputs of one image adds to the weight's gradient:
 *
 *     dweight[co][ci][i][j] = sum over the pixels (r, c) of dy[co][r][c] x[ci][R][C]
 *
 * row by row, in leaves of at most 256 pixels (rule 5). An empty rectangle gives -0, which changes
 * no sum (rule 14). dweight: as weight, overwritten. x, dy: one image each, covering what is read;
 * the strides of their layouts are not. */
#define ls_conv2d_weight_leaf LS_TYPED(ls_conv2d_weight_leaf)
LS_API ls_status ls_conv2d_weight_leaf(ls_engine engine, const ls_conv2d *conv, ls_real *dweight,
                                       size_t ld_weight, const ls_real *dy,
                                       ls_image_layout dy_layout, ls_rectangle outputs,
                                       const ls_real *x, ls_image_layout x_layout,
                                       ls_real *scratch) LS_MUST_USE;

/* A leaf of the tree over images and granule rectangles, in the tree's order: an image, the pixels
 * of a granule, and how many additions follow the leaf when partial sums are on a stack (as
 * ls_binary_tree_merges_after counts them). */
typedef struct ls_conv2d_piece {
    size_t image;
    ls_rectangle outputs;
    size_t closes;
} ls_conv2d_piece;

/* The value of a whole node of that tree in one product: the bits of ls_conv2d_weight_leaf for each
 * piece and the additions between them, many times faster where rectangles are small. The additions
 * leave one value; pieces that are all empty give -0. scratch: ls_conv2d_node_scratch elements.
 * Errors: those of ls_conv2d_weight_leaf; LS_ERR_MEMORY. */
LS_API size_t ls_conv2d_node_scratch(const ls_conv2d *conv, const ls_conv2d_piece *pieces,
                                     size_t n_pieces);
#define ls_conv2d_weight_node LS_TYPED(ls_conv2d_weight_node)
LS_API ls_status ls_conv2d_weight_node(ls_engine engine, const ls_conv2d *conv, ls_real *dweight,
                                       size_t ld_weight, const ls_conv2d_piece *pieces,
                                       size_t n_pieces, const ls_real *dy,
                                       ls_image_layout dy_layout, const ls_real *x,
                                       ls_image_layout x_layout, ls_real *scratch) LS_MUST_USE;

/* What it adds to the bias's gradient: dbias[co] = T over the pixels of dy[co][r][c], row by row, a
 * pixel a leaf (ls_pixel_sum of pixel_sum.h). */

LS_END_DECLS

#endif
