/* page_layouts.c - the table of all runs. */
#include "verify/sweep.h"
#include "report/page_parts.h"
#include "report/svg.h"
#include "report/text_table.h"

static const char *dtype_of(const ls_report *report)
{
    return report->common.dtype == LS_F32 ? "f32" : "f64";
}

static void write_time(FILE *file, uint64_t ns)
{
    char number[LS_NUMBER_TEXT];
    fprintf(file, "<td class=\"n\">%s</td>", ls_duration_text(ns, number));
}

/* The columns that a narrow window leaves to the right of the verdict. ranks 0: of the serial run;
 * digest NULL: there is not one. */
static void write_rest(FILE *file, const ls_report *report, int ranks, ls_engine engine,
                       const char *digest)
{
    char text[96];
    if (ranks > 0)
        fprintf(file, "<td class=\"n\">%d</td>", ranks);
    else
        fputs("<td class=\"n\">-</td>", file);
    ls_engine_describe(engine, text, sizeof text);
    fprintf(file, "<td>%s</td><td>%s</td>", text, dtype_of(report));
    if (digest != NULL)
        fprintf(file, "<td class=\"code\" title=\"%s\">%.16s...</td></tr>\n", digest, digest);
    else
        fputs("<td></td></tr>\n", file);
}

static void write_baseline(FILE *file, const ls_report *report, const ls_report_baseline *b)
{
    fputs("<tr class=\"base\"><td>serial</td><td>the baseline</td>", file);
    write_time(file, b->result.ns);
    write_rest(file, report, 0, b->engine, b->result.digest);
}

static void write_run(FILE *file, const ls_report *report, const ls_report_run *run)
{
    char layout[LS_LAYOUT_NAME];
    ls_report_layout_name(report->common.config.kind, &run->layout, layout, sizeof layout);
    fprintf(file, "<tr><td>%s</td>", layout);
    if (!run->compared)
        fputs("<td>not compared</td>", file);
    else if (run->undefined)
        fputs("<td class=\"bad\">undefined: holds NaN</td>", file);
    else if (run->equal)
        fputs("<td class=\"good\">bit-exact</td>", file);
    else {
        char departure[LS_DEPARTURE_TEXT];
        ls_departure_describe(&run->departure, report->common.dtype, departure, sizeof departure);
        fputs("<td class=\"bad\">", file);
        ls_html_text(file, departure);
        fputs("</td>", file);
    }
    write_time(file, run->result.ns);
    write_rest(file, report, run->result.ranks, run->engine, run->result.digest);
}

/* The runs of one grid point and engine as one row; those that differ each in one more. */
static void write_grid_point(FILE *file, const ls_report *report, const ls_report_run *runs,
                             size_t count)
{
    char grid[LS_LAYOUT_NAME];
    size_t equal = 0;
    uint64_t ns = 0;
    for (size_t i = 0; i < count; i++) {
        equal += runs[i].equal ? 1 : 0;
        ns += runs[i].result.ns;
    }
    ls_report_grid_name(report->common.config.kind, &runs[0].layout, grid, sizeof grid);
    fprintf(file, "<tr><td>%s</td>", grid);
    fprintf(file, "<td class=\"%s\">%zu of %zu bit-exact</td>", equal == count ? "good" : "bad",
            equal, count);
    write_time(file, ns);
    write_rest(file, report, runs[0].result.ranks, runs[0].engine,
               equal == count ? runs[0].result.digest : NULL);
    for (size_t i = 0; i < count; i++)
        if (!runs[i].equal) write_run(file, report, &runs[i]);
}

void ls_page_layouts(FILE *file, const ls_report *report)
{
    bool grouped = report->n_runs > LS_PAGE_ROWS;
    fputs("<h2>Layouts</h2>\n", file);
    const bool net = report->common.config.kind == LS_MODEL_NET;
    if (grouped && net)
        fprintf(file,
                "<p>%zu layouts. A row is a point of the grid dp x spatial x channel: it stands "
                "for all strategies, with and without overlap, that were run there.</p>\n",
                report->n_runs);
    else if (grouped)
        fprintf(file,
                "<p>%zu layouts. A row is a point of the grid dp x pp x tp with or without sp: it "
                "stands for all schedules, micro-batch counts, ways to recompute and partitions "
                "that were run there.</p>\n",
                report->n_runs);
    fputs("<div class=\"scroll\"><table class=\"runs\">\n<tr><th>layout</th><th>against serial</th>"
          "<th>time</th><th>ranks</th><th>engine</th><th>precision</th>"
          "<th>digest of losses and parameters</th></tr>\n",
          file);
    for (size_t i = 0; i < report->n_baselines; i++)
        write_baseline(file, report, &report->baselines[i]);
    for (size_t i = 0, next; i < report->n_runs; i = next) {
        const ls_report_run *run = &report->runs[i];
        next = i + 1;
        while (grouped && next < report->n_runs && report->runs[next].engine == run->engine &&
               ls_same_grid(&report->runs[next].layout, &run->layout))
            next++;
        if (grouped)
            write_grid_point(file, report, run, next - i);
        else
            write_run(file, report, run);
    }
    fputs("</table></div>\n", file);
}
