/* svg_cut.c - a box per parameter, as high as it has rows and as wide as it has columns (each on a
 * scale of square roots), cut into the ranks' parts. What a rank holds is asked of the same
 * function that the run itself asks. */
#include <math.h>
#include <stdlib.h>

#include "lockstep/parallel/layout/sharding.h"
#include "report/svg.h"
#include "base/allocate.h"

enum { WIDTH = 760, NAME = 228, BOX = 200, NOTE = NAME + BOX + 24, GAP = 9, HEADING = 30 };
enum { LOWEST = 13, HIGHEST = 64, KEY = 24, KEY_RANKS = 16 };

/* Parts of a transformer in the order of its forward pass, and what crosses ranks there. */
static const struct {
    ls_stage_rule stage;
    ls_role first, last;          /* inside a layer */
    const char *title, *title_sp; /* without and with sequence parallelism */
} parts[] = {
    {LS_STAGE_FIRST, LS_ROLES, LS_ROLES,
     "Embedding: each rank looks up its own rows, the sum goes to all",
     "Embedding: each rank looks up its own rows; reduce-scatter"},
    {LS_STAGE_LAYER, LS_NORM1_SCALE, LS_ATTN_OUT_BIAS,
     "Attention, layer 0: f before query, key and value; g after the output projection",
     "Attention, layer 0: all-gather before query, key and value; reduce-scatter at the end"},
    {LS_STAGE_LAYER, LS_NORM2_SCALE, LS_MLP_DOWN_BIAS,
     "MLP, layer 0: f before the first matrix, g after the last",
     "MLP, layer 0: all-gather before the first matrix, reduce-scatter after the last"},
    {LS_STAGE_LAST, LS_ROLES, LS_ROLES,
     "Head: each rank has the logits of its own rows of the vocabulary",
     "Head: all-gather; each rank has the logits of its own rows of the vocabulary"},
};

static int hue_of(int rank, int tp)
{
    return (int)(360.0 * rank / tp + 210.0) % 360;
}

static double box_width(const ls_param *param, double largest)
{
    double columns = (double)(param->n_dims == 1 ? param->dims[0] : param->dims[1]);
    return 20.0 + (BOX - 20.0) * sqrt(columns / largest);
}

static double box_height(const ls_param *param, double largest)
{
    if (param->n_dims == 1) return LOWEST;
    return LOWEST + (HIGHEST - LOWEST) * sqrt((double)param->dims[0] / largest);
}

/* Where a box is. */
typedef struct box {
    double x, y, width, height;
} box;

/* Granules first .. first + count, held by `rank`, the one at `place` of the `sharers` that hold
 * them: these share the other direction of the box. */
static void draw_part(FILE *file, const ls_param *param, box b, ls_shard part, int rank, int tp,
                      int place, int sharers)
{
    bool by_columns = param->n_dims == 1 || param->cut == 1;
    double along = by_columns ? b.width : b.height, across = by_columns ? b.height : b.width;
    double granules = (double)param->axis.granules;
    double from = along * (double)part.first / granules;
    double length = along * (double)part.count / granules;
    double side = across * place / sharers, depth = across / sharers;
    double x = b.x + (by_columns ? from : side), width = by_columns ? length : depth;
    double y = b.y + (by_columns ? side : from), height = by_columns ? depth : length;
    fprintf(file,
            "<rect class=\"part\" style=\"--h:%d\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" "
            "height=\"%.2f\"><title>rank %d</title></rect>",
            hue_of(rank, tp), x, y, width, height, rank);
    if (width >= 14.0 && height >= 11.0)
        fprintf(file, "<text class=\"number\" x=\"%.2f\" y=\"%.2f\">%d</text>", x + width / 2,
                y + height / 2 + 3.5, rank);
    fputc('\n', file);
}

/* Shards in a row, each rank's as one part; where ranks hold the same granules (key/value heads
 * shared by query heads of several ranks), granule by granule. */
static void draw_parts(FILE *file, const ls_param *param, box b, int tp, const ls_shard *shards)
{
    bool shared = false;
    for (int r = 1; r < tp; r++)
        if (shards[r].first < shards[r - 1].first + shards[r - 1].count) shared = true;
    for (int r = 0; r < tp && !shared; r++) draw_part(file, param, b, shards[r], r, tp, 0, 1);
    for (size_t g = 0; g < param->axis.granules && shared; g++) {
        int sharers = 0, place = 0;
        for (int r = 0; r < tp; r++)
            if (g - shards[r].first < shards[r].count) sharers++; /* false, too, where g < first */
        for (int r = 0; r < tp; r++) {
            ls_shard one = {g, 1};
            if (g - shards[r].first < shards[r].count)
                draw_part(file, param, b, one, r, tp, place++, sharers);
        }
    }
}

