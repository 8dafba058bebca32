/* window.h - which pixels a convolution or a pooling reads.
 *
 * An output pixel (r, c) reads the kernel_h x kernel_w input pixels
 *
 *     (r * stride_h - pad_top  + i * dilation_h,   i = 0 .. kernel_h - 1
 *      c * stride_w - pad_left + j * dilation_w)   j = 0 .. kernel_w - 1
 *
 * of which those outside the image are padding. What a rank needs of its neighbours follows from
 * its range of outputs and this formula only: even kernels, one-sided padding, strides and shards
 * smaller than a kernel are no special cases. */
#ifndef LS_KERNELS_WINDOW_H
#define LS_KERNELS_WINDOW_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/rectangle.h"
#include "lockstep/base/status.h"

LS_BEGIN_DECLS

typedef struct ls_window {
    size_t in_h, in_w; /* the whole image */
    size_t kernel_h, kernel_w;
    size_t stride_h, stride_w;
    size_t dilation_h, dilation_w; /* 1: the kernel's pixels are neighbours */
    size_t pad_top, pad_bottom, pad_left, pad_right;
} ls_window;

/* The window of a layer, which has members of these names, on an image of height x width. */
#define LS_WINDOW_OF(layer, image)                                                                 \
    ((ls_window){.in_h = (image)->height,                                                          \
                 .in_w = (image)->width,                                                           \
                 .kernel_h = (layer)->kernel_h,                                                    \
                 .kernel_w = (layer)->kernel_w,                                                    \
                 .stride_h = (layer)->stride_h,                                                    \
                 .stride_w = (layer)->stride_w,                                                    \
                 .dilation_h = (layer)->dilation_h,                                                \
                 .dilation_w = (layer)->dilation_w,                                                \
                 .pad_top = (layer)->pad_top,                                                      \
                 .pad_bottom = (layer)->pad_bottom,                                                \
                 .pad_left = (layer)->pad_left,                                                    \
                 .pad_right = (layer)->pad_right})

/* Whether all of `inner` is in `outer`; an empty one is in every rectangle. */
LS_API bool ls_rectangle_inside(ls_rectangle inner, ls_rectangle outer);

/* name: of the layer, for the text. Errors: LS_ERR_INPUT: a size, stride or dilation of 0, a number
 * above LS_WINDOW_MOST, a kernel that with its dilation is larger than the padded image. */
enum { LS_WINDOW_MOST = 1 << 24 };
LS_API ls_status ls_window_check(const char *name, const ls_window *window) LS_MUST_USE;

/* The same for a pooling, which also needs a pixel of the image in every window, and no more than
 * 2^31 - 1 pixels, so that a place fits 32 bits. */
LS_API ls_status ls_window_check_pool(const char *name, const ls_window *window) LS_MUST_USE;

/* Rows and columns of outputs: (in + pads - ((kernel - 1) * dilation + 1)) / stride + 1. The window
 * has been checked, here and below. */
LS_API size_t ls_window_out_h(const ls_window *window);
LS_API size_t ls_window_out_w(const ls_window *window);

/* All inputs, all outputs. */
LS_API ls_rectangle ls_window_inputs(const ls_window *window);
LS_API ls_rectangle ls_window_outputs(const ls_window *window);

/* The smallest rectangle with all inputs of the image that a rectangle of outputs reads: what a
 * rank has to hold before it can compute them. Empty when they read padding only. */
LS_API ls_rectangle ls_window_reads(const ls_window *window, ls_rectangle outputs);

/* The smallest rectangle with all outputs that read any of a rectangle of inputs: whose gradients a
 * rank has to hold before it can compute those of the inputs. Empty when no operation reads them.
 */
LS_API ls_rectangle ls_window_read_by(const ls_window *window, ls_rectangle inputs);

/* The granules of an image: rows x columns of them (contract rule 9). */
typedef struct ls_pixel_grid {
    size_t rows, columns;
} ls_pixel_grid;

/* The pixels of granule (i, j) in an image of h x w; there may be none. */
static inline ls_rectangle ls_pixel_granule(ls_pixel_grid grid, size_t h, size_t w, size_t i,
                                            size_t j)
{
    const ls_rectangle granule = {i, j, 1, 1};
    return ls_rectangle_of_granules(granule, grid.rows, grid.columns, h, w);
}

LS_END_DECLS

#endif
