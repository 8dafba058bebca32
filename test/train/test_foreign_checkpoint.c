/* Checkpoints under other programs' names: written by any layout, they hold the same weights as a
 * checkpoint of ours, and any layout begins with them; and files that do not fit are refused. */
#include <stdlib.h>

#include "edited_file.h"
#include "run_fixture.h"
#include "run_tests.h"

enum { PATH_BYTES = 300 };
static char ours[PATH_BYTES], theirs[PATH_BYTES], edited[PATH_BYTES];

static void set_up(void)
{
    snprintf(ours, sizeof ours, "%s", scratch_path("ours.safetensors"));
    snprintf(theirs, sizeof theirs, "%s", scratch_path("theirs.safetensors"));
    snprintf(edited, sizeof edited, "%s", scratch_path("edited.safetensors"));
}

static ls_train_result train(const ls_run *run)
{
    ls_train_result result;
    ls_status status = ls_train(run, NULL, &result);
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
    return result;
}

/* The digest of a run, which is over. */
static const char *digest_of(const ls_run *run)
{
    static char digests[4][65];
    static int turn;
    ls_train_result result = train(run);
    char *digest = digests[turn++ % 4];
    strcpy(digest, result.digest);
    ck_assert_uint_eq(result.first_step, 0);
    ls_train_result_free(&result);
    return digest;
}

/* ---- there and back ---- */

