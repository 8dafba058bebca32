/* test_param_table.c - the one list of parameters, entry by entry against lists written by hand. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/model/param_table.h"
#include "run_tests.h"

/* One expected entry. A name with a leading dot stands in every layer, behind "layers.N". */
typedef struct expected {
    const char *name;
    ls_role role;
    size_t rows, cols; /* cols 0: a vector */
    int cut;
    int kind;
    size_t granules, granule;
    double std; /* 0 for norms (ones) and biases (zeros) */
} expected;

static const double SMALL = 0.02 / 2.8284271247461903; /* 0.02 / sqrt(2 * 4 layers) */

/* clang-format off */
enum {
    NONE = LS_GRANULE_NONE, HEADS = LS_GRANULE_HEADS, KV = LS_GRANULE_KV_HEADS, FF = LS_GRANULE_FF,
    VOCAB = LS_GRANULE_VOCAB
};

static const expected gpt2_nano[] = {
    {"token_embedding.weight",    LS_TOKEN_EMBEDDING,    256, 48,  0, VOCAB, 12, 32, 0.02},
    {"position_embedding.weight", LS_POSITION_EMBEDDING,  24, 48, -1, NONE,   1, 24, 0.02},
    {".norm1.weight",             LS_NORM1_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".norm1.bias",               LS_NORM1_SHIFT,         48,  0, -1, NONE,   1, 48, 0},
    {".attention.query.weight",   LS_QUERY_WEIGHT,        48, 48,  1, HEADS, 12,  4, 0.02},
    {".attention.query.bias",     LS_QUERY_BIAS,          48,  0,  0, HEADS, 12,  4, 0},
    {".attention.key.weight",     LS_KEY_WEIGHT,          48, 48,  1, KV,    12,  4, 0.02},
    {".attention.key.bias",       LS_KEY_BIAS,            48,  0,  0, KV,    12,  4, 0},
    {".attention.value.weight",   LS_VALUE_WEIGHT,        48, 48,  1, KV,    12,  4, 0.02},
    {".attention.value.bias",     LS_VALUE_BIAS,          48,  0,  0, KV,    12,  4, 0},
    {".attention.output.weight",  LS_ATTN_OUT_WEIGHT,     48, 48,  0, HEADS, 12,  4, SMALL},
    {".attention.output.bias",    LS_ATTN_OUT_BIAS,       48,  0, -1, NONE,   1, 48, 0},
    {".norm2.weight",             LS_NORM2_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".norm2.bias",               LS_NORM2_SHIFT,         48,  0, -1, NONE,   1, 48, 0},
    {".mlp.up.weight",            LS_MLP_UP_WEIGHT,       48,192,  1, FF,    12, 16, 0.02},
    {".mlp.up.bias",              LS_MLP_UP_BIAS,        192,  0,  0, FF,    12, 16, 0},
    {".mlp.down.weight",          LS_MLP_DOWN_WEIGHT,    192, 48,  0, FF,    12, 16, SMALL},
    {".mlp.down.bias",            LS_MLP_DOWN_BIAS,       48,  0, -1, NONE,   1, 48, 0},
    {"final_norm.weight",         LS_FINAL_NORM_SCALE,    48,  0, -1, NONE,   1, 48, 0},
    {"final_norm.bias",           LS_FINAL_NORM_SHIFT,    48,  0, -1, NONE,   1, 48, 0},
};

