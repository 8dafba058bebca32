/* A golden directory opened: what it holds, and everything that is refused. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/golden_small.h"
#include "run_tests.h"

START_TEST(what_was_written_is_found)
{
    const ls_config config = small_config();
    golden_fixture f;
    ls_golden *golden = NULL;
    golden_fixture_begin(&f, &config, 2);
    f.truth = true;
    f.run.seed = 99;
    f.run.layout.dp = 2;
    f.run.layout.micro_batches = 2;
    fixture_values(&f, 1, "layers.1.mlp")[4] = (double)NAN;
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ck_assert_uint_eq(golden->count, 2 * f.graph->count);
    ck_assert_uint_eq(golden->steps, 2);
    ck_assert_uint_eq(golden->run.seed, 99);
    ck_assert_int_eq(golden->run.layout.dp, 2);
    ck_assert_uint_eq(golden->run.config.d_ff, 10);
    for (size_t i = 0; i < golden->count; i++) {
        const ls_golden_tensor *t = &golden->tensors[i];
        ck_assert_ptr_eq(ls_golden_find(golden, t->step, t->node), t);
        ck_assert_str_eq(ls_tensor_name_parse(t->name).rest, f.graph->nodes[t->node].name);
        void *bytes = fixture_round(f.values[t->step][t->node], t->count, t->dtype);
        ck_assert_uint_eq(t->count, ls_graph_elements(f.graph, t->node));
        ck_assert(memcmp(bytes, t->values, t->count * ls_dtype_bytes(t->dtype)) == 0);
        ck_assert(memcmp(f.values[t->step][t->node], t->truth, t->count * 8) == 0);
        ck_assert_uint_eq((uintptr_t)t->values % ls_dtype_bytes(t->dtype), 0);
        free(bytes);
    }
    for (int p = 0; p < (int)f.table->count; p++) {
        ls_dtype dtype;
        const size_t count = ls_param_elements(&f.table->params[p]);
        float *bytes = fixture_round(f.params[p], count, LS_F32);
        ck_assert(memcmp(ls_golden_param(golden, 0, p, &dtype), bytes, 4 * count) == 0);
        ck_assert_int_eq(dtype, LS_F32);
        ck_assert_ptr_null(ls_golden_moment(golden, p, 0, &dtype));
        char name[160];
        snprintf(name, sizeof name, "param.%s", f.table->params[p].name);
        ck_assert_ptr_eq(ls_golden_param(golden, 1, p, &dtype),
                         ls_golden_find(golden, 0, fixture_node(&f, name))->values);
        free(bytes);
    }
    const ls_batch *batch = ls_golden_batch(golden, 1);
    ck_assert(memcmp(batch->tokens, f.tokens[1], 15 * 4) == 0);
    ck_assert(memcmp(batch->targets, f.targets[1], 15 * 4) == 0);
    ck_assert_uint_eq(batch->step, 1);
    ck_assert_ptr_null(ls_golden_batch(golden, 2));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ls_golden_close(&golden);
    ck_assert_ptr_null(golden);
    golden_fixture_end(&f);
}
END_TEST

/* ---- files ---- */

START_TEST(no_golden_directory)
{
    refused(scratch_path("nowhere"), (const char *const[]){"nowhere", "No such file", NULL});
    refused(scratch_file("a file", "x", 1),
            (const char *const[]){"a file", "no directory", "lockstep dump", NULL});
    mkdir(scratch_path("empty"), 0777);
    refused(scratch_path("empty/"),
            (const char *const[]){"empty", "no manifest.json", "lockstep dump", NULL});
    mkdir(scratch_path("empty/manifest.json"), 0777);
    refused(scratch_path("empty"),
            (const char *const[]){"empty/manifest.json", "not a plain file", NULL});
    mkdir(scratch_path("pipe"), 0777);
    ck_assert_int_eq(mkfifo(scratch_path("pipe/manifest.json"), 0777), 0);
    refused(scratch_path("pipe"),
            (const char *const[]){"pipe/manifest.json", "not a plain file", NULL});
    static const char *const texts[] = {"", "{", "[1]", "{\"a\": 1, \"a\": 2}", "nonsense", "\xff"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        mkdir(scratch_path("text"), 0777);
        scratch_file("text/manifest.json", texts[i], strlen(texts[i]));
        refused(
            scratch_path("text"),
            (const char *const[]){"text/manifest.json", i == 2 ? "JSON object" : "not JSON", NULL});
    }
}
END_TEST

