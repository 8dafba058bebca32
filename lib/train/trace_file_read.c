#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/read_file.h"
#include "lockstep/base/show.h"
#include "train/trace_file.h"
#include "train/trace_file_values.h"
#include "base/allocate.h"

enum { MOST_GROUPS = 1 << 20, LABEL_BYTES = 480 };

static const size_t MOST_BYTES = (size_t)1 << 30;
static const int64_t MOST_NS = 1000000000000000, MOST_NUMBER = (int64_t)1 << 53;

/* ---- what the run was */

static ls_status read_group(ls_trace_reader *r, const json_t *object, int number)
{
    ls_status status = LS_OK;
    ls_event_log *log = &r->file->log;
    ls_event_group *group = &log->groups[number];
    const char *name = NULL;
    unsigned char seen[LS_MAX_RANKS] = {0};
    snprintf(r->place, sizeof r->place, "otherData.groups[%d]", number);
    if (!json_is_object(object))
        LS_FAIL(LS_ERR_INPUT, "%s: %s %s: must be an object", ls_show(r->path), r->place,
                ls_trace_show_value(object));
    LS_TRY(ls_trace_read_name(r, object, "name", LS_TRACE_WORD_BYTES, &name));
    const json_t *ranks = json_object_get(object, "ranks");
    size_t size = json_array_size(ranks);
    if (size < 1 || size > (size_t)log->ranks)
        LS_FAIL(LS_ERR_INPUT, "%s: %s.ranks %s: must be a list of 1 to %d ranks", ls_show(r->path),
                r->place, ls_trace_show_value(ranks), log->ranks);
    LS_COPY(group->name, name);
    LS_ROOM(group->world_ranks, size);
    for (size_t m = 0; m < size; m++) {
        const json_t *value = json_array_get(ranks, m);
        json_int_t rank = json_is_integer(value) ? json_integer_value(value) : -1;
        if (rank < 0 || rank >= log->ranks || seen[rank])
            LS_FAIL(LS_ERR_INPUT, "%s: %s.ranks[%zu] %s: must be a rank from 0 to %d, each once",
                    ls_show(r->path), r->place, m, ls_trace_show_value(value), log->ranks - 1);
        seen[rank] = 1;
        group->world_ranks[m] = (int)rank;
    }
    group->size = (int)size;
exit:
    return status;
}

/* The degrees of a network, whose product is the number of ranks. */
static ls_status read_network(ls_trace_reader *r, const json_t *network)
{
    ls_status status = LS_OK;
    ls_trace_facts *facts = &r->file->facts;
    const int ranks = r->file->log.ranks;
    if (network == NULL) return LS_OK;
    snprintf(r->place, sizeof r->place, "otherData.network");
    LS_TRY(ls_trace_read_int(r, network, "dp", 1, ranks, &facts->dp));
    LS_TRY(ls_trace_read_int(r, network, "down", 1, ranks, &facts->down));
    LS_TRY(ls_trace_read_int(r, network, "across", 1, ranks, &facts->across));
    LS_TRY(ls_trace_read_int(r, network, "channel", 1, ranks, &facts->channels));
    const double product =
        (double)facts->dp * facts->down * facts->across * (double)facts->channels;
    if (product != (double)ranks)
        LS_FAIL(LS_ERR_INPUT, "%s: %s %s: must be %d ranks", ls_show(r->path), r->place,
                ls_trace_show_value(network), ranks);
    facts->net = true;
exit:
    return status;
}

