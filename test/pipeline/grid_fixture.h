/* grid_fixture.h - training steps of a tiny model in any layout, held against the serial ones.
 *
 * Every rank compares what it holds with the serial run's arrays, after each step, and leaves a
 * line that says where they first differ: worker threads do not assert. */
#ifndef TEST_PIPELINE_GRID_FIXTURE_H
#define TEST_PIPELINE_GRID_FIXTURE_H

#include <stdio.h>

#include "lockstep/parallel/data/data_parallel.h"
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/data/update.h"
#include "lockstep/partition/share.h"
#include "lockstep/pipeline/executor.h"
#include "parallel/parallel_fixture.h"
#include "serial/serial_fixture.h"

/* The groups of a rank. */
enum { IN_TP, IN_DP, IN_PP, IN_MODEL, GRID_GROUPS };

enum { GRID_STEPS = 3, GRID_RANKS = 64, GRID_SEQUENCES = 13, GRID_LENGTH = 7 };

/* ---- batches ---- */

/* Which targets are ignored, and which order labels in a model that has them. */
typedef enum grid_targets {
    TARGETS_UNEVEN = 0, /* every seventh, and more and more of each later sequence; a third */
    TARGETS_SEQUENCE, /* sequence 1 has none: one micro-batch, when it has it alone; nor a label */
    TARGETS_HALF,     /* the first half has none: a replica, or several micro-batches; the other
                         half no labels */
    TARGETS_NONE,     /* nowhere; and no label */
    TARGETS_LABELS,   /* nowhere; but labels */
    TARGETS_NO_LABELS /* as with the first; no label */
} grid_targets;

typedef struct grid_ids {
    int32_t tokens[GRID_SEQUENCES * GRID_LENGTH], targets[GRID_SEQUENCES * GRID_LENGTH];
    int32_t segments[GRID_SEQUENCES * GRID_LENGTH];
    int32_t lengths[GRID_SEQUENCES], order[GRID_SEQUENCES];
} grid_ids;

static inline bool grid_ignored(grid_targets kind, size_t b, size_t s, size_t B, size_t S)
{
    size_t t = b * S + s;
    switch (kind) {
    case TARGETS_UNEVEN:
    case TARGETS_NO_LABELS:
        return t % 7 == 3 || s + 1 < (b * S + B) / (2 * B);
    case TARGETS_SEQUENCE:
        return b == 1;
    case TARGETS_HALF:
        return b < (B + 1) / 2;
    case TARGETS_NONE:
    case TARGETS_LABELS:
        return true;
    }
    return false;
}

static inline bool grid_unlabelled(grid_targets kind, size_t b, size_t B)
{
    switch (kind) {
    case TARGETS_UNEVEN:
    case TARGETS_LABELS:
        return b % 3 == 1;
    case TARGETS_SEQUENCE:
        return b == 1;
    case TARGETS_HALF:
        return b >= (B + 1) / 2;
    case TARGETS_NONE:
    case TARGETS_NO_LABELS:
        return true;
    }
    return false;
}

/* Of a masked-token model token types, padding behind one token, two, ..., and order labels too. */
static inline ls_batch grid_batch(grid_ids *ids, const ls_config *config, size_t B, size_t S,
                                  uint32_t step, grid_targets kind)
{
    uint64_t state = 4711 + 17 * step;
    size_t vocab = config->vocab;
    bool masked = config->objective == LS_MASKED_TOKEN;
    ck_assert(B <= GRID_SEQUENCES && S <= GRID_LENGTH);
    for (size_t t = 0; t < B * S; t++) {
        ids->tokens[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        ids->targets[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        if (grid_ignored(kind, t / S, t % S, B, S)) ids->targets[t] = LS_IGNORE;
        ids->segments[t] = (int32_t)((t + step) * t / 3 % 3);
    }
    for (size_t b = 0; b < B; b++) {
        ids->lengths[b] = (int32_t)(1 + (b + step) % S);
        ids->order[b] = grid_unlabelled(kind, b, B) ? LS_IGNORE : (int32_t)((b * b + step) / 2 % 2);
    }
    return (ls_batch){.B = B,
                      .S = S,
                      .tokens = ids->tokens,
                      .targets = ids->targets,
                      .segments = masked ? ids->segments : NULL,
                      .lengths = masked ? ids->lengths : NULL,
                      .order = masked ? ids->order : NULL,
                      .seed = 99,
                      .step = step,
                      .training = true};
}

/* ---- the serial run ---- */

typedef struct grid_step {
    ls_batch batch;
    ls_update update;
    ls_real loss;
    double squares;
    ls_real *gradients, *values; /* every slot, whole and padded, in table order */
} grid_step;

typedef struct reference {
    fixture f; /* as it is after the last step */
    ls_engine engine;
    double clip;
    size_t steps;
    grid_ids ids[GRID_STEPS];
    grid_step step[GRID_STEPS];
    double *initial; /* whole logical tensors */
} reference;

static inline ls_update grid_update(uint32_t step)
{
    ls_update update = {.optimizer = LS_ADAMW,
                        .lr = 0.01,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .eps = 1e-8,
                        .weight_decay = 0.1,
                        .t = step + 1};
    return update;
}

static inline ls_real *grid_copy(const fixture *f, bool gradient)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < f->table->count; i++) n += fixture_slot_elements(f, i);
    ls_real *copy = room(n);
    for (size_t i = 0; i < f->table->count; i++) {
        const ls_slot *slot = &f->store->slots[i];
        memcpy(copy + at, gradient ? slot->grad[0] : slot->value,
               fixture_slot_elements(f, i) * sizeof *copy);
        at += fixture_slot_elements(f, i);
    }
    return copy;
}

