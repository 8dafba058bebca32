#include "comm/trace_lane.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/base/clock.h"
#include "base/allocate.h"

enum {
    /* A label that comes within this time after the last event labels what has passed as well: an
     * event less, and no time lost. */
    AT_ONCE_NS = 2000
};

static ls_event_kind kind_of(ls_call_kind kind, bool buffered)
{
    switch (kind) {
    case LS_CALL_SEND:
        return buffered ? LS_EVENT_SEND_LEFT : LS_EVENT_SEND;
    case LS_CALL_SEND_BEGIN:
        return LS_EVENT_SEND_BEGIN;
    case LS_CALL_SEND_END:
        return LS_EVENT_SEND_END;
    case LS_CALL_RECEIVE:
        return LS_EVENT_RECEIVE;
    default:
        return LS_EVENT_COLLECTIVE;
    }
}

static void append(ls_trace_lane *lane, const ls_event *event)
{
    ls_event *events = ls_grown(lane->events, lane->n, &lane->room, sizeof *events);
    if (events == NULL) {
        lane->out_of_room = true;
        return;
    }
    lane->events = events;
    lane->events[lane->n++] = *event;
}

/* An event that begins where the last one has ended, under the current label. */
static ls_event next_event(const ls_trace_lane *lane, ls_event_kind kind)
{
    return (ls_event){.kind = kind,
                      .begin_ns = lane->wall_ns,
                      .what = lane->what,
                      .step = lane->step,
                      .stage = lane->stage,
                      .micro_batch = lane->micro_batch,
                      .part = lane->part,
                      .operation = LS_OP_COUNT,
                      .group = -1,
                      .peer = -1};
}

/* Ends `event` now. */
static void end_event(ls_trace_lane *lane, ls_event *event)
{
    uint64_t wall = ls_clock_ns() - lane->zero_ns, cpu = ls_clock_thread_cpu_ns();
    event->end_ns = wall;
    event->cpu_ns = cpu - lane->cpu_ns;
    append(lane, event);
    lane->wall_ns = wall;
    lane->cpu_ns = cpu;
}

static void end_current(ls_trace_lane *lane)
{
    ls_event computing = next_event(lane, LS_EVENT_COMPUTE);
    end_event(lane, lane->is_open ? &lane->open : &computing);
    lane->is_open = false;
}

void ls_trace_start(ls_rank *rank)
{
    ls_trace_lane *lane = rank->lane;
    if (lane == NULL) return;
    lane->step = lane->stage = lane->micro_batch = -1;
    lane->buffered = rank->world->options.channel_capacity > 0;
    lane->wall_ns = ls_clock_ns() - lane->zero_ns;
    lane->cpu_ns = ls_clock_thread_cpu_ns();
}

void ls_trace_stop(ls_rank *rank)
{
    if (rank->lane != NULL) end_current(rank->lane);
}

ls_status ls_trace_enter(const ls_group *group, ls_call_kind kind, ls_operation operation,
                         uint64_t bytes)
{
    ls_status status = LS_OK;
    ls_trace_lane *lane = group->rank->lane;
    if (lane == NULL) return LS_OK;
    end_current(lane);
    if (lane->out_of_room)
        LS_FAIL(LS_ERR_MEMORY, "out of memory: no room for event %zu of the trace", lane->n + 1);
    lane->open = next_event(lane, kind_of(kind, lane->buffered));
    lane->open.call = ls_call_name(kind);
    if (lane->open.kind != LS_EVENT_COLLECTIVE) lane->open.purpose = lane->purpose;
    lane->open.operation = operation;
    lane->open.group = group->team->number;
    lane->open.bytes = bytes;
    lane->is_open = true;
exit:
    return status;
}

void ls_trace_number(const ls_rank *rank, uint64_t number)
{
    if (rank->lane != NULL) rank->lane->open.number = number;
}

void ls_trace_message(const ls_group *group, int peer, int tag, uint64_t number)
{
    ls_trace_lane *lane = group->rank->lane;
    if (lane == NULL) return;
    lane->open.peer = group->team->world_ranks[peer];
    lane->open.tag = tag;
    lane->open.number = number;
}

void ls_trace_leave(const ls_rank *rank)
{
    if (rank->lane != NULL && rank->lane->is_open) end_current(rank->lane);
}

size_t ls_trace_length(const ls_rank *rank)
{
    return rank->lane != NULL ? rank->lane->n : 0;
}

/* What has been done so far keeps the label that it had. */
static void begin_label(ls_trace_lane *lane)
{
    if (ls_clock_ns() - lane->zero_ns - lane->wall_ns > AT_ONCE_NS) end_current(lane);
}

void ls_trace_task(ls_rank *rank, const char *what, int step, int stage, int micro_batch)
{
    ls_trace_lane *lane = rank->lane;
    if (lane == NULL) return;
    begin_label(lane);
    lane->part = lane->purpose = NULL;
    lane->what = what;
    lane->step = step;
    lane->stage = stage;
    lane->micro_batch = micro_batch;
}

/* The lane's own copy of a word. */
static const char *keep_word(ls_trace_lane *lane, const char *word)
{
    if (word == NULL) return NULL;
    for (size_t i = 0; i < lane->n_words; i++)
        if (strcmp(lane->words[i], word) == 0) return lane->words[i];
    char **larger = ls_resized(lane->words, lane->n_words + 1, sizeof *larger);
    if (larger != NULL) lane->words = larger;
    char *copy = larger != NULL ? ls_text_copy(word) : NULL;
    if (copy == NULL)
        lane->out_of_room = true;
    else
        lane->words[lane->n_words++] = copy;
    return copy;
}

void ls_trace_part(ls_rank *rank, const char *part, const char *purpose)
{
    ls_trace_lane *lane = rank->lane;
    if (lane == NULL) return;
    begin_label(lane);
    lane->part = keep_word(lane, part);
    lane->purpose = keep_word(lane, purpose);
}
