/* A golden directory opened: what it holds, and everything that is refused. */
#include "oracle/golden_fixture.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/scratch.h"

static ls_config small_config(void)
{
    ls_config config;
    ASSERT_OK(ls_config_named("gpt2-nano", &config));
    config.layers = 2;
    config.heads = config.kv_heads = 2;
    config.d_model = 6;
    config.d_ff = 10;
    config.seq = 3;
    config.batch = 5;
    config.vocab = 11;
    config.dropout = 0;
    return config;
}

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
    fixture_values(&f, 1, "layers.1.mlp")[4] = NAN;
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

/* ---- the manifest ---- */

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

static void refused(const char *path, const char *const *words)
{
    ls_golden *golden = NULL;
    assert_says(ls_golden_open(&golden, path), LS_ERR_INPUT, words);
    ck_assert_ptr_null(golden);
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
    {{"version", "2"}, {"version 2", "reads version 1"}},
    {{"version", "0"}, {"version 0", "reads version 1"}},
    {{"version", "\"1\""}, {"version \"1\"", "whole number"}},
    {{"version", "99999999999"}, {"version 99999999999"}},
    {{"contract/name", "\"tree/v9\""}, {"tree/v9", "tree/v1"}},
    {{"contract/digest", "\"" HEX64 "\""}, {"aaaaaaaaaaaaaaaa", "tree/v1"}},
    {{"contract/digest", "\"abc\""}, {"contract.digest", "64 lower-case"}},
    {{"contract", "[]"}, {"contract [...]", "object"}},
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
    {{"files", "[]"}, {"files [...]", "object"}},
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
    {{"tensors", "{}"}, {"tensors {...}", "array"}},
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

/* ---- files ---- */

static const char *in_golden(const char *name)
{
    static char path[1100];
    snprintf(path, sizeof path, "%s/golden/%s", scratch_folder, name);
    return path;
}

static void write_golden(size_t steps)
{
    const ls_config config = small_config();
    golden_fixture f;
    scratch_teardown();
    mkdir(scratch_folder, 0777);
    golden_fixture_begin(&f, &config, steps);
    f.truth = true;
    golden_fixture_write(&f, scratch_path("golden"));
    golden_fixture_end(&f);
}

#define REFUSED(...) refused(scratch_path("golden"), (const char *const[]){__VA_ARGS__, NULL})

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

/* A file gone, emptied, cut off, a folder, a pipe, a link into nothing. */
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
        REFUSED(names[i], "No such file");
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

/* ---- any bytes ---- */

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
START_TEST(any_bytes)
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

int main(void)
{
    Suite *suite = suite_create("golden");
    TCase *reading = tcase_create("reading");
    suite_add_tcase(suite, reading);
    tcase_set_timeout(reading, 120);
    tcase_add_unchecked_fixture(reading, scratch_setup, scratch_teardown);
    tcase_add_test(reading, what_was_written_is_found);
    tcase_add_test(reading, the_truth_in_binary64);
    tcase_add_test(reading, the_run_can_be_done_again);
    tcase_add_test(reading, what_may_be_otherwise);
    TCase *refusing = tcase_create("refusing");
    suite_add_tcase(suite, refusing);
    tcase_set_timeout(refusing, 120);
    tcase_add_unchecked_fixture(refusing, scratch_setup, scratch_teardown);
    tcase_add_loop_test(refusing, manifests_refused, 0,
                        (int)(sizeof bad_manifests / sizeof bad_manifests[0]));
    tcase_add_loop_test(refusing, tensors_refused, 0,
                        (int)(sizeof bad_tensors / sizeof bad_tensors[0]));
    tcase_add_test(refusing, no_golden_directory);
    tcase_add_test(refusing, files_that_are_not_there);
    tcase_add_test(refusing, two_directories_mixed);
    tcase_add_test(refusing, files_with_other_tensors);
    tcase_add_test(refusing, ids_out_of_range);
    tcase_add_test(refusing, weights_of_another_step);
    tcase_add_loop_test(refusing, any_bytes, 0, 5);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
