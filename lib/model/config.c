/* config.c - the built-in models, and the axes that follow from a configuration. */
#include "lockstep/model/config.h"

#include <string.h>

#include "lockstep/base/show.h"
#include "model/config_fields.h"
#include "model/net_parts.h"

const char *const ls_config_names[LS_CONFIG_NAMES] = {"gpt2-nano", "gpt2-124m",    "llama-nano",
                                                      "bert-nano", "alexnet-nano", "resnet-nano"};

static void gpt2_nano(ls_config *config)
{
    *config = (ls_config){.name = "gpt2-nano",
                          .layers = 4,
                          .d_model = 48,
                          .heads = 12,
                          .kv_heads = 12,
                          .d_ff = 192,
                          .seq = 24,
                          .vocab = 256,
                          .batch = 8,
                          .norm = LS_LAYER_NORM,
                          .activation = LS_GELU_TANH,
                          .position = LS_LEARNED,
                          .mlp_cut = LS_MLP_COLUMN_FIRST,
                          .causal = true,
                          .bias = true,
                          .tied = true,
                          .dropout = 0.1,
                          .norm_eps = 1e-5,
                          .rope_theta = 10000,
                          .init_std = 0.02,
                          .label_smoothing = 0};
}

static void gpt2_124m(ls_config *config)
{
    *config = (ls_config){.name = "gpt2-124m",
                          .layers = 12,
                          .d_model = 768,
                          .heads = 12,
                          .kv_heads = 12,
                          .d_ff = 3072,
                          .seq = 1024,
                          .vocab = 50257,
                          .batch = 8,
                          .norm = LS_LAYER_NORM,
                          .activation = LS_GELU_TANH,
                          .position = LS_LEARNED,
                          .mlp_cut = LS_MLP_COLUMN_FIRST,
                          .causal = true,
                          .bias = true,
                          .tied = true,
                          .dropout = 0.1,
                          .norm_eps = 1e-5,
                          .rope_theta = 10000,
                          .init_std = 0.02,
                          .label_smoothing = 0};
}

/* Its feed-forward width makes 12 granules of 11: a leaf that is neither even nor full. */
static void llama_nano(ls_config *config)
{
    *config = (ls_config){.name = "llama-nano",
                          .layers = 4,
                          .d_model = 48,
                          .heads = 12,
                          .kv_heads = 4,
                          .d_ff = 132,
                          .seq = 24,
                          .vocab = 256,
                          .batch = 8,
                          .norm = LS_RMS_NORM,
                          .activation = LS_SWIGLU,
                          .position = LS_ROTARY,
                          .mlp_cut = LS_MLP_COLUMN_FIRST,
                          .causal = true,
                          .bias = false,
                          .tied = false,
                          .dropout = 0,
                          .norm_eps = 1e-5,
                          .rope_theta = 10000,
                          .init_std = 0.02,
                          .label_smoothing = 0};
}

/* BERT as published: norms after the residual sums. 256 bytes and four special tokens. */
static void bert_nano(ls_config *config)
{
    *config = (ls_config){.name = "bert-nano",
                          .layers = 4,
                          .d_model = 48,
                          .heads = 12,
                          .kv_heads = 12,
                          .d_ff = 192,
                          .seq = 24,
                          .vocab = 260,
                          .batch = 8,
                          .norm = LS_LAYER_NORM,
                          .norm_place = LS_NORM_POST,
                          .activation = LS_GELU_ERF,
                          .position = LS_LEARNED,
                          .mlp_cut = LS_MLP_COLUMN_FIRST,
                          .objective = LS_MASKED_TOKEN,
                          .token_types = 2,
                          .embedding_norm = true,
                          .sentence_order = true,
                          .causal = false,
                          .bias = true,
                          .tied = true,
                          .dropout = 0.1,
                          .norm_eps = 1e-12,
                          .rope_theta = 10000,
                          .init_std = 0.02,
                          .label_smoothing = 0};
}

static void alexnet_nano(ls_config *config)
{
    *config = (ls_config){.name = "alexnet-nano", .kind = LS_MODEL_NET, .batch = 8};
    ls_net_alexnet_nano(&config->net);
}

static void resnet_nano(ls_config *config)
{
    *config = (ls_config){.name = "resnet-nano", .kind = LS_MODEL_NET, .batch = 8};
    ls_net_resnet_nano(&config->net);
}

/* In the order of the names above. */
static void (*const built_in[LS_CONFIG_NAMES])(ls_config *config) = {
    gpt2_nano, gpt2_124m, llama_nano, bert_nano, alexnet_nano, resnet_nano};

ls_status ls_config_named(const char *name, ls_config *ret_config)
{
    ls_status status = LS_OK;
    for (size_t i = 0; i < LS_CONFIG_NAMES; i++) {
        if (strcmp(name, ls_config_names[i]) == 0) {
            built_in[i](ret_config);
            return LS_OK;
        }
    }
    const char *nearest = ls_nearest(name, ls_config_names, LS_CONFIG_NAMES);
    LS_FAIL(LS_ERR_INPUT, "--model %s: not a built-in model%s%s%s; use " LS_CONFIG_NAMES_TEXT,
            ls_show(name), nearest ? " (did you mean " : "", nearest ? nearest : "",
            nearest ? "?)" : "");
exit:
    return status;
}

ls_status ls_config_require(const ls_config *config, ls_model_kind kind, const char *who)
{
    static const char *const kinds[] = {"a transformer", "a convolutional network"};
    ls_status status = LS_OK;
    if (config->kind != kind)
        LS_FAIL(LS_ERR_INPUT, "--model %s: is %s; %s needs %s", ls_show(config->name),
                kinds[kind == LS_MODEL_TRANSFORMER], who, kinds[kind == LS_MODEL_NET]);
exit:
    return status;
}

void ls_config_place_norms(ls_config *config, ls_norm_place place)
{
    config->norm_place = place;
    config->embedding_norm = config->objective == LS_MASKED_TOKEN && place == LS_NORM_POST;
}

ls_axis ls_config_heads_axis(const ls_config *config)
{
    return ls_axis_of(config->heads, ls_config_head_width(config));
}

ls_axis ls_config_kv_axis(const ls_config *config)
{
    return ls_axis_of(config->kv_heads, ls_config_head_width(config));
}

ls_axis ls_config_ff_axis(const ls_config *config)
{
    size_t granules = ls_net_divisor(config->heads, config->d_ff);
    return ls_axis_of(granules, config->d_ff / granules);
}

ls_axis ls_config_vocab_axis(const ls_config *config)
{
    size_t multiple = config->heads / ls_net_divisor(config->heads, 128) * 128;
    size_t padded = (config->vocab + multiple - 1) / multiple * multiple;
    return ls_axis_of(config->heads, padded / config->heads);
}
