/* schedule_places.h - where each task of a schedule is, what it waits for, and an order of all
 * ranks' tasks in which nothing waits. */
#ifndef LS_PIPELINE_SCHEDULE_PLACES_H
#define LS_PIPELINE_SCHEDULE_PLACES_H

#include "lockstep/pipeline/schedule.h"

/* A task by its place: number `index` in the list of pipeline rank `rank`. */
typedef struct ls_place {
    int rank, index;
} ls_place;

/* The inverse of a schedule. */
typedef struct ls_places {
    const ls_schedule *schedule;
    int *index; /* [stages][2 passes][chunks][micro_batches]: where in the rank's list */
} ls_places;

/* Looks up all tasks; keeps a reference to the schedule. Errors: LS_ERR_INPUT when a rank lacks a
 * task, has it twice, or has one that is unknown; LS_ERR_MEMORY. */
ls_status ls_places_create(ls_places **ret_places, const ls_schedule *schedule) LS_MUST_USE;

void ls_places_destroy(ls_places **places);

static inline ls_task ls_task_at(const ls_schedule *schedule, ls_place place)
{
    return ls_schedule_of(schedule, place.rank)[place.index];
}

/* The tasks, at most 2, whose results a task uses; returns how many. */
int ls_places_needed(const ls_places *places, ls_place of, ls_place *ret_needed);

/* Where a pass of one of the model's stages is. */
ls_place ls_places_stage(const ls_places *places, int stage, ls_pass pass, int micro_batch);

/* Writes all stages * n_tasks places in an order in which each task is after those it needs
 * and behind its rank's earlier ones. Errors: LS_ERR_INPUT names tasks that wait for each other;
 * LS_ERR_MEMORY. */
ls_status ls_places_in_order(const ls_places *places, ls_place *ret_order) LS_MUST_USE;

#endif