/* `steps` steps of B sequences; step i has lengths[i] tokens a sequence and targets[i]. */
static inline void reference_begin(reference *r, const ls_config *config, ls_engine engine,
                                   size_t steps, size_t B, const size_t *lengths,
                                   const grid_targets *targets, double clip)
{
    r->engine = engine;
    r->clip = clip;
    r->steps = steps;
    r->f = fixture_create(config, engine);
    r->initial = fixture_noise(r->f.table);
    for (size_t s = 0; s < steps; s++) {
        grid_step *step = &r->step[s];
        step->batch = grid_batch(&r->ids[s], config, B, lengths[s], (uint32_t)s, targets[s]);
        step->update = grid_update((uint32_t)s);
        step->loss = fixture_gradients(&r->f, &step->batch);
        ck_assert_int_eq(ls_serial_squares(r->f.serial, &step->squares), LS_OK);
        step->gradients = grid_copy(&r->f, true);
        ls_serial_update(r->f.serial, &step->update, step->squares, clip);
        step->values = grid_copy(&r->f, false);
    }
}

static inline void reference_end(reference *r)
{
    for (size_t s = 0; s < r->steps; s++) {
        free(r->step[s].gradients);
        free(r->step[s].values);
    }
    free(r->initial);
    fixture_destroy(&r->f);
}

/* ---- the same in a layout ---- */

typedef struct grid_run {
    const reference *right;
    ls_layout layout;
    const ls_schedule *schedule; /* NULL: the layout's */
    bool own_schedule;           /* rank p of the pipeline has schedule[p]: they do not agree */
    bool gathered_loss;
    bool turned; /* the grid's axes in the other order: groups along tp are not runs of ranks */
    ls_world_options world;
    char wrong[GRID_RANKS][200];   /* "": everything was right on this rank */
    size_t peak_bytes[GRID_RANKS]; /* activations */
    ls_comm_count sent[GRID_RANKS][GRID_GROUPS]
                      [LS_OP_COUNT]; /* in each group, without its making */
} grid_run;

/* One rank of it. */
typedef struct grid_rank {
    grid_run *run;
    ls_coordinates at;
    ls_rank *rank;
    ls_group *tp, *dp, *pp, *model;
    ls_store *store;
    ls_schedule *made;
    ls_executor *executor;
    ls_arena *temporary;
    ls_share own;
    size_t bounds[GRID_RANKS + 1];
    ls_batch_cut cut;
    ls_real token_losses[GRID_SEQUENCES], order_losses[GRID_SEQUENCES];
    char *wrong; /* room for a line, the first that is left is kept */
} grid_rank;

static inline void grid_wrong(grid_rank *g, size_t step, const char *what, const char *name,
                              size_t element, double found, double right)
{
    if (g->wrong[0]) return;
    snprintf(g->wrong, sizeof g->run->wrong[0], "step %zu, %s %s, element %zu: %a, right is %a",
             step, what, name, element, found, right);
}

/* A shard against its slice of a whole array of the same parameter. */
static inline void grid_compare(grid_rank *g, size_t step, const char *what, size_t param,
                                const ls_real *found, const ls_real *whole)
{
    const ls_param *p = &g->store->table->params[param];
    const ls_slot *part = &g->store->slots[param], *all = &g->run->right->f.store->slots[param];
    size_t skipped = p->cut < 0 ? 0 : part->shard.first * p->axis.granule;
    size_t row0 = p->n_dims == 2 && p->cut == 0 ? skipped : 0, col0 = skipped - row0;
    for (size_t r = 0; r < part->rows; r++)
        for (size_t c = 0; c < part->cols; c++) {
            size_t at = (row0 + r) * all->cols + col0 + c;
            if (memcmp(&found[r * part->cols + c], &whole[at], sizeof *whole) == 0) continue;
            grid_wrong(g, step, what, p->name, at, (double)found[r * part->cols + c],
                       (double)whole[at]);
            return;
        }
}

