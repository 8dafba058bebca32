/* dump_manifest.c - what a golden directory says of itself: manifest.json for programs, order.txt
 * to make it again. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"
#include "base/json_text.h"
#include "io/new_file.h"
#include "lockstep/numerics/digest.h"
#include "lockstep/partition/share.h"
#include "model/config_tree.h"
#include "golden/dump_parts.h"
#include "golden/golden_manifest.h"
#include "train/checkpoint_metadata.h"
#include "base/allocate.h"

/* Every function below returns NULL without memory; jansson passes a NULL on. */

static json_t *text(const char *value)
{
    return json_string(value ? value : "");
}

/* JSON has no infinity and no NaN. */
static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* Beyond 63 bits readers of JSON do not agree. */
static json_t *seed_of(uint64_t seed)
{
    char digits[32];
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    snprintf(digits, sizeof digits, "%" PRIu64, seed);
    return json_string(digits);
}

static json_t *contract(void)
{
    return json_pack("{s:s, s:s}", "name", ls_contract_name(), "digest", ls_contract_digest());
}

static json_t *model(const ls_config *config)
{
    json_t *object = NULL;
    return ls_config_to_tree(config, &object) == LS_OK ? object : NULL;
}

static json_t *strategies(const ls_layout *layout)
{
    json_t *array = json_array();
    for (int i = 0; i < layout->n_strategies; i++) {
        const ls_strategy *s = &layout->strategies[i];
        json_array_append_new(array,
                              json_pack("{s:i, s:i, s:i, s:i, s:i}", "layer", s->layer, "samples",
                                        s->grid.samples, "down", s->grid.down, "across",
                                        s->grid.across, "channels", s->grid.channels));
    }
    return array;
}

/* A network's axes. */
static json_t *net_layout(const ls_layout *layout)
{
    char words[LS_LAYOUT_TEXT];
    ls_layout_describe(layout, words, sizeof words);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:o}", "text", words, "dp", layout->dp, "down",
                     layout->down, "across", layout->across, "channels", layout->channels,
                     "overlap", layout->overlap, "strategies", strategies(layout));
}

static json_t *layout(const ls_layout *layout)
{
    char words[LS_LAYOUT_TEXT];
    json_t *stage_layers = json_array();
    ls_layout_describe(layout, words, sizeof words);
    for (int i = 0; i < layout->given; i++)
        json_array_append_new(stage_layers, json_integer(layout->stage_layers[i]));
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:b, s:i, s:i, s:s, s:s, s:o}", "text", words, "tp",
                     layout->tp, "cp", layout->cp, "dp", layout->dp, "pp", layout->pp, "sp",
                     layout->sp, "virtual_stages", layout->virtual_stages, "micro_batches",
                     layout->micro_batches, "schedule", ls_schedule_kind_name(layout->schedule),
                     "recompute", ls_recompute_name(layout->recompute), "stage_layers",
                     stage_layers);
}

static json_t *optimizer(const ls_run *run)
{
    return json_pack("{s:s, s:f, s:f, s:o, s:o, s:f, s:f, s:f, s:f, s:f}", "name",
                     ls_optimizer_name(run->optimizer), "lr", run->lr, "lr_floor", run->lr_floor,
                     "warmup", json_integer((json_int_t)run->warmup), "lr_total",
                     json_integer((json_int_t)run->lr_total), "beta1", run->beta1, "beta2",
                     run->beta2, "eps", run->adam_eps, "weight_decay", run->weight_decay, "clip",
                     run->clip);
}

/* What the run began with, and its batches. */
static json_t *start(const dump *d)
{
    const ls_dump_told *told = &d->summary.start;
    if (d->options->integers) return json_null();
    json_t *object = json_pack("{s:s, s:s}", "weights", ls_dump_source_name(told->weights), "batch",
                               ls_dump_source_name(told->batch));
    if (told->batch != LS_DUMP_TELLING) return object;
    json_t *more = json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)told->tokens, "targets",
                             (json_int_t)told->targets, "shard_ends", (json_int_t)told->ends,
                             "shard_ends_met", (json_int_t)told->ends_met);
    if (!object || !more || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return object;
}

