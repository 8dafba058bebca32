/* im2col.h - the pixels that each place of a kernel meets, as rows of a matrix.
 *
 * Column p of the matrix is a pixel to compute, a target; row (channel, i, j) the pixel of the
 * other image, the source, that kernel place (i, j) brings together with it, +0 beyond the border.
 * Forward the targets are outputs and the sources are x; backward the targets are inputs and the
 * sources dy:
 *
 *     forward    source = target * stride - pad + i * dilation
 *     backward   source = (target + pad - i * dilation) / stride, where that is whole
 *
 * Where it is whole depends on the place and on target mod stride. The inputs of one class modulo
 * the stride are therefore reached by the same places, and going from one of them to the next goes
 * to the next output: a class is a convolution of stride 1. With stride 2, kernel 3, padding 1:
 *
 *     input     0  1  2  3  4  5       class 0 (inputs 0, 2, 4) is reached by place 1 from y 0, 1,
 * 2 output    0     1     2          class 1 (inputs 1, 3, 5)    by place 0 from y 1, 2 and the
 *                                                                  border, place 2 from y 0, 1, 2
 */
#ifndef LS_KERNELS_IM2COL_H
#define LS_KERNELS_IM2COL_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/window.h"

/* One axis. At place k, k < places, target p, p < targets, meets source
 *
 *     first + k * place_step + p * step
 *
 * if that is at least 0 and below `sources`. In the image target p is target + p * target_step, in
 * the kernel place k is place + k * place_apart. */
typedef struct ls_im2col_axis {
    size_t targets, target, target_step;
    size_t places, place, place_apart;
    size_t sources, step;
    ptrdiff_t first, place_step;
} ls_im2col_axis;

typedef struct ls_im2col_map {
    ls_im2col_axis rows, columns;
} ls_im2col_map;

/* A rectangle of outputs, met by all places. */
ls_im2col_map ls_im2col_map_of_outputs(const ls_window *window, ls_rectangle outputs);

/* The inputs (r, c) of a rectangle with r = row_class modulo the stride of rows, c = column_class
 * modulo that of columns. There may be none, and there may be no place. */
ls_im2col_map ls_im2col_map_of_inputs(const ls_window *window, ls_rectangle inputs,
                                      size_t row_class, size_t column_class);

/* For `channels` channels of one image: to[((ch * rows.places + i) * columns.places + j) * ld + p]
 * for the targets p, row by row. source: its first channel, channels of held.height x held.width;
 * held covers all that is met of the image. */
#define ls_im2col LS_TYPED(ls_im2col)
void ls_im2col(ls_real *to, size_t ld, const ls_im2col_map *meetings, const ls_real *source,
               ls_rectangle held, size_t channels);

#endif
