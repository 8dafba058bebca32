/* test_foreign_places.c - where the numbers of a parameter lie in other programs' tensors: EXACT,
 * against places written down anew, tensor by tensor, the way the other programs read them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/foreign_models.h"
#include "model/shard_grid.h"
#include "run_tests.h"

enum { GUARD = 16 };

/* A value that says which element it is: parameter, row, column. Never that of padding. */
static uint32_t value_of(size_t param, size_t r, size_t c)
{
    return (uint32_t)((param + 1) << 20 | r << 10 | c);
}

static const uint32_t padding = 0xfffffffe;

static uint32_t *whole_of(const ls_param_table *table, size_t param)
{
    const ls_param *p = &table->params[param];
    uint32_t *whole = malloc((ls_param_elements(p) + 1) * sizeof *whole);
    for (size_t r = 0; r < p->dims[0]; r++)
        for (size_t c = 0; c < p->dims[1]; c++) whole[r * p->dims[1] + c] = value_of(param, r, c);
    return whole;
}

/* The foreign tensor with everything of ours in it. */
static uint32_t *foreign_of(const foreign_fixture *f, const ls_foreign_tensor *tensor)
{
    size_t n = tensor->dims[0] * tensor->dims[1];
    uint32_t *foreign = malloc((n + GUARD) * sizeof *foreign);
    for (size_t i = 0; i < n + GUARD; i++) foreign[i] = padding;
    for (int part = 0; part < tensor->n_parts; part++) {
        uint32_t *whole = whole_of(f->table, tensor->parts[part].param);
        ls_foreign_whole_out(f->map, tensor->parts[part].param, sizeof *whole, foreign, whole);
        free(whole);
    }
    for (size_t i = n; i < n + GUARD; i++) ck_assert_uint_eq(foreign[i], padding);
    return foreign;
}

/* ---- the places, by name ---- */

typedef struct expectation {
    const foreign_fixture *f;
    const ls_foreign_tensor *tensor;
    uint32_t *foreign;
    size_t D, F, H, K, head, seen;
} expectation;

static expectation expect(const foreign_fixture *f, const char *name, int n_dims, size_t rows,
                          size_t cols)
{
    const ls_config *c = &f->table->config;
    expectation e = {.f = f,
                     .D = c->d_model,
                     .F = c->d_ff,
                     .H = c->heads,
                     .K = c->kv_heads,
                     .head = ls_config_head_width(c)};
    e.tensor = foreign_named(f, name);
    ck_assert_int_eq(e.tensor->n_dims, n_dims);
    ck_assert_msg(e.tensor->dims[0] == rows && e.tensor->dims[1] == cols,
                  "%s: %zu x %zu instead of %zu x %zu", name, e.tensor->dims[0], e.tensor->dims[1],
                  rows, cols);
    e.foreign = foreign_of(f, e.tensor);
    return e;
}

/* Element (row, col) of the foreign tensor must be element (r, c) of the parameter. */
static void is(expectation *e, size_t row, size_t col, ls_role role, size_t layer, size_t r,
               size_t c)
{
    uint32_t found = e->foreign[row * e->tensor->dims[1] + col];
    size_t param = ls_param_find(e->f->table, role, layer);
    if (found != value_of(param, r, c))
        ck_abort_msg("%s [%zu][%zu] is %x; it should be %s [%zu][%zu]", e->tensor->name, row, col,
                     found, e->f->table->params[param].name, r, c);
    e->seen++;
}

static void all_seen(expectation *e)
{
    ck_assert_uint_eq(e->seen, e->tensor->dims[0] * e->tensor->dims[1]);
    free(e->foreign);
}

