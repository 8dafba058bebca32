/* check_json.c - a judgement for programs: the same facts. */
#include "check_facts.h"

#include <math.h>

#include "facts.h"
#include "lockstep/base/show.h"

static const char *format_name(ls_dtype format)
{
    static const char *const names[] = {
        [LS_F32] = "f32", [LS_F64] = "f64", [LS_F16] = "f16", [LS_BF16] = "bf16"};
    return names[format];
}

/* A name that may have any bytes. */
static json_t *shown(const char *text)
{
    return json_string(ls_show(text));
}

static json_t *layout_text(const ls_layout *layout)
{
    char text[LS_LAYOUT_TEXT];
    ls_layout_describe(layout, text, sizeof text);
    return json_string(text);
}

static json_t *index_array(const ls_graph_node *node, size_t index)
{
    json_t *array = json_array();
    for (int d = node->n_dims; d-- > 0; index /= node->dims[d])
        json_array_insert_new(array, 0, json_integer((json_int_t)(index % node->dims[d])));
    return array;
}

/* The value, and its bits where decimals round. */
static void set_value(json_t *object, const char *key, double value)
{
    char hex_key[64], hex[64];
    json_object_set_new(object, key, json_number(value));
    snprintf(hex_key, sizeof hex_key, "%s_hex", key);
    snprintf(hex, sizeof hex, "%a", value);
    json_object_set_new(object, hex_key, json_string(hex));
}

static json_t *json_judged(const checked *c, const ls_judged *judged)
{
    static const char *const phases[] = {"forward", "backward", "update"};
    const ls_graph_node *node = &c->golden->graph->nodes[judged->golden->node];
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", judged->golden->name, "phase",
                  phases[node->phase], "verdict", ls_verdict_name(judged->verdict), "dtype",
                  format_name(judged->candidate->dtype), "format", format_name(judged->format));
    if (judged->candidate->replicas_differ) {
        json_t *replicas = json_pack("{s:[i, i], s:o}", "ranks", judged->candidate->replicas[0],
                                     judged->candidate->replicas[1], "index",
                                     index_array(node, judged->candidate->replica_index));
        set_value(replicas, "one", judged->candidate->replica_values[0]);
        set_value(replicas, "other", judged->candidate->replica_values[1]);
        json_object_set_new(object, "replicas_differ", replicas);
    }
    if (judged->verdict == LS_EQUAL || judged->differing == 0) return object;
    json_t *more = json_pack(
        "{s:s, s:b, s:b, s:b, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "local",
        ls_local_name(judged->local), "within", (int)judged->within, "aside", (int)judged->aside,
        "misplaced", (int)judged->misplaced, "precision", format_name(judged->precision),
        "differing", (json_int_t)judged->differing, "outside", (json_int_t)judged->outside, "first",
        index_array(node, judged->first), "error", json_number(judged->error), "bound",
        json_number(judged->bound), "max_ulps", json_u64(judged->max_ulps));
    json_t *run = json_pack(
        "{s:o, s:o, s:o, s:b, s:b, s:o, s:b}", "error_rms", json_number(judged->error_rms),
        "bound_rms", json_number(judged->bound_rms), "rounding", json_number(judged->size),
        "unjudged", (int)judged->unjudged, "zero_on_paper", (int)judged->zero_on_paper,
        "precision_from", judged->source ? json_string(judged->source->name) : json_null(),
        "precision_assumed", (int)judged->assumed);
    json_object_update(more, run);
    json_decref(run);
    set_value(more, "candidate", judged->candidate_value);
    set_value(more, "golden", judged->golden_value);
    set_value(more, "right", judged->right_value);
    if (judged->local != LS_LOCAL_UNKNOWN) {
        json_object_set_new(more, "worst", index_array(node, judged->worst));
        json_object_set_new(more, "local_error", json_number(judged->local_error));
        json_object_set_new(more, "local_bound", json_number(judged->local_bound));
    }
    json_object_update(object, more);
    json_decref(more);
    return object;
}

/* The format that --computed should say, if what is wrong was computed as most tensors were. */
static json_t *json_finer(const checked *c, const ls_finding *finding)
{
    return ls_finding_is_finer(finding) ? json_string(format_name(c->judgement->mostly))
                                        : json_null();
}

static json_t *json_finding(const checked *c, const ls_finding *finding)
{
    const ls_suspicion *s = &finding->suspicion;
    json_t *tensors = json_array(), *missing = json_array(), *before = json_array();
    json_t *also = json_array();
    const char *remedy = ls_mistake_of(s->cause)->remedy;
    for (size_t i = 0; i < finding->count; i++)
        json_array_append_new(tensors, json_string(finding->tensors[i]->golden->name));
    for (size_t i = 0; i < finding->n_missing; i++)
        json_array_append_new(missing, json_string(finding->missing[i]->name));
    for (size_t i = 0; i < finding->n_before; i++)
        json_array_append_new(before, json_string(finding->before[i]->golden->name));
    for (size_t i = 0; i < s->also && i < LS_ALSO; i++)
        json_array_append_new(also, json_string(ls_mistake_of(s->others[i])->key));
    const bool known = s->cause != LS_CAUSE_NONE;
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "tensor",
                     finding->tensor->golden->name, "tensors", tensors, "cause",
                     known ? json_string(ls_mistake_of(s->cause)->key) : json_null(), "text",
                     known ? json_string(ls_mistake_of(s->cause)->sentence) : json_null(),
                     "evidence", s->evidence[0] ? shown(s->evidence) : json_null(), "also", also,
                     "remedy", known && remedy ? json_string(remedy) : json_null(), "missing",
                     missing, "before", before, "if_computed", json_finer(c, finding));
}

