/* test_serial_step.c - a training step as a whole: the same bits each time, tied uses, the norm of
 * the gradient, clipping, the update, memory. */
#include "serial/serial_fixture.h"
#include "run_tests.h"

static const ls_update adamw = {.optimizer = LS_ADAMW,
                                .lr = 0.01,
                                .beta1 = 0.9,
                                .beta2 = 0.95,
                                .eps = 1e-8,
                                .weight_decay = 0.1};

/* One whole step; returns the loss. */
static ls_real train(const fixture *f, const ls_batch *batch, uint64_t t, double max_norm)
{
    ls_update update = adamw;
    update.t = t;
    double squares = (double)NAN;
    ls_real loss = fixture_gradients(f, batch);
    ck_assert_int_eq(ls_serial_squares(f->serial, &squares), LS_OK);
    ls_serial_update(f->serial, &update, squares, max_norm);
    return loss;
}

/* ---- the same bits ---- */

static void expect_same_state(const fixture *f, const fixture *g)
{
    for (size_t i = 0; i < f->table->count; i++) {
        const size_t bytes = fixture_slot_elements(f, i) * sizeof(ls_real);
        const ls_slot *a = &f->store->slots[i], *b = &g->store->slots[i];
        const char *name = f->table->params[i].name;
        ck_assert_msg(memcmp(a->value, b->value, bytes) == 0, "value of %s", name);
        ck_assert_msg(memcmp(a->grad[0], b->grad[0], bytes) == 0, "gradient of %s", name);
        ck_assert_msg(memcmp(a->m, b->m, bytes) == 0, "first moment of %s", name);
        ck_assert_msg(memcmp(a->v, b->v, bytes) == 0, "second moment of %s", name);
    }
}

/* Three steps twice, with each engine: in fresh memory, and in memory that another batch has used
 * before. A pass leaves nothing behind that the next one could see. */
START_TEST(three_steps_twice)
{
    static const ls_engine engines[] = {LS_ENGINE_PORTABLE,
#ifdef LS_HAVE_OPENBLAS
                                        LS_ENGINE_OPENBLAS
#endif
    };
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    for (size_t e = 0; e < sizeof engines / sizeof engines[0]; e++) {
        fixture f = fixture_create(&config, engines[e]), g = fixture_create(&config, engines[e]);
        ls_batch batch = tiny_batch_of(&ids, &config), other = batch;
        other.B = 2;
        other.S = config.seq;
        (void)fixture_gradients(&g, &other);
        for (uint32_t step = 0; step < 3; step++) {
            batch.step = step;
            ls_real a = train(&f, &batch, step + 1, 1), b = train(&g, &batch, step + 1, 1);
            ck_assert(memcmp(&a, &b, sizeof a) == 0);
            expect_same_state(&f, &g);
        }
        fixture_destroy(&g);
        fixture_destroy(&f);
    }
}
END_TEST

/* Dropout follows seed and step: other numbers, other masks; off, neither matters. */
START_TEST(dropout_follows_seed_and_step)
{
    tiny_ids ids;
    ls_config config = tiny_base("dropout");
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab), other = batch;
    ls_real loss = fixture_forward(&f, &batch);
    ck_assert(fixture_forward(&f, &batch) == loss);
    other.step++;
    ck_assert(fixture_forward(&f, &other) != loss);
    other = batch;
    other.seed++;
    ck_assert(fixture_forward(&f, &other) != loss);
    other.training = batch.training = false;
    loss = fixture_forward(&f, &batch);
    ck_assert(fixture_forward(&f, &other) == loss);
    fixture_destroy(&f);
}
END_TEST

/* ---- tied weights (rule 13) ---- */

/* A tied embedding's gradient is that of the input plus that of the head, as an untied model with
 * two equal matrices finds them, in this order; counted once in the norm, updated once. */
