/* trace_file.h - a traced run as a file that Perfetto and Chrome show and `lockstep replay` reads.
 *
 * The file is one JSON object in Chrome's trace format: "traceEvents" are complete events (ph "X")
 * with times in microseconds for the eye, a process per pipeline rank (of a network: per replica)
 * and a thread per rank, and arrows for messages. What is exact is in each event's "args":
 * whole nanoseconds, CPU time, task, call, group, numbers, bytes. What the run was is in
 * "otherData". */
#ifndef LS_TRAIN_TRACE_FILE_H
#define LS_TRAIN_TRACE_FILE_H

#include "lockstep/comm/trace.h"
#include "lockstep/partition/layout.h"

/* What the run was. */
typedef struct ls_trace_facts {
    char model[64];
    char layout[200];  /* in words: ls_layout_describe */
    char schedule[16]; /* "1f1b" */
    int pp, micro_batches, virtual_stages;
    bool net;                       /* a convolutional network, in these degrees */
    int dp, down, across, channels; /* else 0 */
    uint64_t steps;                 /* in the trace */
    uint64_t wall_ns;               /* of all steps, as the clock on the wall had it */
    uint64_t serial_step_ns; /* CPU time that a step takes the serial baseline; 0: not known */
} ls_trace_facts;

/* Writes; the file appears whole or not at all. layout: for processes and names. Errors: those of
 * ls_new_file_create and ls_new_file_write; LS_ERR_MEMORY. */
ls_status ls_trace_file_write(const char *path, const ls_trace_facts *facts,
                              const ls_layout *layout, const ls_event_log *log) LS_MUST_USE;

/* A file that was read; owns the log and the words in it. */
typedef struct ls_trace_file {
    ls_trace_facts facts;
    int *stage_of;    /* [ranks]: pipeline rank */
    ls_event_log log; /* events in order, every number in its range; whether they match each other
                         is for ls_replay_create to find */
    char **words;     /* that events point to */
    size_t n_words;
} ls_trace_file;

/* Reads and checks. Errors: LS_ERR_INPUT, one line with the file, the number of the event in
 * "traceEvents" and the key, what was found and what is allowed; LS_ERR_IO, LS_ERR_MEMORY. */
ls_status ls_trace_file_read(const char *path, ls_trace_file **ret_file) LS_MUST_USE;
void ls_trace_file_free(ls_trace_file **file);

#endif
