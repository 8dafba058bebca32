#include "report/rank_groups.h"
#include "base/allocate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/append.h"

enum { EACH_ALONE = 16, MOST_ROWS = 24 };

/* Adds the run first .. last of ranks to a text; once it has no more room, dots. */
static void add_run(char *text, size_t size, int first, int last)
{
    enum { DOTS = 6 }; /* ", ..." */
    char run[32];
    size_t used = strlen(text);
    if (used >= 3 && strcmp(text + used - 3, "...") == 0) return;
    if (first == last)
        snprintf(run, sizeof run, "%d", first);
    else
        snprintf(run, sizeof run, "%d-%d", first, last);
    if (used + strlen(run) + 2 + DOTS > size) snprintf(run, sizeof run, "...");
    ls_append(text, size, used, "%s%s", used > 0 ? ", " : "", run);
}

static void name_groups(ls_rank_groups *groups, int ranks)
{
    for (int first = 0, end; first < ranks; first = end) {
        ls_rank_group *group = &groups->groups[groups->of[first]];
        for (end = first + 1; end < ranks && groups->of[end] == groups->of[first];) end++;
        add_run(group->text, sizeof group->text, first, end - 1);
    }
}

ls_status ls_rank_groups_create(ls_rank_groups *ret_groups, int ranks, ls_ranks_alike alike,
                                const void *context)
{
    ls_status status = LS_OK;
    ls_rank_groups made = {0, NULL, NULL};
    LS_NEW(made.of, (size_t)ranks + 1);
    LS_NEW(made.groups, (size_t)ranks + 1);
    for (int r = 0; r < ranks; r++) {
        int g = 0;
        while (g < made.count && !alike(context, r, made.groups[g].first)) g++;
        if (g == made.count) made.groups[made.count++].first = r;
        made.groups[g].count++;
        made.of[r] = g;
    }
    name_groups(&made, ranks);
    *ret_groups = made;
    memset(&made, 0, sizeof made);
exit:
    ls_rank_groups_free(&made);
    return status;
}

void ls_rank_groups_free(ls_rank_groups *groups)
{
    free(groups->of);
    free(groups->groups);
    memset(groups, 0, sizeof *groups);
}

/* ---- of a result ---- */

typedef struct of_result {
    const ls_train_result *result;
    const ls_layout *layout;
} of_result;

static bool same_rank(const void *context, int a, int b)
{
    (void)context;
    return a == b;
}

static bool same_numbers(const void *context, int a, int b)
{
    const ls_train_result *result = ((const of_result *)context)->result;
    const ls_rank_report *x = &result->rank[a], *y = &result->rank[b];
    for (int op = 0; op < LS_OP_COUNT; op++)
        if (x->comm[op].calls != y->comm[op].calls || x->comm[op].bytes != y->comm[op].bytes)
            return false;
    return memcmp(x->peak_bytes, y->peak_bytes, sizeof x->peak_bytes) == 0 &&
           x->total_peak_bytes == y->total_peak_bytes;
}

static bool same_stage(const void *context, int a, int b)
{
    const ls_layout *layout = ((const of_result *)context)->layout;
    return ls_layout_coordinates(layout, a).pp == ls_layout_coordinates(layout, b).pp;
}

ls_status ls_rank_groups_of_result(ls_rank_groups *ret_groups, const ls_train_result *result,
                                   const ls_layout *layout)
{
    ls_status status = LS_OK;
    ls_rank_groups groups = {0, NULL, NULL};
    of_result context = {result, layout};
    LS_TRY(ls_rank_groups_create(&groups, result->ranks,
                                 result->ranks <= EACH_ALONE ? same_rank : same_numbers, &context));
    if (groups.count > MOST_ROWS) {
        ls_rank_groups_free(&groups);
        LS_TRY(ls_rank_groups_create(&groups, result->ranks, same_stage, &context));
    }
    *ret_groups = groups;
    memset(&groups, 0, sizeof groups);
exit:
    ls_rank_groups_free(&groups);
    return status;
}

typedef uint64_t (*number_of)(const ls_rank_report *rank, int which);

static ls_least_most span_of(const ls_rank_groups *groups, int group, const ls_train_result *result,
                             number_of number, int which)
{
    ls_least_most span = {UINT64_MAX, 0};
    for (int r = groups->groups[group].first; r < result->ranks; r++) {
        if (groups->of[r] != group) continue;
        uint64_t value = number(&result->rank[r], which);
        if (value < span.least) span.least = value;
        if (value > span.most) span.most = value;
    }
    return span;
}

static uint64_t peak_of(const ls_rank_report *rank, int which)
{
    return rank->peak_bytes[which];
}

static uint64_t at_once_of(const ls_rank_report *rank, int which)
{
    (void)which;
    return rank->total_peak_bytes;
}

static uint64_t calls_of(const ls_rank_report *rank, int which)
{
    return rank->comm[which].calls;
}

static uint64_t bytes_of(const ls_rank_report *rank, int which)
{
    return rank->comm[which].bytes;
}

ls_least_most ls_group_peak(const ls_rank_groups *groups, int group, const ls_train_result *result,
                            ls_memory_category category)
{
    return span_of(groups, group, result, peak_of, (int)category);
}

ls_least_most ls_group_at_once(const ls_rank_groups *groups, int group,
                               const ls_train_result *result)
{
    return span_of(groups, group, result, at_once_of, 0);
}

ls_least_most ls_group_calls(const ls_rank_groups *groups, int group, const ls_train_result *result,
                             ls_operation operation)
{
    return span_of(groups, group, result, calls_of, (int)operation);
}

ls_least_most ls_group_bytes(const ls_rank_groups *groups, int group, const ls_train_result *result,
                             ls_operation operation)
{
    return span_of(groups, group, result, bytes_of, (int)operation);
}
