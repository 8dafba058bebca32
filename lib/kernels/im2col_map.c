/* im2col_map.c - which source each target meets at each place of a kernel. */
#include "kernels/im2col.h"

/* Outputs from .. from + n; source = target * stride - pad + place * dilation. */
static ls_im2col_axis outputs_meet(size_t from, size_t n, size_t in, size_t kernel, size_t stride,
                                   size_t dilation, size_t pad)
{
    return (ls_im2col_axis){.targets = n,
                            .target = from,
                            .target_step = 1,
                            .places = kernel,
                            .place_apart = 1,
                            .sources = in,
                            .step = stride,
                            .first = (ptrdiff_t)(from * stride) - (ptrdiff_t)pad,
                            .place_step = (ptrdiff_t)dilation};
}

/* Inputs of from .. from + n that are `class` modulo the stride; source = (target + pad - place *
 * dilation) / stride. */
static ls_im2col_axis inputs_meet(size_t from, size_t n, size_t class, size_t out, size_t kernel,
                                  size_t stride, size_t dilation, size_t pad)
{
    const size_t target = from + (class + stride - from % stride) % stride, end = from + n;
    ls_im2col_axis a = {.targets = target < end ? (end - target - 1) / stride + 1 : 0,
                        .target = target,
                        .target_step = stride,
                        .place_apart = 1,
                        .sources = out,
                        .step = 1};
    const size_t back = stride - dilation % stride; /* minus the dilation, modulo the stride */
    for (size_t i = 0; i < kernel; i++) {
        if ((class + pad + i * back) % stride != 0) continue;
        if (a.places == 0) a.place = i;
        if (a.places == 1) a.place_apart = i - a.place;
        a.places++;
    }
    if (a.places > 0)
        a.first = ((ptrdiff_t)(target + pad) - (ptrdiff_t)(a.place * dilation)) / (ptrdiff_t)stride;
    if (a.places > 1) a.place_step = -(ptrdiff_t)(a.place_apart * dilation / stride);
    return a;
}

ls_im2col_map ls_im2col_map_of_outputs(const ls_window *w, ls_rectangle outputs)
{
    return (ls_im2col_map){outputs_meet(outputs.top, outputs.height, w->in_h, w->kernel_h,
                                        w->stride_h, w->dilation_h, w->pad_top),
                           outputs_meet(outputs.left, outputs.width, w->in_w, w->kernel_w,
                                        w->stride_w, w->dilation_w, w->pad_left)};
}

ls_im2col_map ls_im2col_map_of_inputs(const ls_window *w, ls_rectangle inputs, size_t row_class,
                                      size_t column_class)
{
    return (ls_im2col_map){inputs_meet(inputs.top, inputs.height, row_class, ls_window_out_h(w),
                                       w->kernel_h, w->stride_h, w->dilation_h, w->pad_top),
                           inputs_meet(inputs.left, inputs.width, column_class, ls_window_out_w(w),
                                       w->kernel_w, w->stride_w, w->dilation_w, w->pad_left)};
}
