#include "report/replay_drawing.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/drawing.h"
#include "report/drawing_file.h"
#include "base/allocate.h"

int ls_replay_last_step(const ls_event_log *log)
{
    int last = -1;
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0; i < log->n_events[r]; i++)
            if (log->events[r][i].step > last) last = log->events[r][i].step;
    return last;
}

/* Whether an event was laid out and belongs to `step`. */
static bool is_of(const ls_event *event, const ls_span *span, int step)
{
    return span->begin >= 0 && (step < 0 || event->step == step);
}

bool ls_replay_window(const ls_event_log *log, const ls_replay *replay, int step,
                      int64_t *ret_begin, int64_t *ret_end)
{
    int64_t begin = INT64_MAX, end = -1;
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_span *span = &replay->spans[r][i];
            if (!is_of(&log->events[r][i], span, step)) continue;
            if (span->begin < begin) begin = span->begin;
            if (span->end > end) end = span->end;
        }
    if (end < begin) return false;
    *ret_begin = begin;
    *ret_end = end;
    return true;
}

static bool is_task(const ls_event *event, const char *what)
{
    return event->what != NULL && strcmp(event->what, what) == 0;
}

/* ---- text */

enum { NAME_COLUMNS = 10, LETTERS = 128, MOST_PARTS = 256 };

/* Parts of passes, in the order in which they first come on any rank. */
typedef struct part_list {
    const char *names[MOST_PARTS];
    int count;
} part_list;

static int number_of(const part_list *parts, const char *name)
{
    for (int i = 0; i < parts->count; i++)
        if (strcmp(parts->names[i], name) == 0) return i;
    return -1;
}

static void list_parts(const ls_event_log *log, part_list *parts)
{
    parts->count = 0;
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0; i < log->n_events[r] && parts->count < MOST_PARTS; i++) {
            const char *part = log->events[r][i].part;
            if (part != NULL && number_of(parts, part) < 0) parts->names[parts->count++] = part;
        }
}

static char letter_of(const ls_event *event, const part_list *parts)
{
    int m = event->part != NULL ? number_of(parts, event->part) : event->micro_batch;
    if (m < 0) m = 0;
    if (event->kind != LS_EVENT_COMPUTE) return '=';
    if (is_task(event, "forward")) return (char)('0' + m % 10);
    if (is_task(event, "backward")) return (char)('a' + m % 26);
    return '+';
}

/* Adds the time begin .. end to the columns that it lies in. */
static void add_time(double (*columns)[LETTERS], int n_columns, double column_ns, char letter,
                     double begin, double end)
{
    int first = (int)(begin / column_ns);
    for (int c = first < 0 ? 0 : first; c < n_columns && (double)c * column_ns < end; c++) {
        double lo = (double)c * column_ns, hi = lo + column_ns;
        double part = (end < hi ? end : hi) - (begin > lo ? begin : lo);
        if (part > 0.0) columns[c][(int)letter] += part;
    }
}

static char most_of(const double *times, double column_ns)
{
    char most = '.';
    double best = column_ns;
    for (int l = 0; l < LETTERS; l++) best -= times[l];
    for (int l = 0; l < LETTERS; l++)
        if (times[l] > best) {
            best = times[l];
            most = (char)l;
        }
    return most;
}

ls_status ls_replay_text(FILE *file, const ls_event_log *log, const ls_replay *replay, int step,
                         int width)
{
    ls_status status = LS_OK;
    int64_t begin = 0, end = 0;
    int n = width - NAME_COLUMNS;
    part_list parts;
    double(*columns)[LETTERS] = NULL;
    LS_ROOM(columns, (size_t)n);
    if (!ls_replay_window(log, replay, step, &begin, &end)) goto exit;
    double column_ns = end > begin ? (double)(end - begin) / n : 1.0;
    list_parts(log, &parts);
    for (int r = 0; r < log->ranks; r++) {
        memset(columns, 0, (size_t)n * sizeof *columns);
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_event *event = &log->events[r][i];
            const ls_span *span = &replay->spans[r][i];
            if (is_of(event, span, step))
                add_time(columns, n, column_ns, letter_of(event, &parts),
                         (double)(span->moving - begin), (double)(span->end - begin));
        }
        fprintf(file, "rank %-4d ", r);
        for (int c = 0; c < n; c++) fputc(most_of(columns[c], column_ns), file);
        fputc('\n', file);
    }
exit:
    free(columns);
    return status;
}

/* ---- SVG */

typedef struct boxes {
    ls_box *all;
    size_t n, room;
    double smallest; /* what is shorter is drawn as part of what is next to it */
} boxes;

static ls_status add_box(boxes *b, const ls_box *box)
{
    ls_status status = LS_OK;
    LS_GROW(b->all, b->n, b->room);
    b->all[b->n++] = *box;
exit:
    return status;
}

