/* page.c - the page from top to bottom. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lockstep/numerics/digest.h"
#include "report/page_file.h"
#include "report/page_contents.h"
#include "report/page_parts.h"
#include "report/page_style.h"
#include "report/svg.h"
#include "report/text_table.h"
#include "base/allocate.h"
#include "base/append.h"

static void row(FILE *file, const char *name, const char *value)
{
    fprintf(file, "<tr><th scope=\"row\">%s</th><td>", name);
    ls_html_text(file, value);
    fputs("</td></tr>\n", file);
}

/* The verdict in one sentence, under the title. */
static void write_verdict(FILE *file, const ls_report *report)
{
    size_t equal, different;
    ls_report_count(report, &equal, &different);
    for (size_t i = 0; i < report->n_baselines; i++) {
        char text[LS_UNDEFINED_TEXT];
        if (!report->baselines[i].undefined.found) continue;
        ls_undefined_describe(&report->baselines[i].undefined, text, sizeof text);
        fprintf(file, "<p class=\"verdict bad\">%s, %s.</p>\n",
                ls_engine_name(report->baselines[i].engine), text);
    }
    if (equal + different == 0) return;
    if (different == 0)
        fprintf(file,
                "<p class=\"verdict good\">%zu of %zu runs in a layout are bit-exact: every loss, "
                "every gradient and every parameter after every step has the bits of the serial "
                "run.</p>\n",
                equal, equal);
    else
        fprintf(file,
                "<p class=\"verdict bad\">%zu of %zu runs in a layout differ from the serial "
                "run.</p>\n",
                different, equal + different);
}

/* "interleaved, 2 virtual stages per rank, 4 micro-batches". */
static void describe_schedule(const ls_layout *layout, char *buffer, size_t size)
{
    const char *schedule = layout->micro_batches == 1 && layout->virtual_stages == 1
                               ? "one micro-batch, one stage at a time"
                               : ls_schedule_kind_name(layout->schedule);
    size_t used = ls_append(buffer, size, 0, "%s", schedule);
    if (layout->virtual_stages > 1)
        used =
            ls_append(buffer, size, used, ", %d virtual stages per rank", layout->virtual_stages);
    if (layout->micro_batches > 1)
        ls_append(buffer, size, used, ", %d micro-batches per replica", layout->micro_batches);
}

/* The layers that the user gave a grid of their own. */
static void write_strategies(FILE *file, const ls_layout *layout, const ls_net *net)
{
    if (layout->n_strategies == 0) return;
    fputs("<tr><th scope=\"row\">strategies</th><td>", file);
    for (int i = 0; i < layout->n_strategies; i++) {
        const ls_strategy *s = &layout->strategies[i];
        fputs(i > 0 ? ", " : "", file);
        ls_html_text(file, net->layers[s->layer].name);
        fprintf(file, " %dx%dx%dx%d", s->grid.samples, s->grid.down, s->grid.across,
                s->grid.channels);
    }
    fputs(" (samples x down x across x channels)</td></tr>\n", file);
}

/* The layout that the rest of the page shows. */
static void write_layout(FILE *file, const ls_report *report)
{
    const ls_report_run *run = ls_report_featured(report);
    char text[256];
    if (run == NULL) return;
    const ls_layout *layout = &run->layout;
    if (report->common.config.kind == LS_MODEL_NET) {
        snprintf(text, sizeof text,
                 "data parallel %d, spatial %d x %d, channel parallel %d: %d rank%s; %s overlap",
                 layout->dp, layout->down, layout->across, layout->channels, run->result.ranks,
                 run->result.ranks == 1 ? "" : "s", layout->overlap ? "with" : "without");
        row(file, report->n_runs > 1 ? "layout shown" : "layout", text);
        write_strategies(file, layout, &report->common.config.net);
        return;
    }
    snprintf(text, sizeof text,
             "data parallel %d, pipeline %d, tensor %d: %d rank%s; %s sequence parallelism",
             layout->dp, layout->pp, layout->tp, run->result.ranks,
             run->result.ranks == 1 ? "" : "s", layout->sp ? "with" : "without");
    row(file, report->n_runs > 1 ? "layout shown" : "layout", text);
    describe_schedule(layout, text, sizeof text);
    if (layout->pp > 1 || layout->micro_batches > 1 || layout->virtual_stages > 1)
        row(file, "schedule", text);
    row(file, "recomputation", ls_recompute_name(layout->recompute));
}

