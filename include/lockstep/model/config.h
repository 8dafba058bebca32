/* config.h - what a model is: of a transformer its sizes and the choices that set GPT-2, Llama and
 * BERT apart; of a convolutional network the list of its layers. */
#ifndef LS_MODEL_CONFIG_H
#define LS_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "lockstep/base/status.h"
#include "lockstep/model/net.h"
#include "lockstep/numerics/axis.h"

LS_BEGIN_DECLS

typedef enum ls_model_kind { LS_MODEL_TRANSFORMER = 0, LS_MODEL_NET } ls_model_kind;

typedef enum ls_norm_kind { LS_LAYER_NORM = 0, LS_RMS_NORM } ls_norm_kind;
typedef enum ls_activation_kind { LS_GELU_TANH = 0, LS_GELU_ERF, LS_SWIGLU } ls_activation_kind;
typedef enum ls_position_kind { LS_LEARNED = 0, LS_ROTARY } ls_position_kind;

/* Where a layer's norms stand: before attention and MLP, with one more norm after the last layer
 * (GPT-2; Megatron-LM's rearrangement of BERT), or after each residual sum, as BERT was published,
 * and then none at the end. */
typedef enum ls_norm_place { LS_NORM_PRE = 0, LS_NORM_POST } ls_norm_place;

/* What is predicted: each token's successor (GPT), or tokens that were hidden (BERT). The latter
 * has a head of its own before the vocabulary: a linear D -> D, GELU (exact), a norm, then the
 * decoder with a bias per word. */
typedef enum ls_objective { LS_NEXT_TOKEN = 0, LS_MASKED_TOKEN } ls_objective;

/* How the first matrix of the MLP is cut: by columns as Megatron does, or by rows, the way it
 * rejects (a reduction before the activation; kept to teach). */
typedef enum ls_mlp_cut { LS_MLP_COLUMN_FIRST = 0, LS_MLP_ROW_FIRST } ls_mlp_cut;

/* Of a network only name, kind, batch, label_smoothing and net say something; the others are 0. */
typedef struct ls_config {
    char name[64];
    ls_model_kind kind;
    size_t layers;   /* L */
    size_t d_model;  /* D, a multiple of heads */
    size_t heads;    /* H */
    size_t kv_heads; /* divides heads */
    size_t d_ff;     /* F */
    size_t seq;      /* S */
    size_t vocab;    /* V, logical rows */
    size_t batch;    /* B, the global batch if nothing else is said */
    ls_norm_kind norm;
    ls_norm_place norm_place;
    ls_activation_kind activation;
    ls_position_kind position;
    ls_mlp_cut mlp_cut;
    ls_objective objective;
    size_t token_types;  /* rows of the token-type embedding; 0: the model has none */
    bool embedding_norm; /* a norm right after the embedding, before its dropout    */
    bool sentence_order; /* a second loss: are two spans in order? Masked-token models only */
    bool causal;
    bool bias; /* linears and LayerNorm have one */
    bool tied; /* the output head is the token embedding */
    double dropout;
    double norm_eps;
    double rope_theta;
    double init_std; /* 0.02; the residual outputs take init_std / sqrt(2 L), but not where the
                        norms come after the residual sums */
    double label_smoothing;
    ls_net net;
} ls_config;

/* A built-in model by name: gpt2-nano, gpt2-124m, llama-nano, bert-nano, alexnet-nano, resnet-nano.
 * LS_ERR_INPUT lists the names. */
LS_API ls_status ls_config_named(const char *name, ls_config *ret_config) LS_MUST_USE;

/* A model from a JSON file (keys as the fields above, those of a network under "network"; "base": a
 * built-in name to start from) or,
 * when no such file exists and the name is built in, that one. Hugging Face's config.json of a
 * GPT-2, Llama or BERT is such a file too, and a folder stands for the config.json in it.
 * LS_ERR_INPUT: unreadable, not JSON, unknown key (suggests the nearest), wrong type, value out of
 * range: names file and key. */
LS_API ls_status ls_config_load(const char *name_or_file, ls_config *ret_config) LS_MUST_USE;

/* The configuration of a checkpoint in Hugging Face's manner: config.json in its folder
 * (`checkpoint`, or where that file is); NULL when there is none. The caller frees *ret_file.
 * LS_ERR_INPUT: it is there and not whole JSON, no plain file, or says no model_type; LS_ERR_IO,
 * LS_ERR_MEMORY. */
LS_API ls_status ls_config_beside(const char *checkpoint, char **ret_file) LS_MUST_USE;

/* A model from a JSON text, read as ls_config_load reads a file. label: how errors call it. */
LS_API ls_status ls_config_from_json(const char *label, const char *json,
                                     ls_config *ret_config) LS_MUST_USE;

/* Writes the configuration as a JSON text into a string that the caller frees. */
LS_API ls_status ls_config_to_json(const ls_config *config, char **ret_json) LS_MUST_USE;

/* Whether the sizes fit each other: one line naming the option (--heads, ...), its value and what
 * is allowed. Limits each size so that no product overflows. */
LS_API ls_status ls_config_check(const ls_config *config) LS_MUST_USE;

/* Whether the model is of the kind that something is for. who: what that is, as "train" or "the
 * serial transformer". LS_ERR_INPUT names the model and its kind. */
LS_API ls_status ls_config_require(const ls_config *config, ls_model_kind kind,
                                   const char *who) LS_MUST_USE;

/* Puts the norms in their place, and with them what belongs to it: a masked-token model has a norm
 * after its embedding when they come after the residual sums (BERT), and none when they stand
 * before the blocks (Megatron-LM). */
LS_API void ls_config_place_norms(ls_config *config, ls_norm_place place);

static inline size_t ls_config_head_width(const ls_config *config)
{
    return config->d_model / config->heads;
}

/* The axes of a transformer that tensor parallelism cuts, whole (contract rule 7). */
LS_API ls_axis ls_config_heads_axis(const ls_config *config); /* H granules of the head width */
LS_API ls_axis ls_config_kv_axis(const ls_config *config); /* kv_heads granules of the head width */
LS_API ls_axis ls_config_ff_axis(const ls_config *config); /* gcd(H, F) granules */
LS_API ls_axis
ls_config_vocab_axis(const ls_config *config); /* H granules; V padded to lcm(H, 128)     */

LS_END_DECLS

#endif
