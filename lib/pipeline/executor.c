#include "lockstep/pipeline/executor.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/comm/channel.h"
#include "lockstep/numerics/forest_sum.h"
#include "lockstep/parallel/sharding.h"
#include "lockstep/parallel/stage.h"
#include "lockstep/parallel/update.h"
#include "lockstep/partition/share.h"

/* A micro-batch on its way through one stage. */
typedef struct flight {
    int micro_batch; /* -1: free */
    bool over;       /* gone backward: free once its gradient is taken */
    ls_micro_batch *kept;
    ls_arena *input; /* activations received, until backward */
    const ls_real *output;
    ls_sending *sending; /* its output, then its gradient, while nobody has taken it */
} flight;

/* One of the rank's stages. */
typedef struct chunk {
    int stage; /* number in the model */
    ls_stage *stage_part;
    flight *flights; /* M, of which as many are in use as the schedule keeps alive */
} chunk;

struct ls_executor {
    ls_executor_setup setup;
    ls_store *store;
    ls_memory *memory;
    ls_arena *lasting;  /* groups and bounds: as long as the executor */
    ls_arena *incoming; /* a gradient received, for the time of one backward pass */
    ls_kv_sharing kv;
    int stages; /* of the model */
    chunk *chunks;
};

static ls_share own_micro_batch(const ls_executor_setup *setup, int micro_batch)
{
    return ls_share_of(setup->sequences, (size_t)setup->layout->micro_batches, (size_t)micro_batch);
}

/* ---- making ---- */

/* Slots that one chunk's gradients need, in the order of its backward passes. */
static ls_status slots_of(const ls_executor_setup *setup, int chunk_number, size_t *ret_slots)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = setup->schedule;
    const ls_task *tasks = ls_schedule_of(schedule, ls_group_rank(setup->pp));
    ls_run_of_leaves *runs = malloc((size_t)schedule->micro_batches * sizeof *runs);
    size_t n = 0;

    if (!runs) LS_FAIL(LS_ERR_MEMORY, "no memory for %d micro-batches", schedule->micro_batches);
    for (int i = 0; i < schedule->n_tasks && n < (size_t)schedule->micro_batches; i++) {
        if (tasks[i].pass != LS_BACKWARD || tasks[i].chunk != chunk_number) continue;
        ls_share own = own_micro_batch(setup, tasks[i].micro_batch);
        size_t lo = setup->first + own.first;
        runs[n++] = (ls_run_of_leaves){lo, lo + own.count};
    }
    *ret_slots = ls_forest_sum_slots(setup->batch, runs, n);
exit:
    free(runs);
    return status;
}

static ls_status chunk_create(ls_executor *e, int c, const size_t *bounds)
{
    ls_status status = LS_OK;
    const ls_executor_setup *setup = &e->setup;
    chunk *own = &e->chunks[c];
    own->stage = c * setup->layout->pp + ls_group_rank(setup->pp);
    ls_stage_setup stage = {.tp = setup->tp,
                            .engine = setup->engine,
                            .first_layer = bounds[own->stage],
                            .layers = bounds[own->stage + 1] - bounds[own->stage],
                            .embedding = own->stage == 0,
                            .head = own->stage == e->stages - 1,
                            .gathered_loss = setup->gathered_loss,
                            .sequence_parallel = setup->layout->sp,
                            .recompute = setup->layout->recompute,
                            .batch = setup->batch,
                            .kv = &e->kv};
    size_t M = (size_t)setup->layout->micro_batches;

    LS_TRY(ls_stage_create(&own->stage_part, &stage, e->store));
    own->flights = calloc(M, sizeof *own->flights);
    if (!own->flights) LS_FAIL(LS_ERR_MEMORY, "no memory for %zu micro-batches", M);
    for (size_t f = 0; f < M; f++) own->flights[f].micro_batch = -1;
exit:
    return status;
}

