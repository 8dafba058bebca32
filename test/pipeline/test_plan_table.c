/* The plan's table of kept activations against the one of arXiv 2205.05198, and a large model's
 * plan against numbers worked out by hand. That plans agree with real runs: test/train/test_plan.c.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/parallel/layout/sharding.h"
#include "lockstep/pipeline/plan.h"
#include "run_tests.h"

/* Sizes of the paper's models: heads a, width h, layers L, sequences of 2048 tokens. */
static ls_config paper_model(size_t a, size_t h, size_t L, size_t batch)
{
    ls_config config;
    ck_assert_int_eq(ls_config_named("gpt2-nano", &config), LS_OK);
    config.heads = config.kv_heads = a;
    config.d_model = h;
    config.d_ff = 4 * h;
    config.layers = L;
    config.seq = 2048;
    config.vocab = 51200;
    config.batch = batch;
    ck_assert_msg(ls_config_check(&config) == LS_OK, "%s", ls_error_text());
    return config;
}

/* Bytes that the paper counts for what a layer keeps of b sequences: two for an element; one for an
 * element of the masks of both blocks' dropout (kept when more than the input is), and of the
 * attention's dropout a mask and what it made of the probabilities. Statistics it leaves out. */
static uint64_t paper_bytes(const ls_layer_elements *e, uint64_t b)
{
    uint64_t elements = e->input + e->norms + e->projections + e->context + e->residual + e->mlp;
    uint64_t masks = e->residual + (e->mlp > 0 ? e->input : 0);
    return b * (2 * elements + masks + 5 * e->probabilities);
}

/* 22B: s = 2048, b = 4, h = 6144, a = 64, t = 8. sbh = 50,331,648, a s^2 b = 1,073,741,824. */
START_TEST(kept_by_a_layer)
{
    ls_config config = paper_model(64, 6144, 48, 4);
    const struct {
        int tp;
        bool sp;
        ls_recompute recompute;
        uint64_t elements, paper; /* elements of one of the four sequences; bytes of all */
    } rows[] = {
        /* 12,582,912 (16 + 64/3) + 8,192; sbh (34 + 5 a s / h) */
        {1, false, LS_RECOMPUTE_NONE, 469770240, 7079985152},
        /* 12,582,912 (4 + 12/8 + 64/24) + 8,192; sbh (10 + 24/t + 5 a s / (h t)) */
        {8, false, LS_RECOMPUTE_NONE, 102768640, 1325400064},
        /* (12,582,912 (16 + 64/3) + 8,192) / 8; sbh / t (34 + 5 a s / h) */
        {8, true, LS_RECOMPUTE_NONE, 58721280, 884998144},
        /* 12,582,912 (4 + 12/8) + 8,192; sbh (10 + 24/t) */
        {8, false, LS_RECOMPUTE_SELECTIVE, 69214208, 654311424},
        /* (12,582,912 * 16 + 8,192) / 8; sbh / t * 34 */
        {8, true, LS_RECOMPUTE_SELECTIVE, 25166848, 213909504},
        /* the input alone; 2 sbh */
        {8, false, LS_RECOMPUTE_LAYER, 12582912, 100663296},
        {8, true, LS_RECOMPUTE_LAYER, 1572864, 12582912},
        {8, false, LS_RECOMPUTE_STAGE, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ls_layout layout = ls_layout_serial();
        layout.tp = rows[i].tp;
        layout.sp = rows[i].sp;
        ls_layer_elements e = ls_plan_layer(&config, &layout, rows[i].recompute, 5 % layout.tp);
        ck_assert_uint_eq(ls_layer_elements_sum(&e), rows[i].elements);
        ck_assert_uint_eq(paper_bytes(&e, 4), rows[i].paper);
    }
}
END_TEST

/* 175B on tp 8 with sequence parallelism, pp 8, 64 sequences in 64 micro-batches, 1F1B, in
 * binary32. */
START_TEST(large_model)
{
    ls_config config = paper_model(96, 12288, 96, 64);
    ls_layout layout = ls_layout_serial();
    layout.tp = layout.pp = 8;
    layout.sp = true;
    layout.micro_batches = 64;
    layout.schedule = LS_1F1B;
    ls_plan_setup setup = {&config, &layout, 64, LS_F32, false};
    ls_plan *plan;
    ck_assert_msg(ls_plan_create(&plan, &setup) == LS_OK, "%s", ls_error_text());

    ck_assert_int_eq(plan->ranks, 64);
    /* 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)) and the final norm, 2 h */
    ck_assert_uint_eq(plan->parameters, 174615846912);
    /* 7 of 64 + 7 places are empty */
    ck_assert_int_eq(plan->bubble.over, 7);
    ck_assert_int_eq(plan->bubble.under, 71);

    /* The first stage: 12 of 96 layers of 8 micro-batches, so 96 layers of one: sbh L / t (16 + a s
     * / h + 4 / h) = 96 (25,165,824 * 32 + 8,192) / 8 elements. */
    const ls_rank_plan *first = &plan->rank[0], *last = &plan->rank[63];
    ck_assert_int_eq(first->live, 8);
    ck_assert_uint_eq(first->bytes[LS_MEM_ACTIVATIONS], (uint64_t)4 * 9663774720);
    /* The last stage: one micro-batch; 12 layers, its loss, the final norm's input, output and
     * statistics (25,165,824 * 2 + 4,096) / 8, logits 2048 * 51,456 / 8 (the vocabulary is padded
     * to 134 * 384), three numbers a token. */
    ck_assert_int_eq(last->live, 1);
    ck_assert_uint_eq(last->bytes[LS_MEM_ACTIVATIONS],
                      (uint64_t)4 * (12 * 100664320 + 1 + 6291968 + 2048 * 6432 + 3 * 2048));
    /* Gradients of 64 equal micro-batches: a binary counter of 6 places, and one arrives. */
    ck_assert_uint_eq(first->gradient_slots, 7);

    /* One layer forward and backward: 2 + 2 reduce-scatters, 2 + 4 all-gathers; 12 of them, 64
     * times. The embedding: 1 reduce-scatter, 1 all-gather. */
    ck_assert_uint_eq(first->comm[LS_OP_REDUCE_SCATTER].calls, 64 * (4 * 12 + 1));
    ck_assert_uint_eq(first->comm[LS_OP_ALL_GATHER].calls, 64 * (6 * 12 + 1));
    ck_assert_uint_eq(first->comm[LS_OP_ALL_GATHER].bytes,
                      (uint64_t)4 * 64 * (6 * 12 + 1) * 2048 / 8 * 12288);
    ls_plan_destroy(&plan);
}
END_TEST

/* What a plan does not take on. */
START_TEST(refused)
{
    ls_config config = paper_model(96, 12288, 96, 64);
    ls_layout layout = ls_layout_serial();
    ls_plan_setup setup = {&config, &layout, 64, LS_I32, false};
    ls_plan *plan = NULL;
    ck_assert_int_eq(ls_plan_create(&plan, &setup), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--dtype I32: use f32 or f64");
    ls_error_clear();
    setup.dtype = LS_F32;
    layout.dp = 65;
    ck_assert_int_eq(ls_plan_create(&plan, &setup), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "need 65 sequences"));
    ls_error_clear();
    ck_assert_ptr_null(plan);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("numbers by hand", 0);
    tcase_add_test(tests, kept_by_a_layer);
    tcase_add_test(tests, large_model);
    tcase_add_test(tests, refused);
    return run_tests();
}
