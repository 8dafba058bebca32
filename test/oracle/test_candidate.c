/* A candidate's tensors found: whole ones, blocks of ranks and micro-batches, other programs'. */
#include "oracle/candidate_fixture.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/scratch.h"
#include "oracle/candidate.h"

/* All sizes different; 4 heads, 2 key and value heads, 5 sequences, 11 words. */
static ls_config small_config(const char *name)
{
    ls_config config;
    ASSERT_OK(ls_config_named(name, &config));
    config.layers = 2;
    config.heads = 4;
    config.kv_heads = strcmp(name, "llama-nano") == 0 ? 2 : 4;
    config.d_model = 8;
    config.d_ff = 12;
    config.seq = 6;
    config.batch = 5;
    config.vocab = 11;
    config.dropout = 0;
    return config;
}

/* A golden directory, open, beside what it was made of; one per test. */
static golden_fixture f;
static ls_golden *golden;
static candidate_file c;

static void begin_with(const ls_config *config, size_t steps, void (*set)(golden_fixture *))
{
    scratch_teardown(); /* what the test before left */
    mkdir(scratch_folder, 0777);
    golden_fixture_begin(&f, config, steps);
    if (set) set(&f);
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    /* A folder that is empty. */
    mkdir(scratch_path("candidate"), 0777);
}

static void begin(size_t steps)
{
    const ls_config config = small_config("gpt2-nano");
    begin_with(&config, steps, NULL);
}

static void end(void)
{
    ls_golden_close(&golden);
    golden_fixture_end(&f);
}

/* A file in the candidate's folder. */
static const char *in(const char *name)
{
    static char path[4][1100];
    static int turn;
    char *own = path[turn++ % 4];
    snprintf(own, sizeof path[0], "%s/candidate/%s", scratch_folder, name);
    return own;
}

static ls_candidate *open_it(const char *map)
{
    ls_candidate *candidate = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, scratch_path("candidate"), map));
    return candidate;
}

#define REFUSED(...)                                                                               \
    do {                                                                                           \
        ls_candidate *refused = NULL;                                                              \
        ASSERT_SAYS(ls_candidate_open(&refused, golden, scratch_path("candidate"), NULL),          \
                    LS_ERR_INPUT, __VA_ARGS__);                                                    \
        ck_assert_ptr_null(refused);                                                               \
    } while (0)

/* The candidate has a tensor of the fixture's, bit for bit in `dtype`. */
static const ls_candidate_tensor *expect(const ls_candidate *candidate, size_t step,
                                         const char *node_name, ls_dtype dtype)
{
    const int node = fixture_node(&f, node_name);
    const ls_candidate_tensor *t = ls_candidate_find(candidate, step, node);
    ck_assert_msg(t != NULL, "step %zu: no %s", step, node_name);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_ptr_eq(t->golden, ls_golden_find(golden, step, node));
    void *bytes = fixture_round(f.values[step][node], t->golden->count, dtype);
    ck_assert_msg(memcmp(bytes, t->values, t->golden->count * ls_dtype_bytes(dtype)) == 0,
                  "%s has other values", node_name);
    free(bytes);
    return t;
}

/* ---- whole tensors ---- */

