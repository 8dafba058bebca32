/* Who holds what of which parameter, and which layouts are refused: every model, degree and rank
 * against the contract's words, and the known small cases. */
#include "lockstep/parallel/layout/placement.h"
#include "lockstep/parallel/tensor/attention_block.h"
#include "model/shard_grid.h"
#include "parallel_fixture.h"
#include "run_tests.h"

/* Degrees that divide every axis that is cut, and for each rank its runs of granules. */
START_TEST(shards_of_every_model)
{
    ls_config config = grid_model(_i);
    ls_param_table *table;
    int legal[64];
    size_t found = 0, n = ls_legal_tp(&config, legal, 64);
    ck_assert_int_eq(ls_param_table_create(&table, &config), LS_OK);
    ls_holding *holdings = calloc(table->count, sizeof *holdings);
    for (size_t tp = 1; tp <= config.heads + 1; tp++) {
        ls_layout layout = ls_layout_serial();
        layout.tp = (int)tp;
        bool fits = tp <= config.heads && grid_legal(&config, tp);
        ck_assert_int_eq(ls_layout_check(&layout, &config), fits ? LS_OK : LS_ERR_INPUT);
        ls_error_clear();
        if (!fits) continue;
        ck_assert_uint_lt(found, n);
        ck_assert_int_eq(legal[found++], (int)tp);
        for (size_t r = 0; r < tp; r++) {
            ls_holdings_of(table, &layout, (int)r, holdings);
            for (size_t i = 0; i < table->count; i++) {
                const ls_param *param = &table->params[i];
                ls_shard right = grid_shard(&config, param, tp, r);
                ls_shard shard = ls_shard_of(&config, param->kind, (int)tp, (int)r);
                ck_assert_msg(shard.first == right.first && shard.count == right.count,
                              "%s, tp %zu, rank %zu: %zu granules from %zu on", param->name, tp, r,
                              shard.count, shard.first);
                ck_assert(holdings[i].shard.first == right.first &&
                          holdings[i].shard.count == right.count);
                ck_assert(holdings[i].held && holdings[i].use_held[0] &&
                          holdings[i].use_held[1] == (param->uses > 1));
            }
        }
    }
    ck_assert_uint_eq(found, n);
    free(holdings);
    ls_param_table_destroy(&table);
}
END_TEST

/* ---- what a rank gets of a whole tensor ---- */

static ls_config small_config(size_t heads, size_t kv_heads, size_t width, size_t d_ff)
{
    ls_config config;
    ck_assert_int_eq(ls_config_named("gpt2-nano", &config), LS_OK);
    config.layers = 1;
    config.heads = heads;
    config.kv_heads = kv_heads;
    config.d_model = heads * width;
    config.d_ff = d_ff;
    return config;
}

/* Rank r's part of a parameter whose whole tensor is `whole`; returns how many elements it has. */
static size_t part_of(const ls_config *config, ls_role role, int tp, int r, const float *whole,
                      float *part)
{
    ls_param_table *table;
    size_t rows, cols;
    ck_assert_msg(ls_param_table_create(&table, config) == LS_OK, "%s", ls_error_text());
    const ls_param *param = &table->params[ls_param_find(table, role, 0)];
    ls_shard shard = ls_shard_of(config, param->kind, tp, r);
    ls_param_shard_shape(param, shard, &rows, &cols);
    ls_param_shard_in(param, shard, sizeof *whole, part, whole);
    ls_param_table_destroy(&table);
    return rows * cols;
}

static void ck_part(const ls_config *config, ls_role role, int tp, int r, const float *whole,
                    const float *right, size_t n)
{
    float part[64];
    ck_assert_uint_eq(part_of(config, role, tp, r, whole, part), n);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg((double)part[i] == (double)right[i], "role %d, rank %d, element %zu: %g",
                      (int)role, r, i, (double)part[i]);
}

/* A bias after a cut by rows stays whole, one after a cut by columns is cut like them; neither
 * takes a second dimension that it has not. */
