/* conv2d_naive.h - convolution as it is defined, one element at a time.
 *
 * The same arguments, the same order of additions and so the same bits as conv2d.h with the
 * portable engine, without matrices and scratch: to read, and to test the fast one. */
#ifndef LS_KERNELS_CONV2D_NAIVE_H
#define LS_KERNELS_CONV2D_NAIVE_H

#include "lockstep/kernels/conv2d.h"

LS_BEGIN_DECLS

/* As ls_conv2d_forward. */
#define ls_conv2d_naive_forward LS_TYPED(ls_conv2d_naive_forward)
LS_API void ls_conv2d_naive_forward(const ls_conv2d *conv, size_t images, ls_real *y,
                                    ls_image_layout y_layout, ls_rectangle outputs,
                                    const ls_real *x, ls_image_layout x_layout,
                                    const ls_real *weight, size_t ld_weight, const ls_real *bias);

/* As ls_conv2d_backward. */
#define ls_conv2d_naive_backward LS_TYPED(ls_conv2d_naive_backward)
LS_API void ls_conv2d_naive_backward(const ls_conv2d *conv, size_t images, ls_real *dx,
                                     ls_image_layout dx_layout, ls_rectangle inputs,
                                     const ls_real *dy, ls_image_layout dy_layout,
                                     const ls_real *weight, size_t ld_weight);

/* As ls_conv2d_weight_leaf. */
#define ls_conv2d_naive_weight_leaf LS_TYPED(ls_conv2d_naive_weight_leaf)
LS_API void ls_conv2d_naive_weight_leaf(const ls_conv2d *conv, ls_real *dweight, size_t ld_weight,
                                        const ls_real *dy, ls_image_layout dy_layout,
                                        ls_rectangle outputs, const ls_real *x,
                                        ls_image_layout x_layout);

LS_END_DECLS

#endif
