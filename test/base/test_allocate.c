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
        char text[96];
        snprintf(text, sizeof text, "out of memory: %zu times 8 bytes for *ret_values",
                 too_many[i]);
        ck_assert_str_eq(ls_error_text(), text);
    }
}
END_TEST

/* The text says how many bytes; a size that does not fit into a size_t, its factors. */
START_TEST(one_text)
{
    ck_assert_int_eq(ls_no_memory("a.c", 7, 1000, 8, "values"), LS_ERR_MEMORY);
    ck_assert_str_eq(ls_error_text(), "out of memory: 8000 bytes for values");
    ck_assert_str_eq(ls_error_place(), "a.c:7");
    ck_assert_int_eq(ls_no_memory("a.c", 8, SIZE_MAX, 2, "values"), LS_ERR_MEMORY);
    ck_assert_str_eq(ls_error_text(),
                     "out of memory: 18446744073709551615 times 2 bytes for values");
}
END_TEST

typedef struct wide {
    _Alignas(256) char first;
} wide;

static ls_status take_aligned(wide *ret_places[2], size_t count)
{
    ls_status status = LS_OK;
    LS_NEW(ret_places[0], count);
    LS_ROOM(ret_places[1], count);
exit:
    return status;
}

START_TEST(aligned_as_the_type)
{
    for (size_t count = 0; count < 20; count++) {
        wide *places[2] = {NULL, NULL};
        expect_ok(take_aligned(places, count));
        for (int i = 0; i < 2; i++) ck_assert_uint_eq((uintptr_t)places[i] % 256, 0);
        for (size_t i = 0; i < count * sizeof(wide); i++) ck_assert(((char *)places[0])[i] == 0);
        free(places[0]);
        free(places[1]);
    }
}
END_TEST

static ls_status resize(int **values, size_t count)
{
    ls_status status = LS_OK;
    LS_RESIZE(*values, count);
exit:
    return status;
}

START_TEST(resizes)
{
    int *values = NULL;
    expect_ok(resize(&values, 0));
    ck_assert_ptr_nonnull(values);
    for (int n = 1; n < 100; n++) {
        expect_ok(resize(&values, (size_t)n));
        values[n - 1] = n;
        ck_assert_int_eq(values[n / 2], n / 2 + 1);
    }
    ck_assert_int_eq(resize(&values, SIZE_MAX / 4 + 1), LS_ERR_MEMORY);
    ck_assert_int_eq(values[98], 99);
    free(values);
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
    tcase_add_test(tests, one_text);
    tcase_add_test(tests, aligned_as_the_type);
    tcase_add_test(tests, resizes);
    tcase_add_test(tests, grows);
    tcase_add_test(tests, copies);
    tcase_add_test(tests, appends);
    return run_tests();
}