/* Conv1D: y = x W with W [in, out]; split(3, dim = 2) of its output gives q, k, v. */
START_TEST(gpt2_places)
{
    ls_config config = foreign_gpt();
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_GPT2);
    static const ls_role weights[] = {LS_QUERY_WEIGHT, LS_KEY_WEIGHT, LS_VALUE_WEIGHT};
    static const ls_role biases[] = {LS_QUERY_BIAS, LS_KEY_BIAS, LS_VALUE_BIAS};
    expectation e = expect(&f, "transformer.h.1.attn.c_attn.weight", 2, 12, 36);
    for (size_t in = 0; in < e.D; in++)
        for (size_t which = 0; which < 3; which++)
            for (size_t out = 0; out < e.D; out++)
                is(&e, in, which * e.D + out, weights[which], 1, in, out);
    all_seen(&e);
    e = expect(&f, "h.0.attn.c_attn.bias", 1, 36, 1);
    for (size_t which = 0; which < 3; which++)
        for (size_t out = 0; out < e.D; out++)
            is(&e, which * e.D + out, 0, biases[which], 0, out, 0);
    all_seen(&e);
    e = expect(&f, "h.1.mlp.c_fc.weight", 2, 12, 21);
    for (size_t in = 0; in < e.D; in++)
        for (size_t out = 0; out < e.F; out++) is(&e, in, out, LS_MLP_UP_WEIGHT, 1, in, out);
    all_seen(&e);
    e = expect(&f, "transformer.h.0.mlp.c_proj.weight", 2, 21, 12);
    for (size_t in = 0; in < e.F; in++)
        for (size_t out = 0; out < e.D; out++) is(&e, in, out, LS_MLP_DOWN_WEIGHT, 0, in, out);
    all_seen(&e);
    e = expect(&f, "wte.weight", 2, 131, 12);
    for (size_t v = 0; v < 131; v++)
        for (size_t d = 0; d < e.D; d++) is(&e, v, d, LS_TOKEN_EMBEDDING, 0, v, d);
    all_seen(&e);
    e = expect(&f, "transformer.wpe.weight", 2, 5, 12);
    for (size_t s = 0; s < 5; s++)
        for (size_t d = 0; d < e.D; d++) is(&e, s, d, LS_POSITION_EMBEDDING, 0, s, d);
    all_seen(&e);
    foreign_fixture_free(&f);
}
END_TEST

/* Linear: y = x W^T with W [out, in]. */
static void linear_is(const foreign_fixture *f, const char *name, ls_role role, size_t layer,
                      size_t in, size_t out)
{
    expectation e = expect(f, name, 2, out, in);
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) is(&e, o, i, role, layer, i, o);
    all_seen(&e);
}

START_TEST(llama_places)
{
    ls_config config = foreign_llama(3); /* 24 wide, 3 key/value heads of 4, F 18 */
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_LLAMA);
    linear_is(&f, "model.layers.1.self_attn.q_proj.weight", LS_QUERY_WEIGHT, 1, 24, 24);
    linear_is(&f, "model.layers.1.self_attn.k_proj.weight", LS_KEY_WEIGHT, 1, 24, 12);
    linear_is(&f, "layers.0.self_attn.v_proj.weight", LS_VALUE_WEIGHT, 0, 24, 12);
    linear_is(&f, "model.layers.0.self_attn.o_proj.weight", LS_ATTN_OUT_WEIGHT, 0, 24, 24);
    linear_is(&f, "model.layers.0.mlp.gate_proj.weight", LS_MLP_GATE_WEIGHT, 0, 24, 18);
    linear_is(&f, "model.layers.0.mlp.up_proj.weight", LS_MLP_UP_WEIGHT, 0, 24, 18);
    linear_is(&f, "model.layers.1.mlp.down_proj.weight", LS_MLP_DOWN_WEIGHT, 1, 18, 24);
    expectation e = expect(&f, "lm_head.weight", 2, 131, 24);
    for (size_t v = 0; v < 131; v++)
        for (size_t d = 0; d < e.D; d++) is(&e, v, d, LS_HEAD_WEIGHT, 0, v, d);
    all_seen(&e);
    e = expect(&f, "model.layers.1.post_attention_layernorm.weight", 1, 24, 1);
    for (size_t d = 0; d < e.D; d++) is(&e, d, 0, LS_NORM2_SCALE, 1, d, 0);
    all_seen(&e);
    foreign_fixture_free(&f);
}
END_TEST

/* BERT's first norm behind the first residual sum is in "attention.output", its second in
 * "output"; "output.dense" is not "attention.output.dense". */
