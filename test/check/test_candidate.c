/* A candidate's tensors found: whole ones, blocks of ranks and micro-batches, other programs'. */
#include <math.h>

#include "check/candidate_small.h"
#include "run_tests.h"

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

/* One rank's blocks in a file. */
static void begin_rank(int rank, int ranks)
{
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    candidate_say(&c, "rank", text);
    snprintf(text, sizeof text, "%d", ranks);
    candidate_say(&c, "ranks", text);
}

static void write_rank(int rank)
{
    char name[40];
    snprintf(name, sizeof name, "rank-%03d.safetensors", rank);
    candidate_write(&c, in(name));
}

/* Replicas that differ: the first element of all, both ranks, both values; the first rank's stay.
 * Overlaps are taken apart row by row, in blocks that cover each other in part. */
START_TEST(replicas_that_differ)
{
    const block_runs parts[3] = {
        {{0, 5}, {0, 4}, {0, 8}}, {{0, 5}, {2, 6}, {0, 5}}, {{0, 5}, {1, 6}, {3, 8}}};
    /* Where rank 2, then rank 1, is wrong: sequence, token, column; who had it first. */
    static const struct {
        int wrong, first;
        size_t at[3];
    } cases[] = {{2, 0, {1, 3, 6}}, {2, 1, {4, 5, 3}}, {1, 0, {0, 2, 0}}, {1, 0, {4, 3, 4}}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        begin(1);
        const size_t element = (cases[k].at[0] * 6 + cases[k].at[1]) * 8 + cases[k].at[2];
        double *value = &fixture_values(&f, 0, "layers.1.layer")[element];
        const double right = *value;
        for (int r = 0; r < 3; r++) {
            if (r == cases[k].wrong) *value = 1000;
            begin_rank(r, 3);
            candidate_add_block(&c, &f, 0, "layers.1.layer", "layers.1.layer", parts[r]);
            candidate_say_cut(&c, "layers.1.layer", 3, parts[r]);
            write_rank(r);
            *value = right;
        }
        ls_candidate *candidate = open_it(NULL);
        const ls_candidate_tensor *t = expect(candidate, 0, "layers.1.layer", LS_F32);
        ck_assert(t->replicas_differ);
        ck_assert_int_eq(t->replicas[0], cases[k].first);
        ck_assert_int_eq(t->replicas[1], cases[k].wrong);
        ck_assert_uint_eq(t->replica_index, element);
        ck_assert(t->replica_values[0] == (double)(float)right && t->replica_values[1] == 1000);
        ls_candidate_close(&candidate);
        end();
    }
}
END_TEST

