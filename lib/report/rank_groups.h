/* rank_groups.h - ranks that are alike, so that a table of 256 ranks has a few rows. */
#ifndef LS_REPORT_RANK_GROUPS_H
#define LS_REPORT_RANK_GROUPS_H

#include "report/report.h"

typedef struct ls_rank_group {
    int first;     /* the lowest of them */
    int count;     /* how many */
    char text[48]; /* "0-3, 8-11"; where that has no room, "0, 3, 6, ..." */
} ls_rank_group;

typedef struct ls_rank_groups {
    int count;
    ls_rank_group *groups; /* in the order of their lowest ranks */
    int *of;               /* of each rank: its group */
} ls_rank_groups;

/* Whether ranks a and b belong into one group; an equivalence. */
typedef bool (*ls_ranks_alike)(const void *context, int a, int b);

ls_status ls_rank_groups_create(ls_rank_groups *ret_groups, int ranks, ls_ranks_alike alike,
                                const void *context) LS_MUST_USE;
void ls_rank_groups_free(ls_rank_groups *groups);

/* The rows in which the ranks of a result are best shown: each rank alone when there are at most
 * 16; else those together that held and sent the same, or, when that makes more than 24 rows, those
 * of each pipeline rank. */
ls_status ls_rank_groups_of_result(ls_rank_groups *ret_groups, const ls_train_result *result,
                                   const ls_layout *layout) LS_MUST_USE;

/* The least and the most of a number over a group's ranks. */
typedef struct ls_least_most {
    uint64_t least, most;
} ls_least_most;

/* Bytes of a category at its peak; of all at once; calls and bytes of an operation. */
ls_least_most ls_group_peak(const ls_rank_groups *groups, int group, const ls_train_result *result,
                            ls_memory_category category);
ls_least_most ls_group_at_once(const ls_rank_groups *groups, int group,
                               const ls_train_result *result);
ls_least_most ls_group_calls(const ls_rank_groups *groups, int group, const ls_train_result *result,
                             ls_operation operation);
ls_least_most ls_group_bytes(const ls_rank_groups *groups, int group, const ls_train_result *result,
                             ls_operation operation);

#endif
