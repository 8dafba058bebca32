/* A rank at a barrier waits for every member that has not arrived at it; a sender for the receiver,
 * a receiver for the sender. Each of those may be at work, or waiting itself, or at an end. Drawn
 * as arrows this is a graph, and a circle in it never resolves: every rank on it needs another one
 * that does not move before it does. One look cannot show a circle, because ranks move while one
 * looks. But no two waits of a rank have the same version: when, after all arrows of a circle were
 * seen, every rank on it still shows the version it had before, then all of them stood still at one
 * moment, and will for ever. */
#include "comm/deadlock.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "comm/wait_report.h"

enum { UNSEEN = 0, ON_PATH, DONE };

typedef struct search {
    const ls_world *world;
    uint64_t *versions; /* of each rank when it was first looked at */
    unsigned char *marks;
    int *path; /* each waits for the next */
    int length;
} search;

/* The path from `first` on is a circle unless a rank on it has moved. */
static ls_status report_circle(const search *s, int first)
{
    enum { NAMED = 6 };
    ls_status status = LS_OK;
    ls_line text = {"", 0};
    int from = 0;
    while (s->path[from] != first) from++;
    for (int i = from; i < s->length; i++) {
        int next = s->path[i + 1 < s->length ? i + 1 : from];
        if (i - from == NAMED) ls_line_add(&text, "; and so on");
        if (i - from >= NAMED) continue;
        ls_line_add(&text, "%srank %d for rank %d in ", i == from ? "" : "; ", s->path[i], next);
        ls_line_add_place(&text, &s->world->ranks[s->path[i]]);
    }
    for (int i = from; i < s->length; i++) {
        int r = s->path[i];
        if (atomic_load(&s->world->ranks[r].wait.version) != s->versions[r]) return LS_OK;
    }
    LS_FAIL(LS_ERR_RANK, "ranks wait for each other: %s", text.bytes);
exit:
    return status;
}

static ls_status report_ended(const search *s, int r, int ended)
{
    ls_status status = LS_OK;
    ls_line text = {"", 0};
    ls_line_add_place(&text, &s->world->ranks[r]);
    if (atomic_load(&s->world->ranks[r].wait.version) != s->versions[r]) return LS_OK;
    LS_FAIL(LS_ERR_RANK, "%s: rank %d waits for rank %d, which has ended", text.bytes, r, ended);
exit:
    return status;
}

static bool has_ended(const search *s, int r)
{
    return atomic_load(&s->world->ranks[r].ended);
}

static ls_status visit(search *s, int r);

/* Rank r needs rank `needed`, which had ended or not before that was seen: who has ended does
 * nothing more. */
static ls_status follow(search *s, int r, int needed, bool ended)
{
    if (ended) return report_ended(s, r, needed);
    if (s->marks[needed] == ON_PATH) return report_circle(s, needed);
    return s->marks[needed] == UNSEEN ? visit(s, needed) : LS_OK;
}

/* Goes along all arrows from rank r, depth first. */
static ls_status visit(search *s, int r)
{
    ls_status status = LS_OK;
    const ls_rank *rank = &s->world->ranks[r];
    s->versions[r] = atomic_load(&rank->wait.version);
    s->marks[r] = DONE;
    if (s->versions[r] % 2 == 0) return LS_OK; /* at work: it may still come */
    s->marks[r] = ON_PATH;
    s->path[s->length++] = r;
    const ls_wait *wait = &rank->wait;
    int to = atomic_load(&wait->to), from = atomic_load(&wait->from);
    if (to >= 0 || from >= 0) {
        bool to_ended = to >= 0 && has_ended(s, to), from_ended = from >= 0 && has_ended(s, from);
        if (ls_waits_to_send(rank)) LS_TRY(follow(s, r, to, to_ended));
        if (ls_waits_to_receive(rank)) LS_TRY(follow(s, r, from, from_ended));
    } else {
        const ls_team *team = atomic_load(&wait->team);
        uint64_t arrival = atomic_load(&wait->arrival);
        for (int m = 0; m < team->size; m++) {
            int needed = team->world_ranks[m];
            bool ended = has_ended(s, needed);
            if (atomic_load(&team->posts[m].arrivals) < arrival)
                LS_TRY(follow(s, r, needed, ended));
        }
    }
    s->length--;
    s->marks[r] = DONE;
exit:
    return status;
}

ls_status ls_deadlock_check(const ls_rank *rank)
{
    ls_status status = LS_OK;
    size_t n = (size_t)rank->world->n_ranks;
    search s = {rank->world, ls_allocate(n, sizeof *s.versions, 1, true),
                ls_allocate(n, sizeof *s.marks, 1, true), ls_allocate(n, sizeof *s.path, 1, true),
                0};
    /* Without memory for it the question stays open; the time-out still comes. */
    if (s.versions != NULL && s.marks != NULL && s.path != NULL) LS_TRY(visit(&s, rank->index));
exit:
    free(s.versions);
    free(s.marks);
    free(s.path);
    return status;
}

ls_status ls_deadlock_timeout(const ls_rank *rank, uint64_t waited_ns)
{
    enum { NAMED = 4 };
    ls_status status = LS_OK;
    const ls_wait *wait = &rank->wait;
    const ls_rank *ranks = rank->world->ranks;
    const ls_team *team = atomic_load(&wait->team);
    ls_line place = {"", 0}, missing = {"", 0};
    int n = 0;
    ls_line_add_place(&place, rank);
    int to = atomic_load(&wait->to), from = atomic_load(&wait->from);
    if (to >= 0 || from >= 0) {
        bool sends = ls_waits_to_send(rank), receives = ls_waits_to_receive(rank);
        if (sends) ls_line_add_wait_report(&missing, &ranks[to]);
        if (sends && receives && to != from) ls_line_add(&missing, "; ");
        if (receives && !(sends && to == from)) ls_line_add_wait_report(&missing, &ranks[from]);
    } else {
        for (int m = 0; m < team->size; m++) {
            if (atomic_load(&team->posts[m].arrivals) >= atomic_load(&wait->arrival)) continue;
            if (n > 0 && n < NAMED) ls_line_add(&missing, "; ");
            if (n < NAMED) ls_line_add_wait_report(&missing, &ranks[team->world_ranks[m]]);
            n++;
        }
    }
    if (n > NAMED) ls_line_add(&missing, "; and %d more", n - NAMED);
    LS_FAIL(LS_ERR_RANK, "%s: waited %.3g s for %s", place.bytes, (double)waited_ns * 1e-9,
            missing.used > 0 ? missing.bytes : "a rank that came at the last moment");
exit:
    return status;
}
