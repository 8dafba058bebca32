/* dump_calls.c - every call of a collective and every message, a JSON object per line. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "io/new_file.h"
#include "lockstep/comm/trace.h"
#include "golden/dump_parts.h"
#include "base/allocate.h"

/* A growing text. */
typedef struct lines {
    ls_new_file *file;
    char *text;
    size_t used, room;
} lines;

static ls_status members_of(const ls_event_group *group, json_t **ret_members)
{
    ls_status status = LS_OK;
    json_t *members = json_array();
    for (int i = 0; members && i < group->size; i++)
        json_array_append_new(members, json_integer(group->world_ranks[i]));
    if (!members) LS_NO_MEMORY("the list of calls");
    *ret_members = members;
exit:
    return status;
}

static ls_status make_line(const ls_event_log *log, int rank, const ls_event *e, json_t **ret_line)
{
    ls_status status = LS_OK;
    json_t *members = NULL;
    json_t *line =
        json_pack("{s:i, s:i, s:s, s:i, s:i, s:s}", "rank", rank, "step", e->step, "task", e->what,
                  "stage", e->stage, "micro_batch", e->micro_batch, "call", e->call);
    if (!line) LS_NO_MEMORY("the list of calls");
    if (e->peer >= 0) {
        json_object_set_new(line, "peer", json_integer(e->peer));
        json_object_set_new(line, "tag", json_integer(e->tag));
    } else {
        LS_TRY(members_of(&log->groups[e->group], &members));
        json_object_set_new(line, "group", json_string(log->groups[e->group].name));
        json_object_set_new(line, "members", members);
    }
    json_object_set_new(line, "number", json_integer((json_int_t)e->number));
    json_object_set_new(line, "bytes", json_integer((json_int_t)e->bytes));
    *ret_line = line;
    line = NULL;
exit:
    json_decref(line);
    return status;
}

/* The names of a call's tensors, as lists in the line that tells of it. */
static void add_name(void *context, bool in, const char *name)
{
    json_t *line = context;
    const char *key = in ? "in" : "out";
    if (!json_object_get(line, key)) json_object_set_new(line, key, json_array());
    json_array_append_new(json_object_get(line, key), json_string(name));
}

static ls_status flush(lines *l)
{
    ls_status status = LS_OK;
    LS_TRY(ls_new_file_write(l->file, l->text, l->used));
    l->used = 0;
exit:
    return status;
}

static ls_status append(lines *l, json_t *line)
{
    ls_status status = LS_OK;
    char *text = ls_json_write(line, JSON_COMPACT);
    if (!text) LS_NO_MEMORY("the list of calls");
    const size_t length = strlen(text);
    if (l->used + length + 1 > l->room) LS_TRY(flush(l));
    if (length + 1 > l->room) {
        LS_TRY(ls_new_file_write(l->file, text, length));
        LS_TRY(ls_new_file_write(l->file, "\n", 1));
        goto exit;
    }
    memcpy(l->text + l->used, text, length);
    l->used += length;
    l->text[l->used++] = '\n';
exit:
    free(text);
    return status;
}

/* What belongs to no step - setting up, looking on - is left out. */
static bool is_call(const ls_event *e)
{
    return e->kind != LS_EVENT_COMPUTE && e->step >= 0 && e->what && e->call;
}

ls_status ls_dump_write_calls(dump *d, const ls_trace *trace)
{
    ls_status status = LS_OK;
    const ls_event_log *log = ls_trace_log(trace);
    lines l = {.room = 1 << 16};
    json_t *line = NULL;
    const char *path;
    LS_TRY(ls_dump_path(d, "collectives.jsonl", &path));
    LS_ROOM(l.text, l.room);
    LS_TRY(ls_new_file_create(&l.file, path));
    for (int r = 0; r < log->ranks; r++) {
        size_t at = 0; /* in what the rank showed */
        for (size_t i = 0; i < log->n_events[r]; i++) {
            if (!is_call(&log->events[r][i])) continue;
            LS_TRY(make_line(log, r, &log->events[r][i], &line));
            if (d->ranks)
                ls_dump_ranks_of_call(d, r, &log->events[r][i], log->events[r], log->n_events[r],
                                      &at, add_name, line);
            LS_TRY(append(&l, line));
            json_decref(line);
            line = NULL;
        }
    }
    LS_TRY(flush(&l));
    LS_TRY(ls_new_file_commit(l.file));
    LS_TRY(ls_dump_note(d, "collectives.jsonl", path, false));
exit:
    json_decref(line);
    ls_new_file_destroy(&l.file);
    free(l.text);
    return status;
}
