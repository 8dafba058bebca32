/* test_store_squares.c - squares of the gradient by granule, the terms of its norm (rule 16). */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/store_grid.h"
#include "run_tests.h"

static double gradient_at(size_t parameter, long place)
{
    uint32_t x = (uint32_t)(place * 2654435761u) ^ (uint32_t)(parameter * 40503u);
    x ^= x >> 13;
    x *= 0x5bd1e995u;
    x ^= x >> 15;
    return ((double)x / 4294967296.0 - 0.5) * 3;
}

/* Gradient of every slot by place; what is padding, and every second use, is poison. */
static void fill_gradients(ls_store *store)
{
    for (size_t i = 0; i < store->table->count; i++) {
        ls_slot *slot = &store->slots[i];
        for (size_t e = 0; e < slot->rows * slot->cols; e++) {
            long place =
                grid_place(&store->table->params[i], slot->shard, e / slot->cols, e % slot->cols);
            slot->grad[0][e] = place < 0 ? (ls_real)NAN : (ls_real)gradient_at(i, place);
            if (slot->grad[1]) slot->grad[1][e] = (ls_real)NAN;
        }
    }
}

/* The number of one granule by definition: its logical elements gathered row by row into one row,
 * then 16 lanes as in rule 10, written out. */
static double granule_by_hand(const ls_param *param, size_t parameter, size_t granule)
{
    ls_shard shard = {granule, 1};
    size_t rows, cols, n = 0;
    ls_param_shard_shape(param, shard, &rows, &cols);
    double lanes[16];
    for (int l = 0; l < 16; l++) lanes[l] = -0.0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            long place = grid_place(param, shard, r, c);
            if (place < 0) continue;
            double x = (double)(ls_real)gradient_at(parameter, place);
            lanes[n % 16] = n < 16 ? x * x : lanes[n % 16] + x * x;
            n++;
        }
    }
    for (int width = 8; width >= 1; width /= 2)
        for (int l = 0; l < width; l++) lanes[l] = lanes[2 * l] + lanes[2 * l + 1];
    return n == 0 ? 0.0 : lanes[0];
}

/* At every tp each rank writes the numbers of the granules it holds, with the serial bits, and no
 * other: so a norm counts shards once, replicas once and tied weights once. */
START_TEST(squares_at_every_tp)
{
    ls_config config = grid_model(_i);
    ls_param_table *table = table_of(&config);
    size_t n = ls_param_table_granules(table), at = 0;
    double *expected = malloc(n * sizeof *expected), *found = malloc(n * sizeof *found);
    for (size_t i = 0; i < table->count; i++)
        for (size_t g = 0; g < table->params[i].axis.granules; g++)
            expected[at++] = granule_by_hand(&table->params[i], i, g);
    ck_assert_uint_eq(at, n);
    const double untouched = -12345.0;
    for (size_t tp = 1; tp <= config.heads; tp++) {
        if (!grid_legal(&config, tp)) continue;
        for (size_t r = 0; r < tp; r++) {
            ls_store *store = rank_store(table, tp, r, NULL);
            fill_gradients(store);
            for (size_t g = 0; g < n; g++) found[g] = untouched;
            ls_store_squares(store, found);
            at = 0;
            for (size_t i = 0; i < table->count; i++) {
                ls_shard shard = grid_shard(&config, &table->params[i], tp, r);
                for (size_t g = 0; g < table->params[i].axis.granules; g++, at++) {
                    int held = g >= shard.first && g < shard.first + shard.count;
                    if (memcmp(&found[at], held ? &expected[at] : &untouched, sizeof untouched) !=
                        0)
                        ck_abort_msg("%s, tp %zu, rank %zu, granule %zu: %a, expected %a",
                                     table->params[i].name, tp, r, g, found[at],
                                     held ? expected[at] : untouched);
                }
            }
            ls_store_destroy(&store);
        }
    }
    free(expected);
    free(found);
    ls_param_table_destroy(&table);
}
END_TEST

/* Small integers: the numbers add up to the exact sum of squares. Where only the second use of a
 * tied parameter is held, it is not counted again. */
START_TEST(squares_are_exact_and_tied_counts_once)
{
    ls_config config = grid_model(0);
    ls_param_table *table = table_of(&config);
    size_t n = ls_param_table_granules(table);
    double *found = calloc(n, sizeof *found);
    ls_store *store = store_of(table, NULL, NULL);
    double exact = 0;
    for (size_t i = 0; i < table->count; i++) {
        for (size_t e = 0; e < store->slots[i].rows * store->slots[i].cols; e++) {
            int x = (int)((e * 7 + i) % 11) - 5;
            store->slots[i].grad[0][e] = (ls_real)x;
            if (e < ls_param_elements(&table->params[i])) exact += x * x;
        }
    }
    ls_store_squares(store, found);
    double sum = 0;
    for (size_t g = 0; g < n; g++) sum += found[g];
    ck_assert_double_eq(sum, exact);
    ls_store_destroy(&store);

    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    holdings[0] = (ls_holding){.held = true, .use_held = {false, true}, .shard = {0, 12}};
    store = store_of(table, holdings, NULL);
    for (size_t g = 0; g < n; g++) found[g] = 3;
    ls_store_squares(store, found);
    for (size_t g = 0; g < n; g++) ck_assert(found[g] == 3);
    ls_store_destroy(&store);
    free(holdings);
    free(found);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("store_squares", 60);
    tcase_add_loop_test(tcase, squares_at_every_tp, 0, GRID_MODELS);
    tcase_add_test(tcase, squares_are_exact_and_tied_counts_once);
    return run_tests();
}
