/* A golden directory's manifest: every key of a wrong type or value is refused by name, and what is
 * unknown is left alone. */
#include <math.h>
#include <sys/stat.h>

#include "golden/golden_small.h"
#include "run_tests.h"

/* Changes one value: "tensors/3/shape" = JSON text; NULL removes it. A NULL path: nothing. */
typedef struct edit {
    const char *path, *value;
} edit;

static void apply(json_t *root, const edit *e)
{
    char way[200];
    json_t *at = root;
    snprintf(way, sizeof way, "%s", e->path);
    char *last = strrchr(way, '/');
    const char *key = last ? last + 1 : way;
    if (last) *last = '\0';
    for (char *word = last ? strtok(way, "/") : NULL; word; word = strtok(NULL, "/")) {
        at = json_is_array(at) ? json_array_get(at, strtoul(word, NULL, 10))
                               : json_object_get(at, word);
        ck_assert_msg(at != NULL, "%s: no %s", e->path, word);
    }
    json_t *value = e->value ? json_loads(e->value, JSON_DECODE_ANY, NULL) : NULL;
    ck_assert_msg(!e->value || value, "%s is not JSON", e->value);
    if (json_is_array(at) && value)
        json_array_set_new(at, strtoul(key, NULL, 10), value);
    else if (json_is_array(at))
        json_array_remove(at, strtoul(key, NULL, 10));
    else if (value)
        json_object_set_new(at, key, value);
    else
        ck_assert_int_eq(json_object_del(at, key), 0);
}

static void change(json_t *root, void *context)
{
    apply(root, context);
}

/* ... and makes the digest fit again. */
static void change_tensors(json_t *root, void *context)
{
    apply(root, context);
    fixture_digest(root);
}

typedef struct bad_manifest {
    edit e;
    const char *words[5];
} bad_manifest;

#define HEX4 "aaaa"
#define HEX64 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4 HEX4

