/* Candidates that are none: every text names the file, the tensor, what was found, what is
 * allowed. */
#include "check/candidate_small.h"
#include "run_tests.h"

static void add(const char *node_name, const char *name, ls_dtype dtype)
{
    candidate_add_whole(&c, &f, 0, node_name, name, dtype);
}

static void begin_rank(int rank, int ranks, const char *layout)
{
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    candidate_say(&c, "rank", text);
    snprintf(text, sizeof text, "%d", ranks);
    if (ranks > 0) candidate_say(&c, "ranks", text);
    if (layout) candidate_say(&c, "layout", layout);
}

static void write_rank(int rank)
{
    char name[40];
    snprintf(name, sizeof name, "rank-%03d.safetensors", rank);
    candidate_write(&c, in(name));
}

static void empty_it(void)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/candidate", scratch_folder);
    nftw(path, scratch_remove, 8, FTW_DEPTH | FTW_PHYS);
    mkdir(path, 0777);
}

/* ---- files ---- */

START_TEST(no_candidate)
{
    ls_candidate *candidate = NULL;
    begin(1);
    ASSERT_SAYS(ls_candidate_open(&candidate, golden, scratch_path("nowhere"), NULL), LS_ERR_INPUT,
                "nowhere", "No such file");
    REFUSED("candidate", "directory without", ".safetensors");
    scratch_file("candidate/loss.npy", "x", 1);
    REFUSED("candidate", ".npy", "safetensors");
    ASSERT_SAYS(ls_candidate_open(&candidate, golden, in("loss.npy"), NULL), LS_ERR_INPUT,
                "loss.npy", "NumPy", "safetensors");
    scratch_file("candidate/weights.safetensors", "x", 1);
    empty_it();
    scratch_file("candidate/batch.safetensors", "x", 1);
    REFUSED("candidate", "directory without", "passed over");
    scratch_file("candidate/a.safetensors", "x", 1);
    REFUSED("a.safetensors", "1 bytes");
    scratch_file("candidate/a.safetensors", "\x10\0\0\0\0\0\0\0{}", 10);
    REFUSED("a.safetensors", "16 bytes");
    unlink(in("a.safetensors"));
    mkdir(in("a.safetensors"), 0777);
    REFUSED("a.safetensors", "folder");
    rmdir(in("a.safetensors"));
    ck_assert_int_eq(mkfifo(in("a.safetensors"), 0777), 0);
    REFUSED("a.safetensors", "pipe");
    unlink(in("a.safetensors"));
    ck_assert_int_eq(symlink("..", in("a.safetensors")), 0);
    REFUSED("a.safetensors", "folder");
    unlink(in("a.safetensors"));
    ck_assert_int_eq(symlink("a.safetensors", in("a.safetensors")), 0);
    REFUSED_AS(LS_ERR_IO, "a.safetensors");
    unlink(in("a.safetensors"));
    candidate_write(&c, in("a.safetensors"));
    REFUSED("candidate", "none of its 0 tensors", "stepN/NAME");
    add("loss", "step0/tokens", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("candidate", "none of its 1 tensors");
    ck_assert_ptr_null(candidate);
    end();
}
END_TEST

/* ---- names ---- */

static const struct {
    const char *name, *words[4];
} bad_names[] = {
    {"step0/layers.0.qurey", {"step0/layers.0.qurey", "none of that name", "layers.0.query"}},
    {"step0/layers.2.query", {"step0/layers.2.query", "did you mean \"layers."}},
    {"grad.token_embeding.weight", {"grad.token_embedding.weight"}},
    {"token_embedding_weight", {"did you mean \"token_embedding.weight\""}},
    {"step7/loss", {"step7/loss", "step 7", "steps 0 to 1"}},
    {"step18446744073709551615/loss", {"step 18446744073709551615", "steps 0 to 1"}},
    {"step01/loss", {"step01/loss", "none of that name"}},
    {"\x1b[2J", {"\\x1b[2J"}},
    {"transformer.h.0.attn.c_attn.weight", {"--map hf-gpt2", "Hugging Face GPT-2"}},
    {"step0/mb0/loss", {"step0/mb0/loss", "whole step"}},
    {"mb0/grad.token_embedding.weight", {"mb0/grad.token_embedding.weight", "whole step"}},
    {"step0/mb1/logits", {"step0/mb1/logits", "micro-batch 1", "has 1"}},
    {"step0/mb2147483647/logits", {"micro-batch 2147483647", "5 sequences"}},
};

START_TEST(names)
{
    begin(2);
    add("logits", bad_names[_i].name, LS_F32);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = NULL;
    const char *words[6] = {"a.safetensors"};
    memcpy(words + 1, bad_names[_i].words, sizeof bad_names[_i].words);
    assert_says(ls_candidate_open(&candidate, golden, scratch_path("candidate"), NULL),
                LS_ERR_INPUT, words);
    end();
}
END_TEST

/* The golden directory lacks what the model has. */
static void drop_one(golden_fixture *fixture)
{
    fixture_drop(fixture, 0, "layers.1.mlp");
}

START_TEST(names_that_the_golden_directory_lacks)
{
    const ls_config config = candidate_config("gpt2-nano");
    begin_with(&config, 1, drop_one);
    candidate_add_whole(&c, &f, 0, "layers.1.layer", "layers.1.mlp", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("a.safetensors", "layers.1.mlp", "golden directory has no step0/layers.1.mlp");
    add("loss", "step1/loss", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("step1/loss", "step 1", "step 0 alone");
    end();
}
END_TEST

/* ---- shapes and dtypes ---- */

START_TEST(shapes_and_dtypes)
{
    static const uint64_t flat[2] = {30, 8}, turned[3] = {5, 8, 6}, none[3] = {0, 6, 8};
    static const uint64_t two[1] = {2};
    begin(1);
    double *values = calloc(240, sizeof *values);
    candidate_add(&c, "layers.0.mlp", LS_F32, 2, flat, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("a.safetensors", "layers.0.mlp", "30 x 8", "5 x 6 x 8");
    candidate_add(&c, "layers.0.mlp", LS_F32, 3, turned, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("layers.0.mlp", "5 x 8 x 6", "5 x 6 x 8");
    candidate_add(&c, "layers.0.mlp", LS_F32, 3, none, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("layers.0.mlp", "0 x 6 x 8", "5 x 6 x 8");
    candidate_add(&c, "layers.0.mlp", LS_F32, 0, none, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("layers.0.mlp", "()", "5 x 6 x 8");
    candidate_add(&c, "loss", LS_F32, 1, two, values);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("loss", "the shape 2", "()");
    static const ls_dtype others[] = {LS_I32, LS_I64, LS_U8};
    for (int i = 0; i < 3; i++) {
        add("layers.0.mlp", "layers.0.mlp", others[i]);
        candidate_write(&c, in("a.safetensors"));
        REFUSED("layers.0.mlp", ls_dtype_name(others[i]), "F32, F64, F16 or BF16");
    }
    free(values);
    end();
}
END_TEST

/* ---- the same twice ---- */

START_TEST(the_same_twice)
{
    begin(1);
    add("loss", "loss", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    add("loss", "loss", LS_F32);
    candidate_write(&c, in("b.safetensors"));
    REFUSED("a.safetensors", "loss", "b.safetensors");
    add("loss", "step0/loss", LS_F32);
    candidate_write(&c, in("b.safetensors"));
    REFUSED("a.safetensors", "loss", "b.safetensors", "another name");
    empty_it();
    add("loss", "loss", LS_F32);
    add("loss", "step0/loss", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("a.safetensors", "loss and step0/loss", "the same elements");
    empty_it();
    /* A whole one beside a rank's. */
    add("loss", "loss", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    begin_rank(0, 1, NULL);
    add("loss", "loss", LS_F32);
    write_rank(0);
    REFUSED("a.safetensors", "rank-000.safetensors", "loss");
    empty_it();
    /* Micro-batches of one rank that overlap. */
    const block_runs first = {{0, 3}, {0, 6}, {0, 8}}, second = {{2, 5}, {0, 6}, {0, 8}};
    begin_rank(0, 1, NULL);
    candidate_add_block(&c, &f, 0, "layers.0.mlp", "mb0/layers.0.mlp", first);
    candidate_say_cut(&c, "mb0/layers.0.mlp", 3, first);
    candidate_add_block(&c, &f, 0, "layers.0.mlp", "mb1/layers.0.mlp", second);
    candidate_say_cut(&c, "mb1/layers.0.mlp", 3, second);
    write_rank(0);
    REFUSED("rank-000.safetensors", "mb0/layers.0.mlp and mb1/layers.0.mlp", "the same elements");
    end();
}
END_TEST

/* ---- cuts ---- */

static const struct {
    const char *cut, *words[3];
} bad_cuts[] = {
    {"0:5 0:6", {"0:5 0:6", "3 dimensions"}},
    {"0:5 0:6 0:8 0:1", {"3 dimensions"}},
    {"", {"\"\"", "3 dimensions"}},
    {"0-5 0:6 0:8", {"0-5", "FIRST:END"}},
    {"-1:5 0:6 0:8", {"-1:5", "FIRST:END"}},
    {"0:5,0:6,0:8", {"FIRST:END"}},
    {"0:5 0:6 0:8x", {"FIRST:END"}},
    {"0x0:5 0:6 0:8", {"FIRST:END"}},
    {"0:5 0:6 0:99999999999999999999999", {"FIRST:END"}},
    {"5:0 0:6 0:8", {"5:0", "dimension 0", "0:5"}},
    {"0:5 0:7 0:8", {"0:7", "dimension 1", "0:6"}},
    {"0:5 0:6 8:9", {"8:9", "dimension 2", "0:8"}},
    {"0:5 0:6 0:1000000000000000000", {"0:1000000000000000000", "dimension 2"}},
    {"0:5 0:6 18446744073709551615:18446744073709551615", {"dimension 2", "0:8"}},
    {"0:4 0:6 0:8", {"5 x 6 x 8", "its cut", "4 x 6 x 8"}},
    {"0:5 0:6 3:3", {"5 x 6 x 8", "5 x 6 x 0"}},
};

START_TEST(cuts)
{
    begin(1);
    candidate_say(&c, "cut:step0/layers.0.mlp", bad_cuts[_i].cut);
    add("layers.0.mlp", "step0/layers.0.mlp", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    ls_candidate *candidate = NULL;
    const char *words[6] = {"a.safetensors", "step0/layers.0.mlp"};
    memcpy(words + 2, bad_cuts[_i].words, sizeof bad_cuts[_i].words);
    assert_says(ls_candidate_open(&candidate, golden, scratch_path("candidate"), NULL),
                LS_ERR_INPUT, words);
    end();
}
END_TEST

START_TEST(holes)
{
    const block_runs parts[2] = {{{0, 5}, {0, 6}, {0, 3}}, {{0, 4}, {0, 6}, {3, 8}}};
    begin(1);
    for (int r = 0; r < 2; r++) {
        begin_rank(r, 2, NULL);
        candidate_add_block(&c, &f, 0, "layers.0.mlp", "layers.0.mlp", parts[r]);
        candidate_say_cut(&c, "layers.0.mlp", 3, parts[r]);
        write_rank(r);
    }
    REFUSED("layers.0.mlp", "[4, 0, 3]", "29 more", "2 blocks");
    empty_it();
    /* A part without saying so. */
    begin_rank(0, 1, NULL);
    candidate_add_block(&c, &f, 0, "layers.0.mlp", "layers.0.mlp", parts[0]);
    write_rank(0);
    REFUSED("layers.0.mlp", "5 x 6 x 3", "5 x 6 x 8", "cut:", "layout");
    empty_it();
    /* Micro-batch 0 of one, twice as large as the file's. */
    candidate_add_block(&c, &f, 0, "layers.0.mlp", "mb0/layers.0.mlp", parts[1]);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("mb0/layers.0.mlp", "4 x 6 x 5", "5 x 6 x 8");
    end();
}
END_TEST

START_TEST(blocks_of_other_dtypes)
{
    begin(1);
    for (int r = 0; r < 2; r++) {
        begin_rank(r, 2, NULL);
        add("loss", "loss", r == 0 ? LS_F32 : LS_BF16);
        write_rank(r);
    }
    REFUSED("rank-001.safetensors", "loss", "BF16", "rank-000.safetensors", "F32");
    end();
}
END_TEST

/* ---- ranks ---- */

static void rank_file(const char *name, int rank, int ranks, const char *layout)
{
    begin_rank(rank, ranks, layout);
    add("loss", "loss", LS_F32);
    candidate_write(&c, in(name));
}

START_TEST(ranks)
{
    ls_candidate *candidate = NULL;
    begin(1);
    rank_file("rank-000.safetensors", 0, 3, NULL);
    rank_file("rank-002.safetensors", 2, 3, NULL);
    REFUSED("candidate", "rank 1's file is missing", "2 of 3");
    rank_file("rank-001.safetensors", 0, 3, NULL);
    REFUSED("rank-001.safetensors", "rank 0's", "name says 1's");
    rank_file("rank-001.safetensors", 1, 4, NULL);
    REFUSED("rank-001.safetensors", "ranks 4", "says 3");
    rank_file("rank-001.safetensors", 1, 1, NULL);
    REFUSED("rank-001.safetensors", "rank 1's of 1", "0 to 0");
    rank_file("rank-001.safetensors", 1, 3, NULL);
    rank_file("other.safetensors", 1, 3, NULL);
    REFUSED("other.safetensors", "rank-001.safetensors", "both rank 1's");
    unlink(in("other.safetensors"));
    mkdir(in("ranks"), 0777);
    rank_file("ranks/rank-002.safetensors", 2, 3, NULL);
    REFUSED("ranks/rank-002.safetensors", "both rank 2's");
    empty_it();
    /* Without "ranks" the highest says how many there are. */
    rank_file("rank-003.safetensors", 3, 0, NULL);
    REFUSED("rank 0's file is missing", "1 of 4");
    ASSERT_SAYS(ls_candidate_open(&candidate, golden, in("rank-003.safetensors"), NULL),
                LS_ERR_INPUT, "rank-003.safetensors", "directory that holds them all");
    /* What another file says of the number holds for it too. */
    rank_file("rank-000.safetensors", 0, 2, NULL);
    REFUSED("rank-003.safetensors", "rank 3's of 2", "0 to 1");
    empty_it();
    static const char *const numbers[] = {"", "-1", "1.0", "x", "1000000000000000000", " 1"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        candidate_say(&c, "rank", numbers[i]);
        add("loss", "loss", LS_F32);
        candidate_write(&c, in("a.safetensors"));
        REFUSED("a.safetensors", "__metadata__ rank", numbers[i], "from 0 to 1048576");
        candidate_say(&c, "rank", "0");
        candidate_say(&c, "ranks", numbers[i]);
        add("loss", "loss", LS_F32);
        candidate_write(&c, in("a.safetensors"));
        REFUSED("a.safetensors", "__metadata__ ranks", numbers[i]);
    }
    candidate_say(&c, "ranks", "2");
    add("loss", "loss", LS_F32);
    candidate_write(&c, in("a.safetensors"));
    REFUSED("a.safetensors", "ranks 2", "which rank");
    unlink(in("a.safetensors"));
    candidate_write(&c, in("rank-99999999999999999999.safetensors"));
    REFUSED("rank-99999999999999999999.safetensors", "0 to 1048575");
    ck_assert_ptr_null(candidate);
    end();
}
END_TEST

START_TEST(layouts)
{
    begin(1);
    rank_file("rank-000.safetensors", 0, 2, "tp two");
    rank_file("rank-001.safetensors", 1, 2, "tp 2");
    REFUSED("rank-000.safetensors", "layout", "tp two");
    rank_file("rank-000.safetensors", 0, 2, "dp 2");
    REFUSED("rank-001.safetensors", "tp 2", "rank-000.safetensors", "dp 2");
    rank_file("rank-001.safetensors", 1, 2, "dp 2 x tp 2");
    rank_file("rank-000.safetensors", 0, 2, "dp 2 x tp 2");
    REFUSED("dp 2 x tp 2", "has 4 ranks", "files of 2");
    rank_file("rank-000.safetensors", 0, 2, "tp 1048576 x dp 1048576 x pp 1048576");
    REFUSED("rank-000.safetensors", "1048576", "more ranks");
    empty_it();
    for (int r = 0; r < 3; r++) {
        char name[40];
        snprintf(name, sizeof name, "rank-%03d.safetensors", r);
        rank_file(name, r, 3, "tp 3");
    }
    REFUSED("rank-000.safetensors", "layout", "--tp 3", "1, 2 or 4");
    empty_it();
    /* The shape that a layout makes. */
    const block_runs third = {{0, 5}, {0, 6}, {0, 3}};
    begin_rank(0, 1, "one rank");
    candidate_add_block(&c, &f, 0, "layers.0.query", "layers.0.query", third);
    write_rank(0);
    REFUSED("layers.0.query", "5 x 6 x 3", "5 x 6 x 8");
    empty_it();
    for (int r = 0; r < 2; r++) {
        begin_rank(r, 2, "dp 2, 2 micro-batches");
        candidate_add_block(&c, &f, 0, "layers.0.query",
                            r ? "mb2/layers.0.query" : "mb1/layers.0.query", third);
        write_rank(r);
    }
    REFUSED("mb1/layers.0.query", "5 x 6 x 3", "the layout", "1 x 6 x 8");
    unlink(in("rank-000.safetensors"));
    rank_file("rank-000.safetensors", 0, 2, "dp 2, 2 micro-batches");
    REFUSED("mb2/layers.0.query", "micro-batch 2", "layout has 2");
    end();
}
END_TEST

/* Another run's golden directory, which began with other weights or another batch. */
START_TEST(another_start)
{
    const ls_config config = candidate_config("gpt2-nano");
    for (int i = 0; i < 2; i++) {
        golden_fixture other;
        begin(1);
        golden_fixture_begin(&other, &config, 1);
        if (i == 0) other.params[3][1] += 1;
        if (i == 1) other.targets[0][7] = LS_IGNORE;
        golden_fixture_write(&other, scratch_path("candidate"));
        golden_fixture_end(&other);
        REFUSED("candidate", "began otherwise",
                i == 0 ? "weights.safetensors" : "batch.safetensors");
        end();
    }
}
END_TEST

START_TEST(a_thousand_files)
{
    begin(1);
    for (int i = 0; i < 1000; i++) {
        char name[40];
        snprintf(name, sizeof name, "part-%d.safetensors", i);
        candidate_write(&c, in(name));
    }
    REFUSED("none of its 0 tensors");
    add("loss", "loss", LS_F32);
    candidate_write(&c, in("part-500.safetensors"));
    ls_candidate *candidate = open_it(NULL);
    ck_assert_uint_eq(candidate->count, 1);
    ls_candidate_close(&candidate);
    end();
}
END_TEST

int main(void)
{
    TCase *refusing = test_case("refusing", 60);
    tcase_add_unchecked_fixture(refusing, scratch_setup, scratch_teardown);
    tcase_add_test(refusing, no_candidate);
    tcase_add_loop_test(refusing, names, 0, (int)(sizeof bad_names / sizeof bad_names[0]));
    tcase_add_test(refusing, names_that_the_golden_directory_lacks);
    tcase_add_test(refusing, shapes_and_dtypes);
    tcase_add_test(refusing, the_same_twice);
    tcase_add_loop_test(refusing, cuts, 0, (int)(sizeof bad_cuts / sizeof bad_cuts[0]));
    tcase_add_test(refusing, holes);
    tcase_add_test(refusing, blocks_of_other_dtypes);
    tcase_add_test(refusing, ranks);
    tcase_add_test(refusing, layouts);
    tcase_add_test(refusing, another_start);
    tcase_add_test(refusing, a_thousand_files);
    return run_tests();
}
