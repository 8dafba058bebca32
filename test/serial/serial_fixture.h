/* serial_fixture.h - small models of every kind, with all dimensions different, filled with noise;
 * for the tests of this folder. */
#ifndef LS_TEST_SERIAL_FIXTURE_H
#define LS_TEST_SERIAL_FIXTURE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/kernels/cross_entropy.h"
#include "lockstep/serial/serial.h"
#include "numerics/tree_reference.h"

/* ---- models ---- */

enum { TINY_B = 4, TINY_S = 5, TINY_TOKENS = TINY_B * TINY_S };

/* L 2, heads 6 (width 2) over 3 key/value heads, D 12, F 10 in 2 granules of 5, positions for 7, a
 * vocabulary of 13 padded to 384. eps is large so that a place where it is missing shows. */
static inline ls_config tiny_base(const char *name)
{
    ls_config config = {
        .layers = 2,
        .d_model = 12,
        .heads = 6,
        .kv_heads = 6,
        .d_ff = 10,
        .seq = 7,
        .vocab = 13,
        .batch = TINY_B,
        .norm = LS_LAYER_NORM,
        .activation = LS_GELU_TANH,
        .position = LS_LEARNED,
        .mlp_cut = LS_MLP_COLUMN_FIRST,
        .causal = true,
        .bias = true,
        .tied = true,
        .dropout = 0.2,
        .norm_eps = 0.01,
        .rope_theta = 100,
        .init_std = 0.02,
        .label_smoothing = 0,
    };
    strcpy(config.name, name);
    return config;
}

static inline ls_config tiny_llama(const char *name)
{
    ls_config config = tiny_base(name);
    config.kv_heads = 3;
    config.norm = LS_RMS_NORM;
    config.activation = LS_SWIGLU;
    config.position = LS_ROTARY;
    config.bias = false;
    config.tied = false;
    return config;
}

static inline ls_config tiny_bert(const char *name, ls_norm_place place)
{
    ls_config config = tiny_base(name);
    config.activation = LS_GELU_ERF;
    config.causal = false;
    config.objective = LS_MASKED_TOKEN;
    config.token_types = 3;
    config.sentence_order = true;
    ls_config_place_norms(&config, place);
    return config;
}

/* The first N_TINY are GPTs; then come BERTs, and a GPT with its norms behind the residual sums. */
enum { N_TINY = 9, N_TINY_SERIAL = 14 };

/* Model number i of N_TINY_SERIAL. */
static inline ls_config tiny_config(size_t i)
{
    ls_config config;
    switch (i) {
    case 9: /* as published */
        return tiny_bert("bert", LS_NORM_POST);
    case 10: /* Megatron-LM's rearrangement */
        return tiny_bert("bert-pre", LS_NORM_PRE);
    case 11: /* BERT's heads and norm places with everything else Llama's */
        config = tiny_llama("bert-llama");
        config.objective = LS_MASKED_TOKEN;
        config.sentence_order = true;
        config.causal = false;
        config.label_smoothing = 0.1;
        ls_config_place_norms(&config, LS_NORM_POST);
        return config;
    case 12: /* one loss; a norm after the embedding and one at the end */
        config = tiny_bert("bert-one-loss", LS_NORM_PRE);
        config.sentence_order = false;
        config.embedding_norm = true;
        config.kv_heads = 2;
        return config;
    case 13:
        config = tiny_base("gpt-post");
        config.norm_place = LS_NORM_POST;
        return config;
    case 0: /* GPT-2's choices */
        return tiny_base("gpt2");
    case 1: /* the exact GELU, every token sees every token, untied */
        config = tiny_base("erf-full-untied");
        config.activation = LS_GELU_ERF;
        config.causal = false;
        config.tied = false;
        return config;
    case 2: /* Llama's choices: 2 query heads to a key head */
        return tiny_llama("llama");
    case 3: /* one key head for all, rotary over more than one pair, tied */
        config = tiny_llama("llama-one-kv-tied");
        config.heads = 3;
        config.kv_heads = 1;
        config.tied = true;
        return config;
    case 4: /* the first matrix of the MLP cut by rows */
        config = tiny_base("row-first");
        config.mlp_cut = LS_MLP_ROW_FIRST;
        return config;
    case 5:
        config = tiny_base("smoothing");
        config.label_smoothing = 0.1;
        return config;
    case 6: /* LayerNorm without shift, no biases, rotary with a GELU */
        config = tiny_base("no-bias");
        config.bias = false;
        config.position = LS_ROTARY;
        config.kv_heads = 2;
        return config;
    case 7: /* one layer, one head; F 10 is one granule */
        config = tiny_base("one-head");
        config.layers = 1;
        config.heads = config.kv_heads = 1;
        return config;
    default: /* RMSNorm with biases, smoothing with grouped heads */
        config = tiny_base("rms-bias-grouped");
        config.norm = LS_RMS_NORM;
        config.kv_heads = 2;
        config.label_smoothing = 0.3;
        config.tied = false;
        return config;
    }
}