/* First and end of each micro-batch, over all data-parallel ranks in order. */
static json_t *micro_batches(const ls_run *run)
{
    json_t *array = json_array();
    const size_t dp = (size_t)run->layout.dp, M = (size_t)run->layout.micro_batches;
    for (size_t r = 0; r < dp; r++) {
        const ls_share own = ls_share_of(run->batch, dp, r);
        for (size_t m = 0; m < M; m++) {
            const ls_share part = ls_share_of(own.count, M, m);
            const json_int_t first = (json_int_t)(own.first + part.first);
            json_array_append_new(array,
                                  json_pack("[I, I]", first, first + (json_int_t)part.count));
        }
    }
    return array;
}

static json_t *files(const dump *d)
{
    json_t *object = json_object();
    for (size_t i = 0; i < d->summary.files; i++) {
        const ls_dump_file *file = &d->summary.file[i];
        if (file->sha256[0])
            json_object_set_new(
                object, file->name,
                json_pack("{s:I, s:s}", "bytes", (json_int_t)file->bytes, "sha256", file->sha256));
    }
    return object;
}

static json_t *tensor(const dump_tensor *t, size_t order)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    char name[LS_TENSOR_NAME];
    json_t *shape = json_array();
    for (int i = 0; i < t->node->n_dims; i++)
        json_array_append_new(shape, json_integer((json_int_t)t->node->dims[i]));
    ls_tensor_name_write(name, t->step, -1, t->node->name);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:o, s:s, s:b, s:s, s:o, s:o, s:o}", "name",
                     name, "file", ls_dump_file_of(t), "phase", phases[t->node->phase], "order",
                     (json_int_t)order, "step", (json_int_t)t->step, "dtype",
                     t->dtype == LS_F64 ? "f64" : "f32", "shape", shape, "dims", t->node->dim_names,
                     "given", t->given, "sha256", t->sha256, "truth_error", number(t->truth_error),
                     "bound", number(t->bound), "bound_rms", number(t->bound_rms));
}

