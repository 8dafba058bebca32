#include <stdio.h>
#include <string.h>

#include "lockstep/pipeline/timeline.h"
#include "pipeline/timeline_parts.h"

/* A line under way; blanks are held back until something follows them. */
typedef struct pen {
    FILE *file;
    int blanks;
} pen;

static void put(pen *p, char c)
{
    if (c == ' ') {
        p->blanks++;
        return;
    }
    for (; p->blanks > 0; p->blanks--) fputc(' ', p->file);
    fputc(c, p->file);
}

/* Digits of the largest number below n. */
static int digits_below(int n)
{
    int digits = 1;
    for (n = n - 1; n >= 10; n /= 10) digits++;
    return digits;
}

/* `slots` columns of `width` characters and a blank before each; only the name of a pass of one
 * column may be shorter. */
static void put_pass(pen *p, const char *name, int64_t slots, int width)
{
    int64_t length = (int64_t)strlen(name), all = slots * (width + 1) - 1;
    put(p, ' ');
    for (int64_t i = 0; i < all; i++) put(p, i < length ? name[i] : slots > 1 ? '=' : ' ');
}

static void put_idle(pen *p, int64_t slots, int width)
{
    for (int64_t s = 0; s < slots; s++) {
        put(p, ' ');
        for (int i = 0; i < width; i++) put(p, '.');
    }
}

static void put_many(pen *p, char c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) put(p, c);
}

static void put_rank(pen *p, const ls_timeline *timeline, int rank, bool compact)
{
    const ls_schedule *schedule = timeline->schedule;
    const ls_interval *intervals = ls_timeline_of(timeline, rank);
    int64_t slot = ls_greatest_common_divisor(timeline->forward_cost, timeline->backward_cost);
    int64_t now = 0;
    int width = 1 + digits_below(schedule->micro_batches);
    if (schedule->chunks > 1) width += 1 + digits_below(schedule->chunks);

    fprintf(p->file, "rank %-*d", digits_below(schedule->stages), rank);
    if (compact) put(p, ' ');
    for (int i = 0; i <= schedule->n_tasks; i++) {
        int64_t next = i < schedule->n_tasks ? intervals[i].start : timeline->makespan;
        if (compact)
            put_many(p, '.', (next - now) / slot);
        else
            put_idle(p, (next - now) / slot, width);
        if (i == schedule->n_tasks) break;

        ls_task task = ls_schedule_of(schedule, rank)[i];
        int64_t slots = (intervals[i].end - next) / slot;
        char name[LS_TASK_NAME_BYTES];
        ls_task_name(schedule, task, name, sizeof name);
        if (compact)
            put_many(p,
                     (char)(task.pass == LS_FORWARD ? '0' + task.micro_batch % 10
                                                    : 'a' + task.micro_batch % 26),
                     slots);
        else
            put_pass(p, name, slots, width);
        now = intervals[i].end;
    }
}

void ls_timeline_text(FILE *file, const ls_timeline *timeline, bool compact)
{
    for (int rank = 0; rank < timeline->schedule->stages; rank++) {
        pen p = {file, 0};
        put_rank(&p, timeline, rank, compact);
        fputc('\n', file);
    }
}
