/* cause_net_halo.c - pixels that a rank reads beyond its own, gone wrong: missing, without corners,
 * a row or column too few, or those of one place further.
 *
 * What a grid of blocks would have made wrong lies along its cuts. So a grid is computed only when
 * every wrong element is one whose block reads pixels of another there. */
#include <math.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "causes/cause_net.h"
#include "step_graph/operation_net.h"

#define WINDOWS (LS_KIND(CONV) | LS_KIND(MAX_POOL) | LS_KIND(AVERAGE_POOL))

typedef struct form {
    ls_cause cause;
    ls_halo_form form;
    bool rows, columns, before, behind; /* there only */
    const char *text;
} form;

/* The more usual a mistake, the earlier. */
static const form forms[] = {
    {LS_CAUSE_HALO_MISSING, LS_HALO_ABSENT, 0, 0, 0, 0, "pixels beyond a block's own count as 0"},
    {LS_CAUSE_HALO_CORNER, LS_HALO_NO_CORNERS, 0, 0, 0, 0,
     "pixels beyond a block's own rows and columns, its corners, count as 0"},
    {LS_CAUSE_HALO, LS_HALO_SHORT, 0, 0, 0, 0,
     "the halo is a row or column too narrow: the farthest counts as 0"},
    {LS_CAUSE_HALO, LS_HALO_NEARER, 0, 0, 0, 0,
     "pixels beyond a block's own are taken one place nearer to it"},
    {LS_CAUSE_HALO, LS_HALO_FARTHER, 0, 0, 0, 0,
     "pixels beyond a block's own are taken one place farther away"},
    {LS_CAUSE_HALO, LS_HALO_SHORT, 0, 0, 1, 0,
     "the halo before a block is a row or column too narrow"},
    {LS_CAUSE_HALO, LS_HALO_SHORT, 0, 0, 0, 1,
     "the halo behind a block is a row or column too narrow"},
    {LS_CAUSE_HALO, LS_HALO_SHORT, 1, 0, 0, 0, "the halo is a row too narrow"},
    {LS_CAUSE_HALO, LS_HALO_SHORT, 0, 1, 0, 0, "the halo is a column too narrow"},
    {LS_CAUSE_HALO, LS_HALO_NEARER, 0, 0, 1, 0,
     "pixels before a block's own are taken one place nearer to it"},
    {LS_CAUSE_HALO, LS_HALO_NEARER, 0, 0, 0, 1,
     "pixels behind a block's own are taken one place nearer to it"},
    {LS_CAUSE_HALO, LS_HALO_FARTHER, 0, 0, 1, 0,
     "pixels before a block's own are taken one place farther away"},
    {LS_CAUSE_HALO, LS_HALO_FARTHER, 0, 0, 0, 1,
     "pixels behind a block's own are taken one place farther away"},
    {LS_CAUSE_HALO, LS_HALO_LOWER, 0, 0, 0, 0,
     "pixels beyond a block's own are taken one row and column before"},
    {LS_CAUSE_HALO, LS_HALO_HIGHER, 0, 0, 0, 0,
     "pixels beyond a block's own are taken one row and column behind"},
    {LS_CAUSE_HALO, LS_HALO_LOWER, 1, 0, 0, 0,
     "rows beyond a block's own are taken one place before"},
    {LS_CAUSE_HALO, LS_HALO_LOWER, 0, 1, 0, 0,
     "columns beyond a block's own are taken one place before"},
    {LS_CAUSE_HALO, LS_HALO_HIGHER, 1, 0, 0, 0,
     "rows beyond a block's own are taken one place behind"},
    {LS_CAUSE_HALO, LS_HALO_HIGHER, 0, 1, 0, 0,
     "columns beyond a block's own are taken one place behind"},
    {LS_CAUSE_HALO, LS_HALO_NEARER, 1, 0, 0, 0,
     "rows beyond a block's own are taken one place nearer to it"},
    {LS_CAUSE_HALO, LS_HALO_NEARER, 0, 1, 0, 0,
     "columns beyond a block's own are taken one place nearer to it"},
    {LS_CAUSE_HALO, LS_HALO_FARTHER, 1, 0, 0, 0,
     "rows beyond a block's own are taken one place farther away"},
    {LS_CAUSE_HALO, LS_HALO_FARTHER, 0, 1, 0, 0,
     "columns beyond a block's own are taken one place farther away"},
    {LS_CAUSE_HALO, LS_HALO_REPEATED, 0, 0, 0, 0,
     "a block's outermost pixels stand in place of those beyond"},
    {LS_CAUSE_HALO_MISSING, LS_HALO_ABSENT, 1, 0, 0, 0, "rows beyond a block's own count as 0"},
    {LS_CAUSE_HALO_MISSING, LS_HALO_ABSENT, 0, 1, 0, 0, "columns beyond a block's own count as 0"},
    {LS_CAUSE_HALO_MISSING, LS_HALO_ABSENT, 0, 0, 1, 0, "pixels before a block's own count as 0"},
    {LS_CAUSE_HALO_MISSING, LS_HALO_ABSENT, 0, 0, 0, 1, "pixels behind a block's own count as 0"},
};