static const bad_manifest bad_manifests[] = {
    /* what it is */
    {{"format", NULL}, {"manifest.json", "format is missing"}},
    {{"format", "\"lockstep checkpoint 1\""},
     {"format", "lockstep checkpoint 1", "lockstep golden"}},
    {{"format", "3"}, {"format 3", "must be a string"}},
    {{"version", "1"}, {"version 1", "reads version 2"}},
    {{"version", "0"}, {"version 0", "reads version 2"}},
    {{"version", "\"1\""}, {"version \"1\"", "whole number"}},
    {{"version", "99999999999"}, {"version 99999999999"}},
    {{"contract/name", "\"tree/v9\""}, {"tree/v9", "tree/v1"}},
    {{"contract/digest", "\"" HEX64 "\""}, {"aaaaaaaaaaaaaaaa", "tree/v1"}},
    {{"contract/digest", "\"abc\""}, {"contract.digest", "64 lower-case"}},
    {{"contract", "[]"}, {"contract []", "object"}},
    {{"kind", "\"other\""}, {"kind \"other\"", "\"training\" or \"integers\""}},
    {{"kind", "true"}, {"kind true"}},
    /* the run */
    {{"model", NULL}, {"model is missing"}},
    {{"model", "\"gpt2-nano\""}, {"model", "object"}},
    {{"model/layers", "0"}, {"manifest.json: model", "layers 0"}},
    {{"model/layers", "\"2\""}, {"manifest.json: model", "layers"}},
    {{"model/heads", "4"}, {"manifest.json: model"}},
    {{"model/layer", "2"}, {"unknown key", "did you mean \"layers\""}},
    {{"layout/tp", "0"}, {"layout.tp 0", "from 1"}},
    {{"layout/tp", "2.5"}, {"layout.tp 2.5"}},
    {{"layout/tp", "2"}, {"layout.text", "one rank", "tp 2"}},
    {{"layout/sp", "1"}, {"layout.sp 1", "true or false"}},
    {{"layout/schedule", "\"zb\""}, {"layout.schedule", "\"gpipe\"", "\"interleaved\""}},
    {{"layout/recompute", "null"}, {"layout.recompute null"}},
    {{"layout/stage_layers", "[-1]"}, {"layout.stage_layers[0]"}},
    {{"layout/stage_layers", "7"}, {"layout.stage_layers 7", "array"}},
    {{"layout/text", "\"tp two\""}, {"layout.text", "tp two"}},
    {{"layout/text", NULL}, {"layout.text is missing"}},
    {{"engine", "\"cuda\""}, {"engine \"cuda\"", "portable"}},
    {{"dtype", "\"bf16\""}, {"dtype \"bf16\"", "f32"}},
    {{"seed", "-1"}, {"seed -1"}},
    {{"seed", "\"18446744073709551616\""}, {"seed", "below 2^64"}},
    {{"seed", "\"\""}, {"seed \"\"", "below 2^64"}},
    {{"batch", "0"}, {"batch 0"}},
    {{"batch", "1000000000000000000"}, {"batch 1000000000000000000"}},
    {{"batch", "4"}, {"micro_batch_sequences"}},
    {{"first_step", "1"}, {"tensors[0].step 0", "from 1 to"}},
    {{"steps", "0"}, {"steps 0", "from 1"}},
    {{"steps", "3"}, {"batch.safetensors", "no tensor step2/tokens"}},
    {{"steps", "5"}, {"batch.safetensors", "4 tensors", "5 steps"}},
    {{"steps", "4000000000"}, {"batch.safetensors", "4000000000 steps"}},
    {{"steps", "5000000000"}, {"steps 5000000000"}},
    {{"optimizer", "{}"}, {"optimizer.name is missing"}},
    {{"optimizer/name", "\"lion\""}, {"optimizer.name \"lion\"", "adamw"}},
    {{"optimizer/lr", "-0.5"}, {"optimizer.lr -0.5"}},
    {{"optimizer/lr", "\"x\""}, {"optimizer.lr \"x\"", "number"}},
    {{"optimizer/beta1", "1.0"}, {"optimizer.beta1 1.0", "below 1"}},
    {{"optimizer/beta2", "2"}, {"optimizer.beta2 2", "below 1"}},
    {{"optimizer/warmup", "1.5"}, {"optimizer.warmup 1.5"}},
    {{"optimizer/clip", NULL}, {"optimizer.clip is missing"}},
    {{"micro_batch_sequences", "[]"}, {"micro_batch_sequences", "0 entries"}},
    {{"micro_batch_sequences/0", "[0, 4]"}, {"micro_batch_sequences end at 4", "5"}},
    {{"micro_batch_sequences/0", "[1, 5]"}, {"micro_batch_sequences[0]", "[0, END]"}},
    {{"micro_batch_sequences/0", "[0, 6]"}, {"micro_batch_sequences[0]"}},
    {{"micro_batch_sequences/0", "[5, 0]"}, {"micro_batch_sequences[0]"}},
    {{"micro_batch_sequences/0", "\"x\""}, {"micro_batch_sequences[0]"}},
    /* files */
    {{"files", "[]"}, {"files []", "object"}},
    {{"files/weights.safetensors", NULL}, {"files does not name weights.safetensors"}},
    {{"files/batch.safetensors", NULL}, {"files does not name batch.safetensors"}},
    {{"files/weights.safetensors", "3"}, {"files.weights.safetensors", "object"}},
    {{"files/weights.safetensors/bytes", "7"}, {"weights.safetensors", "manifest says 7"}},
    {{"files/weights.safetensors/bytes", "-7"}, {"files.weights.safetensors.bytes -7"}},
    {{"files/batch.safetensors/sha256", "\"" HEX64 "\""},
     {"batch.safetensors", "aaaaaaaaaaaaaaaa", "another golden directory"}},
    {{"files/masks.safetensors", "{\"bytes\": 3, \"sha256\": \"" HEX64 "\"}"},
     {"masks.safetensors", "the manifest names it"}},
    {{"digest", "\"" HEX64 "\""}, {"digest aaaa", "sha256 make"}},
    {{"digest", NULL}, {"digest is missing"}},
    {{"tensors/0/sha256", "\"" HEX64 "\""}, {"digest", "the manifest was changed"}},
    /* tensors */
    {{"tensors", "[]"}, {"tensors is empty"}},
    {{"tensors", "{}"}, {"tensors {}", "array"}},
    {{"tensors/1", "17"}, {"tensors[1]", "object"}},
    {{"tensors/1/name", "7"}, {"tensors[1].name 7", "string"}},
    {{"tensors/1/file", "\"../forward.safetensors\""}, {"tensors[1].file", "beside"}},
    {{"tensors/1/file", "\"no.safetensors\""}, {"no.safetensors", "No such file"}},
    {{"tensors/1/file", "\"backward.safetensors\""}, {"backward.safetensors", "has no tensor"}},
    {{"tensors/1/phase", "\"sideways\""}, {"tensors[1].phase \"sideways\"", "backward"}},
    {{"tensors/1/order", "5"}, {"tensors[1].order 5", "from 1 to 1"}},
    {{"tensors/1/step", "9"}, {"tensors[1].step 9", "from 0 to 1"}},
    {{"tensors/1/dtype", "\"f16\""}, {"tensors[1].dtype \"f16\""}},
    {{"tensors/1/shape", "7"}, {"tensors[1].shape 7", "array"}},
    {{"tensors/1/shape", "[5, 3, -1]"}, {"tensors[1].shape[2]"}},
    {{"tensors/1/shape", "[1, 1, 1, 1, 1]"}, {"tensors[1].shape", "5 dimensions"}},
    {{"tensors/1/dims", NULL}, {"tensors[1].dims is missing"}},
    {{"tensors/1/given", "0"}, {"tensors[1].given 0", "true or false"}},
    {{"tensors/1/bound", "\"inf\""}, {"tensors[1].bound \"inf\"", "null"}},
    {{"tensors/1/bound", "-1"}, {"tensors[1].bound -1", "from 0 on"}},
    {{"tensors/1/truth_error", NULL}, {"tensors[1].truth_error is missing"}},
};