static inline void grid_compare_all(grid_rank *g, size_t step, bool gradient)
{
    const grid_step *right = &g->run->right->step[step];
    const ls_real *whole = gradient ? right->gradients : right->values;
    for (size_t i = 0; i < g->store->table->count; i++) {
        const ls_slot *slot = &g->store->slots[i];
        if (slot->value)
            grid_compare(g, step, gradient ? "gradient" : "value", i,
                         gradient ? slot->grad[0] : slot->value, whole);
        whole += fixture_slot_elements(&g->run->right->f, i);
    }
}

static inline ls_status grid_set_values(grid_rank *g)
{
    ls_status status = LS_OK;
    const ls_param_table *table = g->store->table;
    const double *from = g->run->right->initial;
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        ls_slot *slot = &g->store->slots[i];
        size_t n = ls_param_elements(param);
        if (slot->value) {
            ls_real *rounded = malloc(n * sizeof *rounded);
            if (!rounded) LS_FAIL(LS_ERR_MEMORY, "no memory for %s", param->name);
            for (size_t e = 0; e < n; e++) rounded[e] = (ls_real)from[e];
            ls_param_shard_in(param, slot->shard, sizeof *rounded, slot->value, rounded);
            free(rounded);
        }
        from += n;
    }
exit:
    return status;
}

static inline ls_status grid_begin(grid_rank *g, ls_rank *rank, grid_run *run)
{
    ls_status status = LS_OK;
    const reference *right = run->right;
    const ls_layout *layout = &run->layout;
    const ls_param_table *table = right->f.table;
    ls_group *world = ls_rank_world_group(rank);
    size_t B = right->step[0].batch.B;
    ls_holding *holdings = calloc(table->count, sizeof *holdings);

    if (!holdings) LS_FAIL(LS_ERR_MEMORY, "no memory for holdings");
    g->run = run;
    g->rank = rank;
    g->wrong = run->wrong[ls_rank_index(rank)];
    ls_coordinates at = ls_layout_coordinates(layout, ls_rank_index(rank));
    if (run->turned) {
        int inner = layout->dp * layout->pp, r = ls_rank_index(rank);
        at = (ls_coordinates){
            .tp = r / inner, .dp = r / layout->pp % layout->dp, .pp = r % layout->pp};
    }
    g->at = at;
    LS_TRY(ls_arena_create(&g->temporary, NULL, LS_MEM_TEMPORARY));
    LS_TRY(ls_group_split(world, at.pp * layout->dp + at.dp, at.tp, "tp", &g->tp));
    LS_TRY(ls_group_split(world, at.pp * layout->tp + at.tp, at.dp, "dp", &g->dp));
    LS_TRY(ls_group_split(world, at.dp * layout->tp + at.tp, at.pp, "pp", &g->pp));
    LS_TRY(ls_group_split(world, at.dp, at.pp * layout->tp + at.tp, "model", &g->model));
    ls_holdings_of(table, layout, ls_layout_rank(layout, at), holdings);
    LS_TRY(ls_store_create(&g->store, table, holdings, ls_rank_memory(rank)));
    LS_TRY(grid_set_values(g));
    if (!run->schedule)
        LS_TRY(ls_schedule_create(&g->made, layout->schedule, layout->pp, layout->micro_batches,
                                  layout->virtual_stages));
    g->own = ls_share_of(B, (size_t)layout->dp, (size_t)at.dp);
    ls_share_bounds(B, (size_t)layout->dp, g->bounds);
    g->cut = (ls_batch_cut){B, g->bounds};
    ls_executor_setup setup = {.tp = g->tp,
                               .pp = g->pp,
                               .layout = layout,
                               .schedule = g->made             ? g->made
                                           : run->own_schedule ? &run->schedule[at.pp]
                                                               : run->schedule,
                               .engine = right->engine,
                               .gathered_loss = run->gathered_loss,
                               .batch = B,
                               .first = g->own.first,
                               .sequences = g->own.count};
    LS_TRY(ls_executor_create(&g->executor, &setup, g->store));
exit:
    free(holdings);
    return status;
}

static inline void grid_end(grid_rank *g)
{
    ls_executor_destroy(&g->executor);
    ls_schedule_destroy(&g->made);
    ls_store_destroy(&g->store);
    ls_arena_destroy(&g->temporary);
}

