/* Sizes that do not wrap, against 128-bit arithmetic. */
#include <check.h>
#include <stdlib.h>

#include "base/size.h"
#include "run_tests.h"

static const size_t edges[] = {0,
                               1,
                               2,
                               3,
                               7,
                               (size_t)1 << 31,
                               (size_t)1 << 32,
                               ((size_t)1 << 32) + 1,
                               (size_t)1 << 62,
                               LS_SIZE_MOST,
                               LS_SIZE_MOST + 1,
                               SIZE_MAX / 3,
                               SIZE_MAX - 1,
                               SIZE_MAX};
enum { EDGES = sizeof edges / sizeof edges[0] };

typedef unsigned __int128 wide;

static size_t fitted(wide right)
{
    return right > SIZE_MAX ? LS_SIZE_NONE : (size_t)right;
}

START_TEST(products_and_sums)
{
    for (size_t i = 0; i < EDGES; i++)
        for (size_t j = 0; j < EDGES; j++) {
            const size_t a = edges[i], b = edges[j];
            ck_assert_uint_eq(ls_size_product(a, b), fitted((wide)a * b));
            ck_assert_uint_eq(ls_size_plus(a, b), fitted((wide)a + b));
        }
}
END_TEST

START_TEST(many_factors)
{
    ck_assert_uint_eq(ls_size_product((size_t)1 << 32, (size_t)1 << 32, 1, 4), LS_SIZE_NONE);
    ck_assert_uint_eq(ls_size_product(SIZE_MAX, SIZE_MAX, 0), 0);
    ck_assert_uint_eq(ls_size_product(3, 5, 7, 11), 1155);
    ck_assert_uint_eq(ls_size_plus(ls_size_product(SIZE_MAX, 2), 1), LS_SIZE_NONE);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("size", 0);
    tcase_add_test(tcase, products_and_sums);
    tcase_add_test(tcase, many_factors);
    return run_tests();
}
