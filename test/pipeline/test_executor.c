/* The executor: whatever the schedule, the number of stages and micro-batches, the channels and the
 * speed of the ranks, a step has the serial bits (ORDERED); what is alive at once; the two uses of
 * a tied weight. */
#include "executor_fixture.h"
#include "run_tests.h"

/* Every number of stages and micro-batches, below, at and above each other, with every schedule:
 * fewer micro-batches than stages, and 7 sequences in 2, 3, 4, 5, 6 parts. Four layers: with more
 * stages than that some have none. */
START_TEST(every_size)
{
    int pp = _i;
    for (size_t model = 0; model < 2; model++) {
        ls_config config = small_config(model, 4);
        reference right;
        reference_of(&right, &config, 7, 2);
        for (int m = 1; m <= 6; m++)
            for (size_t k = 0; k < KINDS; k++)
                for (size_t half = 0; half < 2; half++) {
                    size_t turn = (size_t)m * KINDS + k + model * 2 + half * 3;
                    grid_run run = {.right = &right,
                                    .world = world_of(half + (size_t)(m + pp) % 2 * 2)};
                    run.layout = ls_layout_serial();
                    run.layout.pp = pp;
                    run.layout.micro_batches = m;
                    run.layout.schedule = kinds[k].kind;
                    run.layout.virtual_stages = kinds[k].chunks;
                    run.layout.recompute = (ls_recompute)(turn % 4);
                    run.layout.tp = (half + model) % 2 ? 2 : 1;
                    run.layout.sp = run.layout.tp > 1 && turn % 3 == 0;
                    run.gathered_loss = turn % 5 == 0;
                    ck_grid(&run, config.name);
                }
        reference_end(&right);
    }
}
END_TEST

/* A pipeline far longer than its one micro-batch. */
START_TEST(eight_stages_one_micro_batch)
{
    ls_config config = small_config(0, 8);
    reference right;
    reference_of(&right, &config, 1, 1);
    for (size_t k = 0; k < KINDS; k++) {
        grid_run run = {.right = &right, .world = world_of(k)};
        run.layout = ls_layout_serial();
        run.layout.pp = 8;
        run.layout.schedule = kinds[k].kind;
        run.layout.virtual_stages = kinds[k].chunks;
        ck_grid(&run, "8 stages");
    }
    reference_end(&right);
}
END_TEST

/* Numbers of micro-batches that the ranks do not divide, interleaved: 3 and 7 are one round, 10 two
 * of 5, 9, 11 and 13 rounds of unequal size. */
START_TEST(rounds_of_micro_batches)
{
    static const int micro_batches[] = {3, 7, 9, 10, 11, 13};
    ls_config config = small_config(0, 8);
    reference right;
    reference_of(&right, &config, 13, 1);
    for (size_t i = 0; i < sizeof micro_batches / sizeof micro_batches[0]; i++)
        for (int chunks = 2; chunks <= 3; chunks++) {
            grid_run run = {.right = &right, .world = world_of(i)};
            run.layout = ls_layout_serial();
            run.layout.pp = 4;
            run.layout.micro_batches = micro_batches[i];
            run.layout.schedule = LS_INTERLEAVED;
            run.layout.virtual_stages = chunks;
            ck_grid(&run, "rounds");
        }
    reference_end(&right);
}
END_TEST

/* Groups along tp that are {0, 2} and {1, 3}, or {0, 4} to {3, 7}: what is computed again gathers
 * over the own group, not over the world or neighbouring ranks. */
START_TEST(groups_that_are_not_runs_of_ranks)
{
    static const int grids[][3] = {/* tp, dp, pp */ {2, 2, 1}, {2, 1, 2}, {2, 2, 2}};
    ls_config config = small_config((size_t)_i, 3);
    reference right;
    reference_of(&right, &config, 5, 2);
    for (size_t i = 0; i < 3; i++)
        for (int recompute = 0; recompute < 4; recompute++) {
            grid_run run = {.right = &right, .turned = true};
            run.layout = ls_layout_serial();
            run.layout.tp = grids[i][0];
            run.layout.dp = grids[i][1];
            run.layout.pp = grids[i][2];
            run.layout.sp = true;
            run.layout.micro_batches = 2;
            run.layout.recompute = (ls_recompute)recompute;
            ck_grid(&run, "turned");
        }
    reference_end(&right);
}
END_TEST

