/* Ranks that are alike share a row: which they are, what the row says of them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/rank_groups.h"
#include "run_tests.h"

static bool same_remainder(const void *context, int a, int b)
{
    int by = *(const int *)context;
    return a % by == b % by;
}

static bool same_half(const void *context, int a, int b)
{
    int half = *(const int *)context;
    return (a < half) == (b < half);
}

START_TEST(names)
{
    static const struct {
        int ranks, by;
        ls_ranks_alike alike;
        int groups;
        const char *first, *last;
    } cases[] = {{1, 1, same_remainder, 1, "0", "0"},
                 {6, 2, same_remainder, 2, "0, 2, 4", "1, 3, 5"},
                 {7, 7, same_remainder, 7, "0", "6"},
                 {12, 4, same_half, 2, "0-3", "4-11"},
                 {64, 1, same_remainder, 1, "0-63", "0-63"},
                 {64, 2, same_remainder, 2, "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, ...",
                  "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, ..."}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_rank_groups groups;
        int count = 0;
        ck_assert_int_eq(
            ls_rank_groups_create(&groups, cases[i].ranks, cases[i].alike, &cases[i].by), LS_OK);
        ck_assert_int_eq(groups.count, cases[i].groups);
        ck_assert_str_eq(groups.groups[0].text, cases[i].first);
        ck_assert_str_eq(groups.groups[groups.count - 1].text, cases[i].last);
        for (int g = 0; g < groups.count; g++) count += groups.groups[g].count;
        ck_assert_int_eq(count, cases[i].ranks);
        ls_rank_groups_free(&groups);
    }
}
END_TEST

/* A result of dp x 4 x 1 ranks whose bytes `kind` tells apart: 0 not at all, 1 by pipeline rank,
 * 2 every rank its own. */
static ls_train_result result_of(ls_layout *ret_layout, int dp, int kind)
{
    ls_train_result result = {.ranks = 4 * dp};
    *ret_layout = ls_layout_serial();
    ret_layout->dp = dp;
    ret_layout->pp = 4;
    result.rank = calloc((size_t)result.ranks, sizeof *result.rank);
    ck_assert_ptr_nonnull(result.rank);
    for (int r = 0; r < result.ranks; r++) {
        int number = kind == 0 ? 0 : kind == 1 ? ls_layout_coordinates(ret_layout, r).pp : r;
        result.rank[r].peak_bytes[LS_MEM_TEMPORARY] = 100u + (unsigned)number;
        result.rank[r].comm[LS_OP_SEND].calls = 7;
        result.rank[r].comm[LS_OP_SEND].bytes = 1000u - (unsigned)number;
    }
    return result;
}

START_TEST(rows_of_a_result)
{
    static const struct {
        int dp, kind, rows;
        uint64_t least, most; /* of the last row */
    } cases[] = {{4, 0, 16, 100, 100}, {4, 2, 16, 115, 115}, {5, 0, 1, 100, 100},
                 {5, 1, 4, 103, 103},  {6, 2, 24, 123, 123}, {7, 2, 4, 121, 127}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_layout layout;
        ls_train_result result = result_of(&layout, cases[i].dp, cases[i].kind);
        ls_rank_groups groups;
        ck_assert_int_eq(ls_rank_groups_of_result(&groups, &result, &layout), LS_OK);
        ck_assert_int_eq(groups.count, cases[i].rows);
        int last = groups.count - 1;
        ls_least_most peak = ls_group_peak(&groups, last, &result, LS_MEM_TEMPORARY);
        ls_least_most calls = ls_group_calls(&groups, last, &result, LS_OP_SEND);
        ls_least_most bytes = ls_group_bytes(&groups, last, &result, LS_OP_SEND);
        ck_assert_uint_eq(peak.least, cases[i].least);
        ck_assert_uint_eq(peak.most, cases[i].most);
        ck_assert(calls.least == 7 && calls.most == 7);
        ck_assert_uint_eq(bytes.least, 1100 - cases[i].most);
        ck_assert_uint_eq(bytes.most, 1100 - cases[i].least);
        ls_rank_groups_free(&groups);
        free(result.rank);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("rank_groups", 0);
    tcase_add_test(tests, names);
    tcase_add_test(tests, rows_of_a_result);
    return run_tests();
}