static ls_status check(const ls_executor_setup *setup)
{
    ls_status status = LS_OK;
    const ls_schedule *schedule = setup->schedule;
    const ls_layout *layout = setup->layout;
    if (schedule->stages != layout->pp || schedule->micro_batches != layout->micro_batches ||
        schedule->chunks != layout->virtual_stages || ls_group_size(setup->pp) != layout->pp)
        LS_FAIL(LS_ERR_INPUT,
                "a schedule of %d ranks, %d micro-batches, %d virtual stages in a pipeline of %d "
                "ranks: the layout has pp %d, %d micro-batches, %d virtual stages",
                schedule->stages, schedule->micro_batches, schedule->chunks,
                ls_group_size(setup->pp), layout->pp, layout->micro_batches,
                layout->virtual_stages);
    if (setup->sequences < (size_t)layout->micro_batches)
        LS_FAIL(LS_ERR_INPUT, "%zu sequences do not fill %d micro-batches", setup->sequences,
                layout->micro_batches);
exit:
    return status;
}

ls_status ls_executor_create(ls_executor **ret_executor, const ls_executor_setup *setup,
                             ls_store *store)
{
    ls_status status = LS_OK;
    ls_executor *e = calloc(1, sizeof *e);
    const ls_config *config = &store->table->config;
    int chunks = setup->layout->virtual_stages;
    size_t bounds[LS_MAX_STAGES + 1], slots = 0, most = 1;
    ls_cuts cuts;

    if (!e) LS_FAIL(LS_ERR_MEMORY, "no memory for a pipeline rank");
    e->setup = *setup;
    e->store = store;
    e->memory = ls_rank_memory(ls_group_owner(setup->tp));
    e->stages = ls_layout_stages(setup->layout);
    LS_TRY(check(setup));
    LS_TRY(ls_arena_create(&e->lasting, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&e->incoming, e->memory, LS_MEM_COMMUNICATION));
    for (int c = 0; c < chunks; c++) {
        LS_TRY(slots_of(setup, c, &slots));
        if (slots > most) most = slots;
    }
    LS_TRY(ls_store_gradient_slots(store, most));
    LS_TRY(ls_cuts_create(config, ls_group_size(setup->tp), e->lasting, &cuts));
    LS_TRY(ls_kv_sharing_create(setup->tp, &cuts.heads, config->kv_heads, e->lasting, &e->kv));
    e->chunks = calloc((size_t)chunks, sizeof *e->chunks);
    if (!e->chunks) LS_FAIL(LS_ERR_MEMORY, "no memory for %d virtual stages", chunks);
    ls_layout_stage_bounds(setup->layout, config->layers, bounds);
    for (int c = 0; c < chunks; c++) LS_TRY(chunk_create(e, c, bounds));
    *ret_executor = e;
    e = NULL;
exit:
    ls_executor_destroy(&e);
    return status;
}

void ls_executor_destroy(ls_executor **executor)
{
    if (!executor || !*executor) return;
    ls_executor *e = *executor;
    for (int c = 0; e->chunks && c < e->setup.layout->virtual_stages; c++) {
        for (int f = 0; e->chunks[c].flights && f < e->setup.layout->micro_batches; f++) {
            ls_micro_batch_destroy(&e->chunks[c].flights[f].kept);
            ls_arena_destroy(&e->chunks[c].flights[f].input);
        }
        free(e->chunks[c].flights);
        ls_stage_destroy(&e->chunks[c].stage_part);
    }
    free(e->chunks);
    ls_arena_destroy(&e->incoming);
    ls_arena_destroy(&e->lasting);
    free(e);
    *executor = NULL;
}

/* ---- what goes between stages ---- */

static int rank_of_stage(const ls_executor *e, int stage)
{
    return stage % e->setup.layout->pp;
}

/* Messages of one micro-batch over one cut (before `stage`) in one direction have a tag of their
 * own, so that what was sent and what is expected cannot be mixed up. */
static int tag_of(const ls_executor *e, int stage, int micro_batch, ls_pass pass)
{
    return (stage * e->setup.layout->micro_batches + micro_batch) * 2 + (int)pass;
}

/* Elements of a micro-batch's activations as this rank holds them between blocks. */
static size_t elements(const ls_executor *e, const ls_batch *batch)
{
    ls_share own = {0, batch->S};
    if (e->setup.layout->sp)
        own = ls_share_of(batch->S, (size_t)ls_group_size(e->setup.tp),
                          (size_t)ls_group_rank(e->setup.tp));
    return batch->B * own.count * e->store->table->config.d_model;
}

static flight *flight_of(chunk *own, int micro_batches, int micro_batch)
{
    for (int f = 0; f < micro_batches; f++)
        if (own->flights[f].micro_batch == micro_batch) return &own->flights[f];
    return NULL;
}

