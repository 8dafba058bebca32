#include "lockstep/comm/trace.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/trace_lane.h"
#include "lockstep/base/clock.h"
#include "base/allocate.h"

struct ls_trace {
    ls_trace_lane *lanes; /* while a world runs */
    int n_lanes;
    ls_event_log log; /* afterwards */
};

static void empty(ls_trace *trace)
{
    for (int r = 0; r < trace->n_lanes; r++) {
        ls_trace_lane *lane = &trace->lanes[r];
        for (size_t i = 0; i < lane->n_words; i++) free(lane->words[i]);
        free(lane->words);
        free(lane->events);
    }
    free(trace->lanes);
    ls_event_log *log = &trace->log;
    for (int r = 0; log->events != NULL && r < log->ranks; r++) free(log->events[r]);
    for (int g = 0; g < log->n_groups; g++) {
        free(log->groups[g].name);
        free(log->groups[g].world_ranks);
    }
    free(log->events);
    free(log->n_events);
    free(log->groups);
    memset(trace, 0, sizeof *trace);
}

ls_status ls_trace_create(ls_trace **ret_trace)
{
    ls_status status = LS_OK;
    ls_trace *trace = NULL;
    LS_NEW(trace, 1);
    *ret_trace = trace;
exit:
    return status;
}

void ls_trace_destroy(ls_trace **trace)
{
    if (*trace == NULL) return;
    empty(*trace);
    free(*trace);
    *trace = NULL;
}

ls_status ls_trace_open(ls_trace *trace, int n_ranks, ls_trace_lane **ret_lanes)
{
    ls_status status = LS_OK;
    empty(trace);
    LS_NEW(trace->lanes, (size_t)n_ranks);
    trace->n_lanes = n_ranks;
    uint64_t now = ls_clock_ns();
    for (int r = 0; r < n_ranks; r++) trace->lanes[r].zero_ns = now;
    *ret_lanes = trace->lanes;
exit:
    return status;
}

/* ---- the end: ranks have made the groups in an order that differs from run to run, so they are
 * numbered anew */

static int by_first_member(const void *a, const void *b)
{
    const ls_team *x = *(const ls_team *const *)a, *y = *(const ls_team *const *)b;
    if (x->world_ranks[0] != y->world_ranks[0])
        return x->world_ranks[0] < y->world_ranks[0] ? -1 : 1;
    return x->met < y->met ? -1 : x->met > y->met;
}

static ls_status copy_group(ls_event_group *ret_group, const ls_team *team)
{
    ls_status status = LS_OK;
    ls_event_group group = {NULL, team->size, NULL};
    LS_COPY(group.name, team->name);
    LS_ROOM(group.world_ranks, (size_t)team->size);
    memcpy(group.world_ranks, team->world_ranks, (size_t)team->size * sizeof *group.world_ranks);
    *ret_group = group;
exit:
    if (status != LS_OK) {
        free(group.name);
        free(group.world_ranks);
    }
    return status;
}

ls_status ls_trace_close(ls_trace *trace, const ls_world *world)
{
    ls_status status = LS_OK;
    ls_event_log *log = &trace->log;
    size_t n = (size_t)world->n_ranks, n_teams = (size_t)world->n_teams, i = 0;
    const ls_team **teams = NULL;
    int *renumbered = NULL;
    LS_NEW(log->groups, n_teams);
    LS_NEW(log->events, n);
    LS_NEW(log->n_events, n);
    LS_ROOM(teams, n_teams);
    LS_ROOM(renumbered, n_teams);
    for (const ls_team *team = world->teams; team != NULL; team = team->next) teams[i++] = team;
    assert(i == n_teams);
    qsort(teams, n_teams, sizeof *teams, by_first_member);
    for (size_t g = 0; g < n_teams; g++) {
        renumbered[teams[g]->number] = (int)g;
        LS_TRY(copy_group(&log->groups[g], teams[g]));
        log->n_groups++;
    }
    log->ranks = world->n_ranks;
    for (int r = 0; r < log->ranks; r++) {
        ls_trace_lane *lane = &trace->lanes[r];
        for (size_t e = 0; e < lane->n; e++)
            if (lane->events[e].group >= 0)
                lane->events[e].group = renumbered[lane->events[e].group];
        log->events[r] = lane->events;
        log->n_events[r] = lane->n;
        lane->events = NULL;
        if (lane->out_of_room)
            LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for event %zu of the trace",
                    lane->n + 1);
    }
exit:
    free(teams);
    free(renumbered);
    return status;
}

const ls_event_log *ls_trace_log(const ls_trace *trace)
{
    return &trace->log;
}

const ls_event *ls_trace_events(const ls_trace *trace, int rank, size_t *ret_count)
{
    assert(rank >= 0 && rank < trace->log.ranks);
    *ret_count = trace->log.n_events[rank];
    return trace->log.events[rank];
}

void ls_event_title(const ls_event *event, const char *group, char *buffer, size_t size)
{
    const char *part = event->part != NULL ? event->part : "";
    if (event->kind == LS_EVENT_COMPUTE)
        snprintf(buffer, size, "%s %s", event->what != NULL ? event->what : "compute", part);
    else if (event->kind == LS_EVENT_COLLECTIVE)
        snprintf(buffer, size, "%s %s%s%s", part, event->call, *group != '\0' ? " " : "", group);
    else
        snprintf(buffer, size, "%s%s%s %s", event->purpose != NULL ? event->purpose : "",
                 event->purpose != NULL ? " " : "", part, event->call);
}

const char *ls_event_kind_name(ls_event_kind kind)
{
    switch (kind) {
    case LS_EVENT_COMPUTE:
        return "compute";
    case LS_EVENT_COLLECTIVE:
        return "collective";
    case LS_EVENT_SEND:
        return "send";
    case LS_EVENT_SEND_LEFT:
        return "send_left";
    case LS_EVENT_SEND_BEGIN:
        return "send_begin";
    case LS_EVENT_SEND_END:
        return "send_end";
    case LS_EVENT_RECEIVE:
        return "receive";
    case LS_EVENT_KINDS:
        break;
    }
    return "?";
}
