/* image_folder.h - images from files, labels from the folders they are in.
 *
 * PNM: P2, P3 (text) and P5, P6 (bytes), one image per file, up to 65535 levels; PNG where the
 * library was built with libpng: any PNG, colours with a palette or transparency too (in front of
 * black). All become 8 bits: v of m levels is floor((255 v + floor(m / 2)) / m). */
#ifndef LS_IO_IMAGE_FOLDER_H
#define LS_IO_IMAGE_FOLDER_H

#include <stdbool.h>

#include "lockstep/model/images.h"

LS_BEGIN_DECLS

/* Rows and columns of an image, and of both its pixels in all. */
enum { LS_IMAGE_MOST_SIDE = 1 << 14, LS_IMAGE_MOST_PIXELS = 1 << 26 };

typedef struct ls_image {
    size_t channels, height, width; /* channels: 1 or 3 */
    unsigned char *pixels;          /* channels x height x width */
} ls_image;

/* Reads one file; what it is, its first bytes say. LS_ERR_INPUT: missing, of another kind, damaged,
 * too large, more after the image: names the file, what was found and what is allowed; LS_ERR_IO,
 * LS_ERR_MEMORY. */
LS_API ls_status ls_image_read(const char *path, ls_image *ret_image) LS_MUST_USE;
LS_API void ls_image_free(ls_image *image);

/* Whether this build reads PNG. */
LS_API bool ls_image_has_png(void);

/* Reads DIR/LABEL/FILE: each folder in DIR is a class, numbered in the order of their names (as
 * numbers when all are), its files *.png, *.pnm, *.pgm and *.ppm are images of it, in the order of
 * their names. So the result depends on names and contents only. Names that begin with a dot are
 * not looked at. channels: 1 or 3; a grey image becomes three equal channels, a coloured one grey
 * by floor((299 r + 587 g + 114 b + 500) / 1000). Errors: LS_ERR_INPUT: a file in DIR, a folder in
 * a label's, a label without images, no label, a file of another kind, one that ls_image_read
 * refuses, images of two sizes (names the file and both sizes); LS_ERR_IO, LS_ERR_MEMORY. */
LS_API ls_status ls_images_read(const char *folder, size_t channels,
                                ls_images *ret_images) LS_MUST_USE;

/* Writes a set as a folder that ls_images_read reads: FOLDER/LABEL/NUMBER.png, numbers from 0 in
 * the order of the set; .pgm or .ppm where the library was built without libpng. The folder appears
 * whole or not at all. (Read again, labels are in the order of their names, and images in that of
 * their labels.) Errors: LS_ERR_INPUT: something that is not an empty folder is there already;
 * LS_ERR_IO, LS_ERR_MEMORY. */
LS_API ls_status ls_images_write(const ls_images *images, const char *folder) LS_MUST_USE;

LS_END_DECLS

#endif
