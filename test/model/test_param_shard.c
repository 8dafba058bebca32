/* test_param_shard.c - shards of every parameter at every legal tp: shape, copy in, copy out. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/model/param_table.h"
#include "model/shard_grid.h"
#include "run_tests.h"

enum { GUARD = 32 };

/* Element number i of an array of elements of `bytes` bytes: a value that says which one it is. */
static void put(unsigned char *array, size_t i, size_t bytes, uint64_t value)
{
    for (size_t b = 0; b < bytes; b++) array[i * bytes + b] = (unsigned char)(value >> 8 * b);
}

static int holds(const unsigned char *array, size_t i, size_t bytes, uint64_t value)
{
    unsigned char expected[8];
    put(expected, 0, bytes, value);
    return memcmp(array + i * bytes, expected, bytes) == 0;
}

/* Never 0, so that padding can be told from it. */
static uint64_t mark(size_t i)
{
    return i % 250 + 1 + (uint64_t)(i / 250) * 256;
}

typedef struct guarded {
    unsigned char *all, *data;
    size_t bytes;
} guarded;

static guarded guarded_of(size_t bytes, int filler)
{
    guarded g = {malloc(bytes + 2 * GUARD), NULL, bytes};
    g.data = g.all + GUARD;
    memset(g.all, 0xc3, bytes + 2 * GUARD);
    memset(g.data, filler, bytes);
    return g;
}

static void release(guarded *g)
{
    /* One assertion per byte would take Check minutes. */
    for (size_t i = 0; i < GUARD; i++)
        if (g->all[i] != 0xc3 || g->data[g->bytes + i] != 0xc3) ck_abort_msg("guard %zu", i);
    free(g->all);
}

static guarded whole_of(const ls_param *param, size_t bytes)
{
    guarded whole = guarded_of(ls_param_elements(param) * bytes, 0);
    for (size_t i = 0; i < ls_param_elements(param); i++) put(whole.data, i, bytes, mark(i));
    return whole;
}

/* One shard by definition: each element is the one whose place it has, padding is zero. Copies it
 * back into `assembled`, after its padding was spoilt: that must not arrive anywhere. Returns how
 * many elements of it are real. */
static size_t check_shard(const ls_param *param, ls_shard shard, size_t bytes, const guarded *whole,
                          guarded *assembled)
{
    size_t rows, cols, real = 0;
    ls_param_shard_shape(param, shard, &rows, &cols);
    guarded part = guarded_of(rows * cols * bytes, 0xa5);
    ls_param_shard_in(param, shard, bytes, part.data, whole->data);
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            long place = grid_place(param, shard, r, c);
            if (!holds(part.data, r * cols + c, bytes, place < 0 ? 0 : mark((size_t)place)))
                ck_abort_msg("%s: (%zu, %zu) of granules %zu..%zu", param->name, r, c, shard.first,
                             shard.first + shard.count);
            real += place >= 0;
            if (place < 0) memset(part.data + (r * cols + c) * bytes, 0x77, bytes);
        }
    }
    guarded before = guarded_of(assembled->bytes, 0);
    memcpy(before.data, assembled->data, assembled->bytes);
    ls_param_shard_out(param, shard, bytes, assembled->data, part.data);
    for (size_t i = 0; i < assembled->bytes; i++) /* wrote right values or nothing */
        if (assembled->data[i] != before.data[i] && assembled->data[i] != whole->data[i])
            ck_abort_msg("%s: byte %zu", param->name, i);
    release(&before);
    release(&part);
    return real;
}

/* Every parameter of every model, all ranks of every legal tp: the shards put together are the
 * whole. Covers: bias of a column cut sliced, of a row cut whole; a kv head held by every rank
 * whose query heads use it; q, k, v and gate, up cut each by itself; no vocabulary row dropped. */