/* ---- batches ---- */

typedef struct tiny_ids {
    int32_t tokens[TINY_TOKENS], targets[TINY_TOKENS];
    int32_t segments[TINY_TOKENS], lengths[TINY_B], order[TINY_B]; /* masked-token models */
} tiny_ids;

/* Noise for tokens and targets; every seventh target is ignored, and all of the last sequence but
 * one, so that sequences have unequal numbers of valid targets. */
static inline ls_batch tiny_batch(tiny_ids *ids, size_t vocab)
{
    uint64_t state = 4711;
    for (size_t t = 0; t < TINY_TOKENS; t++) {
        ids->tokens[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        ids->targets[t] = (int32_t)(fabs((double)reference_noise(&state)) * 1e4) % (int32_t)vocab;
        if (t % 7 == 3 || (t / TINY_S == TINY_B - 1 && t % TINY_S != 1))
            ids->targets[t] = LS_IGNORE;
    }
    ls_batch batch = {.B = TINY_B,
                      .S = TINY_S,
                      .tokens = ids->tokens,
                      .targets = ids->targets,
                      .seed = 99,
                      .step = 5,
                      .training = true};
    return batch;
}

/* The batch as it is, and what a masked-token model reads beside it: token types, padding after 5,
 * 3, 4 and 1 tokens, one label unknown. */
static inline ls_batch tiny_batch_of(tiny_ids *ids, const ls_config *config)
{
    static const int32_t lengths[TINY_B] = {5, 3, 4, 1}, order[TINY_B] = {1, 0, LS_IGNORE, 0};
    ls_batch batch = tiny_batch(ids, config->vocab);
    if (config->objective != LS_MASKED_TOKEN) return batch;
    for (size_t t = 0; t < TINY_TOKENS; t++) ids->segments[t] = (int32_t)(t * t / 3 % 3);
    memcpy(ids->lengths, lengths, sizeof lengths);
    memcpy(ids->order, order, sizeof order);
    batch.segments = ids->segments;
    batch.lengths = ids->lengths;
    batch.order = ids->order;
    return batch;
}

/* B sequences of S tokens out of the same arrays. */
static inline void tiny_shape(ls_batch *batch, tiny_ids *ids, size_t B, size_t S)
{
    batch->B = B;
    batch->S = S;
    for (size_t b = 0; batch->lengths && b < B; b++)
        if (ids->lengths[b] > (int32_t)S) ids->lengths[b] = (int32_t)S;
}

/* ---- a model with its memory ---- */

typedef struct fixture {
    ls_param_table *table;
    ls_memory *memory;
    ls_store *store;
    ls_serial *serial;
} fixture;

/* Value number i of a parameter, exact in binary32: norm scales about 1, the rest about 0. */
static inline double fixture_value(const ls_param *param, uint64_t *state)
{
    double noise = (double)(float)(0.3 * (double)reference_noise(state));
    return param->init == LS_INIT_ONE ? 1 + noise : noise;
}

/* Overwrites every parameter, logical elements only, from `values` (table order, whole tensors). */
static inline void fixture_set(const fixture *f, const double *values)
{
    for (size_t i = 0; i < f->table->count; i++) {
        const ls_param *param = &f->table->params[i];
        size_t n = ls_param_elements(param);
        ls_real *whole = malloc(n * sizeof *whole);
        ck_assert_ptr_nonnull(whole);
        for (size_t e = 0; e < n; e++) whole[e] = (ls_real)values[e];
        ls_param_shard_in(param, f->store->slots[i].shard, sizeof *whole, f->store->slots[i].value,
                          whole);
        free(whole);
        values += n;
    }
}

/* Noise for every parameter, in table order; the caller frees it. */
static inline double *fixture_noise(const ls_param_table *table)
{
    double *values = malloc(ls_param_table_elements(table) * sizeof *values), *next = values;
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < table->count; i++) {
        uint64_t state = 1000 + 31 * i;
        for (size_t skip = 0; skip < 4; skip++) (void)reference_noise(&state);
        for (size_t e = 0; e < ls_param_elements(&table->params[i]); e++)
            *next++ = fixture_value(&table->params[i], &state);
    }
    return values;
}

