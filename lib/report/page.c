/* page.c - the page from top to bottom. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "lockstep/numerics/digest.h"
#include "report/page_file.h"
#include "report/page_style.h"
#include "report/svg.h"
#include "report/text_table.h"

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

static void write_what(FILE *file, const ls_report *report)
{
    const ls_run *run = &report->common;
    const ls_config *c = &run->config;
    char text[512], number[LS_NUMBER_TEXT];
    fputs("<h2>What was run</h2>\n<div class=\"scroll\"><table class=\"facts\">\n", file);
    row(file, "command", report->command);
    snprintf(text, sizeof text,
             "%s: %zu layers, width %zu, %zu heads (%zu for keys and values), feed-forward %zu, "
             "%zu tokens a sequence, vocabulary %zu, dropout %g",
             c->name, c->layers, c->d_model, c->heads, c->kv_heads, c->d_ff, c->seq, c->vocab,
             c->dropout);
    row(file, "model", text);
    row(file, "parameters", ls_number_text(ls_param_table_elements(report->table), number));
    snprintf(text, sizeof text, "%s, %s bytes", report->text_name,
             ls_number_text(run->text->count, number));
    row(file, "text", text);
    snprintf(text, sizeof text, "%" PRIu64 ", %zu sequences each", run->steps, run->batch);
    row(file, "steps", text);
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
    ls_report_layout_name(&run->layout, name, sizeof name);
    fputs("<h2>Loss</h2>\n", file);
    if (baseline != NULL && run->equal)
        fprintf(file,
                "<p>Two runs, one curve: the losses of the serial run and of %s are the same "
                "numbers, to the last bit.</p>\n",
                name);
    ls_svg_losses(file, baseline != NULL ? &baseline->losses : NULL, &run->losses, name);
    fprintf(file,
            "<p class=\"soft\">First %.9g, last %.9g, in nats per token (a guess among %zu "
            "bytes without any knowledge: %.4g).</p>\n",
            run->losses.value[0], run->losses.value[run->losses.count - 1],
            report->common.config.vocab, log((double)report->common.config.vocab));
}

static void write_digest(FILE *file, const char *digest)
{
    fprintf(file, "<td class=\"code\" title=\"%s\">%.16s...</td>", digest, digest);
}

static void write_layouts(FILE *file, const ls_report *report)
{
    char text[96], number[LS_NUMBER_TEXT];
    fputs("<h2>Layouts</h2>\n<div class=\"scroll\"><table>\n<tr><th>layout</th><th>ranks</th>"
          "<th>engine</th><th>precision</th><th>digest of losses and parameters</th>"
          "<th>against serial</th><th>time</th></tr>\n",
          file);
    const char *dtype = report->common.dtype == LS_F32 ? "f32" : "f64";
    for (size_t i = 0; i < report->n_baselines; i++) {
        const ls_report_baseline *b = &report->baselines[i];
        ls_engine_describe(b->engine, text, sizeof text);
        fprintf(file,
                "<tr class=\"base\"><td>serial</td><td class=\"n\">-</td><td>%s</td>"
                "<td>%s</td>",
                text, dtype);
        write_digest(file, b->result.digest);
        fprintf(file, "<td>the baseline</td><td class=\"n\">%s</td></tr>\n",
                ls_duration_text(b->result.ns, number));
    }
    for (size_t i = 0; i < report->n_runs; i++) {
        const ls_report_run *run = &report->runs[i];
        ls_engine_describe(run->engine, text, sizeof text);
        fputs("<tr><td>", file);
        char layout[LS_LAYOUT_NAME];
        ls_report_layout_name(&run->layout, layout, sizeof layout);
        fprintf(file, "%s</td><td class=\"n\">%d</td><td>%s</td><td>%s</td>", layout,
                run->result.ranks, text, dtype);
        write_digest(file, run->result.digest);
        if (!run->compared)
            fputs("<td>not compared</td>", file);
        else if (run->equal)
            fputs("<td class=\"good\">bit-exact</td>", file);
        else {
            fputs("<td class=\"bad\">", file);
            char departure[LS_DEPARTURE_TEXT];
            ls_departure_describe(&run->departure, report->common.dtype, departure,
                                  sizeof departure);
            ls_html_text(file, departure);
            fputs("</td>", file);
        }
        fprintf(file, "<td class=\"n\">%s</td></tr>\n", ls_duration_text(run->result.ns, number));
    }
    fputs("</table></div>\n", file);
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
        fprintf(file, "<tr><td>%s</td><td>%.2e</td><td>%.2e at ", text, b->truth.loss,
                b->truth.gradient);
        ls_html_text(file, b->truth.gradient_tensor);
        fprintf(file, "</td><td>%.2e at ", b->truth.parameter);
        ls_html_text(file, b->truth.parameter_tensor);
        fputs("</td></tr>\n", file);
        noise |= strstr(b->truth.parameter_tensor, "key.bias") != NULL;
    }
    fputs("</table></div>\n", file);
    if (noise && report->common.optimizer == LS_ADAMW)
        fputs("<p class=\"soft\">On paper the gradient of a key's bias is zero; AdamW divides its "
              "rounding noise by the noise's own size.</p>\n",
              file);
}

static void write_memory(FILE *file, const ls_report *report, const ls_report_run *largest)
{
    enum { MOST = 64 };
    ls_bar bars[MOST + 1];
    size_t n = 0;
    fputs("<h2>Memory</h2>\n<p>The most bytes of each category that a rank held. The peaks of two "
          "categories may fall at different times.</p>\n",
          file);
    if (report->n_baselines > 0 && report->baselines[0].result.rank != NULL) {
        snprintf(bars[n].name, sizeof bars[n].name, "serial");
        bars[n++].bytes = report->baselines[0].result.rank[0].peak_bytes;
    }
    /* Every layout once, by the rank that held most. */
    for (size_t i = 0; i < report->n_runs && n < MOST; i++) {
        const ls_report_run *run = &report->runs[i];
        if (run->result.rank == NULL || run->engine != report->runs[0].engine) continue;
        int worst = 0;
        for (int r = 1; r < run->result.ranks; r++)
            if (run->result.rank[r].total_peak_bytes > run->result.rank[worst].total_peak_bytes)
                worst = r;
        char layout[LS_LAYOUT_NAME];
        ls_report_layout_name(&run->layout, layout, sizeof layout);
        snprintf(bars[n].name, sizeof bars[n].name, "%s", layout);
        bars[n++].bytes = run->result.rank[worst].peak_bytes;
    }
    bool both = n > 1;
    if (both) {
        fputs("<h3>Per layout, the rank that held most</h3>\n", file);
        ls_svg_memory(file, bars, n, true);
    }
    char layout[LS_LAYOUT_NAME];
    ls_report_layout_name(&largest->layout, layout, sizeof layout);
    fprintf(file, "<h3>Per rank, %s</h3>\n", layout);
    n = 0;
    for (int r = 0; r < largest->result.ranks && n < MOST; r++, n++) {
        snprintf(bars[n].name, sizeof bars[n].name, "rank %d", r);
        bars[n].bytes = largest->result.rank[r].peak_bytes;
    }
    ls_svg_memory(file, bars, n, !both);
    if (largest->result.ranks > MOST)
        fprintf(file, "<p class=\"soft\">The first %d of %d ranks.</p>\n", MOST,
                largest->result.ranks);
}