static ls_status read_facts(ls_trace_reader *r, const json_t *data)
{
    ls_status status = LS_OK;
    ls_trace_facts *facts = &r->file->facts;
    ls_event_log *log = &r->file->log;
    static const char *const formats[] = {"lockstep trace 1"};
    const char *model, *layout, *schedule;
    int format = 0, ranks = 0;
    snprintf(r->place, sizeof r->place, "otherData");
    LS_TRY(ls_trace_read_choice(r, data, "format", formats, 1, &format));
    LS_TRY(ls_trace_read_name(r, data, "model", sizeof facts->model - 1, &model));
    LS_TRY(ls_trace_read_name(r, data, "layout", sizeof facts->layout - 1, &layout));
    LS_TRY(ls_trace_read_name(r, data, "schedule", sizeof facts->schedule - 1, &schedule));
    snprintf(facts->model, sizeof facts->model, "%s", model);
    snprintf(facts->layout, sizeof facts->layout, "%s", layout);
    snprintf(facts->schedule, sizeof facts->schedule, "%s", schedule);
    LS_TRY(ls_trace_read_int(r, data, "pp", 1, LS_MAX_STAGES, &facts->pp));
    LS_TRY(ls_trace_read_int(r, data, "micro_batches", 1, INT_MAX, &facts->micro_batches));
    LS_TRY(ls_trace_read_int(r, data, "virtual_stages", 1, LS_MAX_STAGES, &facts->virtual_stages));
    LS_TRY(ls_trace_read_unsigned(r, data, "steps", 0, UINT32_MAX, &facts->steps));
    LS_TRY(ls_trace_read_unsigned(r, data, "wall_ns", 0, MOST_NS, &facts->wall_ns));
    LS_TRY(ls_trace_read_unsigned(r, data, "serial_step_ns", 0, MOST_NS, &facts->serial_step_ns));
    LS_TRY(ls_trace_read_int(r, data, "ranks", 1, LS_MAX_RANKS, &ranks));

    size_t n = (size_t)ranks;
    LS_NEW(log->events, n);
    LS_NEW(log->n_events, n);
    LS_NEW(r->file->stage_of, n);
    log->ranks = ranks;
    LS_TRY(read_network(r, json_object_get(data, "network")));
    const json_t *stages = json_object_get(data, "stage_of");
    if (json_array_size(stages) != n)
        LS_FAIL(LS_ERR_INPUT, "%s: otherData.stage_of %s: must be a list of %d numbers",
                ls_show(r->path), ls_trace_show_value(stages), ranks);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(stages, i);
        json_int_t stage = json_is_integer(value) ? json_integer_value(value) : -1;
        if (stage < 0 || stage >= facts->pp)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: otherData.stage_of[%zu] %s: must be a whole number from 0 to %d",
                    ls_show(r->path), i, ls_trace_show_value(value), facts->pp - 1);
        r->file->stage_of[i] = (int)stage;
    }
    const json_t *groups = json_object_get(data, "groups");
    size_t n_groups = json_array_size(groups);
    if (n_groups < 1 || n_groups > MOST_GROUPS)
        LS_FAIL(LS_ERR_INPUT, "%s: otherData.groups %s: must be a list of 1 to %d groups",
                ls_show(r->path), ls_trace_show_value(groups), MOST_GROUPS);
    LS_NEW(log->groups, n_groups);
    log->n_groups = (int)n_groups;
    for (size_t g = 0; g < n_groups; g++) LS_TRY(read_group(r, json_array_get(groups, g), (int)g));
exit:
    return status;
}

/* ---- events */

static bool is_member(const ls_event_group *group, int rank)
{
    for (int m = 0; m < group->size; m++)
        if (group->world_ranks[m] == rank) return true;
    return false;
}

/* Absent: -1. */
static ls_status read_optional(const ls_trace_reader *r, const json_t *args, const char *key,
                               int *ret_value)
{
    *ret_value = -1;
    if (json_object_get(args, key) == NULL) return LS_OK;
    return ls_trace_read_int(r, args, key, 0, INT_MAX, ret_value);
}

