#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/schedule_places.h"
#include "base/allocate.h"
#include "base/append.h"

/* How far each rank has come: done[p] tasks of its list. */
static bool is_done(const int *done, ls_place place)
{
    return place.index < done[place.rank];
}

/* The first task that the next task of a rank waits for; false when it waits for none. */
static bool waits_for(const ls_places *places, const int *done, int rank, ls_place *ret_needed)
{
    ls_place needed[2];
    int count = ls_places_needed(places, (ls_place){rank, done[rank]}, needed);
    for (int i = 0; i < count; i++) {
        if (!is_done(done, needed[i])) {
            *ret_needed = needed[i];
            return true;
        }
    }
    return false;
}

/* Every rank that is not ready waits for a task of a rank that waits as well: following these from
 * anywhere must come round. Writes the circle. */
static ls_status name_circle(const ls_places *places, const int *done)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = places->schedule;
    char text[900];
    size_t used = 0;
    int rank = 0, first;
    ls_place needed;
    while (done[rank] == schedule->n_tasks) rank++;
    /* As many steps as there are ranks lead into the circle; it is told from its lowest rank on. */
    for (int i = 0; i < schedule->stages; i++)
        if (waits_for(places, done, rank, &needed)) rank = needed.rank;
    first = rank;
    for (int i = 0; i < schedule->stages; i++) {
        if (waits_for(places, done, rank, &needed)) rank = needed.rank;
        if (rank < first) first = rank;
    }
    rank = first;
    do {
        char waiting[LS_TASK_NAME_BYTES], wanted[LS_TASK_NAME_BYTES], before[LS_TASK_NAME_BYTES];
        if (!waits_for(places, done, rank, &needed)) break;
        ls_place head = {needed.rank, done[needed.rank]};
        ls_task_name(schedule, ls_task_at(schedule, (ls_place){rank, done[rank]}), waiting,
                     sizeof waiting);
        ls_task_name(schedule, ls_task_at(schedule, needed), wanted, sizeof wanted);
        ls_task_name(schedule, ls_task_at(schedule, head), before, sizeof before);
        if (used < sizeof text)
            used = ls_append(text, sizeof text, used,
                             "%srank %d's %s waits for rank %d's %s, which stands behind %s",
                             used ? "; " : "", rank, waiting, needed.rank, wanted, before);
        rank = needed.rank;
    } while (rank != first);
    LS_FAIL(LS_ERR_INPUT, "schedule: tasks wait for each other in a circle: %s", text);
exit:
    return status;
}

ls_status ls_places_in_order(const ls_places *places, ls_place *ret_order)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = places->schedule;
    size_t n = 0, all = (size_t)schedule->stages * (size_t)schedule->n_tasks, before;
    int *done = NULL;
    LS_NEW(done, (size_t)schedule->stages);
    /* Rounds over the ranks, each going as far as it can. */
    do {
        before = n;
        for (int p = 0; p < schedule->stages; p++) {
            ls_place needed;
            while (done[p] < schedule->n_tasks && !waits_for(places, done, p, &needed)) {
                ret_order[n++] = (ls_place){p, done[p]};
                done[p]++;
            }
        }
    } while (n > before);
    if (n < all) LS_TRY(name_circle(places, done));
exit:
    free(done);
    return status;
}

ls_status ls_schedule_check(const ls_schedule *schedule)
{
    ls_status status = LS_OK;
    ls_places *places = NULL;
    ls_place *order = NULL;
    LS_TRY(ls_places_create(&places, schedule));
    LS_ROOM(order, (size_t)schedule->stages * (size_t)schedule->n_tasks);
    LS_TRY(ls_places_in_order(places, order));
exit:
    free(order);
    ls_places_destroy(&places);
    return status;
}
