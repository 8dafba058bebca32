/* test_serial_bert.c - padding, token types and the two losses of a masked-token model. That its
 * numbers are the formulas' and its gradients belong to them is tested with all other models. */
#include "serial/serial_fixture.h"
#include "run_tests.h"

static int same_bits(ls_real a, ls_real b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static ls_config bert(int post)
{
    return post ? tiny_bert("bert", LS_NORM_POST) : tiny_bert("bert-pre", LS_NORM_PRE);
}

/* Targets in padding go; nobody trains on it. */
static void no_targets_in_padding(tiny_ids *ids)
{
    for (size_t t = 0; t < TINY_TOKENS; t++)
        if ((int32_t)(t % TINY_S) >= ids->lengths[t / TINY_S]) ids->targets[t] = LS_IGNORE;
}

/* ---- padding ---- */

/* What stands in the padding changes nothing: not the loss, not a gradient, not another token's
 * logits; a token that is not padding does. */
START_TEST(padding_is_invisible)
{
    tiny_ids ids, changed;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config), other = tiny_batch_of(&changed, &config);
    const size_t Vp = ls_axis_extent(ls_config_vocab_axis(&config));
    no_targets_in_padding(&ids);
    ls_real loss = fixture_forward(&f, &batch);
    ls_real *logits = malloc(TINY_TOKENS * Vp * sizeof *logits);
    ck_assert_ptr_nonnull(logits);
    memcpy(logits, ls_serial_logits(f.serial), TINY_TOKENS * Vp * sizeof *logits);
    size_t n;
    (void)fixture_gradients(&f, &batch);
    ls_real *expected = fixture_copy_gradients(&f, &n);
    size_t padded = 0;
    for (size_t t = 0; t < TINY_TOKENS; t++) {
        const bool padding = (int32_t)(t % TINY_S) >= ids.lengths[t / TINY_S];
        changed = ids;
        changed.tokens[t] = (ids.tokens[t] + 1) % (int32_t)config.vocab;
        changed.segments[t] = (ids.segments[t] + 1) % 3;
        ls_real found = fixture_forward(&g, &other);
        ck_assert_int_eq(same_bits(found, loss), padding);
        for (size_t i = 0; padding && i < TINY_TOKENS; i++)
            ck_assert_int_eq(memcmp(ls_serial_logits(g.serial) + i * Vp, logits + i * Vp,
                                    config.vocab * sizeof *logits) == 0,
                             i != t);
        if (!padding) continue;
        padded++;
        (void)fixture_gradients(&g, &other);
        ls_real *gradients = fixture_copy_gradients(&g, &n);
        for (size_t i = 0; i < n; i++) ck_assert(gradients[i] == expected[i]); /* -0 is 0 */
        free(gradients);
    }
    ck_assert_uint_eq(padded, 7);
    free(expected);
    free(logits);
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* Sequences cut to their length give the logits that the padded ones give: masked terms are zeros
 * at their place, so a tree over more keys is another tree, and only rounding may differ. */
START_TEST(padded_like_cut)
{
    const double unit = sizeof(ls_real) == 4 ? ldexp(1, -24) : ldexp(1, -53);
    tiny_ids ids, cut;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    fixture g = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config), other = tiny_batch_of(&cut, &config);
    const size_t Vp = ls_axis_extent(ls_config_vocab_axis(&config));
    batch.training = other.training = false;
    (void)fixture_forward(&f, &batch);
    for (size_t b = 0; b < TINY_B; b++) {
        const size_t S = (size_t)ids.lengths[b];
        memcpy(cut.tokens, ids.tokens + b * TINY_S, S * sizeof(int32_t));
        memcpy(cut.targets, ids.targets + b * TINY_S, S * sizeof(int32_t));
        memcpy(cut.segments, ids.segments + b * TINY_S, S * sizeof(int32_t));
        cut.order[0] = ids.order[b];
        other.B = 1;
        other.S = S;
        other.lengths = NULL;
        (void)fixture_forward(&g, &other);
        for (size_t s = 0; s < S; s++)
            for (size_t v = 0; v < config.vocab; v++) {
                double a = (double)ls_serial_logits(f.serial)[(b * TINY_S + s) * Vp + v];
                double c = (double)ls_serial_logits(g.serial)[s * Vp + v];
                ck_assert(fabs(a - c) <= 64 * unit);
            }
    }
    fixture_destroy(&g);
    fixture_destroy(&f);
}
END_TEST

