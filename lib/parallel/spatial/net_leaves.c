/* net_leaves.c - the leaves (image, granule rectangle) of a rank's nodes, from left to right. */
#include "parallel/spatial/net_leaves.h"

ls_status ls_net_leaves_create(ls_net_leaves **ret_leaves, ls_arena *arena,
                               const ls_pixel_tree *pixels, const ls_node *nodes, size_t n_nodes,
                               size_t first_image, size_t height, size_t width)
{
    ls_status status = LS_OK;
    const ls_binary_tree tree = ls_pixel_tree_numbered(pixels);
    ls_net_leaves *made = NULL;
    ls_net_leaf *next = NULL;
    LS_TRY(ls_arena_zalloc(arena, 1, sizeof *made, (void *)&made));
    made->n_nodes = n_nodes;
    for (size_t j = 0; j < n_nodes; j++) made->n_leaves += nodes[j].hi - nodes[j].lo;
    LS_TRY(ls_arena_alloc(arena, made->n_leaves, sizeof *next, (void *)&next));
    made->leaves = next;
    for (size_t j = 0; j < n_nodes; j++) {
        const size_t stack = ls_binary_tree_stack(&tree, nodes[j]);
        if (stack > made->stack) made->stack = stack;
        for (size_t leaf = nodes[j].lo; leaf < nodes[j].hi; leaf++) {
            const ls_pixel_area area = ls_pixel_area_of(pixels, (ls_node){leaf, leaf + 1});
            *next++ = (ls_net_leaf){area.first - first_image,
                                    ls_rectangle_of_granules(area.granules, pixels->rows,
                                                             pixels->columns, height, width),
                                    ls_binary_tree_merges_after(&tree, nodes[j], leaf),
                                    leaf + 1 == nodes[j].hi};
        }
    }
    *ret_leaves = made;
exit:
    return status;
}