/* What an event must count as, from its kind. */
static ls_status check_operation(const ls_trace_reader *r, const ls_event *event)
{
    ls_status status = LS_OK;
    const char *must_be = NULL;
    bool two_sided = event->operation == LS_OP_SEND || event->operation == LS_OP_RECEIVE;
    switch (event->kind) {
    case LS_EVENT_COLLECTIVE:
        if (two_sided) must_be = "a collective's";
        break;
    case LS_EVENT_RECEIVE:
        if (event->operation != LS_OP_RECEIVE) must_be = "receive";
        break;
    case LS_EVENT_SEND_END:
        if (event->operation != LS_OP_COUNT) must_be = "none";
        break;
    default:
        if (event->operation != LS_OP_SEND) must_be = "send";
        break;
    }
    if (must_be != NULL)
        LS_FAIL(LS_ERR_INPUT, "%s: %s.operation \"%s\": of kind %s must be %s", ls_show(r->path),
                r->place,
                event->operation == LS_OP_COUNT ? "none" : ls_operation_name(event->operation),
                ls_event_kind_name(event->kind), must_be);
exit:
    return status;
}

static ls_status read_communication(ls_trace_reader *r, const json_t *args, int rank,
                                    ls_event *event)
{
    ls_status status = LS_OK;
    const ls_event_log *log = &r->file->log;
    const char *operations[LS_OP_COUNT + 1], *call;
    int operation = LS_OP_COUNT;
    for (int i = 0; i < LS_OP_COUNT; i++) operations[i] = ls_operation_name((ls_operation)i);
    operations[LS_OP_COUNT] = "none";
    LS_TRY(ls_trace_read_name(r, args, "call", LS_TRACE_WORD_BYTES, &call));
    LS_TRY(ls_trace_keep_word(r, call, &event->call));
    LS_TRY(ls_trace_read_choice(r, args, "operation", operations, LS_OP_COUNT + 1, &operation));
    event->operation = (ls_operation)operation;
    LS_TRY(check_operation(r, event));
    LS_TRY(ls_trace_read_int(r, args, "group", 0, log->n_groups - 1, &event->group));
    if (!is_member(&log->groups[event->group], rank))
        LS_FAIL(LS_ERR_INPUT, "%s: %s.group %d: rank %d is no member of it", ls_show(r->path),
                r->place, event->group, rank);
    LS_TRY(ls_trace_read_unsigned(r, args, "number", 1, MOST_NUMBER, &event->number));
    LS_TRY(ls_trace_read_unsigned(r, args, "bytes", 0, MOST_NUMBER, &event->bytes));
    if (event->kind == LS_EVENT_COLLECTIVE) return LS_OK;
    LS_TRY(ls_trace_read_int(r, args, "peer", 0, log->ranks - 1, &event->peer));
    if (event->peer == rank || !is_member(&log->groups[event->group], event->peer))
        LS_FAIL(LS_ERR_INPUT, "%s: %s.peer %d: must be another member of group %d",
                ls_show(r->path), r->place, event->peer, event->group);
    LS_TRY(ls_trace_read_int(r, args, "tag", INT_MIN, INT_MAX, &event->tag));
exit:
    return status;
}

static ls_status append(ls_event_log *log, int rank, size_t *rooms, const ls_event *event)
{
    ls_status status = LS_OK;
    LS_GROW(log->events[rank], log->n_events[rank], rooms[rank]);
    log->events[rank][log->n_events[rank]++] = *event;
exit:
    return status;
}

/* Absent: NULL. */
static ls_status read_label(ls_trace_reader *r, const json_t *args, const char *key,
                            const char **ret_label)
{
    ls_status status = LS_OK;
    const char *label;
    if (json_object_get(args, key) == NULL) return LS_OK;
    LS_TRY(ls_trace_read_name(r, args, key, LS_TRACE_WORD_BYTES, &label));
    LS_TRY(ls_trace_keep_word(r, label, ret_label));
exit:
    return status;
}