static ls_variant variant_of(const form *f, const ls_variant_grid *grid, bool dy)
{
    ls_variant v = {.grid = *grid,
                    .halo_rows_only = f->rows,
                    .halo_columns_only = f->columns,
                    .halo_before_only = f->before,
                    .halo_behind_only = f->behind};
    *(dy ? &v.dy_halo : &v.halo) = f->form;
    return v;
}

/* ---- where wrong elements lie ---- */

/* Marks the pixels of an image whose window reads beyond their block. */
static void mark_touching(const net_layer *l, const ls_variant_grid *grid, bool dy, bool *touching)
{
    const ls_net_shape *made = dy ? &l->in : &l->out, *needed = dy ? &l->out : &l->in;
    const size_t extent[2] = {made->height, made->width};
    const size_t other[2] = {needed->height, needed->width};
    const size_t granules[2] = {l->net->row_granules, l->net->column_granules};
    const size_t blocks[2] = {grid->down, grid->across};
    for (size_t r = 0; r < extent[0]; r++)
        for (size_t c = 0; c < extent[1]; c++) {
            const ls_rectangle one = {r, c, 1, 1};
            const ls_rectangle reads =
                dy ? ls_window_read_by(&l->window, one) : ls_window_reads(&l->window, one);
            const size_t at[2] = {r, c}, first[2] = {reads.top, reads.left};
            const size_t end[2] = {reads.top + reads.height, reads.left + reads.width};
            bool beyond = false;
            if (ls_rectangle_is_empty(reads)) continue;
            for (int i = 0; i < 2; i++) {
                size_t b = 0;
                ls_share own = ls_net_block_pixels(extent[i], granules[i], blocks[i], b);
                while (at[i] >= own.first + own.count)
                    own = ls_net_block_pixels(extent[i], granules[i], blocks[i], ++b);
                own = ls_net_block_pixels(other[i], granules[i], blocks[i], b);
                beyond |= first[i] < own.first || end[i] > own.first + own.count;
            }
            touching[r * extent[1] + c] |= beyond;
        }
}