/* A file gone, emptied, cut off, a folder, a pipe, a link, whether or not it leads to the file. */
START_TEST(files_that_are_not_there)
{
    static const char *const names[] = {"weights.safetensors", "batch.safetensors",
                                        "forward.safetensors", "backward.safetensors",
                                        "update.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const bool bound = i < 2;
        write_golden(2);
        unlink(in_golden(names[i]));
        REFUSED(names[i], "No such file");
        mkdir(in_golden(names[i]), 0777);
        REFUSED(names[i], "folder");
        rmdir(in_golden(names[i]));
        ck_assert_int_eq(mkfifo(in_golden(names[i]), 0777), 0);
        REFUSED(names[i], "pipe");
        unlink(in_golden(names[i]));
        ck_assert_int_eq(symlink("into nothing", in_golden(names[i])), 0);
        REFUSED(names[i], "symbolic link");
        write_golden(2);
        ck_assert_int_eq(rename(in_golden(names[i]), scratch_path("elsewhere")), 0);
        ck_assert_int_eq(symlink("../elsewhere", in_golden(names[i])), 0);
        REFUSED(names[i], "symbolic link");
        unlink(in_golden(names[i]));
        write_golden(2);
        ck_assert_int_eq(truncate(in_golden(names[i]), 3000), 0);
        REFUSED(names[i], bound ? "3000 bytes" : "tensor");
        ck_assert_int_eq(truncate(in_golden(names[i]), 0), 0);
        REFUSED(names[i], "0 bytes");
    }
    write_golden(1);
    ck_assert_int_eq(truncate(in_golden("truth.safetensors"), 3000), 0);
    REFUSED("truth.safetensors");
    unlink(in_golden("truth.safetensors"));
    ls_golden *golden = NULL;
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ls_golden_close(&golden);
    ck_assert_int_eq(rename(in_golden("manifest.json"), scratch_path("elsewhere")), 0);
    ck_assert_int_eq(symlink("../elsewhere", in_golden("manifest.json")), 0);
    REFUSED("manifest.json", "symbolic link");
    unlink(in_golden("manifest.json"));
}
END_TEST

/* The same model with other weights, another batch, other tensors: the files of one do not pass for
 * those of the other. */
START_TEST(two_directories_mixed)
{
    const ls_config config = small_config();
    ls_golden *golden = NULL;
    golden_fixture f;
    write_golden(1);
    ck_assert_int_eq(rename(scratch_path("golden"), scratch_path("first")), 0);
    golden_fixture_begin(&f, &config, 1);
    f.truth = true;
    f.params[3][0] += 1;
    f.tokens[0][3] = (f.tokens[0][3] + 1) % 11;
    fixture_values(&f, 0, "layers.0.mlp")[7] += 1;
    fixture_values(&f, 0, "d.layers.0.mlp")[7] += 1;
    fixture_values(&f, 0, "norm")[0] += 1;
    static const char *const names[] = {"weights", "batch", "forward", "backward", "update"};
    static const char *const said[] = {"weights.safetensors", "batch.safetensors",
                                       "step0/layers.0.mlp", "step0/d.layers.0.mlp", "step0/norm"};
    for (int i = 0; i < 5; i++) {
        char from[64], to[64];
        golden_fixture_write(&f, scratch_path("golden"));
        snprintf(from, sizeof from, "first/%s.safetensors", names[i]);
        snprintf(to, sizeof to, "golden/%s.safetensors", names[i]);
        ck_assert_int_eq(rename(scratch_path(from), scratch_path(to)), 0);
        if (i < 2) {
            REFUSED(said[i], "SHA-256", "another golden directory");
            continue;
        }
        ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
        ASSERT_SAYS(ls_golden_verify(golden, NULL, NULL), LS_ERR_INPUT, said[i], "SHA-256",
                    "another golden directory");
        ls_golden_close(&golden);
    }
    golden_fixture_end(&f);
}
END_TEST