/* Stages without layers at either end and between, with everything that can be computed again. */
START_TEST(stages_without_layers)
{
    static const int partitions[][6] = {{2, 0, 1}, {0, 2, 1}, {1, 2, 0},
                                        {0, 0, 3}, {0, 3, 0}, {3, 0, 0}};
    static const int chunks[][6] = {{1, 0, 1, 0, 1, 0}, {0, 0, 2, 0, 0, 1}, {0, 1, 0, 1, 1, 0}};
    ls_config config = small_config((size_t)_i, 3);
    reference right;
    reference_of(&right, &config, 7, 2);
    for (size_t i = 0; i < 6 + 3; i++)
        for (int recompute = 0; recompute < 4; recompute++) {
            grid_run run = {.right = &right, .world = world_of(i)};
            run.layout = ls_layout_serial();
            run.layout.pp = 3;
            run.layout.virtual_stages = i < 6 ? 1 : 2;
            run.layout.schedule = i >= 6 ? LS_INTERLEAVED : i % 2 ? LS_GPIPE : LS_1F1B;
            run.layout.given = i < 6 ? 3 : 6;
            memcpy(run.layout.stage_layers, i < 6 ? partitions[i] : chunks[i - 6],
                   sizeof partitions[0]);
            run.layout.micro_batches = 3;
            run.layout.recompute = (ls_recompute)recompute;
            run.layout.tp = 1 + recompute % 2;
            run.layout.sp = recompute == 1;
            ck_grid(&run, "partition");
        }
    reference_end(&right);
}
END_TEST

/* What the steps of a run differ in: lengths 5, 7, 3, and steps without any target between others:
 * nothing of an earlier step is left in the room of a later one. */
START_TEST(steps_of_other_lengths)
{
    static const size_t lengths[GRID_STEPS] = {5, 7, 3};
    static const grid_targets targets[][GRID_STEPS] = {
        {TARGETS_UNEVEN, TARGETS_SEQUENCE, TARGETS_HALF},
        {TARGETS_UNEVEN, TARGETS_NONE, TARGETS_UNEVEN},
        {TARGETS_NONE, TARGETS_HALF, TARGETS_NONE}};
    ls_config config = small_config((size_t)_i, 3);
    for (size_t t = 0; t < 3; t++) {
        reference right;
        reference_begin(&right, &config, LS_ENGINE_PORTABLE, 3, 8, lengths, targets[t], 0.5);
        ck_assert((right.step[1].loss == 0) == (t == 1));
        for (size_t k = 0; k < 4; k++) {
            grid_run run = {.right = &right, .world = world_of(k)};
            run.layout = ls_layout_serial();
            run.layout.pp = 2;
            run.layout.micro_batches = 3; /* of 3, 3 and 2 sequences: no stale third row */
            run.layout.schedule = kinds[k].kind;
            run.layout.virtual_stages = kinds[k].chunks;
            run.layout.dp = k == 1 ? 2 : 1;
            run.layout.recompute = (ls_recompute)((k + t) % 4);
            ck_grid(&run, "lengths");
        }
        reference_end(&right);
    }
}
END_TEST

/* ---- what is alive at once ---- */

/* Peak of kept activations of every pipeline rank, in units of one micro-batch's: M micro-batches
 * of one sequence each, against one alone (of which all V chunks are alive together). */
static void ck_alive(ls_schedule_kind kind, int chunks, int micro_batches,
                     const size_t *right_units)
{
    static const size_t length[] = {3};
    static const grid_targets targets[] = {TARGETS_UNEVEN};
    ls_config config = small_config(0, (size_t)(4 * chunks));
    size_t peaks[2][4];
    for (int many = 0; many < 2; many++) {
        reference right;
        int m = many ? micro_batches : 1;
        reference_begin(&right, &config, LS_ENGINE_PORTABLE, 1, (size_t)m, length, targets, 0);
        grid_run run = {.right = &right, .world = world_of(0)};
        run.layout = ls_layout_serial();
        run.layout.pp = 4;
        run.layout.micro_batches = m;
        run.layout.schedule = kind;
        run.layout.virtual_stages = chunks;
        ck_grid(&run, "alive");
        for (int p = 0; p < 4; p++) peaks[many][p] = run.peak_bytes[p];
        reference_end(&right);
    }
    for (int p = 0; p < 4; p++) {
        if (chunks > 1 && (p == 0 || p == 3)) continue; /* their chunks are not of one size */
        ck_assert_uint_gt(peaks[0][p], 0);
        ck_assert_msg(peaks[1][p] * (size_t)chunks == peaks[0][p] * right_units[p],
                      "%s, %d micro-batches, rank %d: %zu bytes, one micro-batch has %zu",
                      ls_schedule_kind_name(kind), micro_batches, p, peaks[1][p], peaks[0][p]);
    }
}

