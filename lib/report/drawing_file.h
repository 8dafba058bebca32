/* drawing_file.h - a schedule drawn into a file of its own. */
#ifndef LS_REPORT_DRAWING_FILE_H
#define LS_REPORT_DRAWING_FILE_H

#include "lockstep/pipeline/timeline.h"

/* Draws a schedule laid out in time (ls_svg_timeline) into a file, which appears whole or not at
 * all. Errors: LS_ERR_MEMORY, those of ls_new_file_create. */
ls_status ls_timeline_file(const char *path, const ls_timeline *timeline,
                           const char *title) LS_MUST_USE;

#endif
