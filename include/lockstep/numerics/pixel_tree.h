/* pixel_tree.h - the tree over the granules of an image, and over images (contract rules 6, 8, 9).
 *
 * An image is rows x columns granules, given by the model. P(rows, columns) halves the rows, then
 * the columns, then the rows again, each time at ls_tree_split; an axis with one granule left is
 * passed over. The sum over a batch is T(images) over the P of each image. Every node inside an
 * image is a rectangle of granules; every node above is a run of whole images.
 *
 *     P(3, 2), leaves numbered from left to right:
 *
 *                    3 x 2                         0 | 2
 *                .-----'-----.                     --+--
 *              2 x 2        1 x 2                  1 | 3
 *            .---'---.       .'.                   -----
 *          2 x 1   2 x 1    4   5                  4 | 5
 *           .'.     .'.
 *          0   1   2   3
 *
 * A rank that owns a rectangle of granules of a run of images has the largest nodes inside: its
 * forest. An image granule without pixels (more granules than rows) is a leaf all the same, with
 * nothing to add (rule 14). */
#ifndef LS_NUMERICS_PIXEL_TREE_H
#define LS_NUMERICS_PIXEL_TREE_H

#include "lockstep/base/rectangle.h"
#include "lockstep/numerics/binary_tree.h"

LS_BEGIN_DECLS

/* rows, columns >= 1: granules of each image. images = 1 is P alone, rows = columns = 1 T alone. */
typedef struct ls_pixel_tree {
    size_t images, rows, columns;
} ls_pixel_tree;

/* Images first .. first + images; when there is one, the rectangle of its granules, else all of
 * them. */
typedef struct ls_pixel_area {
    size_t first, images;
    ls_rectangle granules;
} ls_pixel_area;

/* The tree by its numbered leaves. It reads *tree, which must outlive it. */
LS_API ls_binary_tree ls_pixel_tree_numbered(const ls_pixel_tree *tree);

/* The number of the leaf that is granule (row, column) of an image. */
LS_API size_t ls_pixel_leaf(const ls_pixel_tree *tree, size_t image, size_t row, size_t column);

/* What a node covers. */
LS_API ls_pixel_area ls_pixel_area_of(const ls_pixel_tree *tree, ls_node node);

/* Writes the largest complete nodes inside `area` (here any rectangle of any run of images), in
 * ascending order, and returns how many. An empty area has none. ret_nodes: room for them, or NULL
 * to count. */
LS_API size_t ls_pixel_forest(const ls_pixel_tree *tree, ls_pixel_area area, ls_node *ret_nodes);

LS_END_DECLS

#endif
