#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/json_text.h"
#include "io/new_file.h"
#include "train/trace_file.h"
#include "base/allocate.h"

/* Pieces are gathered before they are written. A failure is kept: the others then do nothing. */
typedef struct writer {
    ls_new_file *file;
    char bytes[1 << 14];
    size_t used;
    ls_status status;
} writer;

static void flush(writer *w)
{
    if (w->status == LS_OK) w->status = ls_new_file_write(w->file, w->bytes, w->used);
    w->used = 0;
}

LS_PRINTF(2, 3) static void put(writer *w, const char *format, ...)
{
    enum { LONGEST = 512 };
    va_list arguments;
    if (w->used + LONGEST > sizeof w->bytes) flush(w);
    va_start(arguments, format);
    w->used = ls_append_list(w->bytes, w->used + LONGEST, w->used, format, arguments);
    va_end(arguments);
}

/* A string with its quotes. */
static void put_string(writer *w, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string != NULL ? ls_json_write(string, JSON_ENCODE_ANY) : NULL;
    if (w->status == LS_OK && quoted == NULL)
        w->status = ls_error_record(LS_ERR_MEMORY, __FILE__, __LINE__,
                                    "out of memory: no room for a word of the trace");
    /* Names are short, but nothing says how short. */
    for (const char *at = quoted; at != NULL && *at != '\0'; at++) put(w, "%c", *at);
    free(quoted);
    json_decref(string);
}

static void put_facts(writer *w, const ls_trace_facts *facts, const ls_layout *layout,
                      const ls_event_log *log)
{
    put(w, "{\"displayTimeUnit\": \"ns\",\n\"otherData\": {\"format\": \"lockstep trace 1\",\n");
    put(w, "\"model\": ");
    put_string(w, facts->model);
    put(w, ", \"layout\": ");
    put_string(w, facts->layout);
    put(w, ", \"schedule\": ");
    put_string(w, facts->schedule);
    put(w, ",\n\"pp\": %d, \"micro_batches\": %d, \"virtual_stages\": %d,\n", facts->pp,
        facts->micro_batches, facts->virtual_stages);
    put(w, "\"steps\": %" PRIu64 ", \"wall_ns\": %" PRIu64 ", \"serial_step_ns\": %" PRIu64 ",\n",
        facts->steps, facts->wall_ns, facts->serial_step_ns);
    if (facts->net)
        put(w, "\"network\": {\"dp\": %d, \"down\": %d, \"across\": %d, \"channel\": %d},\n",
            facts->dp, facts->down, facts->across, facts->channels);
    put(w, "\"ranks\": %d, \"stage_of\": [", log->ranks);
    for (int r = 0; r < log->ranks; r++)
        put(w, "%s%d", r > 0 ? ", " : "", ls_layout_coordinates(layout, r).pp);
    put(w, "],\n\"groups\": [");
    for (int g = 0; g < log->n_groups; g++) {
        put(w, "%s{\"name\": ", g > 0 ? ",\n" : "");
        put_string(w, log->groups[g].name);
        put(w, ", \"ranks\": [");
        for (int m = 0; m < log->groups[g].size; m++)
            put(w, "%s%d", m > 0 ? ", " : "", log->groups[g].world_ranks[m]);
        put(w, "]}");
    }
    put(w, "]},\n\"traceEvents\": [\n");
}

/* The process that a rank is shown in. */
static int process_of(const ls_trace_facts *facts, const ls_layout *layout, int rank)
{
    const ls_coordinates at = ls_layout_coordinates(layout, rank);
    return facts->net ? at.dp : at.pp;
}

/* Names of processes and threads. */
static void put_names(writer *w, const ls_trace_facts *facts, const ls_layout *layout, int ranks)
{
    for (int p = 0; p < (facts->net ? layout->dp : layout->pp); p++)
        put(w,
            "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"tid\": 0, \"args\": "
            "{\"name\": \"%s %d\"}},\n",
            p, facts->net ? "replica" : "pipeline rank", p);
    for (int r = 0; r < ranks; r++) {
        ls_coordinates at = ls_layout_coordinates(layout, r);
        put(w,
            "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": "
            "{\"name\": \"rank %d (",
            process_of(facts, layout, r), r, r);
        if (facts->net)
            put(w, "row %d, column %d, channel %d", at.row, at.column, at.channel);
        else
            put(w, "tp %d, dp %d", at.tp, at.dp);
        put(w, ")\"}},\n");
    }
}