/* A golden file with a tensor more, one less, and one of another dtype or shape. */
START_TEST(files_with_other_tensors)
{
    const ls_config config = small_config();
    golden_fixture f;
    for (int i = 0; i < 4; i++) {
        golden_fixture_begin(&f, &config, 1);
        golden_fixture_write(&f, scratch_path("golden"));
        json_t *manifest = fixture_manifest(&f, scratch_path("golden"));
        golden_fixture_end(&f);
        /* Another fixture's forward file under the first's manifest. */
        ls_config other = config;
        if (i == 3) other.d_ff = 12;
        golden_fixture_begin(&f, &other, i == 0 ? 2 : 1);
        if (i == 1) fixture_drop(&f, 0, "layers.0.up");
        if (i == 2) f.run.dtype = LS_F64;
        fixture_write_phase(&f, scratch_path("golden"), LS_GRAPH_FORWARD);
        json_decref(manifest);
        if (i == 0) REFUSED("forward.safetensors", "tensors", "the manifest lists");
        if (i == 1) REFUSED("forward.safetensors", "no tensor step0/layers.0.up");
        if (i == 2) REFUSED("forward.safetensors", "step0/embedding", "F64", "F32");
        if (i == 3) REFUSED("forward.safetensors", "step0/layers.0.up", "5 x 3 x 12", "5 x 3 x 10");
        golden_fixture_end(&f);
    }
}
END_TEST

/* ---- batches ---- */

START_TEST(ids_out_of_range)
{
    static const struct {
        bool target;
        int32_t id;
        const char *said;
    } bad[] = {{false, 11, "holds 11"},     {false, -1, "holds -1"},
               {false, -100, "holds -100"}, {true, 11, "holds 11"},
               {true, -1, "-100 for none"}, {true, INT32_MIN, "holds -2147483648"}};
    const ls_config config = small_config();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        golden_fixture f;
        golden_fixture_begin(&f, &config, 2);
        (bad[i].target ? f.targets : f.tokens)[1][13] = bad[i].id;
        golden_fixture_write(&f, scratch_path("golden"));
        REFUSED("batch.safetensors", bad[i].target ? "step1/targets" : "step1/tokens", "element 13",
                bad[i].said, "0 to 10");
        golden_fixture_end(&f);
    }
}
END_TEST

/* A header of any length is allowed, and so any place of the values: they are handed out aligned.
 */
START_TEST(values_are_aligned)
{
    static const char *const names[] = {"forward", "backward", "update", "truth"};
    ls_golden *golden = NULL;
    write_golden(1);
    for (int i = 0; i < 4; i++) {
        char name[64];
        size_t count;
        snprintf(name, sizeof name, "golden/%s.safetensors", names[i]);
        unsigned char *bytes = scratch_read(scratch_path(name), &count);
        unsigned char *longer = malloc(count + 1);
        uint64_t length;
        memcpy(&length, bytes, 8);
        memcpy(longer, bytes, 8 + length);
        longer[8 + length] = ' ';
        memcpy(longer + 9 + length, bytes + 8 + length, count - 8 - length);
        length++;
        memcpy(longer, &length, 8);
        scratch_file(name, longer, count + 1);
        free(bytes);
        free(longer);
    }
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    for (size_t i = 0; i < golden->count; i++) {
        const ls_golden_tensor *t = &golden->tensors[i];
        ck_assert_uint_eq((uintptr_t)t->values % ls_dtype_bytes(t->dtype), 0);
        ck_assert_uint_eq((uintptr_t)t->truth % 8, 0);
    }
    ls_golden_close(&golden);
}
END_TEST

/* ---- the run, done again ---- */

/* What the directory says is enough to train from: its weights, its batches, its optimizer. */
START_TEST(the_run_can_be_done_again)
{
    const ls_config config = small_config();
    golden_fixture f;
    ls_golden *golden = NULL;
    ls_train_result first, second;
    golden_fixture_begin(&f, &config, 3);
    f.first_step = 4;
    f.run.optimizer = LS_SGD;
    f.run.clip = 0.25;
    f.run.lr = 0.125;
    f.run.layout.tp = 2;
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ck_assert_uint_eq(golden->run.steps, 7);
    ck_assert_uint_eq(golden->run.n_given, 3);
    ck_assert_int_eq(golden->run.optimizer, LS_SGD);
    ck_assert(golden->run.clip == 0.25 && golden->run.lr == 0.125);
    ls_dtype dtype;
    const float *moment = ls_golden_moment(golden, 2, 1, &dtype);
    ck_assert(moment != NULL && moment[0] == 0 && dtype == LS_F32);
    ASSERT_OK(ls_train(&golden->run, NULL, &first));
    ck_assert_uint_eq(first.first_step, 4);
    ck_assert_uint_eq(first.last_step, 7);
    ck_assert_int_eq(first.ranks, 2);
    ls_run serial = golden->run;
    serial.serial = true;
    ASSERT_OK(ls_train(&serial, NULL, &second));
    ck_assert_str_eq(first.digest, second.digest);
    ls_train_result_free(&first);
    ls_train_result_free(&second);
    ls_golden_close(&golden);
    golden_fixture_end(&f);
}
END_TEST