START_TEST(bert_places)
{
    ls_config config = foreign_bert(LS_NORM_POST, true);
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_BERT);
    linear_is(&f, "bert.encoder.layer.1.attention.self.key.weight", LS_KEY_WEIGHT, 1, 12, 12);
    linear_is(&f, "bert.encoder.layer.1.attention.output.dense.weight", LS_ATTN_OUT_WEIGHT, 1, 12,
              12);
    linear_is(&f, "bert.encoder.layer.1.intermediate.dense.weight", LS_MLP_UP_WEIGHT, 1, 12, 21);
    linear_is(&f, "bert.encoder.layer.0.output.dense.weight", LS_MLP_DOWN_WEIGHT, 0, 21, 12);
    linear_is(&f, "cls.predictions.transform.dense.weight", LS_MASKED_DENSE_WEIGHT, 0, 12, 12);
    linear_is(&f, "bert.pooler.dense.weight", LS_POOLER_WEIGHT, 0, 12, 12);
    linear_is(&f, "cls.seq_relationship.weight", LS_ORDER_WEIGHT, 0, 12, 2);
    static const struct {
        const char *name;
        ls_role role;
        size_t layer, n;
    } vectors[] = {
        {"bert.embeddings.LayerNorm.weight", LS_EMBEDDING_NORM_SCALE, 0, 12},
        {"bert.encoder.layer.1.attention.output.LayerNorm.weight", LS_NORM1_SCALE, 1, 12},
        {"bert.encoder.layer.1.attention.output.LayerNorm.beta", LS_NORM1_SHIFT, 1, 12},
        {"encoder.layer.1.output.LayerNorm.gamma", LS_NORM2_SCALE, 1, 12},
        {"bert.encoder.layer.0.attention.self.value.bias", LS_VALUE_BIAS, 0, 12},
        {"cls.predictions.transform.LayerNorm.bias", LS_MASKED_NORM_SHIFT, 0, 12},
        {"cls.predictions.bias", LS_VOCAB_BIAS, 0, 263},
        {"cls.seq_relationship.bias", LS_ORDER_BIAS, 0, 2},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        expectation e = expect(&f, vectors[i].name, 1, vectors[i].n, 1);
        for (size_t n = 0; n < vectors[i].n; n++)
            is(&e, n, 0, vectors[i].role, vectors[i].layer, n, 0);
        all_seen(&e);
    }
    expectation e = expect(&f, "bert.embeddings.token_type_embeddings.weight", 2, 3, 12);
    for (size_t t = 0; t < 3; t++)
        for (size_t d = 0; d < e.D; d++) is(&e, t, d, LS_TYPE_EMBEDDING, 0, t, d);
    all_seen(&e);
    foreign_fixture_free(&f);
}
END_TEST

/* Rows of query_key_value: view(groups, heads of a group + 2, head width, in). */
static void fused_is(const foreign_fixture *f, const char *weight, const char *bias)
{
    const ls_config *c = &f->table->config;
    size_t rows = (c->heads + 2 * c->kv_heads) * ls_config_head_width(c);
    expectation e = expect(f, weight, 2, rows, c->d_model);
    expectation b = e;
    if (bias) b = expect(f, bias, 1, rows, 1);
    size_t row = 0;
    for (size_t group = 0; group < e.K; group++)
        for (size_t slot = 0; slot < e.H / e.K + 2; slot++)
            for (size_t i = 0; i < e.head; i++, row++) {
                bool query = slot < e.H / e.K, key = slot == e.H / e.K;
                size_t head = query ? group * (e.H / e.K) + slot : group;
                size_t out = head * e.head + i;
                for (size_t in = 0; in < e.D; in++)
                    is(&e, row, in,
                       query ? LS_QUERY_WEIGHT
                       : key ? LS_KEY_WEIGHT
                             : LS_VALUE_WEIGHT,
                       1, in, out);
                if (bias)
                    is(&b, row, 0,
                       query ? LS_QUERY_BIAS
                       : key ? LS_KEY_BIAS
                             : LS_VALUE_BIAS,
                       1, out, 0);
            }
    all_seen(&e);
    if (bias) all_seen(&b);
}

