/* observed_models.h - small models whose tensors are looked at, one of each kind. */
#ifndef TEST_VERIFY_OBSERVED_MODELS_H
#define TEST_VERIFY_OBSERVED_MODELS_H

#include "train/run_fixture.h"

typedef enum model { GPT2 = 0, LLAMA, BERT_POST, BERT_PRE, ROW_FIRST, MODELS } model;

/* All sizes different; 6 heads, 4 layers, 5 sequences, 263 words, which no tp divides. */
static inline ls_config model_config(model m)
{
    static const char *const names[] = {"gpt2-nano", "llama-nano", "bert-nano", "bert-nano",
                                        "gpt2-nano"};
    ls_config config = fixture_config(names[m]);
    config.layers = 4;
    config.heads = 6;
    config.kv_heads = m == LLAMA ? 2 : 6;
    config.d_model = 24;
    config.d_ff = 60;
    config.seq = 11;
    config.batch = 5;
    config.vocab = 263;
    config.dropout = 0.1;
    if (m == ROW_FIRST) config.mlp_cut = LS_MLP_ROW_FIRST;
    if (m == BERT_PRE) ls_config_place_norms(&config, LS_NORM_PRE);
    return config;
}

#endif