/* Whether a cut explains where this tensor is wrong: every wrong element is at it. */
static ls_status is_along(const ls_search *search, const ls_variant_grid *grid, bool dy,
                          bool *ret_along)
{
    ls_status status = LS_OK;
    const ls_graph_node *node = search->node;
    const size_t pixels = node->dims[2] * node->dims[3];
    const ls_operands *o = &search->of->operands;
    const evaluation e = {.o = o, .graph = search->graph, .config = search->config, .B = 1};
    bool *touching = NULL;
    LS_NEW(touching, pixels);
    for (size_t r = 0; r < search->graph->count; r++) {
        const ls_graph_node *reader = &search->graph->nodes[r];
        if (reader->phase != LS_GRAPH_FORWARD) break;
        if (!(WINDOWS >> reader->make & 1)) continue;
        if (dy ? ls_graph_slot(reader, node->of) < 0 : (int)r != search->of->node) continue;
        const net_layer l = ls_net_layer_at(&e, reader);
        mark_touching(&l, grid, dy, touching);
    }
    *ret_along = true;
    for (size_t i = 0; i < search->n && *ret_along; i++) {
        if (ls_search_is_wrong(search, i) && !touching[i % pixels]) *ret_along = false;
    }
exit:
    free(touching);
    return status;
}

/* ---- trials ---- */

static bool has_any(const ls_search *search)
{
    return search->fits[LS_CAUSE_HALO] || search->fits[LS_CAUSE_HALO_CORNER] ||
           search->fits[LS_CAUSE_HALO_MISSING] || search->fits[LS_CAUSE_DY_HALO];
}

static ls_status try_grid(ls_search *search, const ls_variant_grid *grid, bool dy)
{
    ls_status status = LS_OK;
    char text[LS_EVIDENCE], blocks[64];
    for (size_t f = 0; f < sizeof forms / sizeof *forms && !has_any(search); f++) {
        const form *wrong = &forms[f];
        const ls_variant variant = variant_of(wrong, grid, dy);
        ls_cause cause = wrong->cause;
        if ((wrong->rows && grid->down < 2) || (wrong->columns && grid->across < 2)) continue;
        if ((wrong->rows || wrong->columns || wrong->form == LS_HALO_NO_CORNERS) &&
            (grid->down < 2 || grid->across < 2))
            continue;
        if (dy && cause == LS_CAUSE_HALO_MISSING) cause = LS_CAUSE_DY_HALO;
        snprintf(text, sizeof text, "%s%s; cut into %s", dy ? "of dy: " : "", wrong->text,
                 ls_grid_text(grid, blocks));
        LS_TRY(ls_search_try_variant(search, cause, WINDOWS, &variant, text));
        /* A halo of one row that is a row too narrow is none: the other name is as good. */
        if (f > 0 || !search->fits[cause]) continue;
        const ls_variant narrow = variant_of(&(form){.form = LS_HALO_SHORT}, grid, dy);
        LS_TRY(ls_search_try_variant(search, LS_CAUSE_HALO, WINDOWS, &narrow,
                                     "the halo is a row or column too narrow"));
    }
exit:
    return status;
}

ls_status ls_cause_net_halo(ls_search *search)
{
    ls_status status = LS_OK;
    const net_cutting cutting = {false, true};
    ls_variant_grid grids[LS_SEARCH_GRIDS];
    size_t known;
    const ls_operation_kind make = search->node->make;
    const bool concerned = ls_search_concerns(search, WINDOWS);
    /* What lies along the cuts is told at once; other tensors only in layouts that are known. */
    const bool has_place = concerned && make != LS_MAKE_PARAM_GRADIENT;
    if (!ls_search_can_concern(search, WINDOWS) || search->node->phase == LS_GRAPH_UPDATE)
        goto exit;
    size_t n = ls_search_grids(search, search->node->layer, &cutting, grids, &known);
    if (!has_place) n = known ? known : n < 4 ? n : 4;
    for (size_t g = 0; g < n && !has_any(search); g++) {
        const bool dy = make == LS_MAKE_GRADIENT;
        bool along = true;
        if (has_place && search->of->own_inputs) LS_TRY(is_along(search, &grids[g], dy, &along));
        if (!along) continue;
        LS_TRY(try_grid(search, &grids[g], dy));
        /* Without its own inputs a gradient may be wrong because of what was made forward. */
        if (!search->of->own_inputs && dy) LS_TRY(try_grid(search, &grids[g], false));
    }
exit:
    return status;
}
