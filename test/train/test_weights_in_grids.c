/* What a target weighs in a grid: the same wherever its sequence is, in whichever replica and
 * micro-batch, with known losses and gradients. Not a mean of replicas' or micro-batches' means,
 * not a sum of them, not divided once more; and each gradient counted once, over all micro-batches
 * of all replicas, also with one replica alone. */
#include "parallel/known_loss.h"
#include "pipeline/grid_fixture.h"
#include "run_tests.h"

typedef struct weighing {
    grid_run run;
    const known_loss *known;
    const example *example;
} weighing;

static void near(grid_rank *g, const char *what, size_t place, double found, double right,
                 double bound)
{
    if (!(fabs(found - right) <= bound)) grid_wrong(g, 0, what, "", place, found, right);
}

/* The last stage has head and shift. Every replica must have the sums over all of them. */
static ls_status weighing_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    weighing *w = argument;
    grid_rank g = {0};
    ls_real loss = (ls_real)NAN;
    LS_TRY(grid_begin(&g, rank, &w->run));
    for (int again = 0; again < 2; again++) { /* nothing is left of the first time */
        LS_TRY(grid_gradients(&g, &w->run.right->step[0].batch, &loss));
        near(&g, "loss", 0, (double)loss, w->example->loss, 2e-6);
        const ls_slot *head = ls_store_slot(g.store, LS_HEAD_WEIGHT, 0);
        const ls_slot *shift = ls_store_slot(g.store, LS_FINAL_NORM_SHIFT, 0);
        if (!head) continue;
        near(&g, "shift", 0, (double)shift->grad[0][0],
             example_shift_gradient(w->example, w->known), 1e-5);
        size_t param = ls_param_find(g.store->table, LS_HEAD_WEIGHT, 0);
        size_t first = head->shard.first * g.store->table->params[param].axis.granule;
        for (size_t k = 1; k < 8; k++) {
            if (row_of_loss[k] < 0) continue;
            size_t row = (size_t)row_of_loss[k];
            if (row < first || row >= first + head->rows) continue;
            near(&g, "row of cost", k, (double)head->grad[0][(row - first) * 12],
                 example_row_gradient(w->example, w->known, k), 1e-6);
        }
    }
exit:
    grid_end(&g);
    return status;
}

static void weigh(weighing *w)
{
    char layout[512];
    int ranks = ls_layout_ranks(&w->run.layout);
    ls_layout_describe(&w->run.layout, layout, sizeof layout);
    for (int r = 0; r < ranks; r++) w->run.wrong[r][0] = '\0';
    run_ranks(ranks, weighing_rank, w);
    for (int r = 0; r < ranks; r++)
        ck_assert_msg(!w->run.wrong[r][0], "%s, %s, rank %d: %s", w->example->what, layout, r,
                      w->run.wrong[r]);
}

START_TEST(every_target_weighs_the_same)
{
    static int32_t tokens[MOST_SEQUENCES * MOST_TOKENS], targets[MOST_SEQUENCES * MOST_TOKENS];
    static const int tp_of[] = {1, 2, 3, 12};
    known_loss known = known_loss_begin();
    const example *e = &examples[_i];
    reference right = {.engine = LS_ENGINE_PORTABLE, .initial = known.values};
    size_t S, turn = 0;
    right.f.table = known.table;
    example_fill(e, &S, tokens, targets);
    right.step[0].batch = (ls_batch){.B = e->B, .S = S, .tokens = tokens, .targets = targets};
    for (size_t dp = 1; dp <= e->B && dp <= 4; dp++)
        for (size_t m = 1; dp * m <= e->B; m++)
            for (int pp = 1; pp <= 3; pp++, turn++) {
                weighing w = {.known = &known, .example = e};
                w.run.right = &right;
                w.run.gathered_loss = turn % 3 == 1;
                w.run.layout = ls_layout_serial();
                w.run.layout.dp = (int)dp;
                w.run.layout.pp = pp;
                w.run.layout.micro_batches = (int)m;
                w.run.layout.tp = tp_of[turn % (dp * (size_t)pp <= 5 ? 4 : 2)];
                w.run.layout.sp = turn % 2;
                w.run.layout.schedule = turn % 2 ? LS_1F1B : LS_GPIPE;
                weigh(&w);
            }
    known_loss_end(&known);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("weights", 60);
    tcase_add_loop_test(tests, every_target_weighs_the_same, 0, EXAMPLES);
    return run_tests();
}
