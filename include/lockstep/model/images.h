/* images.h - batches of labelled images.
 *
 * A batch is a function of (seed, step) only, so that the data position of a checkpoint is its
 * step. Images come from files (lockstep/io/image_folder.h) or are drawn here. */
#ifndef LS_MODEL_IMAGES_H
#define LS_MODEL_IMAGES_H

#include <stddef.h>
#include <stdint.h>

#include "lockstep/base/status.h"
#include "lockstep/model/config.h"

LS_BEGIN_DECLS

typedef struct ls_images {
    size_t count, channels, height, width; /* channels: 1 grey, 3 red, green, blue */
    size_t classes;
    unsigned char *pixels; /* count x channels x height x width, 0 dark to 255 bright */
    int32_t *labels;       /* count, 0 .. classes - 1                                 */
    char **class_names;    /* classes                                                 */
} ls_images;

LS_API void ls_images_free(ls_images *images);

/* Whether the images can feed the network: as many channels, rows and columns as it reads, classes
 * at most its own. what: how errors call the images, a folder's name or "the drawn images".
 * LS_ERR_INPUT says what was found and what is needed. */
LS_API ls_status ls_images_check(const ls_images *images, const char *what,
                                 const ls_config *config) LS_MUST_USE;

/* Writes images first .. first + count of the global batch of step `step`. Number b of it is image
 * floor(uniform(stream DATA of that step, layer 0, element b) * images->count); a pixel of p is the
 * number (2 p - 255) / 255, rounded to binary32 in both precisions. ret_pixels: count x channels x
 * height x width; ret_labels: count. */
LS_API void ls_images_batch(const ls_images *images, uint64_t seed, uint32_t step, size_t first,
                            size_t count, float *ret_pixels, int32_t *ret_labels);

enum { LS_DRAWN_CLASSES = 16 };

/* Draws `count` images of the digits 0 to 9 and of six shapes (disk, ring, square, diamond,
 * triangle, cross), of those the first `classes`: number i is of class i mod classes. Place, size,
 * slant, width of the pen and colours vary, edges are smooth, and there is noise. An image is a
 * function of (seed, i) and the sizes only, the same on every machine: all numbers come from
 * stream DATA, layer 1 (what is drawn) and layer 2 (noise), step i, and go through +, -, x, / and
 * square roots only. Errors: LS_ERR_INPUT: classes not from 1 to LS_DRAWN_CLASSES, channels not 1
 * or 3, an image below 8 x 8, no image (label: the option or the file that asked for it);
 * LS_ERR_MEMORY. */
LS_API ls_status ls_images_draw(const char *label, uint64_t seed, size_t count, size_t channels,
                                size_t height, size_t width, size_t classes,
                                ls_images *ret_images) LS_MUST_USE;

LS_END_DECLS

#endif