static json_t *tensors(const dump *d)
{
    json_t *array = json_array();
    for (size_t i = 0; i < ls_dump_tensor_count(d); i++)
        if (json_array_append_new(array, tensor(ls_dump_tensor(d, i), i)) != 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

/* ---- text ---- */

/* In one line; false: no memory. */
static bool put_json(FILE *out, const json_t *value)
{
    char *words = ls_json_write(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (words) fputs(words, out);
    free(words);
    return words != NULL;
}

/* A line per key, and one per tensor. */
static ls_status write_object(json_t *object, char **ret_text)
{
    ls_status status = LS_OK;
    const char *key, *before = "{\n ";
    json_t *value, *entry;
    size_t i, size = 0;
    bool whole = true;
    FILE *out = open_memstream(ret_text, &size);
    if (!out) LS_NO_MEMORY("the manifest");
    json_object_foreach(object, key, value)
    {
        fprintf(out, "%s\"%s\": ", before, key);
        before = ",\n ";
        if (strcmp(key, "tensors") != 0) {
            whole &= put_json(out, value);
            continue;
        }
        fputs("[", out);
        json_array_foreach(value, i, entry)
        {
            fputs(i == 0 ? "\n  " : ",\n  ", out);
            whole &= put_json(out, entry);
        }
        fputs("\n ]", out);
    }
    fputs("\n}\n", out);
    whole &= !ferror(out);
    if (fclose(out) != 0 || !whole) LS_NO_MEMORY("the manifest");
exit:
    return status;
}

static ls_status write_text(dump *d, const char *name, const char *words)
{
    ls_status status = LS_OK;
    ls_new_file *file = NULL;
    const char *path;
    LS_TRY(ls_dump_path(d, name, &path));
    LS_TRY(ls_new_file_create(&file, path));
    LS_TRY(ls_new_file_write(file, words, strlen(words)));
    LS_TRY(ls_new_file_commit(file));
    LS_TRY(ls_dump_note(d, name, path, false));
exit:
    ls_new_file_destroy(&file);
    return status;
}

ls_status ls_dump_write_manifest(dump *d, const char *digest)
{
    ls_status status = LS_OK;
    const ls_run *run = &d->run;
    char *words = NULL;
    json_t *all = json_object();
    const struct {
        const char *key;
        json_t *value;
    } entries[] = {
        {"format", text("lockstep golden")},
        {"version", json_integer(LS_GOLDEN_VERSION)},
        {"program", text(d->options->program ? d->options->program : "lockstep")},
        {"kind", text(d->options->integers ? "integers" : "training")},
        {"contract", contract()},
        {"model", model(&run->config)},
        {"layout",
         run->config.kind == LS_MODEL_NET ? net_layout(&run->layout) : layout(&run->layout)},
        {"engine", text(ls_engine_name(run->engine))},
        {"dtype", text(run->dtype == LS_F64 ? "f64" : "f32")},
        {"seed", seed_of(run->seed)},
        {"batch", json_integer((json_int_t)run->batch)},
        {"first_step", json_integer((json_int_t)d->first_step)},
        {"steps", json_integer((json_int_t)d->steps)},
        {"start", start(d)},
        {"optimizer", optimizer(run)},
        {"micro_batch_sequences", micro_batches(run)},
        {"digest", text(digest)},
        {"files", files(d)},
        {"tensors", tensors(d)},
    };
    bool whole = all != NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        whole &= json_object_set_new(all, entries[i].key, entries[i].value) == 0;
    if (whole) {
        char sum[65];
        LS_TRY(ls_manifest_digest(all, sum));
        whole = json_object_set_new(all, LS_MANIFEST_DIGEST, text(sum)) == 0;
    }
    if (!whole) LS_NO_MEMORY("the manifest");
    LS_TRY(write_object(all, &words));
    LS_TRY(write_text(d, "manifest.json", words));
exit:
    json_decref(all);
    free(words);
    return status;
}

ls_status ls_dump_write_order(dump *d, const char *digest)
{
    ls_status status = LS_OK;
    const ls_run *run = &d->run;
    const ls_dump_options *options = d->options;
    char layout_words[LS_LAYOUT_TEXT];
    ls_layout_describe(&run->layout, layout_words, sizeof layout_words);
    const size_t room = sizeof layout_words + 8192; /* all texts below are shortened to fit */
    char *order = NULL;
    LS_ROOM(order, room);
    const size_t used = ls_append(
        order, room, 0,
        "How to make this directory again\n\n"
        "command   %.4000s\n"
        "%-9s %.1000s\n"
        "program   %.100s\n"
        "contract  %s %s\n"
        "engine    %s\n"
        "model     %s, %s, batch %zu, seed %" PRIu64 ", steps %" PRIu64 " to %" PRIu64 "\n"
        "layout    %s\n",
        options->command ? options->command : "not said",
        run->config.kind == LS_MODEL_NET ? "images" : "text",
        options->text_name ? options->text_name : "not said",
        options->program ? options->program : "lockstep", ls_contract_name(), ls_contract_digest(),
        ls_engine_name(run->engine), run->config.name, run->dtype == LS_F64 ? "f64" : "f32",
        run->batch, run->seed, d->first_step, d->first_step + d->steps - 1, layout_words);
    if (digest)
        ls_append(order, room, used, "digest    %s\n\n%s", digest,
                  run->engine == LS_ENGINE_PORTABLE
                      ? "With this engine the digest is the same on every machine and in every "
                        "layout.\n"
                      : "With this engine the digest is the same in every layout on one machine; "
                        "another machine or\nversion of OpenBLAS gives another.\n");
    LS_TRY(write_text(d, "order.txt", order));
exit:
    free(order);
    return status;
}
