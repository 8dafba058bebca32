/* stage_fixture.h - tensor-parallel models for tests: a stage on every rank, filled from whole
 * tensors. Stores outlive their ranks, so that the main thread can look at what each of them had.
 */
#ifndef TEST_PARALLEL_STAGE_FIXTURE_H
#define TEST_PARALLEL_STAGE_FIXTURE_H

#include "lockstep/kernels/embedding.h"
#include "lockstep/numerics/tree.h"
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/transformer/stage.h"
#include "lockstep/parallel/data/update.h"
#include "parallel/parallel_fixture.h"
#include "serial/serial_fixture.h"

enum { MOST_RANKS = 12 };

/* Every degree that 12 heads allow. */
static const int legal_degrees[] = {1, 2, 3, 4, 6, 12};
enum { LEGAL_DEGREES = sizeof legal_degrees / sizeof legal_degrees[0] };

/* Model i of the serial tests, made wide enough for every one of them: 12 heads of width 2, F 36 in
 * granules of 3, a vocabulary of 300 in granules of 32, of which the last two hold padding, all or
 * for the most part. */
static inline ls_config parallel_config(size_t i)
{
    static const size_t kv_heads[N_TINY_SERIAL] = {12, 12, 4, 1, 12, 12, 2, 3, 6, 12, 12, 4, 3, 12};
    ls_config config = tiny_config(i);
    config.heads = 12;
    config.kv_heads = kv_heads[i];
    config.d_model = 24;
    config.d_ff = 36;
    config.vocab = 300;
    return config;
}

static inline ls_layout tp_layout(int tp)
{
    ls_layout layout = ls_layout_serial();
    layout.tp = tp;
    return layout;
}

/* ---- stores ---- */

/* Number of a parameter's first element when all logical elements stand in table order. */
static inline size_t place_in_table(const ls_param_table *table, size_t param)
{
    size_t at = 0;
    for (size_t i = 0; i < param; i++) at += ls_param_elements(&table->params[i]);
    return at;
}

/* A shard of a whole logical tensor; padding is +0. */
static inline ls_status shard_from(ls_real *shard_data, const ls_param *param, ls_shard shard,
                                   const double *whole)
{
    ls_status status = LS_OK;
    size_t n = ls_param_elements(param);
    ls_real *rounded = malloc(n * sizeof *rounded);
    if (!rounded) LS_FAIL(LS_ERR_MEMORY, "no memory for %s", param->name);
    for (size_t e = 0; e < n; e++) rounded[e] = (ls_real)whole[e];
    ls_param_shard_in(param, shard, sizeof *rounded, shard_data, rounded);
exit:
    free(rounded);
    return status;
}

/* Values from `values`, all whole tensors in table order; gradients NaN. */
static inline ls_status store_fill(ls_store *store, const double *values)
{
    ls_status status = LS_OK;
    const ls_param_table *table = store->table;
    for (size_t i = 0; i < table->count; i++) {
        ls_slot *slot = &store->slots[i];
        LS_TRY(shard_from(slot->value, &table->params[i], slot->shard,
                          values + place_in_table(table, i)));
        for (int use = 0; use < table->params[i].uses; use++)
            for (size_t e = 0; e < slot->rows * slot->cols; e++) slot->grad[use][e] = (ls_real)NAN;
    }
exit:
    return status;
}

/* The store of tp rank `rank` of `tp`. */
static inline ls_status store_begin(ls_store **ret_store, const ls_param_table *table, int tp,
                                    int rank, const double *values)
{
    ls_status status = LS_OK;
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    ls_store *store = NULL;
    if (!holdings) LS_FAIL(LS_ERR_MEMORY, "no memory for holdings");
    ls_layout layout = tp_layout(tp);
    ls_holdings_of(table, &layout, rank, holdings);
    LS_TRY(ls_store_create(&store, table, holdings, NULL));
    LS_TRY(store_fill(store, values));
    *ret_store = store;
    store = NULL;
exit:
    ls_store_destroy(&store);
    free(holdings);
    return status;
}

/* Bits of an array of a rank's slot against those of the slot that holds the parameter whole. */
static inline void ck_slice(const ls_param *param, const ls_slot *part, const ls_real *values,
                            const ls_slot *whole, const ls_real *whole_values, const char *what,
                            int tp, int rank)
{
    size_t skipped = param->cut < 0 ? 0 : part->shard.first * param->axis.granule;
    size_t row0 = param->n_dims == 2 && param->cut == 0 ? skipped : 0, col0 = skipped - row0;
    for (size_t r = 0; r < part->rows; r++)
        for (size_t c = 0; c < part->cols; c++) {
            ls_real found = values[r * part->cols + c];
            ls_real right = whole_values[(row0 + r) * whole->cols + col0 + c];
            if (memcmp(&found, &right, sizeof found) != 0)
                ck_abort_msg("%s of %s, tp %d, rank %d, row %zu, column %zu: %a, right is %a", what,
                             param->name, tp, rank, r, c, (double)found, (double)right);
        }
}

