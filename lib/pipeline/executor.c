/* executor.c - makes a pipeline rank: its stages, and room for what goes through them. */
#include <stdlib.h>

#include "lockstep/numerics/forest_sum.h"
#include "lockstep/parallel/sharding.h"
#include "pipeline/executor_state.h"

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
        ls_share own = ls_own_micro_batch(setup, tasks[i].micro_batch);
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
    ls_chunk *own = &e->chunks[c];
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
    LS_TRY(ls_schedule_check(schedule));
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
            /* After a failure a neighbour may be taking it still. */
            ls_send_withdraw(&e->chunks[c].flights[f].sending);
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
