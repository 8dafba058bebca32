/* image_layout.h - how images, or a rank's part of them, lie in memory. */
#ifndef LS_KERNELS_IMAGE_LAYOUT_H
#define LS_KERNELS_IMAGE_LAYOUT_H

#include "lockstep/kernels/window.h"

LS_BEGIN_DECLS

/* [images][channels][held.height][held.width] with `stride` elements from one image to the next
 * (channels * pixels; more where a run of channels is meant). held: what each covers, in
 * coordinates of the whole image. */
typedef struct ls_image_layout {
    ls_rectangle held;
    size_t stride;
} ls_image_layout;

/* From the beginning of a channel to the first pixel of a rectangle that is held. */
static inline size_t ls_image_offset(ls_image_layout layout, ls_rectangle pixels)
{
    return (pixels.top - layout.held.top) * layout.held.width + (pixels.left - layout.held.left);
}

LS_END_DECLS

#endif
