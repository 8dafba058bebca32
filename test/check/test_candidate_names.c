/* Candidates under other programs' names (--map): transposed, fused, interleaved, padded. */
#include "lockstep/base/widen.h"
#include "check/candidate_small.h"
#include "run_tests.h"

/* Every map that fits a model of the small ones. */
static const struct {
    const char *model, *map;
    ls_names names;
} maps[] = {{"gpt2-nano", "hf", LS_NAMES_GPT2},
            {"gpt2-nano", "hf-gpt2", LS_NAMES_GPT2},
            {"gpt2-nano", "megatron", LS_NAMES_MEGATRON},
            {"gpt2-nano", "megatron-core", LS_NAMES_MEGATRON_CORE},
            {"llama-nano", "hf", LS_NAMES_LLAMA},
            {"llama-nano", "meta-llama", LS_NAMES_META_LLAMA},
            {"bert-nano", "hf-bert", LS_NAMES_BERT}};
enum { MAPS = sizeof maps / sizeof maps[0] };

static ls_foreign_map *map;

static void begin_map(int i, size_t steps)
{
    const ls_config config = candidate_config(maps[i].model);
    begin_with(&config, steps, NULL);
    ASSERT_OK(ls_foreign_map_create(&map, f.table, maps[i].names, "test"));
}

static void end_map(void)
{
    ls_foreign_map_destroy(&map);
    end();
}

/* The name of a node "grad.PARAMETER" and the like. */
static const char *node_of(const char *prefix, size_t param, const char *use)
{
    static char name[200];
    snprintf(name, sizeof name, "%s.%s%s", prefix, f.table->params[param].name, use);
    return name;
}

/* A foreign tensor made of the fixture's nodes, with rows of padding where it may have them. */
static void add_foreign(const ls_foreign_tensor *t, size_t step, const char *prefix,
                        const char *use, const char *name)
{
    const size_t rows = t->more_rows ? t->least_rows + 3 : t->dims[0];
    const uint64_t dims[2] = {rows, t->dims[1]};
    double *values = calloc(rows * t->dims[1] + t->dims[0] * t->dims[1], sizeof *values);
    for (size_t i = 0; i < rows * t->dims[1]; i++) values[i] = 99; /* padding */
    for (int p = 0; p < t->n_parts; p++) {
        const size_t param = t->parts[p].param;
        ls_foreign_whole_out(map, param, 8, values,
                             fixture_values(&f, step, node_of(prefix, param, use)));
    }
    candidate_add(&c, name, LS_F32, t->n_dims, dims, values);
    free(values);
}

static const char *const prefixes[] = {"grad", "clipped", "param"};

/* All of a program's tensors, as gradients, clipped gradients and new values, bare names for the
 * last step's, become what the golden directory has. */
START_TEST(every_parameter)
{
    begin_map(_i, 2);
    for (size_t i = 0; i < map->count; i++) {
        const ls_foreign_tensor *t = &map->tensors[i];
        char name[LS_TENSOR_NAME];
        if (t->twin) continue;
        for (int k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "step0/%s.%s", prefixes[k], t->name);
            add_foreign(t, 0, prefixes[k], "", name);
        }
        add_foreign(t, 1, "param", "", t->name);
    }
    candidate_add_whole(&c, &f, 1, "layers.0.query", "step1/layers.0.query", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it(maps[_i].map);
    ck_assert_uint_eq(candidate->count, 4 * f.table->count + 1);
    for (size_t p = 0; p < f.table->count; p++) {
        for (int k = 0; k < 3; k++) expect(candidate, 0, node_of(prefixes[k], p, ""), LS_F32);
        expect(candidate, 1, node_of("param", p, ""), LS_F32);
    }
    expect(candidate, 1, "layers.0.query", LS_F32);
    ls_candidate_close(&candidate);
    end_map();
}
END_TEST