/* What the model is. */
static void write_model(FILE *file, const ls_config *c)
{
    char text[512];
    if (c->kind == LS_MODEL_NET)
        snprintf(text, sizeof text, "%s: %zu layers, images of %zu x %zu x %zu, %zu classes",
                 c->name, c->net.count, c->net.channels, c->net.height, c->net.width,
                 c->net.classes);
    else
        snprintf(text, sizeof text,
                 "%s: %zu layers, width %zu, %zu heads (%zu for keys and values), feed-forward "
                 "%zu, %zu tokens a sequence, vocabulary %zu, dropout %g",
                 c->name, c->layers, c->d_model, c->heads, c->kv_heads, c->d_ff, c->seq, c->vocab,
                 c->dropout);
    row(file, "model", text);
}

static void write_date(FILE *file)
{
    char text[64];
    const time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M %Z", &local) > 0)
        row(file, "date", text);
}

static void write_what(FILE *file, const ls_report *report)
{
    const ls_run *run = &report->common;
    const bool net = run->config.kind == LS_MODEL_NET;
    char text[512], number[LS_NUMBER_TEXT];
    fputs("<h2>What was run</h2>\n<div class=\"scroll\"><table class=\"facts\">\n", file);
    row(file, "command", report->command);
    if (report->program != NULL) row(file, "program", report->program);
    write_date(file);
    write_model(file, &run->config);
    row(file, "parameters", ls_number_text(ls_param_table_elements(report->table), number));
    snprintf(text, sizeof text, net ? "%s, %s" : "%s, %s bytes", report->text_name,
             ls_number_text(net ? run->images->count : run->text->count, number));
    row(file, net ? "images" : "text", text);
    snprintf(text, sizeof text, "%" PRIu64 ", %zu %s each", run->steps, run->batch,
             net ? "images" : "sequences");
    row(file, "steps", text);
    write_layout(file, report);
    snprintf(text, sizeof text, "%s, rate %g, weight decay %g, clipping at %g",
             run->optimizer == LS_ADAMW ? "adamw" : "sgd", run->lr, run->weight_decay, run->clip);
    row(file, "optimizer", text);
    snprintf(text, sizeof text, "%s, seed %" PRIu64, run->dtype == LS_F32 ? "f32" : "f64",
             run->seed);
    row(file, "precision", text);
    snprintf(text, sizeof text, "%s, %s", ls_contract_name(), ls_contract_digest());
    row(file, "contract", text);
    fputs("</table></div>\n", file);
}

static const ls_report_baseline *baseline_of(const ls_report *report, ls_engine engine)
{
    for (size_t i = 0; i < report->n_baselines; i++)
        if (report->baselines[i].engine == engine) return &report->baselines[i];
    return NULL;
}

static void write_losses(FILE *file, const ls_report *report, const ls_report_run *run)
{
    char name[LS_LAYOUT_NAME];
    if (run->losses.count == 0) return;
    const ls_report_baseline *baseline = run->compared ? baseline_of(report, run->engine) : NULL;
    ls_report_layout_name(report->common.config.kind, &run->layout, name, sizeof name);
    fputs("<h2>Loss</h2>\n", file);
    if (baseline != NULL && run->equal)
        fprintf(file,
                "<p>Two runs, one curve: the losses of the serial run and of %s are the same "
                "numbers, to the last bit.</p>\n",
                name);
    ls_svg_losses(file, baseline != NULL ? &baseline->losses : NULL, &run->losses, name);
    const ls_config *c = &report->common.config;
    const bool net = c->kind == LS_MODEL_NET;
    const size_t choices = net ? c->net.classes : c->vocab;
    fprintf(file,
            "<p class=\"soft\">First %.9g, last %.9g, in nats per %s (a guess among %zu %s without "
            "any knowledge: %.4g).</p>\n",
            run->losses.value[0], run->losses.value[run->losses.count - 1], net ? "image" : "token",
            choices, net ? "classes" : "bytes", log((double)choices));
}

