/* test_foreign_config.c - models from Hugging Face's config.json: what each key means, what is
 * filled in where it is absent, and what this library does not compute. */
#include "model/config_compare.h"
#include "run_tests.h"

static const char *json_file(const char *text)
{
    return scratch_file("config.json", text, strlen(text));
}

static ls_config loaded(const char *text)
{
    ls_config config;
    memset(&config, 0x55, sizeof config);
    ASSERT_OK(ls_config_load(json_file(text), &config));
    return config;
}

/* As the published gpt2 has it, with what does not matter. */
static const char gpt2_text[] =
    "{\"activation_function\": \"gelu_new\", \"architectures\": [\"GPT2LMHeadModel\"], "
    "\"attn_pdrop\": 0.1, \"bos_token_id\": 50256, \"embd_pdrop\": 0.1, \"eos_token_id\": 50256, "
    "\"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"model_type\": \"gpt2\", "
    "\"n_ctx\": 1024, \"n_embd\": 768, \"n_head\": 12, \"n_layer\": 12, \"n_positions\": 1024, "
    "\"resid_pdrop\": 0.1, \"summary_activation\": null, \"task_specific_params\": {\"a\": [1]}, "
    "\"vocab_size\": 50257}";

START_TEST(gpt2)
{
    ls_config built_in = named("gpt2-124m");
    strcpy(built_in.name, "gpt2");
    ls_config config = loaded(gpt2_text);
    assert_same(&config, &built_in);
    config = loaded("{\"model_type\": \"gpt2\"}"); /* all that differs from nothing */
    assert_same(&config, &built_in);

    config = loaded("{\"model_type\": \"gpt2\", \"n_embd\": 20, \"n_head\": 5, \"n_layer\": 3, "
                    "\"n_inner\": 33, \"n_positions\": 7, \"vocab_size\": 11, "
                    "\"layer_norm_epsilon\": 1e-6, \"activation_function\": \"gelu\", "
                    "\"tie_word_embeddings\": false, \"attn_pdrop\": 0, \"embd_pdrop\": 0.0, "
                    "\"resid_pdrop\": 0.0, \"initializer_range\": 0.5}");
    ck_assert_uint_eq(config.d_model, 20);
    ck_assert_uint_eq(config.heads, 5);
    ck_assert_uint_eq(config.kv_heads, 5);
    ck_assert_uint_eq(config.layers, 3);
    ck_assert_uint_eq(config.d_ff, 33);
    ck_assert_uint_eq(config.seq, 7);
    ck_assert_uint_eq(config.vocab, 11);
    ck_assert_int_eq(config.activation, LS_GELU_ERF);
    ck_assert(!config.tied);
    ck_assert(config.norm_eps == 1e-6 && config.dropout == 0 && config.init_std == 0.5);
    config = loaded("{\"model_type\": \"gpt2\", \"n_embd\": 24, \"n_inner\": null}");
    ck_assert_uint_eq(config.d_ff, 96);
}
END_TEST

START_TEST(llama)
{
    ls_config config =
        loaded("{\"model_type\": \"llama\", \"hidden_size\": 48, \"num_attention_heads\": 12, "
               "\"num_key_value_heads\": 4, \"intermediate_size\": 132, \"num_hidden_layers\": 4, "
               "\"max_position_embeddings\": 24, \"vocab_size\": 256, \"rms_norm_eps\": 1e-5, "
               "\"rope_theta\": 10000.0, \"rope_scaling\": null, \"attention_bias\": false, "
               "\"attention_dropout\": 0, \"hidden_act\": \"silu\", \"head_dim\": 4, "
               "\"pretraining_tp\": 1, \"torch_dtype\": \"bfloat16\"}");
    ls_config built_in = named("llama-nano");
    strcpy(built_in.name, "llama");
    assert_same(&config, &built_in);

    config = loaded("{\"model_type\": \"llama\"}"); /* of 7 thousand million parameters */
    ck_assert_uint_eq(config.layers, 32);
    ck_assert_uint_eq(config.d_model, 4096);
    ck_assert_uint_eq(config.heads, 32);
    ck_assert_uint_eq(config.kv_heads, 32);
    ck_assert_uint_eq(config.d_ff, 11008);
    ck_assert_uint_eq(config.seq, 2048);
    ck_assert_uint_eq(config.vocab, 32000);
    ck_assert(!config.tied && config.norm_eps == 1e-6);
    config = loaded("{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", "
                    "\"rope_theta\": 500000.0}, \"tie_word_embeddings\": true}");
    ck_assert(config.rope_theta == 500000 && config.tied);
}
END_TEST

