/* Failure records: written where a failure begins and kept where it is passed on, one per thread, a
 * text is always one line. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error_record.h"
#include "lockstep/base/status.h"
#include "run_tests.h"

static ls_status fails(int line_of_caller)
{
    ls_status status = LS_OK;
    LS_FAIL(LS_ERR_INPUT, "--seq %d: a sequence has at least one token", line_of_caller);
exit:
    return status;
}

static ls_status passes_on(void)
{
    ls_status status = LS_OK;
    LS_TRY(fails(0));
    ck_abort_msg("not reached");
exit:
    return status;
}

/* Handles one failure and then meets another. */
static ls_status goes_on(void)
{
    ls_status status = LS_OK;
    if (fails(1) != LS_OK) LS_TRY(fails(2));
exit:
    return status;
}

START_TEST(text_is_that_of_the_last_failure)
{
    ls_error_clear();
    ck_assert_str_eq(ls_error_text(), "");
    ck_assert_str_eq(ls_error_place(), "");
    ck_assert_int_eq(passes_on(), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--seq 0: a sequence has at least one token");
    ck_assert_ptr_nonnull(strstr(ls_error_place(), "test_status.c:"));
    ck_assert_ptr_null(strchr(ls_error_place(), '/'));
    ck_assert_int_eq(goes_on(), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "--seq 2: a sequence has at least one token");
    ls_error_clear();
    ck_assert_str_eq(ls_error_text(), "");
    ck_assert_str_eq(ls_error_place(), "");
    ls_error_record(LS_ERR_MEMORY, "first.c", 6, "first");
    ck_assert_int_eq(ls_error_record(LS_OK, "none.c", 1, "no failure"), LS_OK);
    ck_assert_str_eq(ls_error_text(), "first");
    ls_error_record(LS_ERR_IO, "weights.c", 7, "second");
    ck_assert_str_eq(ls_error_text(), "second");
    ck_assert_str_eq(ls_error_place(), "weights.c:7");
    ck_assert_int_eq(ls_error_current()->status, LS_ERR_IO);
}
END_TEST

/* A text made of the one before, a record adopted from itself. */
START_TEST(record_may_be_its_own_source)
{
    ls_error_record(LS_ERR_IO, "a.c", 1, "cannot read");
    ls_error_record(LS_ERR_INPUT, "b.c", 2, "weights: %s", ls_error_text());
    ck_assert_str_eq(ls_error_text(), "weights: cannot read");
    ck_assert_int_eq(ls_error_adopt(ls_error_current(), "rank 1: "), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "rank 1: weights: cannot read");
    ck_assert_str_eq(ls_error_place(), "b.c:2");
}
END_TEST

START_TEST(text_is_one_line)
{
    ls_error_clear();
    ls_error_record(LS_ERR_IO, "a.c", 1, "cannot open '%s'", "na\nme\x1b[2J\r\x7f\xc3\xa9");
    ck_assert_str_eq(ls_error_text(), "cannot open 'na?me?[2J??\xc3\xa9'");
}
END_TEST

START_TEST(long_text_ends_in_dots)
{
    static char name[5000];
    memset(name, 'x', sizeof name - 1);
    ls_error_clear();
    ls_error_record(LS_ERR_IO, name, 1, "%s", name);
    size_t length = strlen(ls_error_text());
    ck_assert_uint_eq(length, LS_ERROR_TEXT_BYTES - 1);
    ck_assert_str_eq(ls_error_text() + length - 4, "x...");
    ck_assert_uint_lt(strlen(ls_error_place()), LS_ERROR_PLACE_BYTES);

    /* A text that just fits keeps its end. */
    ls_error_clear();
    name[LS_ERROR_TEXT_BYTES - 1] = '\0';
    ls_error_record(LS_ERR_IO, "a.c", 1, "%s", name);
    ck_assert_str_eq(ls_error_text(), name);
}
END_TEST

static void *fail_elsewhere(void *ret_error)
{
    ls_error_clear();
    fails(3);
    memcpy(ret_error, ls_error_current(), sizeof(ls_error));
    return NULL;
}

START_TEST(record_belongs_to_a_thread)
{
    ls_error theirs;
    pthread_t thread;
    ls_error_clear();
    ck_assert_int_eq(pthread_create(&thread, NULL, fail_elsewhere, &theirs), 0);
    pthread_join(thread, NULL);
    ck_assert_str_eq(ls_error_text(), "");
    ck_assert_str_eq(theirs.text, "--seq 3: a sequence has at least one token");

    ck_assert_int_eq(ls_error_adopt(&theirs, "rank 3: "), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "rank 3: --seq 3: a sequence has at least one token");
    ck_assert_str_eq(ls_error_place(), theirs.place);
    ck_assert_int_eq(ls_error_adopt(&theirs, "rank 4: "), LS_ERR_INPUT);
    ck_assert_str_eq(ls_error_text(), "rank 4: --seq 3: a sequence has at least one token");
}
END_TEST

/* What a failure named becomes what the user named, wherever it is. */
START_TEST(names_are_exchanged)
{
    ls_error_clear();
    ls_error_rename("a", "b");
    ck_assert_str_eq(ls_error_text(), "");
    ls_error_record(LS_ERR_IO, "x.c", 1, "/tmp/.hidden\\\\1/x: cannot; in /tmp/.hidden\\\\1");
    ls_error_rename("", "b");
    ls_error_rename("/tmp/.hidden\\1", "mine\n"); /* shown: a backslash is two, a line end \x0a */
    ck_assert_str_eq(ls_error_text(), "mine\\x0a/x: cannot; in mine\\x0a");
    ls_error_rename("other", "b");
    ck_assert_str_eq(ls_error_text(), "mine\\x0a/x: cannot; in mine\\x0a");

    char longer[400], wide[512];
    memset(longer, 'l', 399);
    longer[399] = '\0';
    memset(wide, 's', 511);
    wide[511] = '\0';
    ls_error_clear();
    ls_error_record(LS_ERR_IO, "x.c", 1, "%s at %s at %s at %s", "s", "s", "s", wide);
    ls_error_rename("s", longer);
    ck_assert_uint_eq(strlen(ls_error_text()), LS_ERROR_TEXT_BYTES - 1);
    ck_assert_str_eq(ls_error_text() + LS_ERROR_TEXT_BYTES - 4, "...");
    ls_error_clear();
}
END_TEST

START_TEST(exit_codes)
{
    ck_assert_int_eq(ls_exit_code(LS_OK), 0);
    ck_assert_int_eq(ls_exit_code(LS_DIFFERENT), 1);
    ck_assert_int_eq(ls_exit_code(LS_ERR_INPUT), 2);
    ck_assert_int_eq(ls_exit_code(LS_ERR_MEMORY), 2);
    ck_assert_int_eq(ls_exit_code(LS_ERR_IO), 2);
    ck_assert_int_eq(ls_exit_code(LS_ERR_RANK), 3);
    ck_assert_int_eq(ls_exit_code(LS_ERR_ABORTED), 3);
    ck_assert_int_eq(ls_exit_code(LS_ERR_INTERRUPTED), 130);
}
END_TEST

int main(void)
{
    TCase *tcase = test_case("status", 0);
    tcase_add_test(tcase, text_is_that_of_the_last_failure);
    tcase_add_test(tcase, record_may_be_its_own_source);
    tcase_add_test(tcase, text_is_one_line);
    tcase_add_test(tcase, long_text_ends_in_dots);
    tcase_add_test(tcase, record_belongs_to_a_thread);
    tcase_add_test(tcase, names_are_exchanged);
    tcase_add_test(tcase, exit_codes);
    return run_tests();
}