static ls_status read_event(ls_trace_reader *r, const json_t *object, size_t number, size_t *rooms)
{
    ls_status status = LS_OK;
    ls_event_log *log = &r->file->log;
    ls_event event = {.operation = LS_OP_COUNT, .group = -1, .peer = -1};
    const char *kinds[LS_EVENT_KINDS];
    int rank = 0, kind = 0;
    uint64_t place = 0;
    snprintf(r->place, sizeof r->place, "traceEvents[%zu]", number);
    const char *phase = json_string_value(json_object_get(object, "ph"));
    if (phase == NULL)
        LS_FAIL(LS_ERR_INPUT, "%s: %s %s: must be an object with a string \"ph\"", ls_show(r->path),
                r->place, ls_trace_show_value(object));
    if (strcmp(phase, "X") != 0) return LS_OK; /* names and arrows: for the eye */
    LS_TRY(ls_trace_read_int(r, object, "tid", 0, log->ranks - 1, &rank));
    const json_t *args = json_object_get(object, "args");
    if (!json_is_object(args))
        LS_FAIL(LS_ERR_INPUT, "%s: %s.args %s: must be an object", ls_show(r->path), r->place,
                ls_trace_show_value(args));
    snprintf(r->place, sizeof r->place, "traceEvents[%zu].args", number);
    LS_TRY(ls_trace_read_unsigned(r, args, "event", 0, INT64_MAX, &place));
    if (place != log->n_events[rank])
        LS_FAIL(LS_ERR_INPUT, "%s: %s.event %" PRIu64 ": the next one of rank %d must be %zu",
                ls_show(r->path), r->place, place, rank, log->n_events[rank]);
    for (int k = 0; k < LS_EVENT_KINDS; k++) kinds[k] = ls_event_kind_name((ls_event_kind)k);
    LS_TRY(ls_trace_read_choice(r, args, "kind", kinds, LS_EVENT_KINDS, &kind));
    event.kind = (ls_event_kind)kind;
    LS_TRY(ls_trace_read_unsigned(r, args, "begin_ns", 0, MOST_NS, &event.begin_ns));
    LS_TRY(
        ls_trace_read_unsigned(r, args, "end_ns", (int64_t)event.begin_ns, MOST_NS, &event.end_ns));
    LS_TRY(ls_trace_read_unsigned(r, args, "cpu_ns", 0, MOST_NS, &event.cpu_ns));
    LS_TRY(read_label(r, args, "what", &event.what));
    LS_TRY(read_label(r, args, "part", &event.part));
    LS_TRY(read_label(r, args, "purpose", &event.purpose));
    LS_TRY(read_optional(r, args, "step", &event.step));
    LS_TRY(read_optional(r, args, "stage", &event.stage));
    LS_TRY(read_optional(r, args, "micro_batch", &event.micro_batch));
    if (event.kind != LS_EVENT_COMPUTE) LS_TRY(read_communication(r, args, rank, &event));
    LS_TRY(append(log, rank, rooms, &event));
exit:
    return status;
}

/* ---- the file */

/* Where the two parts of a trace are in its text; those that it lacks stay empty. */
static ls_status find_parts(const ls_trace_reader *r, const char *label, ls_json_span text,
                            ls_json_span *ret_data, ls_json_span *ret_events)
{
    ls_status status = LS_OK;
    ls_json_scan scan;
    ls_json_span key, value;
    ls_json_open(&scan, text, '{');
    while (ls_json_next(&scan, &key, &value)) {
        ls_json_span *part = ls_json_key_is(key, "otherData")     ? ret_data
                             : ls_json_key_is(key, "traceEvents") ? ret_events
                                                                  : NULL;
        if (part == NULL) continue;
        if (part->text != NULL)
            LS_FAIL(LS_ERR_INPUT, "%s: %s is a duplicate: a trace has one", ls_show(r->path),
                    ls_show_bytes(key.text, key.bytes));
        *part = value;
    }
    if (scan.fault != NULL) LS_TRY(ls_json_fault(label, text, &scan));
exit:
    return status;
}

