/* pixel_sum.h - what one granule rectangle of one image gives to a sum over pixels.
 *
 * A sum over sample x space is, by contract rule 9: T over the images; in each the tree over the
 * granule rectangles of its pixels; in each T over its pixels, row by row, a pixel a leaf. Here is
 * the last of these: the gradient of a convolution's bias, global pooling and, with batch_norm.h,
 * the sums of batch normalisation. An empty rectangle gives -0 (rule 14). */
#ifndef LS_KERNELS_PIXEL_SUM_H
#define LS_KERNELS_PIXEL_SUM_H

#include "lockstep/base/real.h"
#include "lockstep/kernels/image_layout.h"

LS_BEGIN_DECLS

/* sum[ch] = T over the rectangle's pixels of x[ch]. sum: channels. x: one image, covering them; the
 * stride of its layout is not used. */
#define ls_pixel_sum LS_TYPED(ls_pixel_sum)
LS_API void ls_pixel_sum(ls_real *sum, const ls_real *x, ls_image_layout layout,
                         ls_rectangle pixels, size_t channels);

LS_END_DECLS

#endif
