/* test_config.c - built-in models, the checks of a configuration, and its JSON text. */
#include <math.h>
#include <stdint.h>

#include "io/scratch.h"
#include "lockstep/model/config.h"

static ls_config named(const char *name)
{
    ls_config config;
    ASSERT_OK(ls_config_named(name, &config));
    return config;
}

static void assert_axis(ls_axis axis, size_t granules, size_t granule)
{
    ck_assert_uint_eq(axis.granules, granules);
    ck_assert_uint_eq(axis.granule, granule);
}

static void assert_same(const ls_config *a, const ls_config *b)
{
    ck_assert_str_eq(a->name, b->name);
    ck_assert_uint_eq(a->layers, b->layers);
    ck_assert_uint_eq(a->d_model, b->d_model);
    ck_assert_uint_eq(a->heads, b->heads);
    ck_assert_uint_eq(a->kv_heads, b->kv_heads);
    ck_assert_uint_eq(a->d_ff, b->d_ff);
    ck_assert_uint_eq(a->seq, b->seq);
    ck_assert_uint_eq(a->vocab, b->vocab);
    ck_assert_uint_eq(a->batch, b->batch);
    ck_assert_int_eq(a->norm, b->norm);
    ck_assert_int_eq(a->activation, b->activation);
    ck_assert_int_eq(a->position, b->position);
    ck_assert_int_eq(a->mlp_cut, b->mlp_cut);
    ck_assert_int_eq(a->causal, b->causal);
    ck_assert_int_eq(a->bias, b->bias);
    ck_assert_int_eq(a->tied, b->tied);
    ck_assert_double_eq(a->dropout, b->dropout);
    ck_assert_double_eq(a->norm_eps, b->norm_eps);
    ck_assert_double_eq(a->rope_theta, b->rope_theta);
    ck_assert_double_eq(a->init_std, b->init_std);
    ck_assert_double_eq(a->label_smoothing, b->label_smoothing);
}

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
                                  .causal = false,
                                  .bias = true,
                                  .tied = false,
                                  .dropout = 1.0 / 3.0,
                                  .norm_eps = 1e-6,
                                  .rope_theta = 12345.678901234567,
                                  .init_std = 0.1,
                                  .label_smoothing = 0x1p-60};

START_TEST(built_in_models)
{
    ls_config expected = {.name = "gpt2-nano",
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
                          .causal = true,
                          .bias = true,
                          .tied = true,
                          .dropout = 0.1,
                          .norm_eps = 1e-5,
                          .rope_theta = 10000,
                          .init_std = 0.02};
    ls_config found = named("gpt2-nano");
    assert_same(&found, &expected);

    strcpy(expected.name, "gpt2-124m");
    expected.layers = 12;
    expected.d_model = 768;
    expected.d_ff = 3072;
    expected.seq = 1024;
    expected.vocab = 50257;
    found = named("gpt2-124m");
    assert_same(&found, &expected);

    found = named("llama-nano");
    ck_assert_uint_eq(found.d_model, 48);
    ck_assert_uint_eq(found.heads, 12);
    ck_assert_uint_eq(found.kv_heads, 4);
    ck_assert_int_eq(found.norm, LS_RMS_NORM);
    ck_assert_int_eq(found.activation, LS_SWIGLU);
    ck_assert_int_eq(found.position, LS_ROTARY);
    ck_assert(!found.bias && !found.tied && found.causal);
    ck_assert_double_eq(found.dropout, 0);

    static const char *const names[] = {"gpt2-nano", "gpt2-124m", "llama-nano"};
    for (int i = 0; i < 3; i++) {
        found = named(names[i]);
        ASSERT_OK(ls_config_check(&found));
    }
    ls_config before = found;
    ASSERT_SAYS(ls_config_named("gpt2-mano", &found), LS_ERR_INPUT, "--model gpt2-mano",
                "did you mean gpt2-nano?", "gpt2-124m", "llama-nano");
    ASSERT_SAYS(ls_config_named("\x1b[2J", &found), LS_ERR_INPUT, "--model \\x1b[2J", "llama-nano");
    assert_same(&found, &before);
}
END_TEST

