/* What a masked-token model reads beside tokens and targets, on every rank of every degree: padding
 * that nobody sees, whichever rank has it; and arrays that are wrong, which are an error on all
 * ranks. */
#include <stdio.h>

#include "stage_fixture.h"
#include "run_tests.h"

static ls_config config_of(int pre)
{
    ls_config config = parallel_config(pre ? 10 : 9);
    ck_assert_int_eq(config.norm_place, pre ? LS_NORM_PRE : LS_NORM_POST);
    return config;
}

static void ck_all_equal(const pass *p, const pass *q, const ls_param_table *table, int tp)
{
    for (int r = 0; r < tp; r++) {
        ck_same(&q->loss[r], &p->loss[r], 1, "loss", tp);
        for (size_t k = 0; k < table->count; k++) {
            const ls_slot *a = &p->store[r]->slots[k], *b = &q->store[r]->slots[k];
            for (size_t e = 0; e < a->rows * a->cols; e++) /* as numbers: -0 is 0 */
                ck_assert_msg(a->grad[0][e] == b->grad[0][e], "%s, tp %d, rank %d, element %zu",
                              table->params[k].name, tp, r, e);
        }
    }
}

/* All padding changed at once, tokens and types: same loss, same gradients. With a token that is
 * seen changed too, another loss. */
START_TEST(padding_is_invisible)
{
    tiny_ids ids, changed;
    ls_config config = config_of(_i);
    ls_param_table *table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    ls_batch batch = tiny_batch_of(&ids, &config), other = tiny_batch_of(&changed, &config);
    for (size_t t = 0; t < TINY_TOKENS; t++)
        if ((int32_t)(t % TINY_S) >= ids.lengths[t / TINY_S]) ids.targets[t] = LS_IGNORE;
    changed = ids;
    for (size_t t = 0; t < TINY_TOKENS; t++)
        if ((int32_t)(t % TINY_S) >= ids.lengths[t / TINY_S]) {
            changed.tokens[t] = (ids.tokens[t] + 1 + (int32_t)t) % (int32_t)config.vocab;
            changed.segments[t] = (ids.segments[t] + 1) % 3;
        }
    for (int i = 0; i < 2 * LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i / 2];
        pass p = {.table = table, .setup = whole_model(&config), .values = values, .batch = &batch};
        p.setup.sequence_parallel = i % 2;
        p.setup.recompute = (ls_recompute)(i % 4);
        pass q = p, seen = p;
        int32_t saved = changed.tokens[2];
        q.batch = seen.batch = &other;
        run_ranks(tp, pass_rank, &p);
        run_ranks(tp, pass_rank, &q);
        ck_all_equal(&p, &q, table, tp);
        changed.tokens[2] = (saved + 1) % (int32_t)config.vocab;
        run_ranks(tp, pass_rank, &seen);
        changed.tokens[2] = saved;
        for (int r = 0; r < tp; r++) ck_assert(seen.loss[r] != p.loss[r]);
        pass_end(&p), pass_end(&q), pass_end(&seen);
    }
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

/* A sequence of nothing but padding, and a batch of nothing else: numbers, no NaN, and the serial
 * ones. */
START_TEST(nothing_but_padding)
{
    tiny_ids ids;
    ls_config config = config_of(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    double *values = fixture_noise(f.table);
    for (int all = 0; all < 2; all++) {
        for (size_t b = 0; b < TINY_B; b++)
            if (all || b == 1) ids.lengths[b] = 0;
        ls_real loss = fixture_gradients(&f, &batch);
        ck_assert(isfinite(loss) && loss > 0);
        for (int i = 0; i < 2 * LEGAL_DEGREES; i++) {
            int tp = legal_degrees[i / 2];
            pass p = {
                .table = f.table, .setup = whole_model(&config), .values = values, .batch = &batch};
            p.setup.sequence_parallel = i % 2;
            run_ranks(tp, pass_rank, &p);
            for (int r = 0; r < tp; r++) {
                ck_same(&p.loss[r], &loss, 1, "loss", tp);
                for (size_t k = 0; k < f.table->count; k++) {
                    const ls_slot *part = &p.store[r]->slots[k], *whole = &f.store->slots[k];
                    ck_slice(&f.table->params[k], part, part->grad[0], whole, whole->grad[0],
                             "gradient", tp, r);
                }
            }
            pass_end(&p);
        }
    }
    free(values);
    fixture_destroy(&f);
}
END_TEST

/* ---- arrays that are wrong ---- */

typedef struct refusal {
    const ls_param_table *table;
    const double *values;
    const ls_batch *bad, *good;
    ls_status seen[MOST_RANKS];
    char text[MOST_RANKS][200];
    ls_real loss[MOST_RANKS]; /* of the good batch, afterwards */
} refusal;

static ls_status refusal_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    refusal *f = argument;
    int r = ls_rank_index(rank);
    ls_stage_setup setup = whole_model(&f->table->config);
    model m = {NULL, NULL, NULL, NULL};
    setup.sequence_parallel = ls_rank_world_size(rank) % 2 == 0;
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), f->table, setup, f->values));
    f->seen[r] = ls_stage_forward(m.stage, m.micro_batch, f->bad, NULL, NULL);
    snprintf(f->text[r], sizeof f->text[r], "%s", ls_error_text());
    ls_error_clear();
    LS_TRY(model_gradients(&m, f->good, &f->loss[r]));
exit:
    model_end(&m, NULL);
    return status;
}

/* Types, lengths and labels that are none: every rank gets the error, whichever has the token, and
 * the model is as good as before. */
START_TEST(wrong_on_every_rank)
{
    enum { TYPE, LENGTH, LABEL };
    static const struct {
        int array;
        int32_t value;
        const char *text;
    } cases[] = {{TYPE, -1, "token type 2 is -1"},
                 {TYPE, 3, "token type 2 is 3: allowed are 0 to 2"},
                 {TYPE, LS_IGNORE, "token type 2 is -100"},
                 {LENGTH, -1, "length 2 is -1"},
                 {LENGTH, TINY_S + 1, "length 2 is 6: allowed are 0 to 5"},
                 {LABEL, 2, "order label 2 is 2: allowed are 0 to 1 and -100"},
                 {LABEL, -1, "order label 2 is -1"}};
    static const int degrees[] = {1, 3, 12};
    tiny_ids ids, bad;
    ls_config config = config_of(_i);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch good = tiny_batch_of(&ids, &config), batch = tiny_batch_of(&bad, &config);
    double *values = fixture_noise(f.table);
    ls_real loss = fixture_forward(&f, &good);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bad = ids;
        int32_t *arrays[] = {bad.segments, bad.lengths, bad.order};
        arrays[cases[i].array][2] = cases[i].value;
        for (int d = 0; d < 3; d++) {
            int tp = degrees[d];
            refusal x = {.table = f.table, .values = values, .bad = &batch, .good = &good};
            run_ranks(tp, refusal_rank, &x);
            for (int r = 0; r < tp; r++) {
                ck_assert_int_eq(x.seen[r], LS_ERR_INPUT);
                ck_assert_msg(strstr(x.text[r], cases[i].text) != NULL, "tp %d, rank %d: %s", tp, r,
                              x.text[r]);
                ck_same(&x.loss[r], &loss, 1, "loss", tp);
            }
        }
    }
    free(values);
    fixture_destroy(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("batches", 60);
    tcase_add_loop_test(tests, padding_is_invisible, 0, 2);
    tcase_add_loop_test(tests, nothing_but_padding, 0, 2);
    tcase_add_loop_test(tests, wrong_on_every_rank, 0, 2);
    return run_tests();
}
