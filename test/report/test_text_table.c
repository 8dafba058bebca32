/* Numbers as people read them, tables, the time that is left. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "report/progress.h"
#include "report/text_table.h"
#include "run_tests.h"

START_TEST(numbers)
{
    static const struct {
        uint64_t number;
        const char *text, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {7, "7", "7 B"},
        {999, "999", "999 B"},
        {1000, "1,000", "1.00 kB"},
        {9994, "9,994", "9.99 kB"},
        {9995, "9,995", "10.0 kB"},
        {99949, "99,949", "99.9 kB"},
        {99950, "99,950", "100 kB"},
        {999499, "999,499", "999 kB"},
        {999500, "999,500", "1.00 MB"},
        {123456789, "123,456,789", "123 MB"},
        {UINT64_MAX, "18,446,744,073,709,551,615", "18.4 EB"},
    };
    char text[LS_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_str_eq(ls_number_text(cases[i].number, text), cases[i].text);
        ck_assert_str_eq(ls_bytes_text(cases[i].number, text), cases[i].bytes);
    }
}
END_TEST

START_TEST(counts)
{
    char text[LS_NUMBER_TEXT];
    ck_assert_str_eq(ls_count_text(0, "layout", text), "0 layouts");
    ck_assert_str_eq(ls_count_text(1, "layout", text), "1 layout");
    ck_assert_str_eq(ls_count_text(1234, "step", text), "1234 steps");
}
END_TEST

START_TEST(times)
{
    static const struct {
        uint64_t ns;
        const char *left, *spent;
    } cases[] = {
        {0, "0 s", "0.00 s"},
        {499999999, "0 s", "0.50 s"},
        {500000000, "1 s", "0.50 s"},
        {9994000000, "10 s", "9.99 s"},
        {9996000000, "10 s", "10.0 s"},
        {59900000000, "1 min 00 s", "59.9 s"},
        {61000000000, "1 min 01 s", "1 min 01 s"},
        {3599400000000, "59 min 59 s", "59 min 59 s"},
        {3600000000000, "1 h 00 min", "1 h 00 min"},
        {360000000000000, "100 h 00 min", "100 h 00 min"},
    };
    char text[LS_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_progress_time(cases[i].ns, text, sizeof text);
        ck_assert_str_eq(text, cases[i].left);
        ck_assert_str_eq(ls_duration_text(cases[i].ns, text), cases[i].spent);
    }
}
END_TEST

START_TEST(tables)
{
    ls_text_table *table = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    ck_assert_int_eq(ls_text_table_create(&table, 3), LS_OK);
    static const char *const cells[] = {"rank", "bytes", "n", "0", "1,234,567", "3", "10", "", "4"};
    for (size_t i = 0; i < 9; i++)
        ck_assert_int_eq(ls_text_table_add(table, "%s", cells[i]), LS_OK);
    ck_assert_int_eq(ls_text_table_add(table, "an unfinished row"), LS_OK);
    ls_text_table_print(table, file);
    fclose(file);
    ck_assert_str_eq(text, "rank      bytes  n\n"
                           "0     1,234,567  3\n"
                           "10               4\n");
    free(text);
    ls_text_table_destroy(&table);
    ck_assert_ptr_null(table);
    ls_text_table_destroy(&table);
}
END_TEST

/* What is no terminal gets nothing of the progress line. */
START_TEST(silence)
{
    FILE *file = tmpfile();
    ls_progress progress;
    ck_assert_ptr_nonnull(file);
    ls_progress_begin(&progress, file, 3);
    for (int i = 0; i < 5; i++) ls_progress_advance(&progress, 1, "step");
    ls_progress_clear(&progress);
    ck_assert_int_eq(ftell(file), 0);
    ck_assert_uint_eq(progress.done, 3);
    fclose(file);
}
END_TEST

int main(void)
{
    TCase *all = test_case("all", 0);
    tcase_add_test(all, numbers);
    tcase_add_test(all, times);
    tcase_add_test(all, counts);
    tcase_add_test(all, tables);
    tcase_add_test(all, silence);
    return run_tests();
}
