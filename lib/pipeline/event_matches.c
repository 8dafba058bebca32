#include "pipeline/event_matches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/base/show.h"
#include "base/allocate.h"

/* What makes events belong together: collectives by group and number, messages by sender and
 * number. */
typedef struct entry {
    bool message;
    int whose; /* group or sender */
    uint64_t number;
    ls_event_place place;
} entry;

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->message != y->message) return x->message ? 1 : -1;
    if (x->whose != y->whose) return x->whose < y->whose ? -1 : 1;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    if (x->place.rank != y->place.rank) return x->place.rank < y->place.rank ? -1 : 1;
    return x->place.event < y->place.event ? -1 : x->place.event > y->place.event;
}

static bool belong_together(const entry *a, const entry *b)
{
    return a->message == b->message && a->whose == b->whose && a->number == b->number;
}

/* Into `entries`, with room for all events; returns their number. */
static size_t list_entries(const ls_event_log *log, entry *entries)
{
    size_t n = 0;
    for (int r = 0; r < log->ranks; r++)
        for (size_t i = 0; i < log->n_events[r]; i++) {
            const ls_event *e = &log->events[r][i];
            if (e->kind == LS_EVENT_COMPUTE) continue;
            bool message = e->kind != LS_EVENT_COLLECTIVE;
            int whose = !message ? e->group : e->kind == LS_EVENT_RECEIVE ? e->peer : r;
            entries[n++] = (entry){message, whose, e->number, {r, i}};
        }
    qsort(entries, n, sizeof *entries, compare_entries);
    return n;
}

static const ls_event *event_at(const ls_event_log *log, ls_event_place place)
{
    return &log->events[place.rank][place.event];
}

/* Entries lo .. hi are one collective: every member of the group once, all with the same call. */
static ls_status match_collective(ls_match *match, const ls_event_log *log, const char *name,
                                  const entry *entries, size_t n)
{
    ls_status status = LS_OK;
    const ls_event *first = event_at(log, entries[0].place);
    const ls_event_group *group = &log->groups[first->group];
    for (size_t i = 0; i < n; i++) {
        const ls_event_place *at = &entries[i].place;
        const ls_event *e = event_at(log, *at);
        if (i > 0 && at->rank == entries[i - 1].place.rank)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: rank %d, event %zu: %s is call %" PRIu64
                    " of group %d, as its event %zu is",
                    ls_show(name), at->rank, at->event, e->call, e->number, e->group,
                    entries[i - 1].place.event);
        if (e->operation != first->operation)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: rank %d, event %zu: %s is call %" PRIu64
                    " of group %d, which is %s on rank %d",
                    ls_show(name), at->rank, at->event, e->call, e->number, e->group, first->call,
                    entries[0].place.rank);
    }
    for (int m = 0; m < group->size && n < (size_t)group->size; m++) {
        size_t i = 0;
        while (i < n && entries[i].place.rank != group->world_ranks[m]) i++;
        if (i == n)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: rank %d, event %zu: %s is call %" PRIu64
                    " of group %d, which rank %d has not",
                    ls_show(name), entries[0].place.rank, entries[0].place.event, first->call,
                    first->number, first->group, group->world_ranks[m]);
    }
    match->count = n;
exit:
    return status;
}

static ls_status match_message(ls_match *match, const ls_event_log *log, const char *name,
                               const entry *entries, size_t n)
{
    ls_status status = LS_OK;
    match->message = true;
    for (size_t i = 0; i < n; i++) {
        ls_event_place at = entries[i].place;
        ls_event_kind kind = event_at(log, at)->kind;
        bool *there = kind == LS_EVENT_RECEIVE    ? &match->received
                      : kind == LS_EVENT_SEND_END ? &match->ended
                                                  : &match->sent;
        ls_event_place *place = kind == LS_EVENT_RECEIVE    ? &match->take
                                : kind == LS_EVENT_SEND_END ? &match->done
                                                            : &match->post;
        if (*there)
            LS_FAIL(LS_ERR_INPUT,
                    "%s: rank %d, event %zu: %s of message %" PRIu64
                    " of rank %d, as in event %zu of rank %d",
                    ls_show(name), at.rank, at.event, ls_event_kind_name(kind), entries[i].number,
                    entries[i].whose, place->event, place->rank);
        *there = true;
        *place = at;
    }
    const ls_event_place *at = match->received ? &match->take : &match->done;
    if (!match->sent)
        LS_FAIL(LS_ERR_INPUT,
                "%s: rank %d, event %zu: %s of message %" PRIu64
                " of rank %d, which has sent none of that number",
                ls_show(name), at->rank, at->event, ls_event_kind_name(event_at(log, *at)->kind),
                entries[0].number, entries[0].whose);
    const ls_event *post = event_at(log, match->post);
    if (match->ended && post->kind != LS_EVENT_SEND_BEGIN)
        LS_FAIL(LS_ERR_INPUT,
                "%s: rank %d, event %zu: send_end of message %" PRIu64 ", which event %zu sent by "
                "%s",
                ls_show(name), match->done.rank, match->done.event, entries[0].number,
                match->post.event, ls_event_kind_name(post->kind));
    if (match->received && post->peer != match->take.rank)
        LS_FAIL(LS_ERR_INPUT,
                "%s: rank %d, event %zu: receives message %" PRIu64 " of rank %d, which is for "
                "rank %d",
                ls_show(name), match->take.rank, match->take.event, entries[0].number,
                entries[0].whose, post->peer);
exit:
    return status;
}

ls_status ls_event_matches_create(ls_event_matches **ret_matches, const ls_event_log *log,
                                  const char *name)
{
    ls_status status = LS_OK;
    ls_event_matches *found = NULL;
    entry *entries = NULL;
    size_t total = 0, n = 0;
    for (int r = 0; r < log->ranks; r++) total += log->n_events[r];
    LS_NEW(found, 1);
    LS_ROOM(entries, total);
    n = list_entries(log, entries);
    LS_NEW(found->matches, n + 1);
    LS_ROOM(found->places, n + 1);
    LS_NEW(found->of, (size_t)log->ranks);
    for (int r = 0; r < log->ranks; r++) {
        LS_ROOM(found->of[r], log->n_events[r]);
        memset(found->of[r], 0xff, log->n_events[r] * sizeof *found->of[r]);
    }
    for (size_t lo = 0, hi; lo < n; lo = hi) {
        ls_match *match = &found->matches[found->count];
        match->first = lo;
        for (hi = lo; hi < n && belong_together(&entries[lo], &entries[hi]); hi++) {
            found->places[hi] = entries[hi].place;
            found->of[entries[hi].place.rank][entries[hi].place.event] = found->count;
        }
        LS_TRY((entries[lo].message ? match_message : match_collective)(match, log, name,
                                                                        &entries[lo], hi - lo));
        found->count++;
    }
    *ret_matches = found;
    found = NULL;
exit:
    free(entries);
    ls_event_matches_destroy(&found, log);
    return status;
}

void ls_event_matches_destroy(ls_event_matches **matches, const ls_event_log *log)
{
    ls_event_matches *gone = *matches;
    if (gone == NULL) return;
    for (int r = 0; gone->of != NULL && r < log->ranks; r++) free(gone->of[r]);
    free(gone->of);
    free(gone->places);
    free(gone->matches);
    free(gone);
    *matches = NULL;
}
