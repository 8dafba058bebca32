/* conv2d.c - two-dimensional convolution by matrix products: forward.
 *
 *                     target   source   matrix A                  rows of B
 *     forward         y        x        weight  [co][(ci, i, j)]  (ci, i, j)
 *     backward        dx       dy       turned  [ci][(co, i, j)]  (co, i, j)
 *
 * Both are one job (conv2d_job.h); conv2d_backward.c has what turns. */
#include "lockstep/kernels/conv2d.h"

#include "kernels/conv2d_job.h"
#include "kernels/conv2d_scratch.h"

ls_status ls_conv2d_forward(ls_engine engine, const ls_conv2d *conv, size_t images, ls_real *y,
                            ls_image_layout y_layout, ls_rectangle outputs, const ls_real *x,
                            ls_image_layout x_layout, const ls_real *weight, size_t ld_weight,
                            const ls_real *bias, ls_real *scratch)
{
    ls_status status = LS_OK;
    const size_t in = conv->in_channels / conv->groups, out = conv->out_channels / conv->groups;
    const size_t kernel = conv->window.kernel_h * conv->window.kernel_w;
    const ls_conv2d_scratch_parts parts = ls_conv2d_scratch_of(conv, images);
    const ls_conv2d_job j = {.engine = engine,
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
    if (images == 0 || ls_rectangle_is_empty(outputs)) goto exit;
    LS_TRY(ls_conv2d_job_check(&j, outputs));
    LS_TRY(ls_conv2d_job_run(&j, images, outputs));
exit:
    return status;
}
