/* page_net_places.c - where the ranks of a convolutional network stand, and which grid each of its
 * layers has. */
#include "lockstep/parallel/net_grids.h"
#include "report/page_parts.h"
#include "report/svg.h"

/* Runs of layers of one grid; a layer that has another begins the next row. */
static void write_grids(FILE *file, const ls_layout *layout, const ls_net *net)
{
    ls_net_grids grids;
    ls_net_grids_of(layout, net, &grids);
    fputs("<div class=\"scroll\"><table>\n<tr><th>layers</th><th>samples</th><th>down</th>"
          "<th>across</th><th>channels</th></tr>\n",
          file);
    for (size_t first = 0, next; first < net->count; first = next) {
        const ls_layer_grid grid = grids.layer[first];
        next = first + 1;
        while (next < net->count && ls_layer_grid_equal(grids.layer[next], grid)) next++;
        fprintf(file, "<tr><td>%s", net->layers[first].name);
        if (next > first + 1) fprintf(file, " to %s", net->layers[next - 1].name);
        fprintf(file,
                "</td><td class=\"n\">%d</td><td class=\"n\">%d</td><td class=\"n\">%d</td>"
                "<td class=\"n\">%d</td></tr>\n",
                grid.samples, grid.down, grid.across, grid.channels);
    }
    fputs("</table></div>\n", file);
}

void ls_page_net_places(FILE *file, const ls_report *report, const ls_report_run *run)
{
    const ls_layout *layout = &run->layout;
    const ls_net *net = &report->common.config.net;
    char name[LS_LAYOUT_NAME];
    if (run->result.ranks == 1) return;
    ls_report_layout_name(LS_MODEL_NET, layout, name, sizeof name);
    fprintf(file, "<h2>Where ranks stand</h2>\n<p>%s:", name);
    if (layout->dp > 1) fputs(" a square per replica, which has its own images;", file);
    if (layout->down > 1 || layout->across > 1)
        fputs(" in it rows and columns of ranks, each with its part of the pixels;", file);
    if (layout->channels > 1)
        fputs(" side by side and in colours those that share the channels;", file);
    fputs(" the numbers are those of the ranks.</p>\n", file);
    ls_svg_net_grid(file, layout, net, report->common.batch);
    fputs("<h3>How each layer's output is cut</h3>\n<p>Into so many runs of images, rows, columns "
          "and runs of channels, one for each rank. Where a layer has another grid than what it "
          "reads, its input goes to other ranks, and its gradient back.</p>\n",
          file);
    write_grids(file, layout, net);
}
