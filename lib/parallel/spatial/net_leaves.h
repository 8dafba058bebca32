/* net_leaves.h - the leaves of a member's nodes of a tree over images and granules, listed once: a
 * sum goes through the list and needs to know nothing of trees.
 *
 *     create     ls_net_leaves_create      the list, for a layer's size of image
 *     a pass     ls_net_leaf_sums          this member's nodes, each from its leaves
 *                ls_all_reduce_plan        the sum over all members (net_sums.h) */
#ifndef LS_PARALLEL_SPATIAL_NET_LEAVES_H
#define LS_PARALLEL_SPATIAL_NET_LEAVES_H

#include "lockstep/base/memory.h"
#include "lockstep/base/real.h"
#include "lockstep/numerics/pixel_tree.h"

/* A leaf: the pixels of a granule of an image; there may be none. */
typedef struct ls_net_leaf {
    size_t image; /* counted from the member's first */
    ls_rectangle pixels;
    size_t closes; /* additions that follow, as ls_binary_tree_merges_after counts them */
    bool last;     /* of its node */
} ls_net_leaf;

typedef struct ls_net_leaves {
    size_t n_nodes, n_leaves;
    size_t stack; /* the most partial sums at once in any node */
    ls_net_leaf *leaves;
} ls_net_leaves;

/* nodes: this member's, of tree `pixels`; first_image: its first image; height, width: of an image
 * of the layer. Everything is taken from arena. Errors: LS_ERR_MEMORY. */
ls_status ls_net_leaves_create(ls_net_leaves **ret_leaves, ls_arena *arena,
                               const ls_pixel_tree *pixels, const ls_node *nodes, size_t n_nodes,
                               size_t first_image, size_t height, size_t width) LS_MUST_USE;

/* Writes what one leaf adds: `count` values; -0 when it has no pixels (rule 14). */
#define ls_net_leaf_value LS_TYPED(ls_net_leaf_value)
typedef void ls_net_leaf_value(ls_real *value, const void *context, const ls_net_leaf *leaf);

/* values: [n_nodes][count], overwritten. Errors: LS_ERR_MEMORY. */
#define ls_net_leaf_sums LS_TYPED(ls_net_leaf_sums)
ls_status ls_net_leaf_sums(ls_real *values, size_t count, const ls_net_leaves *leaves,
                           ls_net_leaf_value *value, const void *context,
                           ls_arena *temporary) LS_MUST_USE;

#endif