START_TEST(one_file)
{
    begin(2);
    candidate_add_whole(&c, &f, 1, "layers.1.query", "step1/layers.1.query", LS_F32);
    candidate_add_whole(&c, &f, 0, "loss", "loss", LS_F32);
    candidate_add_whole(&c, &f, 0, "norm", "step0/norm", LS_F32);
    candidate_add_whole(&c, &f, 0, "d.logits", "d.logits", LS_F64);
    candidate_add_whole(&c, &f, 0, "grad.token_embedding.weight", "grad.token_embedding.weight",
                        LS_BF16);
    candidate_add_whole(&c, &f, 1, "param.final_norm.weight", "final_norm.weight", LS_F16);
    candidate_add_whole(&c, &f, 0, "param.final_norm.weight", "step0/final_norm.weight", LS_F32);
    const char *path = scratch_path("one.safetensors");
    candidate_write(&c, path);
    ls_candidate *candidate = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, path, NULL));
    ck_assert_uint_eq(candidate->count, 7);
    expect(candidate, 1, "layers.1.query", LS_F32);
    expect(candidate, 0, "loss", LS_F32);
    expect(candidate, 0, "norm", LS_F32);
    expect(candidate, 0, "d.logits", LS_F64);
    expect(candidate, 0, "grad.token_embedding.weight", LS_BF16);
    expect(candidate, 1, "param.final_norm.weight", LS_F16);
    const ls_candidate_tensor *t = expect(candidate, 0, "param.final_norm.weight", LS_F32);
    ck_assert_uint_eq(t->n_blocks, 1);
    ck_assert_int_eq(t->ranks, 1);
    ck_assert_int_eq(t->blocks[0].rank, -1);
    ck_assert_str_eq(t->name, "step0/final_norm.weight");
    ck_assert_ptr_eq(t->values, t->blocks[0].values);
    for (size_t i = 1; i < candidate->count; i++)
        ck_assert(candidate->tensors[i - 1].golden < candidate->tensors[i].golden);
    ck_assert(!candidate->has_layout);
    ls_candidate_close(&candidate);
    ck_assert_ptr_null(candidate);
    end();
}
END_TEST

/* A golden directory is a candidate: all its tensors, nothing of weights, batch and truth. */
START_TEST(a_golden_directory)
{
    begin(2);
    ls_candidate *candidate = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, scratch_path("golden"), NULL));
    ck_assert_uint_eq(candidate->count, golden->count);
    for (size_t i = 0; i < candidate->count; i++)
        ck_assert_ptr_eq(candidate->tensors[i].golden, &golden->tensors[i]);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* ---- ranks ---- */

START_TEST(blocks_of_ranks_by_cut)
{
    begin(1);
    const block_runs parts[4] = {{{0, 5}, {0, 3}, {0, 8}},
                                 {{0, 2}, {3, 6}, {0, 8}},
                                 {{2, 5}, {3, 6}, {0, 5}},
                                 {{1, 5}, {2, 6}, {5, 8}}};
    for (int r = 0; r < 4; r++) {
        char name[40], rank[8];
        snprintf(name, sizeof name, "rank-%03d.safetensors", r);
        snprintf(rank, sizeof rank, "%d", r);
        candidate_say(&c, "rank", rank);
        candidate_say(&c, "ranks", "4");
        candidate_add_block(&c, &f, 0, "layers.0.mlp", "step0/layers.0.mlp", parts[r]);
        candidate_say_cut(&c, "step0/layers.0.mlp", 3, parts[r]);
        candidate_add_whole(&c, &f, 0, "loss", "step0/loss", LS_F32);
        candidate_write(&c, in(name));
    }
    ls_candidate *candidate = open_it(NULL);
    ck_assert_uint_eq(candidate->count, 2);
    const ls_candidate_tensor *t = expect(candidate, 0, "layers.0.mlp", LS_F32);
    ck_assert_uint_eq(t->n_blocks, 4);
    ck_assert_int_eq(t->ranks, 4);
    ck_assert(!t->replicas_differ);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(t->blocks[r].rank, r);
        for (int d = 0; d < 3; d++) {
            ck_assert_uint_eq(t->blocks[r].runs[d].first, parts[r][d][0]);
            ck_assert_uint_eq(t->blocks[r].runs[d].count, parts[r][d][1] - parts[r][d][0]);
        }
    }
    t = expect(candidate, 0, "loss", LS_F32);
    ck_assert_int_eq(t->ranks, 4);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("candidate");
    TCase *reading = tcase_create("reading");
    suite_add_tcase(suite, reading);
    tcase_add_unchecked_fixture(reading, scratch_setup, scratch_teardown);
    tcase_add_test(reading, one_file);
    tcase_add_test(reading, a_golden_directory);
    tcase_add_test(reading, blocks_of_ranks_by_cut);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