/* The smallest index counts, whichever rank it is; whole tensors are compared without a copy. */
START_TEST(whole_replicas)
{
    begin(1);
    double *values = fixture_values(&f, 0, "grad.layers.0.mlp.up.weight");
    for (int r = 0; r < 4; r++) {
        const double first = values[10], second = values[50];
        if (r == 1) values[50] = 7;
        if (r == 3) values[10] = -7;
        begin_rank(r, 4);
        candidate_add_whole(&c, &f, 0, "grad.layers.0.mlp.up.weight", "grad.layers.0.mlp.up.weight",
                            LS_F32);
        write_rank(r);
        values[10] = first;
        values[50] = second;
    }
    ls_candidate *candidate = open_it(NULL);
    const ls_candidate_tensor *t = expect(candidate, 0, "grad.layers.0.mlp.up.weight", LS_F32);
    ck_assert(t->replicas_differ);
    ck_assert_uint_eq(t->replica_index, 10);
    ck_assert_int_eq(t->replicas[0], 0);
    ck_assert_int_eq(t->replicas[1], 3);
    ck_assert(t->replica_values[1] == -7);
    ck_assert_ptr_eq(t->values, t->blocks[0].values);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* Any NaN is any other; -0 is not +0. */
START_TEST(replicas_of_nan_and_zero)
{
    begin(1);
    double *values = fixture_values(&f, 0, "norm");
    for (int zero = 0; zero < 2; zero++) {
        for (int r = 0; r < 2; r++) {
            values[0] = zero ? (r ? -0.0 : 0.0) : r ? -(double)NAN : (double)NAN;
            begin_rank(r, 2);
            candidate_add_whole(&c, &f, 0, "norm", "norm", LS_F64);
            write_rank(r);
        }
        ls_candidate *candidate = open_it(NULL);
        const ls_candidate_tensor *t = ls_candidate_find(candidate, 0, fixture_node(&f, "norm"));
        ck_assert(t->replicas_differ == (zero == 1));
        ls_candidate_close(&candidate);
    }
    end();
}
END_TEST

/* Micro-batches as the manifest cuts the batch: 5 sequences over dp 2 x 2 micro-batches. */
static void four_parts(golden_fixture *fixture)
{
    fixture->run.layout.dp = 2;
    fixture->run.layout.micro_batches = 2;
}

START_TEST(micro_batches)
{
    static const size_t ends[5] = {0, 2, 3, 4, 5};
    const ls_config config = candidate_config("gpt2-nano");
    begin_with(&config, 2, four_parts);
    for (int m = 3; m >= 0; m--) {
        char name[64];
        const block_runs part = {{ends[m], ends[m + 1]}, {0, 6}, {0, 8}};
        snprintf(name, sizeof name, "step1/mb%d/layers.0.attention", m);
        candidate_add_block(&c, &f, 1, "layers.0.attention", name, part);
        const block_runs heads = {{ends[m], ends[m + 1]}, {0, 4}, {0, 6}, {0, 6}};
        snprintf(name, sizeof name, "mb%d/layers.0.probabilities", m);
        candidate_add_block(&c, &f, 0, "layers.0.probabilities", name, heads);
        if (m == 2) candidate_write(&c, in("b.safetensors"));
    }
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = open_it(NULL);
    ck_assert_uint_eq(candidate->count, 2);
    const ls_candidate_tensor *t = expect(candidate, 1, "layers.0.attention", LS_F32);
    expect(candidate, 0, "layers.0.probabilities", LS_F32);
    ck_assert_uint_eq(t->n_blocks, 4);
    for (int m = 0; m < 4; m++) {
        ck_assert_int_eq(t->blocks[m].micro_batch, m);
        ck_assert_uint_eq(t->blocks[m].runs[0].first, ends[m]);
    }
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* The layout alone says what a rank holds: dp cuts the sequences, tp the columns, sp the tokens; 11
 * words evenly, 6 and 5; a gradient by rows; what a rank has whole is whole. */
START_TEST(blocks_by_layout)
{
    static const size_t sequences[3] = {0, 3, 5}, words[3] = {0, 6, 11};
    begin(1);
    for (size_t r = 0; r < 4; r++) {
        const size_t t = r % 2, *B = &sequences[r / 2];
        const block_runs query = {{B[0], B[1]}, {0, 6}, {4 * t, 4 * t + 4}};
        const block_runs heads = {{B[0], B[1]}, {2 * t, 2 * t + 2}, {0, 6}, {0, 6}};
        const block_runs stream = {{B[0], B[1]}, {3 * t, 3 * t + 3}, {0, 8}};
        const block_runs gathered = {{0, 5}, {0, 6}, {0, 8}};
        const block_runs logits = {{B[0], B[1]}, {0, 6}, {words[t], words[t + 1]}};
        const block_runs down = {{6 * t, 6 * t + 6}, {0, 8}};
        begin_rank((int)r, 4);
        candidate_say(&c, "layout", "dp 2 x tp 2 x sp");
        candidate_add_block(&c, &f, 0, "layers.0.query", "layers.0.query", query);
        candidate_add_block(&c, &f, 0, "layers.0.probabilities", "layers.0.probabilities", heads);
        candidate_add_block(&c, &f, 0, "d.layers.1.layer", "d.layers.1.layer", stream);
        candidate_add_block(&c, &f, 0, "layers.1.layer", "layers.1.layer", gathered);
        candidate_add_block(&c, &f, 0, "logits", "logits", logits);
        candidate_add_block(&c, &f, 0, "grad.layers.0.mlp.down.weight",
                            "grad.layers.0.mlp.down.weight", down);
        candidate_add_whole(&c, &f, 0, "norm", "norm", LS_F64);
        write_rank((int)r);
    }
    ls_candidate *candidate = open_it(NULL);
    ck_assert(candidate->has_layout && candidate->layout.dp == 2 && candidate->layout.sp);
    ck_assert_uint_eq(candidate->count, 7);
    expect(candidate, 0, "layers.0.query", LS_F32);
    expect(candidate, 0, "layers.0.probabilities", LS_F32);
    expect(candidate, 0, "d.layers.1.layer", LS_F32);
    expect(candidate, 0, "layers.1.layer", LS_F32);
    expect(candidate, 0, "norm", LS_F64);
    const ls_candidate_tensor *t = expect(candidate, 0, "logits", LS_F32);
    ck_assert_uint_eq(t->blocks[3].runs[0].first, 3);
    ck_assert_uint_eq(t->blocks[3].runs[2].first, 6);
    t = expect(candidate, 0, "grad.layers.0.mlp.down.weight", LS_F32);
    ck_assert(!t->replicas_differ && t->ranks == 4);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* Ranks in a folder of their own; a rank whose share is empty; a single number as [1]. */
START_TEST(folder_of_ranks)
{
    begin(1);
    mkdir(in("ranks"), 0777);
    const block_runs parts[3] = {{{0, 5}, {0, 8}}, {{5, 5}, {0, 8}}, {{5, 11}, {0, 8}}};
    const uint64_t one[1] = {1};
    for (int r = 0; r < 3; r++) {
        char name[40];
        begin_rank(r, 3);
        candidate_add_block(&c, &f, 0, "param.token_embedding.weight", "token_embedding.weight",
                            parts[r]);
        candidate_say_cut(&c, "token_embedding.weight", 2, parts[r]);
        candidate_add(&c, "loss", LS_F32, 1, one, fixture_values(&f, 0, "loss"));
        snprintf(name, sizeof name, "ranks/rank-%03d.safetensors", r);
        candidate_write(&c, in(name));
    }
    ls_candidate *candidate = open_it(NULL);
    expect(candidate, 0, "param.token_embedding.weight", LS_F32);
    expect(candidate, 0, "loss", LS_F32);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* Inputs, masks, moments and parts of sums beside what is judged; files of the same. */
START_TEST(what_is_passed_over)
{
    static const char *const names[] = {"step0/tokens",
                                        "targets",
                                        "step0/mask.embedded",
                                        "optimizer.m.token_embedding.weight",
                                        "step0/layers.0.mlp.0.partial",
                                        "step77/mb3/d.layers.0.norm1.1.partial"};
    const uint64_t dims[2] = {3, 2};
    begin(1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        candidate_add(&c, names[i], LS_I32, 2, dims, NULL);
    candidate_add_whole(&c, &f, 0, "loss", "loss", LS_F32);
    candidate_write(&c, in("all.safetensors"));
    scratch_file("candidate/weights.safetensors", "junk", 4);
    scratch_file("candidate/batch.safetensors", "junk", 4);
    scratch_file("candidate/masks.safetensors", "junk", 4);
    scratch_file("candidate/truth.safetensors", "junk", 4);
    scratch_file("candidate/.hidden.safetensors", "junk", 4);
    scratch_file("candidate/notes.txt", "junk", 4);
    ls_candidate *candidate = open_it(NULL);
    ck_assert_uint_eq(candidate->count, 1);
    ck_assert_uint_eq(candidate->ignored, 6);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

/* A file of some gigabytes is mapped and not read: holes of a sparse file stand for its values. */
START_TEST(a_large_file)
{
    const ls_config config = candidate_config("gpt2-nano");
    golden_fixture_begin(&f, &config, 1);
    const int node = fixture_node(&f, "layers.0.probabilities");
    golden_fixture_end(&f);
    begin(1);
    /* The tensor of the golden directory is small: a large one beside it that is passed over. */
    static const char header[] =
        "{\"layers.0.probabilities\":{\"dtype\":\"F32\",\"shape\":[5,4,6,6],\"data_offsets\":[0,"
        "2880]},\"big.partial\":{\"dtype\":\"F32\",\"shape\":[1073741824,4],\"data_offsets\":[2880,"
        "17179872064]}}";
    const uint64_t length = sizeof header - 1;
    FILE *file = fopen(in("big.safetensors"), "wb");
    fwrite(&length, 8, 1, file);
    fwrite(header, 1, sizeof header - 1, file);
    fclose(file);
    if (truncate(in("big.safetensors"), (off_t)(8 + length + 17179872064u)) != 0) {
        end(); /* the file system keeps no such files */
        return;
    }
    ls_candidate *candidate = open_it(NULL);
    ck_assert_ptr_nonnull(ls_candidate_find(candidate, 0, node));
    ck_assert_uint_eq(candidate->ignored, 1);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

int main(void)
{
    TCase *reading = test_case("reading", 0);
    tcase_add_unchecked_fixture(reading, scratch_setup, scratch_teardown);
    tcase_add_test(reading, one_file);
    tcase_add_test(reading, a_golden_directory);
    tcase_add_test(reading, blocks_of_ranks_by_cut);
    tcase_add_test(reading, replicas_that_differ);
    tcase_add_test(reading, whole_replicas);
    tcase_add_test(reading, replicas_of_nan_and_zero);
    tcase_add_test(reading, micro_batches);
    tcase_add_test(reading, blocks_by_layout);
    tcase_add_test(reading, folder_of_ranks);
    tcase_add_test(reading, what_is_passed_over);
    tcase_add_test(reading, a_large_file);
    return run_tests();
}
