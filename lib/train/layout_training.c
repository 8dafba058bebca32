#include <math.h>
#include <stdlib.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/trace.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/parallel/data_parallel.h"
#include "lockstep/parallel/placement.h"
#include "lockstep/parallel/replicas.h"
#include "lockstep/parallel/update.h"
#include "lockstep/partition/share.h"
#include "lockstep/pipeline/executor.h"
#include "parallel/fault_parts.h"
#include "parallel/look_at_param.h"
#include "train/checkpoint.h"
#include "train/gather.h"
#include "train/training.h"

/* What all ranks share: the run, and room for what rank 0 says of it. */
typedef struct shared {
    const ls_run *run;
    const ls_param_table *table;
    const ls_watcher *watcher;
    const ls_schedule *schedule;
    ls_train_result *result;
} shared;

/* One rank of the run. */
typedef struct trainer {
    const ls_run *run;
    const ls_param_table *table;
    const ls_watcher *watcher; /* on rank 0 */
    bool root;
    ls_rank *rank;
    ls_group *world;
    ls_group *tp, *dp, *pp; /* along one axis of the grid each             */
    ls_group *model;        /* the ranks of this data-parallel replica     */
    ls_store *store;
    const ls_schedule *schedule;
    ls_executor *executor;
    ls_step_batch batch; /* own sequences */
    ls_batch_cut cut;    /* who has which */
    size_t *bounds;
    ls_sequence_losses losses; /* of own sequences, on the last stage */
    ls_arena *temporary;
    ls_arena *aside; /* for looking on and saving: no part of the layout, in nobody's account */
    ls_real *whole;  /* root: room for a whole parameter */
    ls_comm_count
        training[LS_OP_COUNT]; /* what training sent, without what looking on and saving sent */
} trainer;

/* Shows the gradients or the values of every parameter to whoever looks on at rank 0. */
static ls_status show(trainer *t, uint64_t step, ls_phase phase)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < t->table->count; i++) {
        const ls_slot *slot = &t->store->slots[i];
        if (t->table->params[i].state && phase != LS_PHASE_UPDATE)
            continue; /* it has no gradient */
        LS_TRY(ls_gather_param(t->world, &t->run->layout, t->table, i, LS_REAL_DTYPE,
                               phase == LS_PHASE_UPDATE ? "value" : "gradient",
                               phase == LS_PHASE_UPDATE ? slot->value : slot->grad[0], t->whole,
                               t->aside));
        if (t->root)
            LS_TRY(t->watcher->tensor(t->watcher->context, step, phase, &t->table->params[i],
                                      LS_REAL_DTYPE, t->whole));
    }
exit:
    return status;
}

/* Shows what this rank itself holds of every parameter to whoever looks on at all ranks. */
static ls_status show_held(const trainer *t, uint64_t step, ls_view_kind kind)
{
    ls_status status = LS_OK;
    const ls_param_look look = {kind, -1, (uint32_t)step, LS_REAL_DTYPE};
    for (size_t i = 0; t->run->tap && i < t->table->count; i++) {
        const ls_slot *slot = &t->store->slots[i];
        if (slot->value && (kind == LS_VIEW_PARAM || !t->table->params[i].state))
            LS_TRY(ls_look_at_param(t->run->tap, t->rank, look, t->table, i, slot->shard,
                                    kind == LS_VIEW_PARAM ? slot->value : slot->grad[0]));
    }
exit:
    return status;
}

/* The same of the step's loss and norm, as this rank knows them. */
static ls_status show_numbers(const trainer *t, uint64_t step, ls_real loss, double norm)
{
    ls_status status = LS_OK;
    const ls_param_look a = {LS_VIEW_LOSS, -1, (uint32_t)step, LS_REAL_DTYPE};
    const ls_param_look b = {LS_VIEW_NORM, -1, (uint32_t)step, LS_F64};
    if (!t->run->tap) return LS_OK;
    LS_TRY(ls_look_at_number(t->run->tap, t->rank, a, &loss));
    LS_TRY(ls_look_at_number(t->run->tap, t->rank, b, &norm));
exit:
    return status;
}

/* Loss and gradients of the global batch, the same on all ranks that hold them. */
static ls_status forward_backward(trainer *t, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    int last = ls_group_size(t->pp) - 1;
    ls_valid valid;

    /* How many targets and labels there are altogether is known before the first backward pass. */
    LS_TRY(ls_count_valid(t->dp, &t->run->config, &t->batch.batch, &valid));
    LS_TRY(ls_executor_run(t->executor, &t->batch.batch, valid, t->losses));
    ls_trace_task(t->rank, "reduce", (int)t->batch.batch.step, -1, -1);
    if (ls_valid_any(valid)) LS_TRY(ls_reduce_gradients(t->dp, t->store, t->cut));
    LS_TRY(ls_executor_finish(t->executor));
    *ret_loss = 0;
    if (ls_valid_any(valid) && ls_group_rank(t->pp) == last)
        LS_TRY(ls_reduce_loss(t->dp, t->losses, t->cut, valid, ret_loss));
    if (last > 0) LS_TRY(ls_broadcast(t->pp, ret_loss, 1, LS_REAL_DTYPE, last));
exit:
    return status;
}

