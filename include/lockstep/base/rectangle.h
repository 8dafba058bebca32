/* rectangle.h - rectangles of pixels, or of granules of pixels, in the whole image's coordinates.
 */
#ifndef LS_BASE_RECTANGLE_H
#define LS_BASE_RECTANGLE_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/api.h"

LS_BEGIN_DECLS

/* Rows top .. top + height, columns left .. left + width. Empty: height or width 0. */
typedef struct ls_rectangle {
    size_t top, left, height, width;
} ls_rectangle;

static inline bool ls_rectangle_is_empty(ls_rectangle a)
{
    return a.height == 0 || a.width == 0;
}

/* Pixels. */
static inline size_t ls_rectangle_count(ls_rectangle a)
{
    return a.height * a.width;
}

LS_API bool ls_rectangle_equal(ls_rectangle a, ls_rectangle b);

/* What lies in both; {0, 0, 0, 0} if nothing does. */
LS_API ls_rectangle ls_rectangle_common(ls_rectangle a, ls_rectangle b);

/* The pixels of a rectangle of granules, when an image of height x width pixels is `rows` x
 * `columns` granules: granule row g is the pixel rows floor(g height / rows) .. floor((g + 1)
 * height / rows), columns alike. Granules may be empty. Contract rule 9. */
LS_API ls_rectangle ls_rectangle_of_granules(ls_rectangle granules, size_t rows, size_t columns,
                                             size_t height, size_t width);

LS_END_DECLS

#endif