/* The box of an event: times in microseconds from the window's beginning. */
static ls_box box_of(const ls_event *event, const ls_span *span, int row, int64_t zero, int pp)
{
    ls_box box = {.row = row,
                  .start = (double)(span->moving - zero) * 1e-3,
                  .end = (double)(span->end - zero) * 1e-3,
                  .kind = LS_BOX_OTHER};
    if (event->kind != LS_EVENT_COMPUTE)
        box.kind = LS_BOX_COMMUNICATION;
    else if (is_task(event, "forward"))
        box.kind = LS_BOX_FORWARD;
    else if (is_task(event, "backward"))
        box.kind = LS_BOX_BACKWARD;
    bool pass = box.kind == LS_BOX_FORWARD || box.kind == LS_BOX_BACKWARD;
    if (pass && event->stage >= 0) box.chunk = event->stage / pp;
    if (event->part != NULL) {
        if (pass && strlen(event->part) < sizeof box.label)
            snprintf(box.label, sizeof box.label, "%s", event->part);
        ls_event_title(event, "", box.note, sizeof box.note);
        return box;
    }
    if (pass)
        snprintf(box.label, sizeof box.label, "%c%d", box.kind == LS_BOX_FORWARD ? 'F' : 'B',
                 event->micro_batch);
    else if (box.kind == LS_BOX_OTHER && event->what != NULL)
        snprintf(box.label, sizeof box.label, "%s", event->what);
    if (pass)
        snprintf(box.note, sizeof box.note, "%s, stage %d, micro-batch %d", event->what,
                 event->stage, event->micro_batch);
    else if (event->what != NULL || event->call != NULL)
        snprintf(box.note, sizeof box.note, "%s",
                 event->kind == LS_EVENT_COMPUTE ? event->what : event->call);
    return box;
}

static bool look_alike(const ls_box *a, const ls_box *b)
{
    return a->kind == b->kind && a->chunk == b->chunk && strcmp(a->label, b->label) == 0 &&
           strcmp(a->note, b->note) == 0;
}

/* The boxes of one rank: events of one task that follow each other closely become one. */
static ls_status add_rank(boxes *b, const ls_event_log *log, const ls_replay *replay, int step,
                          int r, int64_t zero, int pp)
{
    ls_status status = LS_OK;
    ls_box open = {.row = -1};
    for (size_t i = 0; i < log->n_events[r]; i++) {
        const ls_event *event = &log->events[r][i];
        const ls_span *span = &replay->spans[r][i];
        if (!is_of(event, span, step) || span->moving == span->end) continue;
        ls_box box = box_of(event, span, r, zero, pp);
        bool closely = open.row >= 0 && box.start - open.end < b->smallest;
        bool small = box.end - box.start < b->smallest && box.kind == LS_BOX_COMMUNICATION;
        if (closely && (small || look_alike(&open, &box))) {
            open.end = box.end;
            continue;
        }
        if (open.row >= 0) LS_TRY(add_box(b, &open));
        open = box;
    }
    if (open.row >= 0) LS_TRY(add_box(b, &open));
exit:
    return status;
}

/* What is to be drawn. */
typedef struct picture {
    const ls_event_log *log;
    const ls_replay *replay;
    int step;
    const int *stage_of;
    const char (*names)[LS_REPLAY_NAME];
    const char *title;
} picture;

static ls_status draw_svg(FILE *file, const void *context)
{
    enum { PARTS = 1500 };
    ls_status status = LS_OK;
    const picture *p = context;
    const ls_event_log *log = p->log;
    int64_t begin = 0, end = 0;
    int pp = 1;
    size_t n = (size_t)log->ranks;
    boxes b = {NULL, 0, 0, 0.0};
    const char **rows = NULL;
    LS_ROOM(rows, n);
    for (size_t r = 0; r < n; r++)
        if (p->stage_of[r] >= pp) pp = p->stage_of[r] + 1;
    for (size_t r = 0; r < n; r++) rows[r] = p->names[r];
    if (ls_replay_window(log, p->replay, p->step, &begin, &end)) {
        b.smallest = (double)(end - begin) * 1e-3 / PARTS;
        for (int r = 0; r < log->ranks; r++)
            LS_TRY(add_rank(&b, log, p->replay, p->step, r, begin, pp));
    }
    ls_drawing drawing = {p->title, "us", log->ranks, rows, b.all, b.n};
    ls_svg_boxes(file, &drawing);
exit:
    free(b.all);
    free(rows);
    return status;
}

ls_status ls_replay_svg(const char *path, const ls_event_log *log, const ls_replay *replay,
                        int step, const int *stage_of, const char (*names)[LS_REPLAY_NAME],
                        const char *title)
{
    return ls_drawing_file(path, draw_svg, &(picture){log, replay, step, stage_of, names, title});
}
