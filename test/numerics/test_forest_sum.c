/* test_forest_sum.c - a tree finished from runs that arrive in any order (contract rule 8). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/numerics/forest_sum.h"
#include "lockstep/numerics/random.h"
#include "run_tests.h"

float ls_tree_sum_f32(const float *x, size_t n, size_t stride);

enum { MOST = 40 };

static const ls_stream stream = {7, LS_RANDOM_TEST, 3, 0};

/* Random values of mixed sign and size, so that another order of addition shows. */
static void draw(float *x, size_t n, uint64_t salt)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(ls_random_normal(stream, salt * 1000 + i) *
                       (double)(1 << (int)(10 * ls_random_uniform(stream, 7777 + salt + i))));
}

/* Lets the runs arrive; the value in each slot is the sum of what the node holds. */
static void add_runs(ls_forest_sum *sum, float *value, const float *x, const ls_node *runs,
                     size_t n)
{
    ls_node nodes[LS_FOREST_MAX];
    size_t slots[LS_FOREST_MAX], count, into, from;
    for (size_t r = 0; r < n; r++) {
        ck_assert_int_eq(ls_forest_sum_arrive(sum, runs[r], nodes, slots, &count), LS_OK);
        for (size_t j = 0; j < count; j++) {
            ck_assert_uint_lt(slots[j], sum->slots);
            value[slots[j]] = ls_tree_sum_f32(x + nodes[j].lo, nodes[j].hi - nodes[j].lo, 1);
        }
        while (ls_forest_sum_next(sum, &into, &from)) {
            value[into] = value[into] + value[from];
            value[from] = 1e30f; /* free now: whoever reads it is wrong */
        }
    }
}

static size_t slots_of(size_t leaves, const ls_node *runs, size_t n)
{
    size_t slots = 0;
    ck_assert_int_eq(ls_forest_sum_slots(leaves, runs, n, &slots), LS_OK);
    return slots;
}

static void settle(ls_forest_sum *sum, float *value)
{
    size_t one, other;
    while (ls_forest_sum_settle(sum, &one, &other)) {
        float moved = value[one];
        value[one] = value[other];
        value[other] = moved;
    }
}

/* Cuts lo .. hi into runs at random places and shuffles them. */
static size_t random_runs(ls_node *runs, size_t lo, size_t hi, uint64_t salt, int order)
{
    size_t n = 0, at = lo;
    while (at < hi) {
        size_t step = 1 + (size_t)(ls_random_uniform(stream, salt + at) * 5), end = at + step;
        if (end > hi) end = hi;
        runs[n++] = (ls_node){at, end};
        at = end;
    }
    for (size_t i = n; order != 0 && i-- > 1;) {
        size_t j = order == 1
                       ? n - 1 - i
                       : (size_t)(ls_random_uniform(stream, salt + 99 + i) * (double)(i + 1));
        if (order == 1 && j >= i) continue;
        ls_node kept = runs[i];
        runs[i] = runs[j];
        runs[j] = kept;
    }
    return n;
}

/* ORDERED: any cut, any order of arrival, the slots that were promised: the bits of T(n). */
START_TEST(any_order_gives_the_tree)
{
    size_t n = (size_t)_i;
    float x[MOST], value[MOST + LS_FOREST_MAX];
    ls_node runs[MOST];
    for (uint64_t salt = 0; salt < 60; salt++) {
        draw(x, n, salt);
        size_t n_runs = random_runs(runs, 0, n, 31 * salt, (int)(salt % 3));
        size_t slots = slots_of(n, runs, n_runs);
        ls_forest_sum *sum = NULL;
        ck_assert_int_eq(ls_forest_sum_create(&sum, n, slots), LS_OK);
        for (int again = 0; again < 2; again++) {
            for (size_t i = 0; i < slots; i++) value[i] = 1e30f;
            add_runs(sum, value, x, runs, n_runs);
            settle(sum, value);
            float right = ls_tree_sum_f32(x, n, 1);
            ck_assert_uint_eq(ls_forest_sum_held(sum), 1);
            ck_assert(memcmp(&value[0], &right, sizeof right) == 0);
            ls_forest_sum_clear(sum);
        }
        ls_forest_sum_destroy(&sum);
    }
}
END_TEST

