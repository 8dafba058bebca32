/* binary_tree.h - sums along any binary tree (contract rules 6, 8 and 9).
 *
 * The leaves are numbered from 0, left to right. A node is a run of them, as in tree.h; the tree
 * is one function that says where a node is cut in two. T(n) is one such tree, the tree over pixels
 * (pixel_tree.h) another. Every set of nodes that covers the leaves once finishes the tree. */
#ifndef LS_NUMERICS_BINARY_TREE_H
#define LS_NUMERICS_BINARY_TREE_H

#include <stdbool.h>

#include "lockstep/numerics/tree.h"

LS_BEGIN_DECLS

typedef struct ls_binary_tree {
    size_t leaves;
    /* The first leaf of the right child of node lo..hi, hi - lo >= 2: lo < cut < hi. Asked of nodes
     * of the tree only. */
    size_t (*cut)(const void *shape, size_t lo, size_t hi);
    const void *shape;
} ls_binary_tree;

/* T(leaves). */
LS_API ls_binary_tree ls_binary_tree_plain(size_t leaves);

/* Whether lo..hi is a node, hi <= leaves. */
LS_API bool ls_binary_tree_has(const ls_binary_tree *tree, ls_node node);

/* A node from its leaves, one after another, on a stack of partial sums: push leaf `leaf` of node
 * `within`, then so many times replace the two on top by their sum (lower + upper). After the last
 * leaf one is left, the node's value. Cost: the depth, times that of a cut. */
LS_API size_t ls_binary_tree_merges_after(const ls_binary_tree *tree, ls_node within, size_t leaf);

/* The most partial sums that this stack ever holds. */
LS_API size_t ls_binary_tree_stack(const ls_binary_tree *tree, ls_node within);

/* y[i] = node `within` at element i, from nodes that cover it: parts[j][i] is the value of
 * nodes[j]. parts: n_parts pointers to count values each; nodes: ascending, complete, together
 * exactly `within`; none when `within` is empty, and y is +0. y: count values; may be one of the
 * parts, may not overlap them otherwise. */
#define ls_binary_tree_finish LS_TYPED(ls_binary_tree_finish)
LS_API void ls_binary_tree_finish(ls_real *y, const ls_real *const *parts, const ls_node *nodes,
                                  size_t n_parts, const ls_binary_tree *tree, ls_node within,
                                  size_t count);

LS_END_DECLS

#endif
