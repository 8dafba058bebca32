#include "lockstep/numerics/pixel_tree.h"

#include <assert.h>

/* ---- inside an image */

/* A node on the way down from P(rows, columns). */
typedef struct pixel_place {
    ls_rectangle at; /* in granules */
    size_t lo;       /* its first leaf, counted inside the image */
    bool columns;    /* the axis whose turn it is */
} pixel_place;

static pixel_place root_of(const ls_pixel_tree *tree)
{
    return (pixel_place){{0, 0, tree->rows, tree->columns}, 0, false};
}

/* The children of a node of two granules or more. */
static void halve(pixel_place node, pixel_place *ret_first, pixel_place *ret_second)
{
    pixel_place first = node, second = node;
    bool columns = node.columns ? node.at.width > 1 : node.at.height == 1;
    if (columns) {
        first.at.width = ls_tree_split(node.at.width);
        second.at.left += first.at.width;
        second.at.width -= first.at.width;
    } else {
        first.at.height = ls_tree_split(node.at.height);
        second.at.top += first.at.height;
        second.at.height -= first.at.height;
    }
    first.columns = second.columns = !columns;
    second.lo += ls_rectangle_count(first.at);
    *ret_first = first;
    *ret_second = second;
}

/* The node over the leaves lo..hi of an image. */
static pixel_place find(const ls_pixel_tree *tree, size_t lo, size_t hi)
{
    pixel_place node = root_of(tree), first, second;
    while (node.lo != lo || ls_rectangle_count(node.at) != hi - lo) {
        assert(ls_rectangle_count(node.at) > hi - lo);
        halve(node, &first, &second);
        node = lo < second.lo ? first : second;
    }
    return node;
}

size_t ls_pixel_leaf(const ls_pixel_tree *tree, size_t image, size_t row, size_t column)
{
    pixel_place node = root_of(tree), first, second;
    while (ls_rectangle_count(node.at) > 1) {
        halve(node, &first, &second);
        bool in_second = row >= second.at.top && column >= second.at.left;
        node = in_second ? second : first;
    }
    return image * tree->rows * tree->columns + node.lo;
}

/* ---- over images */

static size_t cut_pixels(const void *shape, size_t lo, size_t hi)
{
    const ls_pixel_tree *tree = shape;
    size_t each = tree->rows * tree->columns, image = lo / each;
    if (hi - lo > each) return lo + ls_tree_split((hi - lo) / each) * each;
    pixel_place first, second;
    halve(find(tree, lo - image * each, hi - image * each), &first, &second);
    return image * each + second.lo;
}

ls_binary_tree ls_pixel_tree_numbered(const ls_pixel_tree *tree)
{
    return (ls_binary_tree){tree->images * tree->rows * tree->columns, cut_pixels, tree};
}

ls_pixel_area ls_pixel_area_of(const ls_pixel_tree *tree, ls_node node)
{
    size_t each = tree->rows * tree->columns, image = node.lo / each;
    if (node.hi - node.lo > each)
        return (ls_pixel_area){image, (node.hi - node.lo) / each, root_of(tree).at};
    return (ls_pixel_area){image, 1, find(tree, node.lo - image * each, node.hi - image * each).at};
}

/* ---- forests */

/* Appends the complete nodes of one image inside `area` of the subtree `node`. */
static size_t collect(pixel_place node, ls_rectangle area, size_t first_leaf, ls_node *nodes,
                      size_t count)
{
    ls_rectangle inside = ls_rectangle_common(node.at, area);
    if (ls_rectangle_is_empty(inside)) return count;
    if (ls_rectangle_equal(inside, node.at)) {
        size_t lo = first_leaf + node.lo;
        if (nodes) nodes[count] = (ls_node){lo, lo + ls_rectangle_count(node.at)};
        return count + 1;
    }
    pixel_place first, second;
    halve(node, &first, &second);
    count = collect(first, area, first_leaf, nodes, count);
    return collect(second, area, first_leaf, nodes, count);
}

size_t ls_pixel_forest(const ls_pixel_tree *tree, ls_pixel_area area, ls_node *ret_nodes)
{
    size_t each = tree->rows * tree->columns, count = 0;
    pixel_place root = root_of(tree);
    if (area.images == 0 || ls_rectangle_is_empty(area.granules)) return 0;
    if (!ls_rectangle_equal(area.granules, root.at)) {
        for (size_t i = area.first; i < area.first + area.images; i++)
            count = collect(root, area.granules, i * each, ret_nodes, count);
        return count;
    }
    /* Whole images: the forest of T, each of its nodes that many leaves wider. */
    ls_node nodes[LS_FOREST_MAX];
    count = ls_tree_forest(tree->images, area.first, area.first + area.images, nodes);
    for (size_t i = 0; ret_nodes && i < count; i++)
        ret_nodes[i] = (ls_node){nodes[i].lo * each, nodes[i].hi * each};
    return count;
}
