/* facts_json.c - for programs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "facts.h"
#include "base/allocate.h"
#include "report/page_parts.h"

json_t *json_number(double value)
{
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

/* The bits, for programs that must not round: "0x1.63ap+2". */
static json_t *json_hex(double value)
{
    char text[64];
    snprintf(text, sizeof text, "%a", ls_shown(value));
    return json_string(text);
}

json_t *json_u64(uint64_t value)
{
    /* JSON's integers are signed here; a seed may need the last bit. */
    if (value <= INT64_MAX) return json_integer((json_int_t)value);
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return json_string(text);
}

json_t *json_step(const ls_step *step, ls_model_kind kind)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "step", json_u64(step->step), "loss",
                     json_number(step->loss), "loss_hex", json_hex(step->loss), "norm",
                     json_number(step->norm), "lr", json_number(step->lr),
                     kind == LS_MODEL_NET ? "images" : "tokens", json_u64(step->tokens), "ns",
                     json_u64(step->ns));
}

/* Layers of each stage, in order of the stages: an even partition too. */
static json_t *json_partition(const ls_layout *layout, const ls_config *config)
{
    size_t bounds[LS_MAX_STAGES + 1];
    json_t *array = json_array();
    ls_layout_stage_bounds(layout, config->layers, bounds);
    for (int s = 0; s < ls_layout_stages(layout); s++)
        json_array_append_new(array, json_integer((json_int_t)(bounds[s + 1] - bounds[s])));
    return array;
}

/* {"conv2": [4, 1, 1, 2]}: samples, down, across, channels. */
static json_t *json_strategies(const ls_layout *layout, const ls_net *net)
{
    json_t *object = json_object();
    for (int i = 0; i < layout->n_strategies; i++) {
        const ls_strategy *s = &layout->strategies[i];
        json_object_set_new(object, net->layers[s->layer].name,
                            json_pack("[i, i, i, i]", s->grid.samples, s->grid.down, s->grid.across,
                                      s->grid.channels));
    }
    return object;
}

static json_t *json_net_layout(const ls_layout *layout, const ls_net *net, const char *name)
{
    return json_pack("{s:s, s:i, s:i, s:[i, i], s:i, s:b, s:o}", "name", name, "ranks",
                     ls_layout_ranks(layout), "dp", layout->dp, "spatial", layout->down,
                     layout->across, "channel", layout->channels, "overlap", (int)layout->overlap,
                     "strategies", json_strategies(layout, net));
}

json_t *json_layout(const ls_layout *layout, const ls_config *config)
{
    char name[LS_LAYOUT_TEXT];
    ls_report_layout_name(config->kind, layout, name, sizeof name);
    if (config->kind == LS_MODEL_NET) return json_net_layout(layout, &config->net, name);
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:s, s:i, s:i, s:s, s:o}", "name", name,
                     "ranks", ls_layout_ranks(layout), "tp", layout->tp, "cp", layout->cp, "dp",
                     layout->dp, "pp", layout->pp, "sp", (int)layout->sp, "schedule",
                     ls_schedule_kind_name(layout->schedule), "virtual_stages",
                     layout->virtual_stages, "micro_batches", layout->micro_batches, "recompute",
                     ls_recompute_name(layout->recompute), "partition",
                     json_partition(layout, config));
}

json_t *json_config(const ls_config *config)
{
    char *text = NULL;
    json_t *object = NULL;
    if (ls_config_to_json(config, &text) == LS_OK) object = json_loads(text, 0, NULL);
    free(text);
    return object;
}

/* Adds what was trained on: "text", "text_bytes", or "images", "image_count". */
static json_t *with_data(json_t *object, const ls_report *report)
{
    const ls_run *run = &report->common;
    const bool net = run->config.kind == LS_MODEL_NET;
    if (object == NULL ||
        json_object_set_new(object, net ? "images" : "text",
                            json_string(ls_show(report->text_name))) != 0 ||
        json_object_set_new(object, net ? "image_count" : "text_bytes",
                            json_u64(net ? run->images->count : run->text->count)) != 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *json_run(const ls_report *report, const char *name)
{
    const ls_run *run = &report->common;
    json_t *contract =
        json_pack("{s:s, s:s}", "name", ls_contract_name(), "digest", ls_contract_digest());
    json_t *object = json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:s, s:o}", "command", name,
        "command_line", report->command, "version", LOCKSTEP_VERSION, "contract", contract, "model",
        json_config(&run->config), "parameters", json_u64(ls_param_table_elements(report->table)),
        "dtype", run->dtype == LS_F64 ? "f64" : "f32", "isa", ls_isa_name(ls_isa_current()), "seed",
        json_u64(run->seed), "steps", json_u64(run->steps), "batch", json_u64(run->batch),
        "optimizer", run->optimizer == LS_ADAMW ? "adamw" : "sgd", "lr", json_number(run->lr));
    return with_data(object, report);
}