/* A part of what add_foreign makes, with its cut. */
static void add_foreign_part(const ls_foreign_tensor *t, const char *name, const size_t runs[2][2])
{
    const size_t cols = t->dims[1], rows = t->dims[0];
    const uint64_t dims[2] = {runs[0][1] - runs[0][0], runs[1][1] - runs[1][0]};
    double *values = calloc(2 * rows * cols, sizeof *values), *part;
    block_runs cut = {{runs[0][0], runs[0][1]}, {runs[1][0], runs[1][1]}};
    part = calloc(dims[0] * dims[1] + 1, sizeof *part);
    for (int p = 0; p < t->n_parts; p++)
        ls_foreign_whole_out(map, t->parts[p].param, 8, values,
                             fixture_values(&f, 0, node_of("grad", t->parts[p].param, "")));
    for (size_t r = 0; r < dims[0]; r++)
        for (size_t o = 0; o < dims[1]; o++) {
            const size_t row = runs[0][0] + r, col = runs[1][0] + o;
            part[r * dims[1] + o] = row < rows ? values[row * cols + col] : 99;
        }
    candidate_add(&c, name, LS_F32, t->n_dims, dims, part);
    candidate_say_cut(&c, name, t->n_dims, cut);
    free(values);
    free(part);
}

/* Each tensor cut over three ranks as tensor parallelism would, in halves of its rows, one of which
 * is cut by columns too; padding behind the vocabulary. */
START_TEST(parts_of_ranks)
{
    begin_map(_i, 1);
    for (int r = 0; r < 3; r++) {
        char text[4], name[LS_TENSOR_NAME];
        snprintf(text, sizeof text, "%d", r);
        candidate_say(&c, "rank", text);
        candidate_say(&c, "ranks", "3");
        for (size_t i = 0; i < map->count; i++) {
            const ls_foreign_tensor *t = &map->tensors[i];
            const size_t half = (t->more_rows ? t->least_rows : t->dims[0]) / 2, cols = t->dims[1];
            const size_t end = t->more_rows ? t->least_rows + 5 : t->dims[0];
            /* Pairs of a head must stay together where features are columns. */
            const size_t cut = cols > 1 ? cols / 2 : 1;
            const size_t runs[3][2][2] = {
                {{0, half}, {0, cols}}, {{half, end}, {0, cut}}, {{half, end}, {cut, cols}}};
            if (t->twin || (r == 2 && t->n_dims == 1)) continue;
            snprintf(name, sizeof name, "grad.%s", t->name);
            add_foreign_part(t, name, runs[r]);
        }
        snprintf(name, sizeof name, "rank-%03d.safetensors", r);
        candidate_write(&c, in(name));
    }
    ls_candidate *candidate = open_it(maps[_i].map);
    ck_assert_uint_eq(candidate->count, f.table->count);
    for (size_t p = 0; p < f.table->count; p++) {
        const ls_candidate_tensor *t = expect(candidate, 0, node_of("grad", p, ""), LS_F32);
        ck_assert(!t->replicas_differ);
        ck_assert_int_ge(t->ranks, 1);
    }
    ls_candidate_close(&candidate);
    end_map();
}
END_TEST

/* By hand, not through the map: GPT-2's c_attn is [D, 3 D], query, key and value side by side. */
START_TEST(fused_by_hand)
{
    begin_map(0, 1);
    const uint64_t dims[2] = {8, 24}, bias[1] = {24};
    double fused[8 * 24], biases[24];
    static const char *const which[] = {"query", "key", "value"};
    for (int w = 0; w < 3; w++) {
        char name[96];
        snprintf(name, sizeof name, "grad.layers.1.attention.%s.weight", which[w]);
        for (size_t r = 0; r < 8; r++)
            for (size_t o = 0; o < 8; o++)
                fused[r * 24 + (size_t)w * 8 + o] = fixture_values(&f, 0, name)[r * 8 + o];
        snprintf(name, sizeof name, "grad.layers.1.attention.%s.bias", which[w]);
        for (size_t o = 0; o < 8; o++) biases[(size_t)w * 8 + o] = fixture_values(&f, 0, name)[o];
    }
    candidate_add(&c, "grad.h.1.attn.c_attn.weight", LS_F32, 2, dims, fused);
    candidate_add(&c, "step0/grad.transformer.h.1.attn.c_attn.bias", LS_F32, 1, bias, biases);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it("hf");
    ck_assert_uint_eq(candidate->count, 6);
    for (int w = 0; w < 3; w++) {
        char name[96];
        snprintf(name, sizeof name, "grad.layers.1.attention.%s.weight", which[w]);
        const ls_candidate_tensor *t = expect(candidate, 0, name, LS_F32);
        ck_assert_str_eq(t->name, "grad.h.1.attn.c_attn.weight");
        snprintf(name, sizeof name, "grad.layers.1.attention.%s.bias", which[w]);
        expect(candidate, 0, name, LS_F32);
    }
    ls_candidate_close(&candidate);
    end_map();
}
END_TEST

