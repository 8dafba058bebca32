#include "lockstep/pipeline/timeline.h"

#include <stdlib.h>

#include "pipeline/schedule_places.h"
#include "pipeline/timeline_parts.h"
#include "base/allocate.h"

enum { HIGHEST_COST = 1 << 20 };

int64_t ls_greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

ls_ratio ls_ratio_of(int64_t over, int64_t under)
{
    int64_t divisor = ls_greatest_common_divisor(over, under);
    ls_ratio ratio = {over / divisor, under / divisor};
    return ratio;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static ls_interval *interval_at(const ls_timeline *timeline, ls_place place)
{
    size_t row = (size_t)place.rank * (size_t)timeline->schedule->n_tasks;
    return &timeline->intervals[row + (size_t)place.index];
}

/* order: each task behind all that it waits for, so their ends are known. */
static void lay_out(ls_timeline *timeline, const ls_places *places, const ls_place *order)
{
    const ls_schedule *schedule = timeline->schedule;
    size_t count = (size_t)schedule->stages * (size_t)schedule->n_tasks;
    for (size_t i = 0; i < count; i++) {
        ls_place needed[2], at = order[i];
        int64_t start = 0;
        int n = ls_places_needed(places, at, needed);
        for (int j = 0; j < n; j++) start = later(start, interval_at(timeline, needed[j])->end);
        if (at.index > 0)
            start = later(start, interval_at(timeline, (ls_place){at.rank, at.index - 1})->end);
        int64_t cost = ls_task_at(schedule, at).pass == LS_FORWARD ? timeline->forward_cost
                                                                   : timeline->backward_cost;
        *interval_at(timeline, at) = (ls_interval){start, start + cost};
        timeline->makespan = later(timeline->makespan, start + cost);
    }
    int64_t work = schedule->n_tasks / 2 * (timeline->forward_cost + timeline->backward_cost);
    for (int p = 0; p < schedule->stages; p++) timeline->idle[p] = timeline->makespan - work;
}

ls_status ls_timeline_create(ls_timeline **ret_timeline, const ls_schedule *schedule,
                             int forward_cost, int backward_cost)
{
    ls_status status = LS_OK;
    ls_timeline *timeline = NULL;
    ls_places *places = NULL;
    ls_place *order = NULL;
    if (forward_cost < 1 || forward_cost > HIGHEST_COST || backward_cost < 1 ||
        backward_cost > HIGHEST_COST)
        LS_FAIL(LS_ERR_INPUT, "timeline: a forward pass of %d, a backward pass of %d; use 1 to %d",
                forward_cost, backward_cost, HIGHEST_COST);
    LS_TRY(ls_places_create(&places, schedule));
    size_t count = (size_t)schedule->stages * (size_t)schedule->n_tasks;
    LS_NEW(timeline, 1);
    LS_ROOM(order, count);
    *timeline = (ls_timeline){
        .schedule = schedule, .forward_cost = forward_cost, .backward_cost = backward_cost};
    LS_ROOM(timeline->intervals, count);
    LS_NEW(timeline->idle, (size_t)schedule->stages);
    LS_TRY(ls_places_in_order(places, order));
    lay_out(timeline, places, order);
    *ret_timeline = timeline;
    timeline = NULL;
exit:
    free(order);
    ls_places_destroy(&places);
    ls_timeline_destroy(&timeline);
    return status;
}

void ls_timeline_destroy(ls_timeline **timeline)
{
    if (*timeline == NULL) return;
    free((*timeline)->intervals);
    free((*timeline)->idle);
    free(*timeline);
    *timeline = NULL;
}

ls_ratio ls_timeline_bubble(const ls_timeline *timeline)
{
    int64_t idle = 0;
    for (int p = 0; p < timeline->schedule->stages; p++) idle += timeline->idle[p];
    return ls_ratio_of(idle, timeline->schedule->stages * timeline->makespan);
}

ls_ratio ls_bubble_formula(int stages, int micro_batches, int chunks)
{
    int64_t K = stages, M = micro_batches, V = chunks;
    /* In units of a forward plus a backward pass. A round of all micro-batches through one chunk
     * takes M steps, but K when a rank waits for the first one to come round; the last round takes
     * its M steps, and the way down the pipeline adds K - 1. */
    int64_t work = V * M, makespan = (V - 1) * later(M, K) + M + K - 1;
    return ls_ratio_of(makespan - work, makespan);
}