/* Rule 7. Right for a vocabulary that nothing divides, too: no row is dropped by a floor. */
START_TEST(axes)
{
    ls_config c = named("gpt2-nano");
    assert_axis(ls_config_heads_axis(&c), 12, 4);
    assert_axis(ls_config_kv_axis(&c), 12, 4);
    assert_axis(ls_config_ff_axis(&c), 12, 16);
    assert_axis(ls_config_vocab_axis(&c), 12, 32); /* 384 */
    c = named("gpt2-124m");
    assert_axis(ls_config_heads_axis(&c), 12, 64);
    assert_axis(ls_config_ff_axis(&c), 12, 256);
    assert_axis(ls_config_vocab_axis(&c), 12, 4192); /* 50304 */
    c = named("llama-nano");
    assert_axis(ls_config_kv_axis(&c), 4, 4);
    assert_axis(ls_config_ff_axis(&c), 12, 11);

    static const struct {
        size_t heads, d_ff, vocab, ff_granules, ff_granule, vocab_granule;
    } cases[] = {
        {14, 4864, 151936, 2, 2432, 10880}, /* 152320 = 170 lcm(14, 128) */
        {5, 3, 5, 1, 3, 128},
        {8, 12, 129280, 4, 3, 16160},
        {24, 96, 129280, 24, 4, 5392},
        {1, 7, 1000, 1, 7, 1024},
        {128, 128, 128, 128, 1, 1},
        {128, 128, 129, 128, 1, 2},
        {3, 9, 384, 3, 3, 128},
        {3, 9, 385, 3, 3, 256},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        c = (ls_config){.d_model = cases[i].heads * 6,
                        .heads = cases[i].heads,
                        .kv_heads = 1,
                        .d_ff = cases[i].d_ff,
                        .vocab = cases[i].vocab};
        assert_axis(ls_config_heads_axis(&c), cases[i].heads, 6);
        assert_axis(ls_config_kv_axis(&c), 1, 6);
        assert_axis(ls_config_ff_axis(&c), cases[i].ff_granules, cases[i].ff_granule);
        assert_axis(ls_config_vocab_axis(&c), cases[i].heads, cases[i].vocab_granule);
    }
}
END_TEST

#define REFUSED(model, change, ...)                                                                \
    do {                                                                                           \
        ls_config c = named(model);                                                                \
        change;                                                                                    \
        ASSERT_SAYS(ls_config_check(&c), LS_ERR_INPUT, __VA_ARGS__);                               \
    } while (0)