/* Sends what a pass through `own` made over the cut before `cut_stage`, unless it stays here. */
static ls_status send_begin(ls_executor *e, flight *f, int to_stage, int cut_stage, ls_pass pass,
                            const ls_real *values, size_t count)
{
    int peer = rank_of_stage(e, to_stage);
    f->output = values;
    if (peer == ls_group_rank(e->setup.pp)) return LS_OK;
    return ls_send_begin(e->setup.pp, peer, tag_of(e, cut_stage, f->micro_batch, pass), values,
                         count, LS_REAL_DTYPE, &f->sending);
}

static ls_status sent(flight *f)
{
    ls_status status = LS_OK;
    LS_TRY(ls_send_end(&f->sending));
    f->output = NULL;
    ls_micro_batch_sent(f->kept);
    if (f->over) f->micro_batch = -1;
exit:
    return status;
}

/* Gives back the room of what has been taken by now. */
static ls_status look_after_sends(ls_executor *e)
{
    ls_status status = LS_OK;
    for (int c = 0; c < e->setup.layout->virtual_stages; c++)
        for (int f = 0; f < e->setup.layout->micro_batches; f++) {
            flight *at = &e->chunks[c].flights[f];
            if (at->sending && ls_send_is_over(at->sending)) LS_TRY(sent(at));
        }
exit:
    return status;
}

/* Room for `count` elements from `arena`, filled from the stage `from_stage`. */
static ls_status receive(ls_executor *e, ls_arena *arena, int from_stage, int cut_stage,
                         int micro_batch, ls_pass pass, size_t count, const ls_real **ret_values)
{
    ls_status status = LS_OK;
    int peer = rank_of_stage(e, from_stage);
    ls_real *values;
    LS_TRY(ls_arena_alloc(arena, count, sizeof *values, (void *)&values));
    if (peer != ls_group_rank(e->setup.pp)) {
        LS_TRY(ls_receive(e->setup.pp, peer, tag_of(e, cut_stage, micro_batch, pass), values, count,
                          LS_REAL_DTYPE));
    } else {
        flight *from = flight_of(&e->chunks[from_stage / e->setup.layout->pp],
                                 e->setup.layout->micro_batches, micro_batch);
        if (!from || !from->output)
            LS_FAIL(LS_ERR_INPUT,
                    "the schedule takes micro-batch %d from stage %d before it is there",
                    micro_batch, from_stage);
        memcpy(values, from->output, count * sizeof *values);
        LS_TRY(sent(from));
    }
    *ret_values = values;
exit:
    return status;
}

/* ---- the two passes ---- */

/* A flight for a micro-batch that begins: the first that is free, so that no more are in use than
 * are alive or on their way. */
static ls_status begin_flight(ls_executor *e, chunk *own, int micro_batch, flight **ret_flight)
{
    ls_status status = LS_OK;
    flight *f = flight_of(own, e->setup.layout->micro_batches, -1);
    if (!f)
        LS_FAIL(LS_ERR_INPUT, "the schedule begins micro-batch %d in stage %d a second time",
                micro_batch, own->stage);
    if (!f->kept) LS_TRY(ls_micro_batch_create(&f->kept, own->stage_part));
    if (!f->input) LS_TRY(ls_arena_create(&f->input, e->memory, LS_MEM_ACTIVATIONS));
    f->micro_batch = micro_batch;
    f->over = false;
    *ret_flight = f;
exit:
    return status;
}

static ls_status forward(ls_executor *e, chunk *own, const ls_batch *batch, int micro_batch,
                         ls_real *ret_losses)
{
    ls_status status = LS_OK;
    flight *f = NULL;
    const ls_real *x = NULL, *y;
    size_t count = elements(e, batch);
    int64_t valid;

    LS_TRY(begin_flight(e, own, micro_batch, &f));
    if (own->stage > 0)
        LS_TRY(
            receive(e, f->input, own->stage - 1, own->stage, micro_batch, LS_FORWARD, count, &x));
    LS_TRY(ls_stage_forward(own->stage_part, f->kept, batch, x, &y));
    if (own->stage < e->stages - 1)
        LS_TRY(send_begin(e, f, own->stage + 1, own->stage + 1, LS_FORWARD, y, count));
    else
        memcpy(ret_losses, ls_micro_batch_losses(f->kept, &valid), batch->B * sizeof *ret_losses);
exit:
    return status;
}

