/* foreign_keys.c - what else a config.json of Hugging Face says: keys that change nothing that is
 * computed here, and model types that are not.
 *
 * A key that is in no list is refused: it could change what is computed. Add a key here only after
 * reading in Hugging Face's source what it does. */
#include <string.h>

#include "model/foreign_config.h"

/* Of training, generation, tokens, classification heads and the library itself. */
static const char *const harmless[] = {
    /* the file and the library */
    "architectures", "auto_map", "dtype", "model_type", "torch_dtype", "torchscript",
    "transformers_version", "use_bfloat16", "attn_implementation", "tf_legacy_loss",
    /* which results are returned or cached; computing in pieces */
    "chunk_size_feed_forward", "gradient_checkpointing", "output_attentions",
    "output_hidden_states", "output_past", "output_scores", "return_dict",
    "return_dict_in_generate", "use_cache", "use_return_dict",
    /* the same numbers on paper in another order or format */
    "pretraining_tp", "reorder_and_upcast_attn",
    /* tokens */
    "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id", "prefix",
    "sep_token_id", "tokenizer_class", "n_ctx",
    /* generation */
    "bad_words_ids", "begin_suppress_tokens", "diversity_penalty", "do_sample", "early_stopping",
    "encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "forced_bos_token_id",
    "forced_eos_token_id", "length_penalty", "max_length", "min_length", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "remove_invalid_values",
    "repetition_penalty", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    /* heads for other tasks */
    "classifier_dropout", "directionality", "finetuning_task", "id2label", "label2id", "num_labels",
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head",
    "pooler_type", "problem_type", "summary_activation", "summary_first_dropout",
    "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params"};

bool ls_foreign_key_is_harmless(const char *key)
{
    /* Notes of the library to itself: _name_or_path, _attn_implementation, ... */
    if (key[0] == '_') return true;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(key, harmless[i]) == 0) return true;
    return false;
}

const char *ls_foreign_type_lacks(const char *type)
{
    static const struct {
        const char *type, *reason;
    } others[] = {
        {"mistral", "its sliding window and its heads' own width are not computed here"},
        {"mixtral", "its experts are not computed here"},
        {"qwen2", "its biases of query, key and value by themselves are not computed here"},
        {"qwen2_moe", "its experts are not computed here"},
        {"qwen3", "its norms of query and key are not computed here"},
        {"gemma", "its norm's 1 + weight and its scaled embedding are not computed here"},
        {"gemma2", "its soft caps and sliding window are not computed here"},
        {"phi3", "its fused matrices and rotary scaling are not read here"},
        {"gpt_neox", "its parallel blocks and partial rotary positions are not computed here"},
        {"roberta", "its positions begin after the padding token's, which is not computed here"},
        {"distilbert", "its names and its missing token types are not read here"},
        {"opt", "its positions and its ReLU are not computed here"},
    };
    for (size_t i = 0; type && i < sizeof others / sizeof *others; i++)
        if (strcmp(type, others[i].type) == 0) return others[i].reason;
    return NULL;
}