START_TEST(biases)
{
    static const float bias[4] = {1, 2, 3, 4};
    ls_config config = small_config(2, 2, 2, 4);
    static const ls_role row[] = {LS_ATTN_OUT_BIAS, LS_MLP_DOWN_BIAS},
                         column[] = {LS_QUERY_BIAS, LS_KEY_BIAS, LS_VALUE_BIAS, LS_MLP_UP_BIAS};
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2; i++) ck_part(&config, row[i], 2, r, bias, bias, 4);
        for (int i = 0; i < 4; i++) ck_part(&config, column[i], 2, r, bias, bias + 2 * r, 2);
    }
    config.mlp_cut = LS_MLP_ROW_FIRST; /* the first bias comes after a reduction, too */
    for (int r = 0; r < 2; r++) ck_part(&config, LS_MLP_UP_BIAS, 2, r, bias, bias, 4);
}
END_TEST

/* Query, key and value are each cut by heads: of q0 q1 k0 k1 v0 v1 rank 0 has {0, 2, 4} and not
 * {0, 1, 2}; with four heads and two ranks {0, 1, 4, 5, 8, 9}. Gate and up are each cut: of g0 g1
 * u0 u1 = 1, 2, 10, 20 rank 0 has {1, 10}. */
START_TEST(parts_of_fused_matrices)
{
    for (size_t heads = 2; heads <= 4; heads += 2) {
        ls_config config = small_config(heads, heads, 1, heads);
        size_t share = heads / 2;
        for (int r = 0; r < 2; r++) {
            static const ls_role roles[] = {LS_QUERY_WEIGHT, LS_KEY_WEIGHT, LS_VALUE_WEIGHT};
            for (size_t k = 0; k < 3; k++) {
                float whole[16], right[8];
                for (size_t i = 0; i < heads * heads; i++)
                    whole[i] = (float)(heads * k + i % heads);
                for (size_t i = 0; i < heads * share; i++)
                    right[i] = (float)(heads * k + (size_t)r * share + i % share);
                ck_part(&config, roles[k], 2, r, whole, right, heads * share);
            }
        }
    }
    ls_config config = small_config(2, 2, 1, 2);
    static const float gate[4] = {1, 2, 1, 2}, up[4] = {10, 20, 10, 20};
    static const float right[2][2][2] = {{{1, 1}, {10, 10}}, {{2, 2}, {20, 20}}};
    config.bias = false;
    config.activation = LS_SWIGLU;
    for (int r = 0; r < 2; r++) {
        ck_part(&config, LS_MLP_GATE_WEIGHT, 2, r, gate, right[r][0], 2);
        ck_part(&config, LS_MLP_UP_WEIGHT, 2, r, up, right[r][1], 2);
    }
}
END_TEST

/* Every row of a vocabulary has one owner, the last too, whatever divides it: V = 5 (a floor would
 * leave row 4 to nobody), 10 on 3 and 4 ranks, 50257, and 129280 on 24 (which 8 and 16 divide). */
