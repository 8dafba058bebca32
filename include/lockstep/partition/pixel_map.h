/* pixel_map.h - who owns which pixel, and which pixels one member reads, as text and as SVG.
 *
 *     who owns x        read by 4            '=': 4 has it itself; '.': not read; others by owner,
 *     00001111222       ...........          0 .. 9, a .. z, A .. Z, then '*'; ' ' where no rank is
 *     00001111222       ...01112...
 *     33334444555       ...3===5...
 *     33334444555       ...3===5...
 *     66667777888       ...67778... */
#ifndef LS_PARTITION_PIXEL_MAP_H
#define LS_PARTITION_PIXEL_MAP_H

#include <stdio.h>

#include "lockstep/base/rectangle.h"

LS_BEGIN_DECLS

typedef struct ls_pixel_map {
    const char *title;
    size_t height, width;
    const ls_rectangle *owned; /* [members], what each owns: no two have a pixel in common */
    size_t members;
    const ls_rectangle *read; /* what `reader` reads; NULL: a map of owners only */
    size_t reader;
} ls_pixel_map;

/* Writes the maps in lines of at most `columns` characters, side by side while there is room. */
LS_API void ls_pixel_maps_text(FILE *file, const ls_pixel_map *maps, size_t count, size_t columns);

/* The same as one <svg> element that stands alone as a file and inside a page, `in_row` maps in a
 * row: a colour per owner, whose number is in the middle of what it owns; in the map of a
 * reader pale where it does not read, with a line around its own pixels and a dashed one around all
 * that it reads. */
LS_API void ls_svg_pixel_maps(FILE *file, const ls_pixel_map *maps, size_t count, size_t in_row);

LS_END_DECLS

#endif
