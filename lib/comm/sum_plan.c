#include "lockstep/comm/sum_plan.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/size.h"
#include "base/allocate.h"

/* A node that a member holds. */
typedef struct held_node {
    ls_node node;
    size_t member, place;
} held_node;

static int by_leaves(const void *a, const void *b)
{
    const held_node *x = a, *y = b;
    if (x->node.lo != y->node.lo) return x->node.lo < y->node.lo ? -1 : 1;
    return x->node.hi < y->node.hi ? -1 : x->node.hi > y->node.hi;
}

/* Whether the nodes, sorted, are nodes of the tree and cover it once. */
static ls_status check_cover(const ls_binary_tree *tree, const held_node *held, size_t n)
{
    ls_status status = LS_OK;
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        ls_node node = held[i].node;
        if (!ls_binary_tree_has(tree, node))
            LS_FAIL(LS_ERR_INPUT,
                    "sum plan: member %zu holds leaves %zu to %zu, no node of the "
                    "tree over %zu leaves",
                    held[i].member, node.lo, node.hi, tree->leaves);
        if (node.lo < next)
            LS_FAIL(LS_ERR_INPUT, "sum plan: leaf %zu is held by member %zu and by member %zu",
                    node.lo, held[i - 1].member, held[i].member);
        if (node.lo > next) LS_FAIL(LS_ERR_INPUT, "sum plan: leaf %zu is held by nobody", next);
        next = node.hi;
    }
    if (next < tree->leaves) LS_FAIL(LS_ERR_INPUT, "sum plan: leaf %zu is held by nobody", next);
exit:
    return status;
}

/* The additions that are due once all leaves before node.hi are in: as after its last leaf, without
 * those inside the node itself. */
static size_t additions_after(const ls_binary_tree *tree, ls_node node)
{
    ls_node all = {0, tree->leaves};
    return ls_binary_tree_merges_after(tree, all, node.hi - 1) -
           ls_binary_tree_merges_after(tree, node, node.hi - 1);
}

ls_status ls_sum_plan_create(ls_sum_plan **ret_plan, const ls_binary_tree *tree, size_t members,
                             const ls_node *const *nodes, const size_t *n_nodes)
{
    ls_status status = LS_OK;
    held_node *held = NULL;
    size_t n = 0, top = 0;
    ls_sum_plan *plan = NULL;
    for (size_t m = 0; m < members; m++) n = ls_size_plus(n, n_nodes[m]);
    if (n > LS_SIZE_MOST / sizeof *held - 1)
        LS_FAIL(LS_ERR_INPUT, "sum plan: %zu parts of %zu members are more than can be addressed",
                n, members);
    LS_ROOM(held, n + 1);
    LS_NEW(plan, 1);
    LS_ROOM(plan->parts, n + 1);
    LS_NEW(plan->member_parts, members + 1);
    for (size_t m = 0; m < members; m++) {
        plan->member_parts[m] = n_nodes[m];
        for (size_t j = 0; j < n_nodes[m]; j++)
            held[plan->n_parts++] = (held_node){nodes[m][j], m, j};
    }
    qsort(held, n, sizeof *held, by_leaves);
    LS_TRY(check_cover(tree, held, n));
    plan->members = members;
    for (size_t i = 0; i < n; i++) {
        size_t additions = additions_after(tree, held[i].node);
        plan->parts[i] = (ls_sum_part){held[i].member, held[i].place, additions};
        if (++top > plan->stack) plan->stack = top;
        top -= additions;
    }
    *ret_plan = plan;
    plan = NULL;
exit:
    ls_sum_plan_destroy(&plan);
    free(held);
    return status;
}

ls_status ls_sum_plan_create_pixels(ls_sum_plan **ret_plan, const ls_pixel_tree *tree,
                                    size_t members, const ls_pixel_area *areas)
{
    ls_status status = LS_OK;
    ls_binary_tree numbered = ls_pixel_tree_numbered(tree);
    size_t n = 0;
    ls_node *nodes = NULL;
    const ls_node **of_member = NULL;
    size_t *counts = NULL;
    if (ls_size_product(tree->images, tree->rows, tree->columns) > LS_SIZE_MOST)
        LS_FAIL(LS_ERR_INPUT,
                "sum plan: %zu images of %zu x %zu granules are more than can be counted",
                tree->images, tree->rows, tree->columns);
    for (size_t m = 0; m < members; m++) n += ls_pixel_forest(tree, areas[m], NULL);
    LS_ROOM(nodes, n + 1);
    LS_ROOM(of_member, members + 1);
    LS_ROOM(counts, members + 1);
    n = 0;
    for (size_t m = 0; m < members; m++) {
        of_member[m] = nodes + n;
        counts[m] = ls_pixel_forest(tree, areas[m], nodes + n);
        n += counts[m];
    }
    LS_TRY(ls_sum_plan_create(ret_plan, &numbered, members, of_member, counts));
exit:
    free(of_member);
    free(counts);
    free(nodes);
    return status;
}

void ls_sum_plan_destroy(ls_sum_plan **plan)
{
    if (*plan == NULL) return;
    free((*plan)->parts);
    free((*plan)->member_parts);
    free(*plan);
    *plan = NULL;
}