/* A sequence of nothing but padding: its attention gives zeros, no NaN; also when all are. */
START_TEST(nothing_but_padding)
{
    tiny_ids ids;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    for (size_t empty = 1; empty <= TINY_B; empty++) {
        ids.lengths[empty - 1] = 0;
        ls_real loss = fixture_gradients(&f, &batch);
        ck_assert(isfinite(loss) && loss > 0);
        size_t n;
        ls_real *gradients = fixture_copy_gradients(&f, &n);
        for (size_t i = 0; i < n; i++) ck_assert(isfinite(gradients[i]));
        free(gradients);
    }
    const ls_slot *value = ls_store_slot(f.store, LS_VALUE_WEIGHT, 1);
    for (size_t e = 0; e < value->rows * value->cols; e++) ck_assert(value->grad[0][e] == 0);
    fixture_destroy(&f);
}
END_TEST

/* No lengths are full lengths, no types are type 0: the same bits. Rows of types that no token has
 * get exactly +0. */
START_TEST(what_is_not_given)
{
    tiny_ids ids;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config), bare = batch;
    for (size_t b = 0; b < TINY_B; b++) ids.lengths[b] = TINY_S;
    memset(ids.segments, 0, sizeof ids.segments);
    bare.lengths = NULL;
    bare.segments = NULL;
    size_t n;
    ls_real loss = fixture_gradients(&f, &batch);
    ls_real *expected = fixture_copy_gradients(&f, &n);
    ck_assert(same_bits(fixture_gradients(&f, &bare), loss));
    ls_real *found = fixture_copy_gradients(&f, &n);
    ck_assert(memcmp(found, expected, n * sizeof *found) == 0);
    const ls_slot *type = ls_store_slot(f.store, LS_TYPE_EMBEDDING, 0);
    for (size_t e = 0; e < type->rows * type->cols; e++)
        ck_assert(e < type->cols ? type->grad[0][e] != 0 : same_bits(type->grad[0][e], (ls_real)0));
    free(found);
    free(expected);
    fixture_destroy(&f);
}
END_TEST

/* ---- two losses ---- */

static void losses_of(const fixture *f, const ls_batch *batch, double *loss, double *token,
                      double *order)
{
    ls_real a = (ls_real)NAN, b = (ls_real)NAN, both = fixture_forward(f, batch);
    ls_serial_losses(f->serial, &a, &b);
    ck_assert(same_bits(both, a + b));
    *loss = (double)both, *token = (double)a, *order = (double)b;
}

/* Each loss is a mean over its own labels; a loss without labels is 0 and leaves the other as it
 * is. In a mean over the targets of both, 3 labels beside 15 targets would weigh 1/18 each. */
START_TEST(each_loss_has_its_own_count)
{
    tiny_ids ids;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    const int32_t labels[TINY_B] = {1, 0, LS_IGNORE, 0};
    double loss, token, order, alone, none, sum = 0;
    losses_of(&f, &batch, &loss, &token, &order);
    ck_assert(token > 0 && order > 0);
    for (size_t b = 0; b < TINY_B; b++) {
        for (size_t i = 0; i < TINY_B; i++) ids.order[i] = i == b ? labels[i] : LS_IGNORE;
        losses_of(&f, &batch, &loss, &none, &alone);
        ck_assert(none == token);
        ck_assert((alone > 0) == (labels[b] != LS_IGNORE)); /* no label: exactly 0 */
        sum += alone;
        if (labels[b] == LS_IGNORE) continue;
        ids.order[b] = 1 - labels[b]; /* the two choices are all there is */
        double opposite;
        losses_of(&f, &batch, &loss, &none, &opposite);
        ck_assert(fabs(exp(-alone) + exp(-opposite) - 1) < 1e-6);
    }
    ck_assert(fabs(sum / 3 - order) < 1e-6 * order);
    batch.order = NULL;
    losses_of(&f, &batch, &loss, &none, &alone);
    ck_assert(none == token && alone == 0);

    memcpy(ids.order, labels, sizeof labels);
    batch.order = ids.order;
    for (size_t t = 0; t < TINY_TOKENS; t++) ids.targets[t] = LS_IGNORE;
    losses_of(&f, &batch, &loss, &none, &alone);
    ck_assert(none == 0 && alone == order);
    fixture_destroy(&f);
}
END_TEST

