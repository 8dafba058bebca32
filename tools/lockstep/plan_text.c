/* plan_text.c - a plan for people. */
#include <inttypes.h>
#include <stdio.h>

#include "lockstep/parallel/layout/sharding.h"
#include "plan_facts.h"
#include "report/text_table.h"

enum { WIDE = 120 }; /* columns that a drawn schedule may take */

const char *bubble_formula_text(const ls_layout *layout)
{
    if (layout->pp == 1) return "0";
    if (layout->micro_batches == 1) return "(K - 1) / K";
    if (layout->virtual_stages == 1) return "(K - 1) / (M + K - 1)";
    if (layout->micro_batches >= layout->pp) return "(K - 1) / (V M + K - 1)";
    return "1 - V M / (V K + M - 1)";
}

static void print_head(FILE *file, const planned *p)
{
    const ls_plan *plan = p->plan;
    const ls_config *c = &plan->config;
    char number[LS_NUMBER_TEXT], text[256];
    const bool net = c->kind == LS_MODEL_NET;
    print_model(file, c, plan->parameters);
    ls_report_layout_name(c->kind, &plan->layout, text, sizeof text);
    fprintf(file, "layout  %s: %s\n", text, ls_count_text((uint64_t)plan->ranks, "rank", number));
    print_strategies(file, &plan->layout, c);
    fprintf(file, "step    %s, %s\n", ls_count_text(c->batch, net ? "image" : "sequence", number),
            plan->dtype == LS_F64 ? "f64" : "f32");
}

static ls_status print_memory(FILE *file, const planned *p)
{
    static const char *const limits[LS_MEM_CATEGORIES] = {
        [LS_MEM_TEMPORARY] = ">= ", [LS_MEM_COMMUNICATION] = "<= "};
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    char text[LS_NUMBER_TEXT];
    static const char *const of_stages[] = {"layers", "alive", "slots"};
    const bool net = p->plan->config.kind == LS_MODEL_NET; /* one stage, one micro-batch */
    LS_TRY(ls_text_table_create(&table, (net ? 2 : 5) + LS_MEM_CATEGORIES));
    LS_TRY(ls_text_table_add(table, "rank"));
    for (int i = 0; i < 3 && !net; i++) LS_TRY(ls_text_table_add(table, "%s", of_stages[i]));
    for (int c = 0; c < LS_MEM_CATEGORIES; c++)
        LS_TRY(ls_text_table_add(table, "%s", ls_memory_category_name((ls_memory_category)c)));
    LS_TRY(ls_text_table_add(table, "at once"));
    for (int g = 0; g < p->groups.count; g++) {
        const ls_rank_plan *rank = &p->plan->rank[p->groups.groups[g].first];
        LS_TRY(ls_text_table_add(table, "%s", p->groups.groups[g].text));
        if (!net) {
            LS_TRY(ls_text_table_add(table, "%zu", rank->layers));
            LS_TRY(ls_text_table_add(table, "%d", rank->live));
            LS_TRY(ls_text_table_add(table, "%" PRIu64, rank->gradient_slots));
        }
        for (int c = 0; c < LS_MEM_CATEGORIES; c++)
            LS_TRY(ls_text_table_add(table, "%s%s",
                                     limits[c] != NULL && rank->bytes[c] > 0 ? limits[c] : "",
                                     ls_number_text(rank->bytes[c], text)));
        LS_TRY(ls_text_table_add(table, ">= %s", ls_number_text(rank->at_once, text)));
    }
    if (net)
        fputs("\nPeak bytes of each rank:\n", file);
    else
        fputs(
            "\nPeak bytes of each rank; alive: micro-batches between forward and backward; slots: "
            "gradients\nthat wait for those of other micro-batches, and the one being made:\n",
            file);
    ls_text_table_print(table, file);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* The operations that some rank calls; how many. */
static size_t find_called(const ls_plan *plan, bool called[LS_OP_COUNT])
{
    size_t count = 0;
    for (int op = 0; op < LS_OP_COUNT; op++) {
        called[op] = false;
        for (int r = 0; r < plan->ranks && !called[op]; r++)
            called[op] = plan->rank[r].comm[op].calls > 0;
        count += called[op];
    }
    return count;
}

static ls_status print_traffic(FILE *file, const planned *p)
{
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    char text[LS_NUMBER_TEXT];
    bool called[LS_OP_COUNT];
    LS_TRY(ls_text_table_create(&table, 1 + 2 * find_called(p->plan, called)));
    LS_TRY(ls_text_table_add(table, "rank"));
    for (int op = 0; op < LS_OP_COUNT; op++) {
        if (!called[op]) continue;
        LS_TRY(ls_text_table_add(table, "%s", ls_operation_name((ls_operation)op)));
        LS_TRY(ls_text_table_add(table, "bytes"));
    }
    for (int g = 0; g < p->groups.count; g++) {
        const ls_rank_plan *rank = &p->plan->rank[p->groups.groups[g].first];
        LS_TRY(ls_text_table_add(table, "%s", p->groups.groups[g].text));
        for (int op = 0; op < LS_OP_COUNT; op++) {
            if (!called[op]) continue;
            LS_TRY(ls_text_table_add(table, "%s", ls_number_text(rank->comm[op].calls, text)));
            LS_TRY(ls_text_table_add(table, "%s", ls_number_text(rank->comm[op].bytes, text)));
        }
    }
    fprintf(file, "\nCalls and bytes handed in by each rank in one step%s:\n",
            p->plan->layout.tp == 1 ? ", those within a group of one rank counted too" : "");
    ls_text_table_print(table, file);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* The table of plan.h for this model and layout. */
static ls_status print_layer(FILE *file, const planned *p)
{
    ls_status status = LS_OK;
    const ls_config *c = &p->plan->config;
    const ls_layer_elements *e = &p->layer;
    const ls_layout *layout = &p->plan->layout;
    bool row_first = c->mlp_cut == LS_MLP_ROW_FIRST, whole = c->activation != LS_SWIGLU;
    bool post = c->norm_place == LS_NORM_POST;
    ls_text_table *table = NULL;
    char text[LS_NUMBER_TEXT];
    const struct {
        const char *what, *formula;
        uint64_t elements;
    } rows[] = {
        {"input", "s D", e->input},
        {"norms", post ? "s D" : "2 s D", e->norms},
        {"statistics", c->norm == LS_LAYER_NORM ? "4 s" : "2 s", e->statistics},
        {"q, k, v", "S w (h + 2 k)", e->projections},
        {"probabilities", "h S S", e->probabilities},
        {"heads' outputs", "S w h", e->context},
        {post ? "residual sums" : "after attention", post ? "2 s D" : "s D", e->residual},
        {"MLP",
         row_first ? "S (F + f)"
         : whole   ? "2 S f"
                   : "3 S f",
         e->mlp},
        {"together", "", ls_layer_elements_sum(e)},
    };
    if (layout->recompute == LS_RECOMPUTE_STAGE) {
        fputs("\nLayers keep nothing: they are computed again from the input of their stage.\n",
              file);
        goto exit;
    }
    LS_TRY(ls_text_table_create(&table, 3));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].elements == 0) continue; /* computed again */
        LS_TRY(ls_text_table_add(table, "%s", rows[i].what));
        LS_TRY(ls_text_table_add(table, "%s", rows[i].formula));
        LS_TRY(ls_text_table_add(table, "%s", ls_number_text(rows[i].elements, text)));
    }
    ls_shard heads = ls_shard_of(c, LS_GRANULE_HEADS, layout->tp, 0);
    ls_shard kv = ls_shard_of(c, LS_GRANULE_KV_HEADS, layout->tp, 0);
    size_t own = layout->sp ? ls_share_of(c->seq, (size_t)layout->tp, 0).count : c->seq;
    fputs("\nElements that each layer keeps of each sequence on rank 0:\n", file);
    ls_text_table_print(table, file);
    fprintf(file,
            "s = %zu own of S = %zu tokens, D = %zu, h = %zu own of %zu heads of width w = %zu, "
            "k = %zu own\nkey/value heads, f = %zu own of F = %zu\n",
            own, c->seq, c->d_model, heads.count, c->heads, ls_config_head_width(c), kv.count,
            c->d_ff / (size_t)layout->tp, c->d_ff);
