/* conv2d_scratch.h - how the scratch of a convolution is used. */
#ifndef LS_KERNELS_CONV2D_SCRATCH_H
#define LS_KERNELS_CONV2D_SCRATCH_H

#include "lockstep/kernels/conv2d.h"

/* Columns of a strip, when a row of the image is not longer: 28 x 28, 14 rows of 56, and about what
 * the portable product takes as one block. */
enum { LS_CONV2D_STRIP = 784 };

/* Elements of: what is met by a strip or a granule; its product, or its dy; the turned weights. */
typedef struct ls_conv2d_scratch_parts {
    size_t columns, product, turned;
} ls_conv2d_scratch_parts;

ls_conv2d_scratch_parts ls_conv2d_scratch_of(const ls_conv2d *conv, size_t images);

#endif
