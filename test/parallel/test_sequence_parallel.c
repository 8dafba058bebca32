/* A whole model with sequence parallelism: loss, every gradient and the squared norm have the
 * serial bits on every rank (ORDERED), for sequences that the ranks share evenly, unevenly, or that
 * are shorter than the group, whatever is computed again; what is sent, against formulas; dropout
 * masks of token shares (EXACT); micro-batches. */
#include "stage_fixture.h"
#include "run_tests.h"

enum { B = 3, LONGEST = 24, MOST_TOKENS = 8 * LONGEST };

typedef struct ids {
    int32_t tokens[MOST_TOKENS], targets[MOST_TOKENS], segments[MOST_TOKENS];
    int32_t lengths[8], order[8];
} ids;

/* Sequences of S tokens; every seventh target is ignored. With a masked-token model three token
 * types, padding behind a fifth, two fifths, ... of the sequences, and every third label unknown.
 */
static ls_batch batch_of(ids *all, size_t sequences, size_t S, const ls_config *config)
{
    uint64_t state = 4711;
    size_t vocab = config->vocab;
    bool masked = config->objective == LS_MASKED_TOKEN;
    for (size_t t = 0; t < sequences * S; t++) {
        all->tokens[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        all->targets[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        if (t % 7 == 3) all->targets[t] = LS_IGNORE;
        all->segments[t] = (int32_t)(t * t / 3 % 3);
    }
    for (size_t b = 0; b < sequences; b++) {
        all->lengths[b] = (int32_t)((S * (b % 5 + 1) + 4) / 5);
        all->order[b] = b % 3 == 2 ? LS_IGNORE : (int32_t)(b * b / 2 % 2);
    }
    return (ls_batch){.B = sequences,
                      .S = S,
                      .tokens = all->tokens,
                      .targets = all->targets,
                      .segments = masked ? all->segments : NULL,
                      .lengths = masked ? all->lengths : NULL,
                      .order = masked ? all->order : NULL,
                      .seed = 99,
                      .step = 5,
                      .training = true};
}

static ls_config config_of(size_t i)
{
    ls_config config = parallel_config(i);
    config.seq = LONGEST;
    return config;
}

/* ---- the whole batch at once ---- */

typedef struct job {
    pass pass;
    sent sent[MOST_RANKS]; /* over the tp group, before the norm */
    ls_comm_count broadcasts[MOST_RANKS];
} job;

static ls_status job_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    job *j = argument;
    pass *p = &j->pass;
    ls_group *tp = ls_rank_world_group(rank);
    ls_layout layout = tp_layout(ls_group_size(tp));
    int r = ls_rank_index(rank);
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, tp, p->table, p->setup, p->values));
    LS_TRY(model_gradients(&m, p->batch, &p->loss[r]));
    j->sent[r] =
        (sent){ls_group_count(tp, LS_OP_ALL_REDUCE), ls_group_count(tp, LS_OP_REDUCE_SCATTER),
               ls_group_count(tp, LS_OP_ALL_GATHER)};
    j->broadcasts[r] = ls_group_count(tp, LS_OP_BROADCAST);
    LS_TRY(ls_shared_squares(tp, &layout, m.store, m.temporary, &p->squares[r]));
exit:
    model_end(&m, &p->store[r]);
    return status;
}

static void ck_serial(const pass *p, const fixture *f, ls_real loss, double squares, int tp)
{
    for (int r = 0; r < tp; r++) {
        ck_same(&p->loss[r], &loss, 1, "loss", tp);
        ck_assert_msg(memcmp(&p->squares[r], &squares, sizeof squares) == 0,
                      "tp %d, rank %d: squared norm %a, serial %a", tp, r, p->squares[r], squares);
        for (size_t k = 0; k < f->table->count; k++) {
            const ls_slot *part = &p->store[r]->slots[k], *whole = &f->store->slots[k];
            ck_slice(&f->table->params[k], part, part->grad[0], whole, whole->grad[0], "gradient",
                     tp, r);
        }
    }
}

/* Per layer 2 all-gathers and 2 reduce-scatters forward, 4 and 2 backward; before and after the
 * layers a reduce-scatter of the embedding, a gather before the logits and once more backward, a
 * reduce-scatter behind them and a gather of what the embedding gets. The masked-token head gathers
 * what its matrix multiplies, forward and again backward, and what it gets back. All-reduces: two
 * for the loss (a gather, when the logits are gathered), and one for the norms of each layer, one
 * for those of the head and one for the embedding's, where there are any. The first tokens, one
 * broadcast, for sentence order. Own shards' heads, feed-forward and vocabulary granules are 12
 * each, so their nodes are alike. */
