#include "lockstep/numerics/binary_tree.h"

static size_t cut_plain(const void *shape, size_t lo, size_t hi)
{
    (void)shape;
    return lo + ls_tree_split(hi - lo);
}

ls_binary_tree ls_binary_tree_plain(size_t leaves)
{
    return (ls_binary_tree){leaves, cut_plain, NULL};
}

bool ls_binary_tree_has(const ls_binary_tree *tree, ls_node node)
{
    ls_node at = {0, tree->leaves};
    if (node.lo >= node.hi || node.hi > tree->leaves) return false;
    while (at.lo != node.lo || at.hi != node.hi) {
        if (at.hi - at.lo < 2) return false;
        size_t middle = tree->cut(tree->shape, at.lo, at.hi);
        if (node.hi <= middle)
            at.hi = middle;
        else if (node.lo >= middle)
            at.lo = middle;
        else
            return false;
    }
    return true;
}

size_t ls_binary_tree_merges_after(const ls_binary_tree *tree, ls_node within, size_t leaf)
{
    /* Nodes on the way down whose last leaf it is; a step to the left leaves all of them behind. */
    size_t closes = 0;
    while (within.hi - within.lo > 1) {
        size_t middle = tree->cut(tree->shape, within.lo, within.hi);
        if (leaf < middle) {
            within.hi = middle;
            closes = 0;
        } else {
            within.lo = middle;
            closes++;
        }
    }
    return closes;
}

size_t ls_binary_tree_stack(const ls_binary_tree *tree, ls_node within)
{
    if (within.hi - within.lo < 2) return within.hi - within.lo;
    size_t middle = tree->cut(tree->shape, within.lo, within.hi);
    size_t left = ls_binary_tree_stack(tree, (ls_node){within.lo, middle});
    size_t right = 1 + ls_binary_tree_stack(tree, (ls_node){middle, within.hi});
    return left > right ? left : right;
}
