/* A whole model as stages on the ranks of a group: the serial loss, gradients and norm on every
 * rank of every degree (ORDERED), in groups of any ranks; and ids outside the vocabulary, which are
 * an error on all ranks. */
#include <stdio.h>

#include "stage_fixture.h"
#include "run_tests.h"

/* Noise for all parameters, some targets ignored, dropout on: loss, every gradient that a rank
 * holds - its own shards, its replicas, its padded rows - and the squared norm have the serial
 * bits. */
START_TEST(every_degree_is_serial)
{
    tiny_ids ids;
    ls_config config = parallel_config((size_t)_i / 2);
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch batch = tiny_batch_of(&ids, &config);
    double *values = fixture_noise(f.table), squares = (double)NAN;
    ls_real loss = fixture_gradients(&f, &batch);
    ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
    ck_assert(loss > 0 && squares > 0);
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        int tp = legal_degrees[i];
        pass p = {
            .table = f.table, .setup = whole_model(&config), .values = values, .batch = &batch};
        p.setup.gathered_loss = _i % 2;
        run_ranks(tp, pass_rank, &p);
        for (int r = 0; r < tp; r++) {
            ck_same(&p.loss[r], &loss, 1, "loss", tp);
            ck_assert_msg(memcmp(&p.squares[r], &squares, sizeof squares) == 0,
                          "%s, tp %d, rank %d: squared norm %a, serial %a", config.name, tp, r,
                          p.squares[r], squares);
            for (size_t k = 0; k < f.table->count; k++) {
                const ls_slot *part = &p.store[r]->slots[k], *whole = &f.store->slots[k];
                ck_slice(&f.table->params[k], part, part->grad[0], whole, whole->grad[0],
                         "gradient", tp, r);
            }
        }
        pass_end(&p);
    }
    free(values);
    fixture_destroy(&f);
}
END_TEST

/* ---- groups of any ranks ---- */

/* Two models side by side on four ranks; which rank belongs to which is the case's. */
typedef struct side_by_side {
    const ls_param_table *table;
    const double *values[2];
    const ls_batch *batch[2];
    int color[4], key[4];
    ls_real loss[4];
    double squares[4];
} side_by_side;

static ls_status side_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    side_by_side *s = argument;
    int r = ls_rank_index(rank), color = s->color[r];
    ls_group *tp;
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(ls_group_split(ls_rank_world_group(rank), color, s->key[r], color ? "B" : "A", &tp));
    ls_layout layout = tp_layout(ls_group_size(tp));
    LS_TRY(model_begin(&m, tp, s->table, whole_model(&s->table->config), s->values[color]));
    LS_TRY(model_gradients(&m, s->batch[color], &s->loss[r]));
    LS_TRY(ls_shared_squares(tp, &layout, m.store, m.temporary, &s->squares[r]));
exit:
    model_end(&m, NULL);
    return status;
}

/* Groups {0, 2} and {1, 3}, {2, 3} beside {0, 1}, and one turned round: every collective goes over
 * the group that was given, not over the world nor over the first ranks, and roots and shards are
 * counted inside it. */