static void ck_communication(const job *j, const ls_config *c, int tp, int rank)
{
    const ls_stage_setup *setup = &j->pass.setup;
    size_t L = c->layers, D = c->d_model, S = j->pass.batch->S, n = B * S, T = (size_t)tp;
    size_t own = B * ls_share_of(S, T, (size_t)rank).count * D;
    size_t partials = nodes_of(12, tp, rank) * n * D;
    size_t again = setup->recompute == LS_RECOMPUTE_LAYER   ? 2 * L
                   : setup->recompute == LS_RECOMPUTE_STAGE ? 2 * L + 1
                                                            : 0; /* passes of a block,
                                                                    and of an end */
    size_t stage = setup->recompute == LS_RECOMPUTE_STAGE, forwards = 1 + stage;
    bool masked = c->objective == LS_MASKED_TOKEN, pre = c->norm_place == LS_NORM_PRE;
    size_t gathers = 6 * L + 3 + again + (masked ? forwards + 2 : 0),
           scatters = 4 * L + 1 + again - stage;
    size_t vectors = c->norm == LS_LAYER_NORM && c->bias ? 2 : 1;
    size_t norms =
        nodes_of(S, tp, rank) * B * vectors * D * (2 * L + pre + masked + c->embedding_norm);
    size_t sums = L + (pre || masked) + c->embedding_norm;
    size_t loss = n + nodes_of(12, tp, rank) * (c->label_smoothing > 0 ? 3 : 2) * n;
    size_t logits = n * 384 / T; /* 300 padded */
    if (setup->gathered_loss) {
        ck_sent(j->sent[rank].reduces, sums, norms, "all-reduces", tp, rank);
        ck_sent(j->sent[rank].gathers, gathers + forwards, gathers * own + forwards * logits,
                "all-gathers", tp, rank);
    } else {
        ck_sent(j->sent[rank].reduces, sums + 2 * forwards, norms + forwards * loss, "all-reduces",
                tp, rank);
        ck_sent(j->sent[rank].gathers, gathers, gathers * own, "all-gathers", tp, rank);
    }
    /* of the embedding each member hands in its one partial */
    ck_sent(j->sent[rank].scatters, scatters + forwards, scatters * partials + forwards * n * D,
            "reduce-scatters", tp, rank);
    ck_sent(j->broadcasts[rank], c->sentence_order ? forwards : 0,
            c->sentence_order && rank == 0 ? forwards * B * D : 0, "broadcasts", tp, rank);
}

START_TEST(every_degree_is_serial)
{
    static const ls_recompute recompute[] = {LS_RECOMPUTE_NONE, LS_RECOMPUTE_SELECTIVE,
                                             LS_RECOMPUTE_LAYER, LS_RECOMPUTE_STAGE};
    ls_config config = config_of((size_t)_i);
    if (config.mlp_cut == LS_MLP_ROW_FIRST) return;
    for (size_t s = 0; s < SEQUENCE_LENGTHS; s++) {
        ids all;
        fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
        ls_batch batch = batch_of(&all, B, sequence_lengths[s], &config);
        double *values = fixture_noise(f.table), squares = (double)NAN;
        ls_real loss = fixture_gradients(&f, &batch);
        ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
        ck_assert(loss > 0 && squares > 0);
        for (size_t i = 0; i < LEGAL_DEGREES; i++) {
            int tp = legal_degrees[i];
            job j = {.pass = {.table = f.table,
                              .setup = whole_model(&config),
                              .values = values,
                              .batch = &batch}};
            j.pass.setup.sequence_parallel = true;
            j.pass.setup.gathered_loss = (i + s) % 2;
            j.pass.setup.recompute = recompute[(i + s + (size_t)_i) % 4];
            run_ranks(tp, job_rank, &j);
            ck_serial(&j.pass, &f, loss, squares, tp);
            for (int r = 0; r < tp; r++) ck_communication(&j, &config, tp, r);
            pass_end(&j.pass);
        }
        free(values);
        fixture_destroy(&f);
    }
}
END_TEST

