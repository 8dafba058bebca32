/* Who holds what of a network's parameters, against counting over ranks and channels; the
 * gradient's norm with every granule counted once, whatever is held several times (ORDERED, and
 * EXACT with gradients of one). States have no gradient and no share in it. */
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/data/update.h"
#include "model/store_grid.h"
#include "net_layouts.h"
#include "parallel_fixture.h"
#include "run_tests.h"

/* The channel coordinate is what is left of the rank's number, channels being the fastest. */
static bool holds_channel(const ls_param *param, const ls_layer_grid *grid, int rank,
                          size_t channel)
{
    const size_t each = ls_axis_extent(param->axis) / (size_t)grid->channels;
    return channel / each == (size_t)(rank % grid->channels);
}

static void ck_held(const ls_param_table *table, const ls_layout *layout, size_t i,
                    const char *name)
{
    const ls_param *param = &table->params[i];
    const ls_layer_grid grid = ls_net_grid_of(layout, &table->config.net, (int)param->layer);
    int first[64];
    for (size_t g = 0; g < param->axis.granules; g++) first[g] = -1;
    for (int r = 0; r < ls_layout_ranks(layout); r++) {
        const ls_holding holding = ls_holding_of(table, layout, r, i);
        ck_assert(holding.held && holding.use_held[0] == !param->state && !holding.use_held[1] &&
                  !holding.use_received[0]);
        for (size_t c = 0; c < ls_axis_extent(param->axis); c++) {
            const size_t g = c / param->axis.granule;
            const bool held =
                holding.shard.first <= g && g < holding.shard.first + holding.shard.count;
            ck_assert_msg(held == holds_channel(param, &grid, r, c), "%s, %s, rank %d, channel %zu",
                          name, param->name, r, c);
            if (held && first[g] < 0) first[g] = r;
        }
    }
    ck_assert_int_eq(ls_stage_of_param(layout, table, i), 0);
    for (size_t g = 0; g < param->axis.granules; g++)
        ck_assert_int_eq(ls_first_holder(table, layout, i, g), first[g]);
}

START_TEST(who_holds_what)
{
    ls_config config = net_config(net_models[_i]);
    ls_param_table *table = table_of(&config);
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    for (int l = 0; l < NET_LAYOUTS; l++) {
        ls_layout layout = net_layout(net_layouts[l]);
        for (size_t i = 0; i < table->count; i++) ck_held(table, &layout, i, net_layouts[l]);
        for (int r = 0; r < ls_layout_ranks(&layout); r++) {
            ls_holdings_of(table, &layout, r, holdings);
            for (size_t i = 0; i < table->count; i++) {
                const ls_holding one = ls_holding_of(table, &layout, r, i);
                ck_assert(one.shard.first == holdings[i].shard.first &&
                          one.shard.count == holdings[i].shard.count);
            }
        }
    }
    free(holdings);
    ls_param_table_destroy(&table);
}
END_TEST

/* The seventh layout of a table that gives conv2 (layer 4) to channels alone: its weight is cut by
 * rows, its bias alike, while conv1 is whole everywhere. */