static const expected llama_nano[] = {
    {"token_embedding.weight",    LS_TOKEN_EMBEDDING,    256, 48,  0, VOCAB, 12, 32, 0.02},
    {".norm1.weight",             LS_NORM1_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".attention.query.weight",   LS_QUERY_WEIGHT,        48, 48,  1, HEADS, 12,  4, 0.02},
    {".attention.key.weight",     LS_KEY_WEIGHT,          48, 16,  1, KV,     4,  4, 0.02},
    {".attention.value.weight",   LS_VALUE_WEIGHT,        48, 16,  1, KV,     4,  4, 0.02},
    {".attention.output.weight",  LS_ATTN_OUT_WEIGHT,     48, 48,  0, HEADS, 12,  4, SMALL},
    {".norm2.weight",             LS_NORM2_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".mlp.gate.weight",          LS_MLP_GATE_WEIGHT,     48,132,  1, FF,    12, 11, 0.02},
    {".mlp.up.weight",            LS_MLP_UP_WEIGHT,       48,132,  1, FF,    12, 11, 0.02},
    {".mlp.down.weight",          LS_MLP_DOWN_WEIGHT,    132, 48,  0, FF,    12, 11, SMALL},
    {"final_norm.weight",         LS_FINAL_NORM_SCALE,    48,  0, -1, NONE,   1, 48, 0},
    {"head.weight",               LS_HEAD_WEIGHT,        256, 48,  0, VOCAB, 12, 32, 0.02},
};

/* Norms behind attention and MLP; nothing starts smaller. */
static const expected bert_nano[] = {
    {"token_embedding.weight",    LS_TOKEN_EMBEDDING,    260, 48,  0, VOCAB, 12, 32, 0.02},
    {"position_embedding.weight", LS_POSITION_EMBEDDING,  24, 48, -1, NONE,   1, 24, 0.02},
    {"token_type_embedding.weight", LS_TYPE_EMBEDDING,     2, 48, -1, NONE,   1,  2, 0.02},
    {"embedding_norm.weight",     LS_EMBEDDING_NORM_SCALE,48,  0, -1, NONE,   1, 48, 0},
    {"embedding_norm.bias",       LS_EMBEDDING_NORM_SHIFT,48,  0, -1, NONE,   1, 48, 0},
    {".attention.query.weight",   LS_QUERY_WEIGHT,        48, 48,  1, HEADS, 12,  4, 0.02},
    {".attention.query.bias",     LS_QUERY_BIAS,          48,  0,  0, HEADS, 12,  4, 0},
    {".attention.key.weight",     LS_KEY_WEIGHT,          48, 48,  1, KV,    12,  4, 0.02},
    {".attention.key.bias",       LS_KEY_BIAS,            48,  0,  0, KV,    12,  4, 0},
    {".attention.value.weight",   LS_VALUE_WEIGHT,        48, 48,  1, KV,    12,  4, 0.02},
    {".attention.value.bias",     LS_VALUE_BIAS,          48,  0,  0, KV,    12,  4, 0},
    {".attention.output.weight",  LS_ATTN_OUT_WEIGHT,     48, 48,  0, HEADS, 12,  4, 0.02},
    {".attention.output.bias",    LS_ATTN_OUT_BIAS,       48,  0, -1, NONE,   1, 48, 0},
    {".norm1.weight",             LS_NORM1_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".norm1.bias",               LS_NORM1_SHIFT,         48,  0, -1, NONE,   1, 48, 0},
    {".mlp.up.weight",            LS_MLP_UP_WEIGHT,       48,192,  1, FF,    12, 16, 0.02},
    {".mlp.up.bias",              LS_MLP_UP_BIAS,        192,  0,  0, FF,    12, 16, 0},
    {".mlp.down.weight",          LS_MLP_DOWN_WEIGHT,    192, 48,  0, FF,    12, 16, 0.02},
    {".mlp.down.bias",            LS_MLP_DOWN_BIAS,       48,  0, -1, NONE,   1, 48, 0},
    {".norm2.weight",             LS_NORM2_SCALE,         48,  0, -1, NONE,   1, 48, 0},
    {".norm2.bias",               LS_NORM2_SHIFT,         48,  0, -1, NONE,   1, 48, 0},
    {"masked_head.dense.weight",  LS_MASKED_DENSE_WEIGHT, 48, 48, -1, NONE,   1, 48, 0.02},
    {"masked_head.dense.bias",    LS_MASKED_DENSE_BIAS,   48,  0, -1, NONE,   1, 48, 0},
    {"masked_head.norm.weight",   LS_MASKED_NORM_SCALE,   48,  0, -1, NONE,   1, 48, 0},
    {"masked_head.norm.bias",     LS_MASKED_NORM_SHIFT,   48,  0, -1, NONE,   1, 48, 0},
    {"masked_head.bias",          LS_VOCAB_BIAS,         260,  0,  0, VOCAB, 12, 32, 0},
    {"pooler.weight",             LS_POOLER_WEIGHT,       48, 48, -1, NONE,   1, 48, 0.02},
    {"pooler.bias",               LS_POOLER_BIAS,         48,  0, -1, NONE,   1, 48, 0},
    {"order_head.weight",         LS_ORDER_WEIGHT,        48,  2, -1, NONE,   1, 48, 0.02},
    {"order_head.bias",           LS_ORDER_BIAS,           2,  0, -1, NONE,   1,  2, 0},
};
/* clang-format on */

