/* golden_fixture.h - a small golden directory from arrays in memory, for tests that read one.
 *
 *     golden_fixture f;
 *     golden_fixture_begin(&f, &config, 2);     steps 0 and 1, every node, values made up
 *     f.run.layout.tp = 2;                      whatever the manifest is to say
 *     fixture_values(&f, 0, "layers.0.query")[3] = 7;
 *     golden_fixture_write(&f, path);
 *     golden_fixture_end(&f);
 *
 * Values are kept as binary64 and rounded to the run's dtype on their way into the files. */
#ifndef TEST_GOLDEN_GOLDEN_FIXTURE_H
#define TEST_GOLDEN_GOLDEN_FIXTURE_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lockstep/io/safetensors.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/partition/share.h"
#include "golden/golden.h"
#include "golden/golden_manifest.h"
#include "step_graph/tensor_name.h"

enum { FIXTURE_STEPS = 3 };

typedef struct golden_fixture {
    ls_run run;
    ls_golden_kind kind;
    uint64_t first_step;
    size_t steps;
    ls_param_table *table;
    ls_graph *graph;
    double **values[FIXTURE_STEPS]; /* by node; NULL: the directory lacks it */
    double **params;                /* by parameter of the table */
    bool truth;                     /* truth.safetensors: the values before they are rounded */
    int32_t *tokens[FIXTURE_STEPS], *targets[FIXTURE_STEPS];
    /* May change the manifest before it is written; NULL: nobody. */
    void (*change)(json_t *manifest, void *context);
    bool stale; /* its digest is that of before the change */
    void *context;
} golden_fixture;

static inline void fixture_ok(ls_status status)
{
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
}

/* In [-1, 1), of both signs, no two alike. */
static inline double fixture_number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / 8388608.0 - 1;
}

static inline double *fixture_array(size_t count, uint32_t *state)
{
    double *values = malloc((count + 1) * sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < count; i++) values[i] = fixture_number(state);
    return values;
}

/* The run has the command line's defaults in one rank. */
static inline void golden_fixture_begin(golden_fixture *f, const ls_config *config, size_t steps)
{
    uint32_t state = 77;
    memset(f, 0, sizeof *f);
    ls_run_defaults(&f->run, config);
    f->steps = steps;
    f->run.steps = steps;
    fixture_ok(ls_param_table_create(&f->table, config));
    fixture_ok(ls_graph_create(&f->graph, f->table, config->batch, config->seq));
    f->params = calloc(f->table->count, sizeof *f->params);
    for (size_t p = 0; p < f->table->count; p++)
        f->params[p] = fixture_array(ls_param_elements(&f->table->params[p]), &state);
    for (size_t s = 0; s < steps; s++) {
        const size_t n = config->batch * config->seq;
        f->values[s] = calloc(f->graph->count, sizeof *f->values[s]);
        for (size_t i = 0; i < f->graph->count; i++)
            f->values[s][i] = fixture_array(ls_graph_elements(f->graph, (int)i), &state);
        f->tokens[s] = malloc(n * sizeof *f->tokens[s]);
        f->targets[s] = malloc(n * sizeof *f->targets[s]);
        for (size_t i = 0; i < n; i++) {
            f->tokens[s][i] = (int32_t)((i * 7 + s) % config->vocab);
            f->targets[s][i] = i % 5 == 0 ? LS_IGNORE : (int32_t)((i * 7 + 7 + s) % config->vocab);
        }
    }
}

static inline void golden_fixture_end(golden_fixture *f)
{
    for (size_t p = 0; p < f->table->count; p++) free(f->params[p]);
    free(f->params);
    for (size_t s = 0; s < FIXTURE_STEPS && f->values[s]; s++) {
        for (size_t i = 0; i < f->graph->count; i++) free(f->values[s][i]);
        free(f->values[s]);
        free(f->tokens[s]);
        free(f->targets[s]);
    }
    ls_graph_destroy(&f->graph);
    ls_param_table_destroy(&f->table);
}

static inline int fixture_node(const golden_fixture *f, const char *name)
{
    const int node = ls_graph_find(f->graph, name);
    ck_assert_msg(node >= 0, "the model has no %s", name);
    return node;
}

/* step: counted from first_step. */
static inline double *fixture_values(const golden_fixture *f, size_t step, const char *name)
{
    return f->values[step][fixture_node(f, name)];
}

/* The directory is to lack a tensor. */
static inline void fixture_drop(golden_fixture *f, size_t step, const char *name)
{
    const int node = fixture_node(f, name);
    free(f->values[step][node]);
    f->values[step][node] = NULL;
}

/* ---- files ---- */

