/* test_config_json.c - a configuration from a JSON text and back. */
#include <stdint.h>

#include "model/config_compare.h"
#include "run_tests.h"

/* Nothing of it as in a built-in model. */
static const ls_config unusual = {.name = "unusual",
                                  .layers = 3,
                                  .d_model = 60,
                                  .heads = 10,
                                  .kv_heads = 5,
                                  .d_ff = 77,
                                  .seq = 13,
                                  .vocab = 301,
                                  .batch = 7,
                                  .norm = LS_RMS_NORM,
                                  .activation = LS_GELU_ERF,
                                  .position = LS_ROTARY,
                                  .mlp_cut = LS_MLP_ROW_FIRST,
                                  .norm_place = LS_NORM_POST,
                                  .objective = LS_MASKED_TOKEN,
                                  .token_types = 3,
                                  .embedding_norm = true,
                                  .sentence_order = true,
                                  .causal = false,
                                  .bias = true,
                                  .tied = false,
                                  .dropout = 1.0 / 3.0,
                                  .norm_eps = 1e-6,
                                  .rope_theta = 12345.678901234567,
                                  .init_std = 0.1,
                                  .label_smoothing = 0x1p-60};

static const char *json_file(const char *text)
{
    return scratch_file("model.json", text, strlen(text));
}

START_TEST(json_round_trip)
{
    ls_config models[5] = {named("gpt2-nano"), named("gpt2-124m"), named("llama-nano"),
                           named("bert-nano"), unusual};
    for (int i = 0; i < 5; i++) {
        char *text = NULL, *again = NULL;
        ls_config read;
        memset(&read, 0x55, sizeof read);
        ASSERT_OK(ls_config_to_json(&models[i], &text));
        ASSERT_OK(ls_config_load(json_file(text), &read));
        assert_same(&read, &models[i]);
        ls_config direct;
        memset(&direct, 0xff, sizeof direct);
        ASSERT_OK(ls_config_from_json("here", text, &direct));
        ck_assert_uint_eq(direct.d_ff, read.d_ff);
        ck_assert_str_eq(direct.name, read.name);
        ASSERT_OK(ls_config_to_json(&read, &again));
        ck_assert_str_eq(text, again);
        free(text);
        free(again);
    }
    char *text = (char *)&text;
    ls_config bad = unusual;
    bad.kv_heads = 3;
    ASSERT_SAYS(ls_config_to_json(&bad, &text), LS_ERR_INPUT, "--kv-heads 3");
    ASSERT_SAYS(ls_config_from_json("m.json: model", "{\"layers\": -1}", &bad), LS_ERR_INPUT,
                "m.json: model: layers -1");
    ASSERT_SAYS(ls_config_from_json("m.json: model", "{", &bad), LS_ERR_INPUT, "m.json: model",
                "not JSON");
    bad = unusual;
    strcpy(bad.name, "\xff");
    ASSERT_SAYS(ls_config_to_json(&bad, &text), LS_ERR_INPUT, "\\xff", "UTF-8");
    ck_assert_ptr_eq(text, (char *)&text);
}
END_TEST

START_TEST(json_starts_from_a_base)
{
    ls_config found, expected = named("gpt2-nano");
    strcpy(expected.name, "custom");
    ASSERT_OK(ls_config_load(json_file("{}"), &found));
    assert_same(&found, &expected);

    ASSERT_OK(ls_config_load(json_file("{\"heads\": 6, \"dropout\": 0}"), &found));
    expected.heads = expected.kv_heads = 6;
    expected.dropout = 0;
    assert_same(&found, &expected);

    expected = named("llama-nano");
    strcpy(expected.name, "h\xc3\xa4lfte");
    expected.heads = 24;
    expected.tied = true;
    ASSERT_OK(ls_config_load(json_file("{\"tied\": true, \"heads\": 24, \"base\": \"llama-nano\","
                                       "\"name\": \"h\xc3\xa4lfte\"}"),
                             &found));
    assert_same(&found, &expected);
}
END_TEST