START_TEST(every_parameter_at_every_tp)
{
    static const size_t element_bytes[] = {4, 8, 2, 1};
    ls_config config = grid_model(_i);
    ls_param_table *table = NULL;
    ck_assert_msg(ls_param_table_create(&table, &config) == LS_OK, "%s", ls_error_text());
    size_t layouts = 0;
    for (size_t tp = 1; tp <= config.heads; tp++) {
        if (!grid_legal(&config, tp)) continue;
        size_t bytes = element_bytes[layouts++ % 4];
        for (size_t i = 0; i < table->count; i++) {
            const ls_param *param = &table->params[i];
            guarded whole = whole_of(param, bytes);
            guarded assembled = guarded_of(whole.bytes, 0x5a);
            size_t real = 0;
            for (size_t r = 0; r < tp; r++)
                real += check_shard(param, grid_shard(&config, param, tp, r), bytes, &whole,
                                    &assembled);
            ck_assert(memcmp(assembled.data, whole.data, whole.bytes) == 0);
            if (param->kind != LS_GRANULE_NONE && param->kind != LS_GRANULE_KV_HEADS)
                ck_assert_uint_eq(real, ls_param_elements(param)); /* each element on one rank */
            release(&assembled);
            release(&whole);
        }
    }
    ck_assert_uint_ge(layouts, 2);
    ls_param_table_destroy(&table);
}
END_TEST

/* Runs that no tp gives: uneven, empty, one granule each. */
START_TEST(any_run_of_granules)
{
    ls_config config = grid_model(_i);
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    for (size_t i = 0; i < table->count; i++) {
        const ls_param *param = &table->params[i];
        if (param->cut < 0) continue;
        guarded whole = whole_of(param, 4);
        for (size_t step = 1; step <= param->axis.granules; step++) {
            guarded assembled = guarded_of(whole.bytes, 0x5a);
            for (size_t first = 0; first < param->axis.granules; first += step) {
                size_t left = param->axis.granules - first;
                check_shard(param, (ls_shard){first, left < step ? left : step}, 4, &whole,
                            &assembled);
                size_t rows, cols;
                ls_param_shard_shape(param, (ls_shard){first, 0}, &rows, &cols);
                ck_assert_uint_eq(rows * cols, 0);
                check_shard(param, (ls_shard){first, 0}, 4, &whole, &assembled);
            }
            ck_assert(memcmp(assembled.data, whole.data, whole.bytes) == 0);
            release(&assembled);
        }
        release(&whole);
    }
    ls_param_table_destroy(&table);
}
END_TEST

/* Shapes by hand. */
START_TEST(shapes)
{
    static const struct {
        const char *name;
        ls_shard shard;
        size_t rows, cols;
    } cases[] = {
        {"token_embedding.weight", {0, 12}, 384, 48},
        {"token_embedding.weight", {9, 3}, 96, 48},
        {"layers.1.norm1.weight", {0, 1}, 1, 48},
        {"layers.1.attention.query.weight", {4, 4}, 48, 16},
        {"layers.1.attention.key.weight", {1, 2}, 48, 8},
        {"layers.1.attention.output.weight", {4, 4}, 16, 48},
        {"layers.1.mlp.gate.weight", {3, 1}, 48, 11},
        {"layers.1.mlp.down.weight", {0, 6}, 66, 48},
        {"head.weight", {11, 1}, 32, 48},
    };
    ls_config config;
    ls_param_table *table = NULL;
    ck_assert_int_eq(ls_config_named("llama-nano", &config), LS_OK);
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t rows, cols, p = ls_param_find_name(table, cases[i].name);
        ck_assert_uint_lt(p, table->count);
        ls_param_shard_shape(&table->params[p], cases[i].shard, &rows, &cols);
        ck_assert_uint_eq(rows, cases[i].rows);
        ck_assert_uint_eq(cols, cases[i].cols);
    }
    ls_param_table_destroy(&table);

    ck_assert_int_eq(ls_config_named("gpt2-nano", &config), LS_OK);
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    size_t rows, cols, p = ls_param_find(table, LS_MLP_UP_BIAS, 3);
    ls_param_shard_shape(&table->params[p], (ls_shard){10, 2}, &rows, &cols);
    ck_assert(rows == 1 && cols == 32);
    ls_param_table_destroy(&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("param_shard", 60);
    tcase_add_loop_test(tcase, every_parameter_at_every_tp, 0, GRID_MODELS);
    tcase_add_loop_test(tcase, any_run_of_granules, 0, GRID_MODELS);
    tcase_add_test(tcase, shapes);
    return run_tests();
}