START_TEST(bert)
{
    ls_config config =
        loaded("{\"model_type\": \"bert\", \"architectures\": [\"BertForPreTraining\"], "
               "\"hidden_size\": 48, \"num_attention_heads\": 12, \"intermediate_size\": 192, "
               "\"num_hidden_layers\": 4, \"max_position_embeddings\": 24, \"vocab_size\": 260, "
               "\"type_vocab_size\": 2, \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12, "
               "\"hidden_dropout_prob\": 0.1, \"attention_probs_dropout_prob\": 0.1, "
               "\"position_embedding_type\": \"absolute\", \"pad_token_id\": 0}");
    ls_config built_in = named("bert-nano");
    strcpy(built_in.name, "bert");
    assert_same(&config, &built_in);
    config = loaded("{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], "
                    "\"type_vocab_size\": 3}");
    ck_assert(!config.sentence_order);
    ck_assert_uint_eq(config.token_types, 3);
    ck_assert_uint_eq(config.d_ff, 3072);
    ck_assert_uint_eq(config.vocab, 30522);
}
END_TEST

/* One line that names file, key, what was found and what is allowed. */
START_TEST(refused)
{
    static const struct {
        const char *text;
        const char *words[4];
    } cases[] = {
        {"{\"model_type\": \"t5\"}", {"model_type \"t5\"", "gpt2, llama or bert"}},
        {"{\"model_type\": 3}", {"model_type 3"}},
        {"{\"model_type\": null}", {"model_type null"}},
        {"{\"model_type\": \"\\u001b\"}", {"model_type"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": \"12\"}", {"n_layer \"12\"", "whole number"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 1.5}", {"n_layer 1.5", "whole number"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 0}", {"n_layer 0", "whole number from 1"}},
        {"{\"model_type\": \"gpt2\", \"n_inner\": 0}", {"n_inner 0"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": -1}", {"n_layer -1"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 1000000000000}", {"layers 1000000000000"}},
        {"{\"model_type\": \"gpt2\", \"n_head\": 7}", {"heads 7", "d_model 768"}},
        {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": \"x\"}", {"layer_norm_epsilon"}},
        {"{\"model_type\": \"gpt2\", \"layer_norm_epsilon\": 0.0}", {"norm_eps 0"}},
        {"{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", {"tie_word_embeddings 1"}},
        {"{\"model_type\": \"gpt2\", \"activation_function\": \"relu\"}",
         {"activation_function \"relu\"", "gelu_new or gelu_pytorch_tanh or gelu"}},
        {"{\"model_type\": \"gpt2\", \"activation_function\": 1}", {"activation_function 1"}},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": 0.0}", {"embd_pdrop 0.1, but attn_pdrop 0:"}},
        {"{\"model_type\": \"gpt2\", \"resid_pdrop\": 0.3}", {"embd_pdrop 0.1", "resid_pdrop 0.3"}},
        {"{\"model_type\": \"gpt2\", \"attn_pdrop\": []}", {"attn_pdrop []"}},
        {"{\"model_type\": \"gpt2\", \"scale_attn_by_inverse_layer_idx\": true}",
         {"scale_attn_by_inverse_layer_idx true", "must be false"}},
        {"{\"model_type\": \"gpt2\", \"scale_attn_weights\": false}", {"scale_attn_weights false"}},
        {"{\"model_type\": \"llama\", \"attention_bias\": true}", {"attention_bias true"}},
        {"{\"model_type\": \"llama\", \"hidden_act\": \"gelu\"}", {"hidden_act", "silu"}},
        {"{\"model_type\": \"llama\", \"attention_dropout\": 0.1}", {"attention_dropout 0.1"}},
        {"{\"model_type\": \"llama\", \"num_key_value_heads\": 5}", {"kv_heads 5"}},
        {"{\"model_type\": \"llama\", \"head_dim\": 64}", {"head_dim 64"}},
        {"{\"model_type\": \"llama\", \"head_dim\": \"128\"}", {"head_dim \"128\""}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": "
         "8.0}}",
         {"rope_scaling", "llama3"}},
        {"{\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"linear\"}}", {"rope_scaling"}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": 3}", {"rope_parameters 3"}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_theta\": 10000.0}}",
         {"rope_parameters", "says no rope_type", "\"default\""}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", "
         "\"partial_rotary_factor\": 0.5}}",
         {"partial_rotary_factor 0.5", "must be 1.0"}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"rope_type\": \"default\", "
         "\"factor\": 2.0}}",
         {"rope_parameters: unknown key \"factor\""}},
        {"{\"model_type\": \"llama\", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
         "\"default\"}}}",
         {"rope_parameters", "says no rope_type"}},
        {"{\"model_type\": \"llama\", \"rope_theta\": 10000.0, \"rope_parameters\": "
         "{\"rope_type\": \"default\", \"rope_theta\": 500000.0}}",
         {"rope_theta 10000, but rope_parameters.rope_theta 500000"}},
        /* what is not in any list could change everything */
        {"{\"model_type\": \"llama\", \"sliding_window\": 4096}",
         {"unknown key \"sliding_window\" 4096", "could change what a llama computes"}},
        {"{\"model_type\": \"llama\", \"quantization_config\": {\"bits\": 4}}",
         {"unknown key \"quantization_config\" {\"bits\":4}"}},
        {"{\"model_type\": \"llama\", \"use_sliding_window\": true}", {"must be false"}},
        {"{\"model_type\": \"gpt2\", \"head_dim\": 64}", {"unknown key \"head_dim\" 64"}},
        {"{\"model_type\": \"gpt2\", \"n_layers\": 64}", {"unknown key \"n_layers\" 64"}},
        {"{\"model_type\": \"gpt2\", \"pruned_heads\": {\"0\": [1]}}", {"pruned_heads", "{}"}},
        {"{\"model_type\": \"bert\", \"is_encoder_decoder\": true}", {"is_encoder_decoder true"}},
        {"{\"model_type\": \"llama\", \"head_dim\": 256}",
         {"head_dim 256", "hidden_size 4096 divided by num_attention_heads 32"}},
        /* and models that are not computed here say why */
        {"{\"model_type\": \"qwen2\"}", {"model_type \"qwen2\"", "biases of query", "llama"}},
        {"{\"model_type\": \"mistral\"}", {"model_type \"mistral\"", "sliding window"}},
        {"{\"model_type\": \"bert\", \"hidden_act\": \"gelu_new\"}", {"hidden_act"}},
        {"{\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\"}",
         {"position_embedding_type \"relative_key\"", "\"absolute\""}},
        {"{\"model_type\": \"bert\", \"is_decoder\": true}", {"is_decoder true"}},
        {"{\"model_type\": \"bert\", \"type_vocab_size\": 1}", {"token_types 1"}},
        {"{\"model_type\": \"bert\", \"hidden_dropout_prob\": 0.2}", {"hidden_dropout_prob 0.2"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_config config, before;
        memset(&config, 0x55, sizeof config);
        memset(&before, 0x55, sizeof before);
        const char *path = json_file(cases[i].text);
        ls_status status = ls_config_load(path, &config);
        ck_assert_msg(strstr(ls_error_text(), "config.json: ") != NULL, "%s", ls_error_text());
        assert_says(status, LS_ERR_INPUT, cases[i].words);
        ck_assert(memcmp(&config, &before, sizeof config) == 0);
    }
}
END_TEST

/* As published files have them: what is known to change nothing, and what is switched off. */
START_TEST(passed_over)
{
    ls_config built_in = named("gpt2-124m");
    strcpy(built_in.name, "gpt2");
    ls_config config = loaded(
        "{\"model_type\": \"gpt2\", \"_name_or_path\": \"x\", \"transformers_version\": \"4.1\", "
        "\"use_cache\": true, \"id2label\": {\"0\": \"a\"}, \"summary_first_dropout\": 0.1, "
        "\"sliding_window\": null, \"quantization_config\": null, \"is_decoder\": false, "
        "\"pruned_heads\": {}, \"n_ctx\": 7, \"temperature\": 0.1, \"top_k\": 3}");
    assert_same(&config, &built_in);
    config = loaded("{\"model_type\": \"llama\", \"partial_rotary_factor\": 1, \"rope_theta\": "
                    "5e5, \"use_sliding_window\": false, \"rope_parameters\": {\"rope_type\": "
                    "\"default\", \"rope_theta\": 500000, \"partial_rotary_factor\": 1.0, "
                    "\"factor\": null}, \"head_dim\": 128}");
    ck_assert(config.rope_theta == 500000);
}
END_TEST

START_TEST(in_a_folder)
{
    ls_config config;
    char path[1024];
    snprintf(path, sizeof path, "%s", scratch_path("model"));
    ck_assert_int_eq(mkdir(path, 0755), 0);
    ASSERT_SAYS(ls_config_load(path, &config), LS_ERR_INPUT, "--model ",
                "a folder without config.json");
    scratch_file("model/config.json", gpt2_text, sizeof gpt2_text - 1);
    ASSERT_OK(ls_config_load(path, &config));
    ck_assert_uint_eq(config.vocab, 50257);
}
END_TEST

/* Beside a checkpoint, whether that is a file or a folder; and only one of Hugging Face's. */
START_TEST(beside)
{
    char folder[1024], path[1100], *found;
    snprintf(folder, sizeof folder, "%s", scratch_path("checkpoint"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    ASSERT_OK(ls_config_beside(path, &found));
    ck_assert_ptr_null(found);
    /* One that is there and not right is never passed over. */
    static const struct {
        const char *text;
        const char *words[4];
    } others[] = {
        {"", {"checkpoint/config.json: not JSON", "it is empty"}},
        {"{", {"checkpoint/config.json: not JSON"}},
        {"{\"model_type\": \"gpt2\", \"n_layer\": 4", {"not JSON", "ends inside an object"}},
        {"\xef\xbb\xbf{\"model_type\": \"gpt2\"}", {"not JSON", "byte-order mark", "UTF-8"}},
        {"{\"model_type\": \"gpt2\", \"x\": NaN}", {"not JSON", "found NaN"}},
        {"{\"model_type\": \"gpt2\", \"model_type\": \"gpt2\"}", {"not JSON", "duplicate"}},
        {"[]", {"config.json: found []", "\"model_type\"", "--model"}},
        {"3", {"config.json: found 3"}},
        {"{\"layers\": 3}", {"config.json: has no \"model_type\"", "--model"}},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        scratch_file("checkpoint/config.json", others[i].text, strlen(others[i].text));
        found = (char *)&found;
        ls_status status = ls_config_beside(path, &found);
        ck_assert_ptr_null(found);
        assert_says(status, LS_ERR_INPUT, others[i].words);
    }
    scratch_file("checkpoint/config.json", gpt2_text, sizeof gpt2_text - 1);
    const char *wanted = scratch_path("checkpoint/config.json");
    ASSERT_OK(ls_config_beside(path, &found));
    ck_assert_str_eq(found, wanted);
    free(found);
    ASSERT_OK(ls_config_beside(folder, &found));
    ck_assert_str_eq(found, wanted);
    free(found);
    strcat(folder, "/");
    ASSERT_OK(ls_config_beside(folder, &found));
    ck_assert_str_eq(found, wanted);
    free(found);
    ck_assert_int_eq(chdir(folder), 0); /* in a process of its own */
    ASSERT_OK(ls_config_beside("model.safetensors", &found));
    ck_assert_str_eq(found, "config.json");
    free(found);
    ck_assert_int_eq(mkdir("x", 0755) | mkdir("x/config.json", 0755), 0);
    ASSERT_SAYS(ls_config_beside("x", &found), LS_ERR_INPUT, "x/config.json", "plain file");
    ck_assert_int_eq(mkdir("y", 0755) | mkfifo("y/config.json", 0600), 0);
    ASSERT_SAYS(ls_config_beside("y", &found), LS_ERR_INPUT, "y/config.json", "plain file");
    ASSERT_OK(ls_config_beside("y/z/model.safetensors", &found)); /* the folder is missing */
    ck_assert_ptr_null(found);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("config.json", 0);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, gpt2);
    tcase_add_test(tests, llama);
    tcase_add_test(tests, bert);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, passed_over);
    tcase_add_test(tests, in_a_folder);
    tcase_add_test(tests, beside);
    return run_tests();
}