START_TEST(megatron_places)
{
    ls_config config = foreign_gpt();
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_MEGATRON);
    fused_is(&f, "language_model.encoder.layers.1.self_attention.query_key_value.weight",
             "language_model.transformer.layers.1.attention.query_key_value.bias");
    linear_is(&f, "language_model.encoder.layers.1.self_attention.dense.weight", LS_ATTN_OUT_WEIGHT,
              1, 12, 12);
    linear_is(&f, "language_model.encoder.layers.0.mlp.dense_h_to_4h.weight", LS_MLP_UP_WEIGHT, 0,
              12, 21);
    linear_is(&f, "language_model.encoder.layers.0.mlp.dense_4h_to_h.weight", LS_MLP_DOWN_WEIGHT, 0,
              21, 12);
    /* the vocabulary, padded to 3 heads x 128 */
    expectation e =
        expect(&f, "language_model.embedding.word_embeddings.weight", 2, 384, config.d_model);
    for (size_t v = 0; v < 384; v++)
        for (size_t d = 0; d < e.D; d++) {
            if (v < 131)
                is(&e, v, d, LS_TOKEN_EMBEDDING, 0, v, d);
            else
                ck_assert_uint_eq(e.foreign[v * e.D + d], padding);
        }
    free(e.foreign);
    foreign_fixture_free(&f);

    config.heads = 6;
    config.kv_heads = 2; /* q0 q1 q2 k0 v0 q3 q4 q5 k1 v1 */
    f = foreign_fixture_of(&config, LS_NAMES_MEGATRON);
    fused_is(&f, "language_model.encoder.layers.1.self_attention.query_key_value.weight",
             "language_model.encoder.layers.1.self_attention.query_key_value.bias");
    foreign_fixture_free(&f);
}
END_TEST

/* chunk(2) of the rows: gate, then up. */
START_TEST(gate_and_up)
{
    static const struct {
        ls_names names;
        const char *name, *fused;
    } cases[] = {{LS_NAMES_MEGATRON, "language_model.encoder.layers.1.mlp.dense_h_to_4h.weight",
                  "language_model.encoder.layers.1.self_attention.query_key_value.weight"},
                 {LS_NAMES_MEGATRON_CORE, "decoder.layers.1.mlp.linear_fc1.weight",
                  "decoder.layers.1.self_attention.linear_qkv.weight"}};
    ls_config config = foreign_llama(3);
    foreign_fixture f = foreign_fixture_of(&config, cases[_i].names);
    expectation e = expect(&f, cases[_i].name, 2, 36, 24);
    for (size_t row = 0; row < 36; row++)
        for (size_t in = 0; in < 24; in++)
            is(&e, row, in, row < 18 ? LS_MLP_GATE_WEIGHT : LS_MLP_UP_WEIGHT, 1, in, row % 18);
    all_seen(&e);
    fused_is(&f, cases[_i].fused, NULL);
    foreign_fixture_free(&f);
}
END_TEST

/* Meta's rotary turns features 2 i and 2 i + 1 of a head together, the table's i and i + half: with
 * the map's places both give the same turned vectors. */
START_TEST(meta_pairs)
{
    ls_config config = foreign_llama(3);
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_META_LLAMA);
    static const struct {
        const char *name;
        ls_role role;
        size_t heads;
    } cases[] = {{"layers.0.attention.wq.weight", LS_QUERY_WEIGHT, 6},
                 {"layers.0.attention.wk.weight", LS_KEY_WEIGHT, 3}};
    for (int i = 0; i < 2; i++) {
        expectation e = expect(&f, cases[i].name, 2, cases[i].heads * 4, 24);
        for (size_t head = 0; head < cases[i].heads; head++)
            for (size_t pair = 0; pair < 2; pair++)
                for (size_t which = 0; which < 2; which++)
                    for (size_t in = 0; in < 24; in++)
                        is(&e, head * 4 + 2 * pair + which, in, cases[i].role, 0, in,
                           head * 4 + pair + 2 * which);
        all_seen(&e);
    }
    linear_is(&f, "layers.0.attention.wv.weight", LS_VALUE_WEIGHT, 0, 24, 12); /* not turned */
    linear_is(&f, "layers.1.feed_forward.w1.weight", LS_MLP_GATE_WEIGHT, 1, 24, 18);
    linear_is(&f, "layers.1.feed_forward.w2.weight", LS_MLP_DOWN_WEIGHT, 1, 18, 24);
    linear_is(&f, "layers.1.feed_forward.w3.weight", LS_MLP_UP_WEIGHT, 1, 24, 18);
    foreign_fixture_free(&f);
}
END_TEST

/* ---- there and back ---- */

/* Every parameter into the foreign tensors and back, whole and as every shard of every legal tp, in
 * every width of element; and nothing of a foreign tensor is written twice or by nobody, but for
 * the padding. */
