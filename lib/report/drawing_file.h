/* drawing_file.h - a picture in a file of its own. */
#ifndef LS_REPORT_DRAWING_FILE_H
#define LS_REPORT_DRAWING_FILE_H

#include "lockstep/pipeline/timeline.h"

/* What draws a picture into an open file. */
typedef ls_status (*ls_draw)(FILE *file, const void *context);

/* Calls `draw` and writes what it drew to `path`; the file appears whole or not at all. Errors:
 * those of draw, LS_ERR_MEMORY, those of ls_new_file_create and ls_new_file_write. */
ls_status ls_drawing_file(const char *path, ls_draw draw, const void *context) LS_MUST_USE;

/* A schedule laid out in time (ls_svg_timeline) as a file. */
ls_status ls_timeline_file(const char *path, const ls_timeline *timeline,
                           const char *title) LS_MUST_USE;

#endif
