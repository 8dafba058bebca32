/* gemm_plan.h - the leaves of a contraction in order, each with the additions that follow it.
 *
 * Walking a tree from its first leaf to its last, a node can be added up as soon as its last leaf
 * is there. With the finished parts on a stack that is: push the leaf; then as many times as nodes
 * end here, add the two on top. For six leaves:
 *
 *            T(6)               leaf      0  1  2  3  4  5
 *         .--'--.               merges    0  1  1  0  1  2
 *       T(3)   T(3)             stack     0  01  012  012 3  012 34  012345
 *       .'.     .'.
 *    T(2) 2  T(2) 5             (written with the leaves that each entry holds)
 *     0 1     3 4
 *
 * Both levels of rule 7 are one such list: a granule's last leaf also ends nodes of the tree over
 * the granules. */
#ifndef LS_NUMERICS_GEMM_PLAN_H
#define LS_NUMERICS_GEMM_PLAN_H

#include <stddef.h>

#include "lockstep/numerics/axis.h"

typedef struct ls_leaf_step {
    size_t length; /* terms of the leaf, at most LS_LEAF */
    size_t merges; /* nodes that end with it             */
} ls_leaf_step;

/* A walk over the leaves of an axis without empty granules. */
typedef struct ls_leaf_walk {
    ls_axis k;
    size_t granule, leaf, leaves; /* where it stands; leaves in each granule */
    size_t height;                /* entries on the stack now                */
    const ls_leaf_step *list;     /* instead of an axis: these leaves        */
    size_t listed, next;
} ls_leaf_walk;

ls_leaf_walk ls_leaf_walk_start(ls_axis k);

/* A walk over leaves that are listed, none of them empty: any binary tree. */
ls_leaf_walk ls_leaf_walk_list(const ls_leaf_step *list, size_t n);

/* Whether leaves are left. */
int ls_leaf_walk_more(const ls_leaf_walk *walk);

/* The next leaf; the walk goes on behind it. */
ls_leaf_step ls_leaf_walk_next(ls_leaf_walk *walk);

/* The most entries that stand on the stack at once during a walk, the leaf itself included. */
size_t ls_leaf_walk_depth(ls_axis k);

/* The same for a list. */
size_t ls_leaf_list_depth(const ls_leaf_step *list, size_t n);

#endif
