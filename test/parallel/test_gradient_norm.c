/* The norm of the gradient, clipping and the step, at every degree: shards are all counted, what
 * several ranks hold is counted once, tied weights too, and every rank moves its copies alike.
 * Gradients are set by hand, so the right values are known without any model. */
#include "stage_fixture.h"
#include "run_tests.h"

/* One element of a parameter's gradient (or of that of one use of it). */
typedef struct entry {
    ls_role role;
    size_t element;
    double value;
    int use;
} entry;

enum { MOST_ENTRIES = 6 };

typedef struct problem {
    const ls_param_table *table;
    const double *values;
    entry entries[MOST_ENTRIES]; /* all other elements are 0; a value of 0 ends the list */
    ls_update update;
    double max_norm;
    bool finish; /* the entries are of the uses of the tied parameter, which are to be added */
    double squares[MOST_RANKS];
    ls_store *store[MOST_RANKS];
} problem;

/* The entries into the gradients that this rank holds; padding is NaN, since it must not count. */
static ls_status set_gradients(const problem *p, ls_store *store)
{
    ls_status status = LS_OK;
    double *whole = calloc(ls_param_table_elements(p->table), sizeof *whole);
    if (!whole) LS_FAIL(LS_ERR_MEMORY, "no memory for a gradient");
    for (size_t i = 0; i < p->table->count; i++) {
        const ls_param *param = &p->table->params[i];
        ls_slot *slot = &store->slots[i];
        size_t n = ls_param_elements(param);
        for (int use = 0; use < param->uses; use++) {
            for (size_t e = 0; e < n; e++) whole[e] = 0;
            for (size_t k = 0; k < MOST_ENTRIES && p->entries[k].value != 0; k++)
                if (p->entries[k].role == param->role && p->entries[k].use == use)
                    whole[p->entries[k].element] = p->entries[k].value;
            LS_TRY(shard_from(slot->grad[use], param, slot->shard, whole));
            size_t first =
                param->cut == 0 && param->n_dims == 2 ? slot->shard.first * param->axis.granule : 0;
            for (size_t row = 0; param->kind == LS_GRANULE_VOCAB && row < slot->rows; row++)
                for (size_t c = 0; first + row >= param->dims[0] && c < slot->cols; c++)
                    slot->grad[use][row * slot->cols + c] = p->finish ? 0 : (ls_real)NAN;
        }
    }
exit:
    free(whole);
    return status;
}

static ls_status norm_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    problem *p = argument;
    ls_group *tp = ls_rank_world_group(rank);
    ls_layout layout = tp_layout(ls_group_size(tp));
    int r = ls_rank_index(rank);
    model m = {NULL, NULL, NULL, NULL};
    LS_TRY(model_begin(&m, tp, p->table, whole_model(&p->table->config), p->values));
    LS_TRY(set_gradients(p, m.store));
    if (p->finish) ls_stage_finish_gradients(m.stage);
    if (p->finish) ls_add_uses(m.store);
    for (int twice = 0; twice < 2; twice++)
        LS_TRY(ls_shared_squares(tp, &layout, m.store, m.temporary, &p->squares[r]));
    ls_shard_update(m.store, &p->update, p->squares[r], p->max_norm);
exit:
    model_end(&m, &p->store[r]);
    return status;
}

static void solve(problem *p, int tp)
{
    run_ranks(tp, norm_rank, p);
}

static void solved(problem *p)
{
    for (int r = 0; r < MOST_RANKS; r++) ls_store_destroy(&p->store[r]);
}

/* A logical element as rank r holds it (its gradient or value); false when it does not. */
static bool element_on(const problem *p, int r, ls_role role, size_t element, bool gradient,
                       double *ret_value)
{
    size_t i = ls_param_find(p->table, role, 0);
    const ls_param *param = &p->table->params[i];
    const ls_slot *slot = &p->store[r]->slots[i];
    size_t row = param->n_dims == 2 ? element / param->dims[1] : 0,
           col = param->n_dims == 2 ? element % param->dims[1] : element,
           skipped = param->cut < 0 ? 0 : slot->shard.first * param->axis.granule;
    size_t *along = param->n_dims == 2 && param->cut == 0 ? &row : &col;
    if (*along < skipped) return false;
    *along -= skipped;
    if (row >= slot->rows || col >= slot->cols) return false;
    const ls_real *x = gradient ? slot->grad[0] : slot->value;
    *ret_value = (double)x[row * slot->cols + col];
    return true;
}