/* Nanoseconds as microseconds, exactly. */
#define MICROSECONDS "%" PRIu64 ".%03u"
#define AS_MICROSECONDS(ns) (ns) / 1000, (unsigned)((ns) % 1000)

/* One end of a message's arrow. */
static void put_arrow(writer *w, const ls_event *event, int rank, int pid)
{
    bool arrives = event->kind == LS_EVENT_RECEIVE;
    if (!arrives && event->operation != LS_OP_SEND) return;
    put(w,
        ",\n{\"ph\": \"%s\", \"name\": \"message\", \"cat\": \"message\", \"id\": \"%d:%" PRIu64
        "\", \"pid\": %d, \"tid\": %d, \"ts\": " MICROSECONDS "%s}",
        arrives ? "f" : "s", arrives ? event->peer : rank, event->number, pid, rank,
        AS_MICROSECONDS(arrives ? event->end_ns : event->begin_ns),
        arrives ? ", \"bp\": \"e\"" : "");
}

static void put_name(writer *w, const ls_event_log *log, const ls_event *event)
{
    char name[160];
    const char *group = event->group >= 0 ? log->groups[event->group].name : "";
    if (event->part != NULL) {
        ls_event_title(event, group, name, sizeof name);
    } else if (event->kind == LS_EVENT_COMPUTE) {
        const size_t used =
            ls_append(name, sizeof name, 0, "%s", event->what != NULL ? event->what : "compute");
        if (event->micro_batch >= 0) ls_append(name, sizeof name, used, " %d", event->micro_batch);
    } else {
        snprintf(name, sizeof name, "%s %s", event->call, group);
    }
    put_string(w, name);
}

static void put_word(writer *w, const char *key, const char *word)
{
    if (word == NULL) return;
    put(w, ", \"%s\": ", key);
    put_string(w, word);
}

static void put_event(writer *w, const ls_event_log *log, int rank, size_t i, int pid)
{
    const ls_event *e = &log->events[rank][i];
    bool computes = e->kind == LS_EVENT_COMPUTE, collective = e->kind == LS_EVENT_COLLECTIVE;
    put(w, "{\"ph\": \"X\", \"name\": ");
    put_name(w, log, e);
    put(w,
        ", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": " MICROSECONDS
        ", \"dur\": " MICROSECONDS ", \"args\": {\"event\": %zu, \"kind\": \"%s\", ",
        computes ? "compute" : "communication", pid, rank, AS_MICROSECONDS(e->begin_ns),
        AS_MICROSECONDS(e->end_ns - e->begin_ns), i, ls_event_kind_name(e->kind));
    put(w, "\"begin_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64, e->begin_ns,
        e->end_ns, e->cpu_ns);
    put_word(w, "what", e->what);
    if (e->step >= 0) put(w, ", \"step\": %d", e->step);
    if (e->stage >= 0) put(w, ", \"stage\": %d", e->stage);
    if (e->micro_batch >= 0) put(w, ", \"micro_batch\": %d", e->micro_batch);
    put_word(w, "part", e->part);
    put_word(w, "purpose", e->purpose);
    if (!computes) {
        put(w, ", \"call\": ");
        put_string(w, e->call);
        put(w,
            ", \"operation\": \"%s\", \"group\": %d, \"number\": %" PRIu64 ", \"bytes\": %" PRIu64,
            e->operation == LS_OP_COUNT ? "none" : ls_operation_name(e->operation), e->group,
            e->number, e->bytes);
        if (!collective) put(w, ", \"peer\": %d, \"tag\": %d", e->peer, e->tag);
    }
    put(w, "}}");
    if (!computes && !collective) put_arrow(w, e, rank, pid);
}

ls_status ls_trace_file_write(const char *path, const ls_trace_facts *facts,
                              const ls_layout *layout, const ls_event_log *log)
{
    ls_status status = LS_OK;
    bool first = true;
    writer *w = NULL;
    LS_NEW(w, 1);
    LS_TRY(ls_new_file_create(&w->file, path));
    put_facts(w, facts, layout, log);
    put_names(w, facts, layout, log->ranks);
    for (int r = 0; r < log->ranks; r++) {
        int pid = process_of(facts, layout, r);
        for (size_t i = 0; i < log->n_events[r] && w->status == LS_OK; i++) {
            if (!first) put(w, ",\n");
            first = false;
            put_event(w, log, r, i, pid);
        }
    }
    put(w, "\n]}\n");
    flush(w);
    LS_TRY(w->status);
    LS_TRY(ls_new_file_commit(w->file));
exit:
    if (w != NULL) ls_new_file_destroy(&w->file);
    free(w);
    return status;
}