static ls_param_table *table_of(const ls_config *config)
{
    ls_param_table *table = NULL;
    ck_assert_msg(ls_param_table_create(&table, config) == LS_OK, "%s", ls_error_text());
    return table;
}

static ls_config named(const char *name)
{
    ls_config config;
    ck_assert_int_eq(ls_config_named(name, &config), LS_OK);
    return config;
}

static void assert_entry(const ls_param *found, const expected *e, size_t layer, int tied)
{
    int layered = e->name[0] == '.', vector = e->cols == 0;
    char name[96];
    if (layered)
        snprintf(name, sizeof name, "layers.%zu%s", layer, e->name);
    else
        snprintf(name, sizeof name, "%s", e->name);
    ck_assert_str_eq(found->name, name);
    ck_assert_int_eq(found->role, e->role);
    ck_assert_uint_eq(found->layer, layered ? layer : 0);
    ck_assert_int_eq(found->n_dims, vector ? 1 : 2);
    ck_assert_uint_eq(found->dims[0], e->rows);
    ck_assert_uint_eq(found->dims[1], vector ? 1 : e->cols);
    ck_assert_int_eq(found->cut, e->cut);
    ck_assert_int_eq((int)found->kind, e->kind);
    ck_assert_uint_eq(found->axis.granules, e->granules);
    ck_assert_uint_eq(found->axis.granule, e->granule);
    ck_assert(fabs(found->std - e->std) < 1e-17);
    ck_assert_int_eq(found->decay, !vector);
    /* Norm scales are the vectors called weight. */
    ck_assert_int_eq(found->init, !vector                     ? LS_INIT_NORMAL
                                  : strstr(e->name, "weight") ? LS_INIT_ONE
                                                              : LS_INIT_ZERO);
    int shared = tied && e->role == LS_TOKEN_EMBEDDING;
    ck_assert_int_eq(found->uses, shared ? 2 : 1);
    ck_assert_int_eq(found->also_last, shared);
    int last = e->role >= LS_FINAL_NORM_SCALE && e->role != LS_TYPE_EMBEDDING &&
               e->role != LS_EMBEDDING_NORM_SCALE && e->role != LS_EMBEDDING_NORM_SHIFT;
    ck_assert_int_eq(found->stage, layered ? LS_STAGE_LAYER
                                   : last  ? LS_STAGE_LAST
                                           : LS_STAGE_FIRST);
}