/* Llama's q_proj is [out, in]. */
START_TEST(transposed_by_hand)
{
    begin_map(4, 1);
    const uint64_t dims[2] = {8, 12};
    double turned[8 * 12];
    const double *values = fixture_values(&f, 0, "grad.layers.0.mlp.down.weight");
    for (size_t i = 0; i < 12; i++)
        for (size_t o = 0; o < 8; o++) turned[o * 12 + i] = values[i * 8 + o];
    candidate_add(&c, "grad.model.layers.0.mlp.down_proj.weight", LS_F64, 2, dims, turned);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it("hf-llama");
    expect(candidate, 0, "grad.layers.0.mlp.down.weight", LS_F64);
    ls_candidate_close(&candidate);
    end_map();
}
END_TEST

/* A tied head beside its embedding: the same, or refused. By itself it stands for it. Gradients of
 * one use keep theirs. */
START_TEST(tied_heads)
{
    begin_map(0, 1);
    const ls_foreign_tensor *head = NULL, *embedding = NULL;
    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->tensors[i].name, "lm_head.weight") == 0) head = &map->tensors[i];
        if (strcmp(map->tensors[i].name, "transformer.wte.weight") == 0)
            embedding = &map->tensors[i];
    }
    ck_assert(head && head->twin && embedding);
    for (int both = 0; both < 3; both++) {
        ls_candidate *candidate = NULL;
        double *values = fixture_values(&f, 0, "grad.token_embedding.weight");
        if (both > 0) add_foreign(embedding, 0, "grad", "", "grad.transformer.wte.weight");
        values[7] += both == 2;
        add_foreign(head, 0, "grad", "", "grad.lm_head.weight");
        values[7] -= both == 2;
        candidate_write(&c, in("a.safetensors"));
        if (both == 2) {
            ASSERT_SAYS(ls_candidate_open(&candidate, golden, scratch_path("candidate"), "hf"),
                        LS_ERR_INPUT, "grad.lm_head.weight", "grad.transformer.wte.weight", "tied");
            continue;
        }
        candidate = open_it("hf");
        ck_assert_uint_eq(candidate->count, 1);
        ck_assert_uint_eq(candidate->ignored, (size_t)both);
        const ls_candidate_tensor *t = expect(candidate, 0, "grad.token_embedding.weight", LS_F32);
        ck_assert_uint_eq(t->n_blocks, 1);
        ls_candidate_close(&candidate);
    }
    add_foreign(embedding, 0, "grad", ".as_head", "grad.wte.weight.as_head");
    add_foreign(embedding, 0, "grad", ".as_input", "grad.wte.weight.as_input");
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it("hf");
    ck_assert_uint_eq(candidate->count, 2);
    expect(candidate, 0, "grad.token_embedding.weight.as_head", LS_F32);
    expect(candidate, 0, "grad.token_embedding.weight.as_input", LS_F32);
    ls_candidate_close(&candidate);
    end_map();
}
END_TEST

#define REFUSED_MAP(of, ...)                                                                       \
    do {                                                                                           \
        ls_candidate *refused = NULL;                                                              \
        ASSERT_SAYS(ls_candidate_open(&refused, golden, scratch_path("candidate"), (of)),          \
                    LS_ERR_INPUT, __VA_ARGS__);                                                    \
    } while (0)

