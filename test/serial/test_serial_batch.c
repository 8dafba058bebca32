/* test_serial_batch.c - what a batch may be, and what the loss over it means. */
#include "serial/serial_fixture.h"
#include "run_tests.h"

static int same_bits(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* ---- ignored targets (rule 15) ---- */

/* All targets ignored: loss 0 and all gradients exactly +0, no 0 / 0; one valid token is enough for
 * ordinary numbers again. */
START_TEST(all_ignored_gives_zeros)
{
    static const ls_real zero = 0;
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    for (size_t t = 0; t < TINY_TOKENS; t++) ids.targets[t] = LS_IGNORE;
    batch.order = NULL;
    ck_assert(same_bits(fixture_gradients(&f, &batch), zero));
    for (size_t i = 0; i < f.table->count; i++)
        for (int use = 0; use < f.table->params[i].uses; use++)
            for (size_t e = 0; e < fixture_slot_elements(&f, i); e++)
                ck_assert_msg(same_bits(f.store->slots[i].grad[use][e], zero), "%s",
                              f.table->params[i].name);
    double squares = 1;
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    ck_assert(squares == 0);

    ids.targets[7] = 3;
    ls_real loss = fixture_gradients(&f, &batch);
    ck_assert(loss > 0 && isfinite(loss));
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    ck_assert(squares > 0 && isfinite(squares));
    fixture_destroy(&f);
}
END_TEST

/* The loss of one token alone: every other target ignored. */
static double alone(const fixture *f, const ls_batch *batch, int32_t *targets, size_t t)
{
    int32_t kept[TINY_TOKENS];
    memcpy(kept, targets, sizeof kept);
    for (size_t i = 0; i < TINY_TOKENS; i++)
        if (i != t) targets[i] = LS_IGNORE;
    double loss = (double)fixture_forward(f, batch);
    memcpy(targets, kept, sizeof kept);
    return loss;
}

/* The loss is the sum over valid targets divided by their number: not by all rows, and not a mean
 * of the sequences' means. */
START_TEST(loss_is_a_mean_over_valid_targets)
{
    tiny_ids ids;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    double total = 0, of_means = 0, valid = 0;
    for (size_t b = 0; b < TINY_B; b++) {
        double sequence = 0, here = 0;
        for (size_t t = b * TINY_S; t < (b + 1) * TINY_S; t++) {
            if (ids.targets[t] == LS_IGNORE) continue;
            sequence += alone(&f, &batch, ids.targets, t);
            here++;
        }
        total += sequence;
        valid += here;
        of_means += sequence / here / TINY_B;
    }
    double loss = (double)fixture_forward(&f, &batch);
    ck_assert(fabs(loss - total / valid) <= 1e-6 * loss);
    ck_assert(fabs(loss - of_means) > 1e-4 * loss); /* so that the mistake would show */
    ck_assert(fabs(loss - total / TINY_TOKENS) > 1e-3 * loss);
    fixture_destroy(&f);
}
END_TEST

/* Two samples of 11 and 101 tokens, so 10 and 100 targets: each target weighs 1/110. In a mean of
 * means those of the short sample would weigh 0.05 and those of the long one 0.005. The targets of
 * the two samples differ, and all parameters are zero but the head, so that the gradient of the
 * final shift shows the weights. */
START_TEST(samples_of_11_and_101_tokens)
{
    enum { B = 2, S = 101, D = 2, V = 2, SHORT = 10, LONG = 100 };
    static int32_t tokens[B * S], targets[B * S];
    ls_config config = tiny_base("samples");
    config.layers = 1;
    config.heads = config.kv_heads = 1;
    config.d_model = D;
    config.d_ff = 3;
    config.seq = S;
    config.vocab = V;
    config.tied = false;
    config.dropout = 0;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    for (size_t i = 0; i < f.table->count; i++)
        memset(f.store->slots[i].value, 0, fixture_slot_elements(&f, i) * sizeof(ls_real));
    /* The identity for head: z = shift = 0, softmax is 1/2 everywhere, and dshift_d is the sum over
     * the targets of weight * (1/2 - [target == d]). */
    ls_real *head = ls_store_slot(f.store, LS_HEAD_WEIGHT, 0)->value;
    head[0] = head[3] = 1;
    for (size_t t = 0; t < B * S; t++) {
        size_t s = t % S;
        bool in_short = t < S;
        targets[t] = s >= (in_short ? SHORT : LONG) ? LS_IGNORE : in_short ? 0 : 1;
    }
    ls_batch batch = {.B = B, .S = S, .tokens = tokens, .targets = targets};
    double loss = (double)fixture_gradients(&f, &batch);
    const ls_real *dshift = ls_store_slot(f.store, LS_FINAL_NORM_SHIFT, 0)->grad[0];
    ck_assert(fabs(loss - log(2)) <= 1e-6);
    ck_assert(fabs((double)dshift[0] - (0.5 * LONG - 0.5 * SHORT) / (SHORT + LONG)) <= 1e-6);
    ck_assert(fabs((double)dshift[1] + (0.5 * LONG - 0.5 * SHORT) / (SHORT + LONG)) <= 1e-6);
    fixture_destroy(&f);
}
END_TEST

/* ---- sequences ---- */

/* Logits of token (b, s), V logical columns. */
static const ls_real *logits_at(const fixture *f, const ls_batch *batch, size_t b, size_t s)
{
    return ls_serial_logits(f->serial) +
           (b * batch->S + s) * ls_axis_extent(ls_config_vocab_axis(&f->table->config));
}

/* Sequences do not see each other: in another order they give the same logits in that order, bit
 * for bit, also in a batch of their own. (Without dropout, whose masks belong to places.) */
START_TEST(sequences_in_another_order)
{
    static const size_t order[TINY_B] = {2, 0, 3, 1};
    tiny_ids ids, moved;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab), other = tiny_batch(&moved, config.vocab);
    batch.training = other.training = false;
    for (size_t b = 0; b < TINY_B; b++) {
        memcpy(moved.tokens + b * TINY_S, ids.tokens + order[b] * TINY_S, TINY_S * sizeof(int32_t));
        memcpy(moved.targets + b * TINY_S, ids.targets + order[b] * TINY_S,
               TINY_S * sizeof(int32_t));
    }
    double loss = (double)fixture_forward(&f, &batch);
    ck_assert(fabs((double)fixture_forward(&g, &other) - loss) <= 1e-6 * loss);
    for (size_t b = 0; b < TINY_B; b++)
        for (size_t s = 0; s < TINY_S; s++)
            ck_assert(memcmp(logits_at(&g, &other, b, s), logits_at(&f, &batch, order[b], s),
                             config.vocab * sizeof(ls_real)) == 0);
    other.B = 1;
    (void)fixture_forward(&g, &other);
    for (size_t s = 0; s < TINY_S; s++)
        ck_assert(memcmp(logits_at(&g, &other, 0, s), logits_at(&f, &batch, order[0], s),
                         config.vocab * sizeof(ls_real)) == 0);
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* A causal model's logits do not depend on later tokens, bit for bit, nor on how long the sequence
 * is (masked terms are zeros at their place); those of a token itself do depend on it. */
START_TEST(later_tokens_change_nothing)
{
    tiny_ids ids, changed;
    ls_config config = tiny_config((size_t)_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab), other = tiny_batch(&changed, config.vocab);
    batch.training = other.training = false;
    (void)fixture_forward(&f, &batch);
    for (size_t s = 0; s < TINY_S; s++) {
        changed = ids;
        changed.tokens[s] = (ids.tokens[s] + 1) % (int32_t)config.vocab;
        other.B = batch.B;
        other.S = batch.S;
        (void)fixture_forward(&g, &other);
        for (size_t i = 0; i < TINY_S; i++) {
            int equal = memcmp(logits_at(&g, &other, 0, i), logits_at(&f, &batch, 0, i),
                               config.vocab * sizeof(ls_real)) == 0;
            ck_assert_int_eq(equal, config.causal && i < s);
        }
        if (!config.causal || s == 0) continue;
        other.B = 1;
        other.S = s;
        (void)fixture_forward(&g, &other);
        for (size_t i = 0; i < s; i++)
            ck_assert(memcmp(logits_at(&g, &other, 0, i), logits_at(&f, &batch, 0, i),
                             config.vocab * sizeof(ls_real)) == 0);
    }
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* Sequences shorter than the model's: rows of positions that no token has get exactly +0; tokens
 * that do not occur too, and padded rows of the vocabulary. */
START_TEST(rows_without_tokens_get_nothing)
{
    static const ls_real zero = 0;
    tiny_ids ids;
    ls_config config = tiny_base("rows");
    config.tied = false;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch(&ids, config.vocab);
    for (size_t t = 0; t < TINY_TOKENS; t++)
        if (ids.tokens[t] == 6) ids.tokens[t] = 7;
    (void)fixture_gradients(&f, &batch);
    const size_t D = config.d_model;
    const ls_slot *position = ls_store_slot(f.store, LS_POSITION_EMBEDDING, 0);
    for (size_t e = TINY_S * D; e < position->rows * D; e++)
        ck_assert(same_bits(position->grad[0][e], zero));
    for (size_t e = 0; e < TINY_S * D; e++) ck_assert(position->grad[0][e] != 0);
    const ls_slot *token = ls_store_slot(f.store, LS_TOKEN_EMBEDDING, 0);
    const ls_slot *head = ls_store_slot(f.store, LS_HEAD_WEIGHT, 0);
    for (size_t v = 0; v < token->rows; v++)
        for (size_t d = 0; d < D; d++) {
            if (v == 6 || v >= config.vocab) ck_assert(same_bits(token->grad[0][v * D + d], zero));
            if (v >= config.vocab) ck_assert(same_bits(head->grad[0][v * D + d], zero));
            if (v < config.vocab) ck_assert(head->grad[0][v * D + d] != 0);
        }
    fixture_destroy(&f);
}
END_TEST

/* ---- bad input: one line that names the place and the value ---- */

static void expect_refusal(const fixture *f, const ls_batch *batch, const char *text)
{
    ls_real loss = 42;
    ls_error_clear();
    ck_assert_int_eq(ls_serial_forward(f->serial, batch, &loss), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), text) != NULL, "\"%s\" is not in \"%s\"", text,
                  ls_error_text());
    ck_assert(loss == 42); /* outputs untouched */
    ck_assert(ls_serial_logits(f->serial) == NULL);
    ls_error_clear();
    ck_assert_int_eq(ls_serial_backward(f->serial), LS_ERR_INPUT); /* nothing to go back from */
}