static bool of_order_head(ls_role role)
{
    return role >= LS_POOLER_WEIGHT && role <= LS_ORDER_BIAS;
}

static bool of_masked_head(ls_role role)
{
    return role >= LS_MASKED_DENSE_WEIGHT && role <= LS_VOCAB_BIAS;
}

/* A head whose loss has no label gets gradients of exactly +0, even where its parameters or what
 * they meet is not finite (rule 15), and the model below it gets the other head's alone. */
START_TEST(a_head_without_labels_learns_nothing)
{
    static const ls_real zero = 0;
    tiny_ids ids;
    ls_config config = bert(_i);
    for (int silent = 0; silent < 2; silent++) { /* 0: no target, 1: no order label */
        fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
        ls_batch batch = tiny_batch_of(&ids, &config);
        if (silent == 0)
            for (size_t t = 0; t < TINY_TOKENS; t++) ids.targets[t] = LS_IGNORE;
        else
            for (size_t b = 0; b < TINY_B; b++) ids.order[b] = LS_IGNORE;
        ls_role spoiled = silent == 0 ? LS_MASKED_DENSE_WEIGHT : LS_POOLER_WEIGHT;
        ls_store_slot(f.store, spoiled, 0)->value[5] = (ls_real)INFINITY;
        (void)fixture_gradients(&f, &batch);
        for (size_t i = 0; i < f.table->count; i++) {
            const ls_role role = f.table->params[i].role;
            bool nothing = silent == 0 ? of_masked_head(role) : of_order_head(role), some = false;
            for (size_t e = 0; e < fixture_slot_elements(&f, i); e++) {
                ls_real g = f.store->slots[i].grad[0][e];
                ck_assert(isfinite(g));
                if (nothing) ck_assert(same_bits(g, zero));
                some = some || g != 0;
            }
            ck_assert_msg(some != nothing || role == LS_KEY_BIAS, "%s", f.table->params[i].name);
        }
        const ls_slot *token = ls_store_slot(f.store, LS_TOKEN_EMBEDDING, 0);
        for (size_t e = 0; silent == 0 && e < token->rows * token->cols; e++)
            ck_assert(same_bits(token->grad[1][e], zero)); /* the use as the head */
        fixture_destroy(&f);
    }
}
END_TEST

/* The gradient is the sum of what each loss gives alone. */
START_TEST(gradients_add_up)
{
    const double unit = sizeof(ls_real) == 4 ? ldexp(1, -24) : ldexp(1, -53);
    tiny_ids ids, less;
    ls_config config = bert(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config), part = tiny_batch_of(&less, &config);
    size_t n;
    (void)fixture_gradients(&f, &batch);
    ls_real *both = fixture_copy_gradients(&f, &n);
    part.order = NULL;
    (void)fixture_gradients(&f, &part);
    ls_real *token = fixture_copy_gradients(&f, &n);
    part.order = less.order;
    for (size_t t = 0; t < TINY_TOKENS; t++) less.targets[t] = LS_IGNORE;
    (void)fixture_gradients(&f, &part);
    ls_real *order = fixture_copy_gradients(&f, &n);
    for (size_t i = 0; i < n; i++)
        ck_assert(fabs((double)both[i] - ((double)token[i] + (double)order[i])) <= 64 * unit);
    free(order);
    free(token);
    free(both);
    fixture_destroy(&f);
}
END_TEST

