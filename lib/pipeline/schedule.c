#include "lockstep/pipeline/schedule.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/partition/share.h"
#include "base/allocate.h"

/* A rank's two queues: its forward tasks in order, and its backward tasks in order. Every schedule
 * is a way to merge them. */
typedef struct queues {
    const ls_task *forward, *backward;
    int count; /* of each */
} queues;

/* First `warm_up` forward tasks, then one forward and one backward in turn, then what is left. With
 * warm_up = count all forward tasks come first. */
static void one_forward_one_backward(queues q, int warm_up, ls_task *ret_tasks)
{
    int n = 0;
    for (int i = 0; i < warm_up; i++) ret_tasks[n++] = q.forward[i];
    for (int i = 0; i < q.count; i++) {
        if (warm_up + i < q.count) ret_tasks[n++] = q.forward[warm_up + i];
        ret_tasks[n++] = q.backward[i];
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Interleaving: groups of micro-batches. A micro-batch that leaves the last rank is needed by rank
 * 0 again for the next chunk, K passes after it left rank 0. A group of K is the smallest that
 * keeps rank 0 busy for so long. */
static int groups_of(const ls_schedule *schedule)
{
    int groups = schedule->micro_batches / schedule->stages;
    return groups > 0 ? groups : 1;
}

static int largest_group(const ls_schedule *schedule)
{
    return (int)ls_share_of((size_t)schedule->micro_batches, (size_t)groups_of(schedule), 0).count;
}

/* Forward tasks before the first backward task of a rank. */
static int warm_up_of(const ls_schedule *schedule, int rank)
{
    int below = schedule->stages - 1 - rank; /* ranks that a micro-batch has still to go through */
    int each = schedule->micro_batches * schedule->chunks;
    if (schedule->kind == LS_GPIPE) return each;
    if (schedule->chunks == 1) return least(below, each);
    if (schedule->micro_batches <= schedule->stages) return each;
    /* All chunks but the last of the first group; then twice the way to the end, since the last
     * chunk's first gradient comes back after as many steps as its activations went down. */
    return least((schedule->chunks - 1) * largest_group(schedule) + 2 * below, each);
}

/* The two queues, the same on every rank: group by group, inside a group chunk by chunk. With one
 * chunk that is the order of the micro-batches. */
static void fill_queues(const ls_schedule *schedule, ls_task *ret_forward, ls_task *ret_backward)
{
    int groups = groups_of(schedule), n = 0;
    for (int g = 0; g < groups; g++) {
        ls_share group = ls_share_of((size_t)schedule->micro_batches, (size_t)groups, (size_t)g);
        for (int c = 0; c < schedule->chunks; c++) {
            for (int i = 0; i < (int)group.count; i++) {
                int micro_batch = (int)group.first + i;
                ret_forward[n] = (ls_task){LS_FORWARD, c, micro_batch};
                ret_backward[n] = (ls_task){LS_BACKWARD, schedule->chunks - 1 - c, micro_batch};
                n++;
            }
        }
    }
    /* GPipe drains from the end: the last micro-batch's activations are the freshest. */
    for (int i = 0; schedule->kind == LS_GPIPE && i < n; i++)
        ret_backward[i].micro_batch = n - 1 - i;
}

static ls_status check_numbers(ls_schedule_kind kind, int stages, int micro_batches, int chunks)
{
    ls_status status = LS_OK;
    if (stages < 1 || stages > LS_MAX_STAGES)
        LS_FAIL(LS_ERR_INPUT, "--pp %d: a pipeline has 1 to %d stages", stages, LS_MAX_STAGES);
    if (chunks < 1)
        LS_FAIL(LS_ERR_INPUT, "--virtual-stages %d: a rank has 1 virtual stage or more", chunks);
    if (chunks > 1 && kind != LS_INTERLEAVED)
        LS_FAIL(LS_ERR_INPUT,
                "--virtual-stages %d: --schedule %s has 1 virtual stage per rank; use --schedule "
                "interleaved or --virtual-stages 1",
                chunks, ls_schedule_kind_name(kind));
    if (chunks > LS_MAX_STAGES / stages)
        LS_FAIL(LS_ERR_INPUT,
                "--virtual-stages %d: %lld stages on %d pipeline ranks, at most %d are possible; "
                "use at most %d virtual stages",
                chunks, (long long)chunks * stages, stages, LS_MAX_STAGES, LS_MAX_STAGES / stages);
    if (micro_batches < 1)
        LS_FAIL(LS_ERR_INPUT, "--micro-batches %d: a batch has 1 micro-batch or more",
                micro_batches);
    /* An int numbers all passes of the pipeline: the tags of messages do. */
    int most = INT_MAX / 2 / (stages * chunks);
    if (micro_batches > most)
        LS_FAIL(LS_ERR_INPUT, "--micro-batches %d: at most %d with --pp %d, --virtual-stages %d",
                micro_batches, most, stages, chunks);
exit:
    return status;
}

ls_status ls_schedule_create(ls_schedule **ret_schedule, ls_schedule_kind kind, int stages,
                             int micro_batches, int chunks)
{
    ls_status status = LS_OK;
    ls_schedule *schedule = NULL;
    ls_task *queue = NULL;
    LS_TRY(check_numbers(kind, stages, micro_batches, chunks));

    LS_NEW(schedule, 1);
    *schedule =
        (ls_schedule){kind, stages, chunks, micro_batches, 2 * micro_batches * chunks, NULL};
    LS_NEW(schedule->tasks, (size_t)stages * (size_t)schedule->n_tasks);
    LS_NEW(queue, (size_t)schedule->n_tasks);

    queues q = {queue, queue + schedule->n_tasks / 2, schedule->n_tasks / 2};
    fill_queues(schedule, queue, queue + q.count);
    for (int p = 0; p < stages; p++)
        one_forward_one_backward(q, warm_up_of(schedule, p),
                                 schedule->tasks + (size_t)p * (size_t)schedule->n_tasks);
    *ret_schedule = schedule;
    schedule = NULL;
exit:
    free(queue);
    ls_schedule_destroy(&schedule);
    return status;
}

void ls_schedule_destroy(ls_schedule **schedule)
{
    if (*schedule == NULL) return;
    free((*schedule)->tasks);
    free(*schedule);
    *schedule = NULL;
}

void ls_task_name(const ls_schedule *schedule, ls_task task, char *buffer, size_t size)
{
    char pass = task.pass == LS_FORWARD ? 'F' : 'B';
    if (schedule->chunks == 1)
        snprintf(buffer, size, "%c%d", pass, task.micro_batch);
    else
        snprintf(buffer, size, "%c%d.%d", pass, task.micro_batch, task.chunk);
}