static void count(trainer *t, int sign)
{
    for (int op = 0; op < LS_OP_COUNT; op++) {
        ls_comm_count now = ls_rank_count(t->rank, (ls_operation)op);
        t->training[op].calls += (uint64_t)sign * now.calls;
        t->training[op].bytes += (uint64_t)sign * now.bytes;
    }
}

/* All ranks of a model must have the same batch. */
static ls_status check_replicas(const trainer *t)
{
    ls_status status = LS_OK;
    size_t sequences = t->batch.batch.B, tokens = sequences * t->batch.batch.S;
    const struct {
        const int32_t *ids;
        size_t count;
        const char *what;
    } arrays[] = {{t->batch.tokens, tokens, "tokens"},
                  {t->batch.targets, tokens, "targets"},
                  {t->batch.segments, tokens, "token types"},
                  {t->batch.lengths, sequences, "lengths"},
                  {t->batch.order, sequences, "order labels"}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i].ids)
            LS_TRY(ls_replicas_check(t->model, LS_I32, arrays[i].ids, arrays[i].count,
                                     arrays[i].what));
exit:
    return status;
}

/* One training step. */
static ls_status train_step(trainer *t, uint64_t step, ls_digest *digest, ls_train_result *result)
{
    ls_status status = LS_OK;
    ls_step now = {.step = step, .tokens = t->run->batch * t->batch.batch.S};
    ls_update update = ls_step_update(t->run, step);
    double squares;
    ls_real loss;
    uint64_t begin = ls_clock_ns(), shown;

    ls_trace_task(t->rank, "batch", (int)step, -1, -1);
    ls_step_batch_fill(&t->batch, t->run, step);
    if (ls_faulty(LS_FAULT_TARGET_SHIFT)) ls_fault_shift_targets(&t->batch.batch, t->batch.targets);
    LS_TRY(check_replicas(t));
    count(t, -1);
    LS_TRY(forward_backward(t, &loss));
    LS_TRY(ls_shared_squares(t->model, &t->run->layout, t->store, t->temporary, &squares));
    count(t, +1);
    ls_trace_task(t->rank, "look on", -1, -1, -1); /* no part of the step */
    shown = ls_clock_ns();
    if (t->watcher->tensor) LS_TRY(show(t, step, LS_PHASE_GRADIENT));
    LS_TRY(show_held(t, step, LS_VIEW_PARAM_GRADIENT));
    LS_TRY(show_numbers(t, step, loss, sqrt(squares)));
    shown = ls_clock_ns() - shown;
    ls_trace_task(t->rank, "update", (int)step, -1, -1);
    ls_shard_clip(t->store, squares, t->run->clip);
    shown -= ls_clock_ns();
    LS_TRY(show_held(t, step, LS_VIEW_CLIPPED));
    shown += ls_clock_ns();
    ls_shard_step(t->store, &update);
    if (ls_faulty(LS_FAULT_UPDATE_TWICE)) {
        update.t++;
        ls_shard_step(t->store, &update);
    }
    ls_trace_task(t->rank, "look on", -1, -1, -1);

    now.ns = ls_clock_ns() - begin - shown;
    now.loss = (double)loss;
    now.norm = sqrt(squares);
    now.lr = update.lr;
    if (t->root) {
        ls_train_result_step(result, &now);
        LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, &loss, 1));
        if (t->watcher->step) LS_TRY(t->watcher->step(t->watcher->context, &now));
    }
    if (t->watcher->tensor) LS_TRY(show(t, step, LS_PHASE_UPDATE));
    LS_TRY(show_held(t, step, LS_VIEW_PARAM));
exit:
    return status;
}

static ls_status digest_parameters(trainer *t, ls_digest *digest)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < t->table->count; i++) {
        LS_TRY(ls_gather_param(t->world, &t->run->layout, t->table, i, LS_REAL_DTYPE, "value",
                               t->store->slots[i].value, t->whole, t->aside));
        if (t->root)
            LS_TRY(ls_digest_add(digest, LS_REAL_DTYPE, t->whole,
                                 ls_param_elements(&t->table->params[i])));
    }
exit:
    return status;
}

/* The groups along each axis, as Megatron-LM forms them: ranks that agree in all the others. */
static ls_status make_groups(trainer *t)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &t->run->layout;
    ls_coordinates at = ls_layout_coordinates(layout, ls_rank_index(t->rank));
    t->world = ls_rank_world_group(t->rank);
    LS_TRY(ls_group_split(t->world, at.pp * layout->dp + at.dp, at.tp, "tp", &t->tp));
    LS_TRY(ls_group_split(t->world, at.pp * layout->tp + at.tp, at.dp, "dp", &t->dp));
    LS_TRY(ls_group_split(t->world, at.dp * layout->tp + at.tp, at.pp, "pp", &t->pp));
    LS_TRY(ls_group_split(t->world, at.dp, at.pp * layout->tp + at.tp, "model", &t->model));
exit:
    return status;
}

