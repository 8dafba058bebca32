/* im2col.h - the pixels that each place of a kernel meets, as rows of a matrix.
 *
 * Column p of the matrix is a pixel to compute, row (channel, i, j) the pixel of the other image
 * that kernel place (i, j) brings together with it, +0 where there is none. Forward the columns are
 * outputs and the other image is x; backward the columns are inputs and the other image is dy:
 *
 *     forward    source = target * stride - pad + i * dilation
 *     backward   source = (target + pad - i * dilation) / stride, where that is whole
 *
 * Either way a run of targets meets its sources at equal steps. */
#ifndef LS_KERNELS_IM2COL_H
#define LS_KERNELS_IM2COL_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/window.h"

typedef enum ls_im2col_way { LS_OUTPUTS_FROM_INPUTS, LS_INPUTS_FROM_OUTPUTS } ls_im2col_way;

/* For `channels` channels of one image: to[((ch * kernel_h + i) * kernel_w + j) * ld + p] for the
 * pixels p of `targets`, row by row. source: its first channel, channels of held.height x
 * held.width; held covers all that is met of the image. */
#define ls_im2col LS_TYPED(ls_im2col)
void ls_im2col(ls_real *to, size_t ld, ls_im2col_way way, const ls_window *window,
               ls_rectangle targets, const ls_real *source, ls_rectangle held, size_t channels);

#endif
