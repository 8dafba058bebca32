/* test_dump_ranks.c - what every rank held, put together again: the whole tensors; what it handed
 * into sums: their trees' nodes; what was called: as often and as much as the ranks count. */
#include <jansson.h>

#include "golden/dump_fixture.h"
#include "golden/dump_parts.h"
#include "run_tests.h"

/* All sizes different; every axis of the grid cut, unevenly where that goes. */
static const grid_of grids[] = {
    {1, 1, 3, true, 1, 2, LS_GPIPE, LS_RECOMPUTE_STAGE},
    {2, 2, 2, false, 1, 2, LS_1F1B, LS_RECOMPUTE_LAYER},
    {1, 2, 2, true, 1, 5, LS_GPIPE, LS_RECOMPUTE_NONE},
    {1, 1, 1, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE},
};
enum { GRIDS = sizeof grids / sizeof grids[0] };

static ls_config config;
static ls_text text;

static ls_run gridded_run(model m, const grid_of *grid, uint64_t steps)
{
    config = model_config(m);
    config.layers = 2;
    text = fixture_text();
    ls_run run = fixture_run(&config, &text, steps);
    run.serial = false;
    run.layout = fixture_layout(grid);
    if (m == ROW_FIRST) run.layout.sp = false;
    return run;
}

/* ---- blocks ---- */

typedef struct runs {
    int n;
    size_t lo[4], hi[4];
} runs;

static runs cut_of(const ls_safetensors *file, const ls_tensor_info *info)
{
    char key[256];
    runs r = {0, {0}, {0}};
    snprintf(key, sizeof key, "cut:%s", info->name);
    const char *at = ls_safetensors_metadata(file, key);
    for (int used = 0; at && r.n < 4; at += used, r.n++)
        if (sscanf(at, "%zu:%zu%n", &r.lo[r.n], &r.hi[r.n], &used) != 2) break;
    ck_assert_msg(r.n == info->n_dims, "%s: cut of %d dimensions", key, r.n);
    for (int i = 0; i < r.n; i++) ck_assert_uint_eq(r.hi[i] - r.lo[i], info->dims[i]);
    return r;
}

/* Whether a block is that part of the whole; seen: counts its elements. */
static void expect_part(const ls_golden *golden, const ls_golden_tensor *whole, const runs *r,
                        const ls_tensor_info *info, unsigned char *seen)
{
    const size_t *dims = golden->graph->nodes[whole->node].dims;
    const size_t bytes = ls_dtype_bytes(whole->dtype);
    ck_assert_int_eq(info->dtype, whole->dtype);
    for (size_t i = 0; i < info->elements; i++) {
        size_t rest = i, place = 0, step = 1;
        for (int d = r->n; d-- > 0;) {
            place += (r->lo[d] + rest % info->dims[d]) * step;
            rest /= info->dims[d];
            step *= dims[d];
        }
        if (place >= whole->count ||
            memcmp((const char *)info->data + i * bytes,
                   (const char *)whole->values + place * bytes, bytes) != 0)
            ck_abort_msg("%s: element %zu, %zu of the whole", info->name, i, place);
        seen[place] = 1;
    }
}

START_TEST(put_together_they_are_the_whole)
{
    const grid_of *grid = &grids[_i % GRIDS];
    ls_run run = gridded_run((model)(_i / GRIDS), grid, 2);
    ls_dump_options options = dump_plainly();
    options.per_rank = true;
    dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    unsigned char **seen = calloc(golden->count, sizeof *seen);
    for (size_t t = 0; t < golden->count; t++) seen[t] = calloc(golden->tensors[t].count, 1);
    const int ranks = ls_layout_ranks(&run.layout);
    char path[64], number[16], layout[LS_LAYOUT_TEXT];
    ck_assert_int_eq(scratch_entries(scratch_path("golden/ranks")), ranks);
    ls_layout_describe(&run.layout, layout, sizeof layout);
    for (int rank = 0; rank < ranks; rank++) {
        ls_safetensors *file = NULL;
        snprintf(path, sizeof path, "golden/ranks/rank-%03d.safetensors", rank);
        ASSERT_OK(ls_safetensors_open(&file, scratch_path(path)));
        snprintf(number, sizeof number, "%d", rank);
        ck_assert_str_eq(ls_safetensors_metadata(file, "rank"), number);
        snprintf(number, sizeof number, "%d", ranks);
        ck_assert_str_eq(ls_safetensors_metadata(file, "ranks"), number);
        ck_assert_str_eq(ls_safetensors_metadata(file, "layout"), layout);
        for (size_t i = 0; i < ls_safetensors_count(file); i++) {
            const ls_tensor_info *info = ls_safetensors_at(file, i);
            const ls_tensor_name name = ls_tensor_name_parse(info->name);
            const runs r = info->n_dims > 0 ? cut_of(file, info) : (runs){0, {0}, {0}};
            ck_assert(name.has_step);
            ck_assert_int_lt(name.micro_batch, run.layout.micro_batches);
            if (name.comm) continue;
            const ls_golden_tensor *whole = tensor_ok(golden, name.step, name.rest);
            expect_part(golden, whole, &r, info, seen[whole - golden->tensors]);
        }
        ls_safetensors_close(&file);
    }
    for (size_t t = 0; t < golden->count; t++) {
        for (size_t i = 0; i < golden->tensors[t].count; i++)
            if (!seen[t][i])
                ck_abort_msg("%s: element %zu is in no rank's file", golden->tensors[t].name, i);
        free(seen[t]);
    }
    free(seen);
    ls_golden_close(&golden);
}
END_TEST

