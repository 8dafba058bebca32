#include "lockstep/partition/layer_grid.h"

#include <limits.h>
#include <stddef.h>

int ls_layer_grid_ranks(const ls_layer_grid *grid)
{
    const int degrees[] = {grid->samples, grid->down, grid->across, grid->channels};
    long long ranks = 1;
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++) {
        ranks *= degrees[i];
        if (degrees[i] < 1 || ranks > INT_MAX) return -1;
    }
    return (int)ranks;
}

ls_grid_place ls_layer_grid_place(const ls_layer_grid *grid, int rank)
{
    ls_grid_place at;
    at.channel = rank % grid->channels;
    rank /= grid->channels;
    at.column = rank % grid->across;
    rank /= grid->across;
    at.row = rank % grid->down;
    at.sample = rank / grid->down;
    return at;
}

int ls_layer_grid_rank(const ls_layer_grid *grid, ls_grid_place at)
{
    return at.channel +
           grid->channels * (at.column + grid->across * (at.row + grid->down * at.sample));
}

bool ls_layer_grid_equal(ls_layer_grid a, ls_layer_grid b)
{
    return a.samples == b.samples && a.down == b.down && a.across == b.across &&
           a.channels == b.channels;
}
