/* cause_net_grids.c - into which blocks a layer of a network may have been cut. */
#include "lockstep/parallel/layout/net_grids.h"
#include "base/append.h"
#include "causes/cause_net.h"

static size_t blocks_of(const ls_variant_grid *grid)
{
    return grid->samples * grid->down * grid->across;
}

static void add(ls_variant_grid grids[LS_SEARCH_GRIDS], size_t *count, ls_variant_grid grid,
                const net_cutting *of)
{
    if (!(of->samples)) grid.samples = 1;
    if (!(of->pixels)) grid.down = grid.across = 1;
    if (blocks_of(&grid) < 2 || *count == LS_SEARCH_GRIDS) return;
    for (size_t i = 0; i < *count; i++)
        if (grids[i].samples == grid.samples && grids[i].down == grid.down &&
            grids[i].across == grid.across)
            return;
    grids[(*count)++] = grid;
}

static void add_layout(ls_variant_grid grids[LS_SEARCH_GRIDS], size_t *count,
                       const ls_search *search, const ls_layout *layout, int layer,
                       const net_cutting *of)
{
    ls_net_grids all;
    const ls_net *net = &search->config->net;
    for (int s = 0; s < layout->n_strategies; s++)
        if (layout->strategies[s].layer >= (int)net->count) return;
    ls_net_grids_of(layout, net, &all);
    const ls_layer_grid grid = ls_net_grid_at(&all, layer);
    const ls_variant_grid made = {(size_t)grid.samples, (size_t)grid.down, (size_t)grid.across};
    add(grids, count, made, of);
}

size_t ls_search_grids(const ls_search *search, int layer, const net_cutting *of,
                       ls_variant_grid grids[LS_SEARCH_GRIDS], size_t *ret_known)
{
    enum { MOST_AXIS = 8, MOST_BLOCKS = 16 };
    const ls_case *c = search->of;
    const ls_net *net = &search->config->net;
    size_t count = 0;
    if (c->whole && c->whole->has_layout)
        add_layout(grids, &count, search, &c->whole->layout, layer, of);
    if (c->golden) add_layout(grids, &count, search, &c->golden->run.layout, layer, of);
    *ret_known = count;
    const size_t most_samples = of->samples ? search->graph->B : 1;
    const size_t most_down = of->pixels ? net->row_granules : 1;
    const size_t most_across = of->pixels ? net->column_granules : 1;
    for (size_t blocks = 2; blocks <= MOST_BLOCKS; blocks++) /* the simple ones first */
        for (size_t s = 1; s <= most_samples && s <= MOST_AXIS; s++)
            for (size_t d = 1; d <= most_down && d <= MOST_AXIS; d++) {
                if (blocks % (s * d)) continue;
                const size_t a = blocks / (s * d);
                if (a <= most_across && a <= MOST_AXIS)
                    add(grids, &count, (ls_variant_grid){s, d, a}, of);
            }
    return count;
}

const char *ls_grid_text(const ls_variant_grid *grid, char text[64])
{
    size_t used = 0;
    text[0] = '\0';
    if (grid->samples > 1) used = ls_append(text, 64, used, "%zu runs of images", grid->samples);
    if (grid->down * grid->across > 1)
        ls_append(text, 64, used, "%s%zu x %zu blocks of pixels", used ? " x " : "", grid->down,
                  grid->across);
    return text;
}