START_TEST(sizes_out_of_range)
{
    static const struct {
        const char *option;
        size_t offset, most;
    } sizes[] = {{"--layers", offsetof(ls_config, layers), 4000},
                 {"--d-model", offsetof(ls_config, d_model), 1 << 20},
                 {"--heads", offsetof(ls_config, heads), 1 << 12},
                 {"--kv-heads", offsetof(ls_config, kv_heads), 1 << 12},
                 {"--d-ff", offsetof(ls_config, d_ff), 1 << 22},
                 {"--seq", offsetof(ls_config, seq), 1 << 20},
                 {"--vocab", offsetof(ls_config, vocab), 1 << 24},
                 {"--batch", offsetof(ls_config, batch), 1 << 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t bad[] = {0, sizes[i].most + 1, SIZE_MAX, SIZE_MAX / 2 + 1};
        for (size_t j = 0; j < 4; j++) {
            char found[64], allowed[64];
            snprintf(found, sizeof found, "%s %zu: ", sizes[i].option, bad[j]);
            snprintf(allowed, sizeof allowed, "from 1 to %zu", sizes[i].most);
            REFUSED("gpt2-nano", memcpy((char *)&c + sizes[i].offset, &bad[j], sizeof bad[j]),
                    found, allowed);
        }
    }
}
END_TEST

START_TEST(numbers_out_of_range)
{
    REFUSED("gpt2-nano", c.dropout = -0.1, "--dropout -0.1: ", "from 0 to below 1");
    REFUSED("gpt2-nano", c.dropout = 1, "--dropout 1: ", "from 0 to below 1");
    REFUSED("gpt2-nano", c.dropout = (double)NAN, "--dropout ", "nan", "from 0 to below 1");
    REFUSED("gpt2-nano", c.dropout = (double)INFINITY, "--dropout inf: ");
    REFUSED("gpt2-nano", c.label_smoothing = 1.5, "--label-smoothing 1.5: ");
    REFUSED("gpt2-nano", c.label_smoothing = (double)NAN, "--label-smoothing ");
    REFUSED("gpt2-nano", c.norm_eps = 0, "--norm-eps 0: ", "above 0");
    REFUSED("gpt2-nano", c.norm_eps = -1e-5, "--norm-eps -1e-05: ");
    REFUSED("gpt2-nano", c.norm_eps = (double)NAN, "--norm-eps ");
    REFUSED("gpt2-nano", c.rope_theta = 0, "--rope-theta 0: ");
    REFUSED("gpt2-nano", c.rope_theta = (double)INFINITY, "--rope-theta inf: ");
    REFUSED("gpt2-nano", c.init_std = -1, "--init-std -1: ");
    REFUSED("gpt2-nano", c.init_std = (double)NAN, "--init-std ");
    REFUSED("gpt2-nano", c.norm = (ls_norm_kind)2, "--norm 2: ", "layernorm or rmsnorm");
    REFUSED("gpt2-nano", c.activation = (ls_activation_kind)3,
            "--activation 3: ", "gelu_tanh, gelu_erf or swiglu");
    REFUSED("gpt2-nano", c.position = (ls_position_kind)7, "--position 7: ", "learned or rotary");
    REFUSED("gpt2-nano", c.mlp_cut = (ls_mlp_cut)-1, "--mlp-cut -1: ", "column_first or row_first");
    REFUSED("gpt2-nano", memset(c.name, 'x', sizeof c.name), "name");
    ls_config edge = named("gpt2-nano");
    edge.dropout = 0.999999;
    edge.init_std = 0;
    edge.label_smoothing = 0;
    ASSERT_OK(ls_config_check(&edge));
}
END_TEST

/* Five heads on a width of 48 must not become heads of width 9 with a remainder dropped. */
START_TEST(sizes_that_do_not_fit)
{
    REFUSED("gpt2-nano", (c.heads = 5, c.kv_heads = 5), "--heads 5: does not divide --d-model 48",
            "use 1, 2, 3, 4, 6, 8, 12, 16, 24 or 48");
    REFUSED("gpt2-nano", (c.d_model = 720, c.heads = 7, c.kv_heads = 7),
            "--heads 7: ", "use 1, 2, 3, 4, 5, 6, 8, 9, 10, 12, ...");
    REFUSED("gpt2-nano", (c.d_model = 47, c.kv_heads = 1), "--heads 12: ", "--d-model 47",
            "use 1 or 47");
    REFUSED("gpt2-nano", (c.d_model = 4, c.heads = 8, c.kv_heads = 8),
            "--heads 8: ", "use 1, 2 or 4");
    REFUSED("gpt2-nano", c.kv_heads = 5, "--kv-heads 5: does not divide --heads 12",
            "use 1, 2, 3, 4, 6 or 12");
    REFUSED("gpt2-nano", c.kv_heads = 24, "--kv-heads 24: does not divide --heads 12");
    REFUSED("llama-nano", (c.heads = 48, c.kv_heads = 48), "--heads 48: ", "1 wide", "even",
            "use 1, 2, 3, 4, 6, 8, 12 or 24");
    REFUSED("llama-nano", (c.d_model = 45, c.heads = 9, c.kv_heads = 9), "--d-model 45: ", "even");
    REFUSED("llama-nano", c.bias = true, "--activation swiglu: ", "--bias");
    REFUSED("llama-nano", c.mlp_cut = LS_MLP_ROW_FIRST, "--mlp-cut row_first: ", "gelu_tanh");
}
END_TEST

/* Each size alone is allowed; their product is not, and no product has wrapped around on the way.
 */
START_TEST(products_too_large)
{
    REFUSED(
        "gpt2-nano",
        (c.layers = 4000, c.d_model = 1 << 20, c.heads = c.kv_heads = 1 << 12, c.d_ff = 1 << 22),
        "--d-model 1048576: ", "at most 4398046511104");
    REFUSED("gpt2-nano",
            (c.d_model = 1 << 19, c.heads = c.kv_heads = 1, c.vocab = 1 << 24, c.layers = 1),
            "--d-model 524288: ", "vocabulary of 16777216");
    REFUSED("gpt2-nano", (c.batch = 1 << 20, c.seq = 1 << 20), "--batch 1048576: ", "1048576",
            "use at most 2047");
    REFUSED("gpt2-nano", (c.batch = 1 << 20, c.seq = 2047, c.vocab = 1 << 24), "--seq 2047: ");
    REFUSED("gpt2-nano",
            (c.batch = 1 << 11, c.seq = (1 << 20) - 1, c.d_model = 1 << 12,
             c.heads = c.kv_heads = 1 << 12),
            "--seq 1048575: ", "4096 heads");
    ls_config large = named("gpt2-124m"); /* about 10^12, as the largest in the papers */
    large.layers = 128;
    large.d_model = 25600;
    large.heads = large.kv_heads = 160;
    large.d_ff = 4 * 25600;
    large.seq = 2048;
    large.vocab = 51200;
    large.batch = 3072;
    ASSERT_OK(ls_config_check(&large));
}
END_TEST

static const char *json_file(const char *text)
{
    return scratch_file("model.json", text, strlen(text));
}

START_TEST(json_round_trip)
{
    ls_config models[4] = {named("gpt2-nano"), named("gpt2-124m"), named("llama-nano"), unusual};
    for (int i = 0; i < 4; i++) {
        char *text = NULL, *again = NULL;
        ls_config read;
        memset(&read, 0x55, sizeof read);
        ASSERT_OK(ls_config_to_json(&models[i], &text));
        ASSERT_OK(ls_config_load(json_file(text), &read));
        assert_same(&read, &models[i]);
        ASSERT_OK(ls_config_to_json(&read, &again));
        ck_assert_str_eq(text, again);
        free(text);
        free(again);
    }
    char *text = (char *)&text;
    ls_config bad = unusual;
    bad.kv_heads = 3;
    ASSERT_SAYS(ls_config_to_json(&bad, &text), LS_ERR_INPUT, "--kv-heads 3");
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
    {"{\"\\u001b[2J\": 4}", {"unknown key \"\\x1b[2J\"", "known keys: name, base, layers"}},
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
    {"{\"base\": \"bert-nano\"}",
     {"base \"bert-nano\": must be gpt2-nano, gpt2-124m or llama-nano"}},
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
    Suite *suite = suite_create("config");
    TCase *tcase = tcase_create("config");
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_test(tcase, built_in_models);
    tcase_add_test(tcase, axes);
    tcase_add_test(tcase, sizes_out_of_range);
    tcase_add_test(tcase, numbers_out_of_range);
    tcase_add_test(tcase, sizes_that_do_not_fit);
    tcase_add_test(tcase, products_too_large);
    tcase_add_test(tcase, json_round_trip);
    tcase_add_test(tcase, json_starts_from_a_base);
    tcase_add_test(tcase, name_or_file);
    tcase_add_loop_test(tcase, json_refused, 0, sizeof bad_json / sizeof bad_json[0]);
    tcase_add_test(tcase, json_from_odd_files);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
