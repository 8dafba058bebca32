/* test_store.c - what a rank holds: bytes by category, and initial values. */
#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/random.h"
#include "model/store_grid.h"
#include "run_tests.h"

static void assert_bytes(const ls_memory *memory, size_t values, size_t gradients, size_t optimizer)
{
    size_t one = sizeof(ls_real);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_PARAMETERS), values * one);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_GRADIENTS), gradients * one);
    ck_assert_uint_eq(ls_memory_bytes(memory, LS_MEM_OPTIMIZER), optimizer * one);
    ck_assert_uint_eq(ls_memory_total_bytes(memory), (values + gradients + optimizer) * one);
}

/* To the byte, at every tp: 1/tp of what is cut, all of what is replicated. gpt2-nano: tokens
 * padded to 384 rows; its gradient twice, for it is tied. */
START_TEST(bytes_of_gpt2_nano)
{
    enum {
        TOKENS = 384 * 48,
        CUT = 4 * (3 * (48 * 48 + 48) + 48 * 48 + 48 * 192 + 192 + 192 * 48), /* beside tokens */
        REPLICATED = 24 * 48 + 4 * (48 + 4 * 48 + 48) + 2 * 48
    };
    ls_config config;
    ASSERT_OK(ls_config_named("gpt2-nano", &config));
    ls_param_table *table = table_of(&config);
    static const size_t tps[] = {1, 2, 3, 4, 6, 12};
    for (size_t i = 0; i < 6; i++) {
        size_t tp = tps[i];
        for (size_t r = 0; r < tp; r++) {
            ls_memory *memory = NULL;
            ASSERT_OK(ls_memory_create(&memory));
            ls_store *store = rank_store(table, tp, r, memory);
            size_t values = (TOKENS + CUT) / tp + REPLICATED;
            assert_bytes(memory, values, values + TOKENS / tp, 2 * values);
            ls_store_destroy(&store);
            ck_assert_ptr_null(store);
            assert_bytes(memory, 0, 0, 0);
            ls_memory_destroy(&memory);
        }
    }
    ls_param_table_destroy(&table);
}
END_TEST

/* llama-nano: 12 query heads on 4 kv heads, so from tp 6 on a kv head is on several ranks. Untied.
 */
START_TEST(bytes_of_llama_nano)
{
    enum {
        CUT = 2 * 384 * 48 + 4 * (2 * 48 * 48 + 3 * 48 * 132),
        KV = 4 * 2 * 48 * 4, /* of one kv head, all layers */
        REPLICATED = 4 * 2 * 48 + 48
    };
    static const struct {
        size_t tp, kv_heads;
    } layouts[] = {{1, 4}, {2, 2}, {4, 1}, {6, 1}, {12, 1}};
    ls_config config;
    ASSERT_OK(ls_config_named("llama-nano", &config));
    ls_param_table *table = table_of(&config);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        ls_memory *memory = NULL;
        ASSERT_OK(ls_memory_create(&memory));
        size_t tp = layouts[i].tp;
        ls_store *store = rank_store(table, tp, tp - 1, memory);
        size_t values = CUT / tp + layouts[i].kv_heads * KV + REPLICATED;
        assert_bytes(memory, values, values, 2 * values);
        ls_store_destroy(&store);
        ls_memory_destroy(&memory);
    }
    /* tp 3: query heads 4 to 7 use kv heads 1 and 2. */
    ls_memory *memory = NULL;
    ASSERT_OK(ls_memory_create(&memory));
    ls_store *store = rank_store(table, 3, 1, memory);
    ck_assert_uint_eq(ls_store_slot(store, LS_KEY_WEIGHT, 1)->cols, 8);
    size_t values = CUT / 3 + 2 * KV + REPLICATED;
    assert_bytes(memory, values, values, 2 * values);
    ls_store_destroy(&store);
    ls_memory_destroy(&memory);
    ls_param_table_destroy(&table);
}
END_TEST

/* Whole by default; every array is apart from every other; optimizer state starts at +0. */
START_TEST(arrays_of_a_whole_store)
{
    for (int m = 0; m < GRID_MODELS; m++) {
        ls_config config = grid_model(m);
        ls_param_table *table = table_of(&config);
        ls_store *store = store_of(table, NULL, NULL);
        size_t number = 0;
        for (int pass = 0; pass < 2; pass++, number = 0) {
            for (size_t i = 0; i < table->count; i++) {
                ls_slot *slot = &store->slots[i];
                const ls_param *param = &table->params[i];
                size_t rows, cols;
                ls_param_shard_shape(param, (ls_shard){0, param->axis.granules}, &rows, &cols);
                ck_assert(slot->rows == rows && slot->cols == cols);
                ck_assert(slot->shard.first == 0 && slot->shard.count == param->axis.granules);
                ck_assert_ptr_eq(ls_store_slot(store, param->role, param->layer), slot);
                ck_assert((slot->grad[1] != NULL) == (param->uses == 2));
                ls_real *arrays[5] = {slot->m, slot->v, slot->value, slot->grad[0], slot->grad[1]};
                for (int a = 0; a < 5; a++) {
                    if (!arrays[a]) continue;
                    number++;
                    for (size_t e = 0; e < rows * cols; e++) {
                        ls_real x = arrays[a][e];
                        int good =
                            pass ? x == (ls_real)number : a > 1 || (x == 0 && !signbit((double)x));
                        if (!good) ck_abort_msg("%s: array %d", param->name, a);
                        arrays[a][e] = (ls_real)number;
                    }
                }
            }
        }
        ck_assert_ptr_null(ls_store_slot(store, LS_QUERY_WEIGHT, config.layers));
        ls_store_destroy(&store);
        ls_store_destroy(&store);
        ls_param_table_destroy(&table);
    }
}
END_TEST

