/* executor_run.c - a pipeline rank's step: its tasks in the order of the schedule. */
#include <string.h>

#include "lockstep/comm/trace.h"
#include "lockstep/kernels/elementwise.h"
#include "lockstep/parallel/data/update.h"
#include "parallel/hooks/observe_param.h"
#include "pipeline/executor_state.h"

/* A flight for a micro-batch that begins: the first that is free, so that no more are in use than
 * are alive or on their way. */
static ls_status begin_flight(ls_executor *e, ls_chunk *own, int micro_batch,
                              ls_in_flight **ret_flight)
{
    ls_status status = LS_OK;
    ls_in_flight *f = ls_in_flight_of(e, own, -1);
    if (!f)
        LS_FAIL(LS_ERR_INPUT, "the schedule begins micro-batch %d in stage %d a second time",
                micro_batch, own->number);
    if (!f->saved) LS_TRY(ls_micro_batch_create(&f->saved, own->stage));
    if (!f->input) LS_TRY(ls_arena_create(&f->input, e->memory, LS_MEM_ACTIVATIONS));
    f->micro_batch = micro_batch;
    f->over = false;
    *ret_flight = f;
exit:
    return status;
}

/* first: number of the part's first sequence among the rank's own. */
static void hand_over(ls_sequence_losses own, size_t first, ls_sequence_losses part,
                      size_t sequences)
{
    memcpy(own.tokens + first, part.tokens, sequences * sizeof *part.tokens);
    if (part.order) memcpy(own.order + first, part.order, sequences * sizeof *part.order);
}

static ls_status forward(ls_executor *e, ls_chunk *own, const ls_batch *batch, int micro_batch,
                         ls_sequence_losses losses)
{
    ls_status status = LS_OK;
    ls_in_flight *f = NULL;
    const ls_real *x = NULL, *y;
    size_t count = ls_message_elements(e, batch);
    ls_valid valid;

    LS_TRY(begin_flight(e, own, micro_batch, &f));
    if (own->number > 0)
        LS_TRY(ls_recv_input(e, f->input, own->number, micro_batch, LS_FORWARD, count, &x));
    LS_TRY(ls_stage_forward(own->stage, f->saved, batch, x, &y));
    if (own->number < e->stages - 1)
        LS_TRY(ls_send_output(e, f, own->number, LS_FORWARD, y, count));
    else
        hand_over(losses, batch->first - e->setup.first, ls_micro_batch_losses(f->saved, &valid),
                  batch->B);
exit:
    return status;
}

static ls_status backward(ls_executor *e, ls_chunk *own, const ls_batch *batch, int micro_batch,
                          ls_valid valid)
{
    ls_status status = LS_OK;
    ls_in_flight *f = ls_in_flight_of(e, own, micro_batch);
    const ls_real *dy = NULL, *dx;
    size_t count = ls_message_elements(e, batch);

    if (!f)
        LS_FAIL(LS_ERR_INPUT, "the schedule takes micro-batch %d backward in stage %d first",
                micro_batch, own->number);
    if (own->number < e->stages - 1)
        LS_TRY(ls_recv_input(e, e->incoming, own->number, micro_batch, LS_BACKWARD, count, &dy));
    /* The next stage sent dy after it received our output, so this wait does not block; it frees
     * the send buffer. */
    if (f->sending) LS_TRY(ls_in_flight_sent(f));
    LS_TRY(ls_stage_backward(own->stage, f->saved, dy, valid, &dx));
    ls_arena_release(e->incoming, 0);
    ls_arena_release(f->input, 0);
    f->over = true;
    if (own->number > 0)
        LS_TRY(ls_send_output(e, f, own->number, LS_BACKWARD, dx, count));
    else
        f->micro_batch = -1;
exit:
    return status;
}