static json_t *json_ranks(const ls_train_result *result)
{
    json_t *ranks = json_array();
    for (int r = 0; r < result->ranks; r++) {
        const ls_rank_report *rank = &result->rank[r];
        json_t *peak = json_object(), *comm = json_object();
        for (int c = 0; c < LS_MEM_CATEGORIES; c++)
            json_object_set_new(peak, ls_memory_category_name((ls_memory_category)c),
                                json_u64(rank->peak_bytes[c]));
        for (int op = 0; op < LS_OP_COUNT; op++) {
            if (rank->comm[op].calls == 0) continue;
            json_object_set_new(comm, ls_operation_name((ls_operation)op),
                                json_pack("{s:o, s:o}", "calls", json_u64(rank->comm[op].calls),
                                          "bytes", json_u64(rank->comm[op].bytes)));
        }
        json_array_append_new(ranks,
                              json_pack("{s:i, s:o, s:o, s:o}", "rank", r, "peak_bytes", peak,
                                        "total_peak_bytes", json_u64(rank->total_peak_bytes),
                                        "communication", comm));
    }
    return ranks;
}

json_t *json_result(const ls_train_result *result, ls_model_kind kind, bool with_ranks)
{
    double seconds = (double)result->ns * 1e-9;
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "first_step", json_u64(result->first_step),
        "last_step", json_u64(result->last_step), "first_loss", json_number(result->first_loss),
        "last_loss", json_number(result->last_loss), "seconds", json_number(seconds),
        kind == LS_MODEL_NET ? "images_per_second" : "tokens_per_second",
        json_number(seconds > 0.0 ? (double)result->tokens / seconds : 0.0), "digest",
        result->digest);
    if (object != NULL && with_ranks) json_object_set_new(object, "ranks", json_ranks(result));
    return object;
}

static json_t *json_losses(const ls_losses *losses)
{
    json_t *array = json_array();
    for (size_t i = 0; i < losses->count; i++)
        json_array_append_new(array, json_number(losses->value[i]));
    return array;
}

json_t *json_baseline(const ls_report_baseline *baseline, ls_model_kind kind)
{
    char text[128];
    ls_engine_describe(baseline->engine, text, sizeof text);
    json_t *truth = json_null();
    if (baseline->has_truth)
        truth = json_pack("{s:o, s:o, s:s, s:o, s:s}", "loss", json_number(baseline->truth.loss),
                          "gradient", json_number(baseline->truth.gradient), "gradient_tensor",
                          baseline->truth.gradient_tensor, "parameter",
                          json_number(baseline->truth.parameter), "parameter_tensor",
                          baseline->truth.parameter_tensor);
    json_t *undefined = json_null();
    if (baseline->undefined.found)
        undefined =
            json_pack("{s:o, s:s, s:s}", "step", json_u64(baseline->undefined.step), "phase",
                      baseline->undefined.phase, "tensor", baseline->undefined.tensor);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "engine", ls_engine_name(baseline->engine),
                     "engine_description", text, "losses", json_losses(&baseline->losses), "truth",
                     truth, "undefined_from", undefined, "result",
                     json_result(&baseline->result, kind, true));
}

/* No distance where one side is NaN. */
static json_t *json_ulps(uint64_t ulps)
{
    return ulps == UINT64_MAX ? json_null() : json_u64(ulps);
}

static json_t *json_departure(const ls_departure *d)
{
    json_t *index = json_array();
    for (int i = 0; i < d->n_index; i++) json_array_append_new(index, json_u64(d->index[i]));
    return json_pack("{s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "step",
                     json_u64(d->step), "phase", d->phase, "tensor", d->tensor, "index", index,
                     "serial", json_hex(d->difference.left), "here", json_hex(d->difference.right),
                     "ulps", json_ulps(d->difference.ulps), "max_ulps",
                     json_ulps(d->difference.max_ulps), "elements", json_u64(d->difference.count),
                     "tensors", json_u64(d->tensors));
}

static const char *verdict_of(const ls_report_run *run)
{
    return run->undefined ? "undefined" : run->equal ? "bit-exact" : "different";
}

json_t *json_compared(const ls_report *report, const ls_report_run *run)
{
    return json_pack(
        "{s:o, s:s, s:s, s:b, s:o, s:o}", "layout",
        json_layout(&run->layout, &report->common.config), "engine", ls_engine_name(run->engine),
        "status", verdict_of(run), "bit_exact", (int)run->equal, "departure",
        run->equal || run->undefined ? json_null() : json_departure(&run->departure), "result",
        json_result(&run->result, report->common.config.kind, report->n_runs <= LS_PAGE_ROWS));
}

ls_status print_json(json_t *object)
{
    ls_status status = LS_OK;
    if (object == NULL) LS_NO_MEMORY("the JSON object");
    json_dumpf(object, stdout, (size_t)(JSON_INDENT(1)) | (size_t)(JSON_REAL_PRECISION(17)));
    fputc('\n', stdout);
exit:
    json_decref(object);
    return status;
}
