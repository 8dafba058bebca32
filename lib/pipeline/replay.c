/* Ranks are taken one after another, each as far as it comes: until it needs a time that is not
 * known yet. Whatever makes that known puts the rank back on the list of those that may go on. */
#include "lockstep/pipeline/replay.h"

#include <math.h>
#include <stdlib.h>

#include "lockstep/base/show.h"
#include "pipeline/event_matches.h"
#include "pipeline/timeline_parts.h"
#include "base/allocate.h"

static const int64_t UNKNOWN = -1, LAST_NS = 1000000000000000;

/* What is known of a match so far. */
typedef struct knowledge {
    size_t missing;   /* collective: members that have not come */
    int64_t last;     /* collective: when the last one so far came; message: when it was posted */
    int64_t received; /* message: when the receiver has it */
    double end;       /* collective: when it ends; not known while a rank is missing */
} knowledge;

typedef struct player {
    const ls_event_log *log;
    const char *name;
    const ls_link *link;
    const ls_event_matches *matches;
    ls_replay *replay;
    knowledge *known; /* per match */
    size_t *next;     /* per rank: the event it has come to */
    int64_t *clock;   /* per rank: when it has come there */
    bool *has_come;   /* per rank: it has made itself known at that event */
    int *ready;       /* ranks that may go on, each once */
    bool *is_ready;
    int n_ready;
} player;

static bool is_left_out(const player *p, const ls_event *event)
{
    return p->replay->steps_only && event->step < 0;
}

static void make_ready(player *p, int rank)
{
    if (p->is_ready[rank]) return;
    p->is_ready[rank] = true;
    p->ready[p->n_ready++] = rank;
}

static void set_span(const player *p, ls_event_place at, int64_t moving, int64_t end)
{
    p->replay->spans[at.rank][at.event] = (ls_span){p->clock[at.rank], moving, end};
}

/* Whether a rank's clock may go to `to`. */
static ls_status check_time(const player *p, ls_event_place at, double to)
{
    ls_status status = LS_OK;
    if (!(to <= (double)LAST_NS))
        LS_FAIL(LS_ERR_INPUT, "%s: rank %d, event %zu: ends after %.3g s, 1e6 s are the most",
                ls_show(p->name), at.rank, at.event, to * 1e-9);
exit:
    return status;
}

static double collective_ns(const player *p, const ls_match *match)
{
    uint64_t most = 0, all = 0;
    const ls_event *event = NULL;
    for (size_t i = 0; i < match->count; i++) {
        ls_event_place at = p->matches->places[match->first + i];
        event = &p->log->events[at.rank][at.event];
        if (event->bytes > most) most = event->bytes;
        all += event->bytes;
    }
    return ls_link_collective_ns(p->link, event->operation, (int)match->count, most, all);
}

/* The event that `rank` has come to. *ret_end: when it goes on; UNKNOWN: not known yet. */
static ls_status play_collective(player *p, ls_event_place at, size_t m, int64_t *ret_end)
{
    ls_status status = LS_OK;
    const ls_match *match = &p->matches->matches[m];
    knowledge *known = &p->known[m];
    if (!p->has_come[at.rank]) {
        if (p->clock[at.rank] > known->last) known->last = p->clock[at.rank];
        if (--known->missing == 0) {
            known->end = (double)known->last + collective_ns(p, match);
            for (size_t i = 0; i < match->count; i++)
                make_ready(p, p->matches->places[match->first + i].rank);
        }
    }
    if (known->missing > 0) return LS_OK;
    LS_TRY(check_time(p, at, known->end));
    *ret_end = (int64_t)llround(known->end);
    set_span(p, at, known->last, *ret_end);
exit:
    return status;
}

static ls_status play_message(player *p, ls_event_place at, size_t m, int64_t *ret_end)
{
    ls_status status = LS_OK;
    const ls_match *match = &p->matches->matches[m];
    const ls_event *event = &p->log->events[at.rank][at.event];
    knowledge *known = &p->known[m];
    int64_t now = p->clock[at.rank];
    if (event->kind == LS_EVENT_RECEIVE) {
        const ls_event *post = &p->log->events[match->post.rank][match->post.event];
        bool came_before = is_left_out(p, post);
        if (!came_before && known->last == UNKNOWN) return LS_OK;
        double arrival =
            came_before ? 0.0 : (double)known->last + ls_link_message_ns(p->link, post->bytes);
        LS_TRY(check_time(p, at, arrival));
        int64_t there = (int64_t)llround(arrival), moving = known->last > now ? known->last : now;
        *ret_end = known->received = there > now ? there : now;
        set_span(p, at, moving, *ret_end);
        make_ready(p, match->post.rank);
        return LS_OK;
    }
    bool posts = event->kind != LS_EVENT_SEND_END, waits = event->kind == LS_EVENT_SEND || !posts;
    if (posts && !p->has_come[at.rank]) {
        known->last = now;
        if (match->received) make_ready(p, match->take.rank);
    }
    /* A message that was taken back, or is received outside what is laid out, is waited for by
     * nobody. */
    if (!match->received || is_left_out(p, &p->log->events[match->take.rank][match->take.event]))
        waits = false;
    if (waits && known->received == UNKNOWN) return LS_OK;
    *ret_end = waits && known->received > now ? known->received : now;
    /* While the message moves, who waits for it to arrive is communicating. */
    double moving = (double)*ret_end - ls_link_message_ns(p->link, event->bytes);
    if (!posts || moving < (double)now) moving = posts ? (double)now : (double)*ret_end;
    set_span(p, at, (int64_t)llround(moving), *ret_end);
exit:
    return status;
}

