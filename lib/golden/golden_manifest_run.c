/* golden_manifest_run.c - what a manifest says of the run: model, layout, optimizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error_record.h"
#include "base/json_text.h"
#include "lockstep/base/show.h"
#include "golden/golden_json.h"
#include "golden/golden_manifest.h"

/* Of any degree; what is allowed is said later, when it is known. */
enum { MOST = 1 << 20 };

static ls_status read_model(ls_config *config, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *model;
    char *text = NULL, label[600];
    LS_TRY(ls_json_object(at, "model", &model));
    text = ls_json_write(model, JSON_COMPACT);
    if (!text) LS_FAIL(LS_ERR_MEMORY, "%s: no memory for its model", ls_show(at->file));
    snprintf(label, sizeof label, "%.500s: model", at->file);
    LS_TRY(ls_config_from_json(label, text, config));
exit:
    free(text);
    return status;
}

/* The text is for people; it must say what the fields do. */
static ls_status check_text(const ls_layout *layout, const ls_json_at *at)
{
    ls_status status = LS_OK;
    ls_layout said;
    const char *text;
    char label[600], fields[LS_LAYOUT_TEXT], again[LS_LAYOUT_TEXT];
    LS_TRY(ls_json_string(at, "text", &text));
    snprintf(label, sizeof label, "%.500s: layout.text", at->file);
    LS_TRY(ls_layout_parse(ls_show(label), text, &said));
    ls_layout_describe(layout, fields, sizeof fields);
    ls_layout_describe(&said, again, sizeof again);
    if (strcmp(fields, again) != 0)
        LS_FAIL(LS_ERR_INPUT, "%s: layout.text \"%s\": the fields beside it say \"%.200s\"",
                ls_show(at->file), ls_show(text), fields);
exit:
    return status;
}

static ls_status read_strategies(ls_layout *layout, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const json_t *list;
    LS_TRY(ls_json_array(at, "strategies", &list));
    if (json_array_size(list) > LS_MAX_STRATEGIES)
        LS_FAIL(LS_ERR_INPUT, "%s: layout.strategies has %zu entries; at most %d",
                ls_show(at->file), json_array_size(list), LS_MAX_STRATEGIES);
    for (size_t i = 0; i < json_array_size(list); i++) {
        ls_strategy *s = &layout->strategies[i];
        const ls_json_at entry = {at->file, "layout.strategies.", json_array_get(list, i)};
        if (!json_is_object(entry.object))
            LS_FAIL(LS_ERR_INPUT, "%s: layout.strategies[%zu] is no object", ls_show(at->file), i);
        LS_TRY(ls_json_int(&entry, "layer", 0, LS_NET_LAYERS - 1, &s->layer));
        LS_TRY(ls_json_int(&entry, "samples", 1, MOST, &s->grid.samples));
        LS_TRY(ls_json_int(&entry, "down", 1, MOST, &s->grid.down));
        LS_TRY(ls_json_int(&entry, "across", 1, MOST, &s->grid.across));
        LS_TRY(ls_json_int(&entry, "channels", 1, MOST, &s->grid.channels));
        layout->n_strategies = (int)i + 1;
    }
exit:
    return status;
}

/* Of a network. */
static ls_status read_net_layout(ls_layout *ret_layout, const ls_json_at *root)
{
    ls_status status = LS_OK;
    ls_layout layout = ls_layout_serial();
    const json_t *object;
    LS_TRY(ls_json_object(root, "layout", &object));
    const ls_json_at at = {root->file, "layout.", object};
    LS_TRY(ls_json_int(&at, "dp", 1, MOST, &layout.dp));
    LS_TRY(ls_json_int(&at, "down", 1, MOST, &layout.down));
    LS_TRY(ls_json_int(&at, "across", 1, MOST, &layout.across));
    LS_TRY(ls_json_int(&at, "channels", 1, MOST, &layout.channels));
    LS_TRY(ls_json_flag(&at, "overlap", &layout.overlap));
    LS_TRY(read_strategies(&layout, &at));
    LS_TRY(check_text(&layout, &at));
    *ret_layout = layout;
exit:
    return status;
}

static ls_status read_layout(ls_layout *ret_layout, const ls_json_at *root)
{
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved"};
    static const char *const modes[] = {"none", "selective", "layer", "stage"};
    ls_status status = LS_OK;
    ls_layout layout = ls_layout_serial();
    const json_t *object, *stages;
    int choice;
    LS_TRY(ls_json_object(root, "layout", &object));
    const ls_json_at at = {root->file, "layout.", object};
    LS_TRY(ls_json_int(&at, "tp", 1, MOST, &layout.tp));
    LS_TRY(ls_json_int(&at, "cp", 1, MOST, &layout.cp));
    LS_TRY(ls_json_int(&at, "dp", 1, MOST, &layout.dp));
    LS_TRY(ls_json_int(&at, "pp", 1, MOST, &layout.pp));
    LS_TRY(ls_json_flag(&at, "sp", &layout.sp));
    LS_TRY(ls_json_int(&at, "virtual_stages", 1, MOST, &layout.virtual_stages));
    LS_TRY(ls_json_int(&at, "micro_batches", 1, MOST, &layout.micro_batches));
    LS_TRY(ls_json_choice(&at, "schedule", schedules, 3, &choice));
    layout.schedule = (ls_schedule_kind)choice;
    LS_TRY(ls_json_choice(&at, "recompute", modes, 4, &choice));
    layout.recompute = (ls_recompute)choice;
    LS_TRY(ls_json_array(&at, "stage_layers", &stages));
    if (json_array_size(stages) > LS_MAX_STAGES)
        LS_FAIL(LS_ERR_INPUT, "%s: layout.stage_layers has %zu entries; at most %d",
                ls_show(at.file), json_array_size(stages), LS_MAX_STAGES);
    layout.given = (int)json_array_size(stages);
    for (int i = 0; i < layout.given; i++) {
        const json_t *value = json_array_get(stages, (size_t)i);
        const json_int_t layers = json_integer_value(value);
        if (!json_is_integer(value) || layers < 0 || layers > MOST)
            LS_FAIL(LS_ERR_INPUT, "%s: layout.stage_layers[%d] is not a whole number from 0 to %d",
                    ls_show(at.file), i, MOST);
        layout.stage_layers[i] = (int)layers;
    }
    LS_TRY(check_text(&layout, &at));
    *ret_layout = layout;
exit:
    return status;
}

