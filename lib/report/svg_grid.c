/* svg_grid.c - the ranks of a layout in their places: a row per replica, a column per pipeline
 * rank, in each place the ranks of a tensor-parallel group. */
#include <math.h>

#include "lockstep/partition/share.h"
#include "report/svg.h"

enum { WIDTH = 760, TOP = 22, MOST_ROWS = 64, GAP = 8, LETTER = 7 };

/* How the ranks of one tensor-parallel group are laid out in their place. */
typedef struct place {
    double left, width, height; /* of a place with its gap; the first is at left */
    double box, box_height;     /* of a rank */
    int across;                 /* ranks side by side */
} place;

static place place_of(const ls_layout *layout, double left)
{
    place p = {.left = left, .width = (WIDTH - left) / layout->pp, .box_height = 18.0};
    double room = fmax(p.width - GAP, 4.0);
    p.across = layout->tp;
    /* Boxes too narrow for a number go into several lines. */
    while (p.across > 1 && room / p.across < 30.0) p.across = (p.across + 1) / 2;
    p.box = fmin(room / p.across, 64.0);
    int lines = (layout->tp + p.across - 1) / p.across;
    p.height = lines * p.box_height + GAP;
    return p;
}

static void draw_rank(FILE *file, const place *p, const ls_layout *layout, int rank)
{
    ls_coordinates at = ls_layout_coordinates(layout, rank);
    double x = p->left + at.pp * p->width + (at.tp % p->across) * p->box;
    double y = TOP + at.dp * p->height + (double)(at.tp / p->across) * p->box_height;
    fprintf(file,
            "<rect class=\"part\" style=\"--h:%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
            "height=\"%.2f\"><title>rank %d: replica %d, pipeline rank %d, tp rank %d</title>"
            "</rect>",
            (360 * at.pp / layout->pp + 210) % 360, x, y, p->box, p->box_height, rank, at.dp, at.pp,
            at.tp);
    if (p->box >= 6.5 * (rank < 10 ? 1 : rank < 100 ? 2 : rank < 1000 ? 3 : 4) + 3.0)
        fprintf(file, "<text class=\"number\" x=\"%.2f\" y=\"%.2f\">%d</text>", x + p->box / 2,
                y + p->box_height / 2 + 3.5, rank);
    fputc('\n', file);
}

/* "replica 0: sequences 0-3", or less when the column is narrow. */
static void draw_row_name(FILE *file, const place *p, const ls_layout *layout, size_t batch, int dp)
{
    ls_share own = ls_share_of(batch, (size_t)layout->dp, (size_t)dp);
    fprintf(file, "<text x=\"0\" y=\"%.1f\">replica %d: sequence%s %zu",
            TOP + dp * p->height + p->box_height / 2 + 4.0, dp, own.count == 1 ? "" : "s",
            own.first);
    if (own.count > 1) fprintf(file, "-%zu", own.first + own.count - 1);
    fputs("</text>\n", file);
}

void ls_svg_grid(FILE *file, const ls_layout *layout, size_t batch)
{
    int rows = layout->dp < MOST_ROWS ? layout->dp : MOST_ROWS;
    place p = place_of(layout, layout->dp > 1 ? 28.0 * LETTER : 0.0);
    double bottom = TOP + rows * p.height + (rows < layout->dp ? 16.0 : 0.0);
    fprintf(file, "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"Ranks in the grid\">\n",
            WIDTH, bottom);
    for (int pp = 0; pp < layout->pp && layout->pp > 1; pp++)
        fprintf(file, "<text x=\"%.1f\" y=\"14\">%s%d</text>\n", p.left + pp * p.width,
                p.width >= 110.0 ? "pipeline rank " : "", pp);
    for (int rank = 0; rank < ls_layout_ranks(layout); rank++)
        if (ls_layout_coordinates(layout, rank).dp < rows) draw_rank(file, &p, layout, rank);
    for (int dp = 0; dp < rows && layout->dp > 1; dp++) draw_row_name(file, &p, layout, batch, dp);
    if (rows < layout->dp)
        fprintf(file, "<text x=\"0\" y=\"%.1f\">and %d more replicas like these</text>\n",
                bottom - 4.0, layout->dp - rows);
    fputs("</svg>\n", file);
}
