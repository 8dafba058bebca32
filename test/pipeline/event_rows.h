/* event_rows.h - event logs made by hand. */
#ifndef LS_TEST_PIPELINE_EVENT_ROWS_H
#define LS_TEST_PIPELINE_EVENT_ROWS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/replay.h"

enum { ROW_MOST = 2000, ROW_RANKS = 64 };

/* Events are appended rank by rank; sends are numbered as they come, and a receive names the
 * number itself. */
typedef struct event_rows {
    ls_event_log log;
    uint64_t sends[ROW_RANKS];
    ls_event_group groups[4];
    int everybody[ROW_RANKS];
    int step; /* of what is appended */
    const char *what;
    int micro_batch;
} event_rows;

__attribute__((unused)) static event_rows *rows_new(int ranks)
{
    event_rows *rows = calloc(1, sizeof *rows);
    static char name[] = "world";
    rows->log.ranks = ranks;
    rows->log.events = calloc((size_t)ranks, sizeof *rows->log.events);
    rows->log.n_events = calloc((size_t)ranks, sizeof *rows->log.n_events);
    for (int r = 0; r < ranks; r++) {
        rows->log.events[r] = calloc(ROW_MOST, sizeof **rows->log.events);
        rows->everybody[r] = r;
    }
    rows->groups[0] = (ls_event_group){name, ranks, rows->everybody};
    rows->log.groups = rows->groups;
    rows->log.n_groups = 1;
    rows->step = -1;
    rows->micro_batch = -1;
    return rows;
}

__attribute__((unused)) static void rows_free(event_rows **rows)
{
    for (int r = 0; r < (*rows)->log.ranks; r++) free((*rows)->log.events[r]);
    free((*rows)->log.events);
    free((*rows)->log.n_events);
    free(*rows);
    *rows = NULL;
}

__attribute__((unused)) static ls_event *append(event_rows *rows, int rank, ls_event_kind kind)
{
    ck_assert(rows->log.n_events[rank] < ROW_MOST);
    ls_event *e = &rows->log.events[rank][rows->log.n_events[rank]++];
    *e = (ls_event){.kind = kind,
                    .what = rows->what,
                    .step = rows->step,
                    .stage = -1,
                    .micro_batch = rows->micro_batch,
                    .operation = LS_OP_COUNT,
                    .group = kind == LS_EVENT_COMPUTE ? -1 : 0,
                    .call = kind == LS_EVENT_COMPUTE ? NULL : ls_event_kind_name(kind),
                    .peer = -1};
    return e;
}

__attribute__((unused)) static void compute(event_rows *rows, int rank, uint64_t cpu_ns)
{
    ls_event *e = append(rows, rank, LS_EVENT_COMPUTE);
    e->cpu_ns = cpu_ns;
    /* What the wall clock said is of no account: ranks took turns. */
    e->begin_ns = 1000000 * (uint64_t)rank;
    e->end_ns = e->begin_ns + 77 * cpu_ns + 5;
}

__attribute__((unused)) static void collective(event_rows *rows, int rank, ls_operation operation,
                                               int group, uint64_t number, uint64_t bytes)
{
    ls_event *e = append(rows, rank, LS_EVENT_COLLECTIVE);
    e->operation = operation;
    e->call = ls_operation_name(operation);
    e->group = group;
    e->number = number;
    e->bytes = bytes;
    e->cpu_ns = 12345; /* spent in waiting: of no account */
}

/* kind: LS_EVENT_SEND, _LEFT or _BEGIN. Returns the message's number. */
__attribute__((unused)) static uint64_t post(event_rows *rows, int rank, ls_event_kind kind, int to,
                                             uint64_t bytes)
{
    ls_event *e = append(rows, rank, kind);
    e->operation = LS_OP_SEND;
    e->peer = to;
    e->bytes = bytes;
    return e->number = ++rows->sends[rank];
}

__attribute__((unused)) static void end_send(event_rows *rows, int rank, int to, uint64_t number)
{
    ls_event *e = append(rows, rank, LS_EVENT_SEND_END);
    e->peer = to;
    e->number = number;
}

__attribute__((unused)) static void receive(event_rows *rows, int rank, int from, uint64_t number)
{
    ls_event *e = append(rows, rank, LS_EVENT_RECEIVE);
    e->operation = LS_OP_RECEIVE;
    e->peer = from;
    e->number = number;
}

#endif
