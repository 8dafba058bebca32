/* drawing.h - what ranks do over time as an SVG picture: a row per rank, a box per pass or message.
 *
 * A schedule laid out in time is drawn by ls_svg_timeline; a run that was measured by filling in
 * boxes and calling ls_svg_boxes. The picture is a complete <svg> element that stands alone as a
 * file and inside a page, on light and on dark ground. */
#ifndef LS_PIPELINE_DRAWING_H
#define LS_PIPELINE_DRAWING_H

#include <stdio.h>

#include "lockstep/pipeline/timeline.h"

LS_BEGIN_DECLS

typedef enum ls_box_kind {
    LS_BOX_FORWARD = 0,
    LS_BOX_BACKWARD,
    LS_BOX_COMMUNICATION,
    LS_BOX_OTHER, /* update, loading: what belongs to no micro-batch */
    LS_BOX_KINDS
} ls_box_kind;

typedef struct ls_box {
    int row;           /* 0 .. rows                                            */
    double start, end; /* boxes of a row may lie on each other, later ones on top */
    ls_box_kind kind;
    int chunk;      /* shade: higher chunks are darker, round after 4        */
    char label[16]; /* written into the box where it has room; may be empty  */
    char note[96];  /* shown by a pointer that rests on it; may be empty     */
} ls_box;

typedef struct ls_drawing {
    const char *title;     /* NULL: none                       */
    const char *time_unit; /* of the axis: "us"; NULL: no axis */
    int rows;
    const char *const *row_names; /* [rows]; NULL: "rank 0", "rank 1", ...            */
    const ls_box *boxes;          /* [count]; left out: times no numbers, no such row */
    size_t count;
} ls_drawing;

/* Draws boxes from time 0, or from the earliest start below it, to the latest end. */
LS_API void ls_svg_boxes(FILE *file, const ls_drawing *drawing);

/* Draws a schedule laid out in time; title may be NULL. Errors: LS_ERR_MEMORY, nothing written. */
LS_API ls_status ls_svg_timeline(FILE *file, const ls_timeline *timeline,
                                 const char *title) LS_MUST_USE;

LS_END_DECLS

#endif
