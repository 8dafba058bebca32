/* svg_net_grid.c - the ranks of a convolutional network in their places: an image per replica, cut
 * into the rows and columns of ranks, each place into its channel-parallel ranks. */
#include <math.h>

#include "lockstep/parallel/layout/net_grids.h"
#include "report/svg.h"

enum { WIDTH = 760, TOP = 20, IMAGE = 168, GAP = 20, SHOWN = 16 };

/* The left or upper edge of granule g of n in a picture. */
static double edge(size_t g, size_t n)
{
    return (double)IMAGE * (double)g / (double)n;
}

static void draw_rank(FILE *file, double left, double top, const ls_layout *layout,
                      const ls_net *net, int rank)
{
    const ls_coordinates at = ls_layout_coordinates(layout, rank);
    const ls_share rows = ls_share_of(net->row_granules, (size_t)layout->down, (size_t)at.row);
    const ls_share columns =
        ls_share_of(net->column_granules, (size_t)layout->across, (size_t)at.column);
    if (rows.count == 0 || columns.count == 0) return; /* it has no pixel */
    const double x = left + edge(columns.first, net->column_granules);
    const double y = top + edge(rows.first, net->row_granules);
    const double place = edge(columns.count, net->column_granules);
    const double place_height = edge(rows.count, net->row_granules);
    /* The frame of a place is that of its pixels; inside it channels stand side by side. */
    const double smaller = fmin(place / layout->channels, place_height);
    const double inset = layout->channels > 1 && smaller > 12.0 ? 4.0 : 0.0;
    const double width = (place - 2.0 * inset) / layout->channels;
    const double height = place_height - 2.0 * inset;
    const double own = x + inset + at.channel * width;
    fprintf(file,
            "<rect class=\"part\" style=\"--h:%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
            "height=\"%.2f\"><title>rank %d: replica %d, row %d, column %d, channels %d of "
            "%d</title></rect>",
            (360 * at.channel / layout->channels + 210) % 360, own, y + inset, width, height, rank,
            at.dp, at.row, at.column, at.channel, layout->channels);
    if (width >= 6.5 * (rank < 10 ? 1 : rank < 100 ? 2 : 3) + 3.0 && height >= 14.0)
        fprintf(file, "<text class=\"number\" x=\"%.2f\" y=\"%.2f\">%d</text>", own + width / 2,
                y + place_height / 2 + 3.5, rank);
    if (at.channel == 0 && smaller > 6.0)
        fprintf(file,
                "<rect class=\"place\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>", x,
                y, place, place_height);
    fputc('\n', file);
}

static void draw_name(FILE *file, double left, double top, const ls_layout *layout, size_t batch,
                      int dp)
{
    const ls_share own = ls_share_of(batch, (size_t)layout->dp, (size_t)dp);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">image%s %zu", left, top - 6.0,
            own.count == 1 ? "" : "s", own.first);
    if (own.count > 1) fprintf(file, "-%zu", own.first + own.count - 1);
    fputs("</text>\n", file);
}

void ls_svg_net_grid(FILE *file, const ls_layout *layout, const ls_net *net, size_t batch)
{
    const int beside = (WIDTH + GAP) / (IMAGE + GAP);
    const int shown = layout->dp < SHOWN ? layout->dp : SHOWN;
    const int lines = (shown + beside - 1) / beside;
    const double line = TOP + IMAGE + GAP;
    const double bottom = lines * line + (shown < layout->dp ? 16.0 : 0.0);
    fprintf(file, "<svg viewBox=\"-1 0 %d %.0f\" role=\"img\" aria-label=\"Ranks over images\">\n",
            WIDTH, bottom);
    for (int dp = 0; dp < shown; dp++)
        draw_name(file, dp % beside * (IMAGE + GAP), dp / beside * line + TOP, layout, batch, dp);
    for (int rank = 0; rank < ls_layout_ranks(layout); rank++) {
        const int dp = ls_layout_coordinates(layout, rank).dp;
        if (dp < shown)
            draw_rank(file, dp % beside * (IMAGE + GAP), dp / beside * line + TOP, layout, net,
                      rank);
    }
    if (shown < layout->dp)
        fprintf(file, "<text x=\"0\" y=\"%.1f\">and %d more replicas like these</text>\n",
                bottom - 4.0, layout->dp - shown);
    fputs("</svg>\n", file);
}