static inline const char *fixture_path(const char *folder, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* As a file's bytes; the caller frees them. F16 and BF16 by cutting, for values that fit. */
static inline void *fixture_round(const double *values, size_t count, ls_dtype dtype)
{
    unsigned char *bytes = malloc(count * ls_dtype_bytes(dtype) + 1);
    for (size_t i = 0; i < count; i++) {
        const float narrow = (float)values[i];
        uint32_t bits;
        memcpy(&bits, &narrow, sizeof bits);
        if (dtype == LS_F64) memcpy(bytes + 8 * i, &values[i], 8);
        if (dtype == LS_F32) memcpy(bytes + 4 * i, &narrow, 4);
        const uint16_t brain = (uint16_t)(bits >> 16);
        if (dtype == LS_BF16) memcpy(bytes + 2 * i, &brain, 2);
        const uint32_t exponent = (bits >> 23 & 255) > 112 ? (bits >> 23 & 255) - 112 : 0;
        const uint16_t half = (uint16_t)((bits >> 16 & 0x8000) |
                                         (exponent ? exponent << 10 | (bits >> 13 & 0x3ff) : 0u));
        if (dtype == LS_F16) memcpy(bytes + 2 * i, &half, 2);
    }
    return bytes;
}

static inline ls_dtype fixture_dtype(const golden_fixture *f, size_t node)
{
    return f->graph->nodes[node].make == LS_MAKE_GRADIENT_NORM ? LS_F64 : f->run.dtype;
}

static inline const char *fixture_phase(size_t phase)
{
    return phase == LS_GRAPH_FORWARD    ? "forward"
           : phase == LS_GRAPH_BACKWARD ? "backward"
                                        : "update";
}

/* The nodes of a phase (3: all of them, as the truth) in one file; nothing when there are none. */
static inline void fixture_write_phase(const golden_fixture *f, const char *folder, size_t phase)
{
    ls_safetensors_writer *writer = NULL;
    char file[64], name[LS_TENSOR_NAME];
    snprintf(file, sizeof file, "%s.safetensors", phase == 3 ? "truth" : fixture_phase(phase));
    for (int pass = 0; pass < 2; pass++)
        for (size_t s = 0; s < f->steps; s++)
            for (size_t i = 0; i < f->graph->count; i++) {
                const ls_graph_node *node = &f->graph->nodes[i];
                const size_t count = ls_graph_elements(f->graph, (int)i);
                const ls_dtype dtype = phase == 3 ? LS_F64 : fixture_dtype(f, i);
                uint64_t dims[LS_NODE_DIMS] = {0};
                if ((phase < 3 && node->phase != phase) || !f->values[s][i]) continue;
                if (!writer) fixture_ok(ls_safetensors_create(&writer, fixture_path(folder, file)));
                for (int d = 0; d < node->n_dims; d++) dims[d] = node->dims[d];
                ls_tensor_name_write(name, f->first_step + s, -1, node->name);
                if (pass == 0)
                    fixture_ok(ls_safetensors_declare(writer, name, dtype, node->n_dims, dims));
                void *bytes = pass == 1 ? fixture_round(f->values[s][i], count, dtype) : NULL;
                if (pass == 1)
                    fixture_ok(ls_safetensors_write(writer, bytes, count * ls_dtype_bytes(dtype)));
                free(bytes);
            }
    if (writer) fixture_ok(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

/* Bare weights; with a first step above 0 the moments too, all 0. */
static inline void fixture_write_weights(const golden_fixture *f, const char *folder)
{
    static const char *const prefixes[] = {"", "optimizer.m.", "optimizer.v."};
    const int arrays = f->first_step > 0 ? 3 : 1;
    ls_safetensors_writer *writer = NULL;
    char name[128], step[24];
    fixture_ok(ls_safetensors_create(&writer, fixture_path(folder, "weights.safetensors")));
    snprintf(step, sizeof step, "%llu", (unsigned long long)f->first_step);
    fixture_ok(ls_safetensors_add_metadata(writer, "step", step));
    for (int pass = 0; pass < 2; pass++)
        for (int array = 0; array < arrays; array++)
            for (size_t p = 0; p < f->table->count; p++) {
                const ls_param *param = &f->table->params[p];
                const uint64_t dims[2] = {param->dims[0], param->dims[1]};
                const size_t count = ls_param_elements(param);
                snprintf(name, sizeof name, "%s%s", prefixes[array], param->name);
                if (pass == 0) {
                    fixture_ok(
                        ls_safetensors_declare(writer, name, f->run.dtype, param->n_dims, dims));
                    continue;
                }
                const size_t size = count * ls_dtype_bytes(f->run.dtype);
                void *bytes = fixture_round(f->params[p], count, f->run.dtype);
                if (array > 0) memset(bytes, 0, size);
                fixture_ok(ls_safetensors_write(writer, bytes, size));
                free(bytes);
            }
    fixture_ok(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

static inline void fixture_write_batch(const golden_fixture *f, const char *folder)
{
    ls_safetensors_writer *writer = NULL;
    const uint64_t dims[2] = {f->run.batch, f->run.config.seq};
    char name[LS_TENSOR_NAME];
    fixture_ok(ls_safetensors_create(&writer, fixture_path(folder, "batch.safetensors")));
    for (int pass = 0; pass < 2; pass++)
        for (size_t s = 0; s < f->steps; s++)
            for (int k = 0; k < 2; k++) {
                ls_tensor_name_write(name, f->first_step + s, -1, k == 0 ? "tokens" : "targets");
                if (pass == 0)
                    fixture_ok(ls_safetensors_declare(writer, name, LS_I32, 2, dims));
                else
                    fixture_ok(ls_safetensors_write(writer, k == 0 ? f->tokens[s] : f->targets[s],
                                                    dims[0] * dims[1] * sizeof(int32_t)));
            }
    fixture_ok(ls_safetensors_commit(writer));
    ls_safetensors_destroy(&writer);
}

/* ---- the manifest ---- */

static inline json_t *fixture_file_entry(const char *folder, const char *name)
{
    char hex[65];
    ls_digest *digest = NULL;
    FILE *file = fopen(fixture_path(folder, name), "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    const size_t size = (size_t)ftell(file);
    unsigned char *bytes = malloc(size + 1);
    rewind(file);
    ck_assert_uint_eq(fread(bytes, 1, size, file), size);
    fclose(file);
    fixture_ok(ls_digest_create(&digest));
    fixture_ok(ls_digest_add(digest, LS_U8, bytes, size));
    fixture_ok(ls_digest_finish(digest, hex));
    ls_digest_destroy(&digest);
    free(bytes);
    return json_pack("{s:I, s:s}", "bytes", (json_int_t)size, "sha256", hex);
}

/* Calculates "digest" again, after "tensors" was changed. */
static inline void fixture_digest(json_t *manifest)
{
    char hex[65];
    ls_digest *digest = NULL;
    const json_t *tensors = json_object_get(manifest, "tensors");
    fixture_ok(ls_digest_create(&digest));
    for (size_t i = 0; i < json_array_size(tensors); i++)
        fixture_ok(ls_digest_add(
            digest, LS_U8, json_string_value(json_object_get(json_array_get(tensors, i), "sha256")),
            64));
    fixture_ok(ls_digest_finish(digest, hex));
    ls_digest_destroy(&digest);
    json_object_set_new(manifest, "digest", json_string(hex));
}

static inline json_t *fixture_tensor_entry(const golden_fixture *f, size_t step, size_t i,
                                           size_t order)
{
    const ls_graph_node *node = &f->graph->nodes[i];
    const ls_dtype dtype = fixture_dtype(f, i);
    const size_t count = ls_graph_elements(f->graph, (int)i);
    char name[LS_TENSOR_NAME], file[64], hex[65];
    ls_digest *digest = NULL;
    json_t *shape = json_array();
    void *bytes = fixture_round(f->values[step][i], count, dtype);
    fixture_ok(ls_digest_create(&digest));
    fixture_ok(ls_digest_add(digest, dtype, bytes, count));
    fixture_ok(ls_digest_finish(digest, hex));
    ls_digest_destroy(&digest);
    free(bytes);
    for (int d = 0; d < node->n_dims; d++)
        json_array_append_new(shape, json_integer((json_int_t)node->dims[d]));
    snprintf(file, sizeof file, "%s.safetensors", fixture_phase(node->phase));
    ls_tensor_name_write(name, f->first_step + step, -1, node->name);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:s, s:b, s:s, s:f, s:f, s:f}", "name",
                     name, "file", file, "phase", fixture_phase(node->phase), "order",
                     (json_int_t)order, "step", (json_int_t)(f->first_step + step), "dtype",
                     dtype == LS_F64 ? "f64" : "f32", "shape", shape, "dims", node->dim_names,
                     "given", 0, "sha256", hex, "truth_error", 1e-7, "bound", 1e-5, "bound_rms",
                     1e-6);
}

static inline json_t *fixture_layout_json(const ls_layout *layout)
{
    char text[LS_LAYOUT_TEXT];
    json_t *stages = json_array();
    for (int i = 0; i < layout->given; i++)
        json_array_append_new(stages, json_integer(layout->stage_layers[i]));
    ls_layout_describe(layout, text, sizeof text);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:s, s:s, s:o}", "text", text, "tp",
                     layout->tp, "cp", layout->cp, "dp", layout->dp, "pp", layout->pp, "sp",
                     (int)layout->sp, "virtual_stages", layout->virtual_stages, "micro_batches",
                     layout->micro_batches, "schedule", ls_schedule_kind_name(layout->schedule),
                     "recompute", ls_recompute_name(layout->recompute), "stage_layers", stages);
}

/* First and end of the micro-batches, data-parallel rank by data-parallel rank. */
static inline json_t *fixture_parts_json(const golden_fixture *f)
{
    json_t *parts = json_array();
    const ls_layout *layout = &f->run.layout;
    for (int r = 0; r < layout->dp; r++)
        for (int m = 0; m < layout->micro_batches; m++) {
            const ls_share own = ls_share_of(f->run.batch, (size_t)layout->dp, (size_t)r);
            const ls_share part = ls_share_of(own.count, (size_t)layout->micro_batches, (size_t)m);
            const json_int_t first = (json_int_t)(own.first + part.first);
            json_array_append_new(parts,
                                  json_pack("[I, I]", first, first + (json_int_t)part.count));
        }
    return parts;
}

static inline json_t *fixture_manifest(const golden_fixture *f, const char *folder)
{
    const ls_run *run = &f->run;
    char *model = NULL;
    size_t order = 0;
    fixture_ok(ls_config_to_json(&run->config, &model));
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:s, s:{s:s, s:s}, s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:I}",
                  "format", "lockstep golden", "version", LS_GOLDEN_VERSION, "program", "a test",
                  "kind", f->kind == LS_GOLDEN_TRAINING ? "training" : "integers", "contract",
                  "name", ls_contract_name(), "digest", ls_contract_digest(), "model",
                  json_loads(model, 0, NULL), "layout", fixture_layout_json(&run->layout), "engine",
                  ls_engine_name(run->engine), "dtype", run->dtype == LS_F64 ? "f64" : "f32",
                  "seed", (json_int_t)run->seed, "batch", (json_int_t)run->batch, "first_step",
                  (json_int_t)f->first_step, "steps", (json_int_t)f->steps);
    ck_assert_ptr_nonnull(root);
    free(model);
    json_object_set_new(root, "optimizer",
                        json_pack("{s:s, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:f, s:f}", "name",
                                  run->optimizer == LS_SGD ? "sgd" : "adamw", "lr", run->lr,
                                  "lr_floor", run->lr_floor, "warmup", (json_int_t)run->warmup,
                                  "lr_total", (json_int_t)run->lr_total, "beta1", run->beta1,
                                  "beta2", run->beta2, "eps", run->adam_eps, "weight_decay",
                                  run->weight_decay, "clip", run->clip));
    json_object_set_new(root, "micro_batch_sequences", fixture_parts_json(f));
    json_object_set_new(root, "files",
                        json_pack("{s:o, s:o}", "weights.safetensors",
                                  fixture_file_entry(folder, "weights.safetensors"),
                                  "batch.safetensors",
                                  fixture_file_entry(folder, "batch.safetensors")));
    json_t *tensors = json_array();
    for (size_t s = 0; s < f->steps; s++)
        for (size_t i = 0; i < f->graph->count; i++)
            if (f->values[s][i])
                json_array_append_new(tensors, fixture_tensor_entry(f, s, i, order++));
    json_object_set_new(root, "tensors", tensors);
    fixture_digest(root);
    return root;
}

static inline void fixture_manifest_digest(json_t *manifest)
{
    char digest[65];
    fixture_ok(ls_manifest_digest(manifest, digest));
    json_object_set_new(manifest, LS_MANIFEST_DIGEST, json_string(digest));
}

/* Makes the directory, or writes into the one that is there. */
static inline void golden_fixture_write(const golden_fixture *f, const char *folder)
{
    mkdir(folder, 0777);
    fixture_write_weights(f, folder);
    fixture_write_batch(f, folder);
    for (size_t phase = 0; phase < 3; phase++) fixture_write_phase(f, folder, phase);
    if (f->truth) fixture_write_phase(f, folder, 3);
    json_t *manifest = fixture_manifest(f, folder);
    if (f->stale) fixture_manifest_digest(manifest);
    if (f->change) f->change(manifest, f->context);
    if (!f->stale) fixture_manifest_digest(manifest);
    ck_assert_int_eq(
        json_dump_file(manifest, fixture_path(folder, "manifest.json"), JSON_INDENT(1)), 0);
    json_decref(manifest);
}

#endif