static void write_comm_row(FILE *file, const ls_report_run *run, uint64_t steps, const bool *used)
{
    char layout[LS_LAYOUT_NAME], text[LS_NUMBER_TEXT];
    ls_report_layout_name(&run->layout, layout, sizeof layout);
    fprintf(file, "<tr><td>%s</td>", layout);
    for (int op = 0; op < LS_OP_COUNT; op++) {
        if (!used[op]) continue;
        const ls_comm_count first = run->result.rank[0].comm[op];
        ls_comm_count least = first, most = first;
        for (int r = 1; r < run->result.ranks; r++) {
            const ls_comm_count *count = &run->result.rank[r].comm[op];
            if (count->calls < least.calls) least.calls = count->calls;
            if (count->calls > most.calls) most.calls = count->calls;
            if (count->bytes < least.bytes) least.bytes = count->bytes;
            if (count->bytes > most.bytes) most.bytes = count->bytes;
        }
        fprintf(file, "<td class=\"n\">%.4g", (double)least.calls / (double)steps);
        if (most.calls > least.calls) fprintf(file, " to %.4g", (double)most.calls / (double)steps);
        fprintf(file, "</td><td class=\"n\">%s", ls_bytes_text(least.bytes / steps, text));
        if (most.bytes > least.bytes)
            fprintf(file, " to %s", ls_bytes_text(most.bytes / steps, text));
        fputs("</td>", file);
    }
    fputs("</tr>\n", file);
}

static void write_collectives(FILE *file, const ls_report *report)
{
    bool used[LS_OP_COUNT] = {false}, any = false;
    for (size_t i = 0; i < report->n_runs; i++) {
        const ls_train_result *result = &report->runs[i].result;
        for (int op = 0; op < LS_OP_COUNT && result->rank != NULL; op++)
            if (result->rank[0].comm[op].calls > 0) any = used[op] = true;
    }
    if (!any) return;
    fputs(
        "<h2>Collectives</h2>\n<p>Per rank and step: how many calls, and how many bytes the rank "
        "handed in. A rank hands in one partial sum per node of the sum's tree that it can finish "
        "alone, so bytes depend on where its share lies in the tree.</p>\n"
        "<div class=\"scroll\"><table>\n<tr><th>layout</th>",
        file);
    for (int op = 0; op < LS_OP_COUNT; op++)
        if (used[op])
            fprintf(file, "<th>%s calls</th><th>bytes</th>", ls_operation_name((ls_operation)op));
    fputs("</tr>\n", file);
    for (size_t i = 0; i < report->n_runs; i++) {
        const ls_report_run *run = &report->runs[i];
        uint64_t steps = run->result.last_step - run->result.first_step;
        if (run->result.rank == NULL || steps == 0 || run->engine != report->runs[0].engine)
            continue;
        write_comm_row(file, run, steps, used);
    }
    fputs("</table></div>\n", file);
}

ls_status ls_page_write(FILE *file, const ls_report *report)
{
    ls_status status = LS_OK;
    const ls_report_run *largest = ls_report_largest(report);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Lockstep: ",
          file);
    ls_html_text(file, report->common.config.name);
    fputs("</title>\n<style>\n", file);
    fputs(ls_page_style, file);
    fputs("</style>\n</head>\n<body>\n<main>\n<h1>Lockstep</h1>\n", file);
    write_verdict(file, report);
    write_what(file, report);
    if (largest != NULL) write_losses(file, report, largest);
    write_layouts(file, report);
    write_truth(file, report);
    if (largest != NULL) {
        write_memory(file, report, largest);
        write_collectives(file, report);
        char layout[LS_LAYOUT_NAME];
        ls_report_layout_name(&largest->layout, layout, sizeof layout);
        fprintf(file,
                "<h2>How the layers are cut</h2>\n<p>%s: a box per parameter, a colour per rank. "
                "f copies forward and sums backward, g sums forward and copies backward.</p>\n",
                layout);
        LS_TRY(ls_svg_cut(file, report->table, &largest->layout));
    }
    fputs("</main>\n</body>\n</html>\n", file);
exit:
    return status;
}
