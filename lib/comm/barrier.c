/* A counter and a generation. Each member adds one to the counter; the last one turns the
 * generation over, on which the others wait. The counter is never reset: barrier number g (from 1)
 * is complete at g * size arrivals, so a fast member's next arrival cannot be taken for a slow
 * one's last.
 *
 * The additions are read-modify-writes with acquire and release: the last one sees what all wrote
 * before they arrived, and its store of the generation hands that on to all.
 *
 * Leaving early. A member that gives up (abort, time-out) frees its buffers soon after, so it must
 * be sure that no peer comes to read them later, and that none is reading them now. For the first
 * it marks the counter broken in the same word that is counted in: an arrival that finds the mark
 * fails, so a barrier that was not complete at that moment never will be. For the second it waits
 * for the peers that are at work between two barriers of the same call: each of them soon arrives
 * at the next one, or fails and says so (gone). After a barrier that is a call by itself no member
 * is at work, and who has passed it may never come back to this group. */
#include "comm/barrier.h"

#include <sched.h>

#include "comm/abort.h"
#include "comm/entry_check.h"
#include "comm/waiting.h"
#include "lockstep/base/clock.h"

enum { BROKEN = 1, ONE_ARRIVAL = 2 };

typedef struct turn {
    const ls_team *team;
    uint64_t generation;
} turn;

static bool has_turned(const void *what)
{
    const turn *t = what;
    return atomic_load(&t->team->generation) >= t->generation;
}

/* Waits until no member is at work before its arrival number `arrival`. */
static void wait_for_workers(const ls_team *team, uint64_t arrival)
{
    for (int m = 0; m < team->size; m++) {
        const ls_post *post = &team->posts[m];
        for (int looks = 0; atomic_load(&post->arrivals) < arrival && !atomic_load(&post->gone);
             looks++) {
            if (looks < 100)
                sched_yield();
            else
                ls_clock_sleep_ns(100000);
        }
    }
}

/* Whether members work on each other's buffers between this barrier and the next. */
static bool work_follows(ls_call_kind kind, ls_im2col_run meeting)
{
    return meeting != LS_MEETING_EXIT && kind != LS_CALL_BARRIER;
}

static void give_up(ls_group *group, ls_call_kind kind, ls_im2col_run meeting)
{
    ls_team *team = group->team;
    uint64_t before = atomic_fetch_or(&team->arrivals, BROKEN);
    bool complete = before / ONE_ARRIVAL >= group->arrivals * (uint64_t)team->size;
    atomic_store(&team->posts[group->member].gone, true);
    if (!complete && meeting != LS_MEETING_ENTRY) wait_for_workers(team, group->arrivals);
    if (complete && work_follows(kind, meeting)) wait_for_workers(team, group->arrivals + 1);
}

ls_status ls_barrier_arrive(ls_group *group, ls_call_kind kind, ls_im2col_run meeting)
{
    ls_status status = LS_OK;
    ls_team *team = group->team;
    turn mine = {team, ++group->arrivals}; /* a member takes part in every barrier */
    atomic_store_explicit(&team->posts[group->member].arrivals, mine.generation,
                          memory_order_release);
    uint64_t before = atomic_fetch_add(&team->arrivals, ONE_ARRIVAL);
    if ((before & BROKEN) == 0 &&
        before / ONE_ARRIVAL + 1 == mine.generation * (uint64_t)team->size) {
        if (meeting == LS_MEETING_ENTRY) ls_entry_check(team);
        atomic_store(&team->generation, mine.generation);
        for (int m = 0; m < team->size; m++) ls_wake(&team->world->ranks[team->world_ranks[m]]);
        return LS_OK;
    }
    if ((before & BROKEN) != 0) LS_TRY(ls_abort_check(group->rank));
    LS_TRY(ls_wait_until(group, kind, has_turned, &mine));
exit:
    if (status != LS_OK) give_up(group, kind, meeting);
    return status;
}