START_TEST(every_row_has_one_owner)
{
    static const struct {
        size_t V, heads;
        int tp;
    } cases[] = {{5, 2, 2},      {10, 12, 4},      {10, 12, 3},    {257, 12, 12},
                 {50257, 12, 6}, {129280, 24, 24}, {129280, 16, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_config config = small_config(cases[i].heads, cases[i].heads, 1, cases[i].heads);
        config.vocab = cases[i].V;
        size_t granule = ls_config_vocab_axis(&config).granule, next = 0;
        for (int r = 0; r < cases[i].tp; r++) {
            ls_shard shard = ls_shard_of(&config, LS_GRANULE_VOCAB, cases[i].tp, r);
            ck_assert_uint_eq(shard.first * granule, next);
            next += shard.count * granule;
        }
        ck_assert_uint_ge(next, cases[i].V);
    }
}
END_TEST

/* ---- key and value heads ---- */

/* 8 query heads on 2 kv heads at tp 4: rank r uses kv head r / 2, not r mod 2, and there are 2 of
 * them, not 4 x 1. 32 on 8 at tp 2: four each, none twice. */
START_TEST(kv_heads)
{
    ls_config config = small_config(8, 2, 2, 8);
    for (int r = 0; r < 4; r++) {
        ls_shard shard = ls_shard_of(&config, LS_GRANULE_KV_HEADS, 4, r);
        ck_assert(shard.first == (size_t)r / 2 && shard.count == 1);
    }
    ck_assert_uint_eq(ls_config_kv_axis(&config).granules, 2);
    config = small_config(32, 8, 1, 32);
    for (int r = 0; r < 2; r++) {
        ls_shard shard = ls_shard_of(&config, LS_GRANULE_KV_HEADS, 2, r);
        ck_assert(shard.first == 4 * (size_t)r && shard.count == 4);
    }
}
END_TEST

typedef struct sharing {
    size_t heads, kv_heads;
    int members[12][12]; /* by rank: who shares its first kv head, -1 at the end */
} sharing;

static ls_status sharing_rank(ls_rank *rank, void *argument)
{
    ls_status status = LS_OK;
    sharing *s = argument;
    member m = {0};
    ls_cut heads;
    ls_kv_sharing kv;
    LS_TRY(member_begin(rank, LS_ENGINE_PORTABLE, &m));
    LS_TRY(member_cut(&m, s->heads, 1, &heads));
    LS_TRY(ls_kv_sharing_create(m.tp.group, &heads, s->kv_heads, m.lasting, &kv));
    int n = 0;
    for (; kv.sharers[0] && n < ls_group_size(kv.sharers[0]); n++)
        s->members[m.rank][n] = ls_group_world_rank(kv.sharers[0], n);
    s->members[m.rank][n] = -1;
exit:
    member_end(&m);
    return status;
}

/* The gradients of kv head 0 are summed over ranks 0 and 1, those of kv head 1 over 2 and 3; with a
 * kv head for each rank nobody shares. */
START_TEST(who_sums_a_kv_head)
{
    sharing s = {8, 2, {{0}}};
    run_ranks(4, sharing_rank, &s);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(s.members[r][0], r / 2 * 2);
        ck_assert_int_eq(s.members[r][1], r / 2 * 2 + 1);
        ck_assert_int_eq(s.members[r][2], -1);
    }
    s = (sharing){8, 4, {{0}}};
    run_ranks(4, sharing_rank, &s);
    for (int r = 0; r < 4; r++) ck_assert_int_eq(s.members[r][0], -1);
}
END_TEST

/* ---- refusals ---- */

static void ck_refused(const ls_config *config, int tp, const char *text)
{
    ls_layout layout = ls_layout_serial();
    layout.tp = tp;
    ls_error_clear();
    ck_assert_int_eq(ls_layout_check(&layout, config), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), text);
    ls_error_clear();
}

/* Five heads on two ranks: no remainder is dropped. Two heads on four: no rank goes without. F = 3
 * on two ranks: that 2 divides gate and up together, 2 F, does not help. */
START_TEST(cuts_with_a_remainder)
{
    ls_config config = small_config(5, 5, 2, 10);
    ck_refused(&config, 2, "--tp 2: 5 heads cannot be cut into 2 equal parts; use 1 or 5");
    config = small_config(2, 2, 2, 4);
    ck_refused(&config, 4, "--tp 4: 2 heads cannot be cut into 4 equal parts; use 1 or 2");
    config = small_config(2, 2, 2, 3);
    config.bias = false;
    config.activation = LS_SWIGLU;
    ck_refused(&config, 2,
               "--tp 2: a feed-forward width of 3 is 1 granule (its greatest common divisor with "
               "2 heads), which cannot be cut into 2 equal parts; use 1");
    config = small_config(12, 4, 2, 24);
    ck_refused(&config, 0,
               "--tp 0: 12 heads cannot be cut into 0 equal parts; use 1, 2, 3, 4, 6 or 12");
    ck_refused(&config, -2,
               "--tp -2: 12 heads cannot be cut into -2 equal parts; use 1, 2, 3, 4, 6 or 12");
}
END_TEST

/* The row-first MLP reads columns of whole tokens: no token shares. */
START_TEST(row_first_with_sequence_parallelism)
{
    ls_config config = small_config(4, 4, 2, 16);
    ls_layout layout = ls_layout_serial();
    layout.tp = 2;
    layout.sp = true;
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_OK);
    config.mlp_cut = LS_MLP_ROW_FIRST;
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(ls_error_text(), "--sp: the row-first MLP has no sequence"));
    ls_error_clear();
    layout.sp = false;
    ck_assert_int_eq(ls_layout_check(&layout, &config), LS_OK);
}
END_TEST

