/* The whole grid, ORDERED: data, pipeline and tensor parallelism with sequence parallelism, every
 * schedule, number of micro-batches, virtual stages and recomputation together. Losses, every
 * gradient, the norm, every parameter and the optimizer's state over three steps with dropout,
 * clipping and unequal numbers of valid targets have the serial bits on every rank. */
#include "pipeline/grid_fixture.h"
#include "run_tests.h"

enum { GPT2, LLAMA, BERT_POST, BERT_PRE, MODELS };

/* 12 heads of width 2, F 36, four layers; one with smoothing, one with 4 kv heads. */
static ls_config grid_config(size_t i)
{
    ls_config config = i == GPT2        ? tiny_base("gpt2")
                       : i == LLAMA     ? tiny_llama("llama")
                       : i == BERT_POST ? tiny_bert("bert", LS_NORM_POST)
                                        : tiny_bert("bert-pre", LS_NORM_PRE);
    config.layers = 4;
    config.d_model = 24;
    config.heads = 12;
    config.kv_heads = i == LLAMA ? 4 : 12;
    config.d_ff = 36;
    config.vocab = 300;
    config.label_smoothing = i == GPT2 ? 0.1 : 0;
    return config;
}

/* ---- every pair of choices ---- */

static const struct {
    ls_schedule_kind kind;
    int chunks;
} schedules[] = {
    {LS_GPIPE, 1}, {LS_1F1B, 1}, {LS_INTERLEAVED, 1}, {LS_INTERLEAVED, 2}, {LS_INTERLEAVED, 3}};

enum {
    MODEL,
    BATCH,
    LENGTH,
    ENGINE,
    DP,
    PP,
    TP,
    SP,
    SCHEDULE,
    MICRO,
    RECOMPUTE,
    GATHERED,
    CHOICES
};

/* Values of each choice; a list ends with -1. */
static const int values_of[CHOICES][6] = {
    [MODEL] = {0, 1, -1},
    [BATCH] = {7, 12, -1},
    [LENGTH] = {1, 5, 7, -1},
    [ENGINE] = {0, 1, -1},
    [DP] = {1, 2, 3, 4, -1},
    [PP] = {1, 2, 3, 4, -1},
    [TP] = {1, 2, 3, 4, 6, -1},
    [SP] = {0, 1, -1},
    [SCHEDULE] = {0, 1, 2, 3, 4, -1},
    [MICRO] = {1, 2, 3, 5, -1},
    [RECOMPUTE] = {0, 1, 2, 3, -1},
    [GATHERED] = {0, 1, -1},
};

/* Rows in which every pair of values of two choices that may come together does. Sequences of 1
 * and 5 tokens are shorter than some groups. Batches of 7 in 3 replicas of 2 micro-batches leave
 * sums that wait for each other in more than one place. */