/* 1F1B: min(K - stage, M), 4, 3, 2, 1 (not 5, 4, 3, 2); GPipe: M. Interleaved: its warm-up of 10,
 * 8, 6, 4 chunks and the one that follows it. */
START_TEST(micro_batches_alive)
{
    static const size_t f1b1[] = {4, 3, 2, 1}, few[] = {2, 2, 2, 1}, gpipe[] = {8, 8, 8, 8},
                        interleaved[] = {11, 9, 7, 5};
    ck_alive(LS_1F1B, 1, 8, f1b1);
    ck_alive(LS_1F1B, 1, 2, few);
    ck_alive(LS_GPIPE, 1, 8, gpipe);
    ck_alive(LS_INTERLEAVED, 2, 8, interleaved);
}
END_TEST

/* ---- tied weights ---- */

typedef struct tied {
    const reference *right;
    ls_layout layout;
    double uses[2];
    double found[GRID_RANKS]; /* of every element of the tied gradient; NaN: they differ */
    double squares[GRID_RANKS];
    bool held[GRID_RANKS];
} tied;

static ls_status tied_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    tied *t = argument;
    int r = ls_rank_index(rank);
    grid_run run = {.right = t->right, .layout = t->layout};
    grid_rank g = {0};
    LS_TRY(grid_begin(&g, rank, &run));
    memset(g.store->gradient_slab, 0,
           g.store->gradient_slots * g.store->gradient_count * sizeof(ls_real));
    ls_slot *token = ls_store_slot(g.store, LS_TOKEN_EMBEDDING, 0);
    t->held[r] = token != NULL;
    /* The logical rows alone: padding has none. */
    const ls_param *param = &g.store->table->params[0];
    size_t rows = 0, first = 0;
    if (token) {
        first = token->shard.first * param->axis.granule;
        rows = first >= param->dims[0] ? 0 : param->dims[0] - first;
        if (rows > token->rows) rows = token->rows;
        for (int use = 0; use < 2; use++) /* each where it is made */
            if (g.at.pp == (use == 0 ? 0 : t->layout.pp - 1))
                for (size_t e = 0; e < rows * token->cols; e++)
                    token->grad[use][e] = (ls_real)t->uses[use];
    }
    LS_TRY(ls_executor_finish(g.executor));
    for (size_t e = 0; e < rows * (token ? token->cols : 0); e++)
        t->found[r] = e == 0 || t->found[r] == (double)token->grad[0][e] ? (double)token->grad[0][e]
                                                                         : (double)NAN;
    LS_TRY(ls_shared_squares(g.model, &t->layout, g.store, g.temporary, &t->squares[r]));
exit:
    grid_end(&g);
    return status;
}

/* The uses are summed once, over both ends of the pipeline or on the one rank that is both: 3 + 5
 * is 8 on both, not 3 and 5, 4 or 16. In the norm the weight counts once, however many hold it: 104
 * elements of 8 have the squares 104 * 64, and elements of 20 give 20 sqrt(104), not 20 sqrt(208).
 */
START_TEST(tied_weight)
{
    static const int grids[][4] = {/* pp, V, tp, dp */
                                   {1, 1, 1, 1}, {2, 1, 1, 1}, {3, 1, 1, 1},
                                   {2, 2, 1, 1}, {1, 3, 1, 1}, {2, 1, 2, 1},
                                   {3, 2, 2, 2}, {1, 1, 2, 2}, {4, 1, 1, 2}};
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 2, 1);
    ck_assert(config.tied);
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        tied t = {.right = &right, .uses = {3, 5}};
        t.layout = ls_layout_serial();
        t.layout.pp = grids[i][0];
        t.layout.virtual_stages = grids[i][1];
        t.layout.tp = grids[i][2];
        t.layout.dp = grids[i][3];
        t.layout.schedule = grids[i][1] > 1 ? LS_INTERLEAVED : LS_1F1B;
        int ranks = ls_layout_ranks(&t.layout);
        for (int twice = 0; twice < 2; twice++) {
            if (twice) t.uses[0] = 12, t.uses[1] = 8;
            for (int r = 0; r < ranks; r++) t.found[r] = t.uses[0] + t.uses[1];
            run_ranks(ranks, tied_rank, &t);
            for (int r = 0; r < ranks; r++) {
                int at = ls_layout_coordinates(&t.layout, r).pp;
                ck_assert_int_eq(t.held[r], at == 0 || at == t.layout.pp - 1);
                ck_assert_msg(t.found[r] == t.uses[0] + t.uses[1], "pp %d, rank %d: %g",
                              t.layout.pp, r, t.found[r]);
                ck_assert_msg(t.squares[r] == 13 * 8 * (twice ? 400 : 64), "pp %d, rank %d: %g",
                              t.layout.pp, r, t.squares[r]);
            }
        }
    }
    reference_end(&right);
}
END_TEST