static void raise_a_bound(json_t *manifest, void *context)
{
    json_t *tensor = json_array_get(json_object_get(manifest, "tensors"), 3);
    json_object_set_new(tensor, context ? context : "bound", json_real(1e300));
}

static void forget_the_digest(json_t *manifest, void *context)
{
    (void)context;
    json_object_del(manifest, LS_MANIFEST_DIGEST);
}

/* A bound, which is in no other digest, cannot be raised unseen. */
START_TEST(a_manifest_that_was_changed)
{
    const ls_config config = small_config();
    golden_fixture f;
    golden_fixture_begin(&f, &config, 1);
    f.stale = true;
    f.change = raise_a_bound;
    golden_fixture_write(&f, scratch_path("golden"));
    REFUSED("manifest.json", "manifest_sha256", "it was changed", "dump it again");
    f.context = "bound_rms";
    golden_fixture_write(&f, scratch_path("golden"));
    REFUSED("manifest.json", "manifest_sha256", "it was changed");
    f.change = forget_the_digest;
    golden_fixture_write(&f, scratch_path("golden"));
    REFUSED("manifest.json", "manifest_sha256 is missing");
    golden_fixture_end(&f);
}
END_TEST

/* Weights of another step than the manifest says. */
START_TEST(weights_of_another_step)
{
    const ls_config config = small_config();
    golden_fixture f;
    golden_fixture_begin(&f, &config, 1);
    f.first_step = 4;
    golden_fixture_write(&f, scratch_path("golden"));
    f.first_step = 5;
    json_t *manifest = fixture_manifest(&f, scratch_path("golden"));
    for (size_t phase = 0; phase < 3; phase++)
        fixture_write_phase(&f, scratch_path("golden"), phase);
    fixture_manifest_digest(manifest);
    ck_assert_int_eq(json_dump_file(manifest, in_golden("manifest.json"), 0), 0);
    json_decref(manifest);
    REFUSED("weights.safetensors", "stands at step 4", "first_step is 5");
    golden_fixture_end(&f);
}
END_TEST

START_TEST(the_truth_in_binary64)
{
    const ls_config config = small_config();
    golden_fixture f;
    ls_golden *golden = NULL;
    golden_fixture_begin(&f, &config, 1);
    f.run.dtype = LS_F64;
    golden_fixture_write(&f, scratch_path("golden"));
    ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
    ck_assert_int_eq(golden->run.dtype, LS_F64);
    for (size_t i = 0; i < golden->count; i++) {
        ck_assert_int_eq(golden->tensors[i].dtype, LS_F64);
        ck_assert(memcmp(golden->tensors[i].values, f.values[0][i], 8 * golden->tensors[i].count) ==
                  0);
    }
    ASSERT_OK(ls_golden_verify(golden, NULL, NULL));
    ls_golden_close(&golden);
    golden_fixture_end(&f);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("golden", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, what_was_written_is_found);
    tcase_add_test(tests, the_truth_in_binary64);
    tcase_add_test(tests, values_are_aligned);
    tcase_add_test(tests, the_run_can_be_done_again);
    tcase_add_test(tests, no_golden_directory);
    tcase_add_test(tests, files_that_are_not_there);
    tcase_add_test(tests, two_directories_mixed);
    tcase_add_test(tests, files_with_other_tensors);
    tcase_add_test(tests, ids_out_of_range);
    tcase_add_test(tests, weights_of_another_step);
    tcase_add_test(tests, a_manifest_that_was_changed);
    return run_tests();
}
