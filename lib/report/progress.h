/* progress.h - how far a long job is, and how long it will still take, on a terminal.
 *
 * One line that is written over. Where the output is no terminal, nothing is drawn: the job's own
 * lines tell how far it is. */
#ifndef LS_REPORT_PROGRESS_H
#define LS_REPORT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct ls_progress {
    FILE *file;
    bool drawn; /* a line is there now */
    bool terminal;
    uint64_t total, done; /* units of work, all about equally long */
    uint64_t started_ns, drawn_ns;
    char text[128];
} ls_progress;

/* Begins at 0 of `total` units; file: where to draw, if it is a terminal. */
void ls_progress_begin(ls_progress *progress, FILE *file, uint64_t total);

/* `units` more are done; text: what is being done now. Draws at most ten times a second. */
void ls_progress_advance(ls_progress *progress, uint64_t units, const char *text);

/* Takes the line away, so that other lines can be printed. */
void ls_progress_clear(ls_progress *progress);

/* Writes "1 h 02 min", "2 min 03 s", "4 s". */
void ls_progress_time(uint64_t ns, char *buffer, size_t size);

#endif
