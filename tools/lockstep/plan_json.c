/* plan_json.c - a plan for programs. */
#include <inttypes.h>

#include "plan_facts.h"

static json_t *json_group(const planned *p, int group)
{
    const ls_rank_plan *rank = &p->plan->rank[p->groups.groups[group].first];
    json_t *ranks = json_array(), *bytes = json_object(), *comm = json_object();
    for (int r = 0; r < p->plan->ranks; r++)
        if (p->groups.of[r] == group) json_array_append_new(ranks, json_integer(r));
    for (int c = 0; c < LS_MEM_CATEGORIES; c++)
        json_object_set_new(bytes, ls_memory_category_name((ls_memory_category)c),
                            json_u64(rank->bytes[c]));
    for (int op = 0; op < LS_OP_COUNT; op++)
        if (rank->comm[op].calls > 0)
            json_object_set_new(comm, ls_operation_name((ls_operation)op),
                                json_pack("{s:o, s:o}", "calls", json_u64(rank->comm[op].calls),
                                          "bytes", json_u64(rank->comm[op].bytes)));
    return json_pack("{s:o, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "ranks", ranks, "layers",
                     json_u64(rank->layers), "sequences", json_u64(rank->sequences), "alive",
                     rank->live, "gradient_slots", json_u64(rank->gradient_slots), "peak_bytes",
                     bytes, "at_least_bytes", json_u64(rank->at_once), "communication", comm);
}

/* Of transformers. */
static json_t *json_layer(const planned *p)
{
    const ls_layer_elements *e = &p->layer;
    if (p->plan->config.kind == LS_MODEL_NET) return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "input", json_u64(e->input),
                     "norms", json_u64(e->norms), "statistics", json_u64(e->statistics),
                     "projections", json_u64(e->projections), "probabilities",
                     json_u64(e->probabilities), "context", json_u64(e->context), "residual",
                     json_u64(e->residual), "mlp", json_u64(e->mlp));
}

ls_status print_plan_json(const planned *p)
{
    const ls_plan *plan = p->plan;
    double need = ls_plan_bytes(plan);
    json_t *groups = json_array();
    for (int g = 0; g < p->groups.count; g++) json_array_append_new(groups, json_group(p, g));
    json_t *bubble =
        json_pack("{s:o, s:o, s:s, s:o}", "over", json_integer(plan->bubble.over), "under",
                  json_integer(plan->bubble.under), "formula", bubble_formula_text(&plan->layout),
                  "share", json_number((double)plan->bubble.over / (double)plan->bubble.under));
    return print_json(json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "command",
        "plan", "command_line", p->settings->command_line, "version", LOCKSTEP_VERSION, "model",
        json_config(&plan->config), "parameters", json_u64(plan->parameters), "layout",
        json_layout(&plan->layout, &plan->config), "dtype", plan->dtype == LS_F64 ? "f64" : "f32",
        "batch", json_u64(plan->config.batch), "ranks", groups, "layer_elements", json_layer(p),
        "network_layers", json_net_layers(plan), "bubble", bubble, "at_least_bytes",
        json_number(need), "machine_bytes", json_number(p->machine_bytes), "fits",
        (int)(p->machine_bytes <= 0.0 || need <= p->machine_bytes)));
}