START_TEST(a_known_case)
{
    ls_config config = net_config("alexnet-nano");
    ls_param_table *table = table_of(&config);
    ls_layout layout = net_layout("dp 4, layer 4 1x1x1x4, layer 5 4x1x1x1");
    const size_t conv1 = ls_param_find(table, LS_CONV_WEIGHT, 0);
    const size_t conv2 = ls_param_find(table, LS_CONV_WEIGHT, 4);
    const size_t conv3 = ls_param_find(table, LS_CONV_WEIGHT, 8);
    size_t rows, cols;
    for (int r = 0; r < 4; r++) {
        ls_holding h = ls_holding_of(table, &layout, r, conv2);
        ck_assert(h.shard.first == (size_t)r && h.shard.count == 1);
        ls_param_shard_shape(&table->params[conv2], h.shard, &rows, &cols);
        ck_assert(rows == 8 && cols == 8 * 5 * 5);
        h = ls_holding_of(table, &layout, r, conv1);
        ck_assert(h.shard.first == 0 && h.shard.count == 4);
        h = ls_holding_of(table, &layout, r, conv3); /* reads what layer 5 gave back to samples */
        ck_assert(h.shard.first == 0 && h.shard.count == 4);
    }
    ck_assert_int_eq(ls_first_holder(table, &layout, conv2, 2), 2);
    ck_assert_int_eq(ls_first_holder(table, &layout, conv1, 2), 0);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- the norm ---- */

enum { MOST_RANKS = 12 };

typedef struct problem {
    const ls_param_table *table;
    const ls_layout *layout;
    bool ones;
    double squares[MOST_RANKS];
} problem;

/* A gradient's values are those of the logical element, in whatever shard it lies. */
static void set_gradients(ls_store *store, bool ones)
{
    for (size_t i = 0; i < store->table->count; i++) {
        const ls_param *param = &store->table->params[i];
        const ls_slot *slot = &store->slots[i];
        const size_t n = ls_param_elements(param);
        ls_real *whole = filled(n, (uint32_t)i, 0);
        for (size_t e = 0; ones && e < n; e++) whole[e] = 1;
        if (slot->grad[0])
            ls_param_shard_in(param, slot->shard, sizeof *whole, slot->grad[0], whole);
        for (size_t e = 0; e < slot->rows * slot->cols; e++) slot->value[e] = (ls_real)NAN;
        free(whole);
    }
}

static ls_status norm_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    problem *p = argument;
    const int r = ls_rank_index(rank);
    ls_holding *holdings = calloc(p->table->count, sizeof *holdings);
    ls_store *store = NULL;
    ls_arena *temporary = NULL;
    LS_TRY(ls_arena_create(&temporary, NULL, LS_MEM_TEMPORARY));
    ls_holdings_of(p->table, p->layout, r, holdings);
    LS_TRY(ls_store_create(&store, p->table, holdings, NULL));
    set_gradients(store, p->ones);
    for (int twice = 0; twice < 2; twice++)
        LS_TRY(ls_shared_squares(ls_rank_world_group(rank), p->layout, store, temporary,
                                 &p->squares[r]));
exit:
    ls_store_destroy(&store);
    ls_arena_destroy(&temporary);
    free(holdings);
    return status;
}

/* Of one rank that holds everything. */
static double whole_squares(const ls_param_table *table, bool ones)
{
    const size_t n = ls_param_table_granules(table);
    double *squares = calloc(n, sizeof *squares);
    ls_store *store = store_of(table, NULL, NULL);
    set_gradients(store, ones);
    ls_store_squares(store, squares);
    const double sum = ls_tree_sum_f64(squares, n, 1);
    ls_store_destroy(&store);
    free(squares);
    return sum;
}

/* Replicas counted once, not once per rank; no granule left out. */
START_TEST(every_granule_counts_once)
{
    ls_config config = net_config(net_models[_i % 2]);
    ls_param_table *table = table_of(&config);
    problem p = {.table = table, .ones = _i / 2 != 0};
    const double right = whole_squares(table, p.ones);
    if (p.ones) {
        size_t elements = 0;
        for (size_t i = 0; i < table->count; i++)
            if (!table->params[i].state) elements += ls_param_elements(&table->params[i]);
        ck_assert_double_eq(right, (double)elements);
    }
    for (int l = 0; l < NET_LAYOUTS; l++) {
        ls_layout layout = net_layout(net_layouts[l]);
        p.layout = &layout;
        run_ranks(ls_layout_ranks(&layout), norm_rank, &p);
        for (int r = 0; r < ls_layout_ranks(&layout); r++)
            ck_assert_msg(memcmp(&p.squares[r], &right, sizeof right) == 0,
                          "%s, %s, rank %d: %.17g, not %.17g", config.name, net_layouts[l], r,
                          p.squares[r], right);
    }
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("net_placement", 60);
    tcase_add_loop_test(tcase, who_holds_what, 0, 2);
    tcase_add_test(tcase, a_known_case);
    tcase_add_loop_test(tcase, every_granule_counts_once, 0, 4);
    return run_tests();
}
