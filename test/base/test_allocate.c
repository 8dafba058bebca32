/* Memory and texts in parts: what does not fit is refused or cut off, in one text for all. */
#include <check.h>
#include <stdint.h>
#include <string.h>

#include "base/allocate.h"
#include "base/append.h"
#include "run_tests.h"

static ls_status take(size_t count, double **ret_values)
{
    ls_status status = LS_OK;
    LS_NEW(*ret_values, count);
exit:
    return status;
}

START_TEST(zeros_or_an_error)
{
    static const size_t too_many[] = {SIZE_MAX, SIZE_MAX / 8 + 1, SIZE_MAX / 8, SIZE_MAX / 16 + 1};
    double *values = NULL;
    expect_ok(take(1000, &values));
    for (int i = 0; i < 1000; i++) ck_assert(values[i] == 0);
    free(values);
    expect_ok(take(0, &values));
    ck_assert_ptr_nonnull(values);
    free(values);
    for (int i = 0; i < COUNT(too_many); i++) {
        ck_assert_int_eq(take(too_many[i], &values), LS_ERR_MEMORY);
        ck_assert_ptr_null(values);
        ck_assert_str_eq(ls_error_text(), "out of memory: no room for *ret_values, count elements");
    }
}
END_TEST

START_TEST(grows)
{
    size_t room = 0;
    int *values = NULL;
    for (size_t n = 0; n < 1000; n++) {
        values = ls_grown(values, n, &room, sizeof *values);
        ck_assert_ptr_nonnull(values);
        ck_assert_uint_gt(room, n);
        values[n] = (int)n;
        ck_assert_int_eq(values[n / 2], (int)n / 2);
    }
    ck_assert_uint_le(room, 4000);
    /* What cannot be had leaves what is there. */
    room = SIZE_MAX / 4;
    ck_assert_ptr_null(ls_grown(values, room, &room, sizeof *values));
    ck_assert(room == SIZE_MAX / 4 && values[999] == 999);
    free(values);
}
END_TEST

START_TEST(copies)
{
    char *copy = ls_text_copy("");
    ck_assert_str_eq(copy, "");
    free(copy);
    copy = ls_text_copy("a text");
    ck_assert_str_eq(copy, "a text");
    free(copy);
}
END_TEST

/* In a buffer of every size: what fits, an end, and nothing beyond. */
START_TEST(appends)
{
    static const char whole[] = "rank 0, rank 12";
    for (size_t size = 0; size <= sizeof whole + 2; size++) {
        char text[32];
        size_t used = 0;
        memset(text, '#', sizeof text);
        used = ls_append(text, size, used, "rank %d", 0);
        used = ls_append(text, size, used, ", rank %d", 12);
        used = ls_append(text, size, used, "%s", "");
        const size_t fits = size > strlen(whole) ? strlen(whole) : size > 0 ? size - 1 : 0;
        ck_assert_uint_eq(used, fits);
        if (size > 0) ck_assert(text[used] == '\0' && memcmp(text, whole, used) == 0);
        for (size_t i = size; i < sizeof text; i++) ck_assert(text[i] == '#');
        ck_assert_uint_eq(ls_append(text, size, size + 5, "x"), size > 0 ? size - 1 : 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = test_case("allocate", 0);
    tcase_add_test(tests, zeros_or_an_error);
    tcase_add_test(tests, grows);
    tcase_add_test(tests, copies);
    tcase_add_test(tests, appends);
    return run_tests();
}
