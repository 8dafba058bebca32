/* rank_transformer.c - a rank's part of a transformer: the tasks of its pipeline stages, then what
 * the data-parallel replicas add up. */
#include <stdlib.h>

#include "lockstep/comm/trace.h"
#include "lockstep/parallel/data/data_parallel.h"
#include "lockstep/parallel/data/replicas.h"
#include "lockstep/pipeline/executor.h"
#include "parallel/data/observe_step.h"
#include "train/rank_model.h"
#include "base/allocate.h"

typedef struct transformer {
    ls_rank_model base;
    const ls_run *run;
    ls_rank *rank;
    ls_store *store;
    ls_group *tp, *dp, *pp; /* along one axis of the grid each */
    ls_executor *executor;
    ls_batch_cut cut; /* who has which sequences */
    size_t *bounds;
    ls_sequence_losses losses; /* of own sequences, on the last stage */
    ls_arena *aside;           /* of these; in no account */
} transformer;

static transformer *of(ls_rank_model *m)
{
    return (transformer *)m;
}

/* All ranks of a model must have the same batch. */
static ls_status check_batch(ls_rank_model *m, ls_step_batch *batch)
{
    ls_status status = LS_OK;
    size_t sequences = batch->batch.B, tokens = sequences * batch->batch.S;
    const struct {
        const int32_t *ids;
        size_t count;
        const char *what;
    } arrays[] = {{batch->tokens, tokens, "tokens"},
                  {batch->targets, tokens, "targets"},
                  {batch->segments, tokens, "token types"},
                  {batch->lengths, sequences, "lengths"},
                  {batch->order, sequences, "order labels"}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i].ids)
            LS_TRY(ls_replicas_check(m->holders, LS_I32, arrays[i].ids, arrays[i].count,
                                     arrays[i].what));
exit:
    return status;
}

/* Only the last stage knows the loss. */
static ls_status broadcast_loss(const transformer *t, uint32_t step, ls_real *loss)
{
    ls_status status = LS_OK;
    const int last = ls_group_size(t->pp) - 1;
    ls_observed_param look = {.kind = LS_VIEW_LOSS,
                              .use = -1,
                              .step = step,
                              .dtype = LS_REAL_DTYPE,
                              .comm = LS_COMM_SHARE};
    if (t->run->observer && ls_group_rank(t->pp) == last)
        LS_TRY(ls_observe_at_number(t->run->observer, t->rank, look, loss));
    LS_TRY(ls_broadcast(t->pp, loss, 1, LS_REAL_DTYPE, last));
    look.comm = LS_COMM_GATHERED;
    if (t->run->observer) LS_TRY(ls_observe_at_number(t->run->observer, t->rank, look, loss));
exit:
    return status;
}

static ls_status gradients(ls_rank_model *m, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    transformer *t = of(m);
    int last = ls_group_size(t->pp) - 1;
    const ls_step_observer look = {t->run->observer, batch->step};
    ls_valid valid;

    /* How many targets and labels there are altogether is known before the first backward pass. */
    LS_TRY(ls_count_valid_seen(look, t->dp, &t->run->config, batch, &valid));
    LS_TRY(ls_executor_run(t->executor, batch, valid, t->losses));
    ls_trace_task(t->rank, "reduce", (int)batch->step, -1, -1);
    if (ls_valid_any(valid)) LS_TRY(ls_reduce_gradients_seen(look, t->dp, t->store, t->cut));
    LS_TRY(ls_executor_finish(t->executor));
    *ret_loss = 0;
    if (ls_valid_any(valid) && ls_group_rank(t->pp) == last)
        LS_TRY(ls_reduce_loss_seen(look, t->dp, t->losses, t->cut, valid, ret_loss));
    if (last > 0) LS_TRY(broadcast_loss(t, batch->step, ret_loss));
exit:
    return status;
}

static void destroy(ls_rank_model *m)
{
    transformer *t = of(m);
    ls_executor_destroy(&t->executor);
    ls_arena_destroy(&t->aside);
    free(t);
}

static const ls_rank_model_operations operations = {check_batch, gradients, destroy};

/* The groups along each axis, as Megatron-LM forms them: ranks that agree in all the others. */
static ls_status make_groups(transformer *t, ls_coordinates at)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &t->run->layout;
    ls_group *world = ls_rank_world_group(t->rank);
    LS_TRY(ls_group_split(world, at.pp * layout->dp + at.dp, at.tp, "tp", &t->tp));
    LS_TRY(ls_group_split(world, at.pp * layout->tp + at.tp, at.dp, "dp", &t->dp));
    LS_TRY(ls_group_split(world, at.dp * layout->tp + at.tp, at.pp, "pp", &t->pp));
    LS_TRY(ls_group_split(world, at.dp, at.pp * layout->tp + at.tp, "model", &t->base.holders));
exit:
    return status;
}

ls_status ls_rank_transformer_create(ls_rank_model **ret_model, const ls_rank_model_setup *setup,
                                     ls_store *store)
{
    ls_status status = LS_OK;
    const ls_run *run = setup->run;
    const ls_layout *layout = &run->layout;
    const ls_coordinates at = ls_layout_coordinates(layout, ls_rank_index(setup->rank));
    const ls_share own = ls_share_of(run->batch, (size_t)layout->dp, (size_t)at.dp);
    transformer *t = NULL;

    LS_NEW(t, 1);
    *t = (transformer){
        .base = {.operations = &operations, .samples = own},
        .run = run,
        .rank = setup->rank,
        .store = store,
    };
    LS_TRY(make_groups(t, at));
    ls_executor_setup executor = {.tp = t->tp,
                                  .pp = t->pp,
                                  .layout = layout,
                                  .schedule = setup->schedule,
                                  .engine = run->engine,
                                  .gathered_loss = run->gathered_loss,
                                  .batch = run->batch,
                                  .first = own.first,
                                  .sequences = own.count,
                                  .observer = run->observer};
    LS_TRY(ls_executor_create(&t->executor, &executor, store));
    LS_TRY(ls_arena_create(&t->aside, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_alloc(t->aside, (size_t)layout->dp + 1, sizeof *t->bounds, (void *)&t->bounds));
    ls_share_bounds(run->batch, (size_t)layout->dp, t->bounds);
    t->cut = (ls_batch_cut){run->batch, t->bounds};
    LS_TRY(ls_arena_alloc(t->aside, own.count, sizeof(ls_real), (void *)&t->losses.tokens));
    if (run->config.sentence_order)
        LS_TRY(ls_arena_alloc(t->aside, own.count, sizeof(ls_real), (void *)&t->losses.order));
    *ret_model = &t->base;
    t = NULL;
exit:
    if (t) destroy(&t->base);
    return status;
}
