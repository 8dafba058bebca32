/* live_activations.c - how much a rank keeps between forward and backward passes. A pass never
 * overlaps another of its rank, so the order of the list says all. */
#include "lockstep/partition/share.h"
#include "lockstep/pipeline/timeline.h"

int ls_schedule_live(const ls_schedule *schedule, int rank, int chunk)
{
    const ls_task *tasks = ls_schedule_of(schedule, rank);
    int now = 0, most = 0;
    for (int i = 0; i < schedule->n_tasks; i++) {
        if (chunk >= 0 && tasks[i].chunk != chunk) continue;
        now += tasks[i].pass == LS_FORWARD ? 1 : -1;
        if (now > most) most = now;
    }
    return most;
}

size_t ls_schedule_live_bytes(const ls_schedule *schedule, int rank, const size_t *bytes)
{
    const ls_task *tasks = ls_schedule_of(schedule, rank);
    size_t now = 0, most = 0;
    for (int i = 0; i < schedule->n_tasks; i++) {
        size_t row = (size_t)tasks[i].chunk * (size_t)schedule->micro_batches;
        size_t saved = bytes[row + (size_t)tasks[i].micro_batch];
        now = tasks[i].pass == LS_FORWARD ? now + saved : now - saved;
        if (now > most) most = now;
    }
    return most;
}

int ls_live_formula(ls_schedule_kind kind, int stages, int micro_batches, int chunks, int rank)
{
    int all = chunks * micro_batches, below = stages - 1 - rank, live;
    if (kind == LS_GPIPE || (chunks > 1 && micro_batches <= stages)) return all;
    if (chunks == 1) {
        live = below + 1;
    } else {
        /* Until one backward pass follows each forward pass: the warm-up, and the pass that comes
         * before the first backward pass. */
        int groups = micro_batches / stages;
        int first_group = (int)ls_share_of((size_t)micro_batches, (size_t)groups, 0).count;
        live = (chunks - 1) * first_group + 2 * below + 1;
    }
    return live < all ? live : all;
}