START_TEST(there_and_back)
{
    foreign_case c = foreign_case_of(_i);
    foreign_fixture f = foreign_fixture_of(&c.config, c.names);
    size_t elements = 0;
    for (size_t t = 0; t < f.map->count; t++) {
        const ls_foreign_tensor *tensor = &f.map->tensors[t];
        if (tensor->twin) continue;
        uint32_t *foreign = foreign_of(&f, tensor);
        size_t n = tensor->dims[0] * tensor->dims[1], used = 0;
        for (size_t i = 0; i < n; i++) used += foreign[i] != padding;
        ck_assert_msg(used == tensor->least_rows * tensor->dims[1], "%s: %s: %zu of %zu", c.name,
                      tensor->name, used, n);
        elements += used;
        for (int part = 0; part < tensor->n_parts; part++) {
            size_t param = tensor->parts[part].param;
            const ls_param *p = &f.table->params[param];
            uint32_t *whole = whole_of(f.table, param);
            uint32_t *back = malloc((ls_param_elements(p) + GUARD) * sizeof *back);
            memset(back, 0xee, (ls_param_elements(p) + GUARD) * sizeof *back);
            ls_foreign_whole_in(f.map, param, sizeof *back, back, foreign);
            ck_assert_msg(memcmp(back, whole, ls_param_elements(p) * sizeof *back) == 0,
                          "%s: %s comes back changed", c.name, p->name);
            ck_assert_uint_eq(back[ls_param_elements(p)], 0xeeeeeeee);
            free(back);
            for (size_t tp = 1; tp <= c.config.heads; tp++) {
                if (!grid_legal(&c.config, tp)) continue;
                for (size_t rank = 0; rank < tp; rank++) {
                    ls_shard shard = grid_shard(&c.config, p, tp, rank);
                    size_t rows, cols;
                    ls_param_shard_shape(p, shard, &rows, &cols);
                    size_t room = rows * cols + GUARD;
                    uint32_t *wanted = malloc(room * sizeof *wanted);
                    uint32_t *found = malloc(room * sizeof *found);
                    memset(wanted, 0xee, room * sizeof *wanted);
                    memset(found, 0xee, room * sizeof *found);
                    ls_param_shard_in(p, shard, sizeof *wanted, wanted, whole);
                    ls_foreign_shard_in(f.map, param, shard, sizeof *found, found, foreign);
                    ck_assert_msg(memcmp(wanted, found, room * sizeof *wanted) == 0,
                                  "%s: %s, rank %zu of %zu", c.name, p->name, rank, tp);
                    free(wanted);
                    free(found);
                }
            }
            free(whole);
        }
        free(foreign);
    }
    ck_assert_uint_eq(elements, ls_param_table_elements(f.table));
    foreign_fixture_free(&f);
}
END_TEST

/* Elements of 1, 2 and 8 bytes, and addresses that are not aligned. */
START_TEST(widths)
{
    static const size_t bytes_of[] = {1, 2, 4, 8};
    ls_config config = foreign_llama(3);
    foreign_fixture f = foreign_fixture_of(&config, LS_NAMES_MEGATRON);
    size_t param = ls_param_find(f.table, LS_KEY_WEIGHT, 0);
    const ls_foreign_tensor *tensor = &f.map->tensors[f.map->places[param].tensor];
    for (size_t w = 0; w < 4; w++) {
        size_t bytes = bytes_of[w], n = 24 * 12, m = tensor->dims[0] * tensor->dims[1];
        unsigned char *whole = malloc(n * bytes + 1), *foreign = calloc(m * bytes + 1, 1);
        unsigned char *back = malloc(n * bytes + 1);
        for (size_t i = 0; i < n * bytes + 1; i++) whole[i] = (unsigned char)(i * 7 % 251);
        ls_foreign_whole_out(f.map, param, bytes, foreign + 1, whole + 1);
        ls_foreign_whole_in(f.map, param, bytes, back + 1, foreign + 1);
        ck_assert(memcmp(back + 1, whole + 1, n * bytes) == 0);
        /* row 0 of the key of group 0 stands behind two query heads of 4 */
        ck_assert(memcmp(foreign + 1 + 8 * 24 * bytes, whole + 1, bytes) == 0);
        free(whole), free(foreign), free(back);
    }
    foreign_fixture_free(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("foreign", 60);
    tcase_add_test(tests, gpt2_places);
    tcase_add_test(tests, llama_places);
    tcase_add_test(tests, bert_places);
    tcase_add_test(tests, megatron_places);
    tcase_add_loop_test(tests, gate_and_up, 0, 2);
    tcase_add_test(tests, meta_pairs);
    tcase_add_loop_test(tests, there_and_back, 0, FOREIGN_CASES);
    tcase_add_test(tests, widths);
    return run_tests();
}
