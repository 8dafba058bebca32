/* replay_drawing.h - what ranks do over time in a replay, as text and as a picture. */
#ifndef LS_REPORT_REPLAY_DRAWING_H
#define LS_REPORT_REPLAY_DRAWING_H

#include <stdio.h>

#include "lockstep/pipeline/replay.h"

/* The last step that the log has; -1: it has none. */
int ls_replay_last_step(const ls_event_log *log);

/* When a step's first event begins and its last one ends; step -1: everything that was laid out.
 * False: there is nothing. */
bool ls_replay_window(const ls_event_log *log, const ls_replay *replay, int step,
                      int64_t *ret_begin, int64_t *ret_end);

/* One line per rank for the window of a step, from left to right in time:
 *
 *     rank 0    000111222.......aaaa=bbbb=cccc+
 *
 * A digit is the forward pass of that micro-batch, a letter the backward pass (0 and a: micro-batch
 * 0; from 10 and from 26 on again from the front), + other work, = communication, . idleness: what
 * takes most of a column's time. Where passes have parts, layers of a network, they count those, in
 * the order in which they first come. width: columns of a line in all. */
ls_status ls_replay_text(FILE *file, const ls_event_log *log, const ls_replay *replay, int step,
                         int width) LS_MUST_USE;

enum { LS_REPLAY_NAME = 64 }; /* bytes of a row's name */

/* The same as an SVG file (drawing.h), which appears whole or not at all. stage_of: [ranks]
 * pipeline ranks, for the shades of virtual stages; names: [ranks] of rows. Errors: LS_ERR_MEMORY,
 * those of ls_new_file_create. */
ls_status ls_replay_svg(const char *path, const ls_event_log *log, const ls_replay *replay,
                        int step, const int *stage_of, const char (*names)[LS_REPLAY_NAME],
                        const char *title) LS_MUST_USE;

#endif