START_TEST(bad_batches_are_refused)
{
    tiny_ids ids, bad;
    ls_config config = tiny_base("refusals");
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch good = tiny_batch(&ids, config.vocab), batch = tiny_batch(&bad, config.vocab);
    ck_assert(ls_serial_logits(f.serial) == NULL); /* before any forward pass */
    ls_error_clear();
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_ERR_INPUT);

    bad.tokens[17] = 13; /* the vocabulary's size; a padded row of the table exists */
    expect_refusal(&f, &batch, "token 17 is 13: allowed are 0 to 12");
    bad.tokens[17] = -1; /* id -1 must not reach a table */
    expect_refusal(&f, &batch, "token 17 is -1");
    bad.tokens[17] = LS_IGNORE; /* for targets alone */
    expect_refusal(&f, &batch, "token 17 is -100");
    bad = ids;
    bad.targets[3] = 13; /* never a silent zero */
    expect_refusal(&f, &batch, "target 3 is 13");
    bad.targets[3] = -99;
    expect_refusal(&f, &batch, "target 3 is -99");
    bad = ids;
    batch.S = config.seq + 1;
    expect_refusal(&f, &batch, "sequences of 8 tokens: the model takes 1 to 7");
    batch.S = 0;
    expect_refusal(&f, &batch, "sequences of 0 tokens");
    batch.S = TINY_S;
    batch.B = 0;
    expect_refusal(&f, &batch, "batch of 0 sequences");
    batch.B = TINY_B;
    batch.first = 2;
    expect_refusal(&f, &batch, "begins with sequence 2");

    /* and the model is as good as before */
    fixture fresh = fixture_create(&config, LS_ENGINE_PORTABLE);
    ck_assert(same_bits(fixture_forward(&f, &good), fixture_forward(&fresh, &good)));
    fixture_destroy(&fresh);
    fixture_destroy(&f);
}
END_TEST

