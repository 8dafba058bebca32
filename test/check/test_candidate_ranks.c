/* What `dump --per-rank` writes is a candidate that equals its own golden directory: every tensor
 * put together from the ranks' blocks, by "cut:", and by the layout alone. ORDERED, to the bit. */
#include <stdlib.h>
#include <sys/stat.h>

#include "io/scratch.h"
#include "lockstep/io/safetensors.h"
#include "check/candidate.h"
#include "golden/dump.h"
#include "verify/observed_models.h"
#include "step_graph/tensor_name.h"
#include "run_tests.h"

typedef struct run_of {
    model m;
    grid_of grid;
} run_of;

/* dp, pp, tp, sp, V, M: every axis, 5 sequences that no share divides, a vocabulary that is padded,
 * key heads that several ranks hold. */
static const run_of runs[] = {
    {GPT2, {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE}},
    {GPT2, {2, 1, 2, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE}},
    {GPT2, {1, 2, 3, false, 2, 2, LS_INTERLEAVED, LS_RECOMPUTE_NONE}},
    {LLAMA, {1, 1, 6, true, 1, 3, LS_1F1B, LS_RECOMPUTE_SELECTIVE}},
    {LLAMA, {3, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_LAYER}},
    {BERT_POST, {2, 2, 2, true, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE}},
    {BERT_PRE, {1, 4, 1, false, 1, 5, LS_1F1B, LS_RECOMPUTE_NONE}},
    {ROW_FIRST, {2, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE}},
};
enum { RUNS = sizeof runs / sizeof runs[0] };

static int ranks_of(const run_of *r)
{
    return r->grid.dp * r->grid.pp * r->grid.tp;
}

static ls_golden *dumped(const run_of *r)
{
    ls_text text = fixture_text();
    const ls_config config = model_config(r->m);
    ls_run run = fixture_run(&config, &text, 2);
    const ls_dump_options options = {.whole = true, .per_rank = true};
    ls_dump_summary summary;
    ls_golden *golden = NULL;
    run.serial = false;
    run.layout = fixture_layout(&r->grid);
    ASSERT_OK(ls_dump(&run, scratch_path("golden"), &options, &summary));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    return golden;
}

static void expect_all(const ls_golden *golden, const char *path)
{
    ls_candidate *candidate = NULL;
    ASSERT_OK(ls_candidate_open(&candidate, golden, path, NULL));
    ck_assert_uint_eq(candidate->count, golden->count);
    for (size_t i = 0; i < candidate->count; i++) {
        const ls_candidate_tensor *t = &candidate->tensors[i];
        ck_assert_ptr_eq(t->golden, &golden->tensors[i]);
        ck_assert_int_eq(t->dtype, t->golden->dtype);
        ck_assert_msg(
            memcmp(t->values, t->golden->values, t->golden->count * ls_dtype_bytes(t->dtype)) == 0,
            "%s is not what the ranks' files make", t->golden->name);
        ck_assert_msg(!t->replicas_differ, "%s", t->name);
    }
    ls_candidate_close(&candidate);
}

/* A file without its metadata but for these keys, and without partial sums. */
static void write_again(const char *from, const char *to)
{
    static const char *const keys[] = {"rank", "ranks", "layout"};
    ls_safetensors *file = NULL;
    ls_safetensors_writer *writer = NULL;
    ASSERT_OK(ls_safetensors_open(&file, from));
    ASSERT_OK(ls_safetensors_create(&writer, to));
    for (int k = 0; k < 3; k++)
        ASSERT_OK(
            ls_safetensors_add_metadata(writer, keys[k], ls_safetensors_metadata(file, keys[k])));
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < ls_safetensors_count(file); i++) {
            const ls_tensor_info *info = ls_safetensors_at(file, i);
            if (ls_tensor_name_parse(info->name).comm) continue;
            if (pass == 0)
                ASSERT_OK(ls_safetensors_declare(writer, info->name, info->dtype, info->n_dims,
                                                 info->dims));
            else
                ASSERT_OK(ls_safetensors_write(writer, info->data,
                                               info->elements * ls_dtype_bytes(info->dtype)));
        }
    ASSERT_OK(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
    ls_safetensors_close(&file);
}

START_TEST(by_cut)
{
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    ls_golden *golden = dumped(&runs[_i]);
    expect_all(golden, scratch_path("golden/ranks"));
    /* Whole and ranks' files side by side: the whole ones are taken. */
    expect_all(golden, scratch_path("golden"));
    ls_golden_close(&golden);
}
END_TEST

START_TEST(by_layout)
{
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    ls_golden *golden = dumped(&runs[_i]);
    mkdir(scratch_path("again"), 0777);
    for (int r = 0; r < ranks_of(&runs[_i]); r++) {
        char from[64], to[64];
        snprintf(from, sizeof from, "golden/ranks/rank-%03d.safetensors", r);
        snprintf(to, sizeof to, "again/rank-%03d.safetensors", r);
        write_again(scratch_path(from), scratch_path(to));
    }
    expect_all(golden, scratch_path("again"));
    ls_golden_close(&golden);
}
END_TEST

int main(void)
{
    TCase *ranks = test_case("ranks", 120);
    tcase_add_unchecked_fixture(ranks, scratch_setup, scratch_teardown);
    tcase_add_loop_test(ranks, by_cut, 0, RUNS);
    tcase_add_loop_test(ranks, by_layout, 0, RUNS);
    return run_tests();
}