/* A stage of a pipeline holds some parameters only, and of a tied one perhaps the second use. */
START_TEST(parts_of_a_model)
{
    ls_config config = grid_model(0);
    ls_param_table *table = table_of(&config);
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    size_t token = ls_param_find(table, LS_TOKEN_EMBEDDING, 0);
    size_t up = ls_param_find(table, LS_MLP_UP_WEIGHT, 1);
    holdings[token] = (ls_holding){.held = true, .use_held = {false, true}, .shard = {3, 2}};
    holdings[up] =
        (ls_holding){.held = true, .use_held = {true, false}, .shard = {4, 0}}; /* an empty share */
    ls_memory *memory = NULL;
    ASSERT_OK(ls_memory_create(&memory));
    ls_store *store = store_of(table, holdings, memory);
    assert_bytes(memory, 64 * 48, 64 * 48, 2 * 64 * 48);
    const ls_slot *slot = ls_store_slot(store, LS_TOKEN_EMBEDDING, 0);
    ck_assert(slot->rows == 64 && slot->cols == 48);
    ck_assert(slot->grad[0] == NULL && slot->grad[1] != NULL);
    slot = ls_store_slot(store, LS_MLP_UP_WEIGHT, 1);
    ck_assert(slot->rows == 48 && slot->cols == 0 && slot->value != NULL);
    ck_assert_ptr_null(ls_store_slot(store, LS_MLP_UP_WEIGHT, 0));
    ck_assert_ptr_null(ls_store_slot(store, LS_FINAL_NORM_SCALE, 0));
    ls_store_init(store, 1); /* touches nothing that is not there */
    ls_store_destroy(&store);

    /* What cannot be held. */
    static const struct {
        ls_holding holding;
        const char *text;
    } bad[] = {{{.held = true, .use_held = {true, true}, .shard = {11, 2}},
                "token_embedding.weight: granules 11 to 13"},
               {{.held = true, .use_held = {true, true}, .shard = {13, 0}},
                "token_embedding.weight: granules 13 to 13"},
               {{.held = true, .use_held = {true, true}, .shard = {(size_t)-1, 2}},
                "token_embedding.weight: granules"}};
    for (size_t i = 0; i < 3; i++) {
        holdings[token] = bad[i].holding;
        store = (ls_store *)&store;
        ck_assert_int_eq(ls_store_create(&store, table, holdings, memory), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), bad[i].text) != NULL, "%s", ls_error_text());
        ck_assert_ptr_eq(store, (ls_store *)&store);
        ls_error_clear();
    }
    holdings[token] = (ls_holding){.held = true, .use_held = {true, true}, .shard = {0, 12}};
    holdings[up] = (ls_holding){.held = true, .use_held = {true, true}, .shard = {0, 12}};
    ck_assert_int_eq(ls_store_create(&store, table, holdings, memory), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "layers.1.mlp.up.weight: use 1"));
    ls_error_clear();
    holdings[up].held = false;
    holdings[ls_param_find(table, LS_NORM1_SCALE, 0)] =
        (ls_holding){.held = true, .use_held = {true}, .shard = {0, 0}};
    ck_assert_int_eq(ls_store_create(&store, table, holdings, memory), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "layers.0.norm1.weight: is never cut"));
    ls_error_clear();
    ck_assert_uint_eq(ls_memory_total_bytes(memory), 0); /* failures gave everything back */
    ls_memory_destroy(&memory);
    free(holdings);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- initial values ---- */

static void assert_bits(ls_real found, ls_real expected, const char *name)
{
    if (memcmp(&found, &expected, sizeof found) != 0)
        ck_abort_msg("%s: %a, expected %a", name, (double)found, (double)expected);
}

