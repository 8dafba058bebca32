#include "pipeline/gradient_slots.h"

#include <stdlib.h>

#include "lockstep/numerics/forest_sum.h"
#include "lockstep/partition/share.h"
#include "base/allocate.h"

ls_status ls_gradient_slots_of(const ls_schedule *schedule, int pp_rank, size_t batch, size_t first,
                               size_t sequences, size_t *ret_slots)
{
    ls_status status = LS_OK;
    const ls_task *tasks = ls_schedule_of(schedule, pp_rank);
    size_t M = (size_t)schedule->micro_batches, slots, most = 1;
    ls_run_of_leaves *runs = NULL;

    LS_ROOM(runs, M);
    for (int c = 0; c < schedule->chunks; c++) {
        size_t n = 0;
        for (int i = 0; i < schedule->n_tasks && n < M; i++) {
            if (tasks[i].pass != LS_BACKWARD || tasks[i].chunk != c) continue;
            ls_share own = ls_share_of(sequences, M, (size_t)tasks[i].micro_batch);
            size_t lo = first + own.first;
            runs[n++] = (ls_run_of_leaves){lo, lo + own.count};
        }
        LS_TRY(ls_forest_sum_slots(batch, runs, n, &slots));
        if (slots > most) most = slots;
    }
    *ret_slots = most;
exit:
    free(runs);
    return status;
}

bool ls_same_backward_order(const ls_schedule *schedule, int one, int other)
{
    const ls_task *a = ls_schedule_of(schedule, one), *b = ls_schedule_of(schedule, other);
    const int n = schedule->n_tasks;
    for (int i = 0, j = 0;; i++, j++) {
        while (i < n && a[i].pass != LS_BACKWARD) i++;
        while (j < n && b[j].pass != LS_BACKWARD) j++;
        if (i == n || j == n) return i == j;
        if (a[i].chunk != b[j].chunk || a[i].micro_batch != b[j].micro_batch) return false;
    }
}