/* The one block that has no such form says so on every rank. */
START_TEST(row_first_is_refused)
{
    ids all;
    ls_config config = config_of(4);
    ls_param_table *table;
    ck_assert_int_eq(config.mlp_cut, LS_MLP_ROW_FIRST);
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = batch_of(&all, B, 5, &config);
    job j = {
        .pass = {.table = table, .setup = whole_model(&config), .values = values, .batch = &batch}};
    j.pass.setup.sequence_parallel = true;
    ck_assert_int_eq(ls_world_run(2, NULL, job_rank, &j), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "row-first MLP has no sequence parallelism"));
    pass_end(&j.pass);
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- dropout ---- */

typedef struct mask {
    size_t B, S, first;
    ls_real y[MOST_TOKENS * 4]; /* 4 numbers a token */
} mask;

static ls_status mask_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    mask *k = argument;
    member m = {0};
    ls_stream stream = {3, LS_RANDOM_DROPOUT_MLP, 1, 2};
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    m.tp.sequence_parallel = true;
    ls_real *x = own_room(&m, k->B, k->S, 4), *y = own_room(&m, k->B, k->S, 4);
    for (size_t i = 0; i < ls_axis_extent(ls_own_tokens(&m.tp, ls_axis_of(k->B, k->S))) * 4; i++)
        x[i] = 1;
    ls_own_dropout(&m.tp, y, x, ls_axis_of(k->B, k->S), 4, 0.5, stream, k->first);
    put_own_tokens(&m, k->y, y, k->B, k->S, 4);
    free(x), free(y);
exit:
    member_end(&m);
    return status;
}

/* The masks of all ranks put together are the mask of the whole tensor, and no share repeats
 * another's: not one random state for all ranks, nor one for each. */
START_TEST(masks_of_token_shares)
{
    ls_stream stream = {3, LS_RANDOM_DROPOUT_MLP, 1, 2};
    for (size_t s = 0; s < SEQUENCE_LENGTHS; s++)
        for (int tp = 1; tp <= 12; tp++) {
            mask k = {.B = B, .S = sequence_lengths[s], .first = 5};
            for (size_t i = 0; i < MOST_TOKENS * 4; i++) k.y[i] = (ls_real)NAN;
            run_ranks(tp, mask_rank, &k);
            for (size_t i = 0; i < k.B * k.S * 4; i++)
                ck_assert_msg(k.y[i] == (ls_random_keep(stream, 5 * k.S * 4 + i, 0.5) ? 2 : 0),
                              "S %zu, tp %d, element %zu: %g", k.S, tp, i, (double)k.y[i]);
        }
    mask k = {.B = 1, .S = 4, .first = 0};
    run_ranks(2, mask_rank, &k);
    ck_assert(memcmp(k.y, k.y + 8, 8 * sizeof *k.y) != 0);
}
END_TEST

/* ---- micro-batches ---- */

enum { SEQUENCES = 7, MOST_PARTS = 7 };

typedef struct parts {
    const ls_param_table *table;
    const double *values;
    const ls_batch *batch;
    size_t cut;                       /* layers of the first of two stages */
    size_t bounds[MOST_PARTS + 1], n; /* micro-batch i has sequences bounds[i] .. bounds[i + 1] */
    bool backwards;
    ls_store *store[MOST_RANKS];
    ls_real loss[MOST_RANKS];
} parts;

typedef struct part {
    ls_batch batch;
    ls_micro_batch *at[2];
} part;

static ls_status forward_part(ls_stage *const *stage, part *p, ls_sequence_losses losses,
                              ls_valid *valid)
{
    ls_status status = LS_OK;
    const ls_real *between;
    ls_valid own;
    LS_TRY(ls_stage_forward(stage[0], p->at[0], &p->batch, NULL, &between));
    LS_TRY(ls_stage_forward(stage[1], p->at[1], &p->batch, between, NULL));
    losses_put(losses, p->batch.first, ls_micro_batch_losses(p->at[1], &own), p->batch.B);
    *valid = ls_valid_add(*valid, own);
exit:
    return status;
}

