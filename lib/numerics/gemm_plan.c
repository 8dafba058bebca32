/* gemm_plan.c - the leaves of a contraction in order, each with the additions that follow it. */
#include "numerics/gemm_plan.h"

#include "lockstep/numerics/gemm.h"
#include "lockstep/numerics/tree.h"

/* Nodes of T(n) of two leaves or more whose last leaf is i. */
static size_t nodes_ending(size_t n, size_t i)
{
    size_t count = 0;
    while (n > 1) {
        size_t left = ls_tree_split(n);
        if (i == n - 1) count++;
        if (i < left) {
            n = left;
        } else {
            n -= left;
            i -= left;
        }
    }
    return count;
}

/* Entries on the stack for T(n) when one leaf takes `leaf` of them: the right child is built on top
 * of the finished left one. (Equal children need no second look.) */
static size_t depth_over(size_t n, size_t leaf)
{
    if (n <= 1) return leaf;
    size_t left = ls_tree_split(n), right = n - left;
    size_t first = left == right ? 0 : depth_over(left, leaf);
    size_t rest = 1 + depth_over(right, leaf);
    return first > rest ? first : rest;
}

ls_leaf_walk ls_leaf_walk_start(ls_axis k)
{
    ls_leaf_walk walk = {.k = k, .leaves = (k.granule + LS_LEAF - 1) / LS_LEAF};
    return walk;
}

ls_leaf_walk ls_leaf_walk_list(const ls_leaf_step *list, size_t n)
{
    ls_leaf_walk walk = {.list = list, .listed = n};
    return walk;
}

int ls_leaf_walk_more(const ls_leaf_walk *walk)
{
    if (walk->list != NULL) return walk->next < walk->listed;
    return walk->leaves > 0 && walk->granule < walk->k.granules;
}

ls_leaf_step ls_leaf_walk_next(ls_leaf_walk *walk)
{
    if (walk->list != NULL) {
        walk->height += 1 - walk->list[walk->next].merges;
        return walk->list[walk->next++];
    }
    ls_leaf_step step = {LS_LEAF, nodes_ending(walk->leaves, walk->leaf)};
    if (walk->leaf == walk->leaves - 1) {
        step.length = walk->k.granule - walk->leaf * LS_LEAF;
        step.merges += nodes_ending(walk->k.granules, walk->granule);
        walk->leaf = 0;
        walk->granule++;
    } else {
        walk->leaf++;
    }
    walk->height += 1 - step.merges;
    return step;
}

size_t ls_leaf_walk_depth(ls_axis k)
{
    if (ls_axis_extent(k) == 0) return 0;
    return depth_over(k.granules, depth_over((k.granule + LS_LEAF - 1) / LS_LEAF, 1));
}

size_t ls_leaf_list_depth(const ls_leaf_step *list, size_t n)
{
    size_t depth = 0;
    for (ls_leaf_walk walk = ls_leaf_walk_list(list, n); ls_leaf_walk_more(&walk);) {
        if (walk.height + 1 > depth) depth = walk.height + 1;
        (void)ls_leaf_walk_next(&walk);
    }
    return depth;
}