ls_status ls_executor_run(ls_executor *e, const ls_batch *batch, ls_valid valid,
                          ls_sequence_losses losses)
{
    ls_status status = LS_OK;
    const ls_layout *layout = e->setup.layout;
    const ls_schedule *schedule = e->setup.schedule;
    const ls_task *tasks = ls_schedule_of(schedule, ls_group_rank(e->setup.pp));
    ls_rank *rank = ls_group_owner(e->setup.tp);

    if (batch->B != e->setup.sequences || batch->first != e->setup.first)
        LS_FAIL(LS_ERR_INPUT, "%zu sequences from %zu on: this rank has %zu from %zu on", batch->B,
                batch->first, e->setup.sequences, e->setup.first);
    e->step = batch->step;
    e->S = batch->S;
    if (!ls_valid_any(valid)) {
        /* The loss is 0 whatever the parameters (rule 15). */
        memset(e->store->gradient_slab, 0,
               e->store->gradient_slots * e->store->gradient_count * sizeof(ls_real));
        goto exit;
    }
    for (int c = 0; c < layout->virtual_stages; c++) ls_stage_begin_gradients(e->chunks[c].stage);
    for (int i = 0; i < schedule->n_tasks; i++) {
        ls_chunk *own = &e->chunks[tasks[i].chunk];
        ls_share part = ls_own_micro_batch(&e->setup, tasks[i].micro_batch);
        ls_batch micro_batch = ls_batch_part(batch, part.first, part.count);
        LS_TRY(ls_retire_sends(e, false));
        ls_trace_task(rank, tasks[i].pass == LS_FORWARD ? "forward" : "backward", (int)batch->step,
                      own->number, tasks[i].micro_batch);
        if (tasks[i].pass == LS_FORWARD)
            LS_TRY(forward(e, own, &micro_batch, tasks[i].micro_batch, losses));
        else
            LS_TRY(backward(e, own, &micro_batch, tasks[i].micro_batch, valid));
    }
    LS_TRY(ls_retire_sends(e, true));
    for (int c = 0; c < layout->virtual_stages; c++) ls_stage_settle_gradients(e->chunks[c].stage);
exit:
    return status;
}

/* Shows the gradient of a use of a parameter to an observer. */
static ls_status show_use(const ls_executor *e, size_t param, int use, ls_comm_kind comm)
{
    const ls_slot *slot = &e->store->slots[param];
    const ls_observed_param look = {.kind = LS_VIEW_USE_GRADIENT,
                                    .use = use,
                                    .step = e->step,
                                    .dtype = LS_REAL_DTYPE,
                                    .comm = comm};
    if (!e->setup.observer) return LS_OK;
    return ls_observe_at_param(e->setup.observer, ls_group_owner(e->setup.tp), look,
                               e->store->table, param, slot->shard, slot->grad[use]);
}

/* Each use of a tied parameter that is made here. */
static ls_status show_uses(const ls_executor *e)
{
    ls_status status = LS_OK;
    const ls_param_table *table = e->store->table;
    for (size_t i = 0; e->setup.observer && i < table->count; i++)
        for (int use = 0; use < table->params[i].uses && table->params[i].uses > 1; use++)
            if (e->store->slots[i].made[use]) LS_TRY(show_use(e, i, use, LS_COMM_NONE));
exit:
    return status;
}

ls_status ls_executor_finish(ls_executor *e)
{
    ls_status status = LS_OK;
    const ls_param_table *table = e->store->table;
    int own = ls_group_rank(e->setup.pp), last = ls_group_size(e->setup.pp) - 1;
    enum { TAG = -1 };

    ls_stage_finish_gradients(e->chunks[0].stage);
    LS_TRY(show_uses(e));
    /* A tied embedding's uses meet: each end has the gradient of its own and gets the other's. */
    for (size_t i = 0; i < table->count && last > 0; i++) {
        const ls_slot *slot = &e->store->slots[i];
        if (!table->params[i].also_last || !slot->value) continue;
        int peer = own == 0 ? last : 0, made = own == 0 ? 0 : 1;
        size_t count = slot->rows * slot->cols;
        LS_TRY(show_use(e, i, made, LS_COMM_SENT));
        LS_TRY(ls_send_receive(e->setup.pp, peer, TAG, slot->grad[made], count, peer, TAG,
                               slot->grad[1 - made], count, LS_REAL_DTYPE));
        LS_TRY(show_use(e, i, 1 - made, LS_COMM_RECEIVED));
    }
    ls_add_uses(e->store);
exit:
    return status;
}