/* All forward, then all backward, through two stages over one store. */
static ls_status parts_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    parts *x = argument;
    ls_group *tp = ls_rank_world_group(rank);
    int r = ls_rank_index(rank);
    size_t layers = x->table->config.layers;
    ls_stage_setup setup[2] = {{.layers = x->cut, .embedding = true},
                               {.first_layer = x->cut, .layers = layers - x->cut, .head = true}};
    ls_stage *stage[2] = {NULL, NULL};
    part part_of[MOST_PARTS];
    ls_real token_losses[SEQUENCES], order_losses[SEQUENCES];
    ls_sequence_losses losses = {token_losses, order_losses};
    ls_valid valid = {0, 0};
    memset(part_of, 0, sizeof part_of);
    LS_TRY(store_begin(&x->store[r], x->table, ls_group_size(tp), r, x->values));
    LS_TRY(ls_store_gradient_slots(x->store[r], SEQUENCES));
    for (int s = 0; s < 2; s++) {
        setup[s].tp = tp;
        setup[s].sequence_parallel = true;
        setup[s].batch = SEQUENCES;
        LS_TRY(ls_stage_create(&stage[s], &setup[s], x->store[r]));
        ls_stage_begin_gradients(stage[s]);
    }
    for (size_t i = 0; i < x->n; i++) {
        part *p = &part_of[i];
        size_t first = x->bounds[i];
        p->batch = ls_batch_part(x->batch, first, x->bounds[i + 1] - first);
        for (int s = 0; s < 2; s++) LS_TRY(ls_micro_batch_create(&p->at[s], stage[s]));
        LS_TRY(forward_part(stage, p, losses, &valid));
    }
    if (!x->table->config.sentence_order) losses.order = NULL;
    x->loss[r] = loss_of(losses, SEQUENCES, valid);
    for (size_t i = 0; i < x->n; i++) {
        part *p = &part_of[x->backwards ? x->n - 1 - i : i];
        const ls_real *between;
        LS_TRY(ls_stage_backward(stage[1], p->at[1], NULL, valid, &between));
        LS_TRY(ls_stage_backward(stage[0], p->at[0], between, valid, NULL));
    }
    for (int s = 0; s < 2; s++) {
        ls_stage_settle_gradients(stage[s]);
        ls_stage_finish_gradients(stage[s]);
    }
    ls_add_uses(x->store[r]);
exit:
    for (size_t i = 0; i < x->n; i++)
        for (int s = 0; s < 2; s++) ls_micro_batch_destroy(&part_of[i].at[s]);
    for (int s = 0; s < 2; s++) ls_stage_destroy(&stage[s]);
    return status;
}

/* Sequences in micro-batches of any size and in either order: what goes between the stages are own
 * tokens, and the norms' sums go to the same nodes of the batch as all others. */
START_TEST(micro_batches)
{
    static const size_t bounds[][MOST_PARTS + 1] = {
        {0, 7}, {0, 3, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 1, 6, 7}};
    static const size_t counts[] = {1, 3, 7, 3};
    static const int degrees[] = {2, 3, 6, 12};
    ids all;
    ls_config config = config_of((size_t)_i);
    if (config.mlp_cut == LS_MLP_ROW_FIRST) return;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = batch_of(&all, SEQUENCES, 5, &config);
    double *values = fixture_noise(f.table);
    ls_real loss = fixture_gradients(&f, &batch);
    for (size_t i = 0; i < 4; i++) {
        int tp = degrees[(i + (size_t)_i) % 4];
        parts x = {.table = f.table,
                   .values = values,
                   .batch = &batch,
                   .cut = i % (config.layers + 1),
                   .n = counts[i],
                   .backwards = i % 2};
        memcpy(x.bounds, bounds[i], sizeof x.bounds);
        run_ranks(tp, parts_rank, &x);
        for (int r = 0; r < tp; r++) {
            ck_same(&x.loss[r], &loss, 1, "loss", tp);
            for (size_t k = 0; k < f.table->count; k++) {
                const ls_slot *own = &x.store[r]->slots[k], *whole = &f.store->slots[k];
                ck_slice(&f.table->params[k], own, own->grad[0], whole, whole->grad[0], "gradient",
                         tp, r);
            }
            ls_store_destroy(&x.store[r]);
        }
    }
    free(values);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("sequence parallel", 60);
    tcase_add_loop_test(tests, every_degree_is_serial, 0, N_TINY_SERIAL);
    tcase_add_test(tests, row_first_is_refused);
    tcase_add_test(tests, masks_of_token_shares);
    tcase_add_loop_test(tests, micro_batches, 0, N_TINY_SERIAL);
    return run_tests();
}