static ls_status backward(ls_executor *e, chunk *own, const ls_batch *batch, int micro_batch,
                          int64_t valid)
{
    ls_status status = LS_OK;
    flight *f = flight_of(own, e->setup.layout->micro_batches, micro_batch);
    const ls_real *dy = NULL, *dx;
    size_t count = elements(e, batch);

    if (!f)
        LS_FAIL(LS_ERR_INPUT, "the schedule takes micro-batch %d backward in stage %d first",
                micro_batch, own->stage);
    if (own->stage < e->stages - 1)
        LS_TRY(receive(e, e->incoming, own->stage + 1, own->stage + 1, micro_batch, LS_BACKWARD,
                       count, &dy));
    /* Whoever sent that gradient had taken the output before. */
    if (f->sending) LS_TRY(sent(f));
    LS_TRY(ls_stage_backward(own->stage_part, f->kept, dy, valid, &dx));
    ls_arena_release(e->incoming, 0);
    ls_arena_release(f->input, 0);
    f->over = true;
    if (own->stage > 0)
        LS_TRY(send_begin(e, f, own->stage - 1, own->stage, LS_BACKWARD, dx, count));
    else
        f->micro_batch = -1;
exit:
    return status;
}

ls_status ls_executor_run(ls_executor *e, const ls_batch *batch, int64_t valid, ls_real *ret_losses)
{
    ls_status status = LS_OK;
    const ls_layout *layout = e->setup.layout;
    const ls_schedule *schedule = e->setup.schedule;
    const ls_task *tasks = ls_schedule_of(schedule, ls_group_rank(e->setup.pp));

    if (batch->B != e->setup.sequences || batch->first != e->setup.first)
        LS_FAIL(LS_ERR_INPUT, "%zu sequences from %zu on: this rank has %zu from %zu on", batch->B,
                batch->first, e->setup.sequences, e->setup.first);
    if (valid == 0) {
        /* The loss is 0 whatever the parameters (rule 15). */
        memset(e->store->gradient_slab, 0,
               e->store->gradient_slots * e->store->gradient_count * sizeof(ls_real));
        goto exit;
    }
    for (int c = 0; c < layout->virtual_stages; c++)
        ls_stage_begin_gradients(e->chunks[c].stage_part);
    for (int i = 0; i < schedule->n_tasks; i++) {
        chunk *own = &e->chunks[tasks[i].chunk];
        ls_share part = own_micro_batch(&e->setup, tasks[i].micro_batch);
        ls_batch micro_batch = ls_batch_part(batch, part.first, part.count);
        LS_TRY(look_after_sends(e));
        if (tasks[i].pass == LS_FORWARD)
            LS_TRY(forward(e, own, &micro_batch, tasks[i].micro_batch,
                           ret_losses ? ret_losses + part.first : NULL));
        else
            LS_TRY(backward(e, own, &micro_batch, tasks[i].micro_batch, valid));
    }
    for (int c = 0; c < layout->virtual_stages; c++)
        for (int f = 0; f < layout->micro_batches; f++)
            if (e->chunks[c].flights[f].sending) LS_TRY(sent(&e->chunks[c].flights[f]));
    for (int c = 0; c < layout->virtual_stages; c++)
        ls_stage_settle_gradients(e->chunks[c].stage_part);
exit:
    return status;
}

/* ---- tied embedding ---- */

ls_status ls_executor_finish(ls_executor *e)
{
    ls_status status = LS_OK;
    const ls_param_table *table = e->store->table;
    int own = ls_group_rank(e->setup.pp), last = ls_group_size(e->setup.pp) - 1;
    enum { TAG = -1 };

    ls_stage_finish_gradients(e->chunks[0].stage_part);
    for (size_t i = 0; i < table->count && last > 0; i++) {
        const ls_slot *slot = &e->store->slots[i];
        if (!table->params[i].also_last || !slot->value) continue;
        int peer = own == 0 ? last : 0, made = own == 0 ? 0 : 1;
        size_t count = slot->rows * slot->cols;
        LS_TRY(ls_send_receive(e->setup.pp, peer, TAG, slot->grad[made], count, peer, TAG,
                               slot->grad[1 - made], count, LS_REAL_DTYPE));
    }
    ls_add_uses(e->store);
exit:
    return status;
}