static ls_status read_optimizer(ls_run *run, const ls_json_at *root)
{
    static const char *const names[] = {"adamw", "sgd"};
    ls_status status = LS_OK;
    const json_t *object;
    int choice;
    LS_TRY(ls_json_object(root, "optimizer", &object));
    const ls_json_at at = {root->file, "optimizer.", object};
    LS_TRY(ls_json_choice(&at, "name", names, 2, &choice));
    run->optimizer = (ls_optimizer)choice;
    LS_TRY(ls_json_real(&at, "lr", &run->lr));
    LS_TRY(ls_json_real(&at, "lr_floor", &run->lr_floor));
    LS_TRY(ls_json_count(&at, "warmup", 0, UINT32_MAX, &run->warmup));
    LS_TRY(ls_json_count(&at, "lr_total", 0, UINT32_MAX, &run->lr_total));
    LS_TRY(ls_json_real(&at, "beta1", &run->beta1));
    LS_TRY(ls_json_real(&at, "beta2", &run->beta2));
    if (!(run->beta1 < 1)) LS_TRY(ls_json_refuse(&at, "beta1", "a number from 0 to below 1"));
    if (!(run->beta2 < 1)) LS_TRY(ls_json_refuse(&at, "beta2", "a number from 0 to below 1"));
    LS_TRY(ls_json_real(&at, "eps", &run->adam_eps));
    LS_TRY(ls_json_real(&at, "weight_decay", &run->weight_decay));
    LS_TRY(ls_json_real(&at, "clip", &run->clip));
exit:
    return status;
}

/* A number, or from 2^63 on the string of its digits. */
static ls_status read_seed(uint64_t *ret_seed, const ls_json_at *at)
{
    ls_status status = LS_OK;
    const char *text = json_string_value(json_object_get(at->object, "seed"));
    uint64_t seed = 0;
    bool good = text && *text;
    if (!text) return ls_json_count(at, "seed", 0, INT64_MAX, ret_seed);
    for (const char *c = text; good && *c; c++) {
        const uint64_t digit = (uint64_t)(*c - '0');
        good = *c >= '0' && *c <= '9' && seed <= (UINT64_MAX - digit) / 10;
        if (good) seed = 10 * seed + digit;
    }
    if (!good) LS_TRY(ls_json_refuse(at, "seed", "a whole number below 2^64"));
    *ret_seed = seed;
exit:
    return status;
}

/* Puts the file's name before the text of a failure. */
static ls_status in_file(ls_status status, const char *file)
{
    char prefix[600];
    if (status == LS_OK) return status;
    snprintf(prefix, sizeof prefix, "%s: ", ls_show(file));
    return ls_error_adopt(ls_error_current(), prefix);
}

ls_status ls_manifest_read_run(ls_manifest *manifest, const struct ls_json_at *at)
{
    static const char *const engines[] = {"portable", "openblas", "plain"};
    static const char *const dtypes[] = {"f32", "f64"};
    ls_status status = LS_OK;
    ls_config config;
    ls_run run;
    uint64_t batch, steps;
    int choice;
    LS_TRY(read_model(&config, at));
    ls_run_defaults(&run, &config);
    LS_TRY((config.kind == LS_MODEL_NET ? read_net_layout : read_layout)(&run.layout, at));
    const char *engine = NULL;
    LS_TRY(ls_json_choice(at, "engine", engines, 3, &choice));
    engine = engines[choice];
    LS_TRY(ls_engine_parse(engine, &run.engine));
    LS_TRY(ls_json_choice(at, "dtype", dtypes, 2, &choice));
    run.dtype = choice == 0 ? LS_F32 : LS_F64;
    LS_TRY(read_seed(&run.seed, at));
    run.seed_given = true;
    LS_TRY(ls_json_count(at, "batch", 1, 1 << 20, &batch));
    run.batch = (size_t)batch;
    LS_TRY(ls_json_count(at, "first_step", 0, UINT32_MAX - 1, &manifest->first_step));
    LS_TRY(ls_json_count(at, "steps", 1, UINT32_MAX - manifest->first_step, &steps));
    manifest->steps = (size_t)steps;
    run.steps = manifest->first_step + steps;
    LS_TRY(read_optimizer(&run, at));
    LS_TRY(in_file(ls_run_check(&run), at->file));
    manifest->run = run;
exit:
    return status;
}