/* The events one after another: the tree of one is gone before the next is made. */
static ls_status read_events(ls_trace_reader *r, ls_json_span events)
{
    ls_status status = LS_OK;
    json_t *object = NULL;
    size_t number = 0, *rooms = NULL;
    char label[LABEL_BYTES];
    ls_json_scan scan;
    ls_json_span value;
    LS_NEW(rooms, (size_t)r->file->log.ranks);
    ls_json_open(&scan, events, '[');
    for (; ls_json_next(&scan, NULL, &value); number++) {
        snprintf(label, sizeof label, "%s: traceEvents[%zu]", ls_show(r->path), number);
        LS_TRY(ls_json_parse(label, value, &object));
        LS_TRY(read_event(r, object, number, rooms));
        json_decref(object);
        object = NULL;
    }
exit:
    json_decref(object);
    free(rooms);
    return status;
}

static ls_status read_text(ls_trace_reader *r, ls_json_span text)
{
    ls_status status = LS_OK;
    ls_json_span data = {NULL, 0}, events = {NULL, 0};
    json_t *root = NULL;
    char label[LABEL_BYTES];
    size_t first = 0;
    snprintf(label, sizeof label, "%s", ls_show(r->path));
    while (first < text.bytes && strchr(" \t\r\n", text.text[first]) != NULL) first++;
    /* Anything but an object is small, or not JSON. */
    if (first == text.bytes || text.text[first] != '{') {
        LS_TRY(ls_json_parse(label, text, &root));
        LS_FAIL(LS_ERR_INPUT, "%s: found %s; a trace is a JSON object with \"traceEvents\"",
                ls_show(r->path), ls_trace_show_value(root));
    }
    LS_TRY(find_parts(r, label, text, &data, &events));
    if (data.text != NULL) {
        snprintf(label, sizeof label, "%s: otherData", ls_show(r->path));
        LS_TRY(ls_json_parse(label, data, &root));
    }
    if (!json_is_object(root))
        LS_FAIL(LS_ERR_INPUT,
                "%s: otherData %s: must be an object; lockstep train --trace writes it",
                ls_show(r->path), ls_trace_show_value(root));
    LS_TRY(read_facts(r, root));
    if (events.text == NULL || events.text[0] != '[')
        LS_FAIL(LS_ERR_INPUT, "%s: traceEvents %s: must be a list", ls_show(r->path),
                events.text == NULL ? "is missing" : ls_show_bytes(events.text, events.bytes));
    LS_TRY(read_events(r, events));
exit:
    json_decref(root);
    return status;
}

ls_status ls_trace_file_read(const char *path, ls_trace_file **ret_file)
{
    ls_status status = LS_OK;
    unsigned char *bytes = NULL;
    size_t count = 0;
    ls_trace_file *file = NULL;
    LS_NEW(file, 1);
    LS_NEW(file->words, LS_TRACE_MOST_WORDS);
    LS_TRY(ls_read_file(path, MOST_BYTES, &bytes, &count));
    ls_trace_reader r = {path, file, ""};
    LS_TRY(read_text(&r, (ls_json_span){(const char *)bytes, count}));
    *ret_file = file;
    file = NULL;
exit:
    free(bytes);
    ls_trace_file_free(&file);
    return status;
}

void ls_trace_file_free(ls_trace_file **file)
{
    ls_trace_file *gone = *file;
    if (gone == NULL) return;
    ls_event_log *log = &gone->log;
    for (int r = 0; r < log->ranks; r++) free(log->events[r]);
    for (int g = 0; g < log->n_groups; g++) {
        free(log->groups[g].name);
        free(log->groups[g].world_ranks);
    }
    for (size_t i = 0; i < gone->n_words; i++) free(gone->words[i]);
    free(log->events);
    free(log->n_events);
    free(log->groups);
    free(gone->stage_of);
    free(gone->words);
    free(gone);
    *file = NULL;
}