START_TEST(refused_parts)
{
    static const struct {
        const char *cut, *words[3];
    } bad[] = {{"0:8", {"2 dimensions"}},
               {"0:8 0:24 0:1", {"2 dimensions"}},
               {"0:8 0:25", {"0:25", "0:24"}},
               {"0:9 0:24", {"0:9", "0:8"}},
               {"0:4 0:24", {"8 x 24", "0:4 0:24"}},
               {"8:0 0:24", {"8:0"}}};
    static const uint64_t dims[2] = {8, 24};
    double values[8 * 24] = {0};
    begin_map(0, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        candidate_add(&c, "grad.h.0.attn.c_attn.weight", LS_F32, 2, dims, values);
        candidate_say(&c, "cut:grad.h.0.attn.c_attn.weight", bad[i].cut);
        candidate_write(&c, in("a.safetensors"));
        ls_candidate *refused = NULL;
        assert_says(ls_candidate_open(&refused, golden, scratch_path("candidate"), "hf"),
                    LS_ERR_INPUT, bad[i].words);
    }
    /* One half of the columns alone: the keys' second half has no block. */
    const uint64_t half[2] = {8, 12};
    candidate_add(&c, "grad.h.0.attn.c_attn.weight", LS_F32, 2, half, values);
    candidate_say(&c, "cut:grad.h.0.attn.c_attn.weight", "0:8 0:12");
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "grad.h.0.attn.c_attn.weight", "[0, 4]", "31 more");
    end_map();
    /* Meta's Llama has the pairs of a rotary head side by side: half a head is no run of ours. */
    ls_config config = candidate_config("llama-nano");
    const uint64_t pair[2] = {2, 16};
    config.d_model = 16;
    begin_with(&config, 1, NULL);
    candidate_add(&c, "grad.layers.0.attention.wq.weight", LS_F32, 2, pair, values);
    candidate_say(&c, "cut:grad.layers.0.attention.wq.weight", "0:2 0:16");
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("meta-llama", "grad.layers.0.attention.wq.weight", "0:2", "middle of a head",
                "layers.0.attention.query.weight");
    end();
}
END_TEST

START_TEST(refused_names)
{
    static const uint64_t dims[2] = {8, 24}, turned[2] = {24, 8};
    double *values = calloc(8 * 24, sizeof *values);
    begin_map(0, 1);
    candidate_add(&c, "loss", LS_F32, 0, NULL, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("torch", "--map", "torch");
    REFUSED_MAP("hf-gpt", "--map", "hf-gpt2");
    REFUSED_MAP("hf-llama", "--map hf-llama");
    candidate_add(&c, "grad.h.0.attn.c_atn.weight", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "a.safetensors", "h.0.attn.c_atn.weight", "Hugging Face GPT-2");
    candidate_add(&c, "grad.h.2.attn.c_attn.weight", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "h.2.attn.c_attn.weight", "layer 2", "2 layers");
    candidate_add(&c, "step0/layers.0.qury", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "step0/layers.0.qury", "did you mean \"layers.0.query\"");
    candidate_add(&c, "grad.h.0.attn.c_attn.weight", LS_F32, 2, turned, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "grad.h.0.attn.c_attn.weight", "24 x 8", "8 x 24");
    candidate_add(&c, "step0/mb0/grad.h.0.attn.c_attn.weight", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "mb0", "whole step");
    candidate_add(&c, "grad.h.0.attn.c_attn.weight.as_head", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "as_head", "has no grad.layers.0.attention.query.weight.as_head");
    candidate_add(&c, "step4/grad.h.0.attn.c_attn.weight", LS_F32, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED_MAP("hf", "step 4", "step 0 alone");
    /* What the program keeps beside its weights is passed over. */
    candidate_add(&c, "loss", LS_F32, 0, NULL, values);
    candidate_add(&c, "h.0.attn.bias", LS_U8, 2, dims, values);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it("hf");
    ck_assert_uint_eq(candidate->count, 1);
    ck_assert_uint_eq(candidate->ignored, 1);
    ls_candidate_close(&candidate);
    free(values);
    end_map();
}
END_TEST

int main(void)
{
    TCase *names = test_case("names", 60);
    tcase_add_unchecked_fixture(names, scratch_setup, scratch_teardown);
    tcase_add_loop_test(names, every_parameter, 0, MAPS);
    tcase_add_loop_test(names, parts_of_ranks, 0, MAPS);
    tcase_add_test(names, fused_by_hand);
    tcase_add_test(names, transposed_by_hand);
    tcase_add_test(names, tied_heads);
    tcase_add_test(names, refused_names);
    tcase_add_test(names, refused_parts);
    return run_tests();
}