/* 12 heads of width 2 and 4 kv heads with biases, tied: D 24, F 36, V 300. */
typedef struct model_of {
    ls_param_table *table;
    double *values;
} model_of;

static model_of model_with(double value)
{
    ls_config config = parallel_config(0);
    model_of m;
    config.layers = 1;
    config.kv_heads = 4;
    ck_assert_int_eq(ls_param_table_create(&m.table, &config), LS_OK);
    size_t n = ls_param_table_elements(m.table);
    m.values = malloc(n * sizeof *m.values);
    for (size_t e = 0; e < n; e++) m.values[e] = value;
    return m;
}

static void model_of_end(model_of *m)
{
    free(m->values);
    ls_param_table_destroy(&m->table);
}

/* ---- the norm ---- */

static const struct {
    const char *what;
    entry entries[MOST_ENTRIES];
    double squares;
} norms[] = {
    /* a shard of squared norm 1 on each of 4 ranks, and a replicated parameter of 5: 3, not
       sqrt(24) (counted by every rank), 2 (by none) or sqrt(6) (own shard only) */
    {"sharded and replicated parameters",
     {{LS_QUERY_BIAS, 1, 1, 0},
      {LS_QUERY_BIAS, 7, 1, 0},
      {LS_QUERY_BIAS, 13, -1, 0},
      {LS_QUERY_BIAS, 23, 1, 0},
      {LS_NORM1_SCALE, 0, 1, 0},
      {LS_NORM1_SCALE, 23, -2, 0}},
     9},
    /* shards 3 and 4: 5, not 3 or 4 */
    {"a parameter on the first and on the last rank",
     {{LS_ATTN_OUT_WEIGHT, 0, 3, 0}, {LS_ATTN_OUT_WEIGHT, 24 * 24 - 1, 4, 0}},
     25},
    /* 20 and 20 in the tied embedding: sqrt(800), not 40 = sqrt(1600) */
    {"a tied parameter",
     {{LS_TOKEN_EMBEDDING, 5, 20, 0}, {LS_TOKEN_EMBEDDING, 299 * 24, 20, 0}},
     800},
    /* kv heads are on as many as three ranks */
    {"a shared kv head",
     {{LS_KEY_WEIGHT, 0, 2, 0},
      {LS_KEY_WEIGHT, 24 * 8 - 1, 3, 0},
      {LS_VALUE_BIAS, 2, 4, 0},
      {LS_VALUE_BIAS, 5, -6, 0}},
     4 + 9 + 16 + 36},
    {"row biases, positions, final norm, feed-forward",
     {{LS_ATTN_OUT_BIAS, 23, 1, 0},
      {LS_MLP_DOWN_BIAS, 3, 2, 0},
      {LS_POSITION_EMBEDDING, 7 * 24 - 1, 3, 0},
      {LS_FINAL_NORM_SHIFT, 9, 5, 0},
      {LS_MLP_UP_WEIGHT, 36 * 24 - 1, 7, 0},
      {LS_MLP_DOWN_WEIGHT, 36 * 12, 11, 0}},
     1 + 4 + 9 + 25 + 49 + 121},
};
enum { NORMS = sizeof norms / sizeof norms[0] };

START_TEST(every_element_is_counted_once)
{
    model_of m = model_with(0);
    for (int i = 0; i < LEGAL_DEGREES; i++) {
        problem p = {.table = m.table, .values = m.values};
        p.update.optimizer = LS_SGD;
        memcpy(p.entries, norms[_i].entries, sizeof p.entries);
        solve(&p, legal_degrees[i]);
        for (int r = 0; r < legal_degrees[i]; r++)
            ck_assert_msg(p.squares[r] == norms[_i].squares,
                          "%s: %g at tp %d, rank %d; right is %g", norms[_i].what, p.squares[r],
                          legal_degrees[i], r, norms[_i].squares);
        solved(&p);
    }
    model_of_end(&m);
}
END_TEST

/* ---- clipping ---- */

/* Gradient (3, 4) and a limit of 1: the norm is 5, the gradient becomes (0.6, 0.8) - wherever its
 * two elements are, on one rank, two or all - and that is what the step takes. Not left alone, not
 * clipped by each rank's own part, not divided by norm + 1e-6. */