/* ---- stages ---- */

/* One rank's model. */
typedef struct model {
    ls_store *store;
    ls_stage *stage;
    ls_micro_batch *micro_batch;
    ls_arena *temporary;
} model;

/* All layers from embedding to head, unless `setup` says other parts. */
static inline ls_stage_setup whole_model(const ls_config *config)
{
    ls_stage_setup setup = {
        .engine = LS_ENGINE_PORTABLE, .layers = config->layers, .embedding = true, .head = true};
    return setup;
}

static inline ls_status model_begin(model *ret_model, ls_group *tp, const ls_param_table *table,
                                    ls_stage_setup setup, const double *values)
{
    ls_status status = LS_OK;
    model m = {NULL, NULL, NULL, NULL};
    setup.tp = tp;
    LS_TRY(store_begin(&m.store, table, ls_group_size(tp), ls_group_rank(tp), values));
    LS_TRY(ls_stage_create(&m.stage, &setup, m.store));
    LS_TRY(ls_micro_batch_create(&m.micro_batch, m.stage));
    LS_TRY(ls_arena_create(&m.temporary, NULL, LS_MEM_TEMPORARY));
exit:
    *ret_model = m;
    return status;
}

/* Everything but the store, which goes to *ret_store (NULL: is destroyed too). */
static inline void model_end(model *m, ls_store **ret_store)
{
    ls_micro_batch_destroy(&m->micro_batch);
    ls_stage_destroy(&m->stage);
    ls_arena_destroy(&m->temporary);
    if (ret_store)
        *ret_store = m->store;
    else
        ls_store_destroy(&m->store);
}

/* A mean over the global batch from its sequences' sums (contract rules 9 and 15). */
static inline ls_real mean_of(const ls_real *sequences, size_t B, int64_t valid)
{
    ls_real loss = ls_tree_sum(sequences, B, 1);
    ls_normalize_zero(&loss, 1);
    return valid > 0 ? loss / (ls_real)valid : 0;
}

/* The loss of the global batch. */
static inline ls_real loss_of(ls_sequence_losses sequences, size_t B, ls_valid valid)
{
    ls_real loss = mean_of(sequences.tokens, B, valid.targets);
    return sequences.order ? loss + mean_of(sequences.order, B, valid.labels) : loss;
}

/* Copies the losses of a part of a batch to where the whole batch's are. */
static inline void losses_put(ls_sequence_losses whole, size_t first, ls_sequence_losses part,
                              size_t sequences)
{
    memcpy(whole.tokens + first, part.tokens, sequences * sizeof *part.tokens);
    if (part.order) memcpy(whole.order + first, part.order, sequences * sizeof *part.order);
}

/* Loss and gradients of a batch that is the whole global batch. */
static inline ls_status model_gradients(model *m, const ls_batch *batch, ls_real *ret_loss)
{
    ls_status status = LS_OK;
    ls_valid valid;
    ls_sequence_losses sequences;
    LS_TRY(ls_stage_forward(m->stage, m->micro_batch, batch, NULL, NULL));
    sequences = ls_micro_batch_losses(m->micro_batch, &valid);
    *ret_loss = loss_of(sequences, batch->B, valid);
    LS_TRY(ls_stage_backward(m->stage, m->micro_batch, NULL, valid, NULL));
    ls_stage_finish_gradients(m->stage);
    ls_add_uses(m->store);
exit:
    return status;
}

/* One pass over a batch on every rank, and what each had of it. */
typedef struct pass {
    const ls_param_table *table;
    ls_stage_setup setup;
    const double *values;
    const ls_batch *batch;
    ls_store *store[MOST_RANKS];
    ls_real loss[MOST_RANKS];
    double squares[MOST_RANKS];
} pass;

static inline ls_status pass_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    pass *p = argument;
    ls_group *tp = ls_rank_world_group(rank);
    ls_layout layout = tp_layout(ls_group_size(tp));
    int r = ls_rank_index(rank);
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, tp, p->table, p->setup, p->values));
    LS_TRY(model_gradients(&m, p->batch, &p->loss[r]));
    LS_TRY(ls_shared_squares(tp, &layout, m.store, m.temporary, &p->squares[r]));
exit:
    model_end(&m, &p->store[r]);
    return status;
}

static inline void pass_end(pass *p)
{
    for (int r = 0; r < MOST_RANKS; r++) ls_store_destroy(&p->store[r]);
}

#endif