/* What is said next to a box: its shape, and what a rank holds of it. */
static void draw_note(FILE *file, const ls_param *param, double y, int tp, const ls_shard *shards)
{
    fprintf(file, "<text x=\"%d\" y=\"%.1f\">", NOTE, y);
    if (param->n_dims == 1)
        fprintf(file, "%zu", param->dims[0]);
    else
        fprintf(file, "%zu x %zu", param->dims[0], param->dims[1]);
    bool padded =
        tp > 1 && param->cut >= 0 && ls_axis_extent(param->axis) > param->dims[param->cut];
    if (padded) fprintf(file, ", padded to %zu", ls_axis_extent(param->axis));
    if (tp > 1 && param->cut < 0) fputs(", whole on every rank", file);
    if (tp > 1 && param->cut >= 0) {
        size_t rows, columns;
        ls_param_shard_shape(param, shards[0], &rows, &columns);
        if (param->n_dims == 1)
            fprintf(file, ", rank 0 holds %zu", rows > columns ? rows : columns);
        else
            fprintf(file, "%s: rank 0 holds %zu x %zu",
                    padded            ? "" /* there is no room for more */
                    : param->cut == 0 ? ", by rows"
                                      : ", by columns",
                    rows, columns);
    }
    fputs("</text>\n", file);
}

/* Which colour is which rank, while there are few. */
static void draw_key(FILE *file, int tp)
{
    if (tp > KEY_RANKS) return;
    for (int r = 0; r < tp; r++) {
        double x = (double)r * WIDTH / KEY_RANKS;
        fprintf(file,
                "<rect class=\"part\" style=\"--h:%d\" x=\"%.1f\" y=\"2\" width=\"14\" "
                "height=\"14\"/><text x=\"%.1f\" y=\"14\">%d</text>\n",
                hue_of(r, tp), x, x + 19.0, r);
    }
}

static double draw_param(FILE *file, const ls_param_table *table, const ls_param *param, double y,
                         double largest, int tp, ls_shard *shards)
{
    double width = box_width(param, largest), height = box_height(param, largest);
    double middle = y + height / 2 + 4.0;
    for (int r = 0; r < tp; r++) shards[r] = ls_shard_of(&table->config, param->kind, tp, r);
    fprintf(file, "<text x=\"0\" y=\"%.1f\">", middle);
    ls_html_text(file, param->name);
    fputs("</text>\n", file);
    if (param->cut < 0)
        fprintf(file,
                "<rect class=\"whole\" x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                NAME, y, width, height);
    else
        draw_parts(file, param, (box){NAME, y, width, height}, tp, shards);
    draw_note(file, param, middle, tp, shards);
    return y + height + GAP;
}

/* Whether a parameter is drawn in part p. */
static bool belongs(const ls_param *param, size_t p)
{
    if (param->stage != parts[p].stage || param->layer != 0) return false;
    return param->stage != LS_STAGE_LAYER ||
           (param->role >= parts[p].first && param->role <= parts[p].last);
}

ls_status ls_svg_cut(FILE *file, const ls_param_table *table, const ls_layout *layout)
{
    ls_status status = LS_OK;
    double largest = 1.0, y = layout->tp <= KEY_RANKS ? KEY : 0.0, height = y;
    ls_shard *shards = NULL;
    LS_ROOM(shards, (size_t)layout->tp);
    for (size_t i = 0; i < table->count; i++) {
        for (int d = 0; d < table->params[i].n_dims; d++)
            largest = fmax(largest, (double)table->params[i].dims[d]);
    }
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        height += HEADING;
        for (size_t i = 0; i < table->count; i++) {
            if (belongs(&table->params[i], p))
                height += box_height(&table->params[i], largest) + GAP;
        }
    }
    fprintf(file,
            "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" aria-label=\"How parameters are cut\">\n",
            WIDTH, height + (table->config.tied ? HEADING : 0));
    draw_key(file, layout->tp);
    for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
        fprintf(file, "<text class=\"title\" x=\"0\" y=\"%.1f\">%s</text>\n", y + HEADING - 12.0,
                layout->sp ? parts[p].title_sp : parts[p].title);
        y += HEADING;
        for (size_t i = 0; i < table->count; i++) {
            if (belongs(&table->params[i], p))
                y = draw_param(file, table, &table->params[i], y, largest, layout->tp, shards);
        }
    }
    if (table->config.tied)
        fprintf(file, "<text x=\"0\" y=\"%.1f\">The head's matrix is the token embedding.</text>\n",
                y + 12.0);
    fputs("</svg>\n", file);
exit:
    free(shards);
    return status;
}