/* The shards, the stages over them, and room for own sequences. */
static ls_status set_up(trainer *t)
{
    ls_status status = LS_OK;
    const ls_run *run = t->run;
    const ls_layout *layout = &run->layout;
    ls_memory *memory = ls_rank_memory(t->rank);
    ls_coordinates at = ls_layout_coordinates(layout, ls_rank_index(t->rank));
    ls_share own = ls_share_of(run->batch, (size_t)layout->dp, (size_t)at.dp);
    ls_holding *holdings = calloc(t->table->count, sizeof *holdings);

    if (!holdings) LS_FAIL(LS_ERR_MEMORY, "no memory for a table of shards");
    LS_TRY(ls_arena_create(&t->temporary, memory, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&t->aside, NULL, LS_MEM_TEMPORARY));
    LS_TRY(make_groups(t));
    ls_holdings_of(t->table, layout, ls_rank_index(t->rank), holdings);
    LS_TRY(ls_store_create(&t->store, t->table, holdings, memory));
    ls_executor_setup setup = {.tp = t->tp,
                               .pp = t->pp,
                               .layout = layout,
                               .schedule = t->schedule,
                               .engine = run->engine,
                               .gathered_loss = run->gathered_loss,
                               .batch = run->batch,
                               .first = own.first,
                               .sequences = own.count,
                               .tap = run->tap};
    LS_TRY(ls_executor_create(&t->executor, &setup, t->store));
    LS_TRY(ls_step_batch_create(&t->batch, run, own.first, own.count));
    LS_TRY(ls_arena_alloc(t->aside, (size_t)layout->dp + 1, sizeof *t->bounds, (void *)&t->bounds));
    ls_share_bounds(run->batch, (size_t)layout->dp, t->bounds);
    t->cut = (ls_batch_cut){run->batch, t->bounds};
    LS_TRY(ls_arena_alloc(t->aside, own.count, sizeof(ls_real), (void *)&t->losses.tokens));
    if (run->config.sentence_order)
        LS_TRY(ls_arena_alloc(t->aside, own.count, sizeof(ls_real), (void *)&t->losses.order));
    if (t->root)
        LS_TRY(ls_arena_alloc(t->aside, ls_gather_elements(t->table), sizeof *t->whole,
                              (void *)&t->whole));
exit:
    free(holdings);
    return status;
}

static void tear_down(trainer *t)
{
    ls_step_batch_free(&t->batch);
    ls_executor_destroy(&t->executor);
    ls_store_destroy(&t->store);
    ls_arena_destroy(&t->temporary);
    ls_arena_destroy(&t->aside);
}

static ls_status rank_main(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    shared *all = argument;
    trainer t = {.run = all->run,
                 .table = all->table,
                 .watcher = all->watcher,
                 .schedule = all->schedule,
                 .rank = rank};
    ls_rank_report *report = &all->result->rank[ls_rank_index(rank)];
    ls_digest *digest = NULL;
    uint64_t first;

    t.root = ls_rank_index(rank) == 0;
    if (t.root) LS_TRY(ls_digest_create(&digest));
    LS_TRY(set_up(&t));
    LS_TRY(ls_checkpoint_begin(t.run, t.store, &first));
    LS_TRY(ls_run_check_given(t.run, first));
    if (ls_faulty_any()) LS_TRY(ls_fault_spoil_weights(t.tp, t.store, t.temporary));
    if (t.root) {
        all->result->first_step = all->result->last_step = first;
        if (t.watcher->begin) LS_TRY(t.watcher->begin(t.watcher->context, t.run, t.table, first));
    }
    for (uint64_t step = first; step < t.run->steps; step++)
        LS_TRY(train_step(&t, step, digest, all->result));
    for (int op = 0; op < LS_OP_COUNT; op++) report->comm[op] = t.training[op];
    ls_rank_report_memory(report, ls_rank_memory(rank));

    if (!t.run->no_digest) LS_TRY(digest_parameters(&t, digest));
    if (t.root && !t.run->no_digest) LS_TRY(ls_digest_finish(digest, all->result->digest));
    if (t.run->save) LS_TRY(ls_checkpoint_save(t.run, t.world, t.store, t.run->steps, t.aside));
exit:
    tear_down(&t);
    ls_digest_destroy(&digest);
    return status;
}

ls_status ls_train_layout(const ls_run *run, const ls_param_table *table, const ls_watcher *watcher,
                          ls_train_result *ret_result)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &run->layout;
    ls_train_result result = {0};
    ls_schedule *schedule = NULL;
    int ranks = ls_layout_ranks(layout);

    LS_TRY(ls_checkpoint_check(run, table));
    /* One for all ranks: with many micro-batches the lists of a long pipeline are megabytes. */
    LS_TRY(ls_schedule_create(&schedule, layout->schedule, layout->pp, layout->micro_batches,
                              layout->virtual_stages));
    shared all = {run, table, watcher, schedule, &result};
    LS_TRY(ls_train_result_begin(&result, ranks));
    LS_TRY(ls_world_run(ranks, &run->world, rank_main, &all));
    *ret_result = result;
    result.rank = NULL;
exit:
    ls_schedule_destroy(&schedule);
    ls_train_result_free(&result);
    return status;
}
