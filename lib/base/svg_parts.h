/* svg_parts.h - what every drawing needs, whichever room draws it. */
#ifndef LS_BASE_SVG_PARTS_H
#define LS_BASE_SVG_PARTS_H

#include <stdio.h>

/* Writes text with the characters that HTML gives a meaning to written out, and bytes that are no
 * text made harmless. */
void ls_html_text(FILE *file, const char *text);

/* A round distance between ticks, 1, 2 or 5 times a power of ten, that makes about `ticks` of a
 * span above 0. */
double ls_tick_distance(double span, int ticks);

#endif
