/* facts_text.c - for people. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "facts.h"
#include "lockstep/base/clock.h"
#include "report/rank_groups.h"
#include "report/text_table.h"

void print_model(FILE *file, const ls_config *c, uint64_t parameters)
{
    char number[LS_NUMBER_TEXT], layers[LS_NUMBER_TEXT], heads[LS_NUMBER_TEXT];
    char tokens[LS_NUMBER_TEXT];
    ls_number_text(parameters, number);
    if (c->kind == LS_MODEL_NET)
        fprintf(file, "model   %s: %s, images of %zu x %zu x %zu, %zu classes, %s parameters\n",
                ls_show(c->name), ls_count_text(c->net.count, "layer", layers), c->net.channels,
                c->net.height, c->net.width, c->net.classes, number);
    else
        fprintf(file,
                "model   %s: %s, width %zu, %s, feed-forward %zu, %s a sequence, %s parameters\n",
                ls_show(c->name), ls_count_text(c->layers, "layer", layers), c->d_model,
                ls_count_text(c->heads, "head", heads), c->d_ff,
                ls_count_text(c->seq, "token", tokens), number);
}

void print_weights(FILE *file, const settings *s)
{
    if (s->job.run.load == NULL) return;
    fprintf(file, "weights %s; ", ls_show(s->job.run.load));
    if (s->job.model_beside != NULL)
        fprintf(file, "the model is that of %s\n", ls_show(s->job.model_beside));
    else if (ls_options_given(s->table.options, s->table.count, "model"))
        fprintf(file, "the model is that of --model %s\n", ls_show(s->job.model));
    else
        fprintf(file, "no config.json is there, so the model is the default, %s\n",
                ls_show(s->job.model));
}

static void print_data(FILE *file, const settings *s)
{
    char number[LS_NUMBER_TEXT], sequences[LS_NUMBER_TEXT];
    if (s->job.run.config.kind == LS_MODEL_NET)
        fprintf(file, "images  %s, %s with %zu labels; %zu a step\n", ls_show(s->job.data_name),
                ls_number_text(s->job.images.count, number), s->job.images.classes,
                s->job.run.batch);
    else
        fprintf(file, "text    %s, %s bytes; %s a step\n", ls_show(s->job.data_name),
                ls_number_text(s->job.text.count, number),
                ls_count_text(s->job.run.batch, "sequence", sequences));
}

void print_strategies(FILE *file, const ls_layout *layout, const ls_config *config)
{
    if (layout->n_strategies == 0) return;
    fputs("grids  ", file);
    for (int i = 0; i < layout->n_strategies; i++) {
        const ls_layer_grid *g = &layout->strategies[i].grid;
        fprintf(file, "%s %s %dx%dx%dx%d", i > 0 ? "," : "",
                ls_show(config->net.layers[layout->strategies[i].layer].name), g->samples, g->down,
                g->across, g->channels);
    }
    fputs(" (samples x down x across x channels)\n", file);
}

void print_run(FILE *file, const settings *s, const ls_report *report, const ls_layout *layout)
{
    char text[LS_LAYOUT_NAME];
    print_model(file, &s->job.run.config, ls_param_table_elements(report->table));
    print_weights(file, s);
    if (s->job.run.serial) {
        fputs("layout  serial\n", file);
    } else if (layout != NULL) {
        ls_report_layout_name(s->job.run.config.kind, layout, text, sizeof text);
        fprintf(file, "layout  %s%s\n", text,
                layout->pp > 1 && layout->micro_batches == 1
                    ? " (1 micro-batch: one stage works at a time)"
                    : "");
        print_strategies(file, layout, &s->job.run.config);
    }
    print_data(file, s);
    if (!s->job.both_engines) {
        ls_engine_describe(s->job.run.engine, text, sizeof text);
        fprintf(file, "engine  %s, %s, contract %s\n", text, s->job.dtype == 1 ? "f64" : "f32",
                ls_contract_name());
    }
}

/* "1,234", or "1,234 to 5,678" where the ranks of a row are not the same. */
static ls_status add_span(ls_text_table *table, ls_least_most span)
{
    char least[LS_NUMBER_TEXT], most[LS_NUMBER_TEXT];
    return ls_text_table_add(table, "%s%s%s", ls_number_text(span.least, least),
                             span.most > span.least ? " to " : "",
                             span.most > span.least ? ls_number_text(span.most, most) : "");
}

/* All operations together; calls or bytes. */
static ls_least_most traffic_of(const ls_rank_groups *groups, int group,
                                const ls_train_result *result, bool bytes)
{
    ls_least_most all = {UINT64_MAX, 0};
    for (int r = 0; r < result->ranks; r++) {
        uint64_t sum = 0;
        if (groups->of[r] != group) continue;
        for (int op = 0; op < LS_OP_COUNT; op++)
            sum += bytes ? result->rank[r].comm[op].bytes : result->rank[r].comm[op].calls;
        if (sum < all.least) all.least = sum;
        if (sum > all.most) all.most = sum;
    }
    return all;
}

