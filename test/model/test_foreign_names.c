/* test_foreign_names.c - which names are known, whose they are, and what is refused. */
#include <stdint.h>
#include <string.h>

#include "model/foreign_models.h"
#include "model/foreign_rules.h"
#include "run_tests.h"

static const char *name_in_list(const void *context, size_t i)
{
    return ((const char *const *)context)[i];
}

/* NULL ends a list. */
static ls_names whose(const char *const *names)
{
    size_t count = 0;
    while (names[count]) count++;
    return ls_names_recognise(name_in_list, names, count);
}

START_TEST(recognised)
{
    static const struct {
        ls_names names;
        const char *list[5];
    } cases[] = {
        {LS_NAMES_GPT2, {"transformer.wte.weight", "lm_head.weight"}},
        {LS_NAMES_GPT2, {"h.0.ln_1.weight", "wpe.weight", "wte.weight"}},
        {LS_NAMES_LLAMA, {"lm_head.weight", "model.embed_tokens.weight"}},
        {LS_NAMES_LLAMA,
         {"norm.weight", "layers.31.self_attn.q_proj.weight", "embed_tokens.weight"}},
        {LS_NAMES_META_LLAMA, {"norm.weight", "output.weight", "layers.0.attention.wq.weight"}},
        {LS_NAMES_BERT, {"bert.embeddings.LayerNorm.gamma", "cls.predictions.bias"}},
        {LS_NAMES_BERT, {"embeddings.word_embeddings.weight"}},
        {LS_NAMES_MEGATRON, {"language_model.embedding.word_embeddings.weight"}},
        {LS_NAMES_MEGATRON,
         {"language_model.transformer.layers.3.attention.query_key_value.weight"}},
        {LS_NAMES_MEGATRON_CORE, {"embedding.word_embeddings.weight", "output_layer.weight"}},
        {LS_NAMES_MEGATRON_CORE, {"decoder.layers.0.input_layernorm.weight"}},
        {LS_NAMES_OWN, {"token_embedding.weight", "layers.0.attention.query.weight"}},
        {LS_NAMES_OWN, {"", "h.0.attn.c_attn.Weight", "transformer.h..ln_1.weight"}},
        {LS_NAMES_OWN, {NULL}},
        /* one stray name does not decide */
        {LS_NAMES_BERT, {"wte.weight", "bert.pooler.dense.bias", "cls.predictions.bias"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(whose(cases[i].list) == cases[i].names, "list %zu is taken for %s", i,
                      ls_names_title(whose(cases[i].list)));
}
END_TEST

/* What a map writes is recognised, and found under the same name. */
START_TEST(own_writing_is_read)
{
    foreign_case c = foreign_case_of(_i);
    foreign_fixture f = foreign_fixture_of(&c.config, c.names);
    const char *names[512];
    size_t count = 0;
    for (size_t t = 0; t < f.map->count; t++) {
        const ls_foreign_tensor *tensor = &f.map->tensors[t];
        ck_assert_ptr_eq(foreign_named(&f, tensor->name), tensor);
        if (!tensor->twin) names[count++] = tensor->name;
        for (size_t other = 0; other < t; other++)
            ck_assert_str_ne(tensor->name, f.map->tensors[other].name);
    }
    names[count] = NULL;
    ck_assert_msg(whose(names) == c.names, "%s is taken for %s", c.name,
                  ls_names_title(whose(names)));
    foreign_fixture_free(&f);
}
END_TEST

START_TEST(other_spellings)
{
    static const struct {
        int kind;
        const char *name, *meant; /* NULL: holds nothing that is needed */
    } cases[] = {
        {0, "wte.weight", "transformer.wte.weight"},
        {0, "h.1.mlp.c_fc.bias", "transformer.h.1.mlp.c_fc.bias"},
        {0, "h.0.attn.bias", NULL},
        {0, "transformer.h.1.attn.masked_bias", NULL},
        {3, "norm.weight", "model.norm.weight"},
        {3, "model.layers.1.self_attn.rotary_emb.inv_freq", NULL},
        {6, "embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"},
        {6, "bert.embeddings.position_ids", NULL},
        {7, "bert.pooler.dense.weight", NULL}, /* one loss: no pooler */
        {7, "cls.seq_relationship.bias", NULL},
        {8, "rope.freqs", NULL},
        {10, "language_model.transformer.layers.1.attention.dense.bias",
         "language_model.encoder.layers.1.self_attention.dense.bias"},
        {10, "language_model.encoder.layers.0.post_attention_norm.weight",
         "language_model.encoder.layers.0.post_attention_layernorm.weight"},
        {10, "language_model.encoder.final_norm.bias",
         "language_model.encoder.final_layernorm.bias"},
        {16, "lm_head.norm.weight", "lm_head.layernorm.weight"},
        {17, "decoder.layers.1.input_layernorm.bias",
         "decoder.layers.1.self_attention.linear_qkv.layer_norm_bias"},
        {17, "decoder.layers.1.pre_mlp_layernorm.weight",
         "decoder.layers.1.mlp.linear_fc1.layer_norm_weight"},
        {17, "decoder.layers.1.mlp.linear_fc1._extra_state", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_case c = foreign_case_of(cases[i].kind);
        foreign_fixture f = foreign_fixture_of(&c.config, c.names);
        const ls_foreign_tensor *tensor;
        ck_assert_msg(ls_foreign_match(f.map, "file", cases[i].name, &tensor) == LS_OK, "%s",
                      ls_error_text());
        if (cases[i].meant)
            ck_assert_str_eq(tensor->name, cases[i].meant);
        else
            ck_assert_msg(tensor == NULL, "%s", cases[i].name);
        foreign_fixture_free(&f);
    }
}
END_TEST

/* A tied head may be there too: as a twin of the embedding. Untied, it is a parameter. */
START_TEST(heads)
{
    static const struct {
        int kind;
        const char *name;
        bool twin;
        ls_role role;
    } cases[] = {{0, "lm_head.weight", true, LS_TOKEN_EMBEDDING},
                 {1, "lm_head.weight", false, LS_HEAD_WEIGHT},
                 {3, "lm_head.weight", false, LS_HEAD_WEIGHT},
                 {5, "lm_head.weight", true, LS_TOKEN_EMBEDDING},
                 {6, "cls.predictions.decoder.weight", true, LS_TOKEN_EMBEDDING},
                 {6, "cls.predictions.decoder.bias", true, LS_VOCAB_BIAS},
                 {8, "output.weight", false, LS_HEAD_WEIGHT},
                 {10, "word_embeddings_for_head.weight", true, LS_TOKEN_EMBEDDING},
                 {11, "language_model.output_layer.weight", false, LS_HEAD_WEIGHT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_case c = foreign_case_of(cases[i].kind);
        foreign_fixture f = foreign_fixture_of(&c.config, c.names);
        const ls_foreign_tensor *tensor = foreign_named(&f, cases[i].name);
        size_t param = ls_param_find(f.table, cases[i].role, 0);
        ck_assert_msg(tensor->twin == cases[i].twin, "%s: %s", c.name, cases[i].name);
        ck_assert_uint_eq(tensor->parts[0].param, param);
        /* the parameter's own place is never the twin */
        ck_assert(!f.map->tensors[f.map->places[param].tensor].twin);
        foreign_fixture_free(&f);
    }
}
END_TEST

/* One line, no control characters, with `words` in it. */
static void ck_refused(ls_status status, const char *words)
{
    const char *text = ls_error_text();
    ck_assert_msg(status == LS_ERR_INPUT, "accepted: %s", words);
    ck_assert_msg(strstr(text, words) != NULL, "%s: no \"%s\"", text, words);
    for (const char *c = text; *c; c++) ck_assert_msg((unsigned char)*c >= 32, "%s", text);
    ls_error_clear();
}

START_TEST(names_refused)
{
    static const struct {
        int kind;
        const char *name, *words;
    } cases[] = {
        {0, "transformer.h.2.ln_1.weight", "layer 2, counted from 0; the model has 2"},
        {0, "h.999999.attn.bias", "layer 999999"},
        {0, "h.9999999.ln_1.weight", "none of Hugging Face GPT-2's"},
        {0, "h.00.ln_1.weight", "none of Hugging Face GPT-2's"},
        {0, "h.-1.ln_1.weight", "none of"},
        {0, "h.1.ln_1.weight ", "none of"},
        {0, "transformer.transformer.wte.weight", "none of"},
        {0, "h.0.attn.c_attn.weigh", "none of"},
        {0, "token_embedding.weight", "none of Hugging Face GPT-2's"},
        {0, "", "none of"},
        {0, "%s%n\n\x1b[31m", "\\x1b[31m"},
        {3, "model.layers.0.self_attn.q_proj.bias", "none of Hugging Face Llama's"},
        {13, "language_model.embedding.position_embeddings.weight", "no place"},
        {14, "language_model.encoder.layers.0.self_attention.dense.bias", "no place"},
        {10, "language_model.embedding.tokentype_embeddings.weight", "no place"},
        {19, "layers.0.attention.query.weigth", "does not know"},
        {19, "layers.2.attention.query.weight", "does not know"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_case c = foreign_case_of(cases[i].kind);
        foreign_fixture f = foreign_fixture_of(&c.config, c.names);
        const ls_foreign_tensor *tensor = NULL;
        ls_error_clear();
        ck_refused(ls_foreign_match(f.map, "x.safetensors", cases[i].name, &tensor),
                   cases[i].words);
        ck_assert_ptr_null(tensor);
        foreign_fixture_free(&f);
    }
    /* longer than any */
    foreign_case c = foreign_case_of(0);
    foreign_fixture f = foreign_fixture_of(&c.config, c.names);
    char name[3000];
    for (size_t length = 100; length < sizeof name; length += length < 140 ? 1 : 997) {
        const ls_foreign_tensor *tensor;
        memset(name, 'x', length);
        name[length] = '\0';
        ck_refused(ls_foreign_match(f.map, "x.safetensors", name, &tensor), "none of");
        for (size_t at = 0; at + 20 < length; at += 20) memcpy(name + at, ".attention.", 11);
        ck_refused(ls_foreign_match(f.map, "x.safetensors", name, &tensor), "none of");
    }
    foreign_fixture_free(&f);
    c = foreign_case_of(10); /* whose synonyms make names longer */
    f = foreign_fixture_of(&c.config, c.names);
    for (size_t length = 100; length < 140; length++) {
        const ls_foreign_tensor *tensor;
        memset(name, 'x', length);
        memcpy(name + length - 11, ".attention.", 12);
        memcpy(name, ".post_attention_norm.", 21);
        ck_refused(ls_foreign_match(f.map, "x.safetensors", name, &tensor), "none of");
    }
    foreign_fixture_free(&f);
}
END_TEST

/* A name may grow by its newer parts; what no longer fits is refused before anything is written. */
START_TEST(no_room)
{
    char name[LS_FOREIGN_NAME_BYTES + 40], modern[LS_FOREIGN_NAME_BYTES + 64];
    for (size_t length = 60; length < sizeof name; length++) {
        memset(name, 'x', length);
        memcpy(name + 3, ".attention.", 11);
        memcpy(name + 20, ".input_norm.", 12);
        memcpy(name + 40, ".final_norm.", 12);
        name[length] = '\0';
        memset(modern, '#', sizeof modern);
        size_t grown = length + 5 + 5 + 5;
        bool fits = ls_foreign_modern(&ls_foreign_megatron, name, modern);
        ck_assert_msg(fits == (grown < LS_FOREIGN_NAME_BYTES), "%zu bytes", length);
        if (fits) ck_assert_uint_eq(strlen(modern), grown);
        for (size_t i = LS_FOREIGN_NAME_BYTES; i < sizeof modern; i++)
            ck_assert_int_eq(modern[i], '#');
    }
}
END_TEST

START_TEST(shapes)
{
    static const struct {
        int kind;
        const char *name;
        int n_dims;
        uint64_t dims[3];
        const char *words; /* NULL: accepted */
    } cases[] = {
        {0, "h.0.attn.c_attn.weight", 2, {12, 36}, NULL},
        {0, "h.0.attn.c_attn.weight", 2, {36, 12}, "36 x 12; the model's is 12 x 36"},
        {0, "h.0.attn.c_attn.weight", 1, {432}, "432; the model's is 12 x 36"},
        {0, "h.0.attn.c_attn.weight", 3, {1, 12, 36}, "1 x 12 x 36"},
        {0, "h.0.attn.c_attn.weight", 0, {0}, "()"},
        {0, "h.0.mlp.c_fc.weight", 2, {12, 48}, "12 x 48; the model's is 12 x 21"},
        {0, "ln_f.weight", 1, {12}, NULL},
        {0, "ln_f.weight", 2, {1, 12}, "1 x 12; the model's is 12"},
        {0, "ln_f.weight", 1, {UINT64_MAX}, "18446744073709551615"},
        {0, "wte.weight", 2, {131, 12}, NULL},
        {0, "wte.weight", 2, {132, 12}, "132 x 12; the model's is 131 x 12"}, /* not padded here */
        {0, "wpe.weight", 2, {5, 12}, NULL},
        {0, "wpe.weight", 2, {1024, 12}, NULL}, /* positions that are not reached */
        {0, "wpe.weight", 2, {4, 12}, "4 x 12; the model's is 5 x 12, or with more rows"},
        {0, "wpe.weight", 2, {1024, 13}, "1024 x 13"},
        {10, "language_model.embedding.word_embeddings.weight", 2, {384, 12}, NULL},
        {10, "language_model.embedding.word_embeddings.weight", 2, {131, 12}, NULL},
        {10, "language_model.embedding.word_embeddings.weight", 2, {256, 12}, NULL},
        {10, "language_model.embedding.word_embeddings.weight", 2, {512, 12}, NULL},
        {10, "language_model.embedding.word_embeddings.weight", 2, {130, 12}, "131 x 12"},
        {16, "lm_head.bias", 1, {384}, NULL},
        {16, "lm_head.bias", 1, {262}, "262"},
        {14, "language_model.encoder.layers.0.mlp.dense_h_to_4h.weight", 2, {36, 24}, NULL},
        {14, "language_model.encoder.layers.0.mlp.dense_h_to_4h.weight", 2, {18, 24}, "36 x 24"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_case c = foreign_case_of(cases[i].kind);
        foreign_fixture f = foreign_fixture_of(&c.config, c.names);
        ls_error_clear();
        ls_status status = ls_foreign_check_shape(foreign_named(&f, cases[i].name), "x.safetensors",
                                                  cases[i].name, cases[i].n_dims, cases[i].dims);
        if (cases[i].words)
            ck_refused(status, cases[i].words);
        else
            ck_assert_msg(status == LS_OK, "%s", ls_error_text());
        foreign_fixture_free(&f);
    }
}
END_TEST

/* Names for another kind of model. */
START_TEST(models_refused)
{
    static const struct {
        int kind;
        ls_names names;
        const char *words;
    } cases[] = {
        {3, LS_NAMES_GPT2, "with norm layernorm; this one has rmsnorm"},
        {6, LS_NAMES_GPT2, "with norm_place pre; this one has post"},
        {12, LS_NAMES_GPT2, "as many kv_heads as heads; this one has 2 and 6"},
        {13, LS_NAMES_GPT2, "position learned; this one has rotary"},
        {0, LS_NAMES_LLAMA, "norm rmsnorm; this one has layernorm"},
        {0, LS_NAMES_META_LLAMA, "names of Meta's Llama"},
        {0, LS_NAMES_BERT, "norm_place post; this one has pre"},
        {16, LS_NAMES_BERT, "norm_place post; this one has pre"},
        {6, LS_NAMES_MEGATRON, "norm_place pre; this one has post"},
        {16, LS_NAMES_MEGATRON_CORE, "objective next_token; this one has masked_token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        foreign_case c = foreign_case_of(cases[i].kind);
        ls_param_table *table;
        ls_foreign_map *map = NULL;
        ck_assert_int_eq(ls_param_table_create(&table, &c.config), LS_OK);
        ls_error_clear();
        ck_refused(ls_foreign_map_create(&map, table, cases[i].names, "--names x"), cases[i].words);
        ck_assert_ptr_null(map);
        ls_param_table_destroy(&table);
    }
}
END_TEST

START_TEST(option)
{
    ls_config gpt = foreign_gpt(), llama = foreign_llama(3);
    ls_config bert = foreign_bert(LS_NORM_POST, true);
    ls_names names = LS_NAMES_COUNT;
    for (int i = 0; i < LS_NAMES_COUNT; i++) {
        ck_assert_int_eq(ls_names_parse("--names", ls_names_option((ls_names)i), &gpt, &names),
                         LS_OK);
        ck_assert_int_eq(names, i);
    }
    ck_assert_int_eq(ls_names_parse("--names", "hf", &gpt, &names), LS_OK);
    ck_assert_int_eq(names, LS_NAMES_GPT2);
    ck_assert_int_eq(ls_names_parse("--names", "hf", &llama, &names), LS_OK);
    ck_assert_int_eq(names, LS_NAMES_LLAMA);
    ck_assert_int_eq(ls_names_parse("--names", "hf", &bert, &names), LS_OK);
    ck_assert_int_eq(names, LS_NAMES_BERT);
    ck_refused(ls_names_parse("--names", "megatrom", &gpt, &names), "did you mean megatron?");
    ck_refused(ls_names_parse("--map", "", &gpt, &names), "--map");
    ck_assert_int_eq(names, LS_NAMES_BERT); /* untouched */
}
END_TEST

int main(void)
{
    TCase *tests = test_case("foreign", 60);
    tcase_add_test(tests, recognised);
    tcase_add_loop_test(tests, own_writing_is_read, 0, FOREIGN_CASES);
    tcase_add_test(tests, other_spellings);
    tcase_add_test(tests, heads);
    tcase_add_test(tests, names_refused);
    tcase_add_test(tests, no_room);
    tcase_add_test(tests, shapes);
    tcase_add_test(tests, models_refused);
    tcase_add_test(tests, option);
    return run_tests();
}
