/* image_parts.h - what the readers of image files share. */
#ifndef LS_IO_IMAGE_PARTS_H
#define LS_IO_IMAGE_PARTS_H

#include "lockstep/io/image_folder.h"

/* Whether an image of such sizes is read at all, before memory is taken for it. */
ls_status ls_image_check_size(const char *path, uint64_t height, uint64_t width) LS_MUST_USE;

/* An image from the bytes of a file that begins as its kind does. */
ls_status ls_image_from_pnm(const char *path, const unsigned char *bytes, size_t count,
                            ls_image *ret_image) LS_MUST_USE;
ls_status ls_image_from_png(const char *path, const unsigned char *bytes, size_t count,
                            ls_image *ret_image) LS_MUST_USE;

#endif