/* 2520 heads have 48 divisors: each is accepted, though a refusal does not list them all. */
START_TEST(many_degrees)
{
    ls_config config = small_config(2520, 2520, 1, 2520);
    size_t accepted = 0;
    for (int tp = 1; tp <= 2520; tp++) {
        ls_layout layout = ls_layout_serial();
        layout.tp = tp;
        ls_status status = ls_layout_check(&layout, &config);
        ck_assert_int_eq(status, 2520 % tp == 0 ? LS_OK : LS_ERR_INPUT);
        accepted += status == LS_OK;
        ls_error_clear();
    }
    ck_assert_uint_eq(accepted, 48);
}
END_TEST

/* A grid that the model or the batch does not fill: refused, with what would do. */
START_TEST(grids_that_do_not_fit)
{
    static const struct {
        int pp, chunks, dp, micro_batches, given, layers[4];
        const char *text;
    } cases[] = {
        /* fewer layers than the model's, all in one stage: not a smaller model */
        {1, 1, 1, 1, 1, {1}, "--partition 1: 1 layer altogether, the model has 20"},
        {4,
         1,
         1,
         1,
         4,
         {5, 5, 5, 6},
         "--partition 5,5,5,6: 21 layers altogether, the model has 20"},
        {4, 1, 1, 1, 4, {10, -1, 6, 5}, "--partition 10,-1,6,5: stage 1 has -1 layers"},
        {2,
         2,
         1,
         1,
         2,
         {10, 10},
         "--partition 10,10: layers of 2 stages; --pp 2 x --virtual-stages 2 are 4"},
        {21, 1, 1, 1, 0, {0}, "--pp 21: 20 layers make at most 20 stages; use "},
        {8, 3, 1, 1, 0, {0}, "--virtual-stages 3: 20 layers make at most 20 stages, not pp 8 x 3"},
        {0, 1, 1, 1, 0, {0}, "--pp 0: use 1 or more"},
        {1, 0, 1, 1, 0, {0}, "--virtual-stages 0: use 1 or more"},
        {1, 1, -2, 1, 0, {0}, "--dp -2: use 1 or more"},
        {1, 1, 1, 0, 0, {0}, "--micro-batches 0: use 1 or more"},
        {1, 1, 3, 3, 0, {0}, "--batch 8: dp 3 x 3 micro-batches need 9 sequences"},
        {1, 1, 9, 1, 0, {0}, "--batch 8: dp 9 x 1 micro-batch need 9 sequences"},
    };
    ls_config config = small_config(4, 4, 2, 16);
    config.layers = 20;
    config.batch = 8;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_layout layout = ls_layout_serial();
        layout.pp = cases[i].pp;
        layout.virtual_stages = cases[i].chunks;
        layout.schedule = cases[i].chunks > 1 ? LS_INTERLEAVED : LS_1F1B;
        layout.dp = cases[i].dp;
        layout.micro_batches = cases[i].micro_batches;
        layout.given = cases[i].given;
        memcpy(layout.stage_layers, cases[i].layers, sizeof cases[i].layers);
        ls_error_clear();
        ck_assert_int_eq(ls_layout_check(&layout, &config), LS_ERR_INPUT);
        ck_assert_msg(strstr(ls_error_text(), cases[i].text) == ls_error_text(), "%s",
                      ls_error_text());
    }
    ls_error_clear();
}
END_TEST

int main(void)
{
    TCase *tests = test_case("sharding", 60);
    tcase_add_loop_test(tests, shards_of_every_model, 0, GRID_MODELS);
    tcase_add_test(tests, biases);
    tcase_add_test(tests, parts_of_fused_matrices);
    tcase_add_test(tests, every_row_has_one_owner);
    tcase_add_test(tests, kv_heads);
    tcase_add_test(tests, who_sums_a_kv_head);
    tcase_add_test(tests, cuts_with_a_remainder);
    tcase_add_test(tests, row_first_with_sequence_parallelism);
    tcase_add_test(tests, many_degrees);
    tcase_add_test(tests, grids_that_do_not_fit);
    return run_tests();
}
