/* conv2d_weight.c - the gradient of a convolution's weights, one granule of pixels at a time. */
#include <string.h>

#include "kernels/conv2d_scratch.h"
#include "kernels/im2col.h"

/* to[ch][p] = the pixels p of a rectangle, row by row. */
static void copy_pixels(ls_real *to, const ls_real *from, ls_image_layout layout,
                        ls_rectangle pixels, size_t channels)
{
    from += ls_image_offset(layout, pixels);
    for (size_t ch = 0; ch < channels; ch++, from += ls_rectangle_count(layout.held))
        for (size_t r = 0; r < pixels.height; r++, to += pixels.width)
            memcpy(to, from + r * layout.held.width, pixels.width * sizeof *to);
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
        for (size_t co = 0; co < conv->out_channels; co++)
            for (size_t k = 0; k < depth; k++) dweight[co * ld_weight + k] = (ls_real)-0.0;
        goto exit;
    }
    if (!ls_rectangle_inside(outputs, ls_window_outputs(&conv->window)) ||
        !ls_rectangle_inside(outputs, dy_layout.held) ||
        !ls_rectangle_inside(ls_window_reads(&conv->window, outputs), x_layout.held) ||
        pixels * depth > parts.columns || pixels * out > parts.product)
        LS_FAIL(LS_ERR_INTERNAL, "conv2d: a rectangle lies outside what is held, or is larger than "
                                 "a granule");
    for (size_t g = 0; g < conv->groups; g++) {
        copy_pixels(gradient, dy + g * out * ls_rectangle_count(dy_layout.held), dy_layout, outputs,
                    out);
        ls_im2col(columns, pixels, LS_OUTPUTS_FROM_INPUTS, &conv->window, outputs,
                  x + g * in * ls_rectangle_count(x_layout.held), x_layout.held, in);
        LS_TRY(ls_gemm(
            engine, LS_NO_TRANS, LS_TRANS, ls_axis_of(conv->out_granules, out / conv->out_granules),
            ls_axis_of(conv->in_granules, depth / conv->in_granules), ls_axis_whole(pixels),
            gradient, pixels, columns, pixels, dweight + g * out * ld_weight, ld_weight, false));
    }
exit:
    return status;
}
