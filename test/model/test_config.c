/* test_config.c - built-in models, their axes, and the checks of a configuration. */
#include <math.h>
#include <stdint.h>

#include "model/config_compare.h"
#include "run_tests.h"

static void assert_axis(ls_axis axis, size_t granules, size_t granule)
{
    ck_assert_uint_eq(axis.granules, granules);
    ck_assert_uint_eq(axis.granule, granule);
}

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

    expected = named("gpt2-nano"); /* BERT's sizes are GPT-2's, its choices are its own */
    strcpy(expected.name, "bert-nano");
    expected.vocab = 260;
    expected.norm_place = LS_NORM_POST;
    expected.activation = LS_GELU_ERF;
    expected.objective = LS_MASKED_TOKEN;
    expected.token_types = 2;
    expected.embedding_norm = expected.sentence_order = true;
    expected.causal = false;
    expected.norm_eps = 1e-12;
    found = named("bert-nano");
    assert_same(&found, &expected);
    ls_config_place_norms(&found, LS_NORM_PRE); /* Megatron-LM's */
    ck_assert(found.norm_place == LS_NORM_PRE && !found.embedding_norm);
    ls_config_place_norms(&found, LS_NORM_POST);
    assert_same(&found, &expected);
    found = named("gpt2-nano");
    ls_config_place_norms(&found, LS_NORM_POST);
    ck_assert(found.norm_place == LS_NORM_POST && !found.embedding_norm);

    static const char *const names[] = {"gpt2-nano", "gpt2-124m", "llama-nano", "bert-nano"};
    for (int i = 0; i < 4; i++) {
        found = named(names[i]);
        ASSERT_OK(ls_config_check(&found));
    }
    ls_config before = found;
    ASSERT_SAYS(ls_config_named("gpt2-mano", &found), LS_ERR_INPUT, "--model gpt2-mano",
                "did you mean gpt2-nano?", "gpt2-124m", "alexnet-nano or resnet-nano");
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
    REFUSED("bert-nano", c.norm_place = (ls_norm_place)2, "--norm 2: ", "pre or post");
    REFUSED("bert-nano", c.objective = (ls_objective)2,
            "--objective 2: ", "next_token or masked_token");
    REFUSED("bert-nano", c.token_types = 65537, "--token-types 65537: ", "from 0 to 65536");
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
    REFUSED("gpt2-nano", c.sentence_order = true, "--sentence-order true: ", "--objective");
    REFUSED("bert-nano", c.objective = LS_NEXT_TOKEN, "--sentence-order true: ", "masked_token");
    REFUSED("bert-nano", c.token_types = 1, "--token-types 1: ", "use 0 or at least 2");
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

int main(void)
{
    TCase *tcase = test_case("config", 0);
    tcase_add_test(tcase, built_in_models);
    tcase_add_test(tcase, axes);
    tcase_add_test(tcase, sizes_out_of_range);
    tcase_add_test(tcase, numbers_out_of_range);
    tcase_add_test(tcase, sizes_that_do_not_fit);
    tcase_add_test(tcase, products_too_large);
    return run_tests();
}