/* ---- the norm over stages ---- */

typedef struct stages_norm {
    const reference *right;
    ls_layout layout;
    double squares[GRID_RANKS];
    double first[GRID_RANKS], last[GRID_RANKS]; /* the two elements, clipped; 0: not held */
} stages_norm;

static ls_real *gradient_on(const ls_store *store, ls_role role, size_t layer, size_t element)
{
    ls_slot *slot = ls_store_slot(store, role, layer);
    return slot ? &slot->grad[0][element] : NULL;
}

static ls_status norm_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    stages_norm *n = argument;
    int r = ls_rank_index(rank);
    grid_run run = {.right = n->right, .layout = n->layout};
    ls_update none = {.optimizer = LS_SGD};
    grid_rank g = {0};
    LS_TRY(grid_begin(&g, rank, &run));
    memset(g.store->gradient_slab, 0,
           g.store->gradient_slots * g.store->gradient_count * sizeof(ls_real));
    ls_real *first = gradient_on(g.store, LS_NORM1_SCALE, 0, 5);
    ls_real *last = gradient_on(g.store, LS_ATTN_OUT_BIAS, 2, 3);
    bool alone = n->layout.dp == 1, front = g.at.dp == 0;
    if (first) *first = alone ? 3 : front ? 1 : 2;
    if (last) *last = alone ? 4 : front ? 7 : -3;
    LS_TRY(ls_reduce_gradients(g.dp, g.store, g.cut));
    LS_TRY(ls_executor_finish(g.executor));
    LS_TRY(ls_shared_squares(g.model, &n->layout, g.store, g.temporary, &n->squares[r]));
    ls_shard_update(g.store, &none, n->squares[r], 1);
    n->first[r] = first ? (double)*first : 0;
    n->last[r] = last ? (double)*last : 0;
exit:
    grid_end(&g);
    return status;
}

/* A gradient of 3 in the first layer and one of 4 in the last, in parameters that every rank of
 * their stage holds: the norm is 5 on every rank of every stage (not 3 and 4, not more for the
 * copies), and clipped to 1 they are 0.6 and 0.8. Two replicas have 1 and 7, 2 and -3 of them: the
 * norm is that of the sum, not of what either had. */
START_TEST(norm_over_stages)
{
    static const int grids[][4] = {/* pp, V, tp, dp */
                                   {1, 1, 1, 1}, {2, 1, 1, 1}, {3, 1, 2, 1}, {2, 2, 1, 2},
                                   {4, 1, 2, 1}, {1, 3, 2, 2}, {2, 1, 2, 2}};
    ls_config config = small_config(0, 3);
    reference right;
    reference_of(&right, &config, 2, 1);
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        stages_norm n = {.right = &right};
        n.layout = ls_layout_serial();
        n.layout.pp = grids[i][0];
        n.layout.virtual_stages = grids[i][1];
        n.layout.tp = grids[i][2];
        n.layout.dp = grids[i][3];
        n.layout.schedule = grids[i][1] > 1 ? LS_INTERLEAVED : LS_1F1B;
        int ranks = ls_layout_ranks(&n.layout), held[2] = {0, 0};
        run_ranks(ranks, norm_rank, &n);
        for (int r = 0; r < ranks; r++) {
            ck_assert_msg(n.squares[r] == 25, "grid %zu, rank %d: %g", i, r, n.squares[r]);
            ck_assert(n.first[r] == 0 || fabs(n.first[r] - 0.6) < 1e-7);
            ck_assert(n.last[r] == 0 || fabs(n.last[r] - 0.8) < 1e-7);
            held[0] += n.first[r] > 0;
            held[1] += n.last[r] > 0;
        }
        ck_assert_int_eq(held[0], n.layout.tp * n.layout.dp);
        ck_assert_int_eq(held[1], n.layout.tp * n.layout.dp);
    }
    reference_end(&right);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("executor", 60);
    tcase_add_loop_test(tests, every_size, 1, 6);
    tcase_add_test(tests, eight_stages_one_micro_batch);
    tcase_add_test(tests, rounds_of_micro_batches);
    tcase_add_loop_test(tests, groups_that_are_not_runs_of_ranks, 0, 2);
    tcase_add_loop_test(tests, stages_without_layers, 0, 2);
    tcase_add_loop_test(tests, steps_of_other_lengths, 0, 2);
    tcase_add_test(tests, micro_batches_alive);
    tcase_add_test(tests, tied_weight);
    tcase_add_test(tests, norm_over_stages);
    return run_tests();
}