/* The nodes of one tree that ranks handed in. */
typedef struct node_part {
    size_t lo, hi;
    const float *values;
} node_part;

/* T over the leaves lo .. hi at element i (contract rule 6), from the nodes that are there. */
static float tree(const node_part *parts, size_t n, size_t lo, size_t hi, size_t i)
{
    size_t left = (hi - lo) / 2;
    for (size_t p = 0; p < n; p++)
        if (parts[p].lo == lo && parts[p].hi == hi) return parts[p].values[i];
    if ((hi - lo) % 2 != 0)
        for (left = 1; 2 * left < hi - lo;) left *= 2;
    if (hi - lo < 2) ck_abort_msg("leaf %zu is not there", lo);
    return tree(parts, n, lo, lo + left, i) + tree(parts, n, lo + left, hi, i);
}

/* Forward of the attention's output: the tree over what all ranks handed in, and the bias once. */
START_TEST(parts_of_sums)
{
    const int tp = _i;
    const grid_of grid = {1, 1, tp, false, 1, 2, LS_GPIPE, LS_RECOMPUTE_NONE};
    ls_run run = gridded_run(GPT2, &grid, 1);
    ls_dump_options options = dump_plainly();
    options.per_rank = true;
    dump_ok(&run, scratch_path("golden"), &options);
    ls_golden *golden = open_ok(scratch_path("golden"));
    ls_dtype dtype;
    const int place = (int)ls_param_find_name(golden->table, "layers.1.attention.output.bias");
    ck_assert_int_ge(place, 0);
    const float *bias = ls_golden_param(golden, 0, place, &dtype);
    const float *whole = tensor_ok(golden, 0, "layers.1.attention")->values;
    ls_safetensors *files[3];
    node_part parts[6];
    size_t n = 0;
    for (int r = 0; r < tp; r++) {
        char path[64], name[64], key[128];
        snprintf(path, sizeof path, "golden/ranks/rank-%03d.safetensors", r);
        ASSERT_OK(ls_safetensors_open(&files[r], scratch_path(path)));
        for (int j = 0;; j++) {
            size_t leaves;
            snprintf(name, sizeof name, "step0/mb1/layers.1.attention.%d.partial", j);
            snprintf(key, sizeof key, "node:%s", name);
            const ls_tensor_info *info = ls_safetensors_find(files[r], name);
            if (!info) break;
            ck_assert_uint_lt(n, 6);
            ck_assert_int_eq(sscanf(ls_safetensors_metadata(files[r], key), "%zu %zu %zu",
                                    &parts[n].lo, &parts[n].hi, &leaves),
                             3);
            ck_assert_uint_eq(leaves, 6);
            parts[n++].values = info->data;
        }
    }
    ck_assert_uint_eq(n, tp == 2 ? 2 : 5);
    /* Micro-batch 1 begins with sequence 3 of 5. */
    const size_t D = config.d_model, first = 3 * config.seq * D, count = 2 * config.seq * D;
    for (size_t i = 0; i < count; i++) {
        const float sum = tree(parts, n, 0, 6, i) + bias[i % D];
        if (memcmp(&sum, &whole[first + i], sizeof sum) != 0)
            ck_abort_msg("element %zu: %a, %a", i, (double)sum, (double)whole[first + i]);
    }
    for (int r = 0; r < tp; r++) ls_safetensors_close(&files[r]);
    ls_golden_close(&golden);
}
END_TEST