/* The whole table: what stands before the layers, each layer, what stands behind. */
static void assert_table(const ls_param_table *table, const expected *list, size_t n)
{
    size_t at = 0, from = 0, to;
    while (list[from].name[0] != '.') from++;
    for (to = from; list[to].name[0] == '.'; to++) continue;
    for (size_t i = 0; i < from; i++)
        assert_entry(&table->params[at++], &list[i], 0, table->config.tied);
    for (size_t layer = 0; layer < table->config.layers; layer++)
        for (size_t i = from; i < to; i++)
            assert_entry(&table->params[at++], &list[i], layer, table->config.tied);
    for (size_t i = to; i < n; i++)
        assert_entry(&table->params[at++], &list[i], 0, table->config.tied);
    ck_assert_uint_eq(table->count, at);
}

START_TEST(table_of_gpt2_nano)
{
    ls_config config = named("gpt2-nano");
    ls_param_table *table = table_of(&config);
    assert_table(table, gpt2_nano, sizeof gpt2_nano / sizeof gpt2_nano[0]);
    ck_assert_uint_eq(ls_param_table_elements(table), 126624);
    /* Each layer: 6 whole vectors and 10 parameters of 12 granules. */
    ck_assert_uint_eq(ls_param_table_granules(table), 12 + 1 + 4 * (6 + 10 * 12) + 2);
    ls_param_table_destroy(&table);
    ck_assert_ptr_null(table);
    ls_param_table_destroy(&table);
}
END_TEST

START_TEST(table_of_llama_nano)
{
    ls_config config = named("llama-nano");
    ls_param_table *table = table_of(&config);
    assert_table(table, llama_nano, sizeof llama_nano / sizeof llama_nano[0]);
    ck_assert_uint_eq(ls_param_table_elements(table), 125616);
    ck_assert_uint_eq(ls_param_table_granules(table), 12 + 4 * (2 + 5 * 12 + 2 * 4) + 1 + 12);
    ls_param_table_destroy(&table);
}
END_TEST

START_TEST(table_of_bert_nano)
{
    ls_config config = named("bert-nano");
    ls_param_table *table = table_of(&config);
    assert_table(table, bert_nano, sizeof bert_nano / sizeof bert_nano[0]);
    ls_param_table_destroy(&table);

    /* Megatron-LM's rearrangement: GPT-2's layers and final norm, no norm after the embedding. */
    ls_config_place_norms(&config, LS_NORM_PRE);
    table = table_of(&config);
    ck_assert_uint_eq(ls_param_find(table, LS_EMBEDDING_NORM_SCALE, 0), (size_t)-1);
    size_t type = ls_param_find(table, LS_TYPE_EMBEDDING, 0);
    ck_assert_str_eq(table->params[type + 1].name, "layers.0.norm1.weight");
    ck_assert_uint_eq(ls_param_find(table, LS_ATTN_OUT_BIAS, 0) + 1,
                      ls_param_find(table, LS_NORM2_SCALE, 0));
    const ls_param *out = &table->params[ls_param_find(table, LS_ATTN_OUT_WEIGHT, 1)];
    ck_assert(fabs(out->std - SMALL) < 1e-17);
    size_t final = ls_param_find(table, LS_FINAL_NORM_SHIFT, 0);
    ck_assert_str_eq(table->params[final + 1].name, "masked_head.dense.weight");
    ck_assert_uint_eq(table->count, final + 10);
    ls_param_table_destroy(&table);
}
END_TEST

/* The published size of BERT base, uncased: 110 million, which counts the decoder's bias and the
 * two heads. */
START_TEST(parameters_of_bert_base)
{
    ls_config config = named("bert-nano");
    config.layers = 12;
    config.d_model = 768;
    config.d_ff = 3072;
    config.seq = 512;
    config.vocab = 30522;
    ls_param_table *table = table_of(&config);
    ck_assert_uint_eq(ls_param_table_elements(table), 110106428);
    ls_param_table_destroy(&table);
}
END_TEST

/* The published size of GPT-2 small: tied weights once, no padded rows. */
START_TEST(parameters_of_gpt2_124m)
{
    ls_config config = named("gpt2-124m");
    ls_param_table *table = table_of(&config);
    ck_assert_uint_eq(ls_param_table_elements(table), 124439808);
    ls_param_table_destroy(&table);
}
END_TEST

