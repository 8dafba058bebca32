/* forest.c - which nodes of a tree a run of leaves contains (contract rule 8). */
#include "lockstep/numerics/tree.h"

size_t ls_tree_split(size_t n)
{
    if (n % 2 == 0) return n / 2;
    size_t power = 1;
    while (power <= (n - 1) / 2) power *= 2;
    return power;
}

/* Appends the complete nodes inside lo..hi of the subtree over the leaves `first`..`last`. A node
 * that lies wholly inside is taken whole; one that only touches the run is opened. */
static size_t collect(size_t first, size_t last, size_t lo, size_t hi, ls_node *nodes, size_t count)
{
    if (hi <= first || last <= lo) return count;
    if (lo <= first && last <= hi) {
        if (nodes) nodes[count] = (ls_node){first, last};
        return count + 1;
    }
    size_t middle = first + ls_tree_split(last - first);
    count = collect(first, middle, lo, hi, nodes, count);
    return collect(middle, last, lo, hi, nodes, count);
}

size_t ls_tree_forest(size_t n, size_t lo, size_t hi, ls_node *ret_nodes)
{
    return lo < hi ? collect(0, n, lo, hi, ret_nodes, 0) : 0;
}