/* Each element of the whole store by the definition. */
START_TEST(initial_values_are_the_definition)
{
    ls_config config = grid_model(_i);
    ls_param_table *table = table_of(&config);
    ls_store *store = store_of(table, NULL, NULL);
    uint64_t seed = 0x123456789abcdef0u;
    ls_store_init(store, seed);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        const ls_slot *slot = &store->slots[i];
        ls_stream stream = {seed, LS_RANDOM_INIT, (uint32_t)i, 0};
        for (size_t r = 0; r < slot->rows; r++) {
            for (size_t c = 0; c < slot->cols; c++) {
                long place = grid_place(param, slot->shard, r, c);
                ls_real expected = (ls_real)0;
                if (place >= 0 && param->init == LS_INIT_ONE) expected = (ls_real)1;
                if (place >= 0 && param->init == LS_INIT_NORMAL)
                    expected =
                        (ls_real)(float)(param->std * ls_random_normal(stream, (uint64_t)place));
                assert_bits(slot->value[r * slot->cols + c], expected, param->name);
            }
        }
    }
    ls_store_destroy(&store);
    ls_param_table_destroy(&table);
}
END_TEST

/* Every rank of every tp draws its slice of the serial model, its padding is +0, and what several
 * ranks hold is the same on all: so replicas do not differ at the start, shards are not drawn from
 * the same numbers, and no layout changes the model. */
START_TEST(shards_start_as_slices_of_the_whole)
{
    ls_config config = grid_model(_i);
    ls_param_table *table = table_of(&config);
    ls_store *serial = store_of(table, NULL, NULL);
    ls_store_init(serial, 77);
    for (size_t tp = 1; tp <= config.heads; tp++) {
        if (!grid_legal(&config, tp)) continue;
        for (size_t r = 0; r < tp; r++) {
            ls_store *store = rank_store(table, tp, r, NULL);
            for (size_t i = 0; i < table->count; i++)
                memset(store->slots[i].value, 0xff,
                       store->slots[i].rows * store->slots[i].cols * sizeof(ls_real));
            ls_store_init(store, 77);
            for (size_t i = 0; i < table->count; i++) {
                const ls_param *param = &table->params[i];
                const ls_slot *slot = &store->slots[i];
                for (size_t row = 0; row < slot->rows; row++) {
                    for (size_t col = 0; col < slot->cols; col++) {
                        long place = grid_place(param, slot->shard, row, col);
                        /* The whole one is padded behind its rows only: places are the same. */
                        ls_real expected = place < 0 ? (ls_real)0 : serial->slots[i].value[place];
                        assert_bits(slot->value[row * slot->cols + col], expected, param->name);
                    }
                }
            }
            ls_store_destroy(&store);
        }
    }
    ls_store_destroy(&serial);
    ls_param_table_destroy(&table);
}
END_TEST

/* Different parameters, layers, halves of one parameter and seeds get different numbers; they have
 * the spread they should; binary64 starts from the same binary32 numbers. */
START_TEST(initial_values_differ_and_spread)
{
    ls_config config;
    ASSERT_OK(ls_config_named("gpt2-nano", &config));
    ls_param_table *table = table_of(&config);
    ls_store *store = store_of(table, NULL, NULL), *other = store_of(table, NULL, NULL);
    ls_store_init(store, 1);
    ls_store_init(other, 2);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        if (param->init != LS_INIT_NORMAL) continue;
        const ls_real *x = store->slots[i].value;
        size_t n = ls_param_elements(param), half = n / 2 * sizeof(ls_real);
        ck_assert(memcmp(x, other->slots[i].value, n * sizeof *x) != 0);
        ck_assert(memcmp(x, x + n / 2, half) != 0);
        for (size_t j = 0; j < i; j++) /* no two begin alike, up to their scale */
            if (table->params[j].init == LS_INIT_NORMAL)
                ck_assert(fabs((double)x[0] / param->std -
                               (double)store->slots[j].value[0] / table->params[j].std) > 1e-6);
        double sum = 0, squares = 0;
        for (size_t e = 0; e < n; e++) {
            if ((double)x[e] != (double)(float)x[e]) ck_abort_msg("%s: not binary32", param->name);
            sum += (double)x[e];
            squares += (double)x[e] * (double)x[e];
        }
        /* Five standard errors of mean and variance. */
        double size = (double)n;
        ck_assert(fabs(sum / size) < 5 * param->std / sqrt(size));
        ck_assert(fabs(squares / size / (param->std * param->std) - 1) < 5 * sqrt(2 / size));
    }
    ls_store_destroy(&store);
    ls_store_destroy(&other);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("store", 60);
    tcase_add_test(tcase, bytes_of_gpt2_nano);
    tcase_add_test(tcase, bytes_of_llama_nano);
    tcase_add_test(tcase, arrays_of_a_whole_store);
    tcase_add_test(tcase, parts_of_a_model);
    tcase_add_loop_test(tcase, initial_values_are_the_definition, 0, GRID_MODELS);
    tcase_add_loop_test(tcase, shards_start_as_slices_of_the_whole, 0, GRID_MODELS);
    tcase_add_test(tcase, initial_values_differ_and_spread);
    return run_tests();
}
