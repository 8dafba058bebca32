/* pooling.h - maximum and average over windows, and over the whole image.
 *
 * As with a convolution, a call makes a rectangle of y or dx from an x or dy that covers what it
 * reads, and an element has the same bits wherever it is made (contract rule 17). Padding takes no
 * part: a window is what it has of the image. window: checked by ls_window_check_pool. */
#ifndef LS_KERNELS_POOLING_H
#define LS_KERNELS_POOLING_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/image_layout.h"

LS_BEGIN_DECLS

/* y = the largest of a window by rule 3: -0 below +0, NaN wins, the first in (row, column) order
 * wins a tie. place, laid out as y: where it stood, row * in_w + column in the whole image.
 * Overwrites `outputs` of y and place, which both cover. */
#define ls_max_pool_forward LS_TYPED(ls_max_pool_forward)
LS_API void ls_max_pool_forward(const ls_window *window, size_t images, size_t channels, ls_real *y,
                                int32_t *place, ls_image_layout y_layout, ls_rectangle outputs,
                                const ls_real *x, ls_image_layout x_layout);

/* dx = the sum of dy over the windows whose place it is, in ascending (row, column) order of the
 * outputs, beginning with the first; +0 if there is none. dy and place cover all outputs that read
 * `inputs` (ls_window_read_by). */
#define ls_max_pool_backward LS_TYPED(ls_max_pool_backward)
LS_API void ls_max_pool_backward(const ls_window *window, size_t images, size_t channels,
                                 ls_real *dx, ls_image_layout dx_layout, ls_rectangle inputs,
                                 const ls_real *dy, const int32_t *place,
                                 ls_image_layout dy_layout);

/* y = sum / count: the window's pixels left to right, row by row, beginning with the first; one
 * division. count: kernel_h * kernel_w if count_padding is set, else the pixels of the image in the
 * window. */
#define ls_average_pool_forward LS_TYPED(ls_average_pool_forward)
LS_API void ls_average_pool_forward(const ls_window *window, bool count_padding, size_t images,
                                    size_t channels, ls_real *y, ls_image_layout y_layout,
                                    ls_rectangle outputs, const ls_real *x,
                                    ls_image_layout x_layout);

/* dx = the sum of the rounded dy / count over the windows that read it, order as for the maximum;
 * +0 if there is none. */
#define ls_average_pool_backward LS_TYPED(ls_average_pool_backward)
LS_API void ls_average_pool_backward(const ls_window *window, bool count_padding, size_t images,
                                     size_t channels, ls_real *dx, ls_image_layout dx_layout,
                                     ls_rectangle inputs, const ls_real *dy,
                                     ls_image_layout dy_layout);

/* Global pooling: y = sum / count over all pixels of an image, the sum by ls_pixel_sum and the tree
 * over the granule rectangles, the division by ls_batch_norm_mean. Backward: each of the
 * rectangle's pixels gets dy / count. dy: images x channels, contiguous. */
#define ls_global_pool_backward LS_TYPED(ls_global_pool_backward)
LS_API void ls_global_pool_backward(ls_real *dx, ls_image_layout dx_layout, ls_rectangle pixels,
                                    size_t images, size_t channels, const ls_real *dy,
                                    size_t count);

LS_END_DECLS

#endif
