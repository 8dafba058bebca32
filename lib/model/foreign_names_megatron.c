/* foreign_names_megatron.c - the names of Megatron-LM, and of Megatron Core which followed it.
 *
 * A checkpoint of one rank (or one put together again), its nested dictionaries joined by points.
 * Both keep query, key and value in one tensor so that a tensor-parallel rank's rows are one run:
 * of each key/value head first the query heads that use it, then the key, then the value; without
 * shared heads that is q, k, v of head 0, q, k, v of head 1, ... (Megatron-LM's checkpoint version
 * 2 and later). SwiGLU's two matrices are one, the gate's rows first. The vocabulary is padded; its
 * padding takes part in Megatron's softmax, and in none here. Its BERT has its norms in front of
 * the blocks. */
#include "model/foreign_rules.h"

/* clang-format off */

/* A rule whose first parameter the model does not have makes way for the next one with its name:
 * gate and up of SwiGLU, else up only. */
#define EMBEDDING "language_model.embedding."
#define LAYER "language_model.encoder.layers.*."
static const ls_foreign_rule megatron[] = {
    AS_IS(EMBEDDING "word_embeddings.weight", LS_TOKEN_EMBEDDING),
    AS_IS(EMBEDDING "position_embeddings.weight", LS_POSITION_EMBEDDING),
    AS_IS(EMBEDDING "tokentype_embeddings.weight", LS_TYPE_EMBEDDING),
    AS_IS(LAYER "input_layernorm.weight", LS_NORM1_SCALE),
    AS_IS(LAYER "input_layernorm.bias", LS_NORM1_SHIFT),
    OUT_IN_BY_GROUP(LAYER "self_attention.query_key_value.weight", QUERY_KEY_VALUE),
    BY_GROUP(LAYER "self_attention.query_key_value.bias", QUERY_KEY_VALUE_BIAS),
    OUT_IN(LAYER "self_attention.dense.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS(LAYER "self_attention.dense.bias", LS_ATTN_OUT_BIAS),
    AS_IS(LAYER "post_attention_layernorm.weight", LS_NORM2_SCALE),
    AS_IS(LAYER "post_attention_layernorm.bias", LS_NORM2_SHIFT),
    OUT_IN_SIDE_BY_SIDE(LAYER "mlp.dense_h_to_4h.weight", 2, LS_MLP_GATE_WEIGHT, LS_MLP_UP_WEIGHT),
    OUT_IN(LAYER "mlp.dense_h_to_4h.weight", LS_MLP_UP_WEIGHT),
    AS_IS(LAYER "mlp.dense_h_to_4h.bias", LS_MLP_UP_BIAS),
    OUT_IN(LAYER "mlp.dense_4h_to_h.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS(LAYER "mlp.dense_4h_to_h.bias", LS_MLP_DOWN_BIAS),
    AS_IS("language_model.encoder.final_layernorm.weight", LS_FINAL_NORM_SCALE),
    AS_IS("language_model.encoder.final_layernorm.bias", LS_FINAL_NORM_SHIFT),
    OUT_IN("lm_head.dense.weight", LS_MASKED_DENSE_WEIGHT),
    AS_IS("lm_head.dense.bias", LS_MASKED_DENSE_BIAS),
    AS_IS("lm_head.layernorm.weight", LS_MASKED_NORM_SCALE),
    AS_IS("lm_head.layernorm.bias", LS_MASKED_NORM_SHIFT),
    AS_IS("language_model.output_layer.weight", LS_HEAD_WEIGHT),
    AS_IS("lm_head.bias", LS_VOCAB_BIAS),
    SPARE_OUT_IN("language_model.pooler.dense.weight", LS_POOLER_WEIGHT),
    SPARE("language_model.pooler.dense.bias", LS_POOLER_BIAS),
    SPARE_OUT_IN("binary_head.weight", LS_ORDER_WEIGHT),
    SPARE("binary_head.bias", LS_ORDER_BIAS),
    /* what the last pipeline stage has of a tied embedding */
    TWIN("word_embeddings_for_head.weight", LS_TOKEN_EMBEDDING),
    IGNORED(LAYER "self_attention.rotary_emb.inv_freq"),
    IGNORED("language_model.rotary_pos_emb.inv_freq"),
};

const ls_foreign_convention ls_foreign_megatron = {
    .option = "megatron",
    .title = "Megatron-LM",
    .rules = megatron,
    .n_rules = LS_FOREIGN_COUNT(megatron),
    .pads_vocabulary = true,
    .groups = true,
    .demands = {{"norm_place", ONLY(LS_NORM_PRE)}, {"embedding_norm", ONLY(false)}},
    .synonyms = {{"language_model.transformer.", "language_model.encoder."},
                 {".attention.", ".self_attention."},
                 {".input_norm.", ".input_layernorm."},
                 {".post_attention_norm.", ".post_attention_layernorm."},
                 {".final_norm.", ".final_layernorm."},
                 {"lm_head.norm.", "lm_head.layernorm."}},
};

#undef LAYER
#define LAYER "decoder.layers.*."
static const ls_foreign_rule megatron_core[] = {
    AS_IS("embedding.word_embeddings.weight", LS_TOKEN_EMBEDDING),
    AS_IS("embedding.position_embeddings.weight", LS_POSITION_EMBEDDING),
    AS_IS("embedding.tokentype_embeddings.weight", LS_TYPE_EMBEDDING),
    AS_IS(LAYER "self_attention.linear_qkv.layer_norm_weight", LS_NORM1_SCALE),
    AS_IS(LAYER "self_attention.linear_qkv.layer_norm_bias", LS_NORM1_SHIFT),
    OUT_IN_BY_GROUP(LAYER "self_attention.linear_qkv.weight", QUERY_KEY_VALUE),
    BY_GROUP(LAYER "self_attention.linear_qkv.bias", QUERY_KEY_VALUE_BIAS),
    OUT_IN(LAYER "self_attention.linear_proj.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS(LAYER "self_attention.linear_proj.bias", LS_ATTN_OUT_BIAS),
    AS_IS(LAYER "mlp.linear_fc1.layer_norm_weight", LS_NORM2_SCALE),
    AS_IS(LAYER "mlp.linear_fc1.layer_norm_bias", LS_NORM2_SHIFT),
    OUT_IN_SIDE_BY_SIDE(LAYER "mlp.linear_fc1.weight", 2, LS_MLP_GATE_WEIGHT, LS_MLP_UP_WEIGHT),
    OUT_IN(LAYER "mlp.linear_fc1.weight", LS_MLP_UP_WEIGHT),
    AS_IS(LAYER "mlp.linear_fc1.bias", LS_MLP_UP_BIAS),
    OUT_IN(LAYER "mlp.linear_fc2.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS(LAYER "mlp.linear_fc2.bias", LS_MLP_DOWN_BIAS),
    AS_IS("decoder.final_layernorm.weight", LS_FINAL_NORM_SCALE),
    AS_IS("decoder.final_layernorm.bias", LS_FINAL_NORM_SHIFT),
    AS_IS("output_layer.weight", LS_HEAD_WEIGHT),
    TWIN("output_layer.weight", LS_TOKEN_EMBEDDING),
    IGNORED("rotary_pos_emb.inv_freq"),
    /* empty notes of Transformer Engine */
    IGNORED(LAYER "self_attention.linear_qkv._extra_state"),
    IGNORED(LAYER "self_attention.linear_proj._extra_state"),
    IGNORED(LAYER "self_attention.core_attention._extra_state"),
    IGNORED(LAYER "mlp.linear_fc1._extra_state"),
    IGNORED(LAYER "mlp.linear_fc2._extra_state"),
    IGNORED("decoder.final_layernorm._extra_state"),
    IGNORED("output_layer._extra_state"),
};

const ls_foreign_convention ls_foreign_megatron_core = {
    .option = "megatron-core",
    .title = "Megatron Core",
    .rules = megatron_core,
    .n_rules = LS_FOREIGN_COUNT(megatron_core),
    .pads_vocabulary = true,
    .groups = true,
    .demands = {{"norm_place", ONLY(LS_NORM_PRE)},
                {"objective", ONLY(LS_NEXT_TOKEN)},
                {"embedding_norm", ONLY(false)}},
    /* without Transformer Engine the norms are not fused into the linear that follows */
    .synonyms = {{".input_layernorm.", ".self_attention.linear_qkv.layer_norm_"},
                 {".pre_mlp_layernorm.", ".mlp.linear_fc1.layer_norm_"}},
};
/* clang-format on */
