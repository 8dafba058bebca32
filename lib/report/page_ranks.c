/* page_ranks.c - what ranks hold and what crosses them. */
#include <stdlib.h>

#include "base/allocate.h"
#include "report/page_parts.h"
#include "report/rank_groups.h"
#include "report/svg.h"
#include "report/text_table.h"

static int fullest_rank(const ls_train_result *result)
{
    int worst = 0;
    for (int r = 1; r < result->ranks; r++)
        if (result->rank[r].total_peak_bytes > result->rank[worst].total_peak_bytes) worst = r;
    return worst;
}

/* Every layout once, by the rank that held most. Returns whether there was more than one bar. */
static bool write_layout_bars(FILE *file, const ls_report *report)
{
    ls_bar bars[LS_PAGE_ROWS + 1];
    size_t n = 0;
    if (report->n_baselines > 0 && report->baselines[0].result.rank != NULL) {
        snprintf(bars[n].name, sizeof bars[n].name, "serial");
        bars[n++].bytes = report->baselines[0].result.rank[0].peak_bytes;
    }
    for (size_t i = 0; i < report->n_runs && n <= LS_PAGE_ROWS; i++) {
        const ls_report_run *run = &report->runs[i];
        if (run->result.rank == NULL || run->engine != report->runs[0].engine) continue;
        ls_report_layout_name(report->common.config.kind, &run->layout, bars[n].name,
                              sizeof bars[n].name);
        bars[n++].bytes = run->result.rank[fullest_rank(&run->result)].peak_bytes;
    }
    if (n < 2) return false;
    fputs("<h3>Per layout, the rank that held most</h3>\n", file);
    ls_svg_memory(file, bars, n, true);
    return true;
}

ls_status ls_page_memory(FILE *file, const ls_report *report, const ls_report_run *run)
{
    ls_status status = LS_OK;
    ls_rank_groups groups = {0, NULL, NULL};
    ls_bar *bars = NULL;
    size_t(*bytes)[LS_MEM_CATEGORIES] = NULL;
    char layout[LS_LAYOUT_NAME];
    bool legend = true;

    LS_TRY(ls_rank_groups_of_result(&groups, &run->result, &run->layout));
    LS_NEW(bars, (size_t)groups.count);
    LS_NEW(bytes, (size_t)groups.count);
    fputs("<h2>Memory</h2>\n<p>The most bytes of each category that a rank held. The peaks of two "
          "categories may fall at different times.</p>\n",
          file);
    if (report->n_runs <= LS_PAGE_ROWS) legend = !write_layout_bars(file, report);
    ls_report_layout_name(report->common.config.kind, &run->layout, layout, sizeof layout);
    fprintf(file, "<h3>Per rank, %s</h3>\n", layout);
    if (groups.count < run->result.ranks)
        fputs("<p class=\"soft\">Ranks that are alike share a bar.</p>\n", file);
    for (int g = 0; g < groups.count; g++) {
        snprintf(bars[g].name, sizeof bars[g].name, "rank%s %s",
                 groups.groups[g].count > 1 ? "s" : "", groups.groups[g].text);
        for (int c = 0; c < LS_MEM_CATEGORIES; c++)
            bytes[g][c] =
                (size_t)ls_group_peak(&groups, g, &run->result, (ls_memory_category)c).most;
        bars[g].bytes = bytes[g];
    }
    ls_svg_memory(file, bars, (size_t)groups.count, legend);
exit:
    free(bars);
    free(bytes);
    ls_rank_groups_free(&groups);
    return status;
}

/* ---- what crosses ranks ---- */

static void write_traffic_head(FILE *file, const char *first, const bool *used)
{
    fprintf(file, "<div class=\"scroll\"><table class=\"traffic\">\n<tr><th>%s</th>", first);
    for (int op = 0; op < LS_OP_COUNT; op++)
        if (used[op]) fprintf(file, "<th>%s<br>bytes</th>", ls_operation_name((ls_operation)op));
    fputs("</tr>\n", file);
}