START_TEST(tied_uses_are_added)
{
    tiny_ids ids;
    ls_config config = tiny_base("tied"), apart = config;
    apart.tied = false;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&apart, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    for (size_t i = 0; i < g.table->count; i++) { /* head: the embedding; all else alike */
        const ls_param *param = &g.table->params[i];
        ls_role from = param->role == LS_HEAD_WEIGHT ? LS_TOKEN_EMBEDDING : param->role;
        memcpy(g.store->slots[i].value, ls_store_slot(f.store, from, param->layer)->value,
               fixture_slot_elements(&g, i) * sizeof(ls_real));
    }
    ls_real a = fixture_gradients(&f, &batch), b = fixture_gradients(&g, &batch);
    ck_assert(memcmp(&a, &b, sizeof a) == 0);
    const ls_slot *tied = ls_store_slot(f.store, LS_TOKEN_EMBEDDING, 0);
    const ls_slot *input = ls_store_slot(g.store, LS_TOKEN_EMBEDDING, 0);
    const ls_slot *head = ls_store_slot(g.store, LS_HEAD_WEIGHT, 0);
    for (size_t e = 0; e < tied->rows * tied->cols; e++) {
        ls_real sum = input->grad[0][e] + head->grad[0][e];
        ck_assert(memcmp(&sum, &tied->grad[0][e], sizeof sum) == 0);
    }
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* ---- the MLP cut by rows first ---- */

/* Row-first is the same mathematics in another order of addition. */
START_TEST(row_first_differs_in_rounding_alone)
{
    const double unit = sizeof(ls_real) == 4 ? ldexp(1, -24) : ldexp(1, -53);
    tiny_ids ids;
    ls_config config = tiny_base("cut"), rows = config;
    rows.mlp_cut = LS_MLP_ROW_FIRST;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&rows, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    double a = (double)fixture_gradients(&f, &batch), b = (double)fixture_gradients(&g, &batch);
    ck_assert(fabs(a - b) <= 16 * unit * a);
    size_t n, different = 0;
    ls_real *left = fixture_copy_gradients(&f, &n), *right = fixture_copy_gradients(&g, &n);
    for (size_t i = 0; i < n; i++) {
        ck_assert(fabs((double)left[i] - (double)right[i]) <= 128 * unit);
        if (left[i] != right[i]) different++;
    }
    ck_assert_uint_gt(different, 0); /* else the cut is not used at all */
    free(left);
    free(right);
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* ---- norm, clipping, update ---- */

static double norm_of(const fixture *f)
{
    double squares = (double)NAN;
    ck_assert_int_eq(ls_serial_squares(f->serial, &squares), LS_OK);
    return sqrt(squares);
}

/* The norm is over all gradients, tied ones once; clipping scales every one of them. */
START_TEST(clipping_scales_the_whole_gradient)
{
    const double unit = sizeof(ls_real) == 4 ? ldexp(1, -24) : ldexp(1, -53);
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    ls_update update = adamw;
    update.t = 1;
    (void)fixture_gradients(&f, &batch);
    size_t n;
    double sum = 0;
    ls_real *before = fixture_copy_gradients(&f, &n);
    for (size_t i = 0; i < n; i++) sum += (double)before[i] * (double)before[i];
    ck_assert(fabs(norm_of(&f) - sqrt(sum)) <= 1e-14 * sqrt(sum));

    const double max_norm = 0.5 * sqrt(sum);
    ls_serial_update(f.serial, &update, sum, max_norm);
    ls_real *after = fixture_copy_gradients(&f, &n);
    for (size_t i = 0; i < n; i++)
        ck_assert(fabs((double)after[i] - 0.5 * (double)before[i]) <=
                  2 * unit * fabs((double)before[i]));
    ck_assert(fabs(norm_of(&f) - max_norm) <= (1e-14 + 4 * unit) * max_norm);

    /* A limit above the norm, and no limit: nothing is scaled. */
    (void)fixture_gradients(&f, &batch);
    free(before);
    before = fixture_copy_gradients(&f, &n);
    ls_serial_update(f.serial, &update, norm_of(&f) * norm_of(&f), _i % 2 ? 0 : 1e6);
    free(after);
    after = fixture_copy_gradients(&f, &n);
    ck_assert(memcmp(before, after, n * sizeof *before) == 0);
    free(before);
    free(after);
    fixture_destroy(&f);
}
END_TEST

/* An update moves every parameter by the kernel's rule, once: with decay where the table says so.
 */
START_TEST(update_is_the_optimizers)
{
    tiny_ids ids;
    ls_config config = tiny_config(0);
    ls_update update = adamw;
    update.optimizer = _i == 0 ? LS_ADAMW : LS_SGD;
    update.t = 1;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    (void)fixture_gradients(&f, &batch);
    (void)fixture_gradients(&g, &batch);
    ls_serial_update(f.serial, &update, 1, 0);
    for (size_t i = 0; i < g.table->count; i++) {
        ls_slot *slot = &g.store->slots[i];
        bool matrix = g.table->params[i].n_dims == 2;
        ls_update_apply(&update, matrix, slot->value, slot->m, slot->v, slot->grad[0],
                        fixture_slot_elements(&g, i));
    }
    expect_same_state(&f, &g);
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* 30 steps on one batch: the model learns it by heart, without dropout. */
START_TEST(a_batch_is_learnt_by_heart)
{
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    config.label_smoothing = 0;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_store_init(f.store, 7); /* as training begins, not noise */
    ls_batch batch = tiny_batch_of(&ids, &config);
    batch.training = false;
    double first = (double)train(&f, &batch, 1, 1), last = first;
    ck_assert(fabs(first - log(config.sentence_order ? 26 : 13)) < 0.2);
    for (uint64_t t = 2; t <= 30; t++) last = (double)train(&f, &batch, t, 1);
    ck_assert_msg(last < 0.75 * first, "%s: %g to %g", config.name, first, last);
    fixture_destroy(&f);
}
END_TEST

/* ---- memory ---- */

/* Activations are as many bytes as this count of what is kept, step after step; temporaries are
 * gone when a call is over. */
START_TEST(memory_is_accounted_for)
{
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    const size_t n = TINY_TOKENS, D = config.d_model, F = config.d_ff, dh = D / config.heads;
    const size_t kv = config.kv_heads * dh, Vp = ls_axis_extent(ls_config_vocab_axis(&config));
    const size_t mean = config.norm == LS_LAYER_NORM, gate = config.activation == LS_SWIGLU;
    const size_t scores = TINY_B * config.heads * TINY_S * TINY_S;
    const size_t layer = n * (6 * D + 2 * kv + (2 + gate) * F + 2 + 2 * mean) + scores;
    const size_t norm = n * (D + 1 + mean); /* what a norm at the ends keeps */
    const bool masked = config.objective == LS_MASKED_TOKEN, order = config.sentence_order;
    const size_t ends = n * (D + Vp + 2) + (config.norm_place == LS_NORM_PRE ? norm : 0) +
                        (config.embedding_norm ? norm : 0) + (masked ? 2 * n * D + norm : 0) +
                        (order ? TINY_B * (D + 4) : 0);
    const size_t tables = config.position == LS_ROTARY ? config.seq * (dh / 2) * 2 : 0;
    const size_t expected = (config.layers * layer + ends + tables) * sizeof(ls_real) +
                            2 * n * sizeof(int32_t) +
                            (config.token_types > 0 ? n * sizeof(int32_t) : 0) +
                            (order ? TINY_B * sizeof(int32_t) : 0) + (masked ? n : 0);
    size_t peak = 0;
    ck_assert_uint_eq(ls_memory_bytes(f.memory, LS_MEM_ACTIVATIONS), tables * sizeof(ls_real));
    for (uint64_t t = 1; t <= 3; t++) {
        (void)train(&f, &batch, t, 1);
        ck_assert_uint_eq(ls_memory_bytes(f.memory, LS_MEM_ACTIVATIONS), expected);
        ck_assert_uint_eq(ls_memory_bytes(f.memory, LS_MEM_TEMPORARY), 0);
        ck_assert(t == 1 || ls_memory_total_peak_bytes(f.memory) == peak);
        peak = ls_memory_total_peak_bytes(f.memory);
    }
    fixture_destroy(&f);
}
END_TEST

/* Each forward pass allows one backward pass: it turns the logits into their gradient. */
START_TEST(backward_once)
{
    tiny_ids ids;
    ls_config config = tiny_base("once");
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    (void)fixture_gradients(&f, &batch);
    ck_assert(ls_serial_logits(f.serial) == NULL);
    ls_error_clear();
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_ERR_INPUT);
    ck_assert(strstr(ls_error_text(), "no forward pass") != NULL);
    fixture_destroy(&f);
}
END_TEST

/* Somebody wants an end: no pass goes through, forward or backward; without that wish the step has
 * the bits that it had before. */
START_TEST(an_end_that_is_wanted)
{
    tiny_ids ids;
    volatile int stop = 0;
    ls_config config = tiny_base("stop");
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    ls_real loss = fixture_gradients(&f, &batch), other = (ls_real)NAN;
    ls_serial_stop_when(f.serial, &stop);
    ck_assert_int_eq(ls_serial_forward(f.serial, &batch, &other), LS_OK);
    ck_assert(memcmp(&loss, &other, sizeof loss) == 0);
    stop = 1;
    ls_error_clear();
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_ERR_INTERRUPTED);
    ck_assert_str_eq(ls_error_text(), "interrupted");
    other = (ls_real)NAN;
    ck_assert_int_eq(ls_serial_forward(f.serial, &batch, &other), LS_ERR_INTERRUPTED);
    ck_assert(isnan(other));
    stop = 0;
    ck_assert_int_eq(ls_serial_forward(f.serial, &batch, &other), LS_OK);
    ck_assert(memcmp(&loss, &other, sizeof loss) == 0);
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_OK);
    fixture_destroy(&f);
}
END_TEST