/* A built-in name, unless a file of that name exists; a folder of that name is no file. */
START_TEST(name_or_file)
{
    ls_config found, expected = named("gpt2-nano");
    ck_assert_int_eq(chdir(scratch_folder), 0);
    ASSERT_OK(ls_config_load("gpt2-nano", &found));
    assert_same(&found, &expected);
    ck_assert_int_eq(mkdir("gpt2-nano", 0755), 0);
    ASSERT_OK(ls_config_load("gpt2-nano", &found));
    assert_same(&found, &expected);
    scratch_file("llama-nano", "{\"layers\": 9}", 13);
    ASSERT_OK(ls_config_load("llama-nano", &found));
    ck_assert_uint_eq(found.layers, 9);
    ck_assert_int_eq(found.norm, LS_LAYER_NORM);

    ASSERT_SAYS(ls_config_load("missing.json", &found), LS_ERR_INPUT, "--model missing.json",
                "gpt2-124m");
    ASSERT_SAYS(ls_config_load("lama-nano", &found), LS_ERR_INPUT, "did you mean llama-nano?");
    ASSERT_SAYS(ls_config_load(".", &found), LS_ERR_INPUT, "--model .: a folder");
    ASSERT_SAYS(ls_config_load("", &found), LS_ERR_INPUT, "--model : ");
    ASSERT_SAYS(ls_config_load("\xff\n", &found), LS_ERR_INPUT, "--model \\xff\\x0a: ");
    ck_assert_uint_eq(found.layers, 9);
}
END_TEST

static const struct {
    const char *text;
    const char *words[3]; /* besides the file's name */
} bad_json[] = {
    {"", {"not JSON", "line 1"}},
    {"layers: 4", {"not JSON"}},
    {"{\"layers\": 4", {"not JSON"}},
    {"{\"layers\": 4,}", {"not JSON"}},
    {"{\"layers\": 4} 5", {"not JSON"}},
    {"{\"layers\": 4, \"layers\": 5}", {"not JSON", "duplicate"}},
    {"{\"layers\": 99999999999999999999}", {"not JSON", "integer"}},
    {"{\"dropout\": 1e999}", {"not JSON", "overflow"}},
    {"{\"dropout\": NaN}", {"not JSON"}},
    {"{\"name\": \"\xff\"}", {"not JSON", "decode byte 0xff"}},
    {"{\n\"name\": \"\x1b[2J\"}", {"not JSON", "line 2"}},
    {"[]", {"[]", "JSON object"}},
    {"4", {"4", "JSON object"}},
    {"null", {"null", "JSON object"}},
    {"{\"layer\": 4}", {"unknown key \"layer\"", "did you mean \"layers\"?"}},
    {"{\"d-model\": 4}", {"unknown key \"d-model\"", "did you mean \"d_model\"?"}},
    {"{\"Heads\": 4}", {"unknown key \"Heads\"", "did you mean \"heads\"?"}},
    {"{\"vcoab\": 4}", {"unknown key \"vcoab\"", "did you mean \"vocab\"?"}},
    {"{\"\\u001b[2J\": 4}", {"unknown key \"\\x1b[2J\"", "known keys: name, base, network, layers"}},
    {"{\"\": 4}", {"unknown key \"\"", "known keys"}},
    {"{\"layers\": \"4\"}", {"layers \"4\": must be a whole number from 1 to 4000"}},
    {"{\"layers\": 4.0}", {"layers 4.0: must be a whole number"}},
    {"{\"layers\": -4}", {"layers -4: must be a whole number from 1"}},
    {"{\"layers\": 0}", {"layers 0: must be a whole number from 1"}},
    {"{\"layers\": 5000}", {"layers 5000: must be", "to 4000"}},
    {"{\"layers\": null}", {"layers null: must be a whole number"}},
    {"{\"layers\": [4]}", {"layers [4]: must be a whole number"}},
    {"{\"dropout\": \"0.1\"}", {"dropout \"0.1\": must be a number from 0 to below 1"}},
    {"{\"dropout\": true}", {"dropout true: must be a number"}},
    {"{\"dropout\": 1}", {"dropout 1: must be a number from 0 to below 1"}},
    {"{\"causal\": 1}", {"causal 1: must be true or false"}},
    {"{\"causal\": \"true\"}", {"causal \"true\": must be true or false"}},
    {"{\"norm\": \"batch\"}", {"norm \"batch\": must be layernorm or rmsnorm"}},
    {"{\"norm\": 0}", {"norm 0: must be layernorm or rmsnorm"}},
    {"{\"activation\": \"relu\\u0007\"}",
     {"activation \"relu", "must be gelu_tanh, gelu_erf or swiglu"}},
    {"{\"base\": \"bart-nano\"}",
     {"base \"bart-nano\": must be gpt2-nano, gpt2-124m, llama-nano, bert-nano, alexnet-nano or resnet-nano"}},
    {"{\"norm_place\": \"before\"}", {"norm_place \"before\": must be pre or post"}},
    {"{\"objective\": true}", {"objective true: must be next_token or masked_token"}},
    {"{\"token_types\": -1}", {"token_types -1: must be a whole number from 0 to 65536"}},
    {"{\"base\": \"bert-nano\", \"token_types\": 1}", {"token_types 1: ", "0 or at least 2"}},
    {"{\"sentence_order\": true}", {"sentence_order true: ", "set objective to masked_token"}},
    {"{\"base\": 1}", {"base 1: must be"}},
    {"{\"name\": \"\"}", {"name \"\": must be 1 to 63 printable bytes"}},
    {"{\"name\": \"a\\nb\"}", {"name ", "printable"}},
    {"{\"name\": 4}", {"name 4: must be"}},
    {"{\"name\": \"0123456789012345678901234567890123456789012345678901234567890123\"}",
     {"name ", "..."}},
    {"{\"heads\": 5}", {"heads 5: does not divide d_model 48", "use 1, 2, 3, 4, 6"}},
    {"{\"base\": \"llama-nano\", \"kv_heads\": 5}", {"kv_heads 5: does not divide heads 12"}},
    {"{\"activation\": \"swiglu\"}", {"activation swiglu: has no biases; set bias to false"}},
    {"{\"batch\": 1000000, \"seq\": 1000000}", {"batch 1000000: "}},
};

