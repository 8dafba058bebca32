#include <stdlib.h>

#include "lockstep/pipeline/drawing.h"
#include "base/allocate.h"
#include "base/append.h"

static ls_box box_of(const ls_timeline *timeline, int rank, int index)
{
    const ls_schedule *schedule = timeline->schedule;
    ls_task task = ls_schedule_of(schedule, rank)[index];
    ls_interval when = ls_timeline_of(timeline, rank)[index];
    ls_box box = {.row = rank,
                  .start = (double)when.start,
                  .end = (double)when.end,
                  .kind = task.pass == LS_FORWARD ? LS_BOX_FORWARD : LS_BOX_BACKWARD,
                  .chunk = task.chunk};
    /* Colour and shade say pass and chunk. */
    snprintf(box.label, sizeof box.label, "%d", task.micro_batch);
    const size_t used =
        ls_append(box.note, sizeof box.note, 0, "rank %d, %s of micro-batch %d", rank,
                  task.pass == LS_FORWARD ? "forward" : "backward", task.micro_batch);
    if (schedule->chunks > 1) ls_append(box.note, sizeof box.note, used, ", chunk %d", task.chunk);
    return box;
}

ls_status ls_svg_timeline(FILE *file, const ls_timeline *timeline, const char *title)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = timeline->schedule;
    size_t count = 0;
    ls_box *boxes = NULL;
    LS_ROOM(boxes, (size_t)schedule->stages * (size_t)schedule->n_tasks);
    for (int p = 0; p < schedule->stages; p++)
        for (int i = 0; i < schedule->n_tasks; i++) boxes[count++] = box_of(timeline, p, i);
    ls_drawing drawing = {.title = title, .rows = schedule->stages, .boxes = boxes, .count = count};
    ls_svg_boxes(file, &drawing);
exit:
    free(boxes);
    return status;
}