static const struct {
    const char *model;
    ls_norm_place norms;
    bool tied;
    ls_names names;
    ls_dtype dtype;
} kinds[] = {
    {"gpt2-nano", LS_NORM_PRE, true, LS_NAMES_GPT2, LS_F32},
    {"gpt2-nano", LS_NORM_PRE, false, LS_NAMES_GPT2, LS_F64},
    {"llama-nano", LS_NORM_PRE, false, LS_NAMES_LLAMA, LS_F32},
    {"llama-nano", LS_NORM_PRE, true, LS_NAMES_META_LLAMA, LS_F32},
    {"bert-nano", LS_NORM_POST, true, LS_NAMES_BERT, LS_F32},
    {"gpt2-nano", LS_NORM_PRE, true, LS_NAMES_MEGATRON, LS_F32},
    {"llama-nano", LS_NORM_PRE, false, LS_NAMES_MEGATRON, LS_F64},
    {"bert-nano", LS_NORM_PRE, true, LS_NAMES_MEGATRON, LS_F32},
    {"llama-nano", LS_NORM_PRE, false, LS_NAMES_MEGATRON_CORE, LS_F32},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static ls_config config_of(int kind)
{
    ls_config config = fixture_config(kinds[kind].model);
    ls_config_place_norms(&config, kinds[kind].norms);
    config.tied = kinds[kind].tied;
    config.layers = 2;
    config.seq = 5;
    return config;
}

static const grid_of grid = {2, 2, 3, true, 1, 2, LS_1F1B, LS_RECOMPUTE_NONE};

/* Two steps of a grid, saved under both names; then a step from each, serial and in a grid: the
 * same losses and the same weights. */
START_TEST(the_same_weights)
{
    ls_text text = fixture_text();
    ls_config config = config_of(_i);
    ls_run run = fixture_run(&config, &text, 2);
    run.dtype = kinds[_i].dtype;
    run.serial = false;
    run.layout = fixture_layout(&grid);
    run.save = edited;
    ls_train_result first = train(&run);
    copy_file(edited, ours, &unchanged, 0, 1); /* without optimizer state */
    run.save = theirs;
    run.names = kinds[_i].names;
    ls_train_result again = train(&run);
    ck_assert_str_eq(first.digest, again.digest);
    ls_train_result_free(&first);
    ls_train_result_free(&again);

    ls_safetensors *file;
    ASSERT_OK(ls_safetensors_open(&file, theirs));
    ck_assert_str_eq(ls_safetensors_metadata(file, "format"), "pt");
    ck_assert_str_eq(ls_safetensors_metadata(file, "names"), ls_names_title(kinds[_i].names));
    ls_safetensors_close(&file);

    run.save = NULL;
    run.steps = 1;
    run.load = ours;
    const char *from_ours = digest_of(&run);
    run.load = theirs;
    ck_assert_str_eq(digest_of(&run), from_ours);
    run.serial = true;
    ck_assert_str_eq(digest_of(&run), from_ours);

    /* and written by the serial baseline it is the same file */
    run.load = theirs;
    run.steps = 2;
    run.save = edited;
    (void)digest_of(&run);
    run.serial = false;
    run.save = theirs;
    (void)digest_of(&run);
    ls_safetensors *x, *y;
    size_t padding = 0;
    ASSERT_OK(ls_safetensors_open(&x, edited));
    ASSERT_OK(ls_safetensors_open(&y, theirs));
    ck_assert_uint_eq(ls_safetensors_count(x), ls_safetensors_count(y));
    for (size_t i = 0; i < ls_safetensors_count(x); i++) {
        const ls_tensor_info *p = ls_safetensors_at(x, i), *q = ls_safetensors_at(y, i);
        ck_assert_str_eq(p->name, q->name);
        /* rows that pad the vocabulary are zeros */
        bool vocabulary = strstr(p->name, "word_embeddings") || strstr(p->name, "output_layer") ||
                          strcmp(p->name, "lm_head.bias") == 0;
        uint64_t width = p->n_dims == 2 ? p->dims[1] : 1;
        for (uint64_t e = config.vocab * width; vocabulary && e < p->elements; e++, padding++)
            for (size_t byte = 0; byte < ls_dtype_bytes(p->dtype); byte++)
                if (((const char *)p->data)[e * ls_dtype_bytes(p->dtype) + byte])
                    ck_abort_msg("%s: padding is not 0", p->name);
        ck_assert(memcmp(p->data, q->data, p->elements * ls_dtype_bytes(p->dtype)) == 0);
    }
    bool pads = kinds[_i].names == LS_NAMES_MEGATRON || kinds[_i].names == LS_NAMES_MEGATRON_CORE;
    ck_assert_int_eq(padding > 0, pads);
    ls_safetensors_close(&x);
    ls_safetensors_close(&y);
}
END_TEST

/* A checkpoint of one step under Hugging Face's names, and a run that would begin with it. */
static ls_run one_step(const ls_config *config, const ls_text *text, ls_names names)
{
    ls_run run = fixture_run(config, text, 1);
    run.save = theirs;
    run.names = names;
    ls_train_result result = train(&run);
    ls_train_result_free(&result);
    run.save = NULL;
    run.names = LS_NAMES_OWN;
    return run;
}

/* In several files under an index, in a folder, and with prefixes left out. */
START_TEST(several_files)
{
    ls_text text = fixture_text();
    ls_config config = config_of(0);
    ls_run run = one_step(&config, &text, LS_NAMES_GPT2);
    run.load = theirs;
    const char *whole = digest_of(&run);

    char folder[PATH_BYTES], path[PATH_BYTES + 40], index[20000] = "{\"weight_map\": {";
    snprintf(folder, sizeof folder, "%s", scratch_path("folder"));
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    for (size_t part = 0; part < 3; part++) {
        snprintf(path, sizeof path, "%s/model-%zu.safetensors", folder, part);
        copy_file(theirs, path, &unchanged, part, 3);
    }
    ls_safetensors *file;
    ASSERT_OK(ls_safetensors_open(&file, theirs));
    for (size_t i = 0; i < ls_safetensors_count(file); i++)
        snprintf(index + strlen(index), sizeof index - strlen(index),
                 "%s\"%s\": \"model-%zu.safetensors\"", i ? ", " : "",
                 ls_safetensors_at(file, i)->name, i % 3);
    ls_safetensors_close(&file);
    strcat(index, "}}");
    scratch_file("folder/model.safetensors.index.json", index, strlen(index));
    run.load = folder;
    ck_assert_str_eq(digest_of(&run), whole);
    run.serial = false;
    run.layout = fixture_layout(&grid);
    ck_assert_str_eq(digest_of(&run), whole);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    run.load = path;
    ck_assert_str_eq(digest_of(&run), whole);

    copy_file(theirs, edited, &(edit){RENAME, "transformer.wte.weight", "wte.weight", LS_F32}, 0,
              1);
    run.load = edited;
    ck_assert_str_eq(digest_of(&run), whole);
}
END_TEST

/* F16 and BF16 hold fewer numbers, all of which F32 and F64 have: what a file was cut down to is
 * what a run begins with, in either precision. */
START_TEST(half_precision)
{
    ls_text text = fixture_text();
    ls_config config = config_of(2);
    ls_run run = one_step(&config, &text, LS_NAMES_LLAMA);
    ls_dtype dtype = _i == 0 ? LS_F16 : LS_BF16;
    copy_file(theirs, edited, &(edit){CONVERT, NULL, NULL, dtype}, 0, 1);
    run.load = theirs;
    char from_whole[65];
    strcpy(from_whole, digest_of(&run));
    run.load = edited;
    char from_half[65];
    strcpy(from_half, digest_of(&run));
    ck_assert_str_ne(from_half, from_whole);
    run.serial = false;
    run.layout = fixture_layout(&grid);
    ck_assert_str_eq(digest_of(&run), from_half);

    /* the numbers themselves: a run without a learning rate leaves them as they are */
    run.lr = 0x1p-200; /* updates that vanish beside every weight but 0 */
    run.weight_decay = 0;
    run.names = LS_NAMES_LLAMA;
    run.save = ours;
    (void)digest_of(&run);
    ls_safetensors *half, *whole;
    ASSERT_OK(ls_safetensors_open(&half, edited));
    ASSERT_OK(ls_safetensors_open(&whole, ours));
    for (size_t i = 0; i < ls_safetensors_count(half); i++) {
        const ls_tensor_info *h = ls_safetensors_at(half, i);
        const ls_tensor_info *w = ls_safetensors_find(whole, h->name);
        ck_assert_int_eq(h->dtype, dtype);
        ck_assert_int_eq(w->dtype, LS_F32);
        for (size_t n = 0; n < h->elements; n++) {
            uint16_t bits;
            float value;
            memcpy(&bits, (const char *)h->data + 2 * n, sizeof bits);
            memcpy(&value, (const char *)w->data + 4 * n, sizeof value);
            if ((bits & 0x7fff) == 0 && value <= 0 && value >= 0) continue; /* of either sign */
            if (bits != shorter(value, dtype)) ck_abort_msg("%s [%zu]", h->name, n);
        }
    }
    ls_safetensors_close(&half);
    ls_safetensors_close(&whole);
    run.dtype = LS_F64;
    run.save = NULL;
    (void)digest_of(&run);
}
END_TEST

/* ---- what fits and what does not ---- */

#define H0 "transformer.h.0."
static const struct {
    int kind;
    edit e;
    const char *words[3]; /* none: accepted, and the same weights */
} edits[] = {
    /* a tied head may be there: its values must be the embedding's; or there in its place */
    {0, {AGAIN, "transformer.wte.weight", "lm_head.weight", LS_F32}, {NULL}},
    {0, {RENAME, "transformer.wte.weight", "lm_head.weight", LS_F32}, {NULL}},
    {0,
     {CHANGE, "transformer.wte.weight", "lm_head.weight", LS_F32},
     {"lm_head.weight", "transformer.wte.weight", "tied"}},
    {4, {AGAIN, "cls.predictions.bias", "cls.predictions.decoder.bias", LS_F32}, {NULL}},
    {4,
     {CHANGE, "cls.predictions.bias", "cls.predictions.decoder.bias", LS_F32},
     {"cls.predictions.decoder.bias", "cls.predictions.bias"}},
    {1, {DROP, "lm_head.weight", NULL, LS_F32}, {"has no tensor lm_head.weight"}},
    /* what nobody needs, of any shape and type */
    {0, {ADD, NULL, H0 "attn.bias", LS_F32}, {NULL}},
    {0, {ADD, NULL, "h.1.attn.masked_bias", LS_F32}, {NULL}},
    {2, {ADD, NULL, "model.layers.1.self_attn.rotary_emb.inv_freq", LS_F32}, {NULL}},
    {4, {ADD, NULL, "bert.embeddings.position_ids", LS_F32}, {NULL}},
    /* what somebody else needs */
    {0, {ADD, NULL, H0 "attn.c_attn.bia", LS_F32}, {H0 "attn.c_attn.bia", "Hugging Face GPT-2"}},
    {0, {ADD, NULL, "transformer.h.2.ln_1.bias", LS_F32}, {"layer 2", "2 layers"}},
    {2, {ADD, NULL, "model.layers.0.self_attn.q_proj.bias", LS_F32}, {"q_proj.bias", "none of"}},
    {2, {ADD, NULL, "score.weight", LS_F32}, {"score.weight", "none of"}},
    {0, {ADD, NULL, "token_embedding.weight", LS_F32}, {"does not know"}},
    /* missing, twice, of a wrong kind */
    {0, {DROP, H0 "attn.c_attn.bias", NULL, LS_F32}, {"no tensor " H0 "attn.c_attn.bias"}},
    {2, {DROP, "model.embed_tokens.weight", NULL, LS_F32}, {"no tensor model.embed_tokens"}},
    {4, {DROP, "cls.seq_relationship.bias", NULL, LS_F32}, {"no tensor cls.seq_relationship.bias"}},
    {0,
     {AGAIN, H0 "ln_1.weight", "h.0.ln_1.weight", LS_F32},
     {H0 "ln_1.weight", "h.0.ln_1.weight", "the same one"}},
    {4,
     {AGAIN, "bert.embeddings.LayerNorm.bias", "bert.embeddings.LayerNorm.beta", LS_F32},
     {"LayerNorm.bias", "LayerNorm.beta", "the same one"}},
    {0, {RETYPE, H0 "ln_1.weight", NULL, LS_I32}, {"ln_1.weight is I32", "F32, F16 or BF16"}},
    {0, {RENAME, H0 "mlp.c_fc.bias", H0 "mlp.c_proj.bia", LS_F32}, {"mlp.c_proj.bia", "none of"}},
    /* what a wrapper puts into the names */
    {0,
     {PREFIX, NULL, "module.", LS_F32},
     {"tensor module.transformer.", "with the prefix \"module.\" of DataParallel or Distributed",
      "strip it from every name, or save model.module.state_dict()"}},
    {2,
     {PREFIX, NULL, "_orig_mod.", LS_F32},
     {"tensor _orig_mod.", "with the prefix \"_orig_mod.\" of torch.compile",
      "_orig_mod.state_dict"}},
    {0,
     {PREFIX, NULL, "model.", LS_F32},
     {"tensor model.transformer.", "with the prefix \"model.\"", "strip it"}},
    {2,
     {PREFIX, NULL, "model.", LS_F32},
     {"tensor model.model.", "with the prefix \"model.\"", "is model."}},
    {4,
     {PREFIX, NULL, "module._orig_mod.", LS_F32},
     {"tensor module._orig_mod.", "is bert.", "with the prefix \"_orig_mod.\""}},
    {5, {PREFIX, NULL, "module.", LS_F32}, {"tensor module.", "with the prefix \"module.\""}},
    {0,
     {RENAME, H0 "ln_1.weight", H0 "_orig_mod.ln_1.weight", LS_F32},
     {H0 "_orig_mod.ln_1.weight is " H0 "ln_1.weight", "of torch.compile"}},
    {0, {PREFIX, NULL, "other.", LS_F32}, {"other.transformer.", "does not know"}},
};

/* At every degree: one line that names the file, and no rank. */
START_TEST(edited_files)
{
    ls_text text = fixture_text();
    ls_config config = config_of(edits[_i].kind);
    ls_run run = one_step(&config, &text, kinds[edits[_i].kind].names);
    run.load = theirs;
    char whole[65];
    strcpy(whole, digest_of(&run));
    copy_file(theirs, edited, &edits[_i].e, 0, 1);
    run.load = edited;
    for (int degree = 0; degree < 2; degree++) {
        run.serial = degree == 0;
        run.layout = fixture_layout(&grid);
        if (!edits[_i].words[0]) {
            ck_assert_str_eq(digest_of(&run), whole);
            continue;
        }
        ls_train_result result;
        ls_error_clear();
        ls_status status = ls_train(&run, NULL, &result);
        const char *text_of = ls_error_text();
        ck_assert_msg(strncmp(text_of, edited, strlen(edited)) == 0, "%s", text_of);
        const char *words[4] = {edits[_i].words[0], edits[_i].words[1], edits[_i].words[2], NULL};
        assert_says(status, LS_ERR_INPUT, words);
    }
}
END_TEST

/* Weights of a wider type, of another model, of the transposed arrangement; a model whose names
 * these cannot be. */
START_TEST(other_models)
{
    ls_text text = fixture_text();
    ls_config config = config_of(0);
    ls_train_result result;
    ls_run run = one_step(&config, &text, LS_NAMES_GPT2);
    run.load = theirs;
    run.config.d_ff = 96;
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT,
                "h.0.mlp.c_fc.weight has shape 48 x 192", "the model's is 48 x 96");
    run.config = config;
    run.config.layers = 3;
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT, "has no tensor transformer.h.2.");
    run.config = config;
    run.config.heads = run.config.kv_heads = 6; /* same shapes; the file says it */
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT, "heads 12", "this one has 6");
    run.config = config;
    run.config.seq = 4; /* fewer positions than the file has */
    ck_assert_uint_eq(strlen(digest_of(&run)), 64);
    run.config.seq = 6;
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT, "transformer.wpe.weight",
                "5 x 48; the model's is 6 x 48, or with more rows");
    run.config = config_of(2);
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT, theirs);

    run = fixture_run(&config, &text, 1);
    run.dtype = LS_F64;
    run.save = theirs;
    run.names = LS_NAMES_GPT2;
    ls_train_result wide = train(&run);
    ls_train_result_free(&wide);
    run.load = theirs;
    run.save = NULL;
    ck_assert_uint_eq(strlen(digest_of(&run)), 64);
    run.dtype = LS_F32;
    ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT, "transformer.wte.weight is F64",
                "takes F32, F16 or BF16");

    run.load = NULL;
    run.save = ours;
    run.names = LS_NAMES_LLAMA;
    for (int serial = 0; serial < 2; serial++) {
        run.serial = serial;
        ASSERT_SAYS(ls_train(&run, NULL, &result), LS_ERR_INPUT,
                    "--names hf-llama:", "norm rmsnorm; this one has layernorm");
        ck_assert_int_ne(access(ours, F_OK), 0);
    }
}
END_TEST

/* Where a file ends up must not hide what is in it. */
static void clean(void)
{
    unlink(ours), unlink(theirs), unlink(edited);
}

int main(void)
{
    TCase *tests = test_case("foreign checkpoint", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_checked_fixture(tests, set_up, clean);
    tcase_add_loop_test(tests, the_same_weights, 0, KINDS);
    tcase_add_test(tests, several_files);
    tcase_add_loop_test(tests, half_precision, 0, 2);
    tcase_add_loop_test(tests, edited_files, 0, (int)(sizeof edits / sizeof edits[0]));
    tcase_add_test(tests, other_models);
    return run_tests();
}