/* The second of 3 ranks has heads 4 to 8 of 12: three nodes of the tree. */
START_TEST(several_parts_of_a_rank)
{
    const grid_of grid = {1, 1, 3, false, 1, 1, LS_GPIPE, LS_RECOMPUTE_NONE};
    ls_run run = gridded_run(GPT2, &grid, 1);
    ls_dump_options options = dump_plainly();
    ls_safetensors *file = NULL;
    options.whole = false;
    options.per_rank = true;
    run.config.heads = run.config.kv_heads = 12;
    run.config.d_ff = 48;
    dump_ok(&run, scratch_path("ranks-alone"), &options);
    ASSERT_OK(ls_safetensors_open(&file, scratch_path("ranks-alone/ranks/rank-001.safetensors")));
    static const char *const nodes[] = {"4 5 12", "5 6 12", "6 8 12"};
    char key[128];
    int found = 0;
    for (int j = 0; j < 4; j++) {
        snprintf(key, sizeof key, "node:step0/mb0/layers.0.mlp.%d.partial", j);
        const char *node = ls_safetensors_metadata(file, key);
        if (!node) continue;
        ck_assert_int_lt(found, 3);
        ck_assert_str_eq(node, nodes[found++]);
    }
    ck_assert_int_eq(found, 3);
    ls_safetensors_close(&file);
    /* Without whole tensors there is no manifest; weights and batch are there to run it again. */
    ck_assert_int_eq(access(scratch_path("ranks-alone/manifest.json"), F_OK), -1);
    ck_assert_int_eq(access(scratch_path("ranks-alone/weights.safetensors"), F_OK), 0);
}
END_TEST

/* ---- calls ---- */

START_TEST(calls_are_what_ranks_count)
{
    const grid_of *grid = &grids[_i];
    ls_run run = gridded_run(BERT_POST, grid, 2);
    ls_dump_options options = dump_plainly();
    ls_train_result result;
    options.collectives = true;
    dump_ok(&run, scratch_path("golden"), &options);
    ASSERT_OK(ls_train(&run, NULL, &result));

    uint64_t bytes[16] = {0}, before = 0;
    int rank_before = 0;
    FILE *file = fopen(scratch_path("golden/collectives.jsonl"), "r");
    ck_assert_ptr_nonnull(file);
    char line[4096];
    while (fgets(line, sizeof line, file)) {
        json_t *call = json_loads(line, 0, NULL);
        ck_assert_msg(call != NULL, "%s", line);
        int rank, step, stage, micro_batch, peer = -1;
        json_int_t number, size;
        const char *task, *name, *group = NULL;
        json_t *members = NULL;
        ck_assert_msg(json_unpack(call, "{s:i, s:i, s:s, s:i, s:i, s:s, s:I, s:I, s?s, s?o, s?i}",
                                  "rank", &rank, "step", &step, "task", &task, "stage", &stage,
                                  "micro_batch", &micro_batch, "call", &name, "number", &number,
                                  "bytes", &size, "group", &group, "members", &members, "peer",
                                  &peer) == 0,
                      "%s", line);
        ck_assert((group == NULL) == (peer >= 0));
        if (members) ck_assert_uint_gt(json_array_size(members), 0);
        ck_assert_int_lt(step, 2);
        ck_assert_int_ge(rank, rank_before);
        rank_before = rank;
        /* Comparing the batches of a replica's ranks is no part of the step as ranks count it. */
        if (strcmp(task, "batch") != 0 || strcmp(group, "dp") == 0) bytes[rank] += (uint64_t)size;
        before++;
        json_decref(call);
    }
    fclose(file);
    ck_assert(before > 0 || result.ranks == 1);
    for (int r = 0; r < result.ranks; r++) {
        uint64_t counted = 0;
        for (int op = 0; op < LS_OP_COUNT; op++) counted += result.rank[r].comm[op].bytes;
        ck_assert_msg(bytes[r] == counted, "rank %d: %llu bytes, counted %llu", r,
                      (unsigned long long)bytes[r], (unsigned long long)counted);
    }
    ls_train_result_free(&result);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("dump_ranks", 120);
    tcase_add_unchecked_fixture(tcase, scratch_setup, scratch_teardown);
    tcase_add_loop_test(tcase, put_together_they_are_the_whole, 0, GRIDS * MODELS);
    tcase_add_loop_test(tcase, parts_of_sums, 2, 4);
    tcase_add_test(tcase, several_parts_of_a_rank);
    tcase_add_loop_test(tcase, calls_are_what_ranks_count, 0, GRIDS);
    return run_tests();
}