exit:
    ls_text_table_destroy(&table);
    return status;
}

/* Columns of the schedule, one per unit of time: digits of a micro-batch, or one character. */
static void print_schedule(FILE *file, const planned *p)
{
    const ls_layout *layout = &p->plan->layout;
    ls_ratio bubble = p->plan->bubble;
    int64_t width = 2; /* "F", a digit */
    fprintf(file,
            "\nSchedule, a backward pass twice as long as a forward pass; idle %" PRId64 "/%" PRId64
            " of all ranks' time = %.1f %%, %s\n",
            bubble.over, bubble.under, 100.0 * (double)bubble.over / (double)bubble.under,
            bubble_formula_text(layout));
    fprintf(file, "K = %d pipeline ranks, M = %d micro-batches, V = %d stages per rank\n",
            layout->pp, layout->micro_batches, layout->virtual_stages);
    for (int n = layout->micro_batches - 1; n >= 10; n /= 10) width++;
    if (layout->virtual_stages > 1) width += 2;
    if (p->timeline->makespan * (width + 1) + 8 <= WIDE)
        ls_timeline_text(file, p->timeline, false);
    else if (p->timeline->makespan + 8 <= WIDE)
        ls_timeline_text(file, p->timeline, true);
    else
        fputs("too long to be drawn here; --draw FILE.svg draws it\n", file);
}

static void print_machine(FILE *file, const planned *p)
{
    char need[LS_NUMBER_TEXT], there[LS_NUMBER_TEXT];
    double bytes = ls_plan_bytes(p->plan);
    fprintf(file, "\nmemory  at least %s on %d rank%s together",
            bytes < 1e19 ? ls_bytes_text((uint64_t)bytes, need) : "10 EB", p->plan->ranks,
            p->plan->ranks == 1 ? "" : "s");
    if (p->machine_bytes > 0.0)
        fprintf(file, "; this machine has %s%s", ls_bytes_text((uint64_t)p->machine_bytes, there),
                bytes > p->machine_bytes ? ": train would refuse" : "");
    fputc('\n', file);
}

ls_status print_plan(FILE *file, const planned *p)
{
    ls_status status = LS_OK;
    print_head(file, p);
    LS_TRY(print_memory(file, p));
    LS_TRY(print_traffic(file, p));
    if (p->plan->config.kind == LS_MODEL_NET)
        LS_TRY(print_net_layers(file, p));
    else
        LS_TRY(print_layer(file, p));
    if (p->plan->layout.pp > 1) print_schedule(file, p);
    print_machine(file, p);
exit:
    return status;
}