/* A store that holds a part of a parameter is refused by that parameter's name. */
START_TEST(a_partial_store_is_refused)
{
    ls_config config = tiny_base("partial");
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    for (int kind = 0; kind < 3; kind++) {
        ls_holding *holdings = calloc(table->count, sizeof *holdings);
        ls_store *store = NULL;
        ls_serial *serial = NULL;
        ck_assert_ptr_nonnull(holdings);
        for (size_t i = 0; i < table->count; i++) {
            holdings[i] = (ls_holding){.held = true, .shard = {0, table->params[i].axis.granules}};
            for (int use = 0; use < table->params[i].uses; use++) holdings[i].use_held[use] = true;
        }
        size_t at = kind == 2 ? 0 : ls_param_find(table, LS_KEY_WEIGHT, 1);
        if (kind == 0) holdings[at].held = false;
        if (kind == 1) holdings[at].shard.count = 3;
        if (kind == 2) holdings[at].use_held[1] = false;
        ck_assert_int_eq(ls_store_create(&store, table, holdings, NULL), LS_OK);
        ls_error_clear();
        ck_assert_int_eq(ls_serial_create(&serial, store, LS_ENGINE_PORTABLE, NULL), LS_ERR_INPUT);
        ck_assert(strstr(ls_error_text(), table->params[at].name) == ls_error_text());
        ck_assert_ptr_null(serial);
        ls_store_destroy(&store);
        free(holdings);
    }
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_step", 60);
    tcase_add_loop_test(tc, three_steps_twice, 0, N_TINY_SERIAL);
    tcase_add_test(tc, dropout_follows_seed_and_step);
    tcase_add_test(tc, tied_uses_are_added);
    tcase_add_test(tc, row_first_differs_in_rounding_alone);
    tcase_add_loop_test(tc, clipping_scales_the_whole_gradient, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tc, update_is_the_optimizers, 0, 2);
    tcase_add_loop_test(tc, a_batch_is_learnt_by_heart, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tc, memory_is_accounted_for, 0, N_TINY_SERIAL);
    tcase_add_test(tc, backward_once);
    tcase_add_test(tc, an_end_that_is_wanted);
    tcase_add_test(tc, a_partial_store_is_refused);
    return run_tests();
}
