/* net_sums.c - the groups, plans and nodes of sums over images and pixels, for one grid. */
#include "parallel/spatial/net_sums.h"

#include <stdlib.h>

#include "lockstep/partition/spatial.h"
#include "base/allocate.h"

static size_t members_of(const ls_layer_grid *grid)
{
    return (size_t)grid->samples * (size_t)grid->down * (size_t)grid->across;
}

/* The members of a sum, all of the same channels: the pixels of an image fastest, then the samples,
 * which is their order by rank. */
static ls_pixel_area area_of(const ls_layer_grid *grid, const ls_pixel_tree *pixels, size_t member)
{
    const ls_spatial_grid image = {(size_t)grid->down, (size_t)grid->across, pixels->rows,
                                   pixels->columns};
    const size_t each = ls_spatial_members(&image);
    const ls_share images = ls_share_of(pixels->images, (size_t)grid->samples, member / each);
    return (ls_pixel_area){images.first, images.count, ls_spatial_granules(&image, member % each)};
}

/* The plan of the members `first` .. first + count, and the nodes of one of them. `tree`: over the
 * images that these have. */
static ls_status plan_of(const ls_layer_grid *grid, const ls_pixel_tree *tree, size_t count,
                         size_t own, ls_sum_plan **ret_plan, ls_node **ret_nodes, size_t *ret_n)
{
    ls_status status = LS_OK;
    ls_pixel_area *areas = NULL;
    ls_node *nodes = NULL;
    LS_ROOM(areas, count);
    for (size_t m = 0; m < count; m++) areas[m] = area_of(grid, tree, m);
    const size_t n = ls_pixel_forest(tree, areas[own], NULL);
    LS_ROOM(nodes, n + 1);
    ls_pixel_forest(tree, areas[own], nodes);
    LS_TRY(ls_sum_plan_create_pixels(ret_plan, tree, count, areas));
    *ret_nodes = nodes;
    *ret_n = n;
    nodes = NULL;
exit:
    free(areas);
    free(nodes);
    return status;
}

ls_status ls_net_sums_create(ls_net_sums **ret_sums, ls_group *world, const ls_layer_grid *grid,
                             size_t rows, size_t columns, size_t batch)
{
    ls_status status = LS_OK;
    const int rank = ls_group_rank(world);
    const ls_grid_place at = ls_layer_grid_place(grid, rank);
    const size_t image_members = (size_t)grid->down * (size_t)grid->across;
    const ls_layer_grid one_image = {1, grid->down, grid->across, 1};
    ls_net_sums *made = NULL;
    LS_NEW(made, 1);
    made->pixels = (ls_pixel_tree){batch, rows, columns};
    made->tree = ls_pixel_tree_numbered(&made->pixels);
    made->image_pixels = (ls_pixel_tree){1, rows, columns};

    LS_TRY(ls_group_split(world, at.channel, rank, "samples and pixels", &made->members));
    LS_TRY(plan_of(grid, &made->pixels, members_of(grid), (size_t)ls_group_rank(made->members),
                   &made->plan, &made->nodes, &made->n_nodes));

    LS_TRY(ls_group_split(world, at.sample * grid->channels + at.channel, rank, "pixels",
                          &made->image_members));
    LS_TRY(plan_of(&one_image, &made->image_pixels, image_members,
                   (size_t)ls_group_rank(made->image_members), &made->image_plan,
                   &made->image_nodes, &made->n_image_nodes));
    *ret_sums = made;
    made = NULL;
exit:
    ls_net_sums_destroy(&made);
    return status;
}

void ls_net_sums_destroy(ls_net_sums **sums)
{
    ls_net_sums *old = *sums;
    if (old == NULL) return;
    ls_sum_plan_destroy(&old->plan);
    ls_sum_plan_destroy(&old->image_plan);
    free(old->nodes);
    free(old->image_nodes);
    free(old);
    *sums = NULL;
}