static json_t *json_dimension(const ls_inspection_dimension *of)
{
    json_t *blocks = json_array();
    for (size_t i = 0; i < of->blocks; i++)
        json_array_append_new(blocks, json_integer((json_int_t)of->in_block[i]));
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "touched", (json_int_t)of->touched, "first",
                     (json_int_t)of->first, "last", (json_int_t)of->last, "period",
                     (json_int_t)of->period, "in_block", blocks);
}

static json_t *json_look(const checked *c)
{
    const ls_inspection *look = c->look;
    const ls_graph_node *node = &c->golden->graph->nodes[look->judged->golden->node];
    char operation[OPERATION_TEXT];
    json_t *worst = json_array(), *dimensions = json_array(), *grid = json_array();
    json_t *shape = json_array();
    for (int d = 0; d < node->n_dims; d++) {
        json_array_append_new(shape, json_integer((json_int_t)node->dims[d]));
        json_array_append_new(dimensions, json_dimension(&look->dimensions[d]));
    }
    for (size_t i = 0; i < look->n_worst; i++) {
        json_t *one = json_pack("{s:o}", "index", index_array(node, look->worst[i]));
        set_value(one, "candidate", look->candidate[look->worst[i]]);
        set_value(one, "golden", look->golden[look->worst[i]]);
        if (look->right) {
            set_value(one, "right", look->right[look->worst[i]]);
            json_object_set_new(one, "bound", json_number(look->bound[look->worst[i]]));
        }
        json_array_append_new(worst, one);
    }
    for (size_t r = 0; r < look->grid_rows; r++) {
        json_t *row = json_array();
        for (size_t k = 0; k < look->grid_columns; k++)
            json_array_append_new(row, json_real(look->share[r * look->grid_columns + k]));
        json_array_append_new(grid, row);
    }
    return json_pack(
        "{s:o, s:o, s:s, s:s, s:I, s:b, s:b, s:o, s:o, s:o, s:I, s:I}", "tensor",
        json_judged(c, look->judged), "shape", shape, "dims", node->dim_names, "operation",
        operation_text(c->golden->graph, look->judged->golden->node, operation), "off",
        (json_int_t)look->off, "off_is_outside", (int)look->off_is_outside, "right_is_local",
        (int)look->right_is_local, "worst", worst, "dimensions", dimensions, "grid", grid,
        "cell_rows", (json_int_t)look->cell_rows, "cell_columns", (json_int_t)look->cell_columns);
}

ls_status print_check_json(const checked *c)
{
    const ls_judgement *j = c->judgement;
    const ls_findings *f = c->findings;
    const ls_golden *golden = c->golden;
    json_t *tensors = json_array(), *findings = json_array();
    for (size_t i = 0; i < j->count; i++)
        json_array_append_new(tensors, json_judged(c, &j->tensors[i]));
    for (size_t i = 0; i < f->count; i++)
        json_array_append_new(findings, json_finding(c, &f->list[i]));
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:s, s:s, s:o, s:s, s:s, s:o, s:I, s:I, s:o, s:I}", "command", "check",
        "golden", shown(golden->path), "candidate", shown(c->candidate->path), "kind",
        golden->kind == LS_GOLDEN_INTEGERS ? "integers" : "training", "model",
        ls_show(golden->run.config.name), "layout", layout_text(&golden->run.layout), "engine",
        ls_engine_name(golden->run.engine), "dtype", format_name(golden->run.dtype), "seed",
        json_u64(golden->run.seed), "first_step", (json_int_t)golden->first_step, "steps",
        (json_int_t)golden->steps, "candidate_layout",
        c->candidate->has_layout ? layout_text(&c->candidate->layout) : json_null(), "passed_over",
        (json_int_t)c->candidate->ignored);
    json_t *more =
        json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I}", "count", (json_int_t)j->count,
                  "equal", (json_int_t)j->equal, "explained", (json_int_t)j->explained, "different",
                  (json_int_t)j->different, "first",
                  j->first ? json_string(j->first->golden->name) : json_null(), "blame",
                  f->blame ? json_string(f->blame->golden->name) : json_null(), "findings",
                  findings, "tensors", tensors, "unexamined", (json_int_t)f->unexamined,
                  "unrelated", (int)j->unrelated, "later", (json_int_t)f->later);
    if (more) {
        json_object_set_new(more, "wanted", json_integer((json_int_t)j->wanted));
        json_object_set_new(more, "unjudged", json_integer((json_int_t)j->unjudged));
    }
    if (object && c->look) json_object_set_new(object, "show", json_look(c));
    if (!object || !more || json_object_update(object, more) != 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(more);
    return print_json(object);
}
