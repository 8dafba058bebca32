/* What several ranks hold is the same bits on all of them: from the start, after many steps, when
 * it is saved; and where it is not, that is said. */
#include "lockstep/model/text.h"
#include "lockstep/parallel/data/replicas.h"
#include "parallel/stage_fixture.h"
#include "train/gather.h"
#include "train/run_fixture.h"
#include "run_tests.h"

/* GPT-2's choices with 4 kv heads: at tp 6 and 12 they are shared. */
static ls_config grouped_config(void)
{
    ls_config config = parallel_config(0);
    config.layers = 1;
    config.kv_heads = 4;
    return config;
}

/* ---- many steps ---- */

typedef struct training {
    const ls_param_table *table;
    const ls_text *text;
    uint32_t steps;
    ls_store *store[MOST_RANKS];
} training;

static ls_update update_of(uint32_t step)
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

static ls_batch batch_of(const ls_text *text, uint32_t step, int32_t *tokens, int32_t *targets)
{
    ls_batch batch = {.B = TINY_B,
                      .S = TINY_S,
                      .tokens = tokens,
                      .targets = targets,
                      .seed = 21,
                      .step = step,
                      .training = true};
    ls_text_batch(text, batch.seed, step, 0, TINY_B, TINY_S, tokens, targets);
    return batch;
}

static ls_status training_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    training *t = argument;
    ls_group *tp = ls_rank_world_group(rank);
    ls_layout layout = tp_layout(ls_group_size(tp));
    int32_t tokens[TINY_TOKENS], targets[TINY_TOKENS];
    double *zeros = calloc(ls_param_table_elements(t->table), sizeof *zeros), squares;
    model m = {NULL, NULL, NULL, NULL};
    ls_real loss;
    LS_TRY(model_begin(&m, tp, t->table, whole_model(&t->table->config), zeros));
    ls_store_init(m.store, 21);
    for (uint32_t step = 0; step < t->steps; step++) {
        ls_batch batch = batch_of(t->text, step, tokens, targets);
        ls_update update = update_of(step);
        LS_TRY(model_gradients(&m, &batch, &loss));
        LS_TRY(ls_shared_squares(tp, &layout, m.store, m.temporary, &squares));
        ls_shard_update(m.store, &update, squares, 0.5);
    }
exit:
    free(zeros);
    model_end(&m, &t->store[ls_rank_index(rank)]);
    return status;
}

/* No step, and 100 of them with dropout and clipping: every copy on every rank, values and
 * optimizer state, and every shard, is that of the serial model. */
START_TEST(hundred_steps)
{
    static const int degrees[] = {4, 6};
    ls_config config = grouped_config();
    ls_text text = fixture_text();
    training t = {.text = &text, .steps = _i ? 100 : 0};
    int32_t tokens[TINY_TOKENS], targets[TINY_TOKENS];
    fixture f = fixture_create(&config, LS_ENGINE_PORTABLE);
    ls_store_init(f.store, 21);
    for (uint32_t step = 0; step < t.steps; step++) {
        ls_batch batch = batch_of(&text, step, tokens, targets);
        ls_update update = update_of(step);
        double squares;
        (void)fixture_gradients(&f, &batch);
        ck_assert_int_eq(ls_serial_squares(f.serial, &squares), LS_OK);
        ck_assert(step > 20 || squares > 0.25); /* there is something to clip */
        ls_serial_update(f.serial, &update, squares, 0.5);
    }
    t.table = f.table;
    for (int i = 0; i < 2; i++) {
        run_ranks(degrees[i], training_rank, &t);
        for (int r = 0; r < degrees[i]; r++) {
            for (size_t k = 0; k < f.table->count; k++) {
                const ls_slot *part = &t.store[r]->slots[k], *whole = &f.store->slots[k];
                const ls_param *param = &f.table->params[k];
                ck_slice(param, part, part->value, whole, whole->value, "value", degrees[i], r);
                ck_slice(param, part, part->m, whole, whole->m, "m", degrees[i], r);
                ck_slice(param, part, part->v, whole, whole->v, "v", degrees[i], r);
            }
            ls_store_destroy(&t.store[r]);
        }
    }
    fixture_destroy(&f);
}
END_TEST

/* ---- a replica that has drifted ---- */

typedef struct drift {
    const ls_param_table *table;
    const double *values;
    size_t param; /* all are brought together; this one has drifted */
    int rank;
    bool sign_of_zero; /* the smallest difference there is: a -0 for a +0 */
    bool wrong;        /* what came together on rank 0 is not what it should be */
} drift;

static ls_status drift_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    drift *d = argument;
    ls_group *tp = ls_rank_world_group(rank);
    ls_layout layout = tp_layout(ls_group_size(tp));
    int r = ls_rank_index(rank);
    size_t n = ls_param_table_elements(d->table), at = 0;
    ls_real *whole = malloc(n * sizeof *whole);
    ls_store *store = NULL;
    ls_arena *arena = NULL;
    LS_TRY(ls_arena_create(&arena, NULL, LS_MEM_TEMPORARY));
    LS_TRY(store_begin(&store, d->table, ls_group_size(tp), r, d->values));
    if (r == d->rank) {
        ls_slot *slot = &store->slots[d->param];
        ls_real *x = &slot->value[slot->rows * slot->cols - 1];
        *x = d->sign_of_zero ? (ls_real)-0.0 : *x * (ls_real)1.000001;
    }
    for (size_t i = 0; i < d->table->count; i++) {
        const ls_param *param = &d->table->params[i];
        LS_TRY(ls_gather_param(tp, &layout, d->table, i, LS_REAL_DTYPE, "value",
                               store->slots[i].value, whole, arena));
        for (size_t e = 0; r == 0 && e < ls_param_elements(param); e++, at++)
            d->wrong |= i != d->param && whole[e] != (ls_real)d->values[at];
    }
