/* plan_schedule.c - sizes laid over a schedule: a pass never overlaps another of its rank, so the
 * order of the rank's list says what is alive together. */
#include "lockstep/partition/share.h"
#include "pipeline/plan_parts.h"

static void at_least(uint64_t *most, uint64_t value)
{
    if (value > *most) *most = value;
}

ls_schedule_peaks ls_schedule_peaks_of(const ls_schedule *schedule, int pp_rank,
                                       const ls_stage_elements *chunks, size_t sequences,
                                       size_t element_bytes)
{
    const ls_task *tasks = ls_schedule_of(schedule, pp_rank);
    ls_schedule_peaks peaks = {0};
    uint64_t saved = 0;

    for (int i = 0; i < schedule->n_tasks; i++) {
        const ls_stage_elements *stage = &chunks[tasks[i].chunk];
        uint64_t B =
            ls_share_of(sequences, (size_t)schedule->micro_batches, (size_t)tasks[i].micro_batch)
                .count;
        if (tasks[i].pass == LS_FORWARD) {
            at_least(&peaks.activations, saved + B * stage->forward_most);
            saved += B * stage->saved;
        } else {
            at_least(&peaks.activations, saved + B * stage->again);
            at_least(&peaks.working, B * stage->working);
            at_least(&peaks.at_once, saved + B * (stage->again + stage->working));
            saved -= B * stage->saved;
        }
    }
    peaks.activations *= element_bytes;
    peaks.working *= element_bytes;
    peaks.at_once *= element_bytes;
    return peaks;
}