START_TEST(clipping_scales_what_every_rank_holds)
{
    static const entry pairs[][2] = {
        {{LS_QUERY_BIAS, 0, 3, 0}, {LS_QUERY_BIAS, 23, 4, 0}},      /* first and last rank */
        {{LS_MLP_UP_BIAS, 0, 3, 0}, {LS_NORM2_SHIFT, 4, 4, 0}},     /* one rank, all ranks */
        {{LS_KEY_BIAS, 3, 3, 0}, {LS_TOKEN_EMBEDDING, 290, 4, 0}}}; /* sharers, one rank */
    model_of m = model_with(0);
    const double bound = sizeof(ls_real) == 4 ? 6e-8 : 2e-16;
    for (size_t k = 0; k < sizeof pairs / sizeof pairs[0]; k++)
        for (int i = 0; i < LEGAL_DEGREES; i++) {
            problem p = {.table = m.table, .values = m.values, .max_norm = 1};
            ls_update sgd = {.optimizer = LS_SGD, .lr = 1, .t = 1};
            int tp = legal_degrees[i], holders[2] = {0, 0};
            p.update = sgd;
            memcpy(p.entries, pairs[k], sizeof pairs[k]);
            solve(&p, tp);
            for (int r = 0; r < tp; r++) {
                ck_assert(p.squares[r] == 25);
                for (int e = 0; e < 2; e++) {
                    double right = e ? 0.8 : 0.6, gradient, value;
                    if (!element_on(&p, r, pairs[k][e].role, pairs[k][e].element, true, &gradient))
                        continue;
                    (void)element_on(&p, r, pairs[k][e].role, pairs[k][e].element, false, &value);
                    holders[e]++;
                    ck_assert_msg(fabs(gradient - right) <= bound && fabs(value + right) <= bound,
                                  "pair %zu, tp %d, rank %d: gradient %.9g, value %.9g", k, tp, r,
                                  gradient, value);
                }
            }
            ck_assert(holders[0] >= 1 && holders[1] >= 1);
            solved(&p);
        }
    model_of_end(&m);
}
END_TEST

/* ---- tied weights ---- */

static const struct {
    double input, head, sum; /* gradients of the two uses; 0: that use has none */
    double value;            /* after one Adam step from 1 */
} uses[] = {
    {3, 5, 8, 0.9},   /* not 3 and 5, not 16 */
    {3, -1, 2, 0.9},  /* two steps would end at 0.86 or 1.0 */
    {1, -1, 0, 1},    /* two steps, apart: 0.9 and 1.1 */
    {-4, 3, -1, 1.1}, /* the sum's sign, not the input's alone */
};
enum { USES = sizeof uses / sizeof uses[0] };

/* The gradients of both uses are added, once, and there is one Adam step on the sum; the row may
 * belong to any rank. */
START_TEST(tied_weight_takes_one_step)
{
    static const size_t rows[] = {0, 31, 32, 150, 299};
    model_of m = model_with(1);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int i = 0; i < LEGAL_DEGREES; i++) {
            int tp = legal_degrees[i], holders = 0;
            size_t element = rows[k] * 24 + 5;
            problem p = {.table = m.table,
                         .values = m.values,
                         .finish = true,
                         .entries = {{LS_TOKEN_EMBEDDING, element, uses[_i].input, 0},
                                     {LS_TOKEN_EMBEDDING, element, uses[_i].head, 1}},
                         .update = {.optimizer = LS_ADAMW,
                                    .lr = 0.1,
                                    .beta1 = 0.9,
                                    .beta2 = 0.999,
                                    .eps = 1e-8,
                                    .t = 1}};
            solve(&p, tp);
            for (int r = 0; r < tp; r++) {
                double gradient, value;
                ck_assert(p.squares[r] == uses[_i].sum * uses[_i].sum);
                if (!element_on(&p, r, LS_TOKEN_EMBEDDING, element, true, &gradient)) continue;
                (void)element_on(&p, r, LS_TOKEN_EMBEDDING, element, false, &value);
                holders++;
                ck_assert_msg(gradient == uses[_i].sum, "tp %d: %g", tp, gradient);
                ck_assert_msg(fabs(value - uses[_i].value) <= 2e-7, "tp %d: %.10g", tp, value);
            }
            ck_assert_int_eq(holders, 1);
            solved(&p);
        }
    model_of_end(&m);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("gradient norm", 60);
    tcase_add_loop_test(tests, every_element_is_counted_once, 0, NORMS);
    tcase_add_test(tests, clipping_scales_what_every_rank_holds);
    tcase_add_loop_test(tests, tied_weight_takes_one_step, 0, USES);
    return run_tests();
}