/* ---- the order of sums over sequences ---- */

/* The bias of the order head sums over sequences, T over them (rule 9): seven of them, by hand from
 * the logits. */
START_TEST(sums_over_sequences_are_trees)
{
    enum { B = 7, S = 3 };
    int32_t tokens[B * S], targets[B * S], order[B];
    ls_config config = bert(_i);
    config.dropout = 0;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    for (int t = 0; t < B * S; t++) tokens[t] = t * 5 % 13, targets[t] = t % 13;
    for (int b = 0; b < B; b++) order[b] = b % 3 == 1;
    ls_batch batch = {.B = B, .S = S, .tokens = tokens, .targets = targets, .order = order};
    ls_real term[B], total[2];
    (void)fixture_gradients(&f, &batch);
    const ls_real *found = ls_store_slot(f.store, LS_ORDER_BIAS, 0)->grad[0];
    total[0] = found[0], total[1] = found[1];
    /* A sequence alone has a count of 1; the factor 1/7 comes last in each term. */
    for (int b = 0; b < B; b++) {
        batch.B = 1;
        batch.tokens = tokens + b * S;
        batch.targets = targets + b * S;
        batch.order = order + b;
        (void)fixture_gradients(&f, &batch);
        term[b] = ls_store_slot(f.store, LS_ORDER_BIAS, 0)->grad[0][0] * ((ls_real)1 / (ls_real)7);
    }
    ck_assert(same_bits(total[0], reference_tree(term, B)));
    ls_real running = 0;
    for (int b = 0; b < B; b++) running += term[b];
    ck_assert(fabs((double)running - (double)total[0]) < 1e-6);
    fixture_destroy(&f);
}
END_TEST

/* ---- bad input ---- */

static void expect_refusal(const fixture *f, const ls_batch *batch, const char *text)
{
    ls_real loss = 42;
    ls_error_clear();
    ck_assert_int_eq(ls_serial_forward(f->serial, batch, &loss), LS_ERR_INPUT);
    ck_assert_msg(strstr(ls_error_text(), text) != NULL, "\"%s\" is not in \"%s\"", text,
                  ls_error_text());
    ck_assert(loss == 42);
}

START_TEST(bad_batches_are_refused)
{
    tiny_ids ids, bad;
    ls_config config = bert(1);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch good = tiny_batch_of(&ids, &config), batch = tiny_batch_of(&bad, &config);
    ls_real loss = fixture_forward(&f, &good);
    bad.segments[11] = 3; /* three types: 0 to 2 */
    expect_refusal(&f, &batch, "token type 11 is 3: allowed are 0 to 2");
    bad.segments[11] = -1;
    expect_refusal(&f, &batch, "token type 11 is -1");
    bad = ids;
    bad.lengths[2] = TINY_S + 1;
    expect_refusal(&f, &batch, "length 2 is 6: allowed are 0 to 5");
    bad.lengths[2] = -1;
    expect_refusal(&f, &batch, "length 2 is -1");
    bad = ids;
    bad.order[3] = 2;
    expect_refusal(&f, &batch, "order label 3 is 2: allowed are 0 to 1 and -100");
    ck_assert(same_bits(fixture_forward(&f, &good), loss));
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tc = test_case("serial_bert", 60);
    tcase_add_loop_test(tc, padding_is_invisible, 0, 2);
    tcase_add_loop_test(tc, padded_like_cut, 0, 2);
    tcase_add_loop_test(tc, nothing_but_padding, 0, 2);
    tcase_add_loop_test(tc, what_is_not_given, 0, 2);
    tcase_add_loop_test(tc, each_loss_has_its_own_count, 0, 2);
    tcase_add_loop_test(tc, a_head_without_labels_learns_nothing, 0, 2);
    tcase_add_loop_test(tc, gradients_add_up, 0, 2);
    tcase_add_loop_test(tc, sums_over_sequences_are_trees, 0, 2);
    tcase_add_test(tc, bad_batches_are_refused);
    return run_tests();
}