static void account(ls_rank_share *share, const ls_span *span, ls_event_kind kind)
{
    if (kind == LS_EVENT_COMPUTE)
        share->compute_ns += span->end - span->begin;
    else
        share->communication_ns += span->end - span->moving;
}

/* Goes on with one rank as far as times are known. */
static ls_status play_rank(player *p, int rank)
{
    ls_status status = LS_OK;
    for (; p->next[rank] < p->log->n_events[rank]; p->next[rank]++) {
        ls_event_place at = {rank, p->next[rank]};
        const ls_event *event = &p->log->events[rank][at.event];
        int64_t end = UNKNOWN;
        if (is_left_out(p, event)) continue;
        size_t match = p->matches->of[rank][at.event];
        if (event->kind == LS_EVENT_COMPUTE) {
            LS_TRY(check_time(p, at, (double)p->clock[rank] + (double)event->cpu_ns));
            end = p->clock[rank] + (int64_t)event->cpu_ns;
            set_span(p, at, p->clock[rank], end);
        } else if (event->kind == LS_EVENT_COLLECTIVE) {
            LS_TRY(play_collective(p, at, match, &end));
        } else {
            LS_TRY(play_message(p, at, match, &end));
        }
        p->has_come[rank] = end == UNKNOWN;
        if (end == UNKNOWN) break;
        account(&p->replay->shares[rank], &p->replay->spans[rank][at.event], event->kind);
        p->clock[rank] = end;
    }
exit:
    return status;
}

static ls_status play(player *p)
{
    ls_status status = LS_OK;
    ls_replay *replay = p->replay;
    for (size_t m = 0; m < p->matches->count; m++) {
        const ls_match *match = &p->matches->matches[m];
        p->known[m] = (knowledge){0, UNKNOWN, UNKNOWN, 0.0};
        for (size_t i = 0; i < match->count; i++) {
            ls_event_place at = p->matches->places[match->first + i];
            p->known[m].missing += !is_left_out(p, &p->log->events[at.rank][at.event]);
        }
    }
    for (int r = replay->ranks - 1; r >= 0; r--) make_ready(p, r);
    while (p->n_ready > 0) {
        int rank = p->ready[--p->n_ready];
        p->is_ready[rank] = false;
        LS_TRY(play_rank(p, rank));
    }
    for (int r = 0; r < replay->ranks; r++) {
        if (p->next[r] < p->log->n_events[r])
            LS_FAIL(LS_ERR_INPUT, "%s: rank %d, event %zu: %s waits in a circle of events",
                    ls_show(p->name), r, p->next[r],
                    ls_event_kind_name(p->log->events[r][p->next[r]].kind));
        if (p->clock[r] > replay->makespan_ns) replay->makespan_ns = p->clock[r];
    }
    for (int r = 0; r < replay->ranks; r++) {
        ls_rank_share *share = &replay->shares[r];
        share->idle_ns = replay->makespan_ns - share->compute_ns - share->communication_ns;
    }
exit:
    return status;
}

/* ---- */

static ls_status prepare(ls_replay **ret_replay, const ls_event_log *log)
{
    ls_status status = LS_OK;
    size_t n = (size_t)log->ranks;
    ls_replay *replay = NULL;
    LS_NEW(replay, 1);
    replay->ranks = log->ranks;
    LS_NEW(replay->shares, n + 1);
    LS_NEW(replay->spans, n + 1);
    for (int r = 0; r < log->ranks; r++) {
        LS_ROOM(replay->spans[r], log->n_events[r] + 1);
        for (size_t i = 0; i < log->n_events[r]; i++) {
            replay->spans[r][i] = (ls_span){UNKNOWN, UNKNOWN, UNKNOWN};
            replay->steps_only |= log->events[r][i].step >= 0;
        }
    }
    *ret_replay = replay;
    replay = NULL;
exit:
    ls_replay_destroy(&replay);
    return status;
}

ls_status ls_replay_create(ls_replay **ret_replay, const ls_event_log *log, const char *name,
                           const ls_link *link)
{
    ls_status status = LS_OK;
    size_t n = (size_t)log->ranks + 1;
    ls_event_matches *matches = NULL;
    player p = {.log = log, .name = name, .link = link};
    LS_TRY(ls_event_matches_create(&matches, log, name));
    LS_TRY(prepare(&p.replay, log));
    p.matches = matches;
    LS_ROOM(p.known, matches->count + 1);
    LS_NEW(p.next, n);
    LS_NEW(p.clock, n);
    LS_NEW(p.has_come, n);
    LS_NEW(p.ready, n);
    LS_NEW(p.is_ready, n);
    LS_TRY(play(&p));
    *ret_replay = p.replay;
    p.replay = NULL;
exit:
    free(p.known);
    free(p.next);
    free(p.clock);
    free(p.has_come);
    free(p.ready);
    free(p.is_ready);
    ls_replay_destroy(&p.replay);
    ls_event_matches_destroy(&matches, log);
    return status;
}

void ls_replay_destroy(ls_replay **replay)
{
    ls_replay *gone = *replay;
    if (gone == NULL) return;
    for (int r = 0; gone->spans != NULL && r < gone->ranks; r++) free(gone->spans[r]);
    free(gone->spans);
    free(gone->shares);
    free(gone);
    *replay = NULL;
}

ls_ratio ls_replay_bubble(const ls_replay *replay)
{
    int64_t over = 0, under = replay->ranks * replay->makespan_ns;
    for (int r = 0; r < replay->ranks; r++) over += replay->shares[r].idle_ns;
    return under == 0 ? (ls_ratio){0, 1} : ls_ratio_of(over, under);
}
