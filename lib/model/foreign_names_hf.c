/* foreign_names_hf.c - the names of Hugging Face's GPT-2, Llama and BERT, and of Meta's Llama.
 *
 * PyTorch's Linear keeps [out, in]; GPT-2's Conv1D keeps [in, out] and has query, key and value
 * side by side in one. Hugging Face's Llama pairs feature i of a head with i + half, as the table
 * does; Meta's own files pair neighbours, so the rows of its wq and wk are in another order. */
#include "model/foreign_rules.h"

/* clang-format off */
static const ls_foreign_rule gpt2[] = {
    AS_IS("transformer.wte.weight", LS_TOKEN_EMBEDDING),
    AS_IS("transformer.wpe.weight", LS_POSITION_EMBEDDING),
    AS_IS("transformer.h.*.ln_1.weight", LS_NORM1_SCALE),
    AS_IS("transformer.h.*.ln_1.bias", LS_NORM1_SHIFT),
    SIDE_BY_SIDE("transformer.h.*.attn.c_attn.weight", 3, QUERY_KEY_VALUE),
    SIDE_BY_SIDE("transformer.h.*.attn.c_attn.bias", 3, QUERY_KEY_VALUE_BIAS),
    AS_IS("transformer.h.*.attn.c_proj.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS("transformer.h.*.attn.c_proj.bias", LS_ATTN_OUT_BIAS),
    AS_IS("transformer.h.*.ln_2.weight", LS_NORM2_SCALE),
    AS_IS("transformer.h.*.ln_2.bias", LS_NORM2_SHIFT),
    AS_IS("transformer.h.*.mlp.c_fc.weight", LS_MLP_UP_WEIGHT),
    AS_IS("transformer.h.*.mlp.c_fc.bias", LS_MLP_UP_BIAS),
    AS_IS("transformer.h.*.mlp.c_proj.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS("transformer.h.*.mlp.c_proj.bias", LS_MLP_DOWN_BIAS),
    AS_IS("transformer.ln_f.weight", LS_FINAL_NORM_SCALE),
    AS_IS("transformer.ln_f.bias", LS_FINAL_NORM_SHIFT),
    AS_IS("lm_head.weight", LS_HEAD_WEIGHT),
    TWIN("lm_head.weight", LS_TOKEN_EMBEDDING),
    IGNORED("transformer.h.*.attn.bias"), /* the causal mask */
    IGNORED("transformer.h.*.attn.masked_bias"),
};

const ls_foreign_convention ls_foreign_gpt2 = {
    .option = "hf-gpt2",
    .title = "Hugging Face GPT-2",
    .prefix = "transformer.",
    .rules = gpt2,
    .n_rules = LS_FOREIGN_COUNT(gpt2),
    .demands = {{"norm", ONLY(LS_LAYER_NORM)},
                {"norm_place", ONLY(LS_NORM_PRE)},
                {"activation", ONLY(LS_GELU_TANH) | ONLY(LS_GELU_ERF)},
                {"position", ONLY(LS_LEARNED)},
                {"objective", ONLY(LS_NEXT_TOKEN)},
                {"token_types", ONLY(0)},
                {"embedding_norm", ONLY(false)},
                {"causal", ONLY(true)},
                {"bias", ONLY(true)}},
};

static const ls_foreign_rule llama[] = {
    AS_IS("model.embed_tokens.weight", LS_TOKEN_EMBEDDING),
    AS_IS("model.layers.*.input_layernorm.weight", LS_NORM1_SCALE),
    OUT_IN("model.layers.*.self_attn.q_proj.weight", LS_QUERY_WEIGHT),
    OUT_IN("model.layers.*.self_attn.k_proj.weight", LS_KEY_WEIGHT),
    OUT_IN("model.layers.*.self_attn.v_proj.weight", LS_VALUE_WEIGHT),
    OUT_IN("model.layers.*.self_attn.o_proj.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS("model.layers.*.post_attention_layernorm.weight", LS_NORM2_SCALE),
    OUT_IN("model.layers.*.mlp.gate_proj.weight", LS_MLP_GATE_WEIGHT),
    OUT_IN("model.layers.*.mlp.up_proj.weight", LS_MLP_UP_WEIGHT),
    OUT_IN("model.layers.*.mlp.down_proj.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS("model.norm.weight", LS_FINAL_NORM_SCALE),
    AS_IS("lm_head.weight", LS_HEAD_WEIGHT),
    TWIN("lm_head.weight", LS_TOKEN_EMBEDDING),
    IGNORED("model.layers.*.self_attn.rotary_emb.inv_freq"),
    IGNORED("model.rotary_emb.inv_freq"),
};

/* Of Llama, in any program's names. */
#define LLAMA_DEMANDS {{"norm", ONLY(LS_RMS_NORM)}, \
                       {"norm_place", ONLY(LS_NORM_PRE)}, \
                       {"activation", ONLY(LS_SWIGLU)}, \
                       {"position", ONLY(LS_ROTARY)}, \
                       {"objective", ONLY(LS_NEXT_TOKEN)}, \
                       {"token_types", ONLY(0)}, \
                       {"embedding_norm", ONLY(false)}, \
                       {"causal", ONLY(true)}, \
                       {"bias", ONLY(false)}}

const ls_foreign_convention ls_foreign_llama = {
    .option = "hf-llama",
    .title = "Hugging Face Llama",
    .prefix = "model.",
    .rules = llama,
    .n_rules = LS_FOREIGN_COUNT(llama),
    .groups = true,
    .demands = LLAMA_DEMANDS,
};

static const ls_foreign_rule meta_llama[] = {
    AS_IS("tok_embeddings.weight", LS_TOKEN_EMBEDDING),
    AS_IS("layers.*.attention_norm.weight", LS_NORM1_SCALE),
    PAIRED("layers.*.attention.wq.weight", LS_QUERY_WEIGHT),
    PAIRED("layers.*.attention.wk.weight", LS_KEY_WEIGHT),
    OUT_IN("layers.*.attention.wv.weight", LS_VALUE_WEIGHT),
    OUT_IN("layers.*.attention.wo.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS("layers.*.ffn_norm.weight", LS_NORM2_SCALE),
    OUT_IN("layers.*.feed_forward.w1.weight", LS_MLP_GATE_WEIGHT),
    OUT_IN("layers.*.feed_forward.w3.weight", LS_MLP_UP_WEIGHT),
    OUT_IN("layers.*.feed_forward.w2.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS("norm.weight", LS_FINAL_NORM_SCALE),
    AS_IS("output.weight", LS_HEAD_WEIGHT),
    TWIN("output.weight", LS_TOKEN_EMBEDDING),
    IGNORED("rope.freqs"),
};

const ls_foreign_convention ls_foreign_meta_llama = {
    .option = "meta-llama",
    .title = "Meta's Llama",
    .rules = meta_llama,
    .n_rules = LS_FOREIGN_COUNT(meta_llama),
    .groups = true,
    .demands = LLAMA_DEMANDS,
};

#define LAYER "bert.encoder.layer.*."
static const ls_foreign_rule bert[] = {
    AS_IS("bert.embeddings.word_embeddings.weight", LS_TOKEN_EMBEDDING),
    AS_IS("bert.embeddings.position_embeddings.weight", LS_POSITION_EMBEDDING),
    AS_IS("bert.embeddings.token_type_embeddings.weight", LS_TYPE_EMBEDDING),
    AS_IS("bert.embeddings.LayerNorm.weight", LS_EMBEDDING_NORM_SCALE),
    AS_IS("bert.embeddings.LayerNorm.bias", LS_EMBEDDING_NORM_SHIFT),
    OUT_IN(LAYER "attention.self.query.weight", LS_QUERY_WEIGHT),
    AS_IS(LAYER "attention.self.query.bias", LS_QUERY_BIAS),
    OUT_IN(LAYER "attention.self.key.weight", LS_KEY_WEIGHT),
    AS_IS(LAYER "attention.self.key.bias", LS_KEY_BIAS),
    OUT_IN(LAYER "attention.self.value.weight", LS_VALUE_WEIGHT),
    AS_IS(LAYER "attention.self.value.bias", LS_VALUE_BIAS),
    OUT_IN(LAYER "attention.output.dense.weight", LS_ATTN_OUT_WEIGHT),
    AS_IS(LAYER "attention.output.dense.bias", LS_ATTN_OUT_BIAS),
    AS_IS(LAYER "attention.output.LayerNorm.weight", LS_NORM1_SCALE),
    AS_IS(LAYER "attention.output.LayerNorm.bias", LS_NORM1_SHIFT),
    OUT_IN(LAYER "intermediate.dense.weight", LS_MLP_UP_WEIGHT),
    AS_IS(LAYER "intermediate.dense.bias", LS_MLP_UP_BIAS),
    OUT_IN(LAYER "output.dense.weight", LS_MLP_DOWN_WEIGHT),
    AS_IS(LAYER "output.dense.bias", LS_MLP_DOWN_BIAS),
    AS_IS(LAYER "output.LayerNorm.weight", LS_NORM2_SCALE),
    AS_IS(LAYER "output.LayerNorm.bias", LS_NORM2_SHIFT),
    OUT_IN("cls.predictions.transform.dense.weight", LS_MASKED_DENSE_WEIGHT),
    AS_IS("cls.predictions.transform.dense.bias", LS_MASKED_DENSE_BIAS),
    AS_IS("cls.predictions.transform.LayerNorm.weight", LS_MASKED_NORM_SCALE),
    AS_IS("cls.predictions.transform.LayerNorm.bias", LS_MASKED_NORM_SHIFT),
    AS_IS("cls.predictions.decoder.weight", LS_HEAD_WEIGHT),
    TWIN("cls.predictions.decoder.weight", LS_TOKEN_EMBEDDING),
    AS_IS("cls.predictions.bias", LS_VOCAB_BIAS),
    TWIN("cls.predictions.decoder.bias", LS_VOCAB_BIAS),
    SPARE_OUT_IN("bert.pooler.dense.weight", LS_POOLER_WEIGHT),
    SPARE("bert.pooler.dense.bias", LS_POOLER_BIAS),
    SPARE_OUT_IN("cls.seq_relationship.weight", LS_ORDER_WEIGHT),
    SPARE("cls.seq_relationship.bias", LS_ORDER_BIAS),
    IGNORED("bert.embeddings.position_ids"),
    IGNORED("bert.embeddings.token_type_ids"),
};

const ls_foreign_convention ls_foreign_bert = {
    .option = "hf-bert",
    .title = "Hugging Face BERT",
    .prefix = "bert.",
    .rules = bert,
    .n_rules = LS_FOREIGN_COUNT(bert),
    .demands = {{"norm", ONLY(LS_LAYER_NORM)},
                {"norm_place", ONLY(LS_NORM_POST)},
                {"activation", ONLY(LS_GELU_ERF)},
                {"position", ONLY(LS_LEARNED)},
                {"objective", ONLY(LS_MASKED_TOKEN)},
                {"token_types", ONLY(1)},
                {"embedding_norm", ONLY(true)},
                {"sentence_order", EITHER},
                {"causal", ONLY(false)},
                {"bias", ONLY(true)}},
    /* as the files converted from the first, TensorFlow ones have them */
    .synonyms = {{"LayerNorm.gamma", "LayerNorm.weight"}, {"LayerNorm.beta", "LayerNorm.bias"}},
};
/* clang-format on */