/* A share of the leaves ends as its forest, in slots 0, 1, ... in ascending order. */
START_TEST(a_share_settles_in_order)
{
    size_t n = (size_t)_i;
    float x[MOST], value[MOST + LS_FOREST_MAX];
    ls_node runs[MOST], nodes[LS_FOREST_MAX];
    draw(x, n, 5);
    for (size_t lo = 0; lo < n; lo++)
        for (size_t hi = lo + 1; hi <= n; hi++)
            for (int order = 0; order < 3; order++) {
                size_t n_runs = random_runs(runs, lo, hi, 17 * lo + hi, order);
                ls_forest_sum *sum = NULL;
                size_t slots = slots_of(n, runs, n_runs);
                ck_assert_int_eq(ls_forest_sum_create(&sum, n, slots), LS_OK);
                add_runs(sum, value, x, runs, n_runs);
                settle(sum, value);
                size_t count = ls_tree_forest(n, lo, hi, nodes);
                ck_assert_uint_eq(ls_forest_sum_held(sum), count);
                for (size_t j = 0; j < count; j++) {
                    float right = ls_tree_sum_f32(x + nodes[j].lo, nodes[j].hi - nodes[j].lo, 1);
                    ck_assert(sum->held[j].lo == nodes[j].lo && sum->held[j].hi == nodes[j].hi);
                    ck_assert(memcmp(&value[j], &right, sizeof right) == 0);
                }
                ls_forest_sum_destroy(&sum);
            }
}
END_TEST

/* 2^a micro-batches of one node each, ascending or descending, need a + 1 slots: a that wait and
 * one that comes (a binary counter). */
START_TEST(slots_are_log2_of_the_micro_batches)
{
    ls_node up[64], down[64];
    for (size_t a = 0; a <= 6; a++) {
        size_t m = (size_t)1 << a;
        for (size_t i = 0; i < m; i++) up[i] = (ls_node){3 * i, 3 * i + 3};
        for (size_t i = 0; i < m; i++) down[i] = up[m - 1 - i];
        ck_assert_uint_eq(slots_of(3 * m, up, m), a + 1);
        ck_assert_uint_eq(slots_of(3 * m, down, m), a + 1);
    }
    /* 7 sequences in 3 micro-batches of 3, 2, 2: T(7) = T(4) + T(3) cuts the second in two. */
    static const ls_node seven[] = {{0, 3}, {3, 5}, {5, 7}};
    ck_assert_uint_eq(slots_of(7, seven, 1), 2);
    ck_assert_uint_eq(slots_of(7, seven, 3), 4);
    ck_assert_uint_eq(slots_of(7, NULL, 0), 1);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    ls_node nodes[LS_FOREST_MAX];
    size_t slots[LS_FOREST_MAX], n = 77;
    ls_forest_sum *sum = NULL;
    ck_assert_int_eq(ls_forest_sum_create(&sum, 8, 1), LS_OK);
    ck_assert_int_eq(ls_forest_sum_arrive(sum, (ls_node){0, 3}, nodes, slots, &n), LS_ERR_INTERNAL);
    ck_assert_str_eq(ls_error_text(), "leaves 0 to 3 arrive, and all 1 slots are taken");
    ck_assert_uint_eq(n, 77);
    ls_error_clear();
    ck_assert_int_eq(ls_forest_sum_arrive(sum, (ls_node){2, 4}, nodes, slots, &n), LS_OK);
    ck_assert_int_eq(ls_forest_sum_arrive(sum, (ls_node){3, 4}, nodes, slots, &n), LS_ERR_INTERNAL);
    ck_assert_str_eq(ls_error_text(), "leaves 3 to 4 arrive, of which 2 to 4 are there");
    ls_forest_sum_destroy(&sum);
    ck_assert_ptr_null(sum);
    ls_error_clear();
    static const ls_node overlap[] = {{0, 3}, {2, 4}};
    ck_assert_int_eq(ls_forest_sum_slots(8, overlap, 2, &n), LS_ERR_INTERNAL);
}
END_TEST

int main(void)
{
    TCase *tests = test_case("forest_sum", 60);
    tcase_add_loop_test(tests, any_order_gives_the_tree, 1, MOST);
    tcase_add_loop_test(tests, a_share_settles_in_order, 1, 18);
    tcase_add_test(tests, slots_are_log2_of_the_micro_batches);
    tcase_add_test(tests, what_does_not_fit_is_refused);
    return run_tests();
}
