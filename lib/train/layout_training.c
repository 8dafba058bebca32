#include <math.h>
#include <stdlib.h>

#include "lockstep/base/clock.h"
#include "lockstep/comm/trace.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/data/update.h"
#include "parallel/data/observe_step.h"
#include "train/checkpoint.h"
#include "train/gather.h"
#include "train/rank_model.h"
#include "base/allocate.h"

/* What all ranks share: the run, and room for what rank 0 says of it. */
typedef struct shared {
    const ls_run *run;
    const ls_param_table *table;
    const ls_train_hooks *watcher;
    const ls_schedule *schedule;
    ls_train_result *result;
} shared;

/* One rank of the run. */
typedef struct trainer {
    const ls_run *run;
    const ls_param_table *table;
    const ls_train_hooks *watcher; /* on rank 0 */
    bool root;
    ls_rank *rank;
    ls_group *world;
    ls_store *store;
    ls_rank_model *model;
    ls_step_batch batch; /* own sequences or images */
    ls_arena *temporary;
    ls_arena *aside; /* for looking on and saving: no part of the layout, in no account */
    ls_real *whole;  /* root: room for a whole parameter */
    ls_comm_count
        training[LS_OP_COUNT]; /* what training sent, without what looking on and saving sent */
} trainer;

/* Shows the gradients or the values of every parameter to an observer at rank 0. */
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

/* Shows what this rank itself holds of every parameter to an observer at all ranks. */
static ls_status show_held(const trainer *t, uint64_t step, ls_view_kind kind)
{
    ls_status status = LS_OK;
    const ls_observed_param look = {
        .kind = kind, .use = -1, .step = (uint32_t)step, .dtype = LS_REAL_DTYPE};
    for (size_t i = 0; t->run->observer && i < t->table->count; i++) {
        const ls_slot *slot = &t->store->slots[i];
        if (slot->value && (kind == LS_VIEW_PARAM || !t->table->params[i].state))
            LS_TRY(ls_observe_at_param(t->run->observer, t->rank, look, t->table, i, slot->shard,
                                       kind == LS_VIEW_PARAM ? slot->value : slot->grad[0]));
    }
exit:
    return status;
}

/* The same of the step's loss and norm, as this rank knows them. */
static ls_status show_numbers(const trainer *t, uint64_t step, ls_real loss, double norm)
{
    ls_status status = LS_OK;
    const ls_observed_param a = {
        .kind = LS_VIEW_LOSS, .use = -1, .step = (uint32_t)step, .dtype = LS_REAL_DTYPE};
    const ls_observed_param b = {
        .kind = LS_VIEW_NORM, .use = -1, .step = (uint32_t)step, .dtype = LS_F64};
    if (!t->run->observer) return LS_OK;
    LS_TRY(ls_observe_at_number(t->run->observer, t->rank, a, &loss));
    LS_TRY(ls_observe_at_number(t->run->observer, t->rank, b, &norm));
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

/* One training step. */
static ls_status train_step(trainer *t, uint64_t step, ls_digest *digest, ls_train_result *result)
{
    ls_status status = LS_OK;
    ls_step now = {.step = step, .tokens = ls_run_tokens(t->run)};
    ls_update update = ls_step_update(t->run, step);
    double squares;
    ls_real loss;
    uint64_t begin = ls_clock_ns(), shown;

    ls_trace_task(t->rank, "batch", (int)step, -1, -1);
    ls_step_batch_fill(&t->batch, t->run, step);
    LS_TRY(t->model->operations->check_batch(t->model, &t->batch));
    count(t, -1);
    LS_TRY(t->model->operations->gradients(t->model, &t->batch.batch, &loss));
    LS_TRY(ls_shared_squares_seen((ls_step_observer){t->run->observer, (uint32_t)step},
                                  t->model->holders, &t->run->layout, t->store, t->temporary,
                                  &squares));
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

/* The shards, the model over them, and room for own sequences or images. */
static ls_status set_up(trainer *t, const ls_schedule *schedule)
{
    ls_status status = LS_OK;
    const ls_run *run = t->run;
    const bool net = run->config.kind == LS_MODEL_NET;
    const ls_rank_model_setup setup = {t->rank, run, schedule};
    ls_memory *memory = ls_rank_memory(t->rank);
    ls_holding *holdings = NULL;

    LS_NEW(holdings, t->table->count);
    LS_TRY(ls_arena_create(&t->temporary, memory, LS_MEM_TEMPORARY));
    LS_TRY(ls_arena_create(&t->aside, NULL, LS_MEM_TEMPORARY));
    t->world = ls_rank_world_group(t->rank);
    ls_holdings_of(t->table, &run->layout, ls_rank_index(t->rank), holdings);
    LS_TRY(ls_store_create(&t->store, t->table, holdings, memory));
    LS_TRY((net ? ls_rank_net_create : ls_rank_transformer_create)(&t->model, &setup, t->store));
    LS_TRY(ls_step_batch_create(&t->batch, run, t->model->samples.first, t->model->samples.count));
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
    ls_rank_model_destroy(&t->model);
    ls_store_destroy(&t->store);
    ls_arena_destroy(&t->temporary);
    ls_arena_destroy(&t->aside);
}

static ls_status rank_main(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    shared *all = argument;
    trainer t = {.run = all->run, .table = all->table, .watcher = all->watcher, .rank = rank};
    ls_rank_report *report = &all->result->rank[ls_rank_index(rank)];
    ls_digest *digest = NULL;
    uint64_t first;

    t.root = ls_rank_index(rank) == 0;
    if (t.root) LS_TRY(ls_digest_create(&digest));
    LS_TRY(set_up(&t, all->schedule));
    LS_TRY(ls_checkpoint_begin(t.run, t.store, &first));
    LS_TRY(ls_run_check_given(t.run, first));
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

ls_status ls_train_layout(const ls_run *run, const ls_param_table *table,
                          const ls_train_hooks *watcher, ls_train_result *ret_result)
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
