/* config_compare.h - configurations side by side, field by field. */
#ifndef TEST_MODEL_CONFIG_COMPARE_H
#define TEST_MODEL_CONFIG_COMPARE_H

#include "io/scratch.h"
#include "lockstep/model/config.h"

static inline ls_config named(const char *name)
{
    ls_config config;
    ASSERT_OK(ls_config_named(name, &config));
    return config;
}

static inline void assert_same(const ls_config *a, const ls_config *b)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_uint_eq(a->layers, b->layers);
    ck_assert_uint_eq(a->d_model, b->d_model);
    ck_assert_uint_eq(a->heads, b->heads);
    ck_assert_uint_eq(a->kv_heads, b->kv_heads);
    ck_assert_uint_eq(a->d_ff, b->d_ff);
    ck_assert_uint_eq(a->seq, b->seq);
    ck_assert_uint_eq(a->vocab, b->vocab);
    ck_assert_uint_eq(a->batch, b->batch);
    ck_assert_int_eq(a->norm, b->norm);
    ck_assert_int_eq(a->activation, b->activation);
    ck_assert_int_eq(a->position, b->position);
    ck_assert_int_eq(a->mlp_cut, b->mlp_cut);
    ck_assert_int_eq(a->norm_place, b->norm_place);
    ck_assert_int_eq(a->objective, b->objective);
    ck_assert_uint_eq(a->token_types, b->token_types);
    ck_assert_int_eq(a->embedding_norm, b->embedding_norm);
    ck_assert_int_eq(a->sentence_order, b->sentence_order);
    ck_assert_int_eq(a->causal, b->causal);
    ck_assert_int_eq(a->bias, b->bias);
    ck_assert_int_eq(a->tied, b->tied);
    ck_assert_double_eq(a->dropout, b->dropout);
    ck_assert_double_eq(a->norm_eps, b->norm_eps);
    ck_assert_double_eq(a->rope_theta, b->rope_theta);
    ck_assert_double_eq(a->init_std, b->init_std);
    ck_assert_double_eq(a->label_smoothing, b->label_smoothing);
}

#endif
