/* plan_messages.c - how much room a pipeline rank's messages may take.
 *
 * What a rank sends is in its own memory until the receiver has taken it. Before every task the
 * rank gives back what has been taken; when that is seen depends on time. What it must have seen
 * follows from the lists: a message from a neighbour was made by a task, and by then the neighbour
 * had taken everything that its tasks before that one take. */
#include <stdlib.h>

#include "lockstep/partition/share.h"
#include "pipeline/plan_parts.h"
#include "base/allocate.h"

/* Another rank of the pipeline, or with one rank, this one. */
typedef struct neighbour {
    int rank;
    int known;         /* its tasks that surely have begun: those before this one */
    int counted;       /* of these, whose messages have been given back           */
    uint64_t *waiting; /* [n_tasks]: sequences that wait for a task of its list   */
} neighbour;

typedef struct walk {
    const ls_places *places;
    neighbour neighbours[2];
    int n;
    uint64_t held, most; /* sequences */
} walk;

static neighbour *neighbour_of(walk *w, int stage)
{
    int rank = stage % w->places->schedule->stages;
    return w->n > 1 && w->neighbours[1].rank == rank ? &w->neighbours[1] : &w->neighbours[0];
}

/* Sequences that wait for one pass of another stage. */
static uint64_t *waiting_for(walk *w, int stage, ls_pass pass, int micro_batch)
{
    ls_place place = ls_places_stage(w->places, stage, pass, micro_batch);
    return &neighbour_of(w, stage)->waiting[place.index];
}

static void send(walk *w, int to_stage, ls_pass pass, int micro_batch, uint64_t sequences)
{
    *waiting_for(w, to_stage, pass, micro_batch) = sequences;
    w->held += sequences;
}

/* What that pass of another stage has made is here: it has begun, and all before it. */
static void receive(walk *w, int from_stage, ls_pass pass, int micro_batch)
{
    int index = ls_places_stage(w->places, from_stage, pass, micro_batch).index;
    neighbour *from = neighbour_of(w, from_stage);
    if (from->known < index + 1) from->known = index + 1;
}

static void give_back(walk *w)
{
    for (int n = 0; n < w->n; n++) {
        neighbour *at = &w->neighbours[n];
        for (; at->counted < at->known; at->counted++) {
            w->held -= at->waiting[at->counted];
            at->waiting[at->counted] = 0;
        }
    }
}

static void look(walk *w, uint64_t more)
{
    if (w->held + more > w->most) w->most = w->held + more;
}

static void do_task(walk *w, int pp_rank, ls_task task, uint64_t B)
{
    const ls_schedule *schedule = w->places->schedule;
    int stage = task.chunk * schedule->stages + pp_rank, m = task.micro_batch;
    bool last = stage == schedule->stages * schedule->chunks - 1;

    give_back(w);
    if (task.pass == LS_FORWARD) {
        if (stage > 0) receive(w, stage - 1, LS_FORWARD, m);
        if (!last) send(w, stage + 1, LS_FORWARD, m, B);
        look(w, 0);
        return;
    }
    uint64_t incoming = last ? 0 : B;
    look(w, incoming);
    if (!last) {
        receive(w, stage + 1, LS_BACKWARD, m);
        /* Its output was taken, or no gradient would be here. */
        uint64_t *output = waiting_for(w, stage + 1, LS_FORWARD, m);
        w->held -= *output;
        *output = 0;
    }
    if (stage > 0) send(w, stage - 1, LS_BACKWARD, m, B);
    look(w, incoming);
}

ls_status ls_schedule_messages(const ls_places *places, int pp_rank, size_t sequences,
                               uint64_t *ret_sequences)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = places->schedule;
    int K = schedule->stages, tasks = schedule->n_tasks;
    walk w = {.places = places, .n = K > 2 ? 2 : 1};

    w.neighbours[0].rank = (pp_rank + 1) % K;
    w.neighbours[1].rank = (pp_rank + K - 1) % K;
    for (int n = 0; n < w.n; n++) {
        LS_NEW(w.neighbours[n].waiting, (size_t)tasks);
    }
    for (int i = 0; i < tasks; i++) {
        ls_task task = ls_schedule_of(schedule, pp_rank)[i];
        if (K == 1) w.neighbours[0].known = i;
        ls_share own =
            ls_share_of(sequences, (size_t)schedule->micro_batches, (size_t)task.micro_batch);
        do_task(&w, pp_rank, task, own.count);
    }
    *ret_sequences = w.most;
exit:
    for (int n = 0; n < w.n; n++) free(w.neighbours[n].waiting);
    return status;
}
