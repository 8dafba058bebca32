/* page_net_places.c - where the ranks of a convolutional network stand, and for each of its layers
 * how it is cut and what crosses ranks. */
#include "lockstep/parallel/layout/net_grids.h"
#include "lockstep/pipeline/plan.h"
#include "report/page_parts.h"
#include "report/svg.h"
#include "report/text_table.h"

/* The grid that a layer reads from: of an ADD's two the one that is not its own, if any. */
static ls_layer_grid read_grid(const ls_net_grids *grids, const ls_net *net, size_t n)
{
    const ls_net_layer *layer = &net->layers[n];
    const ls_layer_grid from = ls_net_grid_at(grids, layer->from);
    if (ls_net_traits_of(layer->kind)->inputs == 2 && ls_layer_grid_equal(from, grids->layer[n]))
        return ls_net_grid_at(grids, layer->beside);
    return from;
}

static void write_bytes(FILE *file, uint64_t bytes)
{
    char number[LS_NUMBER_TEXT];
    fprintf(file, "<td class=\"n right\">%s</td>", bytes > 0 ? ls_number_text(bytes, number) : "-");
}

/* traffic: NULL when it is not known. */
static void write_layer(FILE *file, const ls_net_layer *layer, const ls_net_shape *shape,
                        ls_layer_grid from, ls_layer_grid grid, const ls_net_layer_plan *traffic)
{
    fputs("<tr><td>", file);
    ls_html_text(file, layer->name);
    fprintf(file, "</td><td>%s</td><td class=\"n\">%zux%zux%zu</td>", ls_net_kind_name(layer->kind),
            shape->channels, shape->height, shape->width);
    fprintf(file, "<td class=\"n%s\">%dx%dx%dx%d</td>",
            ls_layer_grid_equal(from, grid) ? "" : " other", grid.samples, grid.down, grid.across,
            grid.channels);
    if (traffic != NULL) {
        write_bytes(file, traffic->forward.bytes);
        fprintf(file, "<td>%s</td>",
                traffic->forward.bytes > 0 ? ls_net_exchange_purpose(layer, from, grid) : "");
        write_bytes(file, traffic->forward.most);
        write_bytes(file, traffic->halo_formula);
        write_bytes(file, traffic->backward.bytes);
        write_bytes(file, traffic->returned.bytes);
        write_bytes(file, traffic->summed);
    }
    fputs("</tr>\n", file);
}

static ls_status write_layers(FILE *file, const ls_report *report, const ls_layout *layout)
{
    ls_status status = LS_OK;
    const ls_run *run = &report->common;
    const ls_net *net = &run->config.net;
    ls_net_shapes shapes;
    ls_net_grids grids;
    ls_plan *plan = NULL;
    ls_net_shapes_of(net, &shapes);
    ls_net_grids_of(layout, net, &grids);
    if (ls_layout_ranks(layout) <= LS_PLAN_MAX_NET_RANKS)
        LS_TRY(ls_plan_create(
            &plan, &(ls_plan_setup){&run->config, layout, run->batch, run->dtype, false}));
    fputs("<h3>Layer by layer</h3>\n<p>Each layer's output, channels x rows x columns, is cut into "
          "a grid of samples x down x across x channels, a block for each rank. Where that is "
          "another grid than that of what the layer reads, its input goes to other ranks, and its "
          "gradient back.</p>\n",
          file);
    if (plan != NULL)
        fputs("<p>Bytes of one step as lockstep plan has them, which a run's counters equal. "
              "Forward: what ranks receive of the layer's input, all together, and the one that "
              "receives most, beside the formula for a halo, O x edge x channels with O = (K - 1) "
              "/ 2. Backward: halos of its output's gradient. Returned: its input's gradient to "
              "the owners in another grid. Summed: handed into reductions by all ranks, gradients "
              "of parameters and statistics.</p>\n",
              file);
    fputs("<div class=\"scroll\"><table class=\"traffic small\">\n<tr><th>layer</th><th></th>"
          "<th>output</th><th>grid</th>",
          file);
    if (plan != NULL)
        fputs("<th class=\"right\">forward</th><th>for</th><th class=\"right\">most</th>"
              "<th class=\"right\">formula</th><th class=\"right\">backward</th>"
              "<th class=\"right\">returned</th><th class=\"right\">summed</th>",
              file);
    fputs("</tr>\n", file);
    for (size_t n = 0; n < net->count; n++)
        write_layer(file, &net->layers[n], &shapes.layer[n], read_grid(&grids, net, n),
                    grids.layer[n], plan != NULL ? &plan->net_layers[n] : NULL);
    fputs("</table></div>\n", file);
exit:
    ls_plan_destroy(&plan);
    return status;
}

ls_status ls_page_net_places(FILE *file, const ls_report *report, const ls_report_run *run)
{
    ls_status status = LS_OK;
    const ls_layout *layout = &run->layout;
    const ls_net *net = &report->common.config.net;
    char name[LS_LAYOUT_NAME];
    if (run->result.ranks == 1) return LS_OK;
    ls_report_layout_name(LS_MODEL_NET, layout, name, sizeof name);
    fprintf(file, "<h2>Where ranks stand</h2>\n<p>%s:", name);
    if (layout->dp > 1)
        fputs(" a square for each replica, which has its own images;", file);
    else
        fputs(" the square stands for every image;", file);
    if (layout->down > 1 || layout->across > 1)
        fputs(" rows and columns of frames in it for the parts of the pixels;", file);
    if (layout->channels > 1)
        fputs(" side by side in a frame, a colour each, the ranks that share the channels;", file);
    fputs(" the numbers are those of the ranks.</p>\n", file);
    ls_svg_net_grid(file, layout, net, report->common.batch);
    LS_TRY(write_layers(file, report, layout));
exit:
    return status;
}
