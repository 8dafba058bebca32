#include "lockstep/numerics/forest_sum.h"
#include "base/allocate.h"

#include <stdlib.h>
#include <string.h>

static bool is_free(ls_node node)
{
    return node.lo == node.hi;
}

/* The node that `node` makes a parent with: walks down from the root of T(leaves). An empty node
 * for the root itself. */
static ls_node sibling_of(size_t leaves, ls_node node)
{
    ls_node at = {0, leaves}, none = {0, 0};
    while (at.hi - at.lo > node.hi - node.lo) {
        size_t middle = at.lo + ls_tree_split(at.hi - at.lo);
        ls_node left = {at.lo, middle}, right = {middle, at.hi};
        if (node.lo == left.lo && node.hi == left.hi) return right;
        if (node.lo == right.lo && node.hi == right.hi) return left;
        at = node.hi <= middle ? left : right;
    }
    return none;
}

static size_t slot_of(const ls_forest_sum *sum, ls_node node)
{
    for (size_t s = 0; s < sum->slots; s++)
        if (!is_free(sum->held[s]) && sum->held[s].lo == node.lo && sum->held[s].hi == node.hi)
            return s;
    return sum->slots;
}

ls_status ls_forest_sum_create(ls_forest_sum **ret_sum, size_t leaves, size_t slots)
{
    ls_status status = LS_OK;
    ls_forest_sum *sum = NULL;
    LS_NEW(sum, 1);
    sum->leaves = leaves;
    sum->slots = slots;
    LS_NEW(sum->held, slots ? slots : 1);
    *ret_sum = sum;
    sum = NULL;
exit:
    ls_forest_sum_destroy(&sum);
    return status;
}

void ls_forest_sum_destroy(ls_forest_sum **sum)
{
    if (!sum || !*sum) return;
    free((*sum)->held);
    free(*sum);
    *sum = NULL;
}

void ls_forest_sum_clear(ls_forest_sum *sum)
{
    memset(sum->held, 0, sum->slots * sizeof *sum->held);
}

size_t ls_forest_sum_held(const ls_forest_sum *sum)
{
    size_t n = 0;
    for (size_t s = 0; s < sum->slots; s++) n += !is_free(sum->held[s]);
    return n;
}

ls_status ls_forest_sum_arrive(ls_forest_sum *sum, ls_run_of_leaves run, ls_node *ret_nodes,
                               size_t *ret_slots, size_t *ret_n)
{
    ls_status status = LS_OK;
    size_t n = ls_tree_forest(sum->leaves, run.lo, run.hi, ret_nodes), s = 0;

    for (size_t k = 0; k < sum->slots; k++)
        if (!is_free(sum->held[k]) && run.lo < sum->held[k].hi && sum->held[k].lo < run.hi)
            LS_FAIL(LS_ERR_INTERNAL, "leaves %zu to %zu arrive, of which %zu to %zu are there",
                    run.lo, run.hi, sum->held[k].lo, sum->held[k].hi);
    for (size_t j = 0; j < n; j++, s++) {
        while (s < sum->slots && !is_free(sum->held[s])) s++;
        if (s == sum->slots)
            LS_FAIL(LS_ERR_INTERNAL, "leaves %zu to %zu arrive, and all %zu slots are taken",
                    run.lo, run.hi, sum->slots);
        ret_slots[j] = s;
    }
    for (size_t j = 0; j < n; j++) sum->held[ret_slots[j]] = ret_nodes[j];
    *ret_n = n;
exit:
    return status;
}

bool ls_forest_sum_next(ls_forest_sum *sum, size_t *ret_into, size_t *ret_from)
{
    for (size_t s = 0; s < sum->slots; s++) {
        if (is_free(sum->held[s])) continue;
        ls_node sibling = sibling_of(sum->leaves, sum->held[s]);
        size_t other = is_free(sibling) ? sum->slots : slot_of(sum, sibling);
        if (other == sum->slots) continue;
        /* s < other: this slot was looked at first */
        if (sibling.lo < sum->held[s].lo) sum->held[s].lo = sibling.lo;
        if (sibling.hi > sum->held[s].hi) sum->held[s].hi = sibling.hi;
        sum->held[other] = (ls_node){0, 0};
        *ret_into = s;
        *ret_from = other;
        return true;
    }
    return false;
}

bool ls_forest_sum_settle(ls_forest_sum *sum, size_t *ret_one, size_t *ret_other)
{
    for (size_t to = 0; to < sum->slots; to++) {
        size_t least = sum->slots;
        for (size_t s = to; s < sum->slots; s++)
            if (!is_free(sum->held[s]) &&
                (least == sum->slots || sum->held[s].lo < sum->held[least].lo))
                least = s;
        if (least == sum->slots) return false;
        if (least == to) continue;
        ls_node moved = sum->held[least];
        sum->held[least] = sum->held[to];
        sum->held[to] = moved;
        *ret_one = to;
        *ret_other = least;
        return true;
    }
    return false;
}

ls_status ls_forest_sum_slots(size_t leaves, const ls_run_of_leaves *runs, size_t n,
                              size_t *ret_slots)
{
    ls_status status = LS_OK;
    /* A free slot for every leaf that can wait: two per level of the tree for each run. */
    size_t most = 1, into, from, count, slots[LS_FOREST_MAX];
    ls_node nodes[LS_FOREST_MAX];
    size_t room = LS_FOREST_MAX;
    for (size_t r = 0; r < n; r++) room += ls_tree_forest(leaves, runs[r].lo, runs[r].hi, NULL);
    ls_forest_sum sum = {leaves, room, NULL};
    LS_NEW(sum.held, room);
    for (size_t r = 0; r < n; r++) {
        /* The first free slots are taken, so none lies beyond the most in use so far. Looking no
         * further than one run can reach from there, a run costs the same however many there are.
         */
        sum.slots = room - most > LS_FOREST_MAX ? most + LS_FOREST_MAX : room;
        LS_TRY(ls_forest_sum_arrive(&sum, runs[r], nodes, slots, &count));
        size_t held = ls_forest_sum_held(&sum);
        if (held > most) most = held;
        while (ls_forest_sum_next(&sum, &into, &from)) continue;
    }
    *ret_slots = most;
exit:
    free(sum.held);
    return status;
}
