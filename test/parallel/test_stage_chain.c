/* A model cut into stages by layers: run one after another on the same ranks they give the serial
 * bits wherever the cut lies (ORDERED), and micro-batches that are alive at once do not disturb
 * each other. What does not fit together is refused. */
#include <stdio.h>

#include "stage_fixture.h"
#include "run_tests.h"

/* Two stages over one store. */
typedef struct chain {
    ls_store *store;
    ls_stage *stage[2];
    ls_micro_batch *micro_batch[2];
} chain;

static ls_status chain_begin(chain *c, ls_rank *rank, const ls_param_table *table, size_t cut,
                             const double *values)
{
    ls_status status = LS_OK;
    ls_group *tp = ls_rank_world_group(rank);
    ls_stage_setup first = {.tp = tp, .layers = cut, .embedding = true};
    ls_stage_setup last = {
        .tp = tp, .first_layer = cut, .layers = table->config.layers - cut, .head = true};
    LS_TRY(store_begin(&c->store, table, ls_group_size(tp), ls_group_rank(tp), values));
    LS_TRY(ls_stage_create(&c->stage[0], &first, c->store));
    LS_TRY(ls_stage_create(&c->stage[1], &last, c->store));
    for (int s = 0; s < 2; s++) LS_TRY(ls_micro_batch_create(&c->micro_batch[s], c->stage[s]));
exit:
    return status;
}

static void chain_end(chain *c, ls_store **ret_store)
{
    for (int s = 0; s < 2; s++) {
        ls_micro_batch_destroy(&c->micro_batch[s]);
        ls_stage_destroy(&c->stage[s]);
    }
    *ret_store = c->store;
}

typedef struct chain_case {
    const ls_param_table *table;
    const double *values;
    const ls_batch *batch;
    size_t cut;
    ls_store *store[MOST_RANKS];
    ls_real loss[MOST_RANKS];
} chain_case;

static ls_status chain_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    chain_case *x = argument;
    int r = ls_rank_index(rank);
    const ls_real *between, *back;
    ls_sequence_losses losses;
    ls_valid valid;
    chain c = {0};
    LS_TRY(chain_begin(&c, rank, x->table, x->cut, x->values));
    LS_TRY(ls_stage_forward(c.stage[0], c.micro_batch[0], x->batch, NULL, &between));
    LS_TRY(ls_stage_forward(c.stage[1], c.micro_batch[1], x->batch, between, NULL));
    losses = ls_micro_batch_losses(c.micro_batch[1], &valid);
    x->loss[r] = loss_of(losses, x->batch->B, valid);
    LS_TRY(ls_stage_backward(c.stage[1], c.micro_batch[1], NULL, valid, &back));
    LS_TRY(ls_stage_backward(c.stage[0], c.micro_batch[0], back, valid, NULL));
    ls_stage_finish_gradients(c.stage[0]);
    ls_add_uses(c.store);
exit:
    chain_end(&c, &x->store[r]);
    return status;
}

/* Every model, the cut before the first layer, after the last and everywhere between: also a stage
 * that is nothing but the embedding, and one that is nothing but the head. */
START_TEST(every_cut_is_serial)
{
    static const int degrees[] = {1, 3, 4};
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    double *values = fixture_noise(f.table);
    ls_real loss = fixture_gradients(&f, &batch);
    for (size_t cut = 0; cut <= config.layers; cut++) {
        int tp = degrees[cut % 3];
        chain_case x = {.table = f.table, .values = values, .batch = &batch, .cut = cut};
        run_ranks(tp, chain_rank, &x);
        for (int r = 0; r < tp; r++) {
            ck_same(&x.loss[r], &loss, 1, "loss", tp);
            for (size_t k = 0; k < f.table->count; k++) {
                const ls_slot *part = &x.store[r]->slots[k], *whole = &f.store->slots[k];
                ck_slice(&f.table->params[k], part, part->grad[0], whole, whole->grad[0],
                         "gradient", tp, r);
            }
            ls_store_destroy(&x.store[r]);
        }
    }
    free(values);
    fixture_destroy(&f);
}
END_TEST

/* ---- several micro-batches ---- */

typedef struct alive {
    const ls_param_table *table;
    const double *values;
    ls_batch batch[2];
    ls_store *store[2][MOST_RANKS]; /* after micro-batch 0 went back: alone, and beside the other */
} alive;

/* Micro-batch 0 forward, with `beside` micro-batch 1 forward too, then 0 backward. */
static ls_status alive_pass(alive *a, ls_group *tp, bool beside, ls_store **ret_store)
{
    ls_status status = LS_OK;
    ls_micro_batch *other = NULL;
    ls_valid valid;
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, tp, a->table, whole_model(&a->table->config), a->values));
    LS_TRY(ls_micro_batch_create(&other, m.stage));
    LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &a->batch[0], NULL, NULL));
    (void)ls_micro_batch_losses(m.micro_batch, &valid);
    if (beside) LS_TRY(ls_stage_forward(m.stage, other, &a->batch[1], NULL, NULL));
    LS_TRY(ls_stage_backward(m.stage, m.micro_batch, NULL, valid, NULL));
    ls_stage_finish_gradients(m.stage);
    ls_add_uses(m.store);