/* The cut that Megatron-LM rejects: the first matrix by rows, so that its bias is added once,
 * whole, after the reduction. */
START_TEST(row_first_mlp)
{
    ls_config config = named("gpt2-nano");
    config.mlp_cut = LS_MLP_ROW_FIRST;
    ls_param_table *table = table_of(&config);
    const ls_param *up = &table->params[ls_param_find(table, LS_MLP_UP_WEIGHT, 2)];
    const ls_param *bias = &table->params[ls_param_find(table, LS_MLP_UP_BIAS, 2)];
    const ls_param *down = &table->params[ls_param_find(table, LS_MLP_DOWN_WEIGHT, 2)];
    ck_assert(up->cut == 0 && up->kind == LS_GRANULE_MODEL);
    ck_assert(up->axis.granules == 12 && up->axis.granule == 4);
    ck_assert(up->dims[0] == 48 && up->dims[1] == 192);
    ck_assert(bias->cut == -1 && bias->kind == LS_GRANULE_NONE);
    ck_assert(bias->axis.granules == 1 && bias->axis.granule == 192);
    ck_assert(down->cut == 0 && down->kind == LS_GRANULE_FF);
    ck_assert(down->axis.granules == 12 && down->axis.granule == 16);
    ls_param_table_destroy(&table);
}
END_TEST

/* Every choice: which roles exist. */
START_TEST(roles_by_choice)
{
    for (int choice = 0; choice < 1024; choice++) {
        ls_config config = named("gpt2-nano");
        config.layers = 2;
        config.bias = choice & 1;
        config.tied = choice & 2;
        config.norm = choice & 4 ? LS_RMS_NORM : LS_LAYER_NORM;
        config.position = choice & 8 ? LS_ROTARY : LS_LEARNED;
        config.activation = choice & 16 ? LS_SWIGLU : LS_GELU_ERF;
        config.kv_heads = choice & 32 ? 3 : 12;
        config.norm_place = choice & 64 ? LS_NORM_POST : LS_NORM_PRE;
        config.objective = choice & 128 ? LS_MASKED_TOKEN : LS_NEXT_TOKEN;
        config.sentence_order = choice & 256;
        config.embedding_norm = choice & 512;
        config.token_types = choice & 512 ? 3 : 0;
        bool masked = config.objective == LS_MASKED_TOKEN;
        if (config.sentence_order && !masked) continue;
        if (config.activation == LS_SWIGLU && config.bias) continue; /* not a model */
        ls_param_table *table = table_of(&config);
        size_t found = 0;
        for (int role = 0; role < LS_ROLES; role++) {
            int there = 1;
            switch ((ls_role)role) {
            case LS_POSITION_EMBEDDING:
                there = config.position == LS_LEARNED;
                break;
            case LS_NORM1_SHIFT:
            case LS_NORM2_SHIFT:
                there = config.bias && config.norm == LS_LAYER_NORM;
                break;
            case LS_FINAL_NORM_SCALE:
                there = config.norm_place == LS_NORM_PRE;
                break;
            case LS_FINAL_NORM_SHIFT:
                there =
                    config.norm_place == LS_NORM_PRE && config.bias && config.norm == LS_LAYER_NORM;
                break;
            case LS_TYPE_EMBEDDING:
                there = config.token_types > 0;
                break;
            case LS_EMBEDDING_NORM_SCALE:
                there = config.embedding_norm;
                break;
            case LS_EMBEDDING_NORM_SHIFT:
                there = config.embedding_norm && config.bias && config.norm == LS_LAYER_NORM;
                break;
            case LS_MASKED_DENSE_WEIGHT:
            case LS_MASKED_NORM_SCALE:
                there = masked;
                break;
            case LS_MASKED_NORM_SHIFT:
                there = masked && config.bias && config.norm == LS_LAYER_NORM;
                break;
            case LS_MASKED_DENSE_BIAS:
            case LS_VOCAB_BIAS:
                there = masked && config.bias;
                break;
            case LS_POOLER_WEIGHT:
            case LS_ORDER_WEIGHT:
                there = config.sentence_order;
                break;
            case LS_POOLER_BIAS:
            case LS_ORDER_BIAS:
                there = config.sentence_order && config.bias;
                break;
            case LS_QUERY_BIAS:
            case LS_KEY_BIAS:
            case LS_VALUE_BIAS:
            case LS_ATTN_OUT_BIAS:
            case LS_MLP_UP_BIAS:
            case LS_MLP_DOWN_BIAS:
                there = config.bias;
                break;
            case LS_MLP_GATE_WEIGHT:
                there = config.activation == LS_SWIGLU;
                break;
            case LS_HEAD_WEIGHT:
                there = !config.tied;
                break;
            default:
                there = role < LS_CONV_WEIGHT; /* the rest is of convolutional networks */
                break;
            }
            int layered = role >= LS_NORM1_SCALE && role < LS_FINAL_NORM_SCALE;
            for (size_t layer = 0; layer < 3; layer++) {
                size_t i = ls_param_find(table, (ls_role)role, layer);
                if (!there || layer >= (layered ? 2 : 1)) {
                    ck_assert_uint_eq(i, (size_t)-1);
                    continue;
                }
                found++;
                ck_assert_uint_lt(i, table->count);
                ck_assert(table->params[i].role == (ls_role)role &&
                          table->params[i].layer == layer);
            }
        }
        ck_assert_uint_eq(found, table->count);
        ls_param_table_destroy(&table);
    }
}
END_TEST

