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

/* Writes an image: PNG, or PGM or PPM where the library was built without libpng. The file's end is
 * that of ls_image_extension. Errors: LS_ERR_IO (what was written is left to the caller),
 * LS_ERR_MEMORY. */
const char *ls_image_extension(size_t channels);
ls_status ls_image_write(const char *path, const ls_image *image) LS_MUST_USE;

/* The bytes of such a file, for the caller to free. */
ls_status ls_image_to_png(const ls_image *image, unsigned char **ret_bytes,
                          size_t *ret_count) LS_MUST_USE;
ls_status ls_image_to_pnm(const ls_image *image, unsigned char **ret_bytes,
                          size_t *ret_count) LS_MUST_USE;

#endif