/* The caller's arrays may go once the forward pass has returned. */
START_TEST(backward_needs_no_batch)
{
    tiny_ids ids, gone;
    ls_config config = tiny_base("copies");
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    size_t n;
    ls_batch batch = tiny_batch(&ids, config.vocab), passing = tiny_batch(&gone, config.vocab);
    (void)fixture_gradients(&f, &batch);
    ls_real *expected = fixture_copy_gradients(&f, &n);
    (void)fixture_forward(&f, &passing);
    memset(&gone, 0x7f, sizeof gone);
    ck_assert_int_eq(ls_serial_backward(f.serial), LS_OK);
    ls_real *found = fixture_copy_gradients(&f, &n);
    ck_assert(memcmp(found, expected, n * sizeof *found) == 0);
    free(found);
    free(expected);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_batch", 60);
    tcase_add_loop_test(tc, all_ignored_gives_zeros, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tc, loss_is_a_mean_over_valid_targets, 0, N_TINY_SERIAL);
    tcase_add_test(tc, samples_of_11_and_101_tokens);
    tcase_add_loop_test(tc, sequences_in_another_order, 0, N_TINY_SERIAL);
    tcase_add_loop_test(tc, later_tokens_change_nothing, 0, N_TINY_SERIAL);
    tcase_add_test(tc, rows_without_tokens_get_nothing);
    tcase_add_test(tc, bad_batches_are_refused);
    tcase_add_test(tc, backward_needs_no_batch);
    return run_tests();
}