/* Loss and gradients, as the training loop makes them. */
static inline ls_status grid_gradients(grid_rank *g, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_batch own = ls_batch_part(batch, g->own.first, g->own.count);
    int last = ls_group_size(g->pp) - 1;
    const ls_config *config = &g->run->right->f.table->config;
    ls_sequence_losses losses = {g->token_losses, config->sentence_order ? g->order_losses : NULL};
    ls_valid valid;
    LS_TRY(ls_count_valid(g->dp, config, &own, &valid));
    LS_TRY(ls_executor_run(g->executor, &own, valid, losses));
    if (ls_valid_any(valid)) LS_TRY(ls_reduce_gradients(g->dp, g->store, g->cut));
    LS_TRY(ls_executor_finish(g->executor));
    *ret_loss = 0;
    if (ls_valid_any(valid) && ls_group_rank(g->pp) == last)
        LS_TRY(ls_reduce_loss(g->dp, losses, g->cut, valid, ret_loss));
    if (last > 0) LS_TRY(ls_broadcast(g->pp, ret_loss, 1, LS_REAL_DTYPE, last));
exit:
    return status;
}

static inline ls_status grid_one_step(grid_rank *g, size_t s)
{
    ls_status status = LS_OK;
    const grid_step *right = &g->run->right->step[s];
    const ls_memory *memory = ls_rank_memory(g->rank);
    ls_real loss = (ls_real)NAN;
    double squares;
    LS_TRY(grid_gradients(g, &right->batch, &loss));
    if (memcmp(&loss, &right->loss, sizeof loss) != 0)
        grid_wrong(g, s, "loss", "", 0, (double)loss, (double)right->loss);
    grid_compare_all(g, s, true);
    LS_TRY(ls_shared_squares(g->model, &g->run->layout, g->store, g->temporary, &squares));
    if (memcmp(&squares, &right->squares, sizeof squares) != 0)
        grid_wrong(g, s, "squared norm", "", 0, squares, right->squares);
    ls_shard_update(g->store, &right->update, squares, g->run->right->clip);
    grid_compare_all(g, s, false);
    /* Nothing is kept from step to step, nothing still under way but what was left behind, copied.
     */
    for (int c = LS_MEM_ACTIVATIONS; c < LS_MEM_CATEGORIES; c++) {
        size_t bytes = ls_memory_bytes(memory, (ls_memory_category)c);
        if (bytes > 0 && !(c == LS_MEM_COMMUNICATION && g->run->world.channel_capacity > 0))
            grid_wrong(g, s, "bytes of", ls_memory_category_name((ls_memory_category)c), 0,
                       (double)bytes, 0);
    }
exit:
    return status;
}

static inline ls_status grid_main(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    grid_run *run = argument;
    int r = ls_rank_index(rank);
    grid_rank g = {0};
    LS_TRY(grid_begin(&g, rank, run));
    for (size_t s = 0; s < run->right->steps; s++) LS_TRY(grid_one_step(&g, s));
    for (size_t i = 0; i < g.store->table->count; i++) {
        const ls_slot *slot = &g.store->slots[i], *right = &run->right->f.store->slots[i];
        if (!slot->value) continue;
        grid_compare(&g, run->right->steps, "moment m of", i, slot->m, right->m);
        grid_compare(&g, run->right->steps, "moment v of", i, slot->v, right->v);
    }
    run->peak_bytes[r] = ls_memory_peak_bytes(ls_rank_memory(rank), LS_MEM_ACTIVATIONS);
    const ls_group *groups[GRID_GROUPS] = {g.tp, g.dp, g.pp, g.model};
    for (int k = 0; k < GRID_GROUPS; k++)
        for (int op = 0; op < LS_OP_COUNT; op++)
            run->sent[r][k][op] = ls_group_count(groups[k], (ls_operation)op);
exit:
    grid_end(&g);
    return status;
}

/* Runs it and asserts that every rank had the serial bits. `what` goes before the text. */
static inline void ck_grid(grid_run *run, const char *what)
{
    char layout[512];
    int ranks = ls_layout_ranks(&run->layout);
    ck_assert_int_le(ranks, GRID_RANKS);
    ls_layout_describe(&run->layout, layout, sizeof layout);
    for (int r = 0; r < ranks; r++) run->wrong[r][0] = '\0';
    ls_status status = ls_world_run(ranks, &run->world, grid_main, run);
    ck_assert_msg(status == LS_OK, "%s, %s: %s (%s)", what, layout, ls_error_text(),
                  ls_error_place());
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(!run->wrong[r][0], "%s, %s, rank %d: %s", what, layout, r, run->wrong[r]);
}

#endif
