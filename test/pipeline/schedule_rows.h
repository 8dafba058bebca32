/* schedule_rows.h - schedules written as text, a row per rank: "F0 F1.1 B1.1" (F micro-batch .
 * chunk). Tests read hand-made schedules from it, and made ones are held against it. */
#ifndef LS_TEST_SCHEDULE_ROWS_H
#define LS_TEST_SCHEDULE_ROWS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/pipeline/schedule.h"

/* Reads a row of at most `room` tasks; returns how many. */
static inline int read_row(const char *row, ls_task *ret_tasks, int room)
{
    int count = 0;
    while (*row) {
        char *end;
        ck_assert(*row == 'F' || *row == 'B');
        ck_assert_int_lt(count, room);
        ls_task task = {*row == 'F' ? LS_FORWARD : LS_BACKWARD, 0, 0};
        task.micro_batch = (int)strtol(row + 1, &end, 10);
        ck_assert_ptr_ne(end, row + 1);
        if (*end == '.') task.chunk = (int)strtol(end + 1, &end, 10);
        ret_tasks[count++] = task;
        row = end;
        while (*row == ' ') row++;
    }
    return count;
}

/* A schedule from K rows of text, all of one length; tasks: room for `room`. */
static inline ls_schedule read_rows(ls_schedule_kind kind, int stages, int micro_batches,
                                    int chunks, const char *const *rows, ls_task *tasks, int room)
{
    ls_schedule schedule = {kind, stages, chunks, micro_batches, 0, tasks};
    for (int p = 0; p < stages; p++) {
        int count = read_row(rows[p], tasks + p * schedule.n_tasks, room - p * schedule.n_tasks);
        if (p == 0) schedule.n_tasks = count;
        ck_assert_int_eq(count, schedule.n_tasks);
    }
    return schedule;
}

/* Writes one rank's list as text. */
static inline void write_row(const ls_schedule *schedule, int rank, char *ret_text, size_t size)
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (int i = 0; i < schedule->n_tasks; i++) {
        char name[LS_TASK_NAME_BYTES];
        ls_task_name(schedule, ls_schedule_of(schedule, rank)[i], name, sizeof name);
        used += (size_t)snprintf(ret_text + used, size - used, "%s%s", i ? " " : "", name);
        ck_assert_uint_lt(used, size);
    }
}

#endif