START_TEST(manifests_refused)
{
    const bad_manifest *bad = &bad_manifests[_i];
    const ls_config config = small_config();
    const char *words[7] = {"golden"};
    golden_fixture f;
    memcpy(words + 1, bad->words, sizeof bad->words);
    golden_fixture_begin(&f, &config, 2);
    f.change = change;
    f.context = (void *)(uintptr_t)&bad->e;
    golden_fixture_write(&f, scratch_path("golden"));
    refused(scratch_path("golden"), words);
    golden_fixture_end(&f);
}
END_TEST

/* Entries whose digests fit, but not the model. Tensor 1 is step0/embedded. */
static const bad_manifest bad_tensors[] = {
    {{"tensors/1/name", "\"step0/embeded\""}, {"step0/embeded", "none of that name"}},
    {{"tensors/1/name", "\"embedded\""}, {"embedded", "none of that name"}},
    {{"tensors/1/name", "\"step0/mb0/embedded\""}, {"mb0", "none of that name"}},
    {{"tensors/1/name", "\"step0/embedded.partial\""}, {"partial", "none of that name"}},
    {{"tensors/1/name", "\"step1/embedded\""}, {"step1/embedded", "step is given as 0"}},
    {{"tensors/1/name", "\"step0/embedding\""}, {"step0/embedding", "order of execution"}},
    {{"tensors/1/shape", "[5, 3, 7]"}, {"step0/embedded", "5 x 3 x 7", "5 x 3 x 6"}},
    {{"tensors/1/shape", "[5, 18]"}, {"step0/embedded", "5 x 18", "5 x 3 x 6"}},
    {{"tensors/1/shape", "[]"}, {"step0/embedded", "()", "5 x 3 x 6"}},
    {{"tensors/1/dtype", "\"f64\""}, {"step0/embedded", "F64", "F32"}},
    {{"tensors/1/phase", "\"update\""}, {"step0/embedded", "update", "forward"}},
    {{"tensors/1/dims", "\"B S D\""}, {"step0/embedded", "B S D", "B S[sp] D"}},
    {{"tensors/1", NULL}, {"tensors[1].order 2"}},
    {{"model/d_ff", "12"}, {"step0/layers.0.up", "5 x 3 x 10", "5 x 3 x 12"}},
    {{"model/seq", "4"}, {"step0/embedding", "5 x 3 x 6", "5 x 4 x 6"}},
};

START_TEST(tensors_refused)
{
    const bad_manifest *bad = &bad_tensors[_i];
    const ls_config config = small_config();
    golden_fixture f;
    golden_fixture_begin(&f, &config, 2);
    f.change = change_tensors;
    f.context = (void *)(uintptr_t)&bad->e;
    golden_fixture_write(&f, scratch_path("golden"));
    refused(scratch_path("golden"), bad->words);
    golden_fixture_end(&f);
}
END_TEST

/* What is unknown is left alone; null is unknown. */
START_TEST(what_may_be_otherwise)
{
    static const edit edits[] = {
        {"comment", "\"hello\""},      {"tensors/1/note", "[1, 2]"},
        {"optimizer/momentum", "0.5"}, {"seed", "\"18446744073709551615\""},
        {"tensors/1/bound", "null"},   {"tensors/1/truth_error", "null"},
        {"tensors/1/given", "true"}};
    const ls_config config = small_config();
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        golden_fixture f;
        ls_golden *golden = NULL;
        golden_fixture_begin(&f, &config, 1);
        f.change = change;
        f.context = (void *)(uintptr_t)&edits[i];
        golden_fixture_write(&f, scratch_path("golden"));
        ASSERT_OK(ls_golden_open(&golden, scratch_path("golden")));
        if (i == 3) ck_assert_uint_eq(golden->run.seed, UINT64_MAX);
        ck_assert(!!isinf(golden->tensors[1].bound) == (i == 4));
        ck_assert(!!isinf(golden->tensors[1].truth_error) == (i == 5));
        ck_assert(golden->tensors[1].given == (i == 6));
        ck_assert_ptr_null(golden->tensors[1].truth);
        ls_golden_close(&golden);
        golden_fixture_end(&f);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("golden_manifest", 120);
    tcase_add_unchecked_fixture(tests, scratch_setup, scratch_teardown);
    tcase_add_test(tests, what_may_be_otherwise);
    tcase_add_loop_test(tests, manifests_refused, 0,
                        (int)(sizeof bad_manifests / sizeof bad_manifests[0]));
    tcase_add_loop_test(tests, tensors_refused, 0,
                        (int)(sizeof bad_tensors / sizeof bad_tensors[0]));
    return run_tests();
}
