#include "pipeline/schedule_places.h"
#include "base/allocate.h"

#include <limits.h>
#include <stdlib.h>

static size_t slot_of(const ls_schedule *schedule, int rank, ls_task task)
{
    size_t row = (size_t)rank * 2 + (task.pass == LS_BACKWARD ? 1 : 0);
    size_t chunk = row * (size_t)schedule->chunks + (size_t)task.chunk;
    return chunk * (size_t)schedule->micro_batches + (size_t)task.micro_batch;
}

static ls_status check_sizes(const ls_schedule *schedule)
{
    ls_status status = LS_OK;
    if (schedule->stages < 1 || schedule->chunks < 1 || schedule->micro_batches < 1 ||
        schedule->n_tasks < 0 || schedule->stages > LS_MAX_STAGES / schedule->chunks ||
        schedule->micro_batches > INT_MAX / 2 / (schedule->stages * schedule->chunks))
        LS_FAIL(LS_ERR_INPUT,
                "schedule: %d pipeline ranks, %d chunks, %d micro-batches, %d tasks per rank; each "
                "is 1 or more, ranks times chunks at most %d, and an int counts all passes",
                schedule->stages, schedule->chunks, schedule->micro_batches, schedule->n_tasks,
                LS_MAX_STAGES);
exit:
    return status;
}

/* Enters one rank's list. */
static ls_status enter_tasks(const ls_places *places, int rank)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = places->schedule;
    for (int i = 0; i < schedule->n_tasks; i++) {
        ls_task task = ls_task_at(schedule, (ls_place){rank, i});
        if ((task.pass != LS_FORWARD && task.pass != LS_BACKWARD) || task.chunk < 0 ||
            task.chunk >= schedule->chunks || task.micro_batch < 0 ||
            task.micro_batch >= schedule->micro_batches)
            LS_FAIL(LS_ERR_INPUT,
                    "schedule: task %d of pipeline rank %d is pass %d of micro-batch %d in chunk "
                    "%d; passes are 0 (forward) and 1, micro-batches 0 to %d, chunks 0 to %d",
                    i, rank, (int)task.pass, task.micro_batch, task.chunk,
                    schedule->micro_batches - 1, schedule->chunks - 1);
        int *index = &places->index[slot_of(schedule, rank, task)];
        if (*index >= 0) {
            char name[LS_TASK_NAME_BYTES];
            ls_task_name(schedule, task, name, sizeof name);
            LS_FAIL(LS_ERR_INPUT,
                    "schedule: pipeline rank %d has %s twice, as its tasks %d and %d; each pass is "
                    "done once",
                    rank, name, *index, i);
        }
        *index = i;
    }
exit:
    return status;
}

static ls_status find_missing(const ls_places *places, int rank)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = places->schedule;
    for (int pass = LS_FORWARD; pass <= LS_BACKWARD; pass++) {
        for (int c = 0; c < schedule->chunks; c++) {
            for (int m = 0; m < schedule->micro_batches; m++) {
                ls_task task = {(ls_pass)pass, c, m};
                char name[LS_TASK_NAME_BYTES];
                if (places->index[slot_of(schedule, rank, task)] >= 0) continue;
                ls_task_name(schedule, task, name, sizeof name);
                LS_FAIL(LS_ERR_INPUT,
                        "schedule: pipeline rank %d has no %s; it needs the forward and the "
                        "backward pass of micro-batches 0 to %d in chunks 0 to %d",
                        rank, name, schedule->micro_batches - 1, schedule->chunks - 1);
            }
        }
    }
exit:
    return status;
}

ls_status ls_places_create(ls_places **ret_places, const ls_schedule *schedule)
{
    ls_status status = LS_OK;
    ls_places *places = NULL;
    LS_TRY(check_sizes(schedule));
    LS_NEW(places, 1);
    places->schedule = schedule;
    size_t count =
        (size_t)schedule->stages * 2 * (size_t)schedule->chunks * (size_t)schedule->micro_batches;
    LS_ROOM(places->index, count);
    for (size_t i = 0; i < count; i++) places->index[i] = -1;
    for (int p = 0; p < schedule->stages; p++) {
        LS_TRY(enter_tasks(places, p));
        LS_TRY(find_missing(places, p));
    }
    *ret_places = places;
    places = NULL;
exit:
    ls_places_destroy(&places);
    return status;
}

void ls_places_destroy(ls_places **places)
{
    if (*places == NULL) return;
    free((*places)->index);
    free(*places);
    *places = NULL;
}

ls_place ls_places_stage(const ls_places *places, int stage, ls_pass pass, int micro_batch)
{
    int ranks = places->schedule->stages;
    ls_task task = {pass, stage / ranks, micro_batch};
    ls_place place = {stage % ranks, 0};
    place.index = places->index[slot_of(places->schedule, place.rank, task)];
    return place;
}

int ls_places_needed(const ls_places *places, ls_place of, ls_place *ret_needed)
{
    const ls_schedule *schedule = places->schedule;
    ls_task task = ls_task_at(schedule, of);
    int stage = task.chunk * schedule->stages + of.rank, n = 0;
    int last = schedule->chunks * schedule->stages - 1;
    if (task.pass == LS_FORWARD) {
        if (stage > 0)
            ret_needed[n++] = ls_places_stage(places, stage - 1, LS_FORWARD, task.micro_batch);
    } else {
        ret_needed[n++] = ls_places_stage(places, stage, LS_FORWARD, task.micro_batch);
        if (stage < last)
            ret_needed[n++] = ls_places_stage(places, stage + 1, LS_BACKWARD, task.micro_batch);
    }
    return n;
}