/* A cell; tensor NULL: none is named. */
static void write_error(FILE *file, double error, const char *tensor)
{
    fputs("<td>", file);
    if (isnan(error))
        fputs("not a number", file);
    else
        fprintf(file, "%.2e", error);
    if (tensor != NULL) {
        fputs(" at ", file);
        ls_html_text(file, tensor);
    }
    fputs("</td>", file);
}

static void write_truth(FILE *file, const ls_report *report)
{
    char text[96];
    bool any = false, noise = false;
    for (size_t i = 0; i < report->n_baselines; i++) any |= report->baselines[i].has_truth;
    if (!any) return;
    fputs("<h2>Distance to truth</h2>\n<p>The same training in binary64, serially, with one plain "
          "matrix product of OpenBLAS each and no contract: how far the contract's result is from "
          "it, as the largest error over the largest value.</p>\n<div class=\"scroll\"><table>\n"
          "<tr><th>engine</th><th>loss of any step</th><th>gradients of the first step</th>"
          "<th>parameters at the end</th></tr>\n",
          file);
    for (size_t i = 0; i < report->n_baselines; i++) {
        const ls_report_baseline *b = &report->baselines[i];
        if (!b->has_truth) continue;
        ls_engine_describe(b->engine, text, sizeof text);
        fprintf(file, "<tr><td>%s</td>", text);
        write_error(file, b->truth.loss, NULL);
        write_error(file, b->truth.gradient, b->truth.gradient_tensor);
        write_error(file, b->truth.parameter, b->truth.parameter_tensor);
        fputs("</tr>\n", file);
        noise |= strstr(b->truth.parameter_tensor, "key.bias") != NULL;
    }
    fputs("</table></div>\n", file);
    if (noise && report->common.optimizer == LS_ADAMW)
        fputs("<p class=\"soft\">On paper the gradient of a key's bias is zero; AdamW divides its "
              "rounding noise by the noise's own size.</p>\n",
              file);
}

/* Everything below the verdict, part by part. */
static ls_status write_parts(FILE *file, const ls_report *report)
{
    ls_status status = LS_OK;
    const ls_report_run *shown = ls_report_featured(report);
    write_what(file, report);
    LS_TRY(ls_page_images(file, report));
    if (shown != NULL) write_losses(file, report, shown);
    ls_page_layouts(file, report);
    write_truth(file, report);
    if (shown != NULL) {
        LS_TRY(ls_page_places(file, report, shown));
        LS_TRY(ls_page_memory(file, report, shown));
        LS_TRY(ls_page_traffic(file, report, shown));
        LS_TRY(ls_page_cut(file, report, shown));
    }
exit:
    return status;
}

ls_status ls_page_write(FILE *file, const ls_report *report)
{
    ls_status status = LS_OK;
    char *body = NULL;
    size_t bytes = 0;
    FILE *parts = open_memstream(&body, &bytes);
    if (parts == NULL) LS_NO_MEMORY("the page");
    status = write_parts(parts, report);
    if (fclose(parts) != 0 && status == LS_OK) LS_NO_MEMORY("the page");
    LS_TRY(status);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Lockstep: ",
          file);
    ls_html_text(file, report->common.config.name);
    fputs("</title>\n<style>\n", file);
    fputs(ls_page_style, file);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>Lockstep</h1>\n", file);
    write_verdict(file, report);
    ls_page_contents(file, body);
    fputs("</main>\n</body>\n</html>\n", file);
exit:
    free(body);
    return status;
}
