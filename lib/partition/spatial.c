/* spatial.c - the pixels of a member of a grid. */
#include "lockstep/partition/spatial.h"

/* ---- who owns what */

ls_status ls_spatial_check(const ls_spatial_grid *grid, size_t height, size_t width,
                           const char *what)
{
    ls_status status = LS_OK;
    if (grid->down == 0 || grid->across == 0)
        LS_FAIL(LS_ERR_INPUT, "a spatial grid of %zu x %zu ranks: at least 1 x 1", grid->down,
                grid->across);
    if (grid->row_granules == 0 || grid->column_granules == 0)
        LS_FAIL(LS_ERR_INPUT, "%zu x %zu granules of an image: at least 1 x 1", grid->row_granules,
                grid->column_granules);
    if (grid->down > height || grid->across > width)
        LS_FAIL(LS_ERR_INPUT,
                "a spatial grid of %zu x %zu ranks is larger than %s of %zu x %zu pixels; at most "
                "one rank per row and column",
                grid->down, grid->across, what, height, width);
exit:
    return status;
}

size_t ls_spatial_members(const ls_spatial_grid *grid)
{
    return grid->down * grid->across;
}

ls_rectangle ls_spatial_granules(const ls_spatial_grid *grid, size_t member)
{
    ls_share rows = ls_share_of(grid->row_granules, grid->down, member / grid->across);
    ls_share columns = ls_share_of(grid->column_granules, grid->across, member % grid->across);
    return (ls_rectangle){rows.first, columns.first, rows.count, columns.count};
}

ls_rectangle ls_spatial_pixels(const ls_spatial_grid *grid, size_t member, size_t height,
                               size_t width)
{
    return ls_rectangle_of_granules(ls_spatial_granules(grid, member), grid->row_granules,
                                    grid->column_granules, height, width);
}

/* ---- halos */

size_t ls_halo_elements(size_t height, size_t width, size_t rows, size_t columns)
{
    return 2 * rows * width + 2 * columns * height + 4 * rows * columns;
}