static void write_traffic_row(FILE *file, const ls_rank_groups *groups, int group,
                              const ls_train_result *result, const bool *used)
{
    char text[LS_NUMBER_TEXT];
    uint64_t steps = result->last_step - result->first_step;
    for (int op = 0; op < LS_OP_COUNT; op++) {
        if (!used[op]) continue;
        ls_least_most calls = ls_group_calls(groups, group, result, (ls_operation)op);
        ls_least_most bytes = ls_group_bytes(groups, group, result, (ls_operation)op);
        if (calls.most == 0) {
            fputs("<td>-</td>", file);
            continue;
        }
        fprintf(file, "<td class=\"n\">%.4g", (double)calls.least / (double)steps);
        if (calls.most > calls.least) fprintf(file, " to %.4g", (double)calls.most / (double)steps);
        fprintf(file, "<br>%s", ls_bytes_text(bytes.least / steps, text));
        if (bytes.most > bytes.least)
            fprintf(file, " to %s", ls_bytes_text(bytes.most / steps, text));
        fputs("</td>", file);
    }
    fputs("</tr>\n", file);
}

static bool all_alike(const void *context, int a, int b)
{
    (void)context;
    (void)a;
    (void)b;
    return true;
}

static ls_status write_layout_traffic(FILE *file, const ls_report *report, const bool *used)
{
    ls_status status = LS_OK;
    ls_rank_groups all = {0, NULL, NULL};
    write_traffic_head(file, "layout", used);
    for (size_t i = 0; i < report->n_runs; i++) {
        const ls_report_run *run = &report->runs[i];
        char layout[LS_LAYOUT_NAME];
        if (run->result.rank == NULL || run->result.last_step == run->result.first_step ||
            run->engine != report->runs[0].engine)
            continue;
        LS_TRY(ls_rank_groups_create(&all, run->result.ranks, all_alike, NULL));
        ls_report_layout_name(report->common.config.kind, &run->layout, layout, sizeof layout);
        fprintf(file, "<tr><td class=\"name\">%s</td>", layout);
        write_traffic_row(file, &all, 0, &run->result, used);
        ls_rank_groups_free(&all);
    }
    fputs("</table></div>\n", file);
exit:
    ls_rank_groups_free(&all);
    return status;
}

/* Who receives sends nothing, and receives what is sent: no column of its own. */
static bool mark_used(const ls_train_result *result, bool *used)
{
    bool any = false;
    for (int r = 0; result->rank != NULL && r < result->ranks; r++)
        for (int op = 0; op < LS_OP_COUNT; op++)
            if (op != LS_OP_RECEIVE && result->rank[r].comm[op].calls > 0) any = used[op] = true;
    return any;
}

ls_status ls_page_traffic(FILE *file, const ls_report *report, const ls_report_run *run)
{
    ls_status status = LS_OK;
    ls_rank_groups groups = {0, NULL, NULL};
    bool used[LS_OP_COUNT] = {false}, any = false;
    if (report->n_runs <= LS_PAGE_ROWS)
        for (size_t i = 0; i < report->n_runs; i++) any |= mark_used(&report->runs[i].result, used);
    any |= mark_used(&run->result, used);
    if (!any || run->result.last_step == run->result.first_step) return LS_OK;
    fputs("<h2>What crosses ranks</h2>\n<p>Per rank and step: how many calls, and below how many "
          "bytes the rank handed in. A rank hands in one partial sum per node of the sum's tree "
          "that it "
          "can finish alone, so bytes depend on where its share lies in the tree. Calls within a "
          "group of one rank are counted too, though nothing leaves it.</p>\n",
          file);
    if (report->n_runs > 1 && report->n_runs <= LS_PAGE_ROWS)
        LS_TRY(write_layout_traffic(file, report, used));
    if (run->layout.pp > 1 || report->n_runs == 1 || report->n_runs > LS_PAGE_ROWS) {
        char layout[LS_LAYOUT_NAME];
        ls_report_layout_name(report->common.config.kind, &run->layout, layout, sizeof layout);
        fprintf(file, "<h3>Per rank, %s</h3>\n", layout);
        LS_TRY(ls_rank_groups_of_result(&groups, &run->result, &run->layout));
        write_traffic_head(file, "rank", used);
        for (int g = 0; g < groups.count; g++) {
            fprintf(file, "<tr><td class=\"n\">%s</td>", groups.groups[g].text);
            write_traffic_row(file, &groups, g, &run->result, used);
        }
        fputs("</table></div>\n", file);
    }
exit:
    ls_rank_groups_free(&groups);
    return status;
}