static inline fixture fixture_create(const ls_config *config, ls_engine engine)
{
    fixture f = {0};
    ck_assert_msg(ls_param_table_create(&f.table, config) == LS_OK, "%s", ls_error_text());
    ck_assert_int_eq(ls_memory_create(&f.memory), LS_OK);
    ck_assert_int_eq(ls_store_create(&f.store, f.table, NULL, f.memory), LS_OK);
    ck_assert_int_eq(ls_serial_create(&f.serial, f.store, engine, f.memory), LS_OK);
    double *values = fixture_noise(f.table);
    fixture_set(&f, values);
    free(values);
    return f;
}

static inline void fixture_destroy(fixture *f)
{
    ls_serial_destroy(&f->serial);
    ls_store_destroy(&f->store);
    ck_assert_uint_eq(ls_memory_total_bytes(f->memory), 0);
    ls_memory_destroy(&f->memory);
    ls_param_table_destroy(&f->table);
}

static inline size_t fixture_slot_elements(const fixture *f, size_t i)
{
    return f->store->slots[i].rows * f->store->slots[i].cols;
}

/* Fills every gradient with NaN: what a backward pass does not write shows. */
static inline void fixture_spoil_gradients(const fixture *f)
{
    for (size_t i = 0; i < f->table->count; i++)
        for (int use = 0; use < f->table->params[i].uses; use++)
            for (size_t e = 0; e < fixture_slot_elements(f, i); e++)
                f->store->slots[i].grad[use][e] = (ls_real)NAN;
}

static inline ls_real fixture_forward(const fixture *f, const ls_batch *batch)
{
    ls_real loss = (ls_real)NAN;
    ck_assert_msg(ls_serial_forward(f->serial, batch, &loss) == LS_OK, "%s", ls_error_text());
    return loss;
}

static inline ls_real fixture_gradients(const fixture *f, const ls_batch *batch)
{
    ls_real loss = fixture_forward(f, batch);
    fixture_spoil_gradients(f);
    ck_assert_msg(ls_serial_backward(f->serial) == LS_OK, "%s", ls_error_text());
    return loss;
}

/* A copy of every gradient (use 0), padding included, in table order; the caller frees it. */
static inline ls_real *fixture_copy_gradients(const fixture *f, size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < f->table->count; i++) count += fixture_slot_elements(f, i);
    ls_real *copy = malloc(count * sizeof *copy), *next = copy;
    ck_assert_ptr_nonnull(copy);
    for (size_t i = 0; i < f->table->count; i++) {
        memcpy(next, f->store->slots[i].grad[0], fixture_slot_elements(f, i) * sizeof *next);
        next += fixture_slot_elements(f, i);
    }
    *ret_count = count;
    return copy;
}

#endif