/* Layer names are global numbers, and no name stands twice. */
START_TEST(names_are_unique)
{
    ls_config config = named("llama-nano");
    config.layers = 12;
    ls_param_table *table = table_of(&config);
    for (size_t i = 0; i < table->count; i++)
        ck_assert_uint_eq(ls_param_find_name(table, table->params[i].name), i);
    ck_assert_uint_eq(ls_param_find_name(table, "layers.12.norm1.weight"), (size_t)-1);
    ck_assert_uint_eq(ls_param_find_name(table, ""), (size_t)-1);
    ck_assert_uint_ne(ls_param_find_name(table, "layers.11.mlp.gate.weight"), (size_t)-1);
    ls_param_table_destroy(&table);
}
END_TEST

/* A place in the table must fit the 16 bits it has in the counter of the random numbers. */
START_TEST(largest_table_fits_the_counter)
{
    ls_config config = named("gpt2-nano");
    config.layers = 4000;
    ls_param_table *table = table_of(&config);
    ck_assert_uint_le(table->count, 65536);
    ck_assert_str_eq(table->params[table->count - 3].name, "layers.3999.mlp.down.bias");
    ls_param_table_destroy(&table);
}
END_TEST

START_TEST(illegal_configuration_is_refused)
{
    ls_config config = named("gpt2-nano");
    config.heads = 7;
    ls_param_table *table = (ls_param_table *)&table;
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "--heads 7"));
    ck_assert_ptr_eq(table, (ls_param_table *)&table);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("param_table", 0);
    tcase_add_test(tcase, table_of_gpt2_nano);
    tcase_add_test(tcase, table_of_llama_nano);
    tcase_add_test(tcase, table_of_bert_nano);
    tcase_add_test(tcase, parameters_of_bert_base);
    tcase_add_test(tcase, parameters_of_gpt2_124m);
    tcase_add_test(tcase, row_first_mlp);
    tcase_add_test(tcase, roles_by_choice);
    tcase_add_test(tcase, names_are_unique);
    tcase_add_test(tcase, largest_table_fits_the_counter);
    tcase_add_test(tcase, illegal_configuration_is_refused);
    return run_tests();
}
