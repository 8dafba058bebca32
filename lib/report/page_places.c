/* page_places.c - where each rank is, what it holds, when it works. */
#include "lockstep/partition/share.h"
#include "lockstep/pipeline/drawing.h"
#include "report/page_parts.h"
#include "report/svg.h"
#include "base/append.h"

/* "embedding, layers 0-1, 4-5, head": what pipeline rank p holds. */
static void describe_stage(const ls_layout *layout, size_t layers, int p, char *buffer, size_t size)
{
    size_t bounds[LS_MAX_STAGES + 1], used = 0;
    int stages = ls_layout_stages(layout);
    size_t held = 0;
    ls_layout_stage_bounds(layout, layers, bounds);
    for (int s = p; s < stages; s += layout->pp) held += bounds[s + 1] - bounds[s];
    const char *before = held == 1 ? "layer " : "layers ";
    buffer[0] = '\0';
    if (p == 0) used = ls_append(buffer, size, 0, "embedding");
    for (int s = p; s < stages && used + 64 < size; s += layout->pp) {
        if (bounds[s] == bounds[s + 1]) continue;
        used = ls_append(buffer, size, used, "%s%s%zu", used > 0 ? ", " : "", before, bounds[s]);
        before = "";
        if (bounds[s + 1] - bounds[s] > 1)
            used = ls_append(buffer, size, used, "-%zu", bounds[s + 1] - 1);
    }
    if (p == layout->pp - 1) ls_append(buffer, size, used, "%shead", used > 0 ? ", " : "");
}

/* Several rows of ranks or none: what each pipeline rank and each replica has. */
static void write_stages(FILE *file, const ls_layout *layout, size_t layers)
{
    fputs("<div class=\"scroll\"><table>\n<tr><th>pipeline rank</th><th>holds</th></tr>\n", file);
    for (int p = 0; p < layout->pp; p++) {
        char text[512];
        describe_stage(layout, layers, p, text, sizeof text);
        fprintf(file, "<tr><td class=\"n\">%d</td><td>%s</td></tr>\n", p, text);
    }
    fputs("</table></div>\n", file);
}

static ls_status write_schedule(FILE *file, const ls_layout *layout)
{
    ls_status status = LS_OK;
    ls_schedule *schedule = NULL;
    ls_timeline *timeline = NULL;
    LS_TRY(ls_schedule_create(&schedule, layout->schedule, layout->pp, layout->micro_batches,
                              layout->virtual_stages));
    LS_TRY(ls_timeline_create(&timeline, schedule, 1, 2));
    ls_ratio bubble = ls_timeline_bubble(timeline);
    fprintf(file,
            "<h2>When the pipeline works</h2>\n<p>The schedule of one step laid out in time, a "
            "backward pass taken to be twice as long as a forward pass, messages to take none. A "
            "row is a pipeline rank, a box a pass of the micro-batch whose number it bears. Idle: "
            "%lld/%lld, %.1f %% of "
            "all ranks' time.</p>\n",
            (long long)bubble.over, (long long)bubble.under,
            100.0 * (double)bubble.over / (double)bubble.under);
    LS_TRY(ls_svg_timeline(file, timeline, NULL));
exit:
    ls_timeline_destroy(&timeline);
    ls_schedule_destroy(&schedule);
    return status;
}

ls_status ls_page_places(FILE *file, const ls_report *report, const ls_report_run *run)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &run->layout;
    char name[LS_LAYOUT_NAME];
    if (report->common.config.kind == LS_MODEL_NET) return ls_page_net_places(file, report, run);
    if (run->result.ranks == 1) return LS_OK;
    ls_report_layout_name(report->common.config.kind, layout, name, sizeof name);
    fprintf(file, "<h2>Where ranks stand</h2>\n<p>%s:", name);
    if (layout->dp > 1) fputs(" a row per replica, which has its own sequences;", file);
    if (layout->pp > 1)
        fputs(" a column and a colour per pipeline rank, which has its own layers;", file);
    if (layout->tp > 1)
        fputs(" side by side the ranks of a tensor-parallel group, which share each layer;", file);
    fputs(" the numbers are those of the ranks.</p>\n", file);
    ls_svg_grid(file, layout, report->common.batch);
    if (layout->pp == 1) goto exit;
    write_stages(file, layout, report->common.config.layers);
    LS_TRY(write_schedule(file, layout));
exit:
    return status;
}

ls_status ls_page_cut(FILE *file, const ls_report *report, const ls_report_run *run)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &run->layout;
    if (report->common.config.kind == LS_MODEL_NET) return LS_OK; /* drawn for matrices only */
    if (layout->tp == 1 && report->n_runs > 1) return LS_OK;
    fprintf(file,
            "<h2>How the layers are cut</h2>\n<p>Inside %s of %d: a box per parameter, a colour "
            "per rank of the group. %s</p>\n",
            layout->dp * layout->pp > 1 ? "each tensor-parallel group"
                                        : "the tensor-parallel group",
            layout->tp,
            layout->sp ? "Between the blocks each rank has its share of the tokens: an all-gather "
                         "brings them together, a reduce-scatter sums and hands them out; backward "
                         "the other way round."
                       : "f copies forward and sums backward, g sums forward and copies backward.");
    LS_TRY(ls_svg_cut(file, report->table, layout));
exit:
    return status;
}