exit:
    ls_micro_batch_destroy(&other);
    model_end(&m, ret_store);
    return status;
}

static ls_status alive_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    alive *a = argument;
    int r = ls_rank_index(rank);
    for (int beside = 0; beside < 2; beside++)
        LS_TRY(alive_pass(a, ls_rank_world_group(rank), beside, &a->store[beside][r]));
exit:
    return status;
}

START_TEST(micro_batches_at_once)
{
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = tiny_batch_of(&ids, &config);
    alive a = {.table = table,
               .values = values,
               .batch = {ls_batch_part(&batch, 0, 1), ls_batch_part(&batch, 1, TINY_B - 1)}};
    run_ranks(3, alive_rank, &a);
    for (int r = 0; r < 3; r++) {
        for (size_t k = 0; k < table->count; k++) {
            const ls_slot *alone = &a.store[0][r]->slots[k], *beside = &a.store[1][r]->slots[k];
            ck_same(beside->grad[0], alone->grad[0], alone->rows * alone->cols,
                    table->params[k].name, 3);
        }
        for (int i = 0; i < 2; i++) ls_store_destroy(&a.store[i][r]);
    }
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- what does not fit ---- */

enum { REFUSALS = 7 };

typedef struct refusals {
    const ls_param_table *table;
    const double *values;
    const ls_batch *batch;
    ls_status seen[REFUSALS];
    char text[REFUSALS][160];
} refusals;

static void note(refusals *x, int i, ls_status seen)
{
    x->seen[i] = seen;
    snprintf(x->text[i], sizeof x->text[i], "%s", ls_error_text());
    ls_error_clear();
}

static ls_status refusals_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    refusals *x = argument;
    ls_batch batch = *x->batch;
    ls_stage_setup setup = whole_model(&x->table->config);
    ls_stage *stage = NULL;
    ls_valid valid;
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), x->table, setup, x->values));
    setup.tp = ls_rank_world_group(rank);
    setup.first_layer = 1;
    note(x, 0, ls_stage_create(&stage, &setup, m.store));
    setup.layers = SIZE_MAX;
    note(x, 1, ls_stage_create(&stage, &setup, m.store));
    setup.first_layer = 0;
    setup.layers = 0;
    m.store->slots[0].shard.first++; /* another rank's shard */
    note(x, 2, ls_stage_create(&stage, &setup, m.store));
    m.store->slots[0].shard.first--;
    batch.S = x->table->config.seq + 1;
    note(x, 3, ls_stage_forward(m.stage, m.micro_batch, &batch, NULL, NULL));
    batch.S = TINY_S;
    setup.layers = x->table->config.layers;
    setup.batch = TINY_B;
    LS_TRY(ls_stage_create(&stage, &setup, m.store));
    batch.first = 1;
    note(x, 4, ls_stage_forward(stage, m.micro_batch, &batch, NULL, NULL));
    batch.first = 0;
    note(x, 5, ls_stage_backward(m.stage, m.micro_batch, NULL, (ls_valid){1, 0}, NULL));
    LS_TRY(ls_stage_forward(m.stage, m.micro_batch, &batch, NULL, NULL));
    (void)ls_micro_batch_losses(m.micro_batch, &valid);
    LS_TRY(ls_stage_backward(m.stage, m.micro_batch, NULL, valid, NULL));
    note(x, 6, ls_stage_backward(m.stage, m.micro_batch, NULL, valid, NULL));
exit:
    ls_stage_destroy(&stage);
    model_end(&m, NULL);
    return status;
}

START_TEST(what_does_not_fit)
{
    static const char *const words[REFUSALS] = {
        "layers from layer 1 on: the model has",
        "from layer 1 on: the model has",
        "the store does not hold what rank 0 of 1 needs of it",
        "the model has positions for",
        "sequences 1 to 5: the batch has 4",
        "a backward pass without a forward pass before it",
        "a backward pass without a forward pass before it"};
    tiny_ids ids;
    ls_config config = parallel_config(0);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    refusals x = {.table = table, .values = values, .batch = &batch};
    run_ranks(1, refusals_rank, &x);
    for (int i = 0; i < REFUSALS; i++)
        ck_assert_msg(x.seen[i] == LS_ERR_INPUT && strstr(x.text[i], words[i]) != NULL,
                      "refusal %d: status %d, %s", i, (int)x.seen[i], x.text[i]);
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("chain", 60);
    tcase_add_loop_test(tests, every_cut_is_serial, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tests, micro_batches_at_once, 0, N_TINY_SERIAL);
    tcase_add_test(tests, what_does_not_fit);
    return run_tests();
}