START_TEST(groups_of_any_ranks)
{
    static const struct {
        int color[4], key[4];
    } cases[] = {
        {{0, 1, 0, 1}, {0, 0, 0, 0}}, {{1, 1, 0, 0}, {0, 0, 0, 0}}, {{0, 1, 1, 0}, {5, 1, 0, 2}}};
    tiny_ids ids[2];
    ls_config config = parallel_config(8); /* 6 kv heads */
    config.layers = 1;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    side_by_side s = {.table = f.table};
    ls_batch batch[2];
    ls_real loss[2];
    double squares[2], *values[2];
    for (int side = 0; side < 2; side++) {
        batch[side] = tiny_batch(&ids[side], config.vocab);
        values[side] = fixture_noise(f.table);
        if (side == 1) { /* another model and another batch */
            size_t n = ls_param_table_elements(f.table);
            for (size_t e = 0; e < n; e++) values[1][e] = -values[0][n - 1 - e];
            for (size_t t = 0; t < TINY_TOKENS; t++) ids[1].tokens[t] = 299 - ids[0].tokens[t];
            batch[1].seed++;
        }
        fixture_set(&f, values[side]);
        loss[side] = fixture_gradients(&f, &batch[side]);
        ck_assert_int_eq(ls_serial_squares(f.serial, &squares[side]), LS_OK);
        s.values[side] = values[side];
        s.batch[side] = &batch[side];
    }
    ck_assert(loss[0] != loss[1]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(s.color, cases[i].color, sizeof s.color);
        memcpy(s.key, cases[i].key, sizeof s.key);
        run_ranks(4, side_rank, &s);
        for (int r = 0; r < 4; r++) {
            ck_assert_msg(memcmp(&s.loss[r], &loss[s.color[r]], sizeof loss[0]) == 0,
                          "case %zu, rank %d: loss %a, right is %a", i, r, (double)s.loss[r],
                          (double)loss[s.color[r]]);
            ck_assert(memcmp(&s.squares[r], &squares[s.color[r]], sizeof squares[0]) == 0);
        }
    }
    free(values[0]), free(values[1]);
    fixture_destroy(&f);
}
END_TEST

/* ---- ids outside the vocabulary ---- */

typedef struct refusal {
    const ls_param_table *table;
    const double *values;
    const ls_batch *bad, *good;
    bool gathered;
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
    setup.gathered_loss = f->gathered;
    LS_TRY(model_begin(&m, ls_rank_world_group(rank), f->table, setup, f->values));
    f->seen[r] = ls_stage_forward(m.stage, m.micro_batch, f->bad, NULL, NULL);
    snprintf(f->text[r], sizeof f->text[r], "%s", ls_error_text());
    ls_error_clear();
    LS_TRY(model_gradients(&m, f->good, &f->loss[r]));
exit:
    model_end(&m, NULL);
    return status;
}

/* -1, the size of the vocabulary, the number of a padded row and anything beyond: every rank gets
 * the error, whichever rank would own the row, and the model is as good as before. */
START_TEST(ids_outside_the_vocabulary)
{
    static const struct {
        int target; /* else a token */
        int32_t id;
        const char *text;
    } cases[] = {{0, -1, "token 7 is -1"},
                 {0, 300, "token 7 is 300: allowed are 0 to 299"},
                 {0, 383, "token 7 is 383"}, /* a padded row of the table */
                 {0, 384, "token 7 is 384"},
                 {0, LS_IGNORE, "token 7 is -100"}, /* for targets alone */
                 {1, -1, "target 7 is -1"},
                 {1, 300, "target 7 is 300: allowed are 0 to 299 and -100"},
                 {1, 383, "target 7 is 383"},
                 {1, -99, "target 7 is -99"},
                 {1, INT32_MAX, "target 7 is 2147483647"}};
    tiny_ids ids, bad;
    ls_config config = parallel_config(0);
    config.layers = 1;
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_batch good = tiny_batch(&ids, config.vocab), batch = tiny_batch(&bad, config.vocab);
    double *values = fixture_noise(f.table);
    ls_real loss = fixture_forward(&f, &good);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bad = ids;
        (cases[i].target ? bad.targets : bad.tokens)[7] = cases[i].id;
        for (int d = 0; d < LEGAL_DEGREES; d++) {
            int tp = legal_degrees[d];
            refusal x = {.table = f.table,
                         .values = values,
                         .bad = &batch,
                         .good = &good,
                         .gathered = (i + (size_t)d) % 2};
            run_ranks(tp, refusal_rank, &x);
            for (int r = 0; r < tp; r++) {
                ck_assert_msg(x.seen[r] == LS_ERR_INPUT, "id %d, tp %d, rank %d: status %d",
                              cases[i].id, tp, r, (int)x.seen[r]);
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
    TCase *tests = test_case("stage", 60);
    tcase_add_loop_test(tests, every_degree_is_serial, 0, 2 * N_TINY_SERIAL);
    tcase_add_test(tests, groups_of_any_ranks);
    tcase_add_test(tests, ids_outside_the_vocabulary);
    return run_tests();
}
