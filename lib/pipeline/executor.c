/* executor.c - makes a pipeline rank: its stages, and room for what goes through them. */
#include <stdlib.h>

#include "lockstep/parallel/layout/sharding.h"
#include "pipeline/executor_state.h"
#include "pipeline/gradient_slots.h"
#include "base/allocate.h"

static ls_status chunk_create(ls_executor *e, int c)
{
    ls_status status = LS_OK;
    const ls_executor_setup *setup = &e->setup;
    ls_chunk *own = &e->chunks[c];
    own->number = c * setup->layout->pp + ls_group_rank(setup->pp);
    ls_stage_setup stage = {.tp = setup->tp,
                            .engine = setup->engine,
                            .first_layer = e->bounds[own->number],
                            .layers = e->bounds[own->number + 1] - e->bounds[own->number],
                            .embedding = own->number == 0,
                            .head = own->number == e->stages - 1,
                            .gathered_loss = setup->gathered_loss,
                            .sequence_parallel = setup->layout->sp,
                            .recompute = setup->layout->recompute,
                            .batch = setup->batch,
                            .kv = &e->kv,
                            .observer = setup->observer};
    size_t M = (size_t)setup->layout->micro_batches;

    LS_TRY(ls_stage_create(&own->stage, &stage, e->store));
    LS_NEW(own->flights, M);
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
    ls_executor *e = NULL;
    const ls_config *config = &store->table->config;
    int chunks = setup->layout->virtual_stages;
    size_t slots = 1;
    ls_cuts cuts;

    LS_NEW(e, 1);
    e->setup = *setup;
    e->store = store;
    e->memory = ls_rank_memory(ls_group_owner(setup->tp));
    e->stages = ls_layout_stages(setup->layout);
    LS_TRY(check(setup));
    LS_TRY(ls_arena_create(&e->lasting, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&e->incoming, e->memory, LS_MEM_COMMUNICATION));
    LS_TRY(ls_gradient_slots_of(setup->schedule, ls_group_rank(setup->pp), setup->batch,
                                setup->first, setup->sequences, &slots));
    LS_TRY(ls_store_gradient_slots(store, slots));
    LS_TRY(ls_cuts_create(config, ls_group_size(setup->tp), e->lasting, &cuts));
    LS_TRY(ls_kv_sharing_create(setup->tp, &cuts.heads, config->kv_heads, e->lasting, &e->kv));
    LS_NEW(e->chunks, (size_t)chunks);
    ls_layout_stage_bounds(setup->layout, config->layers, e->bounds);
    for (int c = 0; c < chunks; c++) LS_TRY(chunk_create(e, c));
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
            ls_send_cancel(&e->chunks[c].flights[f].sending);
            ls_micro_batch_destroy(&e->chunks[c].flights[f].saved);
            ls_arena_destroy(&e->chunks[c].flights[f].input);
        }
        free(e->chunks[c].flights);
        ls_stage_destroy(&e->chunks[c].stage);
    }
    free(e->chunks);
    ls_arena_destroy(&e->incoming);
    ls_arena_destroy(&e->lasting);
    free(e);
    *executor = NULL;
}
