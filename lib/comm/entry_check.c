#include "comm/entry_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ls_call_name(ls_call_kind kind)
{
    switch (kind) {
    case LS_CALL_BARRIER:
        return "barrier";
    case LS_CALL_SPLIT:
        return "group_split";
    case LS_CALL_BROADCAST:
        return "broadcast";
    case LS_CALL_ALL_REDUCE:
        return "all_reduce";
    case LS_CALL_ALL_REDUCE_FOREST:
        return "all_reduce_forest";
    case LS_CALL_REDUCE_SCATTER_FOREST:
        return "reduce_scatter_forest";
    case LS_CALL_REDUCE_SCATTER_COLUMNS_FOREST:
        return "reduce_scatter_columns_forest";
    case LS_CALL_ALL_REDUCE_PLAN:
        return "all_reduce_plan";
    case LS_CALL_REDUCE_SCATTER_PLAN:
        return "reduce_scatter_plan";
    case LS_CALL_REDUCE_SCATTER_COLUMNS_PLAN:
        return "reduce_scatter_columns_plan";
    case LS_CALL_ALL_GATHER:
        return "all_gather";
    case LS_CALL_ALL_GATHER_COLUMNS:
        return "all_gather_columns";
    case LS_CALL_ALL_TO_ALL:
        return "all_to_all";
    case LS_CALL_SEND:
        return "send";
    case LS_CALL_SEND_BEGIN:
        return "send_begin";
    case LS_CALL_SEND_END:
        return "send_end";
    case LS_CALL_RECEIVE:
        return "receive";
    case LS_CALL_SEND_RECEIVE:
        return "send_receive";
    }
    return "?";
}

static bool has_data(ls_call_kind kind)
{
    return kind != LS_CALL_BARRIER && kind != LS_CALL_SPLIT;
}

static const char *reduction_name(ls_reduction reduction)
{
    switch (reduction) {
    case LS_REDUCE_MAX:
        return "max";
    case LS_REDUCE_MIN:
        return "min";
    case LS_REDUCE_SUM:
        return "sum";
    }
    return "?";
}

/* The first place where two lists of n numbers differ, or n. */
static size_t first_difference(const size_t *a, const size_t *b, size_t n)
{
    if (a == b) return n;
    size_t i = 0;
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The first part in which two plans of as many parts differ, or how many there are. */
static size_t first_other_part(const ls_sum_plan *a, const ls_sum_plan *b)
{
    size_t i = 0;
    while (i < a->n_parts && a->parts[i].member == b->parts[i].member &&
           a->parts[i].place == b->parts[i].place && a->parts[i].additions == b->parts[i].additions)
        i++;
    return i;
}

/* Two calls that disagree, at the first thing in which they do. */
typedef enum difference {
    SAME = 0,
    NUMBER,
    BASICS, /* what every text shows: operation, count, dtype */
    ROWS,
    ROOT,
    REDUCTION,
    SHARES,
    LEAVES,
    BOUNDS,
    PLAN_SIZE,
    PLAN
} difference;

static difference compare(const ls_call *a, const ls_call *b, size_t n_bounds)
{
    if (a->number != b->number) return NUMBER;
    if (a->kind != b->kind || a->count != b->count || a->dtype != b->dtype) return BASICS;
    if (a->rows != b->rows) return ROWS;
    if (a->root != b->root) return ROOT;
    if (a->reduction != b->reduction) return REDUCTION;
    if (first_difference(a->shares, b->shares, a->n_shares) < a->n_shares) return SHARES;
    if (a->leaves != b->leaves) return LEAVES;
    if (a->bounds != NULL && first_difference(a->bounds, b->bounds, n_bounds) < n_bounds)
        return BOUNDS;
    if (a->plan == b->plan) return SAME;
    if (a->plan->n_parts != b->plan->n_parts) return PLAN_SIZE;
    if (first_other_part(a->plan, b->plan) < a->plan->n_parts) return PLAN;
    return SAME;
}

/* "all_gather of 12 F32, share 2 from 8"; `at`: the place of a difference in a list. */
static void describe(char *text, size_t room, const ls_call *call, difference what, size_t at)
{
    size_t used = 0;
    int n = has_data(call->kind) ? snprintf(text, room, "%s of %zu %s", ls_call_name(call->kind),
                                            call->count, ls_dtype_name(call->dtype))
                                 : snprintf(text, room, "%s", ls_call_name(call->kind));
    if (n > 0) used = (size_t)n < room ? (size_t)n : room;
    text += used;
    room -= used;
    switch (what) {
    case SAME:
    case BASICS:
        break;
    case NUMBER:
        snprintf(text, room, " as its call %" PRIu64, call->number);
        break;
    case ROWS:
        snprintf(text, room, " in %zu rows", call->rows);
        break;
    case ROOT:
        snprintf(text, room, " from member %d", call->root);
        break;
    case REDUCTION:
        snprintf(text, room, " for the %s", reduction_name(call->reduction));
        break;
    case SHARES:
        if (call->kind == LS_CALL_ALL_TO_ALL)
            snprintf(text, room, " with counts[%zu] = %zu", at, call->shares[at]);
        else
            snprintf(text, room, " with starts[%zu] = %zu", at, call->shares[at]);
        break;
    case LEAVES:
        snprintf(text, room, " over %zu leaves", call->leaves);
        break;
    case BOUNDS:
        snprintf(text, room, " with bounds[%zu] = %zu", at, call->bounds[at]);
        break;
    case PLAN_SIZE:
        snprintf(text, room, " with a plan of %zu parts", call->plan->n_parts);
        break;
    case PLAN:
        snprintf(text, room, " with part %zu = value %zu of member %zu, then %zu additions", at,
                 call->plan->parts[at].place, call->plan->parts[at].member,
                 call->plan->parts[at].additions);
        break;
    }
}

void ls_entry_check(ls_team *team)
{
    size_t n_bounds = (size_t)team->size + 1;
    const ls_call *first = &team->posts[0].call;
    team->mismatch = false;
    for (int m = 1; m < team->size; m++) {
        const ls_call *other = &team->posts[m].call;
        difference what = compare(first, other, n_bounds);
        if (what == SAME) continue;

        size_t at = 0;
        if (what == SHARES) at = first_difference(first->shares, other->shares, first->n_shares);
        if (what == BOUNDS) at = first_difference(first->bounds, other->bounds, n_bounds);
        if (what == PLAN) at = first_other_part(first->plan, other->plan);
        char one[160], two[160];
        describe(one, sizeof one, first, what, at);
        describe(two, sizeof two, other, what, at);
        snprintf(team->verdict, sizeof team->verdict,
                 "group %s, call %" PRIu64 ": rank %d calls %s, rank %d calls %s", team->name,
                 first->number, team->world_ranks[0], one, team->world_ranks[m], two);
        team->mismatch = true;
        return;
    }
}