static const int rows[][CHOICES] = {
    /* model, batch, length, engine, dp, pp, tp, sp, schedule, micro-batches, recompute, gathered */
    {0, 7, 1, 0, 4, 3, 3, 0, 2, 1, 1, 0},  {0, 7, 1, 0, 2, 2, 6, 0, 2, 2, 3, 0},
    {0, 7, 1, 1, 2, 3, 3, 0, 1, 2, 0, 0},  {0, 7, 5, 0, 3, 1, 1, 0, 0, 2, 0, 0},
    {0, 7, 5, 0, 2, 4, 2, 0, 4, 3, 3, 0},  {0, 7, 5, 0, 1, 2, 6, 0, 3, 5, 2, 1},
    {0, 7, 5, 1, 1, 3, 6, 1, 1, 3, 0, 0},  {0, 7, 7, 0, 1, 4, 3, 1, 2, 5, 3, 0},
    {0, 7, 7, 0, 3, 2, 3, 1, 3, 2, 1, 1},  {0, 7, 7, 0, 2, 4, 2, 0, 2, 1, 0, 1},
    {0, 12, 1, 0, 4, 4, 1, 0, 3, 3, 0, 1}, {0, 12, 1, 1, 2, 3, 4, 1, 3, 5, 3, 1},
    {0, 12, 1, 1, 3, 1, 6, 0, 4, 1, 2, 1}, {0, 12, 7, 0, 4, 2, 4, 1, 0, 3, 1, 1},
    {0, 12, 7, 0, 2, 3, 1, 0, 0, 1, 2, 0}, {0, 12, 7, 0, 4, 2, 3, 0, 4, 2, 0, 0},
    {1, 7, 1, 0, 3, 3, 4, 1, 4, 2, 2, 0},  {1, 7, 1, 0, 4, 1, 6, 1, 0, 1, 3, 1},
    {1, 7, 1, 0, 4, 4, 2, 1, 1, 1, 1, 1},  {1, 7, 1, 1, 1, 1, 1, 0, 4, 5, 1, 0},
    {1, 7, 5, 1, 2, 1, 2, 1, 1, 1, 1, 1},  {1, 7, 5, 1, 3, 2, 1, 0, 2, 1, 0, 1},
    {1, 7, 7, 0, 3, 2, 2, 1, 1, 2, 2, 0},  {1, 7, 7, 0, 1, 4, 4, 0, 2, 2, 3, 1},
    {1, 7, 7, 1, 2, 1, 4, 0, 3, 1, 0, 0},  {1, 12, 1, 1, 1, 2, 2, 1, 0, 5, 0, 0},
    {1, 12, 1, 1, 3, 4, 1, 0, 1, 2, 3, 1}, {1, 12, 1, 1, 1, 3, 2, 0, 3, 2, 0, 0},
    {1, 12, 5, 0, 1, 4, 4, 0, 1, 5, 2, 0}, {1, 12, 5, 0, 3, 4, 3, 0, 0, 3, 0, 1},
    {1, 12, 5, 1, 4, 1, 3, 1, 2, 3, 2, 1}, {1, 12, 7, 1, 1, 4, 6, 0, 4, 1, 1, 1},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

/* Whether two values may come together: enough sequences, something to share. */
static bool may_meet(int a, int x, int b, int y)
{
    int most = a == BATCH ? x : 12, dp = a == DP ? x : 1, m = b == MICRO ? y : 1;
    if (a == TP && b == SP) return !(x == 1 && y == 1);
    return dp * m <= most;
}

START_TEST(rows_have_every_pair)
{
    for (int a = 0; a < CHOICES; a++)
        for (int b = a + 1; b < CHOICES; b++)
            for (const int *x = values_of[a]; *x >= 0; x++)
                for (const int *y = values_of[b]; *y >= 0; y++) {
                    bool found = !may_meet(a, *x, b, *y);
                    for (size_t i = 0; i < ROWS; i++) found |= rows[i][a] == *x && rows[i][b] == *y;
                    ck_assert_msg(found, "no row has choice %d at %d and %d at %d", a, *x, b, *y);
                }
}
END_TEST

static grid_run run_of_row(const int *row, const reference *right)
{
    grid_run run = {.right = right, .gathered_loss = row[GATHERED]};
    run.layout = ls_layout_serial();
    run.layout.dp = row[DP];
    run.layout.pp = row[PP];
    run.layout.tp = row[TP];
    run.layout.sp = row[SP];
    run.layout.schedule = schedules[row[SCHEDULE]].kind;
    run.layout.virtual_stages = schedules[row[SCHEDULE]].chunks;
    run.layout.micro_batches = row[MICRO];
    run.layout.recompute = (ls_recompute)row[RECOMPUTE];
    return run;
}

/* GPT-2 and Llama have the rows that name them, BERT all rows. */
START_TEST(every_pair)
{
    static const grid_targets targets[] = {TARGETS_UNEVEN, TARGETS_HALF, TARGETS_SEQUENCE};
    for (size_t i = 0; i < ROWS;) {
        const int *first = rows[i];
        ls_engine engine = first[ENGINE] ? LS_ENGINE_OPENBLAS : LS_ENGINE_PORTABLE;
        ls_config config = grid_config((size_t)_i);
        size_t lengths[GRID_STEPS];
        reference right;
        for (size_t s = 0; s < GRID_STEPS; s++) lengths[s] = (size_t)first[LENGTH];
        bool here = ls_engine_available(engine) && (_i >= BERT_POST || first[MODEL] == _i);
        if (here) {
            reference_begin(&right, &config, engine, GRID_STEPS, (size_t)first[BATCH], lengths,
                            targets, 0.5);
            ck_assert(right.step[0].squares > 0.25 && right.step[0].loss > 1);
        }
        for (; i < ROWS && memcmp(rows[i], first, (ENGINE + 1) * sizeof *first) == 0; i++) {
            char what[32];
            if (!here) continue;
            grid_run run = run_of_row(rows[i], &right);
            snprintf(what, sizeof what, "row %zu", i);
            ck_grid(&run, what);
        }
        if (here) reference_end(&right);
    }
}
END_TEST

/* ---- by name ---- */

typedef struct named {
    int dp, pp, tp, sp, chunks, micro_batches;
    ls_recompute recompute;
} named;

static void ck_named(const reference *right, const named *n, const char *what)
{
    grid_run run = {.right = right};
    run.layout = ls_layout_serial();
    run.layout.dp = n->dp;
    run.layout.pp = n->pp;
    run.layout.tp = n->tp;
    run.layout.sp = n->sp;
    run.layout.virtual_stages = n->chunks;
    run.layout.micro_batches = n->micro_batches;
    run.layout.schedule = n->chunks > 1 ? LS_INTERLEAVED : LS_1F1B;
    run.layout.recompute = n->recompute;
    ck_grid(&run, what);
}

/* 64 ranks on however many cores there are. */
START_TEST(sixty_four_ranks)
{
    static const size_t lengths[GRID_STEPS] = {5, 5, 5};
    static const grid_targets targets[] = {TARGETS_UNEVEN, TARGETS_HALF, TARGETS_SEQUENCE};
    static const named grids[] = {{4, 4, 4, 1, 1, 3, LS_RECOMPUTE_SELECTIVE},
                                  {2, 8, 4, 0, 2, 4, LS_RECOMPUTE_LAYER}};
    ls_config config = grid_config((size_t)_i);
    reference right;
    reference_begin(&right, &config, LS_ENGINE_PORTABLE, 1, 12, lengths, targets, 0.5);
    ck_named(&right, &grids[_i], "64 ranks");
    reference_end(&right);
}
END_TEST

/* Steps without any target, and replicas and micro-batches without one: no 0 / 0, no gradient of
 * the step before left in place, and what the optimizer still does (decay, moments) is done by
 * every rank. Of two losses one may be silent alone. */
START_TEST(nothing_to_learn_from)
{
    static const size_t lengths[GRID_STEPS] = {5, 3, 5};
    static const grid_targets targets[][GRID_STEPS] = {
        {TARGETS_UNEVEN, TARGETS_NONE, TARGETS_HALF},
        {TARGETS_NONE, TARGETS_UNEVEN, TARGETS_NONE},
        {TARGETS_HALF, TARGETS_NONE, TARGETS_NONE},
        {TARGETS_LABELS, TARGETS_NO_LABELS, TARGETS_NONE},
        {TARGETS_NO_LABELS, TARGETS_LABELS, TARGETS_UNEVEN}};
    static const named grids[] = {
        {1, 1, 1, 0, 1, 1, LS_RECOMPUTE_NONE},  {2, 1, 1, 0, 1, 3, LS_RECOMPUTE_NONE},
        {1, 2, 2, 1, 2, 7, LS_RECOMPUTE_STAGE}, {3, 2, 1, 0, 1, 2, LS_RECOMPUTE_LAYER},
        {7, 1, 1, 0, 1, 1, LS_RECOMPUTE_NONE},  {2, 2, 3, 1, 1, 3, LS_RECOMPUTE_SELECTIVE}};
    for (size_t model = 0; model < MODELS; model++) {
        ls_config config = grid_config(model);
        reference right;
        config.layers = 2;
        reference_begin(&right, &config, LS_ENGINE_PORTABLE, 3, 7, lengths, targets[_i], 0.5);
        for (size_t s = 0; s < 3; s++) {
            bool none = targets[_i][s] == TARGETS_NONE ||
                        (targets[_i][s] == TARGETS_LABELS && !config.sentence_order);
            ck_assert((right.step[s].loss == 0) == none && (right.step[s].squares == 0) == none);
        }
        for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++)
            ck_named(&right, &grids[i], "nothing");
        reference_end(&right);
    }
}
END_TEST