ls_status print_ranks(FILE *file, const ls_train_result *result, const ls_layout *layout)
{
    ls_status status = LS_OK;
    ls_text_table *table = NULL;
    ls_rank_groups groups = {0, NULL, NULL};
    LS_TRY(ls_rank_groups_of_result(&groups, result, layout));
    LS_TRY(ls_text_table_create(&table, LS_MEM_CATEGORIES + 4));
    LS_TRY(ls_text_table_add(table, "rank"));
    for (int c = 0; c < LS_MEM_CATEGORIES; c++)
        LS_TRY(ls_text_table_add(table, "%s", ls_memory_category_name((ls_memory_category)c)));
    LS_TRY(ls_text_table_add(table, "at once"));
    LS_TRY(ls_text_table_add(table, "calls"));
    LS_TRY(ls_text_table_add(table, "sent"));
    for (int g = 0; g < groups.count; g++) {
        LS_TRY(ls_text_table_add(table, "%s", groups.groups[g].text));
        for (int c = 0; c < LS_MEM_CATEGORIES; c++)
            LS_TRY(add_span(table, ls_group_peak(&groups, g, result, (ls_memory_category)c)));
        LS_TRY(add_span(table, ls_group_at_once(&groups, g, result)));
        LS_TRY(add_span(table, traffic_of(&groups, g, result, false)));
        LS_TRY(add_span(table, traffic_of(&groups, g, result, true)));
    }
    fprintf(file, "\nPeak bytes per rank; calls and bytes handed in by the whole run%s:\n",
            groups.count < result->ranks ? "; a row for ranks that are alike" : "");
    ls_text_table_print(table, file);
exit:
    ls_rank_groups_free(&groups);
    ls_text_table_destroy(&table);
    return status;
}

void print_time(FILE *file, uint64_t started_ns, int ranks)
{
    char time[LS_NUMBER_TEXT], cpu[LS_NUMBER_TEXT];
    struct timespec used = {0, 0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    const uint64_t ns = ls_clock_ns() - started_ns;
    const uint64_t cpu_ns = (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
    fprintf(file, "time    %s, %s of CPU time%s\n", ls_duration_text(ns, time),
            ls_duration_text(cpu_ns, cpu),
            ranks > 1 && ns > 1000000000u && ns / 3 > cpu_ns
                ? ": the machine is busy, and at every collective ranks wait for a turn on a core"
                : "");
}

void print_compared(FILE *file, const ls_report *report, const ls_report_run *run, int width)
{
    char layout[LS_LAYOUT_NAME], number[LS_NUMBER_TEXT];
    ls_report_layout_name(report->common.config.kind, &run->layout, layout, sizeof layout);
    fprintf(file, "%-*s %-9s %s  %.16s  %8s\n", width, layout, ls_engine_name(run->engine),
            run->undefined ? "UNDEFINED"
            : run->equal   ? "bit-exact"
                           : "DIFFERENT",
            run->result.digest, ls_duration_text(run->result.ns, number));
    if (!run->equal && !run->undefined) {
        char text[LS_DEPARTURE_TEXT];
        ls_departure_describe(&run->departure, report->common.dtype, text, sizeof text);
        fprintf(file, "           %s\n", text);
    }
}

void print_grid_point(FILE *file, const ls_report *report, const ls_report_run *runs, size_t count,
                      int width)
{
    char name[LS_LAYOUT_NAME], number[LS_NUMBER_TEXT];
    size_t equal = 0;
    uint64_t ns = 0;
    for (size_t i = 0; i < count; i++) {
        equal += runs[i].equal ? 1 : 0;
        ns += runs[i].result.ns;
    }
    ls_report_grid_name(report->common.config.kind, &runs[0].layout, name, sizeof name);
    fprintf(file, "%-*s %-9s %3zu layout%s %3zu bit-exact  %8s\n", width, name,
            ls_engine_name(runs[0].engine), count, count == 1 ? ", " : "s,", equal,
            ls_duration_text(ns, number));
}

void print_undefined(FILE *file, const ls_undefined *undefined)
{
    char text[LS_UNDEFINED_TEXT];
    if (!undefined->found) return;
    ls_undefined_describe(undefined, text, sizeof text);
    fprintf(file, "           %s\n", text);
}

static const char *distance_text(double error, char text[32])
{
    snprintf(text, 32, isnan(error) ? "not a number" : "within %.1e", error);
    return text;
}

void print_truth(FILE *file, const ls_report_baseline *baseline, int width)
{
    const ls_record_truth *t = &baseline->truth;
    char loss[32], gradient[32], parameter[32];
    if (!baseline->has_truth) return;
    fprintf(file, "%-*s %-9s loss %s, gradients %s (%s), parameters %s (%s)\n", width, "truth",
            ls_engine_name(baseline->engine), distance_text(t->loss, loss),
            distance_text(t->gradient, gradient), t->gradient_tensor,
            distance_text(t->parameter, parameter), t->parameter_tensor);
}
