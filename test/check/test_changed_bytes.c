/* Files with bytes changed at random: opened or refused in one line, and nothing else happens. */
#include "check/candidate.h"
#include "check/candidate_fixture.h"
#include "golden/golden_small.h"
#include "run_tests.h"

static uint32_t random_state;

static uint32_t any(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* A changed byte, a run cut out, a run doubled, a digit that is another. */
static size_t mutate(unsigned char *bytes, size_t count, size_t room, size_t within)
{
    const uint32_t changes = 1 + any(3);
    for (uint32_t n = 0; n < changes && count > 1; n++) {
        if (within > count) within = count;
        const size_t at = any((uint32_t)within);
        size_t run = 1 + any(12);
        if (at + run > count) run = count - at;
        switch (any(5)) {
        case 0:
            bytes[at] = (unsigned char)any(256);
            break;
        case 1:
            bytes[at] ^= (unsigned char)(1u << any(8));
            break;
        case 2:
            memmove(bytes + at, bytes + at + run, count - at - run);
            count -= run;
            break;
        case 3:
            if (count + run > room) break;
            memmove(bytes + at + run, bytes + at, count - at);
            count += run;
            break;
        default:
            bytes[at] = (unsigned char)"0123456789-.eE\"{}[]:,"[any(21)];
        }
    }
    return count;
}

/* Thousands of changes of every file: each is opened or refused, and nothing else happens. */
START_TEST(of_a_golden_directory)
{
    static const char *const names[] = {"manifest.json", "forward.safetensors",
                                        "update.safetensors", "truth.safetensors",
                                        "weights.safetensors"};
    /* The last is bound by its SHA-256: a few are enough. */
    static const int rounds[] = {1200, 300, 300, 300, 50};
    const char *name = names[_i];
    size_t count;
    int opened = 0, refusals = 0;
    write_golden(1);
    unsigned char *original = scratch_read(in_golden(name), &count);
    const size_t room = count + 100;
    unsigned char *changed = malloc(room);
    for (int i = 0; i < rounds[_i]; i++) {
        char whole[64];
        ls_golden *golden = NULL;
        random_state = (uint32_t)(i + 1000 * _i);
        memcpy(changed, original, count);
        /* A header's first bytes now and then. */
        const size_t within = any(4) == 0 ? 40 : count;
        const size_t now = mutate(changed, count, room, within);
        snprintf(whole, sizeof whole, "golden/%s", name);
        scratch_file(whole, changed, now);
        const ls_status status = ls_golden_open(&golden, scratch_path("golden"));
        ck_assert_msg(status == LS_OK || (status == LS_ERR_INPUT && ls_error_text()[0]),
                      "%s, change %d: status %d: %s", name, i, (int)status, ls_error_text());
        if (status == LS_OK) {
            /* Every value can be read. */
            const ls_status verified = ls_golden_verify(golden, NULL, NULL);
            ck_assert(verified == LS_OK || verified == LS_ERR_INPUT);
            opened++;
        }
        refusals += status != LS_OK;
        ls_golden_close(&golden);
        ls_error_clear();
    }
    ck_assert_int_gt(refusals, 0);
    if (_i > 0 && _i < 4) ck_assert_int_gt(opened, 0);
    free(original);
    free(changed);
}
END_TEST

/* ---- candidates ---- */

/* What is found can be read, and every block lies inside its tensor. */
static double read_all(const ls_golden *golden, const ls_candidate *candidate)
{
    double sum = 0;
    for (size_t i = 0; i < candidate->count; i++) {
        const ls_candidate_tensor *t = &candidate->tensors[i];
        const ls_graph_node *node = &golden->graph->nodes[t->golden->node];
        const unsigned char *bytes = t->values;
        for (size_t b = 0; b < t->golden->count * ls_dtype_bytes(t->dtype); b++) sum += bytes[b];
        for (size_t b = 0; b < t->n_blocks; b++) {
            size_t count = 1;
            for (int d = 0; d < node->n_dims; d++) {
                const ls_view_run *run = &t->blocks[b].runs[d];
                ck_assert(run->whole == node->dims[d] && run->first <= run->whole &&
                          run->count <= run->whole - run->first);
                count *= run->count;
            }
            const unsigned char *own = t->blocks[b].values;
            for (size_t k = 0; k < count * ls_dtype_bytes(t->dtype); k++) sum += own[k];
        }
    }
    return sum;
}

/* Two ranks' files by "cut:", two by a layout with micro-batches, one under another program's
 * names: the second, or only, file's bytes change. */
START_TEST(of_a_candidate)
{
    static const char *const layouts[] = {NULL, "tp 2 x sp, 2 micro-batches"};
    const ls_config config = small_config();
    golden_fixture f;
    static candidate_file c;
    ls_golden *golden = NULL;
    size_t count;
    int opened = 0, refusals = 0;
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    mkdir(scratch_path("candidate"), 0777);
    golden_fixture_begin(&f, &config, 2);
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    for (size_t r = 0; r < 2 && _i < 2; r++) {
        const block_runs query = {{0, 5}, {0, 3}, {3 * r, 3 * r + 3}};
        const block_runs stream = {{0, 5}, {2 * r, 2 + r}, {0, 6}};
        const block_runs first = {{0, 3}, {0, 3}, {3 * r, 3 * r + 3}};
        const block_runs second = {{3, 5}, {0, 3}, {3 * r, 3 * r + 3}};
        candidate_say(&c, "rank", r ? "1" : "0");
        candidate_say(&c, "ranks", "2");
        if (layouts[_i]) candidate_say(&c, "layout", layouts[_i]);
        candidate_add_block(&c, &f, 1, "layers.0.query", "step1/layers.0.query", query);
        if (_i == 0) candidate_say_cut(&c, "step1/layers.0.query", 3, query);
        candidate_add_block(&c, &f, 0, "d.layers.0.layer", "step0/d.layers.0.layer", stream);
        if (_i == 0) candidate_say_cut(&c, "step0/d.layers.0.layer", 3, stream);
        candidate_add_block(&c, &f, 0, "layers.1.key", "mb0/layers.1.key", first);
        if (_i == 0) candidate_say_cut(&c, "mb0/layers.1.key", 3, first);
        candidate_add_block(&c, &f, 0, "layers.1.key", "mb1/layers.1.key", second);
        if (_i == 0) candidate_say_cut(&c, "mb1/layers.1.key", 3, second);
        candidate_add_whole(&c, &f, 0, "norm", "norm", LS_F64);
        candidate_write(&c, scratch_path(r ? "candidate/rank-001.safetensors"
                                           : "candidate/rank-000.safetensors"));
    }
    if (_i == 2) {
        const uint64_t fused[2] = {6, 18}, up[2] = {6, 10}, words[2] = {11, 6};
        double values[6 * 18] = {0};
        candidate_add(&c, "grad.h.0.attn.c_attn.weight", LS_BF16, 2, fused, values);
        candidate_say(&c, "cut:grad.h.0.attn.c_attn.weight", "0:6 0:18");
        candidate_add(&c, "h.1.mlp.c_fc.weight", LS_F16, 2, up, values);
        candidate_add(&c, "grad.transformer.wte.weight.as_head", LS_F32, 2, words, values);
        candidate_write(&c, scratch_path("candidate/a.safetensors"));
    }
    const char *changed_file =
        _i == 2 ? "candidate/a.safetensors" : "candidate/rank-001.safetensors";
    ls_candidate *unchanged = NULL;
    ASSERT_OK(
        ls_candidate_open(&unchanged, golden, scratch_path("candidate"), _i == 2 ? "hf" : NULL));
    ls_candidate_close(&unchanged);
    unsigned char *original = scratch_read(scratch_path(changed_file), &count);
    unsigned char *changed = malloc(count + 100);
    double sum = 0;
    for (int i = 0; i < 3000; i++) {
        ls_candidate *candidate = NULL;
        random_state = (uint32_t)(i + 100000 * (_i + 1));
        memcpy(changed, original, count);
        const size_t now = mutate(changed, count, count + 100, any(3) == 0 ? count : 900);
        scratch_file(changed_file, changed, now);
        const ls_status status =
            ls_candidate_open(&candidate, golden, scratch_path("candidate"), _i == 2 ? "hf" : NULL);
        ck_assert_msg(status == LS_OK || (status == LS_ERR_INPUT && ls_error_text()[0]),
                      "change %d: status %d: %s", i, (int)status, ls_error_text());
        if (status == LS_OK) sum += read_all(golden, candidate);
        opened += status == LS_OK;
        refusals += status != LS_OK;
        ls_candidate_close(&candidate);
        ls_error_clear();
    }
    ck_assert(sum >= 0);
    ck_assert_int_gt(opened, 100);
    ck_assert_int_gt(refusals, 100);
    free(original);
    free(changed);
    ls_golden_close(&golden);
    golden_fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("changed_bytes", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tests, of_a_golden_directory, 0, 5);
    tcase_add_loop_test(tests, of_a_candidate, 0, 3);
    return run_tests();
}