/* Other models of the serial tests, each in two grids: the row-first MLP, one kv head for all,
 * no biases, biases with RMSNorm, heads tied and not, attention to all tokens, BERT's parts mixed
 * with Llama's, norms behind the residual sums. */
START_TEST(other_models)
{
    static const size_t lengths[GRID_STEPS] = {5, 7, 4};
    static const grid_targets targets[] = {TARGETS_UNEVEN, TARGETS_SEQUENCE, TARGETS_HALF};
    static const named grids[] = {{2, 2, 2, 0, 1, 3, LS_RECOMPUTE_SELECTIVE},
                                  {1, 3, 3, 1, 1, 4, LS_RECOMPUTE_STAGE}};
    ls_config config = tiny_config((size_t)_i);
    reference right;
    config.heads = 12;
    config.kv_heads = config.kv_heads == 1 ? 1 : config.kv_heads < 6 ? 4 : 12;
    config.d_model = 24;
    config.d_ff = 36;
    config.vocab = 300;
    reference_begin(&right, &config, LS_ENGINE_PORTABLE, 3, 7, lengths, targets, 0.5);
    for (size_t i = 0; i < 2; i++) {
        named grid = grids[i];
        if (config.mlp_cut == LS_MLP_ROW_FIRST) grid.sp = 0;
        ck_named(&right, &grid, config.name);
    }
    reference_end(&right);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("grid", 120);
    tcase_add_test(tests, rows_have_every_pair);
    tcase_add_loop_test(tests, every_pair, 0, MODELS);
    tcase_add_loop_test(tests, sixty_four_ranks, 0, 2);
    tcase_add_loop_test(tests, nothing_to_learn_from, 0, 5);
    tcase_add_loop_test(tests, other_models, 0, N_TINY_SERIAL);
    return run_tests();
}
