/* A rank that waits at a barrier waits for every member that has not arrived at it; each of those
 * may be at work, or itself waiting, or at an end. Drawn as arrows this is a graph, and a circle in
 * it will never resolve: every rank on it needs one that does not move before it does. One look
 * cannot show a circle, because ranks move while one looks. But each wait has a version of its own:
 * when, after all arrows of a circle were read, every rank on it still shows the version it had
 * before, then all of them stood still at one moment, and will for ever. */
#include "comm/stuck.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ls_wait_begin(ls_group *group, ls_call_kind kind)
{
    ls_wait *wait = &group->rank->wait;
    atomic_store(&wait->team, group->team);
    atomic_store(&wait->kind, (int)kind);
    atomic_store(&wait->number, group->calls);
    atomic_store(&wait->arrival, group->arrivals);
    atomic_fetch_add(&wait->version, 1);
}

void ls_wait_end(ls_group *group)
{
    atomic_fetch_add(&group->rank->wait.version, 1);
}

/* ---- texts */

typedef struct text {
    char bytes[LS_ERROR_TEXT_BYTES];
    size_t used;
} text;

LS_PRINTF(2, 3) static void append(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof t->bytes - t->used;
    int length = vsnprintf(t->bytes + t->used, room, format, arguments);
    va_end(arguments);
    if (length > 0) t->used += (size_t)length < room ? (size_t)length : room - 1;
}

static bool waits(const ls_rank *rank)
{
    return atomic_load(&rank->wait.version) % 2 == 1;
}

static void append_place(text *t, const ls_wait *wait)
{
    const ls_team *team = atomic_load(&wait->team);
    append(t, "group %s, call %" PRIu64 " (%s)", team->name, atomic_load(&wait->number),
           ls_call_name((ls_call_kind)atomic_load(&wait->kind)));
}

/* ---- time-out */

static void append_whereabouts(text *t, const ls_rank *rank)
{
    append(t, "rank %d, which ", rank->index);
    if (atomic_load(&rank->ended)) {
        append(t, "has ended");
    } else if (waits(rank)) {
        append(t, "waits in ");
        append_place(t, &rank->wait);
    } else {
        append(t, "is outside any communication");
    }
}

ls_status ls_stuck_timeout(ls_group *group, ls_call_kind kind, uint64_t waited_ns)
{
    enum { NAMED = 4 };
    ls_status status = LS_OK;
    const ls_team *team = group->team;
    text t = {"", 0};
    int missing = 0;
    for (int m = 0; m < team->size; m++) {
        if (atomic_load(&team->slots[m].arrivals) >= group->arrivals) continue;
        if (missing > 0 && missing < NAMED) append(&t, "; ");
        if (missing < NAMED) append_whereabouts(&t, &team->world->ranks[team->world_ranks[m]]);
        missing++;
    }
    if (missing > NAMED) append(&t, "; and %d more", missing - NAMED);
    LS_FAIL(LS_ERR_RANK, "group %s, call %" PRIu64 " (%s): waited %.3g s for %s", team->name,
            group->calls, ls_call_name(kind), (double)waited_ns * 1e-9,
            missing > 0 ? t.bytes : "ranks that came at the last moment");
exit:
    return status;
}

/* ---- circles */

enum { UNSEEN = 0, ON_PATH, DONE };

typedef struct search {
    ls_world *world;
    uint64_t *versions; /* of each rank when it was first looked at */
    unsigned char *marks;
    int *path; /* each waits for the next */
    int length;
} search;

/* The path from `first` on is a circle unless somebody on it has moved. */
static ls_status report_circle(const search *s, int first)
{
    enum { NAMED = 6 };
    ls_status status = LS_OK;
    text t = {"", 0};
    int from = 0;
    while (s->path[from] != first) from++;
    for (int i = from; i < s->length; i++) {
        const ls_rank *rank = &s->world->ranks[s->path[i]];
        if (i - from < NAMED) {
            append(&t, "%srank %d in ", i == from ? "" : "; ", rank->index);
            append_place(&t, &rank->wait);
            append(&t, " for rank %d", s->path[i + 1 < s->length ? i + 1 : from]);
        } else if (i - from == NAMED) {
            append(&t, "; and so on");
        }
    }
    for (int i = from; i < s->length; i++) {
        int r = s->path[i];
        if (atomic_load(&s->world->ranks[r].wait.version) != s->versions[r]) return LS_OK;
    }
    LS_FAIL(LS_ERR_RANK, "ranks wait for each other: %s", t.bytes);
exit:
    return status;
}

static ls_status report_ended(const ls_rank *rank, uint64_t version, int ended)
{
    ls_status status = LS_OK;
    text t = {"", 0};
    append_place(&t, &rank->wait);
    if (atomic_load(&rank->wait.version) != version) return LS_OK;
    LS_FAIL(LS_ERR_RANK, "%s: rank %d waits for rank %d, which has ended", t.bytes, rank->index,
            ended);
exit:
    return status;
}

static ls_status visit(search *s, int r)
{
    ls_status status = LS_OK;
    const ls_rank *rank = &s->world->ranks[r];
    uint64_t version = atomic_load(&rank->wait.version);
    s->marks[r] = DONE;
    if (version % 2 == 0) return LS_OK; /* at work: it may still come */
    s->versions[r] = version;
    s->marks[r] = ON_PATH;
    s->path[s->length++] = r;
    const ls_team *team = atomic_load(&rank->wait.team);
    uint64_t arrival = atomic_load(&rank->wait.arrival);
    for (int m = 0; m < team->size; m++) {
        int needed = team->world_ranks[m];
        /* Asked in this order: nobody arrives after its end. */
        bool ended = atomic_load(&s->world->ranks[needed].ended);
        if (atomic_load(&team->slots[m].arrivals) >= arrival) continue;
        if (ended)
            LS_TRY(report_ended(rank, version, needed));
        else if (s->marks[needed] == ON_PATH)
            LS_TRY(report_circle(s, needed));
        else if (s->marks[needed] == UNSEEN)
            LS_TRY(visit(s, needed));
    }
    s->length--;
    s->marks[r] = DONE;
exit:
    return status;
}

ls_status ls_stuck_check(ls_group *group, ls_call_kind kind)
{
    (void)kind;
    ls_status status = LS_OK;
    ls_world *world = group->rank->world;
    size_t n = (size_t)world->n_ranks;
    search s = {world, calloc(n, sizeof *s.versions), calloc(n, 1), calloc(n, sizeof *s.path), 0};
    /* Without memory for it the question stays open; the time-out still comes. */
    if (s.versions != NULL && s.marks != NULL && s.path != NULL)
        LS_TRY(visit(&s, group->rank->index));
exit:
    free(s.versions);
    free(s.marks);
    free(s.path);
    return status;
}