START_TEST(json_refused)
{
    ls_config found = unusual;
    const char *words[5] = {"model.json: "};
    for (int i = 0; i < 3; i++) words[i + 1] = bad_json[_i].words[i];
    assert_says(ls_config_load(json_file(bad_json[_i].text), &found), LS_ERR_INPUT, words);
    assert_same(&found, &unusual);
}
END_TEST

START_TEST(json_from_odd_files)
{
    ls_config found = unusual;
    const char *path = scratch_file("large.json", "{", 1);
    ck_assert_int_eq(truncate(path, (1 << 20) + 1), 0);
    ASSERT_SAYS(ls_config_load(path, &found), LS_ERR_INPUT, "large.json", "1048577 bytes");
    ASSERT_SAYS(ls_config_load("/dev/null", &found), LS_ERR_INPUT, "/dev/null: not JSON");
    ASSERT_SAYS(ls_config_load(scratch_file("zero.json", "{}\0{}", 5), &found), LS_ERR_INPUT,
                "zero.json: not JSON");
    ASSERT_SAYS(ls_config_load(scratch_file("\xff\x1b.json", "x", 1), &found), LS_ERR_INPUT,
                "\\xff\\x1b.json: not JSON");
    path = scratch_file("secret.json", "{}", 2);
    ck_assert_int_eq(chmod(path, 0), 0);
    if (geteuid() == 0) ck_assert_int_eq(setuid(65534), 0);
    ASSERT_SAYS(ls_config_load(path, &found), LS_ERR_IO, "secret.json", "ermission denied");
    assert_same(&found, &unusual);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("config_json", 0);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, json_round_trip);
    tcase_add_test(tcase, json_starts_from_a_base);
    tcase_add_test(tcase, name_or_file);
    tcase_add_loop_test(tcase, json_refused, 0, sizeof bad_json / sizeof bad_json[0]);
    tcase_add_test(tcase, json_from_odd_files);
    return run_tests();
}