exit:
    free(whole);
    ls_store_destroy(&store);
    ls_arena_destroy(&arena);
    return status;
}

/* Which ranks the text must name when rank r has drifted: it and one that holds the same, the one
 * before it unless it is the first. -1: nobody else holds it. */
static int first_of_pair(const ls_param_table *table, size_t param, int tp, int r)
{
    ls_shard own = ls_shard_of(&table->config, table->params[param].kind, tp, r);
    size_t last = own.first + own.count - 1; /* the granule that has drifted */
    for (int other = r - 1; other <= r + 1; other += 2) {
        if (other < 0 || other >= tp) continue;
        ls_shard shard = ls_shard_of(&table->config, table->params[param].kind, tp, other);
        if (shard.first <= last && last < shard.first + shard.count) return other < r ? other : r;
    }
    return -1;
}

START_TEST(drift_is_reported)
{
    static const int degrees[] = {2, 3, 6, 12};
    static const ls_role roles[] = {LS_NORM1_SCALE,  LS_ATTN_OUT_BIAS, LS_POSITION_EMBEDDING,
                                    LS_KEY_WEIGHT,   LS_VALUE_BIAS,    LS_FINAL_NORM_SHIFT,
                                    LS_QUERY_WEIGHT, LS_MLP_DOWN_BIAS, LS_MLP_UP_BIAS};
    ls_config config = grouped_config();
    ls_param_table *table;
    size_t reported = 0, silent = 0;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    double *values = fixture_noise(table);
    for (int i = 0; i < 4; i++)
        for (size_t k = 0; k < sizeof roles / sizeof roles[0]; k++)
            for (int r = 0; r < degrees[i]; r++) {
                int tp = degrees[i];
                size_t param = ls_param_find(table, roles[k], 0);
                drift d = {table, values, param, r, r % 2 == 0, false};
                if (d.sign_of_zero) /* the drifted element is +0 elsewhere */
                    for (size_t e = 0; e < ls_param_elements(&table->params[param]); e++)
                        values[place_in_table(table, param) + e] = 0;
                ls_error_clear();
                ls_status status = ls_world_run(tp, NULL, drift_rank, &d);
                int first = first_of_pair(table, param, tp, r);
                char text[300];
                snprintf(text, sizeof text,
                         "rank 0: the value of %s is not the same on ranks %d and %d, which both "
                         "hold it",
                         table->params[param].name, first, first + 1);
                if (first >= 0) {
                    ck_assert_msg(status == LS_ERR_RANK, "%s, tp %d, rank %d: status %d",
                                  table->params[param].name, tp, r, (int)status);
                    ck_assert_str_eq(ls_error_text(), text);
                } else {
                    ck_assert_msg(status == LS_OK, "tp %d, rank %d: %s", tp, r, ls_error_text());
                    ck_assert(!d.wrong);
                }
                reported += first >= 0, silent += first < 0;
                if (d.sign_of_zero) {
                    free(values);
                    values = fixture_noise(table);
                }
            }
    ck_assert(reported > 100 && silent > 30);
    free(values);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- ranks fed differently ---- */

typedef struct feed {
    const float *x[3];
    size_t count[3];
    ls_status seen[3];
    char text[3][160];
} feed;

static ls_status feed_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    feed *f = argument;
    int r = ls_rank_index(rank);
    ls_group *tp;
    LS_TRY(ls_group_split(ls_rank_world_group(rank), 0, r, "tp", &tp));
    f->seen[r] = ls_replicas_check(tp, LS_F32, f->x[r], f->count[r], "inputs");
    snprintf(f->text[r], sizeof f->text[r], "%s", ls_error_text());
exit:
    return status;
}

/* [1, 2] on one rank and [1, 3] on another are refused, on all, by name; so are other lengths and
 * signs of zero. */
START_TEST(inputs_must_be_replicated)
{
    static const float one[] = {1, 2}, other[] = {1, 3}, zero[] = {0, 2}, minus[] = {-0.0f, 2};
    static const struct {
        feed f;
        int differs; /* first rank that differs from rank 0; 0: none */
    } cases[] = {{{.x = {one, one, one}, .count = {2, 2, 2}}, 0},
                 {{.x = {one, other, one}, .count = {2, 2, 2}}, 1},
                 {{.x = {one, one, other}, .count = {2, 2, 2}}, 2},
                 {{.x = {other, one, one}, .count = {2, 2, 2}}, 1},
                 {{.x = {one, one, one}, .count = {2, 2, 1}}, 2},
                 {{.x = {zero, zero, minus}, .count = {2, 2, 2}}, 2},
                 {{.x = {one, other, other}, .count = {0, 0, 0}}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        feed f = cases[i].f;
        char text[160];
        run_ranks(3, feed_rank, &f);
        snprintf(text, sizeof text,
                 "group tp: rank %d has other inputs than rank 0; all members must have the same",
                 cases[i].differs);
        for (int r = 0; r < 3; r++) {
            ck_assert_int_eq(f.seen[r], cases[i].differs ? LS_ERR_RANK : LS_OK);
            ck_assert_str_eq(f.text[r], cases[i].differs ? text : "");
        }
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("replicas", 120);
    tcase_add_loop_test(tests, hundred_steps, 0, 2);
    tcase_add_test(tests, drift_is_reported);
    tcase_add_test(tests, inputs_must_be_replicated);
    return run_tests();
}
