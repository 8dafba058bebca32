/* run_tests.h - the end of every test program, and what all of them share.
 *
 *     int main(void)
 *     {
 *         TCase *tests = test_case("trees", 60);
 *         tcase_add_test(tests, a_promise);
 *         tcase_add_loop_test(tests, one_per_row, 0, COUNT(rows));
 *         return run_tests();
 *     }
 *
 * Tests run in forked processes (Check's default); CK_VERBOSITY=verbose lists each. */
#ifndef TEST_RUN_TESTS_H
#define TEST_RUN_TESTS_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lockstep/base/status.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* 77: meson's exit status for a program that skips all. */
enum { TESTS_SKIPPED = 77, SKIPPED_MOST = 64 };

/* What was skipped, in memory that the forked tests share. */
typedef struct skipped_tests {
    int count; /* lines of text */
    int whole; /* tests that ran and said nothing */
    char text[SKIPPED_MOST][160];
} skipped_tests;

static Suite *test_suite;
static skipped_tests *test_skips;

/* Further tests of the program, under a name; seconds: how long one may take, 0: Check's 4. */
static inline TCase *test_case(const char *name, int seconds)
{
    TCase *tests = tcase_create(name);
    if (!test_suite) test_suite = suite_create(name);
    if (!test_skips)
        test_skips = mmap(NULL, sizeof *test_skips, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (test_skips == MAP_FAILED) abort();
    if (seconds > 0) tcase_set_timeout(tests, seconds);
    suite_add_tcase(test_suite, tests);
    return tests;
}

/* Runs them: the program's exit status, 77 when all were skipped. */
static inline int run_tests(void)
{
    SRunner *runner = srunner_create(test_suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner), run = srunner_ntests_run(runner);
    srunner_free(runner);
    for (int i = 0; i < test_skips->count; i++)
        printf("skipped: %s\n", i < SKIPPED_MOST ? test_skips->text[i] : "one more");
    if (failed > 0) return EXIT_FAILURE;
    return test_skips->whole == run ? TESTS_SKIPPED : EXIT_SUCCESS;
}

/* In main: a test that this build does not have. */
static inline void note_skip(const char *test, const char *why)
{
    const int at = __atomic_fetch_add(&test_skips->count, 1, __ATOMIC_RELAXED);
    if (at < SKIPPED_MOST)
        snprintf(test_skips->text[at], sizeof test_skips->text[at], "%s: %s", test, why);
}

/* As Check shows a test, name:iteration; Check's function may be named NAME_fn. */
static inline void note_skip_of(const char *function, int iteration, const char *why)
{
    const size_t length = strlen(function);
    const size_t suffix = length > 3 && strcmp(function + length - 3, "_fn") == 0 ? 3 : 0;
    char test[100];
    snprintf(test, sizeof test, "%.*s:%d", (int)(length - suffix), function, iteration);
    note_skip(test, why);
}

/* In a test: a part of it says nothing in this build; the rest runs. */
#define SKIP_PART(why) note_skip_of(__func__, _i, "in part, " why)

/* In a test: it says nothing in this build, which is not the same as that it passes. */
#define SKIP_TEST(why)                                                                             \
    do {                                                                                           \
        note_skip_of(__func__, _i, why);                                                           \
        __atomic_fetch_add(&test_skips->whole, 1, __ATOMIC_RELAXED);                               \
        return;                                                                                    \
    } while (0)

static inline void expect_ok(ls_status status)
{
    ck_assert_msg(status == LS_OK, "%s", ls_error_text());
}

#endif
