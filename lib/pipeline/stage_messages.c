/* stage_messages.c - what goes between stages: activations forward, their gradients backward.
 *
 * Over a cut between two stages of different ranks goes a message; between two stages of one rank
 * (virtual stages on a pipeline of one) nothing is sent, the receiver copies. */
#include <string.h>

#include "pipeline/executor_state.h"

static int rank_of(const ls_executor *e, int stage)
{
    return stage % e->setup.layout->pp;
}

static bool is_here(const ls_executor *e, int stage)
{
    return rank_of(e, stage) == ls_group_rank(e->setup.pp);
}

/* Messages of one micro-batch over one cut, named by the stage after it, in one direction have a
 * tag of their own, so that what was sent and what is expected cannot be mixed up. */
static int tag_of(const ls_executor *e, int cut, int micro_batch, ls_pass pass)
{
    return (cut * e->setup.layout->micro_batches + micro_batch) * 2 + (int)pass;
}

size_t ls_message_elements(const ls_executor *e, const ls_batch *batch)
{
    return ls_stage_rows(e->chunks[0].stage, batch->B, batch->S) * e->store->table->config.d_model;
}

ls_in_flight *ls_in_flight_of(const ls_executor *e, const ls_chunk *chunk, int micro_batch)
{
    for (int f = 0; f < e->setup.layout->micro_batches; f++) {
        if (chunk->flights[f].micro_batch == micro_batch) return &chunk->flights[f];
        if (!chunk->flights[f].saved) break;
    }
    return NULL;
}

/* Shows what goes over a cut: the output of the last layer before it, or the gradient of that; own
 * tokens. */
static ls_status look(const ls_executor *e, int cut, int micro_batch, ls_pass pass,
                      ls_comm_kind comm, const ls_real *values)
{
    const ls_executor_setup *setup = &e->setup;
    if (!setup->observer) return LS_OK;
    const size_t D = e->store->table->config.d_model, before = e->bounds[cut];
    const ls_share part = ls_own_micro_batch(setup, micro_batch);
    ls_share own = {0, e->S};
    if (setup->layout->sp)
        own = ls_share_of(e->S, (size_t)ls_group_size(setup->tp), (size_t)ls_group_rank(setup->tp));
    const ls_view view = {.param = -1,
                          .use = -1,
                          .point = before > 0 ? LS_POINT_LAYER
                                              : LS_POINT_EMBEDDED, /* no layers before it */
                          .gradient = pass == LS_BACKWARD,
                          .layer = (int)before - 1,
                          .step = e->step,
                          .comm = comm,
                          .n_dims = 3,
                          .dims = {{setup->batch, setup->first + part.first, part.count},
                                   {e->S, own.first, own.count},
                                   {D, 0, D}},
                          .dtype = LS_REAL_DTYPE,
                          .values = values,
                          .stride = D};
    return setup->observer->look(setup->observer->context, ls_group_owner(setup->tp), &view);
}

ls_status ls_send_output(ls_executor *e, ls_in_flight *flight, int stage, ls_pass pass,
                         const ls_real *values, size_t count)
{
    ls_status status = LS_OK;
    int to = pass == LS_FORWARD ? stage + 1 : stage - 1, cut = pass == LS_FORWARD ? to : stage;
    flight->output = values;
    if (is_here(e, to)) return LS_OK;
    LS_TRY(look(e, cut, flight->micro_batch, pass, LS_COMM_SENT, values));
    LS_TRY(ls_send_begin(e->setup.pp, rank_of(e, to), tag_of(e, cut, flight->micro_batch, pass),
                         values, count, LS_REAL_DTYPE, &flight->sending));
exit:
    return status;
}

ls_status ls_recv_input(ls_executor *e, ls_arena *arena, int stage, int micro_batch, ls_pass pass,
                        size_t count, const ls_real **ret_values)
{
    ls_status status = LS_OK;
    int from = pass == LS_FORWARD ? stage - 1 : stage + 1, cut = pass == LS_FORWARD ? stage : from;
    ls_real *values;

    LS_TRY(ls_arena_alloc(arena, count, sizeof *values, (void *)&values));
    if (!is_here(e, from)) {
        LS_TRY(ls_receive(e->setup.pp, rank_of(e, from), tag_of(e, cut, micro_batch, pass), values,
                          count, LS_REAL_DTYPE));
        LS_TRY(look(e, cut, micro_batch, pass, LS_COMM_RECEIVED, values));
    } else {
        ls_in_flight *made =
            ls_in_flight_of(e, &e->chunks[from / e->setup.layout->pp], micro_batch);
        if (!made || !made->output)
            LS_FAIL(LS_ERR_INPUT,
                    "the schedule takes micro-batch %d from stage %d before it is there",
                    micro_batch, from);
        memcpy(values, made->output, count * sizeof *values);
        LS_TRY(ls_in_flight_sent(made));
    }
    *ret_values = values;
exit:
    return status;
}

ls_status ls_in_flight_sent(ls_in_flight *flight)
{
    ls_status status = LS_OK;
    LS_TRY(ls_send_end(&flight->sending));
    flight->output = NULL;
    ls_micro_batch_sent(flight->saved);
    if (flight->over) flight->micro_batch = -1;
exit:
    return status;
}

ls_status ls_retire_sends(ls_executor *e, bool all)
{
    ls_status status = LS_OK;
    for (int c = 0; c < e->setup.layout->virtual_stages; c++)
        for (int f = 0; f < e->setup.layout->micro_batches; f++) {
            ls_in_flight *flight = &e->chunks[c].flights[f];
            if (!flight->saved) break;
            if (flight->sending && (all || ls_send_is_over(flight->sending)))
                LS_TRY(ls_in_flight_sent(flight));
        }
exit:
    return status;
}
